// Package secret wraps values that must never be printed: passwords, cookies, codes and keys. It prevents accidental
// output only. It does not encrypt, and does not erase memory; package seal encrypts what is stored.
package secret

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

const mask = "[secret]"

// String is a text that prints as [secret] in fmt, slog and JSON, at any depth of any struct.
// The zero value is the empty secret. Values are not comparable; use Equal.
//
// A closure holds the text: fmt and slog read unexported fields by reflection and print them without calling the
// value's methods, but they cannot look into a function.
type String struct {
	reveal func() string
}

// New wraps a text.
func New(text string) String {
	return String{reveal: func() string { return text }}
}

// Reveal returns the text. Call it only where the text is used, and do not store the result in a field.
func (s String) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

func (s String) Empty() bool { return s.Reveal() == "" }

// Equal compares two secrets in a time that does not depend on where they differ. It may reveal their lengths.
func (s String) Equal(other String) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String masks the text for %s and %v.
func (String) String() string { return mask }

// GoString masks the text for %#v.
func (String) GoString() string { return mask }

// Format masks the text for every verb.
func (String) Format(f fmt.State, _ rune) {
	// Format has no way to report a failed write; fmt itself ignores it as well.
	_, _ = io.WriteString(f, mask)
}

// LogValue masks the text in log lines.
func (String) LogValue() slog.Value { return slog.StringValue(mask) }

// MarshalText masks the text in JSON, YAML and every other encoding that uses it. A secret therefore cannot be
// marshalled and read back.
func (String) MarshalText() ([]byte, error) { return []byte(mask), nil }

// UnmarshalText sets the text, so that a request body or a setting can be decoded directly into a secret.
func (s *String) UnmarshalText(text []byte) error {
	*s = New(string(text))
	return nil
}
