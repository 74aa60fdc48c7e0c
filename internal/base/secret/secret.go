// Package secret holds values that must never be printed: passwords, cookies, codes, keys.
package secret

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

const mask = "[secret]"

// String is a text that prints as [secret] in fmt, slog and JSON, at any depth of any struct.
// The zero value is the empty secret.
//
// The text hides behind a closure: fmt and slog reach into unexported fields by reflection and print
// what they find there without asking the value's own methods, but they cannot look into a function.
type String struct {
	reveal func() string
}

// New wraps a text.
func New(text string) String {
	return String{reveal: func() string { return text }}
}

// Reveal returns the text. Call it only where the text is used, and keep the result in no field.
func (s String) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// Empty says whether there is no text.
func (s String) Empty() bool { return s.Reveal() == "" }

// Equal compares two secrets without telling by its duration where they differ.
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

// MarshalText masks the text in JSON, YAML and whatever else asks for text.
func (String) MarshalText() ([]byte, error) { return []byte(mask), nil }

// UnmarshalText takes a text in, so that a request body or a variable can be read straight into a secret.
func (s *String) UnmarshalText(text []byte) error {
	*s = New(string(text))
	return nil
}
