package event

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// encodedPrefix marks a platform's id that is stored in an encoded form.
const encodedPrefix = "base64:"

// storable returns the form in which a platform's id is stored in a text column. PostgreSQL refuses NUL and invalid
// UTF-8 there, so such an id is encoded, and so is one that looks encoded. All others are stored as they are.
func storable(platformID string) string {
	if validText(platformID) && !strings.HasPrefix(platformID, encodedPrefix) {
		return platformID
	}
	return encodedPrefix + base64.RawURLEncoding.EncodeToString([]byte(platformID))
}

// platformID reverses storable.
func platformID(stored string) string {
	encoded, found := strings.CutPrefix(stored, encodedPrefix)
	if !found {
		return stored
	}
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil { // written before ids were encoded
		return stored
	}
	return string(text)
}

// validText reports whether PostgreSQL can store a string as text.
func validText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }
