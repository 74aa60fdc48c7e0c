// Package id creates and parses the identifiers that callers see.
//
// An identifier is a prefix that names its kind, an underscore, and a UUIDv7 in 26 characters of
// lower-case Crockford base32 (the TypeID text form), so identifiers sort by the time they were created.
// Every kind is a separate Go type: the compiler rejects an org where an account is expected.
// Start with New and Parse. Bucket assigns identifiers to the partitions of background work.
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
	// Endpoint names an endpoint: a URL that receives the events of many accounts.
	Endpoint string
	// Delivery names one delivery of an event to a webhook.
	Delivery string
	// Request names one HTTP request.
	Request string
	// Audit names one entry of the audit log.
	Audit string
	// Person names a user who signs in to the dashboard.
	Person string
	// Invitation names an invitation to join an org.
	Invitation string
	// BrowserSession names a signed-in browser; it is not its cookie.
	BrowserSession string
	// Job names a job: work that is longer than a call.
	Job string
	// SupportAccess names an operator's request for access to an org, also once it is granted.
	SupportAccess string
	// Mail names a mail.
	Mail string
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
func (Endpoint) prefix() string { return "whe_" }
func (Request) prefix() string  { return "req_" }
func (Audit) prefix() string    { return "aud_" }
func (Job) prefix() string      { return "job_" }

func (Person) prefix() string         { return "usr_" }
func (Invitation) prefix() string     { return "inv_" }
func (BrowserSession) prefix() string { return "bs_" }
func (SupportAccess) prefix() string  { return "sa_" }
func (Mail) prefix() string           { return "mail_" }

// ErrMalformed is returned for text that is not an identifier of the requested kind.
var ErrMalformed = errors.New("malformed identifier")

const (
	alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
	length   = 26
	// padding is the number of zero bytes in front of the 16 bytes of the UUID. Base32 encodes groups of five bytes,
	// so 20 bytes give 32 characters. The last 26 hold 130 bits: two zero bits, as in TypeID, and the 128 of the UUID.
	// The first of them is therefore never above 7.
	padding = 4
)

// New creates an identifier for the current time. It panics if the system has no randomness.
func New[K Kind]() K {
	u, err := uuid.NewV7()
	if err != nil {
		panic("no randomness for a new identifier: " + err.Error())
	}
	return fromUUID[K](u)
}

// fromUUID does not check the version or the variant of the UUID: Earliest passes neither.
func fromUUID[K Kind](u uuid.UUID) K {
	var kind K
	prefix := kind.prefix()
	text := make([]byte, 0, len(prefix)+length)
	text = append(text, prefix...)
	return K(appendUUID(text, u))
}

func appendUUID(text []byte, u uuid.UUID) []byte {
	var padded [20]byte
	copy(padded[padding:], u[:])
	var out [32]byte
	encoding.Encode(out[:], padded[:])
	// The first six of the 32 characters hold nothing but padding.
	return append(text, out[len(out)-length:]...)
}

var encoding = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

// digits has the value of each character of the alphabet, and -1 for all others.
var digits = func() (values [256]int8) {
	for c := range values {
		values[c] = int8(strings.IndexByte(alphabet, byte(c)))
	}
	return values
}()

// Parse reads an identifier of kind K. It accepts only the canonical form, so that one object never has two names. It
// does not check that the text is a UUIDv7, nor that the object exists.
func Parse[K Kind](text string) (K, error) {
	var kind K
	rest, ok := strings.CutPrefix(text, kind.prefix())
	if !ok || len(rest) != length || rest[0] > '7' {
		return "", ErrMalformed
	}
	for i := range len(rest) {
		if digits[rest[i]] < 0 {
			return "", ErrMalformed
		}
	}
	return K(text), nil
}

// MadeAt returns when an identifier was created, in milliseconds; the zero time if its length is wrong.
func MadeAt[K Kind](one K) time.Time {
	text := strings.TrimPrefix(string(one), one.prefix())
	if len(text) != length {
		return time.Time{}
	}
	// The first ten characters are 50 bits: two of padding and the 48-bit time.
	var ms uint64
	for i := range 10 {
		ms = ms<<5 | uint64(max(digits[text[i]], 0))
	}
	return time.UnixMilli(int64(ms)).UTC()
}

// Earliest returns the smallest text that an identifier created at a time can have. New never returns it; use it as the
// bound of a search by time.
func Earliest[K Kind](at time.Time) K {
	var u uuid.UUID
	ms := uint64(max(at.UnixMilli(), 0))
	for i := range 6 {
		u[i] = byte(ms >> (40 - 8*i))
	}
	return fromUUID[K](u)
}

// Texts converts identifiers to strings. Nil stays nil: a nil list means no restriction, an empty one means none.
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

// Buckets is the number of partitions into which background work is divided. Stored rows and event log subjects contain
// bucket numbers, so it never changes.
const Buckets = 256

// Bucket returns the partition of an identifier of any kind: the 32-bit FNV-1a hash of its text modulo Buckets.
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
