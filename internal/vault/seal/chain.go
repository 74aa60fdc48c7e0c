package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

const (
	// sealedFormat is the first byte of a sealed text, so that other layouts can be added later.
	sealedFormat = 1
	// headerSize is the size of format and generation of the data key.
	headerSize = 5
	// overhead is the size of nonce and tag of AES-GCM.
	overhead = 12 + 16
	// MaxText is the maximum size of a text, in bytes.
	MaxText   = 16 << 20
	maxHolder = 200
)

// The labels that the kinds of associated data start with, so that none can be mistaken for another.
const (
	textLabel = "sd1"
	dataLabel = "sd1dek"
	orgLabel  = "sd1ork"
	rootLabel = "sd1root"
)

// maxPurpose bounds the length of a purpose.
const maxPurpose = 64

// isHolder reports whether a text can be a holder. Holders appear in the payloads of notifications and in lists for
// operators, so their characters are restricted. It is on the path of every event, so it uses no regular expression.
func isHolder(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && c != '_' && c != '-' {
			return false
		}
	}
	return text != "" && len(text) <= maxHolder
}

func isPurpose(text Purpose) bool {
	for i := range len(text) {
		if c := text[i]; (c < 'a' || c > 'z') && c != '_' {
			return false
		}
	}
	return text != "" && len(text) <= maxPurpose
}

type holderRef struct {
	org  id.Org
	name string
}

func (h holderRef) check() error {
	if _, err := id.Parse[id.Org](string(h.org)); err != nil {
		return fmt.Errorf("org of a holder: %w", err)
	}
	if !isHolder(h.name) {
		return fmt.Errorf("a holder must have 1 to %d letters, digits, dashes and underscores", maxHolder)
	}
	return nil
}

func (a Address) holder() holderRef { return holderRef{a.Org, a.Holder} }

func (a Address) check() error {
	if err := a.holder().check(); err != nil {
		return err
	}
	switch {
	case !isPurpose(a.Purpose):
		return fmt.Errorf("a purpose must have 1 to %d lower-case letters and underscores", maxPurpose)
	case a.Version < 0:
		return errors.New("the version of a sealed text is negative")
	}
	return nil
}

// aad returns the associated data of a text. It does not include the region: ids are unique across regions, and an
// account that moves to another region keeps its sealed texts.
func (a Address) aad() []byte {
	return encodeAAD(textLabel, []byte(a.Org), []byte(a.Holder), []byte(a.Purpose), encodeNumber(uint64(a.Version)))
}

func dataAAD(h holderRef, generation int32) []byte {
	return encodeAAD(dataLabel, []byte(h.org), []byte(h.name), encodeNumber(uint64(generation)))
}

func orgAAD(org id.Org, version int32) []byte {
	return encodeAAD(orgLabel, []byte(org), encodeNumber(uint64(version)))
}

func rootAAD() []byte { return encodeAAD(rootLabel) }

// encodeAAD joins a label and parts, each preceded by its length, so that different lists never give the same bytes.
func encodeAAD(label string, parts ...[]byte) []byte {
	size := 4 + len(label)
	for _, p := range parts {
		size += 4 + len(p)
	}
	out := make([]byte, 0, size)
	out = binary.BigEndian.AppendUint32(out, uint32(len(label)))
	out = append(out, label...)
	for _, p := range parts {
		out = binary.BigEndian.AppendUint32(out, uint32(len(p)))
		out = append(out, p...)
	}
	return out
}

func encodeNumber(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// sealedHeader returns what precedes the ciphertext: format and generation.
func sealedHeader(generation int32) []byte {
	return binary.BigEndian.AppendUint32([]byte{sealedFormat}, uint32(generation))
}

// splitSealed splits a sealed text. The ciphertext is a slice of it.
func splitSealed(sealed []byte) (generation int32, ciphertext []byte, ok bool) {
	if len(sealed) < headerSize+overhead || len(sealed) > headerSize+overhead+MaxText || sealed[0] != sealedFormat {
		return 0, nil, false
	}
	return int32(binary.BigEndian.Uint32(sealed[1:])), sealed[headerSize:], true
}

// newKeyset creates a Tink keyset with one AES256-GCM key, and returns its binary form. The key has no prefix,
// because a column or a header says which key was used.
func newKeyset() (secret.String, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMNoPrefixKeyTemplate())
	if err != nil {
		return secret.String{}, fmt.Errorf("create a key: %w", err)
	}
	var text bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewBinaryWriter(&text)); err != nil {
		return secret.String{}, errors.New("create a key: cannot serialise it") // the cause might contain it
	}
	defer clear(text.Bytes())
	return secret.New(text.String()), nil
}

// cipherOf returns the cipher of a keyset that newKeyset created. Anything else is corrupt.
func cipherOf(text secret.String) (tink.AEAD, error) {
	raw := []byte(text.Reveal())
	defer clear(raw)
	handle, err := insecurecleartextkeyset.Read(keyset.NewBinaryReader(bytes.NewReader(raw)))
	if err != nil {
		return nil, ErrCorrupt
	}
	cipher, err := aead.New(handle)
	if err != nil {
		return nil, ErrCorrupt
	}
	return cipher, nil
}

// wrapKey wraps a keyset with the key of the level above it.
func wrapKey(parent tink.AEAD, key secret.String, aad []byte) ([]byte, error) {
	plain := []byte(key.Reveal())
	defer clear(plain)
	wrapped, err := parent.Encrypt(plain, aad)
	if err != nil {
		return nil, errors.New("wrap a key: tink cannot encrypt")
	}
	return wrapped, nil
}

func unwrapKey(parent tink.AEAD, wrapped, aad []byte) (secret.String, error) {
	plain, err := parent.Decrypt(wrapped, aad)
	if err != nil {
		return secret.String{}, ErrCorrupt
	}
	defer clear(plain)
	return secret.New(string(plain)), nil
}
