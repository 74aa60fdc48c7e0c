package driver

import (
	"encoding/json"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// DecodeSlowly is DecodeSession without decodePlain.
func DecodeSlowly(text secret.String) (Session, error) {
	var st stored
	if json.Unmarshal([]byte(text.Reveal()), &st) != nil {
		return Session{}, errStored
	}
	return st.toSession(), nil
}

// ReadsQuickly reports whether decodePlain accepts an encoded session.
func ReadsQuickly(text secret.String) bool {
	_, ok := decodePlain(text)
	return ok
}

// ReadIdentity parses the result of a probe.
func ReadIdentity(result []byte) (Identity, bool) { return readIdentity(result) }
