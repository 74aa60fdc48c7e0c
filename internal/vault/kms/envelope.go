package kms

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// The clouds take small keys only, and do not tell at decryption which version they used. So they wrap a key of ours, the
// inner one, and that encrypts the key that is to be wrapped, bound to the version and to all that is around it.

// innerSize makes it AES-256.
const innerSize = 32

// closeEnvelope encrypts a key with the inner key and puts the wrapped inner key before it.
func closeEnvelope(ref Ref, inner, innerWrapped []byte, key secret.String, aad []byte) ([]byte, error) {
	gcm, err := innerCipher(inner)
	if err != nil {
		return nil, err
	}
	if len(innerWrapped) == 0 || len(innerWrapped) > maxInner {
		return nil, errors.New("it gave a wrapped key of an unlikely size")
	}
	plain := []byte(key.Reveal())
	defer clear(plain)
	out := binary.BigEndian.AppendUint16(nil, uint16(len(innerWrapped)))
	out = append(out, innerWrapped...)
	return gcm.Seal(out, nil, plain, envelopeAAD(ref, innerWrapped, aad)), nil
}

// splitEnvelope takes apart what closeEnvelope made.
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

// innerCipher makes its own nonces and puts them before the ciphertext.
func innerCipher(inner []byte) (cipher.AEAD, error) {
	if len(inner) != innerSize {
		return nil, errors.New("it gave a key of another size")
	}
	block, err := aes.NewCipher(inner)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func envelopeAAD(ref Ref, innerWrapped, aad []byte) []byte {
	length := func(b []byte) []byte { return binary.BigEndian.AppendUint32(nil, uint32(len(b))) }
	id := []byte(ref.ID)
	return slices.Concat(length(id), id, binary.BigEndian.AppendUint32(nil, ref.Version), length(innerWrapped), innerWrapped, aad)
}
