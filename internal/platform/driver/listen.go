package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// maxFrame bounds one frame, in bytes.
const maxFrame = 1 << 20

// sincePage is how many missed frames are asked for at once, and sinceBytes how large the answer may be.
const (
	sincePage  = 500
	sinceBytes = 32 << 20
)

// ErrNoSocket means that the platform has no live frames, or cannot be asked for those that were missed.
var ErrNoSocket = errors.New("the platform has no such thing")

// Socket brings events as they happen. One goroutine reads it; Close it.
type Socket struct {
	// Changed are the names of the cookies that opening it changed; Session is then the session to go on with.
	Changed []string
	Session Session

	conn    *websocket.Conn
	catalog *catalog.Catalog
	stop    context.CancelFunc
	pinged  chan struct{}
}

// Closed says that a socket is over, and why as far as the platform said.
type Closed struct {
	// Code is the platform's close code; -1 if it just went away.
	Code   int
	Reason string
	// Session means that the code says that the session is over.
	Session bool
	cause   error
}

func (c *Closed) Error() string {
	return fmt.Sprintf("the platform closed the socket (code %d)", c.Code)
}

// Unwrap gives what went wrong on the way.
func (c *Closed) Unwrap() error { return c.cause }

// Listen opens the account's socket. If the platform refuses, the error is Refused.
func (d *HTTP) Listen(ctx context.Context, via Via, s Session) (*Socket, error) {
	spec := d.Catalog.Socket
	if spec == nil {
		return nil, ErrNoSocket
	}
	header := http.Header{}
	for name, values := range d.Catalog.Session.Send {
		header[name] = values
	}
	s.dress(header, d.Catalog.Session.UserAgent)
	options := &websocket.DialOptions{HTTPClient: d.client(via).HTTP(), HTTPHeader: header, CompressionMode: websocket.CompressionDisabled}
	address := "ws" + strings.TrimPrefix(d.Origin, "http") + spec.Path
	conn, resp, err := websocket.Dial(ctx, address, options) //nolint:bodyclose // the library closes it
	if err != nil {
		return nil, d.notOpened(resp, err)
	}
	conn.SetReadLimit(maxFrame)
	living, stop := context.WithCancel(context.WithoutCancel(ctx))
	socket := &Socket{conn: conn, catalog: d.Catalog, stop: stop, pinged: make(chan struct{})}
	socket.Session, socket.Changed = s.after(d.Catalog, resp.Header, d.Now())
	go socket.keepAlive(living, spec.Ping)
	return socket, nil
}

// notOpened tells a refusal from a broken way. The library's error holds the address and what the platform said, so it is dropped.
func (d *HTTP) notOpened(resp *http.Response, err error) error {
	if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(resp.Body) // at most a kilobyte of it is there
		r := &reply{status: resp.StatusCode, header: resp.Header, body: body}
		if refused := d.refused(r); refused != nil {
			return refused
		}
		return &Closed{Code: -1, cause: catalog.ErrChanged}
	}
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return p
	}
	for _, known := range []error{egress.ErrNoAnswer, egress.ErrTooLong, egress.ErrMalformed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return fmt.Errorf("listen: %w", known)
		}
	}
	return &Closed{Code: -1, cause: egress.ErrBroken}
}

// keepAlive pings; a platform that is silent for three pings is gone.
func (s *Socket) keepAlive(ctx context.Context, every time.Duration) {
	defer close(s.pinged)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		patience, cancel := context.WithTimeout(ctx, 2*every)
		err := s.conn.Ping(patience)
		cancel()
		if err != nil {
			_ = s.conn.CloseNow() // Next finds out
			return
		}
	}
}

// Next waits for the next event. An error that is catalog.ErrInvalid, ErrChanged or ErrUnknownFrame is about one frame, and the
// socket goes on; any other is the end of it, and is Closed or the context's.
func (s *Socket) Next(ctx context.Context) (catalog.Event, error) {
	kind, frame, err := s.conn.Read(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return catalog.Event{}, fmt.Errorf("listen: %w", context.Cause(ctx))
		}
		closed := &Closed{Code: int(websocket.CloseStatus(err)), cause: egress.ErrBroken}
		closed.Session = s.catalog.Socket.Ended(closed.Code)
		if told, ok := errors.AsType[websocket.CloseError](err); ok {
			closed.Reason = told.Reason
		}
		return catalog.Event{}, closed
	}
	if kind != websocket.MessageText {
		return catalog.Event{}, fmt.Errorf("%w: a frame that is no text", catalog.ErrInvalid)
	}
	return s.catalog.Decode(frame)
}

// Close ends it.
func (s *Socket) Close() {
	s.stop()
	_ = s.conn.CloseNow() // the platform notices either way
	<-s.pinged
}

// Missed are events that happened while nobody listened, oldest first.
type Missed struct {
	Events []catalog.Event
	// Skipped counts frames that could not be understood.
	Skipped int
	// More means that there are more behind Last.
	More bool
	// Gap means that the platform no longer has all that came behind the event that was asked for.
	Gap bool
	// Last is the id of the last frame, understood or not; empty if there was none.
	Last string
	// Newest is the id of the platform's newest frame, listed or not; empty if it does not say.
	Newest string
	Answer
}

// CannotList says whether an error of Since means that the platform lists no events.
func CannotList(err error) bool {
	refused, ok := errors.AsType[*Refused](err)
	return errors.Is(err, ErrNoSocket) || ok && refused.Kind == catalog.RefusedNotFound
}

// Newest asks for the id of the platform's newest event, so that Since can later list everything that happens from now on. The id is empty
// for a platform that lists no events. The answer has the cookies that the platform changed meanwhile.
func Newest(ctx context.Context, d Listens, via Via, s Session) (string, Answer, error) {
	all := Answer{Session: s}
	for after := ""; ; {
		m, err := d.Since(ctx, via, all.Session, after)
		if len(m.Changed) > 0 {
			all.Session, all.Changed = m.Session, append(all.Changed, m.Changed...)
		}
		switch {
		case CannotList(err):
			return "", all, nil
		case err != nil:
			return "", all, err
		case m.Newest != "":
			return m.Newest, all, nil
		}
		if m.Last != "" {
			after = m.Last
		}
		if !m.More || m.Last == "" {
			return after, all, nil
		}
	}
}

// Since lists what happened behind an event.
func (d *HTTP) Since(ctx context.Context, via Via, s Session, after string) (Missed, error) {
	var req catalog.Request
	asked := false
	if d.Catalog.Socket != nil {
		req, asked = d.Catalog.Socket.Since(after, sincePage)
	}
	if !asked {
		return Missed{}, ErrNoSocket
	}
	r, err := d.exchange(ctx, via, s, req, egress.Limits{Bytes: sinceBytes})
	m := Missed{Answer: d.answer(s, r)}
	if err != nil {
		return m, d.lost(ctx, d.Catalog.Verify, err)
	}
	if refused := d.refused(r); refused != nil {
		return m, refused
	}
	list, err := d.Catalog.Socket.Missed(r.body)
	if err != nil {
		return m, unreadable(d.Catalog.Verify, err)
	}
	m.More, m.Gap, m.Newest = list.More, !list.Complete, list.Newest
	for _, frame := range list.Frames {
		e, err := d.Catalog.Decode(frame)
		if e.UpstreamID != "" {
			m.Last = e.UpstreamID
		}
		if err != nil {
			m.Skipped++
			continue
		}
		m.Events = append(m.Events, e)
	}
	return m, nil
}
