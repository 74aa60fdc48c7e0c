package usages

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
)

type seriesInput struct {
	Since    time.Time `query:"since" doc:"The start of the period, rounded down to the minute, hour or day. Default: 24 hours before until; one hour with by=minute, and 30 days with by=day."`
	Until    time.Time `query:"until" doc:"The end of the period, rounded up to the minute, hour or day. Default: now."`
	By       string    `query:"by" enum:"minute,hour,day" default:"hour" doc:"The length of a point. Minutes are kept for two days. Days are in UTC."`
	Account  string    `query:"accountId" maxLength:"64" doc:"Only calls on this account. Only one of accountId, keyId, method and platform may be set."`
	Key      string    `query:"keyId" maxLength:"64" doc:"Only calls with this API key."`
	Method   string    `query:"method" maxLength:"128" doc:"Only calls of this SDK method, for example messages.send, or of this operation of the API, for example listAccounts."`
	Platform string    `query:"platform" maxLength:"64" doc:"Only calls of SDK methods on this platform."`
}

type seriesOutput struct{ Body seriesBody }

type seriesBody struct {
	_        struct{}     `schema:"UsageSeries" doc:"Calls and events over time."`
	Since    stamp.Time   `json:"since" doc:"The start of the first point."`
	Until    stamp.Time   `json:"until" doc:"The end of the last point."`
	By       string       `json:"by" enum:"minute,hour,day" doc:"The length of a point."`
	Series   []usagePoint `json:"series" doc:"One point for each minute, hour or day, oldest first, including those without calls."`
	Totals   UsageFigures `json:"totals" doc:"The totals of all points."`
	Previous UsageFigures `json:"previous" doc:"The totals of the previous period of the same length, for comparison."`
	Waiting  *int64       `json:"eventsWaiting" doc:"How many deliveries are due and not accepted, because a webhook or an endpoint fails, is disabled or lags: at most this many. Events of those that are paused do not count. Null if calls are filtered and for a key that is limited to accounts."`
	Lag      *int64       `json:"deliveryLagSec" doc:"The age of the oldest event that is due and not accepted, in seconds; 0 if there is none. Null if eventsWaiting is."`
}

type usagePoint struct {
	_  struct{}   `doc:"The usage of a minute, an hour or a day."`
	At stamp.Time `json:"at" doc:"The start of the point."`
	UsageFigures
}

// UsageFigures are the counts of a period.
type UsageFigures struct {
	_              struct{} `doc:"The usage figures of a period."`
	Calls          int64    `json:"calls" doc:"All calls: the sum of succeeded, limited, clientErrors and failed."`
	Succeeded      int64    `json:"succeeded" doc:"Calls that ended with success."`
	Limited        int64    `json:"limited" doc:"Calls refused by a limit. They do not count towards any limit."`
	ClientErrors   int64    `json:"clientErrors" doc:"Calls with another 4xx response."`
	Failed         int64    `json:"failed" doc:"Calls with a 5xx response."`
	P50            *float64 `json:"p50Ms" doc:"The median duration of calls in milliseconds; null if there were none. Streams, held responses and refused calls do not count."`
	P95            *float64 `json:"p95Ms" doc:"The 95th percentile of the durations."`
	P99            *float64 `json:"p99Ms" doc:"The 99th percentile of the durations."`
	Received       *int64   `json:"eventsReceived" doc:"Stored events. This and the next three are null if calls are filtered and for a key that is limited to accounts, because events are counted per organisation."`
	Delivered      *int64   `json:"delivered" doc:"Deliveries that receivers accepted."`
	DeliveryFailed *int64   `json:"deliveryFailed" doc:"Delivery attempts that receivers did not accept."`
	Slowest        *float64 `json:"slowestDeliveryMs" doc:"The longest time from an event to the response that accepted it, of the deliveries that were accepted, in milliseconds."`
}

const (
	day = 24 * time.Hour
	// maxMinutes, maxHours and maxDays bound the points of a series.
	maxMinutes, maxHours, maxDays = 6 * 60, 31 * 24, 366
	defaultMinutes, defaultDays   = 60, 30
)

func (a *usages) seriesRoutes(t *endpoint.Table) {
	endpoint.Typed(t, endpoint.Operation{
		ID: "getUsageSeries", Method: http.MethodGet, Path: "/v1/usage/series", Tag: tag, Status: http.StatusOK,
		Scope: scope.UsageRead, Quota: admission.Plain, Problems: []problem.Kind{problem.InvalidRequest, problem.AccountNotFound, problem.AccountNotAllowedForKey},
		Summary: "Get usage over time",
		Description: "Data for charts: calls by outcome, their durations, and events, by minute for up to 6 hours, by hour for up to 31 days or by day for up to 366. " +
			"The last point is still growing, with a delay of a second or two. A key that is limited to accounts sees only calls on them, and cannot filter by key, method or platform.",
	}, a.getSeries)
}

func (a *usages) getSeries(ctx context.Context, in *seriesInput) (*seriesOutput, error) {
	w, err := in.want(a.Now())
	if err != nil {
		return nil, err
	}
	w.Org = endpoint.Caller(ctx).Org.ID
	if w.Dimension, w.Names, err = a.selected(ctx, in); err != nil {
		return nil, err
	}
	before := w
	before.Since, before.Until = w.Since.Add(-w.Until.Sub(w.Since)), w.Since
	points, err := a.Usage.Series(ctx, w)
	if err != nil {
		return nil, err
	}
	earlier, err := a.Usage.Series(ctx, before)
	if err != nil {
		return nil, err
	}
	out := &seriesOutput{seriesBody{Since: stamp.Time(w.Since), Until: stamp.Time(w.Until), By: in.By, Series: make([]usagePoint, len(points))}}
	events := w.Dimension == usage.ByAll
	for i := range points {
		out.Body.Series[i] = usagePoint{
			At: stamp.Time(points[i].At), UsageFigures: viewFigures(&points[i].Figures, events),
		}
	}
	if events {
		b, err := a.backlogs.Load(ctx, w.Org, a.Webhooks.Backlog)
		if err != nil {
			return nil, err
		}
		out.Body.Waiting, out.Body.Lag = &b.Events, &b.Lag
	}
	out.Body.Totals, out.Body.Previous = total(points, events), total(earlier, events)
	return out, nil
}

// selected returns which calls the series counts. A key that is limited to accounts always selects accounts.
func (a *usages) selected(ctx context.Context, in *seriesInput) (by usage.Dimension, names []string, err error) {
	caller := endpoint.Caller(ctx)
	by, names = usage.ByAll, nil
	set := 0
	for _, one := range [...]struct {
		by   usage.Dimension
		name string
	}{{usage.ByAccount, in.Account}, {usage.ByKey, in.Key}, {usage.ByMethod, in.Method}, {usage.ByPlatform, in.Platform}} {
		if one.name != "" {
			by, names = one.by, []string{one.name}
			set++
		}
	}
	switch limited := caller.Key.Allow.Accounts; {
	case set > 1:
		return by, nil, problem.InvalidRequest.New("Only one of accountId, keyId, method and platform may be set.")
	case by == usage.ByAccount:
		at, err := endpoint.AllowedAccount(ctx, in.Account)
		if err != nil {
			return by, nil, err
		}
		_, err = a.Accounts.Get(ctx, caller.Org.ID, at)
		return by, []string{string(at)}, err
	case limited != nil && by != usage.ByAll:
		return by, nil, problem.InvalidRequest.New("A key that is limited to accounts can only filter by accountId.")
	case limited != nil:
		return usage.ByAccount, id.Texts(limited), nil
	}
	for _, name := range names {
		if !endpoint.IsName(name) { // PostgreSQL would not accept every text.
			return by, nil, problem.InvalidRequest.New("A query parameter is invalid.").At("query/"+parameter[by], "format", "must be a name or an id")
		}
	}
	return by, names, nil
}

// parameter is the query parameter that selects a value of a dimension.
var parameter = map[usage.Dimension]string{usage.ByKey: "keyId", usage.ByMethod: "method", usage.ByPlatform: "platform"}

// want returns the requested period in whole steps.
func (in *seriesInput) want(now time.Time) (usage.Want, error) {
	bad := problem.InvalidRequest.New("The period is invalid.")
	step, most, usual := time.Hour, maxHours, 24
	switch in.By {
	case "minute":
		step, most, usual = time.Minute, maxMinutes, defaultMinutes
	case "day":
		step, most, usual = day, maxDays, defaultDays
	}
	until := in.Until
	if until.IsZero() {
		until = now
	}
	since := in.Since
	if since.IsZero() {
		since = until.Add(-time.Duration(usual) * step)
	}
	if endpoint.CheckPeriod(bad, since, until); len(bad.Fields) > 0 {
		return usage.Want{}, bad
	}
	w := usage.Want{Since: since.UTC().Truncate(step), Until: until.UTC().Add(step - 1).Truncate(step), Step: step}
	switch {
	case in.Since.IsZero() && w.Until.Sub(w.Since) > time.Duration(usual)*step:
		w.Since = w.Until.Add(-time.Duration(usual) * step) // The default number of points, the current one last.
	case int(w.Until.Sub(w.Since)/step) > most:
		bad.At("query/since", "range", "must be at most 31 days before until; 6 hours with by=minute, and 366 days with by=day")
	}
	if len(bad.Fields) > 0 {
		return w, bad
	}
	return w, nil
}

func total(points []usage.Point, events bool) UsageFigures {
	var sum usage.Figures
	for i := range points {
		sum.Plus(&points[i].Figures)
	}
	return viewFigures(&sum, events)
}

func viewFigures(f *usage.Figures, events bool) UsageFigures {
	out := UsageFigures{
		Calls: f.Calls, Succeeded: f.Succeeded(), Limited: f.Limited, ClientErrors: f.ClientErrors, Failed: f.Failed, P50: quantile(f, 0.5), P95: quantile(f, 0.95), P99: quantile(f, 0.99),
	}
	if events {
		out.Received, out.Delivered, out.DeliveryFailed = &f.Events.Received, &f.Events.Delivered, &f.Events.DeliveryFailed
		slowest := float64(f.Events.Slowest.Microseconds()) / 1000
		out.Slowest = &slowest
	}
	return out
}

// quantile rounds to two decimals, which is all that the histogram supports.
func quantile(f *usage.Figures, share float64) *float64 {
	ms, ok := f.Quantile(share)
	if !ok {
		return nil
	}
	ms = math.Round(ms*100) / 100
	return &ms
}
