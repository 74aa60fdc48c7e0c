// Package kmstest has the tests that every adapter of package kms must pass, and servers that imitate a transit engine,
// AWS KMS and Google Cloud KMS. Start with Run.
package kmstest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
)

// Service is a key management service for one test.
type Service struct {
	// Open makes an adapter. Two adapters share nothing but the service, like two nodes.
	Open func(testing.TB) kms.Wrapper
	// Rotate adds a version to the key.
	Rotate func(testing.TB)
	// Hang makes all further calls of the service hang, and returns an adapter with a short timeout. It is nil if the
	// adapter holds the key itself.
	Hang func(testing.TB) kms.Wrapper
}

// plain is the key that the tests wrap. Errors must not contain it.
const plain = "the-plaintext-of-an-org-key-0123"

// patience is much longer than the timeout of any adapter.
const patience = 20 * time.Second

var aad = []byte("sd1|us|org_1")

// Run runs the tests, each with its own service.
func Run(t *testing.T, service func(testing.TB) Service) {
	t.Helper()
	tests := map[string]func(*testing.T, Service){
		"one node unwraps what another wrapped":      testRoundTrip,
		"keys of any bytes and size can be wrapped":  testSizes,
		"a key is never wrapped into the same bytes": testFresh,
		"invalid arguments are rejected":             testInvalid,
		"other associated data does not unwrap":      testOtherAAD,
		"every flipped bit is noticed":               testFlips,
		"truncation and extension are noticed":       testCuts,
		"an unknown version or key is corrupt":       testUnknown,
		"old versions are readable after a rotation": testRotation,
		"concurrent use during rotations works":      testConcurrency,
		"a cancelled context ends a call":            testCancelled,
		"a hanging service is unavailable in time":   testHang,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, service(t))
		})
	}
}

func testRoundTrip(t *testing.T, s Service) {
	t.Helper()
	one, other := s.Open(t), s.Open(t)
	wrapped := wrap(t, one, plain)
	stored, err := wrapped.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(stored, []byte(plain)) {
		t.Error("the wrapped key contains the key")
	}
	parsed, err := kms.ParseWrapped(stored)
	if err != nil {
		t.Fatal(err)
	}
	expectKey(t, other, parsed, plain)
	ref, err := other.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ref != wrapped.Key || ref.ID == "" || ref.ID != one.ID() {
		t.Errorf("Check returns %v, but a key was wrapped with %v by %s", ref, wrapped.Key, one.ID())
	}
}

func testSizes(t *testing.T, s Service) {
	t.Helper()
	w := s.Open(t)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, key := range []string{"k", "\x00", string(every), strings.Repeat("k", kms.MaxKey)} {
		wrapped := wrap(t, w, key)
		if _, err := wrapped.Encode(); err != nil {
			t.Error(err)
		}
		expectKey(t, w, wrapped, key)
	}
}

func testFresh(t *testing.T, s Service) {
	t.Helper()
	w := s.Open(t)
	if bytes.Equal(wrap(t, w, plain).Ciphertext, wrap(t, w, plain).Ciphertext) {
		t.Error("wrapping a key twice gives the same bytes")
	}
}

func testInvalid(t *testing.T, s Service) {
	t.Helper()
	w := s.Open(t)
	for name, bad := range map[string]struct {
		key string
		aad []byte
	}{
		"no key":             {"", aad},
		"too large":          {strings.Repeat(plain, kms.MaxKey/len(plain)+1), aad},
		"no associated data": {plain, nil},
	} {
		_, err := w.Wrap(t.Context(), secret.New(bad.key), bad.aad)
		if err == nil || errors.Is(err, kms.ErrUnavailable) || errors.Is(err, kms.ErrCorrupt) {
			t.Errorf("%s: %v; want an error that is neither ErrUnavailable nor ErrCorrupt", name, err)
		}
		expectSecretFree(t, err)
	}
}

func testOtherAAD(t *testing.T, s Service) {
	t.Helper()
	w := s.Open(t)
	wrapped := wrap(t, w, plain)
	for _, other := range [][]byte{nil, {}, aad[:len(aad)-1], append(slices.Clone(aad), 0), []byte("sd1|us|org_2"), []byte("sd1|uk|org_1")} {
		expectCorrupt(t, w, wrapped, other)
	}
}

func testFlips(t *testing.T, s Service) {
	t.Helper()
	w := s.Open(t)
	stored, err := wrap(t, w, plain).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(stored) * 8 {
		flipped := slices.Clone(stored)
		flipped[bit/8] ^= 1 << (bit % 8)
		expectStoredCorrupt(t, w, flipped)
	}
}

func testCuts(t *testing.T, s Service) {
	t.Helper()
	w := s.Open(t)
	stored, err := wrap(t, w, plain).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for size := range len(stored) {
		expectStoredCorrupt(t, w, stored[:size])
	}
	expectStoredCorrupt(t, w, append(slices.Clone(stored), 0))
	expectStoredCorrupt(t, w, append(slices.Clone(stored), stored...))
}

func testUnknown(t *testing.T, s Service) {
	t.Helper()
	w := s.Open(t)
	wrapped := wrap(t, w, plain)
	for _, ref := range []kms.Ref{
		{ID: wrapped.Key.ID, Version: wrapped.Key.Version + 1},
		{ID: wrapped.Key.ID, Version: 0},
		{ID: wrapped.Key.ID + "2", Version: wrapped.Key.Version},
		{},
	} {
		expectCorrupt(t, w, kms.Wrapped{Key: ref, Ciphertext: wrapped.Ciphertext}, aad)
	}
	expectCorrupt(t, w, kms.Wrapped{Key: wrapped.Key}, aad)
	expectCorrupt(t, w, kms.Wrapped{}, aad)
}

func testRotation(t *testing.T, s Service) {
	t.Helper()
	before := s.Open(t)
	old := wrap(t, before, plain)
	for range 3 {
		s.Rotate(t)
	}
	after := s.Open(t)
	recent := wrap(t, after, plain)
	if recent.Key.ID != old.Key.ID || recent.Key.Version == old.Key.Version {
		t.Errorf("wrapped with %v before and %v after the rotations", old.Key, recent.Key)
	}
	for _, w := range []kms.Wrapper{before, after} {
		expectKey(t, w, old, plain)
		expectKey(t, w, recent, plain)
		if ref, err := w.Check(t.Context()); err != nil || ref != recent.Key {
			t.Errorf("Check returns %v, %v; want %v", ref, err, recent.Key)
		}
	}
	if again := wrap(t, before, plain); again.Key != recent.Key {
		t.Errorf("after Check, a node still wraps with %v", again.Key)
	}
}

func testConcurrency(t *testing.T, s Service) {
	t.Helper()
	nodes := []kms.Wrapper{s.Open(t), s.Open(t)}
	first := wrap(t, nodes[0], plain)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 25 {
				wrapped, err := nodes[i%2].Wrap(t.Context(), secret.New(plain), aad)
				if err != nil {
					t.Error(err)
					return
				}
				expectKey(t, nodes[(i+1)%2], wrapped, plain)
				expectKey(t, nodes[i%2], first, plain)
			}
		})
	}
	for range 4 {
		s.Rotate(t)
	}
	group.Wait()
}

func testCancelled(t *testing.T, s Service) {
	t.Helper()
	w := s.Open(t)
	wrapped := wrap(t, w, plain)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range allErrors(ctx, w, wrapped) {
		if !errors.Is(err, kms.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		expectSecretFree(t, err)
	}
}

func testHang(t *testing.T, s Service) {
	t.Helper()
	if s.Hang == nil {
		return
	}
	wrapped := wrap(t, s.Open(t), plain)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, err := range allErrors(ctx, s.Hang(t), wrapped) {
		if !errors.Is(err, kms.ErrUnavailable) || errors.Is(err, kms.ErrCorrupt) {
			t.Errorf("got %v", err)
		}
		expectSecretFree(t, err)
	}
	if ctx.Err() != nil {
		t.Error("the adapter has no timeout")
	}
}

// allErrors returns the errors of all methods of an adapter.
func allErrors(ctx context.Context, w kms.Wrapper, wrapped kms.Wrapped) []error {
	_, wrap := w.Wrap(ctx, secret.New(plain), aad)
	_, unwrap := w.Unwrap(ctx, wrapped, aad)
	_, check := w.Check(ctx)
	return []error{wrap, unwrap, check}
}

func wrap(t testing.TB, w kms.Wrapper, key string) kms.Wrapped {
	t.Helper()
	wrapped, err := w.Wrap(t.Context(), secret.New(key), aad)
	if err != nil {
		t.Fatal(err)
	}
	return wrapped
}

// expectKey checks that wrapped unwraps to key. It may be called from any goroutine.
func expectKey(t testing.TB, w kms.Wrapper, wrapped kms.Wrapped, key string) {
	t.Helper()
	got, err := w.Unwrap(t.Context(), wrapped, aad)
	if err != nil {
		t.Errorf("unwrap a key of %v: %v", wrapped.Key, err)
	} else if got.Reveal() != key {
		t.Error("Unwrap returned another key")
	}
}

func expectStoredCorrupt(t testing.TB, w kms.Wrapper, stored []byte) {
	t.Helper()
	wrapped, err := kms.ParseWrapped(stored)
	if err == nil {
		expectCorrupt(t, w, wrapped, aad)
	} else if err != kms.ErrCorrupt { //nolint:errorlint // it must be the error itself, not wrapped
		t.Errorf("parse %x: %v", stored, err)
	}
}

// expectCorrupt requires ErrCorrupt itself: an error that wraps it could reveal which check failed.
func expectCorrupt(t testing.TB, w kms.Wrapper, wrapped kms.Wrapped, aad []byte) {
	t.Helper()
	key, err := w.Unwrap(t.Context(), wrapped, aad)
	if err != kms.ErrCorrupt { //nolint:errorlint // it must be the error itself, not wrapped
		t.Errorf("unwrap %v %x: %v", wrapped.Key, wrapped.Ciphertext, err)
	}
	if !key.Empty() {
		t.Error("Unwrap returned a key and an error")
	}
}

// expectSecretFree checks that err does not contain the key in any form.
func expectSecretFree(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	for _, form := range []string{plain, hex.EncodeToString([]byte(plain)), base64.StdEncoding.EncodeToString([]byte(plain))} {
		if strings.Contains(err.Error(), form) {
			t.Errorf("the error contains the key: %v", err)
		}
	}
}
