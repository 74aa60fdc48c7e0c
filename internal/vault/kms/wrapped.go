package kms

import (
	"encoding/binary"
	"fmt"
)

const (
	// wrappedFormat is the first byte of an encoded wrapped key, so that other layouts can be added later.
	wrappedFormat = 1
	maxID         = 200
	// maxInner bounds the size of the inner key as AWS or Google wraps it (envelope.go). It usually has about 200
	// bytes.
	maxInner = 600
	// maxCiphertext leaves room for nonce, tag and prefix of the cipher, and for the inner key.
	maxCiphertext = MaxKey + maxInner + 100
)

// Wrapped is a key that only the service can decrypt. It is not secret.
type Wrapped struct {
	Key        Ref
	Ciphertext []byte
}

// Encode returns the stored form: format, length of the id, id, version, ciphertext. Each value has exactly one form.
func (w Wrapped) Encode() ([]byte, error) {
	if !validID(w.Key.ID) || len(w.Ciphertext) == 0 || len(w.Ciphertext) > maxCiphertext {
		return nil, fmt.Errorf("encode a wrapped key: invalid id of %d bytes or ciphertext of %d bytes", len(w.Key.ID), len(w.Ciphertext))
	}
	out := make([]byte, 0, 2+len(w.Key.ID)+4+len(w.Ciphertext))
	out = append(out, wrappedFormat, byte(len(w.Key.ID)))
	out = append(out, w.Key.ID...)
	out = binary.BigEndian.AppendUint32(out, w.Key.Version)
	return append(out, w.Ciphertext...), nil
}

// ParseWrapped reads the form that Encode returns. It fails with ErrCorrupt for anything else.
func ParseWrapped(text []byte) (Wrapped, error) {
	if len(text) < 2 || text[0] != wrappedFormat {
		return Wrapped{}, ErrCorrupt
	}
	size, rest := int(text[1]), text[2:]
	if len(rest) <= size+4 || len(rest) > size+4+maxCiphertext {
		return Wrapped{}, ErrCorrupt
	}
	id := string(rest[:size])
	if !validID(id) {
		return Wrapped{}, ErrCorrupt
	}
	return Wrapped{
		Key:        Ref{ID: id, Version: binary.BigEndian.Uint32(rest[size:])},
		Ciphertext: append([]byte(nil), rest[size+4:]...),
	}, nil
}

// validID reports whether an id is short and visible ASCII, so that it can be logged and stored anywhere.
func validID(id string) bool {
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return id != "" && len(id) <= maxID
}
