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

// pass is what a cookie says. There is no state behind it: it ends by itself, or when the operators' token is changed.
type pass struct {
	// Name is what the operator calls themselves, for the audit log.
	Name string `json:"n"`
	// Until is in seconds.
	Until int64 `json:"u"`
}

// passes signs and reads them, by a key that follows from the operators' token.
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
	said := base64.RawURLEncoding.EncodeToString(text)
	return said + "." + p.sign(said), until, nil
}

func (p passes) sign(said string) string {
	mac := hmac.New(sha256.New, p.key)
	mac.Write([]byte(said))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (p passes) read(value string) (pass, bool) {
	said, signature, _ := strings.Cut(value, ".")
	if !hmac.Equal([]byte(signature), []byte(p.sign(said))) {
		return pass{}, false
	}
	text, err := base64.RawURLEncoding.DecodeString(said)
	if err != nil {
		return pass{}, false
	}
	var found pass
	if json.Unmarshal(text, &found) != nil || p.now().Unix() >= found.Until {
		return pass{}, false
	}
	return found, true
}
