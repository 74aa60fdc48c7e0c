package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/egress/internal/h1"
)

// Field is one line of a header, or one cookie.
type Field = h1.Field

// Request is a request whose body is in memory.
type Request struct {
	Method string
	// Origin is one of the client's, as it was given to ParseOrigins.
	Origin string
	// Path begins with a slash and is escaped, and so is Query, which has no question mark and may be empty.
	Path, Query string
	// Header is sent in this order. Host, lengths and Cookie are added.
	Header, Cookies []Field
	Body            []byte
}

// Reply is an answer, read to its end.
type Reply struct {
	Status int
	// Body is inflated, and valid until Release.
	Body []byte

	header http.Header
	from   *carrier
}

// SetsCookies says whether the answer has a Set-Cookie, without making a header.
func (r *Reply) SetsCookies() bool {
	if r.from == nil {
		return len(r.header["Set-Cookie"]) > 0
	}
	return r.from.answer.SetsCookies
}

// Header makes the answer's header. It stays valid after Release.
func (r *Reply) Header() http.Header {
	if r.from != nil && r.header == nil {
		r.header = r.from.answer.Header()
		if r.from.zipped {
			r.header.Del("Content-Encoding")
			r.header.Del("Content-Length")
		}
	}
	return r.header
}

// Release gives the body's memory back. The zero Reply has none.
func (r *Reply) Release() {
	if r.from != nil {
		r.from.release()
		r.from, r.Body = nil, nil
	}
}

// carrier carries one call over a connection that it owns meanwhile. It is used again and again.
type carrier struct {
	egress *Egress
	answer h1.Answer
	out    []byte // the request; wiped as soon as it is sent
	zipped bool

	limits Limits
	total  time.Time
	line   *line
	kept   bool // the line was there before the call
	conns  int  // lines that were used
	wrote  bool // a byte was sent, so that the platform may have acted on it
	body   bool // the header is over
}

// maxBuffer is how large a buffer may be to wait for the next call.
const maxBuffer = 256 << 10

func (k *carrier) release() {
	k.answer.Release(maxBuffer)
	k.line = nil
	k.egress.carriers.Put(k)
}

// Call sends a request whose body is in memory and reads the whole answer, within the limits. The errors are those of Do; when only
// the body fails, the reply is there beside the error, because its header counts. Release the reply.
//
// It owns its connection instead of leaving it to the standard transport: two goroutines and their hand-overs less. Uploads,
// downloads and WebSockets go through Do.
func (c *Client) Call(ctx context.Context, q *Request, limits Limits) (Reply, error) {
	at, known := c.origins.named[q.Origin]
	switch {
	case ctx.Err() != nil: // An idle connection could carry the call before it notices.
		return Reply{}, fmt.Errorf("%w: %w", ErrNotSent, context.Cause(ctx))
	case !known:
		return Reply{}, fmt.Errorf("%w: %w", ErrNotSent, ErrOrigin)
	case !soundAccount(c.who.Account):
		return Reply{}, fmt.Errorf("%w: %w", ErrNotSent, errAccount)
	case len(q.Body) > inMemory:
		return c.callStreaming(ctx, q, limits)
	}
	k, _ := c.egress.carriers.Get().(*carrier)
	if k == nil {
		k = &carrier{egress: c.egress}
	}
	k.limits, k.total, k.conns, k.wrote, k.zipped = limits.withDefaults(), time.Time{}, 0, false, false
	if k.limits.Total > 0 {
		k.total = c.egress.Now().Add(k.limits.Total)
	}
	k.answer.Status = 0
	err := k.compose(q, at)
	var body []byte
	if err == nil {
		body, err = c.carry(ctx, k, q, at)
	}
	clear(k.out) // cookies were in it
	reply := Reply{Status: k.answer.Status, Body: body, from: k}
	if err != nil {
		err = k.explain(ctx, err)
		if !k.body {
			reply.Release()
			return Reply{}, err
		}
		err = fmt.Errorf("read the answer: %w", err)
	}
	return reply, err
}

// compose writes the request into the carrier's buffer.
func (k *carrier) compose(q *Request, at place) error {
	var room [16]Field
	r := h1.Request{Method: q.Method, Host: at.host, Path: q.Path, Query: q.Query, Header: q.Header, Cookies: q.Cookies, Body: q.Body}
	if !k.limits.Raw && !has(q.Header, "Accept-Encoding") {
		r.Header = append(append(room[:0], q.Header...), Field{Name: "Accept-Encoding", Value: "gzip"})
	}
	var err error
	k.body = false
	k.out, err = h1.AppendRequest(k.out[:0], &r)
	return err
}

func has(list []Field, name string) bool {
	for i := range list {
		if len(list[i].Name) == len(name) && strings.EqualFold(list[i].Name, name) {
			return true
		}
	}
	return false
}

// carry tries the account's proxies in the account's order.
func (c *Client) carry(ctx context.Context, k *carrier, q *Request, at place) ([]byte, error) {
	key := lineKey{isolation: c.who.Isolation, account: c.who.Account, address: at.address, secure: at.secure}
	if key.isolation == ByProxy {
		key.account = "all"
	}
	var tries [maxTries]*node
	tried, faults := tries[:0], []*fault(nil)
	r, order := c.egress.regions[c.who.Region], hash(c.who.Account)
	patience := c.egress.Config.DialTimeout + c.egress.Config.HandshakeTimeout
	until := c.egress.Now().Add(patience)
	for r != nil && len(tried) < maxTries {
		if key.proxy = r.pick(order, tried); key.proxy == nil {
			break
		}
		if err := k.connect(ctx, key, until); err != nil {
			f, ok := errors.AsType[*fault](err)
			if !ok || ctx.Err() != nil {
				return nil, err
			}
			tried, faults = append(tried, key.proxy), append(faults, f)
			if f.reason == slow && !c.egress.Now().Before(until) {
				break
			}
			continue
		}
		body, again, err := k.exchange(ctx, q)
		if !again {
			return body, err
		}
	}
	return nil, c.unavailable(faults, k.wrote && keyed(q))
}

// connect finds a line on which the platform has been silent since its last answer, or makes one.
func (k *carrier) connect(ctx context.Context, key lineKey, until time.Time) error {
	for {
		l := k.egress.lines.take(key)
		if l == nil {
			break
		}
		l.arm(k.egress.Now(), k.limits.Header, ErrNoAnswer, k.total) // an old deadline would hide what has arrived
		if look(l.conn) == silent {
			k.line, k.kept = l, true
			return nil
		}
		l.close()
	}
	if k.total.Before(until) && !k.total.IsZero() {
		until = k.total
	}
	dialling, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	conn, err := k.egress.dial(dialling, key.account+"."+key.proxy.label+"."+key.address, key.secure)
	if err != nil {
		if dialling.Err() != nil && ctx.Err() == nil {
			return &fault{proxy: key.proxy.name, reason: slow}
		}
		return err
	}
	k.line, k.kept = newLine(conn, key), false
	k.line.arm(k.egress.Now(), k.limits.Header, ErrNoAnswer, k.total)
	return nil
}

// maxConns bounds how many kept connections in a row may turn out to be dead.
const maxConns = 4

// exchange uses the line that was found. again means that it was dead: the call goes on with another one.
func (k *carrier) exchange(ctx context.Context, q *Request) (body []byte, again bool, err error) {
	l := k.line
	k.conns++
	stop := context.AfterFunc(ctx, l.stop)
	err = k.ask(q.Method)
	if err == nil {
		k.body = true
		body, err = k.read()
	}
	usable := stop() && err == nil && !k.answer.Last
	if usable {
		keep := idleTimeout
		if hint := k.answer.KeepAlive; hint > 0 {
			keep = min(keep, hint-keepMargin)
		}
		usable = keep > 0
		if usable {
			k.egress.lines.put(l, keep)
		}
	}
	if !usable {
		l.close()
	}
	// Nothing of it was sent, or it does no harm to send it again.
	again = err != nil && !k.body && k.kept && k.conns < maxConns && !k.answer.Heard && ctx.Err() == nil && !timedOut(err) &&
		(!k.wrote || safe(q.Method) || keyed(q))
	return body, again, err
}

// keepMargin is how much earlier than the platform we give a connection up.
const keepMargin = time.Second

// ask sends the request and waits for the header of the answer.
func (k *carrier) ask(method string) error {
	k.answer.Heard = false
	n, failed := k.line.conn.Write(k.out)
	k.wrote = k.wrote || n > 0
	if failed != nil && n == 0 {
		return failed
	}
	// A platform that has seen enough may answer and hang up before it has read all.
	err := k.answer.ReadHeader(k, method)
	if failed != nil {
		k.answer.Last = true
		if err != nil {
			return failed
		}
	}
	return err
}

// Read reads from the line, on the clock.
func (k *carrier) Read(p []byte) (int, error) {
	if k.body {
		k.line.arm(k.egress.Now(), k.limits.Idle, ErrStalled, k.total)
	}
	return k.line.conn.Read(p)
}

// read reads the body.
func (k *carrier) read() ([]byte, error) {
	limit := k.limits.Bytes
	if limit <= 0 {
		limit = None
	}
	coding := k.answer.Coding
	switch {
	case k.limits.Raw, coding == "", coding == "identity", k.answer.Length() == 0:
		return k.answer.ReadBody(k, nil, limit)
	case coding != "gzip" && coding != "x-gzip":
		return nil, ErrMalformed
	}
	k.zipped = true
	inflater, _ := k.egress.inflaters.Get().(*gzip.Reader)
	if inflater == nil {
		inflater = new(gzip.Reader)
	}
	defer k.egress.inflaters.Put(inflater)
	return k.answer.ReadBody(k, inflater, limit)
}

// explain turns an error into one of ours. What the platform said is in none of them.
func (k *carrier) explain(ctx context.Context, err error) error {
	_, inTunnel := errors.AsType[*tunnelError](err)
	_, told := errors.AsType[*problem.Error](err)
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case told, errors.Is(err, ErrMalformed), errors.Is(err, h1.ErrRequest):
	case errors.Is(err, h1.ErrTooLarge):
		err = ErrTooLarge
	case errors.Is(err, h1.ErrBomb):
		err = ErrBomb
	case timedOut(err):
		err = k.line.late
	case inTunnel, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), !k.answer.Heard:
		err = ErrBroken
	default:
		err = ErrMalformed
	}
	if !k.wrote && !errors.Is(err, ErrNotSent) {
		err = fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return err
}

// safe says whether a request may be repeated, because it changes nothing.
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// keyed says whether a request may be repeated, because the platform knows it again.
func keyed(q *Request) bool {
	return has(q.Header, "Idempotency-Key") || has(q.Header, "X-Idempotency-Key")
}

// callStreaming is Call for a body that is too large to be sent blindly: the platform may answer while it is on its way.
func (c *Client) callStreaming(ctx context.Context, q *Request, limits Limits) (Reply, error) {
	address := q.Origin + q.Path
	if q.Query != "" {
		address += "?" + q.Query
	}
	req, err := http.NewRequestWithContext(ctx, q.Method, address, bytes.NewReader(q.Body))
	if err != nil {
		return Reply{}, fmt.Errorf("%w: %w", ErrNotSent, h1.ErrRequest) // the library's error holds the address
	}
	if len(q.Body) == 0 {
		req.Body, req.GetBody, req.ContentLength = http.NoBody, nil, 0
	}
	for _, f := range q.Header {
		req.Header.Set(f.Name, f.Value)
	}
	for _, cookie := range q.Cookies {
		line := req.Header.Get("Cookie")
		if line != "" {
			line += "; "
		}
		req.Header.Set("Cookie", line+cookie.Name+"="+cookie.Value)
	}
	resp, err := c.Do(req, limits)
	if err != nil {
		return Reply{}, err
	}
	body, err := Read(resp)
	return Reply{Status: resp.StatusCode, Body: body, header: resp.Header}, err
}
