package kms_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
)

// What can be parsed is encoded to the same bytes: a wrapped key has exactly one form.
func FuzzParseWrapped(f *testing.F) {
	for _, w := range []kms.Wrapped{
		{Key: kms.Ref{ID: kms.LocalID, Version: 7}, Ciphertext: []byte("\x01\x00\x00\x00\x07abc")},
		{Key: kms.Ref{ID: "transit:transit/stagedoor", Version: 3}, Ciphertext: []byte("abc")},
	} {
		stored, err := w.Encode()
		must.OK(f, err)
		f.Add(stored)
	}
	f.Add([]byte{})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{1, 255, 'a'})
	f.Fuzz(func(t *testing.T, stored []byte) {
		wrapped, err := kms.ParseWrapped(stored)
		if err != nil {
			if err != kms.ErrCorrupt { //nolint:errorlint // it must be the error itself, not wrapped
				t.Fatal(err)
			}
			return
		}
		again, err := wrapped.Encode()
		if err != nil || !bytes.Equal(again, stored) {
			t.Fatalf("%x was parsed and encoded to %x, %v", stored, again, err)
		}
	})
}

// An accepted ciphertext of the transit engine is formatted to the same text.
func FuzzParseTransit(f *testing.F) {
	for _, text := range []string{"vault:v1:YWJj", "vault:v4294967295:YQ==", "vault:v0:YWJj", "vault:v01:YWJj", "vault:v+1:YWJj", "vault:v1:YR==", "vault:v1:YW\nJj", "vault:v1:", "vault:", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		version, ciphertext, err := kms.ParseTransit(text)
		if err != nil {
			return
		}
		if version == 0 || len(ciphertext) == 0 || kms.FormatTransit(version, ciphertext) != text {
			t.Fatalf("%q was accepted as version %d, %x", text, version, ciphertext)
		}
	})
}

func TestParseTransitAcceptsOneFormOnly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint32{
		"vault:v1:YWJj": 1, "vault:v3:YQ==": 3, "vault:v4294967295:YWJj": 4294967295,
		"vault:v4294967296:YWJj": 0, "vault:v0:YWJj": 0, "vault:v01:YWJj": 0, "vault:v+1:YWJj": 0, "vault:v-1:YWJj": 0,
		"vault:v1:YR==": 0, "vault:v1:YW\nJj": 0, "vault:v1:YQ": 0, "vault:v1:": 0, "vault:v1": 0, "vault:v:YWJj": 0,
		"bao:v1:YWJj": 0, " vault:v1:YWJj": 0, "vault:v1:YWJj ": 0, "vault:v1:YWJj:YWJj": 0, "": 0,
	} {
		version, _, err := kms.ParseTransit(text)
		if version != want || (err == nil) != (want != 0) {
			t.Errorf("%q: version %d, %v; want %d", text, version, err, want)
		}
	}
}

func TestWrappedThatCannotBeParsedIsNotEncoded(t *testing.T) {
	t.Parallel()
	good := kms.Wrapped{Key: kms.Ref{ID: "id", Version: 1}, Ciphertext: []byte("c")}
	if _, err := good.Encode(); err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]kms.Wrapped{
		"no id":         {Ciphertext: []byte("c")},
		"long id":       {Key: kms.Ref{ID: string(bytes.Repeat([]byte("i"), 201))}, Ciphertext: []byte("c")},
		"id with space": {Key: kms.Ref{ID: "i d"}, Ciphertext: []byte("c")},
		"id not ASCII":  {Key: kms.Ref{ID: "ïd"}, Ciphertext: []byte("c")},
		"no ciphertext": {Key: kms.Ref{ID: "id"}},
		"too large":     {Key: kms.Ref{ID: "id"}, Ciphertext: make([]byte, kms.MaxKey+1024)},
	} {
		if _, err := w.Encode(); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
}

func TestParseWrappedIsBounded(t *testing.T) {
	t.Parallel()
	stored, err := kms.Wrapped{Key: kms.Ref{ID: "id", Version: 1}, Ciphertext: make([]byte, kms.MaxKey)}.Encode()
	must.OK(t, err)
	if _, err := kms.ParseWrapped(stored); err != nil {
		t.Error(err)
	}
	if _, err := kms.ParseWrapped(append(stored, make([]byte, 1024)...)); !errors.Is(err, kms.ErrCorrupt) {
		t.Errorf("too large: %v", err)
	}
}
