package kms

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// TransitConfig names a Vault or OpenBao server and a key of its transit engine.
type TransitConfig struct {
	// Address is https://host:port. http is allowed only for loopback, where an agent may listen.
	Address string
	// Mount is the path of the engine. Default: "transit".
	Mount string
	// Key is the name of an aes256-gcm96 key that is not derived. This package never creates it.
	Key string
	// Namespace is sent with every request if it is set.
	Namespace string
	// Exactly one of Token and TokenFile must be set. The file is read for every call, because an agent renews it.
	Token     secret.String
	TokenFile string
	// RootsFile has the trusted root certificates as PEM. Default: those of the system.
	RootsFile string
	// Timeout bounds each call of Wrap, Unwrap and Check as a whole. Default: 5 s.
	Timeout time.Duration
}

// Transit wraps with a key in Vault or OpenBao. The token needs "update" on encrypt/<key> and decrypt/<key>.
type Transit struct {
	id      string
	timeout time.Duration
	client  transitClient
	// bound is set when the server has proved that it authenticates associated data.
	bound atomic.Bool
}

var (
	errLost    = errors.New("the service does not return the key that it wrapped; check the settings of the key")
	errUnbound = errors.New("the server ignores associated_data, so a wrapped key could be moved to another organisation; use a newer server and an aes256-gcm96 key")
)

// OpenTransit checks the settings. It does not contact the server, so a node can start while it is down.
func OpenTransit(c TransitConfig) (*Transit, error) {
	c.Mount = cmp.Or(c.Mount, "transit")
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	if err := c.check(); err != nil {
		return nil, err
	}
	client, err := newTransitClient(c)
	if err != nil {
		return nil, err
	}
	return &Transit{id: "transit:" + c.Mount + "/" + c.Key, timeout: c.Timeout, client: client}, nil
}

func (t *Transit) Close() { t.client.http.CloseIdleConnections() }

func (t *Transit) ID() string { return t.id }

// Wrap implements Wrapper. The first call checks the server, because old servers ignore associated data silently.
func (t *Transit) Wrap(ctx context.Context, key secret.String, aad []byte) (Wrapped, error) {
	if err := checkWrap(key, aad); err != nil {
		return Wrapped{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	if !t.bound.Load() {
		if _, err := t.proveBinding(ctx); err != nil {
			return Wrapped{}, unavailable("wrap a key", t.id, err)
		}
	}
	wrapped, err := t.encrypt(ctx, key, aad)
	if err != nil {
		return Wrapped{}, unavailable("wrap a key", t.id, err)
	}
	return wrapped, nil
}

func (t *Transit) Unwrap(ctx context.Context, wrapped Wrapped, aad []byte) (secret.String, error) {
	// The server treats version 0 as 1, so a wrapped key would have two forms.
	if wrapped.Key.ID != t.id || wrapped.Key.Version == 0 || len(aad) == 0 || len(wrapped.Ciphertext) == 0 {
		return secret.String{}, ErrCorrupt
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	key, err := t.decrypt(ctx, wrapped, aad)
	switch {
	case errors.Is(err, ErrCorrupt):
		return secret.String{}, ErrCorrupt
	case err != nil:
		return secret.String{}, unavailable("unwrap a key", t.id, err)
	}
	return key, nil
}

// Check implements Wrapper. It wraps and unwraps a random key, and verifies that other associated data does not
// unwrap it.
func (t *Transit) Check(ctx context.Context) (Ref, error) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	ref, err := t.proveBinding(ctx)
	if err != nil {
		return Ref{}, unavailable("check", t.id, err)
	}
	return ref, nil
}

// proveBinding does what Check describes, and sets bound.
func (t *Transit) proveBinding(ctx context.Context) (Ref, error) {
	probe, aad := secret.New(rand.Text()), []byte("stagedoor check")
	wrapped, err := t.encrypt(ctx, probe, aad)
	if err != nil {
		return Ref{}, err
	}
	back, err := t.decrypt(ctx, wrapped, aad)
	switch {
	case errors.Is(err, ErrCorrupt), err == nil && !back.Equal(probe):
		return Ref{}, errLost
	case err != nil:
		return Ref{}, err
	}
	// The server must reject other associated data. If it does not, it ignores associated data.
	_, err = t.decrypt(ctx, wrapped, slices.Concat(aad, []byte(", another")))
	switch {
	case err == nil:
		t.bound.Store(false)
		return Ref{}, errUnbound
	case !errors.Is(err, ErrCorrupt):
		return Ref{}, err
	}
	t.bound.Store(true)
	return wrapped.Key, nil
}

func (t *Transit) encrypt(ctx context.Context, key secret.String, aad []byte) (Wrapped, error) {
	response, err := t.client.call(ctx, "encrypt", transitRequest{
		Plaintext:      base64.StdEncoding.EncodeToString([]byte(key.Reveal())),
		AssociatedData: base64.StdEncoding.EncodeToString(aad),
	})
	if err != nil {
		return Wrapped{}, err
	}
	version, ciphertext, err := parseTransit(response.Data.Ciphertext)
	if err != nil {
		return Wrapped{}, err
	}
	return Wrapped{Key: Ref{ID: t.id, Version: version}, Ciphertext: ciphertext}, nil
}

func (t *Transit) decrypt(ctx context.Context, wrapped Wrapped, aad []byte) (secret.String, error) {
	response, err := t.client.call(ctx, "decrypt", transitRequest{
		Ciphertext:     formatTransit(wrapped.Key.Version, wrapped.Ciphertext),
		AssociatedData: base64.StdEncoding.EncodeToString(aad),
	})
	if refused, ok := errors.AsType[*refusal](err); ok && refused.blamesCiphertext() {
		return secret.String{}, ErrCorrupt
	}
	if err != nil {
		return secret.String{}, err
	}
	plain, err := base64.StdEncoding.DecodeString(response.Data.Plaintext)
	if err != nil || len(plain) == 0 {
		return secret.String{}, errResponse
	}
	defer clear(plain)
	return secret.New(string(plain)), nil
}
