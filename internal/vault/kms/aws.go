package kms

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// AWSConfig names a key of AWS KMS.
type AWSConfig struct {
	// Key is the ARN of a symmetric key, which contains the region. Aliases are rejected, because they can be changed
	// to another key.
	Key string
	// Endpoint is a private endpoint, as https://host; http is allowed only for loopback. Default: the endpoint of AWS.
	Endpoint string
	// Credentials default to those that AWS's tools use: variables, files, the role of the machine.
	Credentials aws.CredentialsProvider
	// Timeout bounds each call of Wrap and Unwrap as a whole. Default: 5 s.
	Timeout time.Duration
}

// AWS wraps with a key in AWS KMS. The role needs kms:GenerateDataKey and kms:Decrypt on the key.
type AWS struct {
	id, key string
	timeout time.Duration
	client  *awskms.Client
}

// awsKey matches the ARN of a key: partition, region, account and id.
var awsKey = regexp.MustCompile(`^arn:aws[a-z-]*:kms:([a-z0-9-]+):[0-9]{12}:key/[A-Za-z0-9-]{1,64}$`)

// awsContext is the name of the only member of the encryption context, which holds the associated data. AWS logs it in
// plain text. That is acceptable: the names of organisations are not secret.
const awsContext = "stagedoor"

// OpenAWS checks the settings. It does not contact AWS KMS, so a node can start while it is unavailable.
func OpenAWS(ctx context.Context, c AWSConfig) (*AWS, error) {
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	parts := awsKey.FindStringSubmatch(c.Key)
	switch {
	case parts == nil:
		return nil, errors.New("the AWS key must be the ARN of a key, such as arn:aws:kms:eu-west-1:111122223333:key/…")
	case c.Timeout < 0:
		return nil, errors.New("the timeout of AWS KMS is negative")
	}
	if c.Endpoint != "" {
		if err := checkAddress(c.Endpoint); err != nil {
			return nil, fmt.Errorf("the endpoint of AWS KMS: %w", err)
		}
	}
	// Keys must not pass through a proxy of the environment, which the SDK's default client would use.
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.Proxy = nil
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	})
	loaded, err := config.LoadDefaultConfig(ctx, config.WithRegion(parts[1]), config.WithHTTPClient(client),
		config.WithCredentialsProvider(c.Credentials), config.WithRetryMaxAttempts(2))
	if err != nil {
		// The cause may contain parts of the configuration.
		return nil, errors.New("cannot read the AWS configuration; check the AWS_ variables and files")
	}
	return &AWS{id: "aws:" + c.Key, key: c.Key, timeout: c.Timeout, client: awskms.NewFromConfig(loaded, func(o *awskms.Options) {
		if c.Endpoint != "" {
			o.BaseEndpoint = aws.String(c.Endpoint)
		}
	})}, nil
}

func (a *AWS) ID() string { return a.id }

func (a *AWS) Wrap(ctx context.Context, key secret.String, aad []byte) (Wrapped, error) {
	if err := checkWrap(key, aad); err != nil {
		return Wrapped{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	inner, err := a.client.GenerateDataKey(ctx, &awskms.GenerateDataKeyInput{
		KeyId: aws.String(a.key), KeySpec: types.DataKeySpecAes256, EncryptionContext: awsBinding(aad),
	})
	if err != nil {
		return Wrapped{}, unavailable("wrap a key", a.id, awsCause(ctx, err))
	}
	defer clear(inner.Plaintext)
	// The version is bound by the envelope only: AWS does not need it to decrypt.
	ref := Ref{ID: a.id, Version: awsVersion(inner.KeyMaterialId)}
	ciphertext, err := closeEnvelope(ref, inner.Plaintext, inner.CiphertextBlob, key, aad)
	if err != nil {
		return Wrapped{}, unavailable("wrap a key", a.id, err)
	}
	return Wrapped{Key: ref, Ciphertext: ciphertext}, nil
}

func (a *AWS) Unwrap(ctx context.Context, wrapped Wrapped, aad []byte) (secret.String, error) {
	innerWrapped, body, ok := splitEnvelope(wrapped.Ciphertext)
	if !ok || wrapped.Key.ID != a.id || len(aad) == 0 {
		return secret.String{}, ErrCorrupt
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	inner, err := a.client.Decrypt(ctx, &awskms.DecryptInput{
		KeyId: aws.String(a.key), CiphertextBlob: innerWrapped, EncryptionContext: awsBinding(aad),
	})
	if err != nil {
		_, invalid := errors.AsType[*types.InvalidCiphertextException](err)
		_, otherKey := errors.AsType[*types.IncorrectKeyException](err)
		if invalid || otherKey {
			return secret.String{}, ErrCorrupt
		}
		return secret.String{}, unavailable("unwrap a key", a.id, awsCause(ctx, err))
	}
	defer clear(inner.Plaintext)
	key, err := openEnvelope(wrapped.Key, inner.Plaintext, innerWrapped, body, aad)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		err = unavailable("unwrap a key", a.id, err)
	}
	return key, err
}

// Check implements Wrapper. It wraps and unwraps a random key.
func (a *AWS) Check(ctx context.Context) (Ref, error) { return roundTrip(ctx, a) }

// awsBinding returns the encryption context that binds the inner key to the associated data.
func awsBinding(aad []byte) map[string]string {
	return map[string]string{awsContext: base64.StdEncoding.EncodeToString(aad)}
}

// awsVersion derives a number from the id of the key material, which changes at each rotation. AWS has no version
// numbers.
func awsVersion(material *string) uint32 {
	sum := sha256.Sum256([]byte(aws.ToString(material)))
	return binary.BigEndian.Uint32(sum[:])
}

// awsCause returns the error code of AWS without its message, which may contain parts of the request.
func awsCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if answer, ok := errors.AsType[smithy.APIError](err); ok {
		return fmt.Errorf("AWS answered %s; check the permissions of the role, and the state and policy of the key", answer.ErrorCode())
	}
	return errors.New("cannot reach AWS, or there are no credentials; check the network and the AWS_ variables")
}

// roundTrip verifies that the service returns the key that it wrapped.
func roundTrip(ctx context.Context, w Wrapper) (Ref, error) {
	probe, aad := secret.New(rand.Text()), []byte("stagedoor check")
	wrapped, err := w.Wrap(ctx, probe, aad)
	if err != nil {
		return Ref{}, err
	}
	back, err := w.Unwrap(ctx, wrapped, aad)
	switch {
	case errors.Is(err, ErrCorrupt), err == nil && !back.Equal(probe):
		return Ref{}, unavailable("check", w.ID(), errLost)
	case err != nil:
		return Ref{}, err
	}
	return wrapped.Key, nil
}
