package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
)

// ServeHTTP is the outermost layer: it gives the request an id, and notes at the end what became of it.
func (t *Table) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w}
	call := &Call{Request: requestID(r), table: t, header: w.Header(), written: rec, source: t.Source(r), started: t.Now()}
	for name, value := range t.secure {
		call.header[name] = value
	}
	call.id[0] = string(call.Request)
	call.header["X-Request-Id"] = call.id[:]
	if t.Draining() {
		call.header.Set("Connection", "close")
	}
	r = r.WithContext(context.WithValue(t.startSpan(r, call), callKey{}, call))
	defer func() {
		if !call.detached {
			t.finish(rec, r, call)
		}
	}()
	defer t.recover(rec, r, call)
	defer call.leave()
	if clean := path.Clean(r.URL.Path); clean != r.URL.Path {
		// The mux would redirect with a page of its own.
		t.unmatched(rec, r)
		return
	}
	t.mux.ServeHTTP(rec, r)
}

// guard is what every operation has around it: who calls, may they, is the body sound, and is there a place for it on this node.
func (t *Table) guard(op *Operation, next http.Handler) http.Handler {
	serve := func(w http.ResponseWriter, r *http.Request) {
		if given, ok := r.Header[keyHeader]; ok && op.keyed && !dryRun(op, r) {
			t.serveOnce(w, r, given, next)
			return
		}
		next.ServeHTTP(w, r)
	}
	compressed := t.compressing(serve)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := From(r.Context())
		call.op, call.request = op, r
		call.concern(r)
		if err := t.receive(w, r, call); err != nil {
			t.Fail(w, r, err)
			return
		}
		if err := call.startWork(); err != nil {
			t.Fail(w, r, err)
			return
		}
		if op.Timeout > typedTimeout {
			t.prolong(w, op.Timeout)
		}
		if op.compresses() {
			compressed(w, r)
			return
		}
		serve(w, r)
	})
}

// receive takes in a request: who calls, may they, and is what they send sound.
func (t *Table) receive(w http.ResponseWriter, r *http.Request, call *Call) error {
	op := call.op
	if err := t.authorise(r, call); err != nil {
		t.limitRest(w)
		return err
	}
	if !op.judged && !sound(r.URL.RawQuery) {
		return problem.InvalidRequest.New("The query string is not well-formed; escape what is special in it.")
	}
	if !op.hasBody || op.bodyless && r.ContentLength == 0 {
		return nil
	}
	body, err := t.receiveBody(w, r, call)
	if err == nil && !op.unchecked {
		err = checkJSON(body)
	}
	if err != nil {
		return err
	}
	call.body = body
	if !op.unchecked {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return nil
}

// sound says whether a query can be read.
func sound(query string) bool {
	if query == "" {
		return true
	}
	_, err := url.ParseQuery(query)
	return err == nil
}

// concern notes the account that a call is about, and what it uses. A name that no account has uses no account's limits: the
// operation will say that there is none.
func (c *Call) concern(r *http.Request) {
	c.quota = c.op.Quota
	if c.op.Account == "" {
		return
	}
	account, err := id.Parse[id.Account](r.PathValue(c.op.Account))
	if err == nil {
		c.account = account
	} else if c.quota == admission.Read || c.quota == admission.Write {
		c.quota = admission.Plain
	}
}

// answerSlack is what a caller is given to read an answer, beyond the time it takes to make it.
const answerSlack = 20 * time.Second

// prolong moves the connection's limits behind the operation's. Reading is limited as well: a read that times out while the
// operation runs would look as if the caller had gone.
func (t *Table) prolong(w http.ResponseWriter, timeout time.Duration) {
	control, end := http.NewResponseController(w), t.Now().Add(timeout+answerSlack)
	// A writer without a connection has no limits to move.
	_ = control.SetReadDeadline(end)
	_ = control.SetWriteDeadline(end)
}

func (t *Table) authorise(r *http.Request, call *Call) error {
	if call.op.Public {
		return nil
	}
	who, err := t.identify(r, call.op)
	if err != nil {
		return err // and whoever it was stays unknown: nothing is counted for them
	}
	if who, err = t.grown(r.Context(), call, who); err != nil {
		return err
	}
	call.Identity = who
	if err := allowed(call.op.Scope, who.Scopes); err != nil || call.account == "" {
		return err
	}
	if err := MayUse(who.Principal, call.account); err != nil {
		call.account = "" // a name that the caller may have made up must not be written down
		return err
	}
	return nil
}

// identify finds out who calls: by the key, or without one by a token where the operation takes it, or by a browser's cookie.
func (t *Table) identify(r *http.Request, op *Operation) (Identity, error) {
	if op.Ticket != nil && r.Header["Authorization"] == nil {
		if token := r.URL.Query().Get(TicketParameter); token != "" {
			return op.Ticket(r, token)
		}
	}
	if who, ok, err := t.byCookie(r); ok {
		return who, err
	}
	token, err := bearer(r.Header)
	if err != nil {
		return Identity{}, err
	}
	return t.Auth.Authenticate(r.Context(), token)
}

// TicketParameter is the query parameter that has the token of an operation with a Ticket.
const TicketParameter = "token"

// MayUse says why a key may not use an account, if so, before anything is looked up: the refusal must not tell what exists. An operator
// has no such list.
func MayUse(p *apikey.Principal, account id.Account) error {
	if p == nil || p.Key.Allow.MayUse(account) {
		return nil
	}
	return problem.AccountNotAllowedForKey.New("This key may not use this account.")
}

// bearer reads the token of the Authorization header.
func bearer(h http.Header) (string, error) {
	given := h["Authorization"]
	if len(given) == 0 || given[0] == "" {
		return "", problem.KeyMissing.New("The request has no Authorization header. Send Authorization: Bearer <API_KEY>.")
	}
	scheme, token, ok := strings.Cut(given[0], " ")
	if len(given) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", problem.KeyInvalid.New("The Authorization header must be: Bearer, a space, and the API key.")
	}
	return strings.TrimSpace(token), nil
}

// unmatched answers for paths and methods that no operation has.
func (t *Table) unmatched(w http.ResponseWriter, r *http.Request) {
	var allow []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := t.mux.Handler(probe); pattern != "/" && pattern != "" && path.Clean(r.URL.Path) == r.URL.Path {
			allow = append(allow, method)
			if method == http.MethodGet {
				allow = append(allow, http.MethodHead)
			}
		}
	}
	if len(allow) == 0 {
		detail := "Nothing is served at this path."
		if t.byPattern["GET "+documentPath] != nil {
			detail += " The operations are listed in " + t.Config.PublicURL + documentPath + "."
		}
		t.Fail(w, r, problem.RouteNotFound.New(detail))
		return
	}
	w.Header().Set("Allow", strings.Join(allow, ", "))
	t.Fail(w, r, problem.MethodNotAllowed.Newf("This path answers to %s.", strings.Join(allow, ", ")))
}

// documentPath is where a face has its OpenAPI document, if it serves one.
const documentPath = "/v1/openapi.json"

// recover turns a panic into an answer. The process lives on: a fault in one request is not one in all of them.
func (t *Table) recover(rec *recorder, r *http.Request, call *Call) {
	reason := recover()
	if reason == nil {
		return
	}
	if reason == http.ErrAbortHandler { //nolint:errorlint // a sentinel of net/http that is compared, not wrapped
		panic(reason)
	}
	// The type, not the value: a panic may carry anything the request carried.
	t.Log.LogAttrs(r.Context(), slog.LevelError, "panic", slog.String("request_id", string(call.Request)),
		slog.String("type", fmt.Sprintf("%T", reason)), slog.String("stack", string(debug.Stack())))
	if rec.status == 0 {
		t.Fail(rec, r, errPanic)
	}
}

var errPanic = errors.New("panic")

// finish writes the one line of this request, and counts it.
func (t *Table) finish(rec *recorder, r *http.Request, call *Call) {
	took := t.Now().Sub(call.started)
	operation := "unmatched"
	if call.op != nil {
		operation = call.op.ID
	}
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
	t.Metrics.observe(operation, rec.status, took)
	if call.name != "" {
		operation = call.name
	}
	call.endSpan(operation, rec.status)
	t.countUsage(call, operation, rec.status, took)
	t.note(call, r, rec, operation, took)

	level := slog.LevelInfo
	if call.fault != nil {
		level = slog.LevelError
	}
	if !t.Log.Enabled(r.Context(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs, slog.String("request_id", string(call.Request)), slog.String("method", r.Method),
		slog.String("operation", operation), slog.Int("status", rec.status), slog.Duration("took", took), slog.Int64("bytes", rec.bytes))
	if p := call.Identity.Principal; p != nil {
		attrs = append(attrs, slog.String("org_id", string(p.Org.ID)), slog.String("key_id", string(p.Key.ID)))
	}
	if call.account != "" {
		attrs = append(attrs, slog.String("account_id", string(call.account)))
	}
	if call.problem != "" {
		attrs = append(attrs, slog.String("problem", call.problem))
	}
	if call.keyed != nil && call.keyed.replay != nil {
		attrs = append(attrs, slog.Bool("replayed", true))
	}
	if call.fault != nil {
		attrs = append(attrs, slog.Any("error", call.fault))
	}
	t.Log.LogAttrs(r.Context(), level, "request", attrs...)
}

// countUsage adds the call to the org's breakdown.
func (t *Table) countUsage(call *Call, operation string, status int, took time.Duration) {
	p := call.Identity.Principal
	if t.Count == nil || p == nil || call.quota == admission.Free || call.quota == admission.Safety {
		return // what costs nothing is no part of what the month was used for
	}
	account := call.account
	if status == http.StatusNotFound {
		account = "" // a name that the caller made up must not become a row
	}
	outcome := usage.OK
	switch {
	case call.problem == problem.QuotaExceeded.Code, call.Decision.Denied != nil:
		outcome = usage.RateLimited // by us, or because the platform asked for a pause: it used nothing up
	case status >= http.StatusBadRequest:
		outcome = usage.Failed
	}
	if call.op.Streams || call.op.Timeout == WaitTimeout {
		took = 0 // it lasts as long as the caller wants
	}
	t.Count.Count(usage.Call{
		Org: p.Org.ID, Account: account, Operation: operation, Access: access(call.quota), Outcome: outcome, Status: status, Took: took,
	})
}

// note keeps the request for its org to read.
func (t *Table) note(call *Call, r *http.Request, rec *recorder, operation string, took time.Duration) {
	p := call.Identity.Principal
	if t.Journal == nil || p == nil {
		return
	}
	t.Journal.Add(requestlog.Entry{
		Org: p.Org.ID, At: call.started, Request: call.Request, Key: p.Key.ID, Account: call.account, Operation: operation, Verb: r.Method,
		Status: rec.status, Took: took, Upstream: call.upstream, Problem: call.problem, Reason: call.reason, Fields: call.fields, Retryable: call.retryable, UpstreamCode: call.upstreamCode,
		In: int64(len(call.body)), Out: rec.bytes, Replayed: call.keyed != nil && call.keyed.replay != nil, DryRun: dryRun(call.op, r),
		Source: cameFrom(call, r),
	})
}

// cliAgent begins the User-Agent of our own command line.
const cliAgent = "stagedoor-cli/"

// cameFrom tells the dashboard and the command line from everything else. It is for people who read the log: anybody can say that they are
// the command line.
func cameFrom(call *Call, r *http.Request) requestlog.Source {
	switch {
	case call.Identity.Kind == audit.ActorMember:
		return requestlog.SourceDashboard
	case strings.HasPrefix(r.UserAgent(), cliAgent):
		return requestlog.SourceCLI
	}
	return requestlog.SourceAPI
}

// access is what a call does to the account, by the limits that it uses.
func access(quota admission.Quota) usage.Access {
	switch quota {
	case admission.Read:
		return usage.Read
	case admission.Write:
		return usage.Write
	case admission.Free, admission.Plain, admission.Safety:
	}
	return usage.Plain
}

// maxRequestID bounds an id that the caller chose.
const maxRequestID = 128

// requestID keeps the caller's id if it is harmless in a header, a log line and a URN.
func requestID(r *http.Request) id.Request {
	given := r.Header.Get("X-Request-Id")
	if given == "" || len(given) > maxRequestID {
		return id.New[id.Request]()
	}
	for i := range len(given) {
		c := given[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' && c != ':' {
			return id.New[id.Request]()
		}
	}
	return id.Request(given)
}

// recorder notes what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// secureHeaders are sent with every answer. A page that needs more than nothing says so itself.
func secureHeaders(https bool) http.Header {
	h := http.Header{}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if https {
		h.Set("Strict-Transport-Security", "max-age=63072000; includeSubDomains; preload")
	}
	return h
}

// drainAtMost bounds how much of a body that is too large is still read.
const drainAtMost = 8 << 20

// drain reads on for a while, so that the caller gets to see the answer instead of a broken pipe.
func drain(body io.Reader) {
	_, _ = io.CopyN(io.Discard, body, drainAtMost)
}
