package catalog

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/shape"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

// Socket describes the WebSocket that delivers live frames.
type Socket struct {
	// Path is the path on the origin. The scheme is ws for http and wss for https.
	Path string
	// Ping is the interval of our pings. The connection is closed after silence of three intervals.
	Ping time.Duration

	id, name, at, body []string
	since              *since
	ended              []int
}

type since struct {
	path, cursor, limit         string
	items, more, complete, last []string
}

// Ended reports whether a close code means that the session has ended.
func (s *Socket) Ended(code int) bool { return slices.Contains(s.ended, code) }

// Missed is the response to Since.
type Missed struct {
	// Frames are for Decode, oldest first.
	Frames []json.RawMessage
	// More means that more frames follow these. Complete is false if some of the requested frames are no longer
	// available.
	More, Complete bool
	// Newest is the id of the platform's newest frame, listed or not, or empty if it does not say.
	Newest string
}

// Since builds the request for the frames after the one with id after. An empty id asks for the oldest frame that the
// platform still has. Since returns false if the platform cannot list frames.
func (s *Socket) Since(after string, limit int) (Request, bool) {
	if s.since == nil {
		return Request{}, false
	}
	query := url.Values{s.since.limit: {strconv.Itoa(limit)}}
	if after != "" {
		query.Set(s.since.cursor, after)
	}
	return Request{Method: http.MethodGet, Path: s.since.path, Query: query.Encode()}, true
}

// Missed parses the response to Since. The frames are copies.
func (s *Socket) Missed(body []byte) (Missed, error) {
	t, err := tape.Read(body, responseLimits)
	if err != nil {
		return Missed{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	defer t.Release()
	list, ok := t.Get(tape.Root, s.since.items)
	if !ok || t.Kind(list) != tape.Array {
		return Missed{}, fmt.Errorf("%w: %s should be an array", ErrChanged, strings.Join(s.since.items, "."))
	}
	m := Missed{Complete: true}
	for item := range t.Items(list) {
		m.Frames = append(m.Frames, slices.Clone(t.Literal(item)))
	}
	if s.since.more != nil {
		at, ok := t.Get(tape.Root, s.since.more)
		m.More = ok && t.Kind(at) == tape.True
	}
	if s.since.complete != nil {
		at, ok := t.Get(tape.Root, s.since.complete)
		m.Complete = ok && t.Kind(at) == tape.True
	}
	if s.since.last != nil {
		if at, ok := t.Get(tape.Root, s.since.last); ok {
			m.Newest = scalarText(t, at)
		}
	}
	return m, nil
}

// compileUpstream compiles the sections signIn, errors, session and socket of upstream.yaml.
func (c *compiler) compileUpstream() {
	c.compileSignIn()
	c.compileRefusals()
	c.compileSession()
	c.compilePoll()
	in := c.doc.Socket
	if in == nil {
		if c.cat.ListSince {
			c.upstreamFault("listSince requires socket")
		}
		return
	}
	s := &Socket{
		Path: c.cat.base + in.Path, Ping: c.duration("socket.ping", in.Ping),
		id: shape.SplitPath(in.Frame.ID), name: shape.SplitPath(in.Frame.Name), at: shape.SplitPath(in.Frame.At), body: shape.SplitPath(in.Frame.Body),
		ended: in.Ended,
	}
	if in.Since != nil {
		_, path, _ := strings.Cut(in.Since.HTTP, " ")
		s.since = &since{
			path: c.cat.base + path, cursor: strings.TrimPrefix(in.Since.Cursor, "query."), limit: strings.TrimPrefix(in.Since.Limit, "query."),
			items: shape.SplitPath(in.Since.Items), more: shape.SplitPath(in.Since.More), complete: shape.SplitPath(in.Since.Complete),
			last: shape.SplitPath(in.Since.Last),
		}
	}
	if c.cat.ListSince != (in.Since != nil) {
		c.upstreamFault("listSince: true and socket.since require each other")
	}
	c.cat.Socket = s
}

// duration parses a duration of upstream.yaml. An empty one is 0.
func (c *compiler) duration(key, text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		c.upstreamFault("%s: %q is not a duration", key, text)
	}
	return d
}

// compileSession copies the section session. Every cookie that another key names must be in kept, and every required
// header in allowed.
func (c *compiler) compileSession() {
	in := c.doc.Session
	if in.Cookies.Kept == nil {
		in.Cookies.Kept = in.Cookies.Required
	}
	s := Session{
		Cookies: Cookies{
			Required: in.Cookies.Required, Kept: in.Cookies.Kept, Rotates: in.Cookies.Rotates, Remember: in.Cookies.Remember,
			Owner: in.Cookies.Owner, Expiry: in.Cookies.Expiry,
		},
		Headers: Headers{Required: in.Headers.Required, Allowed: in.Headers.Allowed},
		Device:  in.Device, Send: http.Header{}, UserAgent: in.UserAgent,
	}
	if c.doc.SignIn.Credentials != nil && len(in.Cookies.Required)+len(in.Headers.Required) == 0 {
		c.upstreamFault("session: signIn.credentials needs cookies or headers by which a session is recognised")
	}
	s.JWT = c.compileJWT()
	for name, value := range in.Send {
		s.Send.Set(name, value)
		if strings.HasPrefix(value, "$") && value != "$origin" {
			c.upstreamFault("session.send: %s: there is no value %s; available: $origin", name, value)
		}
	}
	single := []string{in.Cookies.Owner, in.Cookies.Expiry}
	for _, name := range slices.Concat(in.Cookies.Required, in.Cookies.Rotates, in.Cookies.Remember, single) {
		if name != "" && !slices.Contains(in.Cookies.Kept, name) {
			c.upstreamFault("session.cookies: %s is used but not in kept", name)
		}
	}
	for _, name := range in.Headers.Required {
		if !slices.Contains(in.Headers.Allowed, name) {
			c.upstreamFault("session.headers: %s is in required but not in allowed", name)
		}
	}
	c.cat.Session = s
}
