package admin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

const (
	cookieName = "__Host-sd_ops"
	// passFor is how long a browser stays signed in.
	passFor = 8 * time.Hour
)

// pass is the content of the cookie. It is stateless: it expires, or becomes invalid when the operator token changes.
type pass struct {
	// Name is what the operator entered, for the audit log.
	Name string `json:"n"`
	// Until is in Unix seconds.
	Until int64 `json:"u"`
}

// passes signs and reads cookies with a key that is derived from the operator token.
type passes struct {
	key []byte
	now func() time.Time
}

func newPasses(token secret.String, now func() time.Time) passes {
	mac := hmac.New(sha256.New, []byte(token.Reveal()))
	mac.Write([]byte("stagedoor operator's cookie v1"))
	return passes{mac.Sum(nil), now}
}

func (p passes) make(name string) (value string, until time.Time, err error) {
	until = p.now().Add(passFor).Truncate(time.Second)
	text, err := json.Marshal(pass{name, until.Unix()})
	if err != nil {
		return "", until, err
	}
	payload := base64.RawURLEncoding.EncodeToString(text)
	return payload + "." + p.sign(payload), until, nil
}

func (p passes) sign(payload string) string {
	mac := hmac.New(sha256.New, p.key)
	mac.Write([]byte(payload))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (p passes) read(value string) (pass, bool) {
	payload, signature, _ := strings.Cut(value, ".")
	if !hmac.Equal([]byte(signature), []byte(p.sign(payload))) {
		return pass{}, false
	}
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return pass{}, false
	}
	var found pass
	if json.Unmarshal(text, &found) != nil || p.now().Unix() >= found.Until {
		return pass{}, false
	}
	return found, true
}
