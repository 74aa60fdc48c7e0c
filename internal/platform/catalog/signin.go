package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/shape"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

// Session is what a session is made of, and what goes with every call.
type Session struct {
	Cookies Cookies
	Headers Headers
	// Device is the header that names the device, empty if there is none; its value is ours to make.
	Device string
	// Send goes with every call.
	Send      http.Header
	UserAgent string
}

// Cookies are a session's, by name.
type Cookies struct {
	// Required ones make a session; Kept ones are kept of what the platform sets; Rotates may change on any answer.
	Required, Kept, Rotates []string
	// Owner holds the platform's id of who signed in; the Expires of Expiry is the session's.
	Owner, Expiry string
}

// Headers are a session's, by name in lower case.
type Headers struct{ Required, Allowed []string }

// Channel is where a code comes from.
type Channel string

// Channels.
const (
	ChannelSMS   Channel = "sms"
	ChannelApp   Channel = "app"
	ChannelEmail Channel = "email"
	ChannelFace  Channel = "face"
)

// Challenge is what the platform asks for before it signs in.
type Challenge struct {
	Token secret.String
	// Channel is empty if the platform named one that the manifest does not know.
	Channel   Channel
	Available []Channel
	// Mask is where the code was sent to, made unreadable by the platform.
	Mask      string
	ExpiresAt time.Time
	// Page is where the creator takes a selfie, empty for none.
	Page secret.String
	// Sent is false while a code goes out only when it is asked for.
	Sent bool
	// State is that of a selfie: open, passed, rejected.
	State string
}

// QR is a sign-in by the creator's phone.
type QR struct {
	ID string
	// Secret proves that we opened it.
	Secret secret.String
	// URL is what the phone opens, until ExpiresAt; the whole ends at EndsAt.
	URL               secret.String
	ExpiresAt, EndsAt time.Time
}

// QRStatus is how far the creator's phone is.
type QRStatus string

// Statuses of a QR.
const (
	QRWaiting  QRStatus = "waiting"
	QRScanned  QRStatus = "scanned"
	QRApproved QRStatus = "approved"
	QRDenied   QRStatus = "denied"
	QRExpired  QRStatus = "expired"
)

// ErrNoStep means that the platform has no such step of signing in.
var ErrNoStep = errors.New("the platform has no such step")

// SignIn makes the requests of signing in, and reads the answers.
type SignIn struct {
	steps     map[string]*step
	challenge challengePaths
	channels  map[Channel]string
	qr        qrPaths
	statuses  map[string]QRStatus
	status    []string
	failures  map[int]string
}

type challengePaths struct {
	at, token, channel, available, mask, expires, page, sent, state []string
}

type qrPaths struct{ id, secret, url, expires, ends []string }

// step is a request with places for values.
type step struct {
	verb, path string
	header     map[string]string
	// names are the body's members in order; a value that begins with $ stands for one of the step's.
	names  []string
	values map[string]json.RawMessage
}

// Login gives name and password.
func (s *SignIn) Login(email, password secret.String) (Request, error) {
	return s.make("credentials", map[string]secret.String{"email": email, "password": password})
}

// Answer gives a code.
func (s *SignIn) Answer(token, code secret.String) (Request, error) {
	return s.make("code", map[string]secret.String{"token": token, "code": code})
}

// Resend asks for another code.
func (s *SignIn) Resend(token secret.String) (Request, error) {
	return s.make("resend", map[string]secret.String{"token": token})
}

// Switch asks for another channel.
func (s *SignIn) Switch(token secret.String, to Channel) (Request, error) {
	theirs, ok := s.channels[to]
	if !ok {
		return Request{}, fmt.Errorf("switch to %s: %w", to, ErrNoStep)
	}
	return s.make("switch", map[string]secret.String{"token": token, "channel": secret.New(theirs)})
}

// Check asks how a challenge stands.
func (s *SignIn) Check(token secret.String) (Request, error) {
	return s.make("check", map[string]secret.String{"token": token})
}

// OpenQR starts a sign-in by phone.
func (s *SignIn) OpenQR() (Request, error) { return s.make("qr", nil) }

// CheckQR asks how a sign-in by phone stands.
func (s *SignIn) CheckQR(qr QR) (Request, error) {
	return s.make("qrCheck", map[string]secret.String{"id": secret.New(qr.ID), "secret": qr.Secret})
}

// Logout ends the session.
func (s *SignIn) Logout() (Request, error) { return s.make("logout", nil) }

var placeholder = regexp.MustCompile(`\{([^}]*)\}`)

// make fills a step's places.
func (s *SignIn) make(name string, values map[string]secret.String) (Request, error) {
	st := s.steps[name]
	if st == nil {
		return Request{}, fmt.Errorf("%s: %w", name, ErrNoStep)
	}
	req := Request{Method: st.verb}
	var bad error
	req.Path = placeholder.ReplaceAllStringFunc(st.path, func(m string) string {
		value := values[m[1:len(m)-1]].Reveal()
		if value == "" || value == "." || value == ".." || strings.ContainsAny(value, "/\\") {
			bad = fmt.Errorf("%s: %s is no part of a path", name, m)
		}
		return url.PathEscape(value)
	})
	if bad != nil {
		return Request{}, bad
	}
	for header, value := range st.header {
		if req.Header == nil {
			req.Header = http.Header{}
		}
		if variable, ok := strings.CutPrefix(value, "$"); ok {
			value = values[variable].Reveal()
		}
		req.Header.Set(header, value)
	}
	if st.values != nil {
		req.Body = st.body(values)
	}
	return req, nil
}

func (st *step) body(values map[string]secret.String) []byte {
	out := []byte{'{'}
	for i, name := range st.names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(tape.AppendQuoted(out, name), ':')
		value := st.values[name]
		if variable, ok := strings.CutPrefix(string(value), `"$`); ok {
			out = tape.AppendQuoted(out, values[strings.TrimSuffix(variable, `"`)].Reveal())
			continue
		}
		out = append(out, value...)
	}
	return append(out, '}')
}

// Failure is why signing in failed, by the platform's code; empty if the code says nothing about signing in.
func (s *SignIn) Failure(code int) string { return s.failures[code] }

// Challenge finds a challenge in an answer, whatever the answer's status.
func (s *SignIn) Challenge(body []byte) (Challenge, bool) {
	t, err := tape.Read(body, frameLimits)
	if err != nil {
		return Challenge{}, false
	}
	defer t.Release()
	p := &s.challenge
	at, ok := t.Get(tape.Root, p.at)
	if !ok || t.Kind(at) != tape.Object {
		return Challenge{}, false
	}
	token := textAt(t, at, p.token)
	if token == "" {
		return Challenge{}, false
	}
	ch := Challenge{
		Token: secret.New(token), Channel: s.channel(textAt(t, at, p.channel)), Mask: clean(textAt(t, at, p.mask)),
		Page: secret.New(textAt(t, at, p.page)), State: textAt(t, at, p.state), Sent: true,
	}
	if list, ok := t.Get(at, p.available); ok && p.available != nil && t.Kind(list) == tape.Array {
		for item := range t.Items(list) {
			if known := s.channel(scalarText(t, item)); known != "" {
				ch.Available = append(ch.Available, known)
			}
		}
	}
	if sent, ok := t.Get(at, p.sent); ok && p.sent != nil {
		ch.Sent = t.Kind(sent) != tape.False
	}
	if expires, ok := t.Get(at, p.expires); ok && p.expires != nil {
		ch.ExpiresAt, _ = timeAt(t, expires)
	}
	return ch, true
}

func (s *SignIn) channel(theirs string) Channel {
	for ours, name := range s.channels {
		if name == theirs {
			return ours
		}
	}
	return ""
}

// textAt is a text or a number below a place, empty for none. A path that is nil has not been given.
func textAt(t *tape.Tape, at uint32, path []string) string {
	if path == nil {
		return ""
	}
	found, ok := t.Get(at, path)
	if !ok {
		return ""
	}
	return scalarText(t, found)
}

// QR reads the answer to OpenQR or CheckQR.
func (s *SignIn) QR(body []byte) (QR, error) {
	t, err := tape.Read(body, frameLimits)
	if err != nil {
		return QR{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	defer t.Release()
	qr := QR{
		ID: textAt(t, tape.Root, s.qr.id), Secret: secret.New(textAt(t, tape.Root, s.qr.secret)), URL: secret.New(textAt(t, tape.Root, s.qr.url)),
	}
	expires, ok := t.Get(tape.Root, s.qr.expires)
	if ok {
		qr.ExpiresAt, ok = timeAt(t, expires)
	}
	ends, found := t.Get(tape.Root, s.qr.ends)
	if found {
		qr.EndsAt, found = timeAt(t, ends)
	}
	if qr.ID == "" || qr.URL.Empty() || !ok || !found {
		return QR{}, fmt.Errorf("%w: the answer about the QR lacks its id, url or times", ErrChanged)
	}
	return qr, nil
}

// QRStatus reads how a sign-in by phone stands from the answer to CheckQR.
func (s *SignIn) QRStatus(body []byte) (QRStatus, error) {
	t, err := tape.Read(body, frameLimits)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	defer t.Release()
	status, ok := s.statuses[textAt(t, tape.Root, s.status)]
	if !ok {
		return "", fmt.Errorf("%w: the QR has no status that is known", ErrChanged)
	}
	return status, nil
}

// signIn compiles the steps of signing in.
func (c *compiler) signIn() {
	in := c.doc.SignIn
	s := SignIn{steps: map[string]*step{}, channels: map[Channel]string{}, statuses: map[string]QRStatus{}, failures: map[int]string{}}
	steps := map[string]struct {
		step      *manifest.Step
		variables []string
	}{
		"credentials": {&in.Credentials, []string{"email", "password"}}, "code": {in.Code, []string{"token", "code"}},
		"resend": {in.Resend, []string{"token"}}, "switch": {in.Switch, []string{"token", "channel"}},
		"check": {in.Check, []string{"token"}}, "logout": {in.Logout, nil},
	}
	for name, st := range steps {
		if st.step != nil {
			s.steps[name] = c.step(name, st.step, st.variables)
		}
	}
	if in.QR != nil {
		s.steps["qr"] = c.step("qr", &in.QR.Step, nil)
		s.qr = qrPaths{shape.Path(in.QR.ID), shape.Path(in.QR.Secret), shape.Path(in.QR.URL), shape.Path(in.QR.Expires), shape.Path(in.QR.Ends)}
	}
	if in.QRCheck != nil {
		s.steps["qrCheck"] = c.step("qrCheck", &in.QRCheck.Step, []string{"id", "secret"})
		s.status = shape.Path(in.QRCheck.Status)
		for ours, theirs := range in.QRCheck.Statuses {
			s.statuses[theirs] = QRStatus(ours)
		}
	}
	if (in.QR == nil) != (in.QRCheck == nil) {
		c.upstreamFault("signIn: qr and qrCheck go together")
	}
	ch := in.Challenge
	s.challenge = challengePaths{
		at: shape.Path(ch.At), token: shape.Path(ch.Token), channel: shape.Path(ch.Channel), available: shape.Path(ch.Available),
		mask: shape.Path(ch.Mask), expires: shape.Path(ch.Expires), page: shape.Path(ch.Page), sent: shape.Path(ch.Sent), state: shape.Path(ch.State),
	}
	for ours, theirs := range ch.Channels {
		s.channels[Channel(ours)] = theirs
	}
	for _, f := range in.Failures {
		if s.failures[f.Code] != "" {
			c.upstreamFault("signIn.failures: the code %d is listed twice", f.Code)
		}
		s.failures[f.Code] = f.Failure
	}
	c.cat.SignIn = s
}

// step compiles one step and checks that it names only values it has.
func (c *compiler) step(name string, from *manifest.Step, variables []string) *step {
	verb, path, _ := strings.Cut(from.HTTP, " ")
	st := &step{verb: verb, path: c.cat.base + path, header: map[string]string{}}
	known := func(variable string) {
		if !slices.Contains(variables, variable) {
			c.upstreamFault("signIn.%s: there is no value %s; it has %s", name, variable, strings.Join(variables, ", "))
		}
	}
	for _, m := range placeholder.FindAllStringSubmatch(path, -1) {
		known(m[1])
	}
	for to, value := range from.Send {
		st.header[strings.TrimPrefix(to, "header.")] = value
		if variable, ok := strings.CutPrefix(value, "$"); ok {
			known(variable)
		}
	}
	if from.Body == nil {
		return st
	}
	st.values = map[string]json.RawMessage{}
	if err := json.Unmarshal(from.Body, &st.values); err != nil {
		c.upstreamFault("signIn.%s: the body cannot be read", name)
	}
	st.names = slices.Sorted(maps.Keys(st.values))
	for _, value := range st.values {
		if variable, ok := strings.CutPrefix(string(value), `"$`); ok {
			known(strings.TrimSuffix(variable, `"`))
		}
	}
	return st
}
