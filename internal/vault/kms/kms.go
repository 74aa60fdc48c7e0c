package kms

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Every failure that is not a mistake of the caller wraps one of these two.
var (
	// ErrUnavailable means that the service is down, slow or sealed, or refuses the request. It says nothing about the
	// wrapped key.
	ErrUnavailable = errors.New("the key management service is unavailable or refuses the request; try again later")
	// ErrCorrupt means that a wrapped key was changed, or was wrapped with other associated data. Adapters return it
	// unwrapped, so that an attacker does not learn which check failed.
	ErrCorrupt = errors.New("the wrapped key is corrupt or was wrapped for something else")
)

// MaxKey is the size of the largest key that can be wrapped, in bytes.
const MaxKey = 32 << 10

// Ref names one version of one key of a service.
type Ref struct {
	// ID names the service and the key, such as "transit:transit/stagedoor-us".
	ID string
	// Version is the number that the service uses. Different versions have different numbers, but a higher number need
	// not be newer.
	Version uint32
}

// Wrapper encrypts and decrypts keys with a key that never leaves the service. It is safe for concurrent use.
type Wrapper interface {
	// ID returns the id in the Ref of every key that it wraps. It does not contact the service.
	ID() string
	// Wrap encrypts a key with the newest version and binds it to the associated data, which must not be empty. The
	// result is different each time.
	Wrap(ctx context.Context, key secret.String, aad []byte) (Wrapped, error)
	// Unwrap returns the key if the associated data is the same. It fails only with ErrCorrupt or ErrUnavailable.
	Unwrap(ctx context.Context, wrapped Wrapped, aad []byte) (secret.String, error)
	// Check verifies that the service works, and returns the version that it wraps with now.
	Check(ctx context.Context) (Ref, error)
}

// unavailable returns an ErrUnavailable that names the operation, the key and the cause.
func unavailable(what, id string, cause error) error {
	return fmt.Errorf("%s with %s: %w: %w", what, id, ErrUnavailable, cause)
}

// checkWrap rejects arguments that no adapter accepts.
func checkWrap(key secret.String, aad []byte) error {
	switch size := len(key.Reveal()); {
	case size == 0:
		return errors.New("wrap a key: the key is empty")
	case size > MaxKey:
		return fmt.Errorf("wrap a key: the key has %d bytes, the maximum is %d", size, MaxKey)
	case len(aad) == 0:
		return errors.New("wrap a key: the associated data is empty")
	}
	return nil
}
