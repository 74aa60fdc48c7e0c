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

// Socket is where live frames come from.
type Socket struct {
	// Path is below the origin, with ws for http and wss for https.
	Path string
	// Ping is how often we ping; silence for three of them ends the connection.
	Ping time.Duration

	id, name, at, body []string
	since              *since
	ended              []int
}

type since struct {
	path, cursor, limit         string
	items, more, complete, last []string
}

// Ended says whether the platform closes a socket with this code when its session is over.
func (s *Socket) Ended(code int) bool { return slices.Contains(s.ended, code) }

// Missed is the answer to Since.
type Missed struct {
	// Frames are for Decode, oldest first.
	Frames []json.RawMessage
	// More means that there are more behind them, Complete that they are all that came.
	More, Complete bool
	// Newest is the id of the platform's newest frame, listed or not; empty if it does not say.
	Newest string
}

// Since asks for the frames behind one that was seen, by its id; empty for the oldest that the platform still has. false if
// the platform cannot be asked.
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

// Missed reads the answer to Since.
func (s *Socket) Missed(body []byte) (Missed, error) {
	t, err := tape.Read(body, answerLimits)
	if err != nil {
		return Missed{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	defer t.Release()
	list, ok := t.Get(tape.Root, s.since.items)
	if !ok || t.Kind(list) != tape.Array {
		return Missed{}, fmt.Errorf("%w: %s should be a list", ErrChanged, strings.Join(s.since.items, "."))
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

// upstream compiles what upstream.yaml holds besides methods.
func (c *compiler) upstream() {
	c.signIn()
	c.compileRefusals()
	c.session()
	in := c.doc.Socket
	if in == nil {
		if c.cat.ListSince {
			c.upstreamFault("listSince: there is no socket")
		}
		return
	}
	ping, err := time.ParseDuration(in.Ping)
	if err != nil {
		c.upstreamFault("socket.ping: %q is no duration", in.Ping)
	}
	s := &Socket{
		Path: c.cat.base + in.Path, Ping: ping,
		id: shape.Path(in.Frame.ID), name: shape.Path(in.Frame.Name), at: shape.Path(in.Frame.At), body: shape.Path(in.Frame.Body),
		ended: in.Ended,
	}
	if in.Since != nil {
		_, path, _ := strings.Cut(in.Since.HTTP, " ")
		s.since = &since{
			path: c.cat.base + path, cursor: strings.TrimPrefix(in.Since.Cursor, "query."), limit: strings.TrimPrefix(in.Since.Limit, "query."),
			items: shape.Path(in.Since.Items), more: shape.Path(in.Since.More), complete: shape.Path(in.Since.Complete),
			last: shape.Path(in.Since.Last),
		}
	}
	if c.cat.ListSince != (in.Since != nil) {
		c.upstreamFault("listSince and socket.since go together")
	}
	c.cat.Socket = s
}

// session takes over what a session is made of.
func (c *compiler) session() {
	in := c.doc.Session
	s := Session{
		Cookies: Cookies{
			Required: in.Cookies.Required, Kept: in.Cookies.Kept, Rotates: in.Cookies.Rotates, Owner: in.Cookies.Owner, Expiry: in.Cookies.Expiry,
		},
		Headers: Headers{Required: in.Headers.Required, Allowed: in.Headers.Allowed},
		Device:  in.Device, Send: http.Header{}, UserAgent: in.UserAgent,
	}
	for name, value := range in.Send {
		s.Send.Set(name, value)
	}
	for _, list := range [][]string{in.Cookies.Required, in.Cookies.Rotates, {in.Cookies.Owner}, {in.Cookies.Expiry}} {
		for _, name := range list {
			if name != "" && !slices.Contains(in.Cookies.Kept, name) {
				c.upstreamFault("session.cookies: %s is needed and not kept", name)
			}
		}
	}
	for _, name := range in.Headers.Required {
		if !slices.Contains(in.Headers.Allowed, name) {
			c.upstreamFault("session.headers: %s is required and not allowed", name)
		}
	}
	c.cat.Session = s
}
