package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

const (
	// sealedFormat is the first byte of sealed bytes, so that another layout can come later.
	sealedFormat = 1
	// headerSize is the format and the generation of the data key.
	headerSize = 5
	// overhead is what AES-GCM adds: nonce and tag.
	overhead = 12 + 16
	// MaxText is the size of the largest text that can be sealed, in bytes.
	MaxText   = 16 << 20
	maxHolder = 200
)

// What each kind of associated data begins with, so that none can be taken for another.
const (
	textLabel = "sd1"
	dataLabel = "sd1dek"
	orgLabel  = "sd1ork"
	rootLabel = "sd1root"
)

var (
	// A holder is part of a poke's payload and of the operators' lists.
	validHolder  = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	validPurpose = regexp.MustCompile(`^[a-z_]{1,64}$`)
)

// holderRef names a holder.
type holderRef struct {
	org  id.Org
	name string
}

func (h holderRef) check() error {
	if _, err := id.Parse[id.Org](string(h.org)); err != nil {
		return fmt.Errorf("the org of a holder: %w", err)
	}
	if len(h.name) > maxHolder || !validHolder.MatchString(h.name) {
		return fmt.Errorf("a holder has 1 to %d letters, digits, dashes and underscores", maxHolder)
	}
	return nil
}

func (a Address) holder() holderRef { return holderRef{a.Org, a.Holder} }

func (a Address) check() error {
	if err := a.holder().check(); err != nil {
		return err
	}
	switch {
	case !validPurpose.MatchString(string(a.Purpose)):
		return errors.New("a purpose has 1 to 64 small letters and underscores")
	case a.Version < 0:
		return errors.New("the version of a sealed text is negative")
	}
	return nil
}

// aad is what a text is bound to. It lacks the region: ids are unique in all regions, and an account that moves to
// another one keeps what it has sealed.
func (a Address) aad() []byte {
	return bind(textLabel, []byte(a.Org), []byte(a.Holder), []byte(a.Purpose), number(uint64(a.Version)))
}

func dataAAD(h holderRef, generation int32) []byte {
	return bind(dataLabel, []byte(h.org), []byte(h.name), number(uint64(generation)))
}

func orgAAD(org id.Org, version int32) []byte {
	return bind(orgLabel, []byte(org), number(uint64(version)))
}

func rootAAD() []byte { return bind(rootLabel) }

// bind joins parts, each after its length: no two lists give the same bytes.
func bind(label string, parts ...[]byte) []byte {
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

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// header is before the ciphertext: format and generation.
func header(generation int32) []byte {
	return binary.BigEndian.AppendUint32([]byte{sealedFormat}, uint32(generation))
}

// split takes sealed bytes apart.
func split(sealed []byte) (generation int32, ciphertext []byte, ok bool) {
	if len(sealed) < headerSize+overhead || len(sealed) > headerSize+overhead+MaxText || sealed[0] != sealedFormat {
		return 0, nil, false
	}
	return int32(binary.BigEndian.Uint32(sealed[1:])), sealed[headerSize:], true
}

// newKeyset makes an AES256-GCM key as a Tink keyset of its own. It has no prefix: what is wrapped by which key is said by
// a column or a header.
func newKeyset() (secret.String, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMNoPrefixKeyTemplate())
	if err != nil {
		return secret.String{}, fmt.Errorf("make a key: %w", err)
	}
	var text bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewBinaryWriter(&text)); err != nil {
		return secret.String{}, errors.New("make a key: it cannot be written") // the cause might show it
	}
	defer clear(text.Bytes())
	return secret.New(text.String()), nil
}

// cipherOf reads a keyset. What is no keyset is corrupt: it was wrapped by us.
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

// wrapKey wraps a keyset with the key above it.
func wrapKey(above tink.AEAD, key secret.String, aad []byte) ([]byte, error) {
	plain := []byte(key.Reveal())
	defer clear(plain)
	wrapped, err := above.Encrypt(plain, aad)
	if err != nil {
		return nil, errors.New("wrap a key: tink cannot encrypt")
	}
	return wrapped, nil
}

func unwrapKey(above tink.AEAD, wrapped, aad []byte) (secret.String, error) {
	plain, err := above.Decrypt(wrapped, aad)
	if err != nil {
		return secret.String{}, ErrCorrupt
	}
	defer clear(plain)
	return secret.New(string(plain)), nil
}
