package kms

import (
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

// AWSConfig says which key of AWS KMS wraps.
type AWSConfig struct {
	// Key is the ARN of a symmetric key; an alias could be pointed elsewhere. The region is in it.
	Key string
	// Endpoint is for a private endpoint, as https://host; http is taken for loopback only. AWS's own if empty.
	Endpoint string
	// Credentials are looked for where AWS's tools look for them if this is nil: variables, files, the role of the machine.
	Credentials aws.CredentialsProvider
	// Timeout bounds each call of Wrap, Unwrap and Check as a whole; 5 s if zero.
	Timeout time.Duration
}

// AWS wraps with a key in AWS KMS. The role needs kms:GenerateDataKey and kms:Decrypt on the key.
type AWS struct {
	id, key string
	timeout time.Duration
	client  *awskms.Client
}

// awsKey is partition, region, account and id of a key.
var awsKey = regexp.MustCompile(`^arn:aws[a-z-]*:kms:([a-z0-9-]+):[0-9]{12}:key/[A-Za-z0-9-]{1,64}$`)

// awsContext is the one member of the encryption context. It is in AWS's log in plain text, as the names of orgs may be.
const awsContext = "stagedoor"

// OpenAWS checks the settings. It does not wait for AWS: a node starts while it is away.
func OpenAWS(ctx context.Context, c AWSConfig) (*AWS, error) {
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	parts := awsKey.FindStringSubmatch(c.Key)
	switch {
	case parts == nil:
		return nil, errors.New("the AWS key is not the ARN of a key, such as arn:aws:kms:eu-west-1:111122223333:key/…")
	case c.Timeout < 0:
		return nil, errors.New("the time-out of AWS KMS is negative")
	}
	if c.Endpoint != "" {
		if err := checkAddress(c.Endpoint); err != nil {
			return nil, fmt.Errorf("the endpoint of AWS KMS: %w", err)
		}
	}
	// Keys take no detour: the SDK's own client would use the proxies of the environment.
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.Proxy = nil
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	})
	loaded, err := config.LoadDefaultConfig(ctx, config.WithRegion(parts[1]), config.WithHTTPClient(client),
		config.WithCredentialsProvider(c.Credentials), config.WithRetryMaxAttempts(2))
	if err != nil {
		return nil, errors.New("the AWS configuration cannot be read; look at the AWS_ variables and files") // the cause may quote it
	}
	return &AWS{id: "aws:" + c.Key, key: c.Key, timeout: c.Timeout, client: awskms.NewFromConfig(loaded, func(o *awskms.Options) {
		if c.Endpoint != "" {
			o.BaseEndpoint = aws.String(c.Endpoint)
		}
	})}, nil
}

// ID implements Wrapper.
func (a *AWS) ID() string { return a.id }

// Wrap implements Wrapper.
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
	ref := Ref{ID: a.id, Version: awsVersion(inner.KeyMaterialId)}
	ciphertext, err := closeEnvelope(ref, inner.Plaintext, inner.CiphertextBlob, key, aad)
	if err != nil {
		return Wrapped{}, unavailable("wrap a key", a.id, err)
	}
	return Wrapped{Key: ref, Ciphertext: ciphertext}, nil
}

// Unwrap implements Wrapper.
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
		_, bad := errors.AsType[*types.InvalidCiphertextException](err)
		_, other := errors.AsType[*types.IncorrectKeyException](err)
		if bad || other {
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

// Check implements Wrapper: it wraps and unwraps a key.
func (a *AWS) Check(ctx context.Context) (Ref, error) { return roundTrip(ctx, a) }

func awsBinding(aad []byte) map[string]string {
	return map[string]string{awsContext: base64.StdEncoding.EncodeToString(aad)}
}

// awsVersion makes a number of the name of the key material, which AWS changes at each rotation.
func awsVersion(material *string) uint32 {
	sum := sha256.Sum256([]byte(aws.ToString(material)))
	return binary.BigEndian.Uint32(sum[:])
}

// awsCause keeps the code of AWS's answer, and of its message nothing.
func awsCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if answer, ok := errors.AsType[smithy.APIError](err); ok {
		return fmt.Errorf("AWS answered %s; look at the role's rights and at the key's state and policy", answer.ErrorCode())
	}
	return errors.New("AWS was not reached, or there are no credentials; look at the network and at the AWS_ variables")
}

// roundTrip proves that a service gives back what it was given to wrap.
func roundTrip(ctx context.Context, w Wrapper) (Ref, error) {
	probe, aad := secret.New(rand.Text()), []byte("stagedoor check")
	wrapped, err := w.Wrap(ctx, probe, aad)
	if err != nil {
		return Ref{}, err
	}
	back, err := w.Unwrap(ctx, wrapped, aad)
	switch {
	case errors.Is(err, ErrCorrupt), err == nil && !back.Equal(probe):
		return Ref{}, unavailable("check", w.ID(), errForgets)
	case err != nil:
		return Ref{}, err
	}
	return wrapped.Key, nil
}
