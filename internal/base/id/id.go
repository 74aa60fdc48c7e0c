// Package id makes and parses the identifiers callers see.
//
// An identifier is a prefix that names its kind, an underscore, and a UUIDv7 in 26 characters of
// lower-case Crockford base32 (the TypeID text form), so identifiers sort by the time they were made.
// Every kind is a Go type of its own: an org cannot be passed where an account is wanted.
package id

import (
	"encoding/base32"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
)

// The kinds of identifier.
type (
	// Org names a tenant.
	Org string
	// Key names an API key; it is not the key itself.
	Key string
	// Account names a connected account.
	Account string
	// Attempt names a connect attempt.
	Attempt string
	// Session names a hosted connect session.
	Session string
	// Event names an event.
	Event string
	// Delivery names one delivery of an event to a webhook.
	Delivery string
	// Request names one HTTP request.
	Request string
	// Audit names one entry of the audit log.
	Audit string
	// Person names somebody who signs in.
	Person string
	// Invitation names an invitation to join an org.
	Invitation string
	// BrowserSession names a signed-in browser; it is not its cookie.
	BrowserSession string
)

// Kind is satisfied by the identifier types of this package only.
type Kind interface {
	~string
	prefix() string
}

func (Org) prefix() string      { return "org_" }
func (Key) prefix() string      { return "key_" }
func (Account) prefix() string  { return "acct_" }
func (Attempt) prefix() string  { return "att_" }
func (Session) prefix() string  { return "cs_" }
func (Event) prefix() string    { return "evt_" }
func (Delivery) prefix() string { return "whd_" }
func (Request) prefix() string  { return "req_" }
func (Audit) prefix() string    { return "aud_" }

func (Person) prefix() string         { return "usr_" }
func (Invitation) prefix() string     { return "inv_" }
func (BrowserSession) prefix() string { return "bs_" }

// ErrMalformed is returned for text that no identifier of the wanted kind can have.
var ErrMalformed = errors.New("malformed identifier")

const (
	alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
	length   = 26
	// padding makes 16 bytes a multiple of five bits by putting zero bits in front, as TypeID does:
	// 130 bits in 26 characters, the first of which is therefore never above 7.
	padding = 4
)

// New makes an identifier of the current time. It fails only where the system has no randomness,
// and then the process cannot go on.
func New[K Kind]() K {
	u, err := uuid.NewV7()
	if err != nil {
		panic("no randomness for a new identifier: " + err.Error())
	}
	return from[K](u)
}

func from[K Kind](u uuid.UUID) K {
	var kind K
	prefix := kind.prefix()
	text := make([]byte, 0, len(prefix)+length)
	text = append(text, prefix...)
	return K(encode(text, u))
}

func encode(text []byte, u uuid.UUID) []byte {
	var padded [20]byte
	copy(padded[padding:], u[:])
	var out [32]byte
	encoding.Encode(out[:], padded[:])
	// 20 bytes encode to 32 characters; the first six hold nothing but padding.
	return append(text, out[len(out)-length:]...)
}

// encoding is immutable after its construction.
var encoding = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

// Parse reads an identifier of kind K. Only the canonical form is accepted, so one thing has one name.
func Parse[K Kind](text string) (K, error) {
	var kind K
	rest, ok := strings.CutPrefix(text, kind.prefix())
	if !ok || len(rest) != length || rest[0] > '7' {
		return "", ErrMalformed
	}
	for i := range len(rest) {
		if strings.IndexByte(alphabet, rest[i]) < 0 {
			return "", ErrMalformed
		}
	}
	return K(text), nil
}

// MadeAt is when an identifier was made, to the millisecond; zero for a malformed one.
func MadeAt[K Kind](one K) time.Time {
	text := strings.TrimPrefix(string(one), one.prefix())
	if len(text) != length {
		return time.Time{}
	}
	// The first 50 bits are two of padding and the 48 of the time.
	var ms uint64
	for i := range 10 {
		ms = ms<<5 | uint64(max(strings.IndexByte(alphabet, text[i]), 0))
	}
	return time.UnixMilli(int64(ms)).UTC()
}

// Earliest is the least identifier that could have been made at a time. Nothing is called so; it bounds a search.
func Earliest[K Kind](at time.Time) K {
	var u uuid.UUID
	ms := uint64(max(at.UnixMilli(), 0))
	for i := range 6 {
		u[i] = byte(ms >> (40 - 8*i))
	}
	return from[K](u)
}

// Texts are ids as texts; nil stays nil, which is not the same as none.
func Texts[T ~string](ids []T) []string {
	if ids == nil {
		return nil
	}
	list := make([]string, len(ids))
	for i, one := range ids {
		list[i] = string(one)
	}
	return list
}

// Buckets is what ids are spread over where work on them is shared out. It is part of what is stored and never changes.
const Buckets = 256

// Bucket is where an id belongs, whatever its kind: FNV-1a of its text.
func Bucket(text string) int {
	const (
		offset = 2166136261
		prime  = 16777619
	)
	h := uint32(offset)
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * prime
	}
	return int(h % Buckets)
}
