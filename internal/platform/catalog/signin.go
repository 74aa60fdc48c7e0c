package catalog

import (
	"cmp"
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

// Session describes the cookies and headers of a session, and what is sent with every call.
type Session struct {
	Cookies Cookies
	Headers Headers
	// Device is the name of the header that identifies the device, or empty. We generate its value.
	Device string
	// Send holds headers that are sent with every call. The driver replaces the value $origin by scheme and host of the
	// place that it calls.
	Send      http.Header
	UserAgent string
	// JWT is nil if the platform issues no keys to programs.
	JWT *JWT
}

// Cookies lists the cookies of a session by name.
type Cookies struct {
	// A session needs all Required cookies. Of the cookies that the platform sets, only Kept ones are stored. Rotates
	// lists cookies that any response may change.
	Required, Kept, Rotates []string
	// Remember lists cookies of an ended session that are sent with the next sign-in of the same account, so that the
	// platform recognises the device.
	Remember []string
	// Owner is the cookie with the platform's id of the signed-in user. Expiry is the cookie whose Expires attribute is
	// the end of the session.
	Owner, Expiry string
}

// Headers lists the headers of a session by name, in lower case.
type Headers struct{ Required, Allowed []string }

// Channel is the means by which the creator proves their identity: a code by SMS, app or e-mail, or a selfie.
type Channel string

// The channels.
const (
	ChannelSMS   Channel = "sms"
	ChannelApp   Channel = "app"
	ChannelEmail Channel = "email"
	ChannelFace  Channel = "face"
)

// Challenge is a further proof of identity that the platform requires before it signs in.
type Challenge struct {
	Token secret.String
	// Channel is empty if the platform named one that the manifest does not know.
	Channel Channel
	// Available lists the channels that the creator can use.
	Available []Channel
	// Mask is the destination of the code, masked by the platform.
	Mask      string
	ExpiresAt time.Time
	// Lasts is how long the challenge is open from now on, or 0 if the platform says so itself (ExpiresAt) or not at all.
	Lasts time.Duration
	// Page is the URL where the creator takes a selfie, or empty.
	Page secret.String
	// Sent is false if the platform sends the code only on request.
	Sent bool
	// State is the state of a selfie: open, passed or rejected.
	State string
}

// QR is a sign-in that the creator approves on their phone.
type QR struct {
	ID string
	// Secret proves to the platform that we started this sign-in.
	Secret secret.String
	// URL is the URL that the phone opens. It is valid until ExpiresAt, the whole sign-in until EndsAt.
	URL               secret.String
	ExpiresAt, EndsAt time.Time
}

// QRStatus is the progress of a QR sign-in.
type QRStatus string

// The statuses of a QR sign-in.
const (
	QRWaiting  QRStatus = "waiting"
	QRScanned  QRStatus = "scanned"
	QRApproved QRStatus = "approved"
	QRDenied   QRStatus = "denied"
	QRExpired  QRStatus = "expired"
)

// The steps of a sign-in, as in the manifest.
const (
	StepCredentials = "credentials"
	StepCode        = "code"
	StepResend      = "resend"
	StepSwitch      = "switch"
	StepCheck       = "check"
	StepQR          = "qr"
	StepQRCheck     = "qrCheck"
	StepLogout      = "logout"
)

// ErrNoStep means that the platform does not have a step of the sign-in.
var ErrNoStep = errors.New("the platform has no such sign-in step")

// SignIn builds the requests of the sign-in and parses the responses.
type SignIn struct {
	steps     map[string]*step
	challenge challengePaths
	// channels maps our names to the platform's, statuses the platform's to ours.
	channels map[Channel]string
	qr       qrPaths
	statuses map[string]QRStatus
	// status is the path of the QR status.
	status []string
	// failures are the rules for refused steps. The first rule that matches wins.
	failures []failureRule
	// OAuth is nil if the platform has no sign-in by OAuth.
	OAuth *OAuth
}

// HasStep reports whether the platform has a step of the sign-in.
func (s *SignIn) HasStep(name string) bool { return s.steps[name] != nil }

// failureRule says which failure code of ours a refused step has. An empty step means all steps.
type failureRule struct {
	matcher
	step, failure string
}

// challengePaths holds the paths of a challenge's parts, below at. A nil path means that the platform does not have it.
type challengePaths struct {
	at, token, channel, available, mask, expires, page, sent, state []string
	// codes are the platform's error codes that mean a challenge by one channel, which is then open for lasts. They are
	// nil if the platform sends a challenge with parts.
	codes []string
	by    Channel
	lasts time.Duration
}

type qrPaths struct{ id, secret, url, expires, ends []string }

// step is a request template. {name} in the path, and $name in a header or the body, stand for values.
type step struct {
	verb, path string
	header     map[string]string
	// names are the members of the body in order, values their JSON. values is nil if there is no body.
	names  []string
	values map[string]json.RawMessage
}

// Login builds the request that signs in with e-mail and password.
func (s *SignIn) Login(email, password secret.String) (Request, error) {
	return s.buildRequest(StepCredentials, map[string]secret.String{"email": email, "password": password})
}

// Answer builds the request that answers a challenge with a code.
func (s *SignIn) Answer(token, code secret.String) (Request, error) {
	return s.buildRequest(StepCode, map[string]secret.String{"token": token, "code": code})
}

// Resend builds the request for a new code.
func (s *SignIn) Resend(token secret.String) (Request, error) {
	return s.buildRequest(StepResend, map[string]secret.String{"token": token})
}

// Switch builds the request that changes the channel of a challenge.
func (s *SignIn) Switch(token secret.String, to Channel) (Request, error) {
	theirs, ok := s.channels[to]
	if !ok {
		return Request{}, fmt.Errorf("switch to %s: %w", to, ErrNoStep)
	}
	return s.buildRequest(StepSwitch, map[string]secret.String{"token": token, "channel": secret.New(theirs)})
}

// Check builds the request for the state of a challenge.
func (s *SignIn) Check(token secret.String) (Request, error) {
	return s.buildRequest(StepCheck, map[string]secret.String{"token": token})
}

func (s *SignIn) OpenQR() (Request, error) { return s.buildRequest(StepQR, nil) }

func (s *SignIn) CheckQR(qr QR) (Request, error) {
	return s.buildRequest(StepQRCheck, map[string]secret.String{"id": secret.New(qr.ID), "secret": qr.Secret})
}

// Logout builds the request that ends the session.
func (s *SignIn) Logout() (Request, error) { return s.buildRequest(StepLogout, nil) }

var placeholder = regexp.MustCompile(`\{([^}]*)\}`)

// buildRequest fills in the template of a step. A value in the path must be a single segment.
func (s *SignIn) buildRequest(name string, values map[string]secret.String) (Request, error) {
	st := s.steps[name]
	if st == nil {
		return Request{}, fmt.Errorf("%s: %w", name, ErrNoStep)
	}
	req := Request{Method: st.verb}
	var bad error
	req.Path = placeholder.ReplaceAllStringFunc(st.path, func(m string) string {
		// Tokens come from the platform, so they must not lead to another path.
		value := values[m[1:len(m)-1]].Reveal()
		if value == "" || value == "." || value == ".." || strings.ContainsAny(value, "/\\") {
			bad = fmt.Errorf("%s: the value of %s is not a path segment", name, m)
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
		req.Body = st.buildBody(values)
	}
	return req, nil
}

func (st *step) buildBody(values map[string]secret.String) []byte {
	out := []byte{'{'}
	for i, name := range st.names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(tape.AppendQuoted(out, name), ':')
		// A value is raw JSON: a variable is the string "$name", and everything else is copied.
		value := st.values[name]
		if variable, ok := strings.CutPrefix(string(value), `"$`); ok {
			out = tape.AppendQuoted(out, values[strings.TrimSuffix(variable, `"`)].Reveal())
			continue
		}
		out = append(out, value...)
	}
	return append(out, '}')
}

// Failure returns our code for a failed step, or an empty string if the manifest does not list the refusal. It also
// returns how long to wait: as the response says, else as the manifest says, else 0.
func (s *SignIn) Failure(step string, status int, r Refusal) (code string, retryAfter time.Duration) {
	for i := range s.failures {
		f := &s.failures[i]
		if (f.step == "" || f.step == step) && f.matches(status, r.Code, r.message) {
			return f.failure, cmp.Or(r.asked, f.wait, r.RetryAfter)
		}
	}
	return "", r.RetryAfter
}

// Challenge returns the challenge in a response, if it has one. The status of the response does not matter. r is what
// Classify returned for the response, or zero for a success.
func (s *SignIn) Challenge(body []byte, r Refusal) (Challenge, bool) {
	if s.challenge.codes != nil {
		// The platform has sent the code. The half-finished session is in the cookies, so there is no token.
		ch := Challenge{Channel: s.challenge.by, Sent: true, Lasts: s.challenge.lasts}
		return ch, r.Code != "" && slices.Contains(s.challenge.codes, r.Code)
	}
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
	// A platform without the member sent always sends the code right away.
	ch := Challenge{
		Token: secret.New(token), Channel: s.channel(textAt(t, at, p.channel)),
		Mask: oneLine(textAt(t, at, p.mask), maxMessage),
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

// channel returns our name of a channel, or an empty string if the manifest does not know it.
func (s *SignIn) channel(theirs string) Channel {
	for ours, name := range s.channels {
		if name == theirs {
			return ours
		}
	}
	return ""
}

// textAt returns the string or number at a path below a node as text. It returns an empty string if there is none, or
// if the path is nil.
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

// QR parses the response to OpenQR or CheckQR.
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
		return QR{}, fmt.Errorf("%w: the QR response lacks its id, URL or times", ErrChanged)
	}
	return qr, nil
}

// QRStatus reads the status of a QR sign-in from the response to CheckQR.
func (s *SignIn) QRStatus(body []byte) (QRStatus, error) {
	t, err := tape.Read(body, frameLimits)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	defer t.Release()
	status, ok := s.statuses[textAt(t, tape.Root, s.status)]
	if !ok {
		return "", fmt.Errorf("%w: the status of the QR is unknown", ErrChanged)
	}
	return status, nil
}

func (c *compiler) compileSignIn() {
	in := c.doc.SignIn
	s := SignIn{steps: map[string]*step{}, channels: map[Channel]string{}, statuses: map[string]QRStatus{}}
	ch := c.challengeOf(in)
	// A challenge that is only a code has no token.
	token := []string{"token"}
	if ch.Code != nil {
		token = nil
	}
	steps := map[string]struct {
		step      *manifest.Step
		variables []string
	}{
		StepCredentials: {in.Credentials, []string{"email", "password"}}, StepCode: {in.Code, append(token, "code")},
		StepResend: {in.Resend, token}, StepSwitch: {in.Switch, append(token, "channel")},
		StepCheck: {in.Check, token}, StepLogout: {in.Logout, nil},
	}
	for name, st := range steps {
		if st.step != nil {
			s.steps[name] = c.compileStep(name, st.step, st.variables)
		}
	}
	if in.QR != nil {
		s.steps[StepQR] = c.compileStep(StepQR, &in.QR.Step, nil)
		s.qr = qrPaths{shape.SplitPath(in.QR.ID), shape.SplitPath(in.QR.Secret), shape.SplitPath(in.QR.URL), shape.SplitPath(in.QR.Expires), shape.SplitPath(in.QR.Ends)}
	}
	if in.QRCheck != nil {
		s.steps[StepQRCheck] = c.compileStep(StepQRCheck, &in.QRCheck.Step, []string{"id", "secret"})
		s.status = shape.SplitPath(in.QRCheck.Status)
		for ours, theirs := range in.QRCheck.Statuses {
			s.statuses[theirs] = QRStatus(ours)
		}
	}
	if (in.QR == nil) != (in.QRCheck == nil) {
		c.upstreamFault("signIn: qr and qrCheck require each other")
	}
	s.challenge = challengePaths{
		codes: ch.Code, by: Channel(ch.By), lasts: c.duration("signIn.challenge.lasts", ch.Lasts),
		at: shape.SplitPath(ch.At), token: shape.SplitPath(ch.Token), channel: shape.SplitPath(ch.Channel), available: shape.SplitPath(ch.Available),
		mask: shape.SplitPath(ch.Mask), expires: shape.SplitPath(ch.Expires), page: shape.SplitPath(ch.Page), sent: shape.SplitPath(ch.Sent), state: shape.SplitPath(ch.State),
	}
	for ours, theirs := range ch.Channels {
		s.channels[Channel(ours)] = theirs
	}
	for i, f := range in.Failures {
		c.checkMatcher("signIn.failures", i, f.Matcher)
		rule := failureRule{matcher: newMatcher(f.Matcher), step: f.Step, failure: f.Failure}
		first := slices.IndexFunc(s.failures, func(earlier failureRule) bool {
			return (earlier.step == "" || earlier.step == rule.step) && earlier.covers(&rule.matcher)
		})
		if first >= 0 {
			c.upstreamFault("signIn.failures: rule %d never applies, because rule %d matches first", i+1, first+1)
		}
		s.failures = append(s.failures, rule)
	}
	s.OAuth = c.compileOAuth()
	c.cat.SignIn = s
}

// challengeOf returns the section challenge. It is empty on a platform that signs in with the credentials alone.
func (c *compiler) challengeOf(in manifest.SignIn) manifest.Challenge {
	if in.Challenge == nil {
		if in.Code != nil || in.Resend != nil || in.Switch != nil || in.Check != nil {
			c.upstreamFault("signIn: code, resend, switch and check require challenge")
		}
		return manifest.Challenge{}
	}
	if (in.Challenge.At == "") == (in.Challenge.Code == nil) {
		c.upstreamFault("signIn.challenge: give either at, token, channel and channels, or code, by and lasts")
	}
	if in.Challenge.Code != nil && c.doc.Errors.Code == nil {
		c.upstreamFault("signIn.challenge: a code requires errors.code")
	}
	return *in.Challenge
}

// compileStep compiles a step and checks that its template uses only the given variables.
func (c *compiler) compileStep(name string, from *manifest.Step, variables []string) *step {
	verb, path, _ := strings.Cut(from.HTTP, " ")
	st := &step{verb: verb, path: c.cat.base + path, header: map[string]string{}}
	known := func(variable string) {
		if !slices.Contains(variables, variable) {
			c.upstreamFault("signIn.%s: there is no value %s; available: %s", name, variable, strings.Join(variables, ", "))
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
		c.upstreamFault("signIn.%s: the body must be an object", name)
	}
	st.names = slices.Sorted(maps.Keys(st.values))
	for _, value := range st.values {
		if variable, ok := strings.CutPrefix(string(value), `"$`); ok {
			known(strings.TrimSuffix(variable, `"`))
		}
	}
	return st
}
