package kms

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// TransitConfig says where a Vault or OpenBao is and which key of its transit engine wraps.
type TransitConfig struct {
	// Address is https://host:port. http is taken for loopback only, where an agent may listen.
	Address string
	// Mount is where the engine is mounted; "transit" if empty.
	Mount string
	// Key is the name of an aes256-gcm96 key that is not derived. It is never made by us.
	Key string
	// Namespace is sent along if it is set.
	Namespace string
	// Token or TokenFile, not both. The file is read for every call, because an agent renews it.
	Token     secret.String
	TokenFile string
	// RootsFile has the certificates to trust, as PEM; the system's if empty.
	RootsFile string
	// Timeout bounds each call of Wrap, Unwrap and Check as a whole; 5 s if zero.
	Timeout time.Duration
}

// Transit wraps with a key in Vault or OpenBao. The token needs "update" on encrypt/<key> and decrypt/<key>.
type Transit struct {
	id      string
	timeout time.Duration
	client  transitClient
	// bound is set once the server has shown that it heeds associated data.
	bound atomic.Bool
}

var (
	errForgets = errors.New("it does not give back what it was given to wrap; look at the key's settings")
	errUnbound = errors.New("it ignores associated_data, so a wrapped key could be moved to another org; use a newer server and an aes256-gcm96 key")
)

// OpenTransit checks the settings. It does not wait for the server: a node starts while it is away.
func OpenTransit(c TransitConfig) (*Transit, error) {
	if c.Mount == "" {
		c.Mount = "transit"
	}
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	client, err := newTransitClient(c)
	if err != nil {
		return nil, err
	}
	return &Transit{id: "transit:" + c.Mount + "/" + c.Key, timeout: c.Timeout, client: client}, nil
}

// Close lets go of idle connections.
func (t *Transit) Close() { t.client.http.CloseIdleConnections() }

// ID implements Wrapper.
func (t *Transit) ID() string { return t.id }

// Wrap implements Wrapper. The first one checks the server: an old one would drop the associated data without a word.
func (t *Transit) Wrap(ctx context.Context, key secret.String, aad []byte) (Wrapped, error) {
	if err := checkWrap(key, aad); err != nil {
		return Wrapped{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	if !t.bound.Load() {
		if _, err := t.prove(ctx); err != nil {
			return Wrapped{}, unavailable("wrap a key", t.id, err)
		}
	}
	wrapped, err := t.encrypt(ctx, key, aad)
	if err != nil {
		return Wrapped{}, unavailable("wrap a key", t.id, err)
	}
	return wrapped, nil
}

// Unwrap implements Wrapper.
func (t *Transit) Unwrap(ctx context.Context, wrapped Wrapped, aad []byte) (secret.String, error) {
	// The server reads version 0 as 1, so there would be two forms of one wrapped key.
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

// Check implements Wrapper: it wraps and unwraps a key, and sees that other associated data do not unwrap it.
func (t *Transit) Check(ctx context.Context) (Ref, error) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	ref, err := t.prove(ctx)
	if err != nil {
		return Ref{}, unavailable("check", t.id, err)
	}
	return ref, nil
}

func (t *Transit) prove(ctx context.Context) (Ref, error) {
	probe, aad := secret.New(rand.Text()), []byte("stagedoor check")
	wrapped, err := t.encrypt(ctx, probe, aad)
	if err != nil {
		return Ref{}, err
	}
	back, err := t.decrypt(ctx, wrapped, aad)
	switch {
	case errors.Is(err, ErrCorrupt), err == nil && !back.Equal(probe):
		return Ref{}, errForgets
	case err != nil:
		return Ref{}, err
	}
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
	answer, err := t.client.call(ctx, "encrypt", transitRequest{
		Plaintext:      base64.StdEncoding.EncodeToString([]byte(key.Reveal())),
		AssociatedData: base64.StdEncoding.EncodeToString(aad),
	})
	if err != nil {
		return Wrapped{}, err
	}
	version, ciphertext, err := parseTransit(answer.Data.Ciphertext)
	if err != nil {
		return Wrapped{}, err
	}
	return Wrapped{Key: Ref{ID: t.id, Version: version}, Ciphertext: ciphertext}, nil
}

func (t *Transit) decrypt(ctx context.Context, wrapped Wrapped, aad []byte) (secret.String, error) {
	answer, err := t.client.call(ctx, "decrypt", transitRequest{
		Ciphertext:     formatTransit(wrapped.Key.Version, wrapped.Ciphertext),
		AssociatedData: base64.StdEncoding.EncodeToString(aad),
	})
	if refused, ok := errors.AsType[*refusal](err); ok && refused.blamesCiphertext() {
		return secret.String{}, ErrCorrupt
	}
	if err != nil {
		return secret.String{}, err
	}
	plain, err := base64.StdEncoding.DecodeString(answer.Data.Plaintext)
	if err != nil || len(plain) == 0 {
		return secret.String{}, errAnswer
	}
	defer clear(plain)
	return secret.New(string(plain)), nil
}
