package kms

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Every failure that is not the caller's own mistake is one of these two.
var (
	// ErrUnavailable means that nothing is known about the key: the service is away, slow, sealed, or refuses us.
	ErrUnavailable = errors.New("the key management service does not work for us now; try again later")
	// ErrCorrupt means that a wrapped key is not what it was, or was wrapped for something else. It is always returned
	// as it is: which check failed is told to nobody.
	ErrCorrupt = errors.New("the wrapped key is corrupt or was wrapped for something else")
)

// MaxKey is the size of the largest key that can be wrapped, in bytes.
const MaxKey = 32 << 10

// Ref names one version of one key of a service.
type Ref struct {
	// ID is the key's, such as "transit:transit/stagedoor-us".
	ID string
	// Version is the service's own number. Versions can be told apart, but a higher one need not be newer.
	Version uint32
}

// Wrapper wraps and unwraps keys with a key that never leaves the service. It may be used by many goroutines.
type Wrapper interface {
	// ID is the key's, as in the Ref of all that it wraps. It needs no service.
	ID() string
	// Wrap encrypts a key with the newest version and binds it to the associated data, which must not be empty.
	Wrap(ctx context.Context, key secret.String, aad []byte) (Wrapped, error)
	// Unwrap gives the key back if the associated data are the same. It fails with ErrCorrupt or ErrUnavailable only.
	Unwrap(ctx context.Context, wrapped Wrapped, aad []byte) (secret.String, error)
	// Check asks the service to prove that it works, and says what it wraps with now.
	Check(ctx context.Context) (Ref, error)
}

// Rewrap moves a wrapped key to the newest version of w's key.
//
// The key passes through this process. OpenBao's own rewrap takes no associated data, so it cannot read what we wrap.
func Rewrap(ctx context.Context, w Wrapper, old Wrapped, aad []byte) (Wrapped, error) {
	key, err := w.Unwrap(ctx, old, aad)
	if err != nil {
		return Wrapped{}, err
	}
	return w.Wrap(ctx, key, aad)
}

// unavailable says what could not be done, with which key and why.
func unavailable(what, id string, cause error) error {
	return fmt.Errorf("%s with %s: %w: %w", what, id, ErrUnavailable, cause)
}

// checkWrap refuses what no adapter takes.
func checkWrap(key secret.String, aad []byte) error {
	switch size := len(key.Reveal()); {
	case size == 0:
		return errors.New("wrap a key: the key is empty")
	case size > MaxKey:
		return fmt.Errorf("wrap a key: it has %d bytes; at most %d can be wrapped", size, MaxKey)
	case len(aad) == 0:
		return errors.New("wrap a key: there is no associated data; say what the key is for")
	}
	return nil
}
