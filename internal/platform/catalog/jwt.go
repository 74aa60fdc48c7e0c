package catalog

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// JWT describes a key that the platform issues to programs. A request carries a signed token (RFC 7519) that is made
// from the key and valid for a short time, never the key itself.
type JWT struct {
	// Name is what the platform calls the key, and Where is a sentence that says where its owner finds it.
	Name, Where string
	// Header is the name of the header that carries the token.
	Header string
	// Omit lists headers of Session.Send that are not sent with a token, in canonical form.
	Omit []string
	// Verify is the read that checks a key.
	Verify *Method

	form             *regexp.Regexp
	scheme, audience string
	lifetime         time.Duration
}

// Key is a key that a platform issued to programs.
type Key struct {
	// ID names the key. It is not a secret.
	ID string
	// Secret is what requests are signed with, in the encoding in which the platform shows it.
	Secret secret.String
}

// Parse reads a key as its owner copied it. It returns false if the text does not have the form of a key.
func (j *JWT) Parse(text secret.String) (Key, bool) {
	found := j.form.FindStringSubmatch(strings.TrimSpace(text.Reveal()))
	if found == nil {
		return Key{}, false
	}
	key := Key{found[j.form.SubexpIndex("id")], secret.New(found[j.form.SubexpIndex("secret")])}
	_, err := hex.DecodeString(key.Secret.Reveal())
	return key, err == nil && key.ID != "" && !key.Secret.Empty()
}

// errKey means that the secret of a key is not in its encoding. It does not contain the secret.
var errKey = errors.New("the key's secret is not hexadecimal")

// Sign returns the value of Header for a request at a time.
func (j *JWT) Sign(key Key, now time.Time) (string, error) {
	signer, err := hex.DecodeString(key.Secret.Reveal())
	if err != nil {
		return "", errKey
	}
	head, err := json.Marshal(struct {
		Algorithm string `json:"alg"`
		Type      string `json:"typ"`
		Key       string `json:"kid"`
	}{"HS256", "JWT", key.ID})
	if err != nil {
		return "", fmt.Errorf("encode a token: %w", err)
	}
	claims, err := json.Marshal(struct {
		IssuedAt int64  `json:"iat"`
		Expires  int64  `json:"exp"`
		Audience string `json:"aud"`
	}{now.Unix(), now.Add(j.lifetime).Unix(), j.audience})
	if err != nil {
		return "", fmt.Errorf("encode a token: %w", err)
	}
	text := base64.RawURLEncoding.EncodeToString(head) + "." + base64.RawURLEncoding.EncodeToString(claims)
	mac := hmac.New(sha256.New, signer)
	mac.Write([]byte(text))
	return j.scheme + " " + text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), nil
}

// maxLifetime bounds the lifetime of a token. A token that is seen by someone is of use for this long.
const maxLifetime = 15 * time.Minute

// compileJWT compiles the section session.jwt. Verify is set later, because it is a method.
func (c *compiler) compileJWT() *JWT {
	in := c.doc.Session.JWT
	if in == nil {
		return nil
	}
	before := len(c.faults)
	j := &JWT{
		Name: in.Name, Where: in.Where, Header: http.CanonicalHeaderKey(in.Header), scheme: in.Scheme, audience: in.Audience,
		lifetime: c.duration("session.jwt.lifetime", in.Lifetime),
	}
	if j.lifetime < 10*time.Second || j.lifetime > maxLifetime {
		c.upstreamFault("session.jwt.lifetime must be from 10s to %v", maxLifetime)
	}
	form, err := regexp.Compile(in.Form)
	switch {
	case err != nil:
		c.upstreamFault("session.jwt.form: the pattern is not a valid Go regular expression")
	case !strings.HasPrefix(in.Form, "^") || !strings.HasSuffix(in.Form, "$"):
		c.upstreamFault("session.jwt.form: the pattern must begin with ^ and end with $")
	case form.SubexpIndex("id") < 0 || form.SubexpIndex("secret") < 0:
		c.upstreamFault("session.jwt.form: the pattern must have the groups id and secret")
	}
	j.form = form
	for _, name := range in.Omit {
		if _, sent := c.doc.Session.Send[name]; !sent {
			c.upstreamFault("session.jwt.omit: %s is not in session.send", name)
		}
		j.Omit = append(j.Omit, http.CanonicalHeaderKey(name))
	}
	if _, sent := c.doc.Session.Send[in.Header]; sent && !slices.Contains(in.Omit, in.Header) {
		c.upstreamFault("session.jwt.header: %s is in session.send too", in.Header)
	}
	if len(c.faults) > before {
		return nil // a draft has no keys then
	}
	return j
}
