package driver

import (
	"encoding/json"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// DecodeSlowly is DecodeSession by the general reader alone.
func DecodeSlowly(text secret.String) (Session, error) {
	var st stored
	if json.Unmarshal([]byte(text.Reveal()), &st) != nil {
		return Session{}, errStored
	}
	return st.session(), nil
}

// ReadsQuickly says whether the quick reader takes a stored session.
func ReadsQuickly(text secret.String) bool {
	_, ok := readSession(text)
	return ok
}

// ReadIdentity reads the answer of a probe.
func ReadIdentity(result []byte) (Identity, bool) { return readIdentity(result) }
