package driver

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// Session holds what the platform recognises a creator by: cookies and headers, or a key that it issued to programs.
// It is immutable: a change returns another one.
type Session struct {
	cookies   []cookie
	headers   []header // names are in lower case
	userAgent string
	// token is a key that the platform issued to programs, or empty. A session with a key has no cookies and headers.
	token catalog.Key
	// text is the encoded session, if it was decoded by decodePlain. Values refer to parts of it.
	text secret.String
	// oauth holds the tokens of a session that was opened by OAuth, which has neither cookies nor headers.
	oauth *tokens
}

type cookie struct {
	name    string
	value   value
	expires time.Time // zero if the platform did not set it
	// setAt is the arrival time of the response that set the cookie, or zero for a cookie that the caller supplied.
	setAt time.Time
}

type header struct {
	name  string
	value value
}

// value is either a separate secret, or the part from:to of the session's text if to is not 0.
type value struct {
	own      secret.String
	from, to int
}

func ownValue(text secret.String) value { return value{own: text} }

// reveal returns the text of a value. Call it only where the text is used.
func (s *Session) reveal(v value) string {
	if v.to > 0 {
		return s.text.Reveal()[v.from:v.to]
	}
	return v.own.Reveal()
}

// detach returns a value that does not refer to the session's text.
func (s *Session) detach(v value) secret.String {
	if v.to > 0 {
		return secret.New(s.reveal(v))
	}
	return v.own
}

// NewSession builds a session from values that a user copied from a browser: cookies by name, headers, and the user
// agent. It ignores cookies and headers that the manifest does not list. missing lists the required ones that are
// absent or unusable.
func NewSession(c *catalog.Catalog, cookies, headers map[string]secret.String, userAgent string) (s Session, missing []string) {
	s = Session{userAgent: userAgent}
	for _, name := range slices.Sorted(maps.Keys(cookies)) {
		if slices.Contains(c.Session.Cookies.Kept, name) && isSendable(name, cookies[name]) {
			s.cookies = append(s.cookies, cookie{name: name, value: ownValue(cookies[name])})
		}
	}
	for name, value := range headers {
		if name = strings.ToLower(name); slices.Contains(c.Session.Headers.Allowed, name) && httpguts.ValidHeaderFieldValue(value.Reveal()) {
			s = s.withHeader(name, value)
		}
	}
	return s, s.missingParts(c)
}

// NewTokenSession builds a session from a key of the form that the manifest names.
func NewTokenSession(key catalog.Key) Session { return Session{token: key} }

// Credentials returns what the session consists of.
func (s Session) Credentials() catalog.Credentials {
	switch {
	case s.token.ID != "":
		return catalog.ByToken
	case s.oauth != nil:
		return catalog.ByOAuth
	}
	return catalog.BySession
}

// isSendable reports whether a cookie can be sent. One that cannot counts as missing.
func isSendable(name string, value secret.String) bool {
	one := http.Cookie{Name: name, Value: strings.Trim(value.Reveal(), `"`)}
	return !value.Empty() && one.Valid() == nil
}

// missingParts lists the required cookies and headers that the session lacks.
func (s Session) missingParts(c *catalog.Catalog) []string {
	var names []string
	for _, name := range c.Session.Cookies.Required {
		if s.Cookie(name).Empty() {
			names = append(names, name)
		}
	}
	for _, name := range c.Session.Headers.Required {
		if i := s.headerIndex(name); i < 0 || s.reveal(s.headers[i].value) == "" {
			names = append(names, name)
		}
	}
	return names
}

// Cookie returns the value of a cookie, or an empty secret if there is none.
func (s Session) Cookie(name string) secret.String {
	for _, c := range s.cookies {
		if c.name == name {
			return s.detach(c.value)
		}
	}
	return secret.String{}
}

// rememberedCookies returns the cookies that are sent with the next sign-in of the same account.
func (s Session) rememberedCookies(c *catalog.Catalog) []cookie {
	var kept []cookie
	for _, one := range s.cookies {
		if slices.Contains(c.Session.Cookies.Remember, one.name) {
			one.value = ownValue(s.detach(one.value))
			kept = append(kept, one)
		}
	}
	return kept
}

// headerIndex returns the index of a header, or a negative number if there is none.
func (s *Session) headerIndex(name string) int {
	return slices.IndexFunc(s.headers, func(h header) bool { return h.name == name })
}

func (s Session) withHeader(name string, text secret.String) Session {
	s.headers = slices.DeleteFunc(slices.Clone(s.headers), func(h header) bool { return h.name == name })
	s.headers = append(s.headers, header{name, ownValue(text)})
	return s
}

// Owner returns the platform's id of the signed-in user according to the cookies, or the id of the key. It is not
// verified; Probe is.
func (s Session) Owner(c *catalog.Catalog) string {
	if s.Credentials() == catalog.ByToken {
		return s.token.ID
	}
	return s.Cookie(c.Session.Cookies.Owner).Reveal()
}

// ExpiresAt returns the end of the session, or zero if the platform did not set one.
func (s Session) ExpiresAt(c *catalog.Catalog) time.Time {
	if s.oauth != nil {
		if s.CanRefresh() {
			return time.Time{}
		}
		return s.oauth.expires
	}
	for _, one := range s.cookies {
		if one.name == c.Session.Cookies.Expiry {
			return one.expires
		}
	}
	return time.Time{}
}

// applyTo sets the headers, the user agent and the cookies of the session. defaultAgent is used if it has no user
// agent.
func (s Session) applyTo(h http.Header, defaultAgent string) {
	for _, one := range s.headers {
		h.Set(one.name, s.reveal(one.value))
	}
	h.Set("User-Agent", defaultAgent)
	if s.userAgent != "" {
		h.Set("User-Agent", s.userAgent)
	}
	if s.oauth != nil {
		h.Set("Authorization", s.bearer())
	}
	if len(s.cookies) == 0 {
		return
	}
	var text strings.Builder
	for i, c := range s.cookies {
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(c.name)
		text.WriteByte('=')
		text.WriteString(s.reveal(c.value))
	}
	h.Set("Cookie", text.String())
}

// bearer returns the Authorization header of an OAuth session.
func (s *Session) bearer() string { return "Bearer " + s.oauth.access.Reveal() }

// withSetCookies applies the Set-Cookie headers of a response. It returns the new session and the names of the cookies
// that changed. A cookie of which only the expiry moved counts as changed only if it moved far, so that not every
// response causes a database write.
func (s Session) withSetCookies(c *catalog.Catalog, header http.Header, now time.Time) (Session, []string) {
	if s.Credentials() != catalog.BySession {
		return s, nil // a platform that sets cookies all the same does not recognise us by them
	}
	var names []string
	changed := s
	for _, line := range header["Set-Cookie"] {
		set, err := http.ParseSetCookie(line)
		if err != nil || !slices.Contains(c.Session.Cookies.Kept, set.Name) {
			continue
		}
		next, matters := changed.withCookie(fromHTTP(set, now), now)
		if matters {
			names = append(names, set.Name)
		}
		changed = next
	}
	if len(names) == 0 {
		return s, nil
	}
	slices.Sort(names)
	return changed, slices.Compact(names)
}

// maxCookieAge caps the Max-Age of a cookie, in seconds: ten years.
const maxCookieAge = 10 * 365 * 24 * 3600

// minExpiryShift is how far an expiry must move to count as a change.
const minExpiryShift = 6 * time.Hour

func fromHTTP(set *http.Cookie, now time.Time) cookie {
	one := cookie{name: set.Name, value: ownValue(secret.New(set.Value)), expires: set.Expires, setAt: now}
	if set.Quoted { // ParseSetCookie strips the quotes, which belong to the value
		one.value = ownValue(secret.New(`"` + set.Value + `"`))
	}
	switch {
	case set.MaxAge < 0:
		one.expires = now
	case set.MaxAge > 0:
		one.expires = now.Add(time.Duration(min(set.MaxAge, maxCookieAge)) * time.Second)
	}
	return one
}

// withCookie returns the session with one cookie set, or removed if it has expired, and reports whether this is a
// change that must be stored.
func (s Session) withCookie(one cookie, now time.Time) (Session, bool) {
	// Platforms delete a cookie by an expiry in the past or by an empty value.
	at := slices.IndexFunc(s.cookies, func(c cookie) bool { return c.name == one.name })
	ended := !one.expires.IsZero() && !one.expires.After(now) || s.reveal(one.value) == ""
	out := s
	out.cookies = slices.Clone(s.cookies)
	switch {
	case ended && at < 0:
		return s, false
	case ended:
		out.cookies = slices.Delete(out.cookies, at, at+1)
		return out, true
	case at < 0:
		out.cookies = append(out.cookies, one)
		return out, true
	}
	old := out.cookies[at]
	out.cookies[at] = one
	shift := one.expires.Sub(old.expires).Abs()
	return out, !s.detach(old.value).Equal(s.detach(one.value)) || shift > minExpiryShift
}

// Merge returns the session with the named cookies taken from another one, so that two responses that changed different
// cookies both take effect. If both changed the same cookie, the response that arrived later wins. A named cookie that
// the other session does not have is removed.
func (s Session) Merge(from Session, names []string) Session {
	out := s
	// newer reports whether a cookie of the other session is not older than ours.
	newer := func(c cookie) bool {
		at := slices.IndexFunc(s.cookies, func(mine cookie) bool { return mine.name == c.name })
		return at < 0 || !s.cookies[at].setAt.After(c.setAt)
	}
	taken := slices.DeleteFunc(slices.Clone(from.cookies), func(c cookie) bool { return !slices.Contains(names, c.name) || !newer(c) })
	out.cookies = slices.DeleteFunc(slices.Clone(s.cookies), func(c cookie) bool {
		replaced := slices.ContainsFunc(taken, func(t cookie) bool { return t.name == c.name })
		ended := slices.Contains(names, c.name) && !slices.ContainsFunc(from.cookies, func(f cookie) bool { return f.name == c.name })
		return replaced || ended
	})
	for _, c := range taken {
		c.value = ownValue(from.detach(c.value))
		out.cookies = append(out.cookies, c)
	}
	return out
}

// stored is the JSON form of a session. Sessions are stored encrypted for long, so old data must remain readable.
type stored struct {
	Cookies   []storedCookie    `json:"cookies,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	UserAgent string            `json:"userAgent,omitempty"`
	Token     *storedToken      `json:"token,omitempty"`
	OAuth     *storedTokens     `json:"oauth,omitempty"`
}

type storedToken struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

type storedCookie struct {
	Name    string    `json:"name"`
	Value   string    `json:"value"`
	Expires time.Time `json:"expires,omitzero"`
	SetAt   time.Time `json:"setAt,omitzero"`
}

func (s Session) toStored() stored {
	out := stored{UserAgent: s.userAgent, Headers: map[string]string{}, OAuth: s.oauth.toStored()}
	for _, c := range s.cookies {
		out.Cookies = append(out.Cookies, storedCookie{c.name, s.reveal(c.value), c.expires, c.setAt})
	}
	for _, h := range s.headers {
		out.Headers[h.name] = s.reveal(h.value)
	}
	if s.token.ID != "" {
		out.Token = &storedToken{s.token.ID, s.token.Secret.Reveal()}
	}
	return out
}

func (st stored) toSession() Session {
	s := Session{userAgent: st.UserAgent, oauth: st.OAuth.toTokens()}
	if st.Token != nil {
		s.token = catalog.Key{ID: st.Token.ID, Secret: secret.New(st.Token.Secret)}
	}
	for _, c := range st.Cookies {
		s.cookies = append(s.cookies, cookie{c.Name, ownValue(secret.New(c.Value)), c.Expires, c.SetAt})
	}
	for _, name := range slices.Sorted(maps.Keys(st.Headers)) {
		s.headers = append(s.headers, header{name, ownValue(secret.New(st.Headers[name]))})
	}
	return s
}

// errStored means that stored data is not an encoded session or continuation.
var errStored = errors.New("stored data is not a session or a continuation")

// Encode returns the session as text. The caller must encrypt it before storing it.
func (s Session) Encode() secret.String { return encode(s.toStored()) }

// DecodeSession decodes what Encode returned.
func DecodeSession(text secret.String) (Session, error) {
	if s, plain := decodePlain(text); plain {
		return s, nil
	}
	var st stored
	if json.Unmarshal([]byte(text.Reveal()), &st) != nil {
		return Session{}, errStored
	}
	return st.toSession(), nil
}

func encode(v any) secret.String {
	text, err := json.Marshal(v)
	if err != nil {
		panic("driver: cannot encode a session: " + err.Error())
	}
	return secret.New(string(text))
}
