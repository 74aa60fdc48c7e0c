package endpoint

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/base/effect"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/tracing"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/server/accesslog"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
)

// ServeHTTP serves a request. It passes, in this order:
//
//	assignID
//	authenticate
//	checkScope, checkRecent, enter, readBody, startWork (see steps)
//	resolve, if its terms depend on its contents
//	admit
//	handle
//	record, also if one of the others refused it
func (t *Table) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := t.assignID(w, r)
	r = call.Origin.request
	defer func() {
		if !call.detached {
			t.record(call)
		}
	}()
	defer t.recover(call)
	defer call.endWork()
	if clean := path.Clean(r.URL.Path); clean != r.URL.Path {
		// The mux would redirect to the clean path with an HTML page.
		t.unmatched(call.written, r)
		return
	}
	t.mux.ServeHTTP(call.written, r)
}

// assignID starts a call: it gives the request its id, its security headers and its span.
func (t *Table) assignID(w http.ResponseWriter, r *http.Request) *Call {
	call := &Call{
		ID: requestID(r), Origin: Origin{Source: t.deps.Source(r), Started: t.deps.Now()}, table: t, header: w.Header(),
		written: &accesslog.Recorder{ResponseWriter: w},
	}
	maps.Copy(call.header, t.secure)
	call.idHeader[0] = string(call.ID)
	call.header["X-Request-Id"] = call.idHeader[:]
	if t.deps.Draining() {
		call.header.Set("Connection", "close")
	}
	call.caused = &effects{}
	call.Origin.request = r.WithContext(effect.With(context.WithValue(t.startSpan(r, call), callKey{}, call), call.caused))
	return call
}

// steps are what an authenticated request of every operation passes before its input is parsed, in this order. The first error is its
// response. Admission follows after the input was parsed, so that invalid requests are not billed.
var steps = [...]func(*Table, http.ResponseWriter, *http.Request, *Call) error{
	(*Table).checkScope, (*Table).checkRecent, (*Table).enter, (*Table).readBody, (*Table).startWork,
}

// guard wraps the handler of an operation with the steps.
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
		call.match(op, r)
		op.Deprecated.announce(w.Header())
		if err := t.authenticate(w, r, call); err != nil {
			t.Fail(w, r, err)
			return
		}
		if call.Identity.Principal != nil {
			r = r.WithContext(postgres.WithOrg(r.Context(), call.Identity.Principal.Org.ID))
			call.Origin.request = r
		}
		for _, step := range steps {
			if err := step(t, w, r, call); err != nil {
				t.Fail(w, r, err)
				return
			}
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

// match sets the operation of a call, the account in its path and its terms. A malformed id cannot be an account, so
// the call does not use an account's limits; the operation then answers that there is no such account.
func (c *Call) match(op *Operation, r *http.Request) {
	c.op = op
	c.terms = Terms{Quota: op.Quota, Changes: op.Audit != "", Repeatable: op.Repeatable}
	if op.Account == "" {
		return
	}
	account, err := id.Parse[id.Account](r.PathValue(op.Account))
	if err == nil {
		c.Account = account
	} else if op.Quota == admission.Read || op.Quota == admission.Write {
		c.terms.Quota = admission.Plain
	}
}

// readBody checks the query and reads a JSON body.
func (t *Table) readBody(w http.ResponseWriter, r *http.Request, call *Call) error {
	op := call.op
	if !op.resolved {
		if err := checkQuery(r.URL.RawQuery); err != nil {
			return err
		}
	}
	if !op.hasBody || op.bodyOptional && r.ContentLength == 0 {
		return nil
	}
	body, err := t.receiveBody(w, r, call)
	if err == nil && !op.resolved {
		err = checkJSON(body)
	}
	if err != nil {
		return err
	}
	call.body = body
	if !op.resolved {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return nil
}

// checkQuery rejects a query that is malformed, or that has text which PostgreSQL cannot store.
func checkQuery(query string) error {
	if query == "" {
		return nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return problem.InvalidRequest.New("The query string is malformed. Percent-encode special characters.")
	}
	bad := problem.InvalidRequest.New("A query parameter is invalid.")
	unfit := func(text string) bool { return strings.ContainsRune(text, 0) || !utf8.ValidString(text) }
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if slices.ContainsFunc(values[name], unfit) {
			bad.At("query/"+name, "format", "must be UTF-8 text without the character NUL")
		}
	}
	if len(bad.Fields) > 0 {
		return bad
	}
	return nil
}

// answerSlack is the time that a caller has to read the response, in addition to the operation's timeout.
const answerSlack = 20 * time.Second

// prolong extends the deadlines of the connection beyond the operation's timeout. The read deadline matters as well: a
// read that times out while the operation runs would look as if the caller had disconnected.
func (t *Table) prolong(w http.ResponseWriter, timeout time.Duration) {
	control, end := http.NewResponseController(w), t.deps.Local().Add(timeout+answerSlack)
	// A writer without a connection has no deadlines.
	_ = control.SetReadDeadline(end)
	_ = control.SetWriteDeadline(end)
}

// authenticate sets the identity of the caller. If it fails, the identity stays empty, so nothing is counted for an
// org.
func (t *Table) authenticate(w http.ResponseWriter, r *http.Request, call *Call) error {
	if call.op.Public {
		return nil
	}
	who, err := t.identify(r, call.op)
	if err == nil {
		who, err = t.refreshBrowser(r.Context(), call, who)
	}
	if err != nil {
		t.limitRest(w)
		return err
	}
	call.Identity = who
	return nil
}

// checkScope checks that the caller may make the call; see requireRights.
func (t *Table) checkScope(w http.ResponseWriter, r *http.Request, call *Call) error {
	if call.op.Public {
		return nil
	}
	account := call.Account
	err := call.requireRights()
	if err != nil && t.refreshLimits(r.Context(), call) {
		call.Account = account
		err = call.requireRights()
	}
	if err != nil {
		t.limitRest(w)
	}
	return err
}

// identify authenticates the caller: by a token in the query if the operation accepts one and there is no key, by a
// browser's cookie, or by the key.
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
	return t.deps.Auth.Authenticate(r.Context(), token)
}

// TicketParameter is the query parameter that carries the token of an operation with a Ticket.
const TicketParameter = "token"

// bearer returns the token of the Authorization header.
func bearer(h http.Header) (string, error) {
	given := h["Authorization"]
	if len(given) == 0 || given[0] == "" {
		return "", problem.KeyMissing.New("The request has no Authorization header. Send Authorization: Bearer <API_KEY>.")
	}
	scheme, token, ok := strings.Cut(given[0], " ")
	if len(given) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", problem.KeyInvalid.New("The Authorization header must have the form: Bearer <API_KEY>.")
	}
	return strings.TrimSpace(token), nil
}

// unmatched answers requests whose path (404) or method (405) no operation has.
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
			detail += " The operations are listed in " + t.deps.Config.PublicURL + documentPath + "."
		}
		t.Fail(w, r, problem.RouteNotFound.New(detail))
		return
	}
	w.Header().Set("Allow", strings.Join(allow, ", "))
	t.Fail(w, r, problem.MethodNotAllowed.Newf("This path allows %s.", strings.Join(allow, ", ")))
}

// documentPath is the path of the OpenAPI document, on servers that offer it.
const documentPath = "/v1/openapi.json"

// recover turns a panic into a problem. The process goes on: a fault in one request must not end all others.
func (t *Table) recover(call *Call) {
	reason := recover()
	if reason == nil {
		return
	}
	accesslog.LogPanic(t.deps.Log, call.Origin.request, call.ID, reason)
	if call.written.Status == 0 {
		t.Fail(call.written, call.Origin.request, errPanic)
	}
}

var errPanic = errors.New("panic")

// record adds a call to the metrics, the usage and the request log, and writes its log line.
func (t *Table) record(call *Call) {
	r, rec, took := call.Origin.request, call.written, t.deps.Now().Sub(call.Origin.Started)
	operation := "unmatched"
	if call.op != nil {
		operation = call.op.ID
	}
	if rec.Status == 0 {
		rec.Status = http.StatusOK
	}
	t.deps.Metrics.observe(r.Context(), operation, rec.Status, call.outcome.problem, took)
	if call.outcome.upstream > 0 {
		tracing.Observe(r.Context(), t.deps.Metrics.overhead, max(0, took-call.outcome.upstream).Seconds())
	}
	if call.terms.Name != "" {
		operation = call.terms.Name
	}
	call.endSpan(operation)
	t.countUsage(call, operation, took)
	t.logRequest(call, operation, took)

	level := slog.LevelInfo
	if call.outcome.fault != nil {
		level = slog.LevelError
	}
	if !t.deps.Log.Enabled(r.Context(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs, slog.String(logkey.RequestID, string(call.ID)), slog.String(logkey.Method, r.Method),
		slog.String(logkey.Operation, operation), slog.Int(logkey.Status, rec.Status), slog.Duration(logkey.Took, took), slog.Int64(logkey.Bytes, rec.Bytes))
	if p := call.Identity.Principal; p != nil {
		attrs = append(attrs, slog.String(logkey.OrgID, string(p.Org.ID)), slog.String(logkey.KeyID, string(p.Key.ID)))
	}
	if call.Account != "" {
		attrs = append(attrs, slog.String(logkey.Account, string(call.Account)))
	}
	if call.outcome.problem != "" {
		attrs = append(attrs, slog.String(logkey.Problem, call.outcome.problem))
	}
	if call.replayed() {
		attrs = append(attrs, slog.Bool(logkey.Replayed, true))
	}
	if call.outcome.fault != nil {
		attrs = append(attrs, slog.Any(logkey.Error, call.outcome.fault))
	}
	t.deps.Log.LogAttrs(r.Context(), level, "request", attrs...)
}

func (t *Table) countUsage(call *Call, operation string, took time.Duration) {
	p, status := call.Identity.Principal, call.written.Status
	if t.deps.Count == nil || p == nil || isFree(call.terms.Quota) {
		return // Calls that cost nothing are not part of the month's usage.
	}
	account := call.Account
	if status == http.StatusNotFound {
		account = "" // The caller may have made the id up; it must not become a row.
	}
	outcome := usage.OK
	switch {
	case call.outcome.problem == problem.QuotaExceeded.Code, call.Decision.Denied != nil:
		outcome = usage.RateLimited // By us, or because the platform asked for a pause. It consumed nothing.
	case status >= http.StatusBadRequest:
		outcome = usage.Failed
	}
	if call.op.Streams || call.op.Timeout == WaitTimeout {
		took = 0 // The caller decides how long it lasts.
	}
	counted := usage.Call{
		Org: p.Org.ID, Account: account, Operation: operation, Access: access(call.terms.Quota), Outcome: outcome, Status: status, Took: took,
		Platform: call.outcome.platform,
	}
	if call.Identity.Kind == audit.ActorKey {
		counted.Key = p.Key.ID
	}
	t.deps.Count.Count(counted)
}

// isFree reports whether calls of a quota do not count as usage.
func isFree(quota admission.Quota) bool { return quota == admission.Free || quota == admission.Safety }

// logRequest adds the call to the log that its org can read.
func (t *Table) logRequest(call *Call, operation string, took time.Duration) {
	p, r, o := call.Identity.Principal, call.Origin.request, &call.outcome
	if t.deps.Journal == nil || p == nil {
		return
	}
	t.deps.Journal.Add(requestlog.Entry{
		Org: p.Org.ID, At: call.Origin.Started, Request: call.ID, Key: p.Key.ID, Account: call.Account, Operation: operation, Verb: r.Method,
		Status: call.written.Status, Took: took, Upstream: o.upstream, UpstreamCode: o.upstreamCode,
		Problem: o.problem, Reason: o.reason, Fields: o.fields, Members: o.members, Retryable: o.retryable,
		Free: isFree(call.terms.Quota), Events: call.events(),
		In: int64(len(call.body)), Out: call.written.Bytes, Replayed: call.replayed(), DryRun: dryRun(call.op, r), Source: logSource(call),
	})
}

// cliAgent is the prefix of the User-Agent of our command line.
const cliAgent = "stagedoor-cli/"

// logSource tells the dashboard and the command line from other callers. It only informs readers of the log: any caller
// can send the User-Agent of the command line.
func logSource(call *Call) requestlog.Source {
	switch {
	case call.Identity.Kind == audit.ActorMember:
		return requestlog.SourceDashboard
	case strings.HasPrefix(call.Origin.request.UserAgent(), cliAgent):
		return requestlog.SourceCLI
	}
	return requestlog.SourceAPI
}

// access returns what a call does to the account, derived from the quota that it uses.
func access(quota admission.Quota) usage.Access {
	switch quota {
	case admission.Read:
		return usage.Read
	case admission.Write:
		return usage.Write
	case admission.Free, admission.Plain, admission.Safety, admission.Jobs:
	}
	return usage.Plain
}

// maxRequestID bounds a request id that the caller chose, in bytes.
const maxRequestID = 128

// requestID returns the caller's request id if it is safe in a header, a log line and a URN, and else a new one.
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

// secureHeaders returns the headers of every response. A page that needs a less strict policy replaces them.
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

// drainAtMost bounds how many bytes of an oversized body are read and discarded.
const drainAtMost = 8 << 20

// drain reads the rest of an oversized body, so that the caller receives the response instead of a broken pipe.
func drain(body io.Reader) {
	_, _ = io.CopyN(io.Discard, body, drainAtMost)
}
