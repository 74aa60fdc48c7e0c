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

// Field is one header field or one cookie.
type Field = h1.Field

// Request is a request whose body is in memory.
type Request struct {
	Method string
	// Origin is one of the client's origins, exactly as it was passed to ParseOrigins.
	Origin string
	// Path is escaped and starts with a slash. Query is escaped, has no question mark and may be empty.
	Path, Query string
	// Header is sent in this order. Call adds Host, Content-Length, Cookie and, unless Limits.Raw, Accept-Encoding.
	Header, Cookies []Field
	Body            []byte
}

// Reply is a response with its whole body. The zero Reply has none.
type Reply struct {
	Status int
	// Body is decompressed. It is valid until Release.
	Body []byte

	header http.Header
	from   *callExchange
}

// SetsCookies reports whether the response has a Set-Cookie header. Unlike Header, it does not allocate.
func (r *Reply) SetsCookies() bool {
	if r.from == nil {
		return len(r.header["Set-Cookie"]) > 0
	}
	return r.from.answer.SetsCookies
}

// Header returns the header of the response. It remains valid after Release, but must first be called before it.
func (r *Reply) Header() http.Header {
	if r.from != nil && r.header == nil {
		r.header = r.from.answer.Header()
		if r.from.inflated {
			r.header.Del("Content-Encoding")
			r.header.Del("Content-Length")
		}
	}
	return r.header
}

// Release returns the memory of the body to a pool.
func (r *Reply) Release() {
	if r.from != nil {
		r.from.release()
		r.from, r.Body = nil, nil
	}
}

// callExchange is one Call in progress. It owns its connection while it runs. Exchanges are pooled for their buffers.
type callExchange struct {
	egress   *Egress
	answer   h1.Answer
	out      []byte // the encoded request; wiped as soon as it is sent
	inflated bool

	limits    Limits
	total     time.Time
	pooled    *pooledConn
	reused    bool // pooled was idle before this call
	connsUsed int
	wrote     bool // a byte was sent, so the platform may have acted on the request
	body      bool // the header of the response is complete
}

// maxPooledBuffer bounds the buffers that stay in the pool, in bytes.
const maxPooledBuffer = 256 << 10

func (k *callExchange) release() {
	k.answer.Release(maxPooledBuffer)
	k.pooled = nil
	k.egress.callExchanges.Put(k)
}

// Call sends a request whose body is in memory and reads the whole response, within the limits. The errors are those of
// Do. If only the body fails, Call returns both the reply and the error, because the header may matter. The caller must
// release the reply.
//
// Call owns its connection instead of leaving it to the standard transport, which saves two goroutines and the
// hand-overs between them. Uploads, downloads and WebSockets use Do.
func (c *Client) Call(ctx context.Context, q *Request, limits Limits) (Reply, error) {
	at := c.origins.byText(q.Origin)
	switch {
	case ctx.Err() != nil: // an idle connection would send the request before noticing
		return Reply{}, fmt.Errorf("%w: %w", ErrNotSent, context.Cause(ctx))
	case at == nil:
		return Reply{}, fmt.Errorf("%w: %w", ErrNotSent, ErrOrigin)
	case !isValidAccount(c.who.Account):
		return Reply{}, fmt.Errorf("%w: %w", ErrNotSent, errAccount)
	case len(q.Body) > maxInMemory:
		return c.callStreaming(ctx, q, limits)
	}
	k, _ := c.egress.callExchanges.Get().(*callExchange)
	if k == nil {
		k = &callExchange{egress: c.egress}
	}
	k.limits, k.total, k.connsUsed, k.wrote, k.inflated = limits.withDefaults(), time.Time{}, 0, false, false
	began := c.egress.deps.Now()
	if k.limits.Total > 0 {
		k.total = began.Add(k.limits.Total)
	}
	k.answer.Status = 0
	ctx, span := c.startSpan(ctx, q.Method, at.address, at.target.host)
	err := k.encodeRequest(q, at, c.traceparent(ctx, at.address))
	var body []byte
	if err == nil {
		body, err = c.callViaProxies(ctx, k, q, at)
	}
	clear(k.out) // it contains cookies
	c.observeRequest(ctx, k.answer.Status, began)
	endSpan(span, k.answer.Status)
	reply := Reply{Status: k.answer.Status, Body: body, from: k}
	if err != nil {
		err = k.translateError(ctx, err)
		if !k.body {
			reply.Release()
			return Reply{}, err
		}
		err = fmt.Errorf("read the response: %w", err)
	}
	return reply, err
}

// encodeRequest writes the request to k.out. parent is the header traceparent; empty for none.
func (k *callExchange) encodeRequest(q *Request, at *origin, parent string) error {
	var room [16]Field
	r := h1.Request{Method: q.Method, Host: at.host, Path: q.Path, Query: q.Query, Header: q.Header, Cookies: q.Cookies, Body: q.Body}
	if !k.limits.Raw && !hasField(q.Header, "Accept-Encoding") {
		r.Header = append(append(room[:0], q.Header...), Field{Name: "Accept-Encoding", Value: "gzip"})
	}
	if parent != "" {
		r.Header = append(r.Header[:len(r.Header):len(r.Header)], Field{Name: "traceparent", Value: parent})
	}
	var err error
	k.body = false
	k.out, err = h1.AppendRequest(k.out[:0], &r)
	return err
}

func hasField(list []Field, name string) bool {
	for i := range list {
		if len(list[i].Name) == len(name) && strings.EqualFold(list[i].Name, name) {
			return true
		}
	}
	return false
}

// callViaProxies tries the proxies of the region in the account's order of preference, at most maxTries of them.
func (c *Client) callViaProxies(ctx context.Context, k *callExchange, q *Request, at *origin) ([]byte, error) {
	key := connKey{isolation: c.who.Isolation, account: c.who.Account, address: at.address, secure: at.secure}
	if key.isolation == ByProxy { // all accounts share the connections
		key.account = "all"
	}
	var tries [maxTries]*proxyNode
	tried, faults := tries[:0], []*fault(nil)
	r, order := c.egress.region(c.who.Region), hash(c.who.Account)
	patience := c.egress.deps.Config.DialTimeout + c.egress.deps.Config.HandshakeTimeout
	until := c.egress.deps.Now().Add(patience)
	// Each round uses the most preferred usable proxy. After a failed dial the proxy counts as tried. After a dead
	// reused connection it does not, so the next round uses another connection through the same proxy.
	for r != nil && len(tried) < maxTries {
		if key.proxy = r.pick(order, tried); key.proxy == nil {
			break
		}
		if err := k.acquireConn(ctx, key, until); err != nil {
			f, ok := errors.AsType[*fault](err)
			if !ok || ctx.Err() != nil {
				return nil, err
			}
			tried, faults = append(tried, key.proxy), append(faults, f)
			if f.reason == blocked || f.reason == slow && !c.egress.deps.Now().Before(until) {
				break
			}
			continue
		}
		body, again, err := k.roundTrip(ctx, q)
		if !again {
			return body, err
		}
	}
	return nil, c.unavailableProblem(faults, isSite(at.address), k.wrote && hasIdempotencyKey(q))
}

// acquireConn takes an idle connection on which nothing has arrived since its last response, or dials a new one.
func (k *callExchange) acquireConn(ctx context.Context, key connKey, until time.Time) error {
	for {
		l := k.egress.pool.takeIdle(key)
		if l == nil {
			break
		}
		// An expired deadline would keep checkActivity from reading.
		l.setDeadline(k.egress.deps.Now(), k.limits.Header, ErrNoAnswer, k.total)
		if checkActivity(l.conn) == connSilent {
			k.pooled, k.reused = l, true
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
	k.pooled, k.reused = newPooledConn(conn, key), false
	k.pooled.setDeadline(k.egress.deps.Now(), k.limits.Header, ErrNoAnswer, k.total)
	return nil
}

// maxConns bounds the connections that one call may use, if reused ones turn out to be dead.
const maxConns = 4

// roundTrip sends the request on the acquired connection and reads the response. It then keeps or closes the
// connection. again means that the connection was dead and that the request can be sent on another one.
func (k *callExchange) roundTrip(ctx context.Context, q *Request) (body []byte, again bool, err error) {
	l := k.pooled
	k.connsUsed++
	stop := context.AfterFunc(ctx, l.stop)
	err = k.sendAndReadHeader(q.Method)
	if err == nil {
		k.body = true
		body, err = k.readBody()
	}
	// stop returns false if the context has ended, even if the response arrived just in time: the connection is
	// aborted.
	usable := stop() && err == nil && !k.answer.Last
	if usable {
		keep := idleTimeout
		if hint := k.answer.KeepAlive; hint > 0 {
			keep = min(keep, hint-keepAliveMargin)
		}
		usable = keep > 0
		if usable {
			k.egress.pool.keepIdle(l, keep)
		}
	}
	if !usable {
		l.close()
	}
	// Resend only on a reused connection that gave no byte of a response, and only if no byte of the request was sent
	// or sending it twice is harmless.
	again = err != nil && !k.body && k.reused && k.connsUsed < maxConns && !k.answer.Heard && ctx.Err() == nil && !isTimeout(err) &&
		(!k.wrote || isSafeMethod(q.Method) || hasIdempotencyKey(q))
	return body, again, err
}

// keepAliveMargin is how long before the platform's keep-alive timeout we stop using a connection.
const keepAliveMargin = time.Second

// sendAndReadHeader sends the request and reads the header of the response.
func (k *callExchange) sendAndReadHeader(method string) error {
	k.answer.Heard = false
	n, failed := k.pooled.conn.Write(k.out)
	k.wrote = k.wrote || n > 0
	if failed != nil && n == 0 {
		return failed
	}
	// A platform may respond and hang up before it has read the whole request. Its response still counts.
	err := k.answer.ReadHeader(k, method)
	if failed != nil {
		k.answer.Last = true
		if err != nil {
			return failed
		}
	}
	return err
}

// Read reads from the connection. While the body is read, each read gets a new idle deadline.
func (k *callExchange) Read(p []byte) (int, error) {
	if k.body {
		k.pooled.setDeadline(k.egress.deps.Now(), k.limits.Idle, ErrStalled, k.total)
	}
	return k.pooled.conn.Read(p)
}

// readBody reads and decompresses the body.
func (k *callExchange) readBody() ([]byte, error) {
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
	k.inflated = true
	inflater, _ := k.egress.inflaters.Get().(*gzip.Reader)
	if inflater == nil {
		inflater = new(gzip.Reader)
	}
	defer k.egress.inflaters.Put(inflater)
	return k.answer.ReadBody(k, inflater, limit)
}

// translateError turns an error into one of those in client.go. None of them contains data from the platform.
func (k *callExchange) translateError(ctx context.Context, err error) error {
	// The order of the cases matters: an aborted read also looks like a timeout, and an error without any byte of a
	// response means a broken connection rather than a malformed response.
	_, inTunnel := errors.AsType[*tunnelError](err)
	_, isProblem := errors.AsType[*problem.Error](err)
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case isProblem, errors.Is(err, ErrMalformed), errors.Is(err, h1.ErrRequest):
	case errors.Is(err, h1.ErrTooLarge):
		err = ErrTooLarge
	case errors.Is(err, h1.ErrBomb):
		err = ErrBomb
	case isTimeout(err):
		err = k.pooled.timeoutErr
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

// isSafeMethod reports whether a request may be resent because it changes nothing.
func isSafeMethod(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// hasIdempotencyKey reports whether a request may be resent because the platform recognises duplicates.
func hasIdempotencyKey(q *Request) bool {
	return hasField(q.Header, "Idempotency-Key") || hasField(q.Header, "X-Idempotency-Key")
}

// callStreaming is Call for large bodies. Call writes the whole request before it reads; with a large body the platform
// may respond in the meantime, so Do sends it.
func (c *Client) callStreaming(ctx context.Context, q *Request, limits Limits) (Reply, error) {
	address := q.Origin + q.Path
	if q.Query != "" {
		address += "?" + q.Query
	}
	req, err := http.NewRequestWithContext(ctx, q.Method, address, bytes.NewReader(q.Body))
	if err != nil {
		return Reply{}, fmt.Errorf("%w: %w", ErrNotSent, h1.ErrRequest) // the library's error contains the URL
	}
	if len(q.Body) == 0 {
		req.Body, req.GetBody, req.ContentLength = http.NoBody, nil, 0
	}
	for _, f := range q.Header {
		req.Header.Set(f.Name, f.Value)
	}
	for _, cookie := range q.Cookies {
		text := req.Header.Get("Cookie")
		if text != "" {
			text += "; "
		}
		req.Header.Set("Cookie", text+cookie.Name+"="+cookie.Value)
	}
	resp, err := c.Do(req, limits)
	if err != nil {
		return Reply{}, err
	}
	body, err := Read(resp)
	return Reply{Status: resp.StatusCode, Body: body, header: resp.Header}, err
}
