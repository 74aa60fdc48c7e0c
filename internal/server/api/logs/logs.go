// Package logs is the part of the public face that shows an org its requests, and what goes wrong in them.
package logs

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/server/csvexport"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
)

type logsInput struct {
	Account string    `query:"accountId" maxLength:"64" doc:"Only requests about this account."`
	Method  string    `query:"method" maxLength:"128" doc:"Only this SDK method, such as messages.send, or this operation of the interface, such as listAccounts."`
	Status  string    `query:"status" pattern:"^[1-5]([0-9][0-9]|xx)$" patternDescription:"a status, or 2xx, 4xx or 5xx" doc:"Only this status, or this class of statuses: 2xx, 4xx, 5xx."`
	Code    string    `query:"code" maxLength:"64" doc:"Only requests that ended with this problem."`
	Key     string    `query:"keyId" maxLength:"64" doc:"Only requests of this API key."`
	Source  string    `query:"source" enum:"api,dashboard,cli" doc:"Only requests of programs with a key, of people in the dashboard, or of our command line."`
	Since   time.Time `query:"since" doc:"Only requests that began then or later."`
	Until   time.Time `query:"until" doc:"Only requests that began before."`
	Limit   int       `query:"limit" minimum:"1" maximum:"10000" doc:"How many requests: up to 100, and 50 if it is left out; of a sheet up to 10000, and as many if it is left out."`
	Cursor  string    `query:"cursor" maxLength:"256" doc:"nextCursor of the page before."`
}

type logsBody struct {
	Logs       []logBody `json:"logs" doc:"Newest first."`
	NextCursor *string   `json:"nextCursor" doc:"Null on the last page."`
}

type logInput struct {
	ID string `path:"requestId" maxLength:"128" doc:"The request's id: the X-Request-Id header of its answer."`
}

type logOutput struct {
	Body struct {
		Log logBody `json:"log"`
	}
}

type logBody struct {
	RequestID    string     `json:"requestId"`
	At           stamp.Time `json:"at" doc:"When the request arrived."`
	Method       string     `json:"method" doc:"The SDK method, such as messages.send, or the operation of the interface, such as listAccounts."`
	HTTP         string     `json:"http" doc:"The HTTP method."`
	Status       int        `json:"status"`
	DurationMS   float64    `json:"durationMs" doc:"From the request's arrival until it was answered."`
	UpstreamMS   *float64   `json:"upstreamMs" doc:"What the platform and the way to it took of that; null if it was not asked."`
	KeyID        string     `json:"keyId"`
	Source       string     `json:"source" enum:"api,dashboard,cli" doc:"A program with a key, a person in the dashboard, or our command line."`
	AccountID    *string    `json:"accountId" doc:"Null if the request concerned none."`
	Code         *string    `json:"code" doc:"The problem's code; null if there was none."`
	Reason       *string    `json:"reason" doc:"Which limit refused it, such as org_rpm; null if none did."`
	Errors       []logField `json:"errors" doc:"Which fields of the request the problem pointed at; empty if it pointed at none. What was sent in them is not kept."`
	Retryable    *bool      `json:"retryable" doc:"What the problem said; null if there was none."`
	UpstreamCode *int       `json:"upstreamCode" doc:"The platform's own code; null if it gave none."`
	BytesIn      int64      `json:"bytesIn" doc:"The size of the request's body."`
	BytesOut     int64      `json:"bytesOut" doc:"The size of the answer's body."`
	Replayed     bool       `json:"replayed" doc:"Whether the answer was that of an earlier request with the same Idempotency-Key."`
	DryRun       bool       `json:"dryRun"`
}

type logField struct {
	Pointer string `json:"pointer" doc:"A JSON pointer into the body, or query/name, header/name, path/name. A * stands for a name that is not kept."`
	Code    string `json:"code" doc:"A stable word for what was wrong."`
}

type errorsInput struct {
	Source string    `query:"source" enum:"api,dashboard,cli" doc:"Only requests of programs with a key, of people in the dashboard, or of our command line."`
	Since  time.Time `query:"since" doc:"Left out, 24 hours ago."`
	Until  time.Time `query:"until" doc:"Left out, now."`
	Limit  int       `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"How many groups."`
}

type errorsOutput struct {
	Body struct {
		Errors []errorBody `json:"errors" doc:"The most frequent first."`
	}
}

type errorBody struct {
	Code          string     `json:"code" doc:"The problem's code."`
	Reason        *string    `json:"reason" doc:"Which limit refused them, such as org_rpm; null if none did."`
	Method        string     `json:"method" doc:"The SDK method or the operation."`
	Status        int        `json:"status"`
	Count         int64      `json:"count"`
	FirstAt       stamp.Time `json:"firstAt" doc:"The first within the time asked for."`
	LastAt        stamp.Time `json:"lastAt"`
	Accounts      int64      `json:"accounts" doc:"How many accounts had it."`
	LastRequestID string     `json:"lastRequestId" doc:"The newest; GET /v1/logs/{requestId} tells more."`
	Retryable     bool       `json:"retryable" doc:"What the newest said."`
}

const (
	tagLogs = "Logs"
	// errorsWithin is how far back failures are grouped unless the caller says.
	errorsWithin = 24 * time.Hour
	// usualLimit and pageLimit are those of a page, sheetPage is how much of a sheet is read at a time.
	usualLimit, pageLimit, sheetPage = 50, 100, 1000
	// listTimeout is for a sheet of as many requests as it can have.
	listTimeout = time.Minute
)

// reads are the operations.
type reads struct {
	*requestlog.Journal
	now func() time.Time
}

// Routes adds the operations.
func Routes(t *endpoint.Table, from *requestlog.Journal, now func() time.Time) {
	a := reads{from, now}
	endpoint.Written(t, endpoint.Operation{
		ID: "listLogs", Method: http.MethodGet, Path: "/v1/logs", Tag: tagLogs, Status: http.StatusOK, Timeout: listTimeout,
		Scope: scope.UsageRead, Quota: admission.Plain, Problems: []problem.Kind{problem.InvalidRequest}, Answer: logsBody{}, Media: []string{csvexport.Media},
		Summary: "Request log",
		Description: "What the organisation's keys called, newest first: never what was sent or answered. Filters can be combined. " +
			"A request is here a second or two after its answer, and as long as the plan keeps it. A key that is limited to accounts sees requests about these. " +
			"With `Accept: text/csv` it is a sheet, of up to 10,000 requests.",
	}, a.listLogs)
	endpoint.Typed(t, endpoint.Operation{
		ID: "getLog", Method: http.MethodGet, Path: "/v1/logs/{requestId}", Tag: tagLogs, Status: http.StatusOK,
		Scope: scope.UsageRead, Quota: admission.Plain, Problems: []problem.Kind{problem.LogNotFound},
		Summary:     "One request",
		Description: "The request with this id, as `X-Request-Id` and a problem's `instance` tell it. If you chose an id twice, the newest.",
	}, a.getLog)
	endpoint.Typed(t, endpoint.Operation{
		ID: "listErrors", Method: http.MethodGet, Path: "/v1/errors", Tag: tagLogs, Status: http.StatusOK,
		Scope: scope.UsageRead, Quota: admission.Plain, Problems: []problem.Kind{problem.InvalidRequest},
		Summary:     "What goes wrong",
		Description: "Requests that ended with a problem, grouped by problem, limit, method and status: how many, since when, on how many accounts. The last 24 hours unless you say otherwise.",
	}, a.listErrors)
}

func (a reads) listLogs(w http.ResponseWriter, r *http.Request, in *logsInput) error {
	f, behind, err := in.filter()
	if err != nil {
		return err
	}
	w.Header().Add("Vary", "Accept")
	if csvexport.Wanted(r.Header) {
		return a.sheet(w, r, in, f, behind)
	}
	most := in.Limit
	switch {
	case most == 0:
		most = usualLimit
	case most > pageLimit:
		return problem.InvalidRequest.New("A query parameter is not what the operation expects.").At("query/limit", "range", "expected number <= 100")
	}
	entries, next, err := a.Page(r.Context(), logReader(r.Context()), f, behind, most)
	if err != nil {
		return err
	}
	body := logsBody{Logs: make([]logBody, len(entries))}
	for i := range entries {
		body.Logs[i] = viewLog(&entries[i])
	}
	if !next.At.IsZero() {
		text := next.String()
		body.NextCursor = &text
	}
	return csvexport.JSON(w, body)
}

// sheet writes requests as a sheet, page by page: a reader of the log is not to hold it for long.
func (a reads) sheet(w http.ResponseWriter, r *http.Request, in *logsInput, f requestlog.Filter, behind requestlog.Position) error {
	out := csvexport.New(w, "requests", "at", "requestId", "method", "http", "status", "durationMs", "upstreamMs", "accountId", "keyId", "source", "code", "reason",
		"upstreamCode", "bytesIn", "bytesOut", "replayed", "dryRun", "errors")
	left := in.Limit
	if left == 0 {
		left = csvexport.MostRows
	}
	for left > 0 {
		entries, next, err := a.Page(r.Context(), logReader(r.Context()), f, behind, min(left, sheetPage))
		if err != nil {
			return err
		}
		for i := range entries {
			if err := out.Row(cells(&entries[i])...); err != nil {
				return err
			}
		}
		left -= len(entries)
		if behind = next; next.At.IsZero() {
			break
		}
	}
	return out.End()
}

func cells(e *requestlog.Entry) []string {
	b := viewLog(e)
	number := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	upstream, code := "", ""
	if b.UpstreamMS != nil {
		upstream = number(*b.UpstreamMS)
	}
	if b.UpstreamCode != nil {
		code = strconv.Itoa(*b.UpstreamCode)
	}
	wrong := make([]string, len(b.Errors))
	for i, f := range b.Errors {
		wrong[i] = strings.TrimSpace(f.Pointer + " " + f.Code)
	}
	return []string{
		csvexport.Time(&b.At), b.RequestID, b.Method, b.HTTP, strconv.Itoa(b.Status), number(b.DurationMS), upstream, csvexport.Text(b.AccountID), b.KeyID, b.Source,
		csvexport.Text(b.Code), csvexport.Text(b.Reason), code, strconv.FormatInt(b.BytesIn, 10), strconv.FormatInt(b.BytesOut, 10), strconv.FormatBool(b.Replayed), strconv.FormatBool(b.DryRun), strings.Join(wrong, "; "),
	}
}

func (a reads) getLog(ctx context.Context, in *logInput) (*logOutput, error) {
	e, err := a.Get(ctx, logReader(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	out := &logOutput{}
	out.Body.Log = viewLog(&e)
	return out, nil
}

func (a reads) listErrors(ctx context.Context, in *errorsInput) (*errorsOutput, error) {
	bad := problem.InvalidRequest.New("A query parameter is not what the operation expects.")
	checkSpan(bad, in.Since, in.Until)
	if len(bad.Fields) > 0 {
		return nil, bad
	}
	since := in.Since
	if since.IsZero() {
		end := in.Until
		if end.IsZero() {
			end = a.now()
		}
		since = end.Add(-errorsWithin)
	}
	found, err := a.Failures(ctx, logReader(ctx), requestlog.FailureFilter{Source: requestlog.Source(in.Source), Since: since, Until: in.Until}, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &errorsOutput{}
	out.Body.Errors = make([]errorBody, len(found))
	for i, f := range found {
		out.Body.Errors[i] = errorBody{
			f.Problem, some(f.Reason), f.Operation, f.Status, f.Count, stamp.Time(f.First), stamp.Time(f.Last), f.Accounts, string(f.LastRequest), f.Retryable,
		}
	}
	return out, nil
}

// logReader is what the caller may see.
func logReader(ctx context.Context) requestlog.Reader {
	p := endpoint.Caller(ctx)
	return requestlog.Reader{Org: p.Org.ID, Days: p.Org.Limits.EventRetentionDays, Accounts: p.Key.Allow.Accounts}
}

// filter reads what huma cannot check.
func (in *logsInput) filter() (requestlog.Filter, requestlog.Position, error) {
	bad := problem.InvalidRequest.New("A query parameter is not what the operation expects.")
	f := requestlog.Filter{Operation: in.Method, Problem: in.Code, Source: requestlog.Source(in.Source), Since: in.Since, Until: in.Until}
	var (
		behind requestlog.Position
		err    error
	)
	if in.Account != "" {
		if f.Account, err = id.Parse[id.Account](in.Account); err != nil {
			bad.At("query/accountId", "format", "must be the id of an account, as GET /v1/accounts shows it")
		}
	}
	if in.Key != "" {
		if f.Key, err = id.Parse[id.Key](in.Key); err != nil {
			bad.At("query/keyId", "format", "must be the id of an API key, as GET /v1/me/keys shows it")
		}
	}
	if !isMethod(in.Method) {
		bad.At("query/method", "format", "must be an SDK method such as messages.send, or an operation such as listAccounts")
	}
	if _, ok := problem.Lookup(in.Code); in.Code != "" && !ok {
		bad.At("query/code", "enum", "must be the code of a problem, as GET /problems lists them")
	}
	f.StatusFrom, f.StatusTo = statuses(in.Status)
	checkSpan(bad, in.Since, in.Until)
	if in.Cursor != "" {
		var ok bool
		if behind, ok = requestlog.ParsePosition(in.Cursor); !ok {
			bad.Detail = "The cursor is not one that this list gave out."
			bad.At("query/cursor", "format", "must be the nextCursor of an earlier page")
		}
	}
	if len(bad.Fields) > 0 {
		return f, behind, bad
	}
	return f, behind, nil
}

// isMethod says whether a method or an operation could have this name. The database would not take every text.
func isMethod(text string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// statuses are the lowest and the highest that a filter means.
func statuses(text string) (from, to int) {
	if text == "" {
		return 0, 0
	}
	if class := int(text[0]-'0') * 100; text[1:] == "xx" {
		return class, class + 99
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, 0 // its pattern does not let it pass
	}
	return n, n
}

func checkSpan(bad *problem.Error, since, until time.Time) {
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		bad.At("query/since", "range", "must be before until")
	}
}

func viewLog(e *requestlog.Entry) logBody {
	body := logBody{
		RequestID: string(e.Request), At: stamp.Time(e.At), Method: e.Operation, HTTP: e.Verb, Status: e.Status, DurationMS: milliseconds(e.Took),
		Errors: []logField{}, KeyID: string(e.Key), Source: string(e.Source), BytesIn: e.In, BytesOut: e.Out, Replayed: e.Replayed, DryRun: e.DryRun,
	}
	if e.Upstream > 0 {
		ms := milliseconds(e.Upstream)
		body.UpstreamMS = &ms
	}
	body.AccountID, body.Reason = some(string(e.Account)), some(e.Reason)
	if e.Problem != "" {
		body.Code, body.Retryable = &e.Problem, &e.Retryable
	}
	for _, f := range e.Fields.All() {
		body.Errors = append(body.Errors, logField(f))
	}
	if e.UpstreamCode != 0 {
		body.UpstreamCode = &e.UpstreamCode
	}
	return body
}

// some is nil for an empty text.
func some(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// milliseconds keeps three digits behind the point, as the log does.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
