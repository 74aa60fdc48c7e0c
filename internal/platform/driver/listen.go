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

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// maxFrame bounds one frame, in bytes.
const maxFrame = 1 << 20

// sincePage is how many missed frames one request asks for, and sinceBytes the maximum size of its response.
const (
	sincePage  = 500
	sinceBytes = 32 << 20
)

// ErrNoSocket means that the platform has no live frames, or cannot list missed ones, or is not polled.
var ErrNoSocket = errors.New("the platform does not have events of this kind")

// Socket receives events as they happen. Only one goroutine may call Next. The caller must call Close.
type Socket struct {
	// Changed lists the names of the cookies that opening the socket changed. Session is the session to continue with.
	Changed []string
	Session Session

	conn    *websocket.Conn
	catalog *catalog.Catalog
	// stop ends the goroutine that pings, which then closes pingDone.
	stop     context.CancelFunc
	pingDone chan struct{}
}

// Closed is the error for a socket that has ended.
type Closed struct {
	// Code is the platform's close code, or -1 if the connection broke.
	Code   int
	Reason string
	// Session means that the close code stands for an ended session.
	Session bool
	cause   error
}

func (c *Closed) Error() string {
	return fmt.Sprintf("the platform closed the socket (code %d)", c.Code)
}

func (c *Closed) Unwrap() error { return c.cause }

// Listen opens the account's socket. The context bounds the opening only. If the platform refuses, the error is
// *Refused.
func (d *HTTP) Listen(ctx context.Context, via Via, s Session) (*Socket, error) {
	spec := d.deps.Catalog.Socket
	if spec == nil {
		return nil, ErrNoSocket
	}
	at, err := d.locate(via)
	if err != nil {
		return nil, err
	}
	header, err := d.newHeader(at, s)
	if err != nil {
		return nil, err
	}
	options := &websocket.DialOptions{
		HTTPClient: d.client(via, at.origins).HTTP(), HTTPHeader: header, CompressionMode: websocket.CompressionDisabled,
	}
	address := "ws" + strings.TrimPrefix(at.origin, "http") + at.path + spec.Path
	conn, resp, err := websocket.Dial(ctx, address, options) //nolint:bodyclose // the library closes it
	if err != nil {
		return nil, d.dialError(resp, err)
	}
	conn.SetReadLimit(maxFrame)
	// The pings must outlive ctx, which bounds the opening only.
	pingCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	socket := &Socket{conn: conn, catalog: d.deps.Catalog, stop: stop, pingDone: make(chan struct{})}
	socket.Session, socket.Changed = s.withSetCookies(d.deps.Catalog, resp.Header, d.deps.Now())
	go socket.keepAlive(pingCtx, spec.Ping)
	return socket, nil
}

// dialError distinguishes a refusal from a failed connection. It drops the library's error, which contains the URL and
// the platform's response.
func (d *HTTP) dialError(resp *http.Response, err error) error {
	if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(resp.Body) // the library keeps at most 1 KiB of it
		r := &reply{status: resp.StatusCode, header: resp.Header, body: body}
		if refused := d.classifyReply(r); refused != nil {
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

// keepAlive pings the platform. If a pong takes longer than two intervals, so that the platform was silent for three,
// it closes the connection.
func (s *Socket) keepAlive(ctx context.Context, every time.Duration) {
	defer close(s.pingDone)
	for range clock.Ticks(ctx, every) {
		patience, cancel := context.WithTimeout(ctx, 2*every)
		err := s.conn.Ping(patience)
		cancel()
		if err != nil {
			_ = s.conn.CloseNow() // Next then fails
			return
		}
	}
}

// Next waits for the next event. The errors catalog.ErrInvalid, ErrChanged and ErrUnknownFrame concern one frame, and
// the socket remains usable. Any other error is final: a *Closed, or the context's.
func (s *Socket) Next(ctx context.Context) (catalog.Event, error) {
	kind, frame, err := s.conn.Read(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return catalog.Event{}, fmt.Errorf("listen: %w", context.Cause(ctx))
		}
		closed := &Closed{Code: int(websocket.CloseStatus(err)), cause: egress.ErrBroken}
		closed.Session = s.catalog.Socket.Ended(closed.Code)
		if closeErr, ok := errors.AsType[websocket.CloseError](err); ok {
			closed.Reason = closeErr.Reason
		}
		return catalog.Event{}, closed
	}
	if kind != websocket.MessageText {
		return catalog.Event{}, fmt.Errorf("%w: the frame is not text", catalog.ErrInvalid)
	}
	return s.catalog.Decode(frame)
}

// Close closes the connection and waits for its goroutine to end.
func (s *Socket) Close() {
	s.stop()
	_ = s.conn.CloseNow() // the platform notices either way
	<-s.pingDone
}

// Missed holds events that happened while no socket was open.
type Missed struct {
	// Events are ordered from oldest to newest.
	Events []catalog.Event
	// Skipped counts frames that could not be decoded.
	Skipped int
	// More means that more events follow Last.
	More bool
	// Gap means that the platform no longer has all events after the requested one.
	Gap bool
	// Last is the id of the last listed frame, decoded or not, or empty if there was none.
	Last string
	// Newest is the id of the platform's newest frame, listed or not, or empty if it does not say.
	Newest string
	Answer
}

// CannotList reports whether an error of Since means that the platform does not list events.
func CannotList(err error) bool {
	refused, ok := errors.AsType[*Refused](err)
	return errors.Is(err, ErrNoSocket) || ok && refused.Kind == catalog.RefusedNotFound
}

// Newest returns the id of the platform's newest event, so that Since can later list everything from now on. If the
// platform does not report it, Newest reads the list to its end. For a platform that is polled it returns the position
// for Poll instead. The text is empty if the platform does not list events. The answer contains the cookies that the
// platform changed.
func Newest(ctx context.Context, d Listens, via Via, s Session) (string, Answer, error) {
	all := Answer{Session: s}
	for after := ""; ; {
		m, err := d.Since(ctx, via, all.Session, after)
		if len(m.Changed) > 0 {
			all.Session, all.Changed = m.Session, append(all.Changed, m.Changed...)
		}
		switch {
		case errors.Is(err, ErrNoSocket):
			p, err := d.Poll(ctx, via, s, "")
			if errors.Is(err, ErrNoSocket) {
				return "", all, nil
			}
			return p.Position, p.Answer, err
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

// Since lists the events after the one with the given upstream id, up to sincePage of them.
func (d *HTTP) Since(ctx context.Context, via Via, s Session, after string) (Missed, error) {
	var req catalog.Request
	asked := false
	if d.deps.Catalog.Socket != nil {
		req, asked = d.deps.Catalog.Socket.Since(after, sincePage)
	}
	if !asked {
		return Missed{}, ErrNoSocket
	}
	r, err := d.exchange(ctx, via, s, req, egress.Limits{Bytes: sinceBytes})
	m := Missed{Answer: d.newAnswer(s, r)}
	if err != nil {
		return m, d.transportProblem(ctx, d.deps.Catalog.Verify, err)
	}
	if refused := d.classifyReply(r); refused != nil {
		return m, refused
	}
	list, err := d.deps.Catalog.Socket.Missed(r.body)
	if err != nil {
		return m, responseProblem(d.deps.Catalog.Verify, err)
	}
	m.More, m.Gap, m.Newest = list.More, !list.Complete, list.Newest
	for _, frame := range list.Frames {
		// A frame that cannot be decoded may still have an id; the next call must not list it again.
		e, err := d.deps.Catalog.Decode(frame)
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
