// Package kmstest says what every adapter of package kms must do, as tests, and has a transit engine to run them against.
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

// Service is a key management service of one test alone.
type Service struct {
	// Open gives an adapter; two share nothing but the service, as two nodes do.
	Open func(testing.TB) kms.Wrapper
	// Rotate adds a version to the key.
	Rotate func(testing.TB)
	// Away makes calls on the service hang from now on, and gives an adapter with a short time-out. It is nil if the
	// adapter holds the key itself.
	Away func(testing.TB) kms.Wrapper
}

// plain is looked for in errors.
const plain = "the-plaintext-of-an-org-key-0123"

// patience is far longer than any adapter's time-out.
const patience = 20 * time.Second

var aad = []byte("sd1|us|org_1")

// Run runs all of it, each test with a service of its own.
func Run(t *testing.T, service func(testing.TB) Service) {
	t.Helper()
	tests := map[string]func(*testing.T, Service){
		"what one node wraps another unwraps":          testRoundTrip,
		"keys of any bytes and size can be wrapped":    testSizes,
		"a key is never wrapped into the same bytes":   testFresh,
		"what cannot be wrapped is refused":            testRefused,
		"other associated data do not unwrap":          testOtherAAD,
		"every flipped bit is noticed":                 testFlips,
		"what was cut or extended is noticed":          testCuts,
		"an unknown version or key is corrupt":         testUnknown,
		"old versions are read after a rotation":       testRotation,
		"rewrapping moves a key to the newest version": testRewrap,
		"many may use it during rotations":             testConcurrency,
		"a cancelled context ends a call":              testCancelled,
		"a service that hangs is unavailable in time":  testAway,
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
		t.Error("the wrapped key shows the key")
	}
	parsed, err := kms.ParseWrapped(stored)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, other, parsed, plain)
	ref, err := other.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ref != wrapped.Key || ref.ID == "" || ref.ID != one.ID() {
		t.Errorf("Check says %v, a key was wrapped with %v by %s", ref, wrapped.Key, one.ID())
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
		expect(t, w, wrapped, key)
	}
}

func testFresh(t *testing.T, s Service) {
	t.Helper()
	w := s.Open(t)
	if bytes.Equal(wrap(t, w, plain).Ciphertext, wrap(t, w, plain).Ciphertext) {
		t.Error("two wraps of one key are equal")
	}
}

func testRefused(t *testing.T, s Service) {
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
			t.Errorf("%s: %v; want an error of the caller's", name, err)
		}
		silent(t, err)
	}
}

func testOtherAAD(t *testing.T, s Service) {
	t.Helper()
	w := s.Open(t)
	wrapped := wrap(t, w, plain)
	for _, other := range [][]byte{nil, {}, aad[:len(aad)-1], append(slices.Clone(aad), 0), []byte("sd1|us|org_2"), []byte("sd1|uk|org_1")} {
		corrupt(t, w, wrapped, other)
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
		corruptStored(t, w, flipped)
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
		corruptStored(t, w, stored[:size])
	}
	corruptStored(t, w, append(slices.Clone(stored), 0))
	corruptStored(t, w, append(slices.Clone(stored), stored...))
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
		corrupt(t, w, kms.Wrapped{Key: ref, Ciphertext: wrapped.Ciphertext}, aad)
	}
	corrupt(t, w, kms.Wrapped{Key: wrapped.Key}, aad)
	corrupt(t, w, kms.Wrapped{}, aad)
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
		t.Errorf("wrapped with %v before and %v after the rotation", old.Key, recent.Key)
	}
	for _, w := range []kms.Wrapper{before, after} {
		expect(t, w, old, plain)
		expect(t, w, recent, plain)
		if ref, err := w.Check(t.Context()); err != nil || ref != recent.Key {
			t.Errorf("Check says %v, %v; want %v", ref, err, recent.Key)
		}
	}
	if again := wrap(t, before, plain); again.Key != recent.Key {
		t.Errorf("a node that has checked still wraps with %v", again.Key)
	}
}

func testRewrap(t *testing.T, s Service) {
	t.Helper()
	old := wrap(t, s.Open(t), plain)
	s.Rotate(t)
	w := s.Open(t)
	moved, err := kms.Rewrap(t.Context(), w, old, aad)
	if err != nil {
		t.Fatal(err)
	}
	if moved.Key == old.Key {
		t.Error("the key was not moved")
	}
	expect(t, w, moved, plain)
	if _, err := kms.Rewrap(t.Context(), w, old, []byte("another org")); !errors.Is(err, kms.ErrCorrupt) {
		t.Errorf("a key was rewrapped for another org: %v", err)
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
				expect(t, nodes[(i+1)%2], wrapped, plain)
				expect(t, nodes[i%2], first, plain)
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
	for _, err := range each(ctx, w, wrapped) {
		if !errors.Is(err, kms.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		silent(t, err)
	}
}

func testAway(t *testing.T, s Service) {
	t.Helper()
	if s.Away == nil {
		return // an adapter that holds the key has nobody to wait for
	}
	wrapped := wrap(t, s.Open(t), plain)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, err := range each(ctx, s.Away(t), wrapped) {
		if !errors.Is(err, kms.ErrUnavailable) || errors.Is(err, kms.ErrCorrupt) {
			t.Errorf("got %v", err)
		}
		silent(t, err)
	}
	if ctx.Err() != nil {
		t.Error("the adapter has no time-out of its own")
	}
}

// each gives the errors of all that an adapter can do.
func each(ctx context.Context, w kms.Wrapper, wrapped kms.Wrapped) []error {
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

// expect may be called by any goroutine.
func expect(t testing.TB, w kms.Wrapper, wrapped kms.Wrapped, key string) {
	t.Helper()
	got, err := w.Unwrap(t.Context(), wrapped, aad)
	if err != nil {
		t.Errorf("unwrap what was wrapped with %v: %v", wrapped.Key, err)
	} else if got.Reveal() != key {
		t.Error("another key came back")
	}
}

func corruptStored(t testing.TB, w kms.Wrapper, stored []byte) {
	t.Helper()
	wrapped, err := kms.ParseWrapped(stored)
	if err == nil {
		corrupt(t, w, wrapped, aad)
	} else if err != kms.ErrCorrupt { //nolint:errorlint // it must be the very error, with nothing around it
		t.Errorf("parse %x: %v", stored, err)
	}
}

// corrupt wants ErrCorrupt itself: anything around it could tell which check failed.
func corrupt(t testing.TB, w kms.Wrapper, wrapped kms.Wrapped, aad []byte) {
	t.Helper()
	key, err := w.Unwrap(t.Context(), wrapped, aad)
	if err != kms.ErrCorrupt { //nolint:errorlint // it must be the very error, with nothing around it
		t.Errorf("unwrap %v %x: %v", wrapped.Key, wrapped.Ciphertext, err)
	}
	if !key.Empty() {
		t.Error("a key came back with the error")
	}
}

// silent wants no error to show the key.
func silent(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		t.Error("there is no error")
		return
	}
	for _, form := range []string{plain, hex.EncodeToString([]byte(plain)), base64.StdEncoding.EncodeToString([]byte(plain))} {
		if strings.Contains(err.Error(), form) {
			t.Errorf("the error shows the key: %v", err)
		}
	}
}
