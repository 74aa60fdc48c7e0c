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

// Session is what the platform knows a creator by. It is a value: a change makes another one.
type Session struct {
	cookies   []cookie
	headers   []header // by name in lower case
	userAgent string
	// text is what the session was read from. Values are parts of it, so that reading one copies nothing.
	text secret.String
}

type cookie struct {
	name    string
	value   value
	expires time.Time // zero if the platform did not say
	// setAt is when the answer came in that set it; zero if no answer did since the sign-in.
	setAt time.Time
}

type header struct {
	name  string
	value value
}

// value is a secret of its own, or a part of the session's text.
type value struct {
	own      secret.String
	from, to int
}

func own(text secret.String) value { return value{own: text} }

// reveal gives a value's text. Call it only where the text is used.
func (s *Session) reveal(v value) string {
	if v.to > 0 {
		return s.text.Reveal()[v.from:v.to]
	}
	return v.own.Reveal()
}

// keep is a value that can leave the session's text behind.
func (s *Session) keep(v value) secret.String {
	if v.to > 0 {
		return secret.New(s.reveal(v))
	}
	return v.own
}

// NewSession makes a session of what a caller copied from a browser: cookies by name, the headers that the manifest allows, and
// the browser's name. Missing lists what the manifest wants and was not given.
func NewSession(c *catalog.Catalog, cookies, headers map[string]secret.String, userAgent string) (s Session, missing []string) {
	s = Session{userAgent: userAgent}
	for _, name := range slices.Sorted(maps.Keys(cookies)) {
		if slices.Contains(c.Session.Cookies.Kept, name) && sound(name, cookies[name]) {
			s.cookies = append(s.cookies, cookie{name: name, value: own(cookies[name])})
		}
	}
	for name, value := range headers {
		if name = strings.ToLower(name); slices.Contains(c.Session.Headers.Allowed, name) && httpguts.ValidHeaderFieldValue(value.Reveal()) {
			s = s.withHeader(name, value)
		}
	}
	return s, s.missing(c)
}

// sound says whether a cookie can be sent; one that cannot counts as missing.
func sound(name string, value secret.String) bool {
	one := http.Cookie{Name: name, Value: strings.Trim(value.Reveal(), `"`)}
	return !value.Empty() && one.Valid() == nil
}

func (s Session) missing(c *catalog.Catalog) []string {
	var names []string
	for _, name := range c.Session.Cookies.Required {
		if s.Cookie(name).Empty() {
			names = append(names, name)
		}
	}
	for _, name := range c.Session.Headers.Required {
		if i := s.header(name); i < 0 || s.reveal(s.headers[i].value) == "" {
			names = append(names, name)
		}
	}
	return names
}

// Cookie is the value of one; empty if there is none.
func (s Session) Cookie(name string) secret.String {
	for _, c := range s.cookies {
		if c.name == name {
			return s.keep(c.value)
		}
	}
	return secret.String{}
}

// header is the place of one; negative if there is none.
func (s *Session) header(name string) int {
	return slices.IndexFunc(s.headers, func(h header) bool { return h.name == name })
}

// withHeader is the session with one header put.
func (s Session) withHeader(name string, text secret.String) Session {
	s.headers = slices.DeleteFunc(slices.Clone(s.headers), func(h header) bool { return h.name == name })
	s.headers = append(s.headers, header{name, own(text)})
	return s
}

// Owner is the platform's id of who signed in, as the session says; Probe asks the platform.
func (s Session) Owner(c *catalog.Catalog) string { return s.Cookie(c.Session.Cookies.Owner).Reveal() }

// ExpiresAt is when the session ends; zero if the platform did not say.
func (s Session) ExpiresAt(c *catalog.Catalog) time.Time {
	for _, one := range s.cookies {
		if one.name == c.Session.Cookies.Expiry {
			return one.expires
		}
	}
	return time.Time{}
}

// dress puts the session into a request's header.
func (s Session) dress(h http.Header, usual string) {
	for _, one := range s.headers {
		h.Set(one.name, s.reveal(one.value))
	}
	h.Set("User-Agent", usual)
	if s.userAgent != "" {
		h.Set("User-Agent", s.userAgent)
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

// after is the session as an answer leaves it, and the names of the cookies that it changed. A cookie whose time alone moved is not
// named, unless it moved far: not every answer is worth a write.
func (s Session) after(c *catalog.Catalog, header http.Header, now time.Time) (Session, []string) {
	var names []string
	changed := s
	for _, line := range header["Set-Cookie"] {
		set, err := http.ParseSetCookie(line)
		if err != nil || !slices.Contains(c.Session.Cookies.Kept, set.Name) {
			continue
		}
		next, matters := changed.set(fromHTTP(set, now), now)
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

// longest is as long as we believe a cookie to live, in seconds: ten years.
const longest = 10 * 365 * 24 * 3600

// moved is how far an expiry must move to be worth a write.
const moved = 6 * time.Hour

func fromHTTP(set *http.Cookie, now time.Time) cookie {
	one := cookie{name: set.Name, value: own(secret.New(set.Value)), expires: set.Expires, setAt: now}
	if set.Quoted {
		one.value = own(secret.New(`"` + set.Value + `"`))
	}
	switch {
	case set.MaxAge < 0:
		one.expires = now
	case set.MaxAge > 0:
		one.expires = now.Add(time.Duration(min(set.MaxAge, longest)) * time.Second)
	}
	return one
}

// set is the session with one cookie put, or removed if it has ended, and whether that matters.
func (s Session) set(one cookie, now time.Time) (Session, bool) {
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
	return out, !s.keep(old.value).Equal(s.keep(one.value)) || shift > moved
}

// Merge is this session with the named cookies taken from another one: how two answers that changed different cookies both count. Where
// both changed the same one, the answer that came in later counts.
func (s Session) Merge(from Session, names []string) Session {
	out := s
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
		c.value = own(from.keep(c.value))
		out.cookies = append(out.cookies, c)
	}
	return out
}

// stored is the form of a session, and of a continuation, that is sealed.
type stored struct {
	Cookies   []storedCookie    `json:"cookies,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	UserAgent string            `json:"userAgent,omitempty"`
}

type storedCookie struct {
	Name    string    `json:"name"`
	Value   string    `json:"value"`
	Expires time.Time `json:"expires,omitzero"`
	SetAt   time.Time `json:"setAt,omitzero"`
}

func (s Session) store() stored {
	out := stored{UserAgent: s.userAgent, Headers: map[string]string{}}
	for _, c := range s.cookies {
		out.Cookies = append(out.Cookies, storedCookie{c.name, s.reveal(c.value), c.expires, c.setAt})
	}
	for _, h := range s.headers {
		out.Headers[h.name] = s.reveal(h.value)
	}
	return out
}

func (st stored) session() Session {
	s := Session{userAgent: st.UserAgent}
	for _, c := range st.Cookies {
		s.cookies = append(s.cookies, cookie{c.Name, own(secret.New(c.Value)), c.Expires, c.SetAt})
	}
	for _, name := range slices.Sorted(maps.Keys(st.Headers)) {
		s.headers = append(s.headers, header{name, own(secret.New(st.Headers[name]))})
	}
	return s
}

// errStored means that what was unsealed is not what was sealed.
var errStored = errors.New("what was stored is no session")

// Encode is the session as text, to be sealed.
func (s Session) Encode() secret.String { return encode(s.store()) }

// DecodeSession undoes Encode.
func DecodeSession(text secret.String) (Session, error) {
	if s, plain := readSession(text); plain {
		return s, nil
	}
	var st stored
	if json.Unmarshal([]byte(text.Reveal()), &st) != nil {
		return Session{}, errStored
	}
	return st.session(), nil
}

func encode(v any) secret.String {
	text, err := json.Marshal(v)
	if err != nil {
		panic("a session is made of texts and times: " + err.Error())
	}
	return secret.New(string(text))
}
