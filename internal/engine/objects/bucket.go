package objects

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// bucket keeps objects in an object store with the S3 API. Objects are small enough for one request each.
type bucket struct {
	client       *s3.Client
	name, prefix string
}

// attempts is how often a request is sent at most.
const attempts = 3

func openBucket(ctx context.Context, l location, c Config) (*bucket, error) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificates for S3: %w", err)
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate", c.CAFile)
		}
	}
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.Proxy, t.TLSClientConfig = nil, secure
	})
	options := []func(*config.LoadOptions) error{
		config.WithRegion(l.region), config.WithHTTPClient(client), config.WithRetryMaxAttempts(attempts),
	}
	if !c.SecretKey.Empty() {
		options = append(options, config.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(c.AccessKey.Reveal(), c.SecretKey.Reveal(), "")))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		// The cause may contain parts of the configuration.
		return nil, errors.New("cannot read the AWS configuration; check the AWS_ variables and files")
	}
	return &bucket{name: l.bucket, prefix: l.prefix, client: s3.NewFromConfig(loaded, func(o *s3.Options) {
		o.UsePathStyle = l.pathStyle
		if l.endpoint != "" {
			o.BaseEndpoint = aws.String(l.endpoint)
		}
		// Not all stores know the checksums that the client adds by default. Objects are sealed, so that a changed one
		// does not open.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	})}, nil
}

func (b *bucket) put(ctx context.Context, name string, body []byte) error {
	_, err := b.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.name, Key: aws.String(b.prefix + name), Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))),
	})
	return err
}

func (b *bucket) read(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	if length == 0 {
		return nil, nil // S3 has no empty range
	}
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &b.name, Key: aws.String(b.prefix + name), Range: aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)),
	})
	if _, missing := errors.AsType[*types.NoSuchKey](err); missing {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	defer out.Body.Close()
	// A store that ignores the range would send all of it.
	return io.ReadAll(io.LimitReader(out.Body, length+1))
}

func (b *bucket) list(ctx context.Context, folder string, each func([]Object) error) error {
	pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: aws.String(b.prefix + folder)})
	for pages.HasMorePages() {
		page, err := b.nextPage(ctx, pages)
		if err != nil {
			return err
		}
		found := make([]Object, len(page.Contents))
		for i, o := range page.Contents {
			found[i] = Object{strings.TrimPrefix(aws.ToString(o.Key), b.prefix), aws.ToInt64(o.Size)}
		}
		if err := each(found); err != nil {
			return err
		}
	}
	return nil
}

func (b *bucket) nextPage(ctx context.Context, pages *s3.ListObjectsV2Paginator) (*s3.ListObjectsV2Output, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return pages.NextPage(ctx)
}

func (b *bucket) remove(ctx context.Context, folder string) error {
	return b.list(ctx, folder, func(page []Object) error {
		if len(page) == 0 {
			return nil
		}
		ids := make([]types.ObjectIdentifier, len(page))
		for i, o := range page {
			ids[i].Key = aws.String(b.prefix + o.Name)
		}
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		out, err := b.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
			Bucket: &b.name, Delete: &types.Delete{Objects: ids, Quiet: aws.Bool(true)},
		})
		if err == nil && len(out.Errors) > 0 {
			err = fmt.Errorf("%d were not deleted: %s", len(out.Errors), aws.ToString(out.Errors[0].Code))
		}
		return err
	})
}

func (b *bucket) check(ctx context.Context) error {
	_, err := b.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &b.name})
	return err
}
