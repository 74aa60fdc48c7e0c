package kms

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// AWS and Google wrap only small keys, and do not say at decryption which version they used. Therefore they wrap a
// random inner key, and the inner key encrypts the actual key, bound to the version and the associated data. The
// ciphertext is the length of the wrapped inner key (2 bytes), the wrapped inner key, and the encrypted key.

// innerSize is the size of the inner key in bytes, for AES-256.
const innerSize = 32

// closeEnvelope encrypts a key with the inner key, and prepends the wrapped inner key.
func closeEnvelope(ref Ref, inner, innerWrapped []byte, key secret.String, aad []byte) ([]byte, error) {
	gcm, err := innerCipher(inner)
	if err != nil {
		return nil, err
	}
	if len(innerWrapped) == 0 || len(innerWrapped) > maxInner {
		return nil, errors.New("the service returned a wrapped key of an unexpected size")
	}
	plain := []byte(key.Reveal())
	defer clear(plain)
	out := binary.BigEndian.AppendUint16(nil, uint16(len(innerWrapped)))
	out = append(out, innerWrapped...)
	return gcm.Seal(out, nil, plain, envelopeAAD(ref, innerWrapped, aad)), nil
}

// splitEnvelope splits the result of closeEnvelope. It returns slices of ciphertext.
func splitEnvelope(ciphertext []byte) (innerWrapped, body []byte, ok bool) {
	if len(ciphertext) < 2 {
		return nil, nil, false
	}
	size, rest := int(binary.BigEndian.Uint16(ciphertext)), ciphertext[2:]
	if size == 0 || size > maxInner || len(rest) <= size {
		return nil, nil, false
	}
	return rest[:size], rest[size:], true
}

// openEnvelope decrypts the key. It fails with ErrCorrupt if anything that it was bound to has changed.
func openEnvelope(ref Ref, inner, innerWrapped, body, aad []byte) (secret.String, error) {
	gcm, err := innerCipher(inner)
	if err != nil {
		return secret.String{}, err
	}
	plain, err := gcm.Open(nil, nil, body, envelopeAAD(ref, innerWrapped, aad))
	if err != nil || len(plain) == 0 {
		return secret.String{}, ErrCorrupt
	}
	defer clear(plain)
	return secret.New(string(plain)), nil
}

// innerCipher returns a cipher that generates random nonces and prepends them to its ciphertexts.
func innerCipher(inner []byte) (cipher.AEAD, error) {
	if len(inner) != innerSize {
		return nil, errors.New("the service returned a key of the wrong size")
	}
	block, err := aes.NewCipher(inner)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// envelopeAAD encodes what the key is bound to. Lengths make the encoding unambiguous.
func envelopeAAD(ref Ref, innerWrapped, aad []byte) []byte {
	length := func(b []byte) []byte { return binary.BigEndian.AppendUint32(nil, uint32(len(b))) }
	id := []byte(ref.ID)
	return slices.Concat(length(id), id, binary.BigEndian.AppendUint32(nil, ref.Version), length(innerWrapped), innerWrapped, aad)
}
