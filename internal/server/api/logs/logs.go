// Package logs has the operations of the public API that show an org its requests, and its errors grouped.
package logs

import (
	"cmp"
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
	Method  string    `query:"method" maxLength:"128" doc:"Only this SDK method, for example messages.send, or this operation of the API, for example listAccounts."`
	Status  string    `query:"status" pattern:"^[1-5]([0-9][0-9]|xx)$" patternDescription:"a status, or 2xx, 4xx or 5xx" doc:"Only this status, or this class of statuses: 2xx, 4xx, 5xx."`
	Code    string    `query:"code" maxLength:"64" doc:"Only requests that ended with this problem."`
	Key     string    `query:"keyId" maxLength:"64" doc:"Only requests of this API key."`
	Source  string    `query:"source" enum:"api,dashboard,cli" doc:"Only requests from this source. api: programs with a key. dashboard: users of the dashboard. cli: our command line."`
	Reason  string    `query:"reason" maxLength:"64" doc:"Only requests that this limit refused, for example org_rpm."`
	Text    string    `query:"q" maxLength:"128" doc:"Only requests with this text in the method, the problem, its reason, the id or the platform's code, in upper or lower case."`
	Event   string    `query:"eventId" maxLength:"64" doc:"Only the request that caused this event."`
	MinMS   int64     `query:"minDurationMs" minimum:"0" maximum:"86400000" doc:"Only requests that took at least this long."`
	Counted bool      `query:"counted" doc:"true: only requests that count as usage, which GET /v1/usage/series counts."`
	Since   time.Time `query:"since" doc:"Only requests that started at this time or later."`
	Until   time.Time `query:"until" doc:"Only requests that started before this time."`
	Limit   int       `query:"limit" minimum:"1" maximum:"10000" doc:"The maximum number of requests. JSON: up to 100. Default: 50. CSV: up to 10000. Default: 10000."`
	Cursor  string    `query:"cursor" maxLength:"256" doc:"nextCursor of the previous page."`
}

type logsBody struct {
	_          struct{}  `schema:"LogPage" doc:"A page of logged requests."`
	Logs       []logBody `json:"logs" doc:"Newest first."`
	NextCursor *string   `json:"nextCursor" doc:"Null on the last page."`
}

type logInput struct {
	ID string `path:"requestId" maxLength:"128" doc:"The request's id: the X-Request-Id header of its response."`
}

type logOutput struct {
	Body struct {
		_   struct{} `schema:"LogResponse" doc:"One logged request."`
		Log logBody  `json:"log" doc:"The request."`
	}
}

type logBody struct {
	_            struct{}       `schema:"Log" doc:"An API request."`
	RequestID    string         `json:"requestId" doc:"The id of the request, which was in the header X-Request-Id."`
	At           stamp.Time     `json:"at" doc:"When the request arrived."`
	Method       string         `json:"method" doc:"The SDK method, for example messages.send, or the operation of the API, for example listAccounts."`
	HTTP         string         `json:"http" doc:"The HTTP method."`
	Status       int            `json:"status" doc:"The HTTP status."`
	DurationMS   float64        `json:"durationMs" doc:"Time from the arrival of the request to its response."`
	UpstreamMS   *float64       `json:"upstreamMs" doc:"The part of it that the platform and the connection to it took; null if the platform was not called."`
	KeyID        string         `json:"keyId" doc:"The key that made the request; empty for the dashboard."`
	Source       string         `json:"source" enum:"api,dashboard,cli" doc:"api: a program with a key. dashboard: a user of the dashboard. cli: our command line."`
	AccountID    *string        `json:"accountId" doc:"Null if the request concerned none."`
	Code         *string        `json:"code" doc:"The problem's code; null if there was none."`
	Reason       *string        `json:"reason" doc:"The limit that refused the request, for example org_rpm; null if none did."`
	Members      map[string]any `json:"extensions" doc:"Other members of the problem, such as limit and retryAfterSec: numbers, names and ids; empty if there are none. Values of the request and texts are not stored."`
	ResetAt      *stamp.Time    `json:"resetAt" doc:"When the limit that refused the request allowed it again, at the latest; null if none did, or if it does not reset by itself."`
	Errors       []logField     `json:"errors" doc:"The fields of the request that the problem pointed at; empty if there are none. Their values are not stored."`
	Events       []logEvent     `json:"events" doc:"The events that this service sent because of the request, such as account.paused; empty if there are none. Events of the platform are not among them. GET /v1/deliveries has their deliveries."`
	Retryable    *bool          `json:"retryable" doc:"Whether the problem was retryable; null if there was none."`
	UpstreamCode any            `json:"upstreamCode" doc:"The platform's own code, an integer or a string; null if it returned none."`
	BytesIn      int64          `json:"bytesIn" doc:"The size of the request body in bytes."`
	BytesOut     int64          `json:"bytesOut" doc:"The size of the response body in bytes."`
	Replayed     bool           `json:"replayed" doc:"Whether the response was that of an earlier request with the same Idempotency-Key."`
	DryRun       bool           `json:"dryRun" doc:"Whether the request only asked what would happen."`
}

type logEvent struct {
	_         struct{} `schema:"LogEvent" doc:"An event that a request caused."`
	ID        string   `json:"id" doc:"The event's id."`
	Event     string   `json:"event" doc:"The kind of the event, for example account.paused."`
	AccountID *string  `json:"accountId" doc:"Null for an event of the organisation."`
}

type logField struct {
	_       struct{} `doc:"An invalid field of a request."`
	Pointer string   `json:"pointer" doc:"A JSON pointer into the body, or query/name, header/name, path/name. A * replaces a name that is not stored."`
	Code    string   `json:"code" doc:"A stable word for the error."`
}

type errorsInput struct {
	Source string    `query:"source" enum:"api,dashboard,cli" doc:"Only requests from this source. api: programs with a key. dashboard: users of the dashboard. cli: our command line."`
	Since  time.Time `query:"since" doc:"The start of the period. Default: 24 hours before until."`
	Until  time.Time `query:"until" doc:"The end of the period. Default: now."`
	Limit  int       `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"The maximum number of groups."`
}

type errorsOutput struct {
	Body struct {
		_      struct{}    `schema:"ErrorGroupList" doc:"Failed requests, grouped by error."`
		Errors []errorBody `json:"errors" doc:"Most frequent first."`
	}
}

type errorBody struct {
	_             struct{}   `schema:"ErrorGroup" doc:"Failed requests with the same error code and method."`
	Code          string     `json:"code" doc:"The problem's code."`
	Reason        *string    `json:"reason" doc:"The limit that refused the requests, for example org_rpm; null if none did."`
	Method        string     `json:"method" doc:"The SDK method or the operation."`
	Status        int        `json:"status" doc:"The HTTP status."`
	Count         int64      `json:"count" doc:"The number of requests."`
	FirstAt       stamp.Time `json:"firstAt" doc:"The time of the first request in the period."`
	LastAt        stamp.Time `json:"lastAt" doc:"When the last of them was made."`
	Accounts      int64      `json:"accounts" doc:"The number of affected accounts."`
	LastRequestID string     `json:"lastRequestId" doc:"The newest request. GET /v1/logs/{requestId} has its details."`
	Retryable     bool       `json:"retryable" doc:"Whether the newest problem was retryable."`
}

const (
	tagLogs = "Logs"
	// errorsWithin is the default period of grouped errors.
	errorsWithin = 24 * time.Hour
	// defaultLimit and pageLimit are those of a JSON page. csvPage is the number of rows that a CSV export reads at a
	// time.
	defaultLimit, pageLimit, csvPage = 50, 100, 1000
	// listTimeout is enough for the largest CSV export.
	listTimeout = time.Minute
)

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
		Summary: "List requests",
		Description: "The requests of the organisation's keys, newest first, without the contents of requests and responses. Filters can be combined. " +
			"A request appears a second or two after its response, and is kept as long as the plan allows. A key that is limited to accounts sees only requests about them. " +
			"With `Accept: text/csv` the response is CSV with up to 10,000 requests.",
	}, a.listLogs)
	endpoint.Typed(t, endpoint.Operation{
		ID: "getLog", Method: http.MethodGet, Path: "/v1/logs/{requestId}", Tag: tagLogs, Status: http.StatusOK,
		Scope: scope.UsageRead, Quota: admission.Plain, Problems: []problem.Kind{problem.LogNotFound},
		Summary:     "Get a request",
		Description: "The request with this id, from `X-Request-Id` or the `instance` of a problem. If you used an id twice, the newest request.",
	}, a.getLog)
	endpoint.Typed(t, endpoint.Operation{
		ID: "listErrors", Method: http.MethodGet, Path: "/v1/errors", Tag: tagLogs, Status: http.StatusOK,
		Scope: scope.UsageRead, Quota: admission.Plain, Problems: []problem.Kind{problem.InvalidRequest},
		Summary:     "List errors",
		Description: "Requests that ended with a problem, grouped by problem, limit, method and status: how many, since when, and for how many accounts. Default: the last 24 hours.",
	}, a.listErrors)
}

func (a reads) listLogs(w http.ResponseWriter, r *http.Request, in *logsInput) error {
	f, after, err := in.filter()
	if err != nil {
		return err
	}
	w.Header().Add("Vary", "Accept")
	if csvexport.Requested(r.Header) {
		return a.writeCSV(w, r, in, f, after)
	}
	most := in.Limit
	switch {
	case most == 0:
		most = defaultLimit
	case most > pageLimit:
		return problem.InvalidRequest.New("A query parameter is invalid.").At("query/limit", "range", "expected number <= 100")
	}
	entries, next, err := a.Page(r.Context(), logReader(r.Context()), f, after, most)
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
	return endpoint.WriteJSON(w, http.StatusOK, body)
}

// writeCSV writes requests as CSV. It reads them page by page, so that no query holds the log for long.
func (a reads) writeCSV(w http.ResponseWriter, r *http.Request, in *logsInput, f requestlog.Filter, after requestlog.Position) error {
	out := csvexport.New(w, "requests", "at", "requestId", "method", "http", "status", "durationMs", "upstreamMs", "accountId", "keyId", "source", "code", "reason",
		"upstreamCode", "bytesIn", "bytesOut", "replayed", "dryRun", "errors", "extensions", "resetAt")
	left := cmp.Or(in.Limit, csvexport.MaxRows)
	for left > 0 {
		entries, next, err := a.Page(r.Context(), logReader(r.Context()), f, after, min(left, csvPage))
		if err != nil {
			return err
		}
		for i := range entries {
			if err := out.Row(cells(&entries[i])...); err != nil {
				return err
			}
		}
		left -= len(entries)
		if after = next; next.At.IsZero() {
			break
		}
	}
	return out.End()
}

func cells(e *requestlog.Entry) []string {
	b := viewLog(e)
	number := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	upstream := ""
	if b.UpstreamMS != nil {
		upstream = number(*b.UpstreamMS)
	}
	wrong := make([]string, len(b.Errors))
	for i, f := range b.Errors {
		wrong[i] = strings.TrimSpace(f.Pointer + " " + f.Code)
	}
	return []string{
		csvexport.Time(&b.At), b.RequestID, b.Method, b.HTTP, strconv.Itoa(b.Status), number(b.DurationMS), upstream, csvexport.Text(b.AccountID), b.KeyID, b.Source,
		csvexport.Text(b.Code), csvexport.Text(b.Reason), csvexport.Text(endpoint.NilIfEmpty(e.UpstreamCode)), strconv.FormatInt(b.BytesIn, 10), strconv.FormatInt(b.BytesOut, 10), strconv.FormatBool(b.Replayed), strconv.FormatBool(b.DryRun), strings.Join(wrong, "; "),
		string(e.Members), csvexport.Time(b.ResetAt),
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
	bad := problem.InvalidRequest.New("A query parameter is invalid.")
	endpoint.CheckPeriod(bad, in.Since, in.Until)
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
			Code: f.Problem, Reason: endpoint.NilIfEmpty(f.Reason), Method: f.Operation, Status: f.Status,
			Count: f.Count, FirstAt: stamp.Time(f.First), LastAt: stamp.Time(f.Last), Accounts: f.Accounts,
			LastRequestID: string(f.LastRequest), Retryable: f.Retryable,
		}
	}
	return out, nil
}

// logReader returns what the caller may see.
func logReader(ctx context.Context) requestlog.Reader {
	p := endpoint.Caller(ctx)
	return requestlog.Reader{Org: p.Org.ID, Days: p.Org.Limits.EventRetentionDays, Accounts: p.Key.Allow.Accounts}
}

// filter checks what huma cannot check.
func (in *logsInput) filter() (requestlog.Filter, requestlog.Position, error) {
	bad := problem.InvalidRequest.New("A query parameter is invalid.")
	f := requestlog.Filter{
		Operation: in.Method, Problem: in.Code, Source: requestlog.Source(in.Source), Since: in.Since, Until: in.Until,
		Reason: in.Reason, Text: in.Text, MinTook: time.Duration(in.MinMS) * time.Millisecond, Counted: in.Counted,
	}
	var (
		after requestlog.Position
		err   error
	)
	if in.Account != "" {
		if f.Account, err = id.Parse[id.Account](in.Account); err != nil {
			bad.At("query/accountId", "format", "must be the id of an account, from GET /v1/accounts")
		}
	}
	if in.Key != "" {
		if f.Key, err = id.Parse[id.Key](in.Key); err != nil {
			bad.At("query/keyId", "format", "must be the id of an API key, from GET /v1/me/keys")
		}
	}
	if !endpoint.IsName(in.Method) {
		bad.At("query/method", "format", "must be an SDK method such as messages.send, or an operation such as listAccounts")
	}
	if in.Event != "" {
		if f.Event, err = id.Parse[id.Event](in.Event); err != nil {
			bad.At("query/eventId", "format", "must be the id of an event")
		}
	}
	if !endpoint.IsName(in.Reason) {
		bad.At("query/reason", "format", "must be the name of a limit, such as org_rpm")
	}
	if _, ok := problem.Lookup(in.Code); in.Code != "" && !ok {
		bad.At("query/code", "enum", "must be the code of a problem, from GET /problems")
	}
	f.StatusFrom, f.StatusTo = statuses(in.Status)
	endpoint.CheckPeriod(bad, in.Since, in.Until)
	if in.Cursor != "" {
		var ok bool
		if after, ok = requestlog.ParsePosition(in.Cursor); !ok {
			bad.Detail = "The cursor is invalid."
			bad.At("query/cursor", "format", "must be the nextCursor of an earlier page")
		}
	}
	if len(bad.Fields) > 0 {
		return f, after, bad
	}
	return f, after, nil
}

// statuses returns the lowest and the highest status that a filter matches.
func statuses(text string) (from, to int) {
	if text == "" {
		return 0, 0
	}
	if class := int(text[0]-'0') * 100; text[1:] == "xx" {
		return class, class + 99
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, 0 // The pattern of the parameter excludes it.
	}
	return n, n
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
	body.AccountID, body.Reason = endpoint.NilIfEmpty(string(e.Account)), endpoint.NilIfEmpty(e.Reason)
	if e.Problem != "" {
		body.Code, body.Retryable = &e.Problem, &e.Retryable
	}
	for _, f := range e.Fields.All() {
		body.Errors = append(body.Errors, logField{Pointer: f.Pointer, Code: f.Code})
	}
	body.Members, body.Events = e.Members.All(), []logEvent{}
	for _, one := range e.Events.All() {
		body.Events = append(body.Events, logEvent{ID: string(one.ID), Event: one.Kind, AccountID: endpoint.NilIfEmpty(string(one.Account))})
	}
	if wait := e.Members.RetryAfter(); wait > 0 && e.Reason != "" {
		at := stamp.Time(e.At.Add(e.Took + time.Duration(wait)*time.Second))
		body.ResetAt = &at
	}
	body.UpstreamCode = problem.UpstreamCode(e.UpstreamCode)
	return body
}

// milliseconds returns a duration with three decimals, as the log has it.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
