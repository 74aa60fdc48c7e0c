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
	Since   time.Time `query:"since" doc:"The start of the period, rounded down to the hour or day. Default: 24 hours before until, or 30 days with by=day."`
	Until   time.Time `query:"until" doc:"The end of the period, rounded up to the hour or day. Default: now."`
	By      string    `query:"by" enum:"hour,day" default:"hour" doc:"The length of a point. Days are in UTC."`
	Account string    `query:"accountId" maxLength:"64" doc:"Only calls on this account."`
}

type seriesOutput struct{ Body seriesBody }

type seriesBody struct {
	_        struct{}     `schema:"UsageSeries" doc:"Calls and events over time."`
	Since    stamp.Time   `json:"since" doc:"The start of the first point."`
	Until    stamp.Time   `json:"until" doc:"The end of the last point."`
	By       string       `json:"by" enum:"hour,day" doc:"The length of an interval."`
	Series   []usagePoint `json:"series" doc:"One point for each hour or day, oldest first, including those without calls."`
	Totals   UsageFigures `json:"totals" doc:"The totals of all points."`
	Previous UsageFigures `json:"previous" doc:"The totals of the previous period of the same length, for comparison."`
	Waiting  *int64       `json:"eventsWaiting" doc:"The maximum number of events that are overdue because a webhook fails, is disabled or lags. Events of paused webhooks do not count. Null for an account and for a key that is limited to accounts."`
}

type usagePoint struct {
	_  struct{}   `doc:"The usage of an hour or a day."`
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
	Received       *int64   `json:"eventsReceived" doc:"Stored events. This and the next two are null for an account and for a key that is limited to accounts, because events are counted per organisation."`
	Delivered      *int64   `json:"delivered" doc:"Deliveries that receivers accepted."`
	DeliveryFailed *int64   `json:"deliveryFailed" doc:"Delivery attempts that receivers did not accept."`
}

const (
	day = 24 * time.Hour
	// maxHours and maxDays bound the points of a series.
	maxHours, maxDays = 31 * 24, 366
	defaultDays       = 30
)

func (a *usages) seriesRoutes(t *endpoint.Table) {
	endpoint.Typed(t, endpoint.Operation{
		ID: "getUsageSeries", Method: http.MethodGet, Path: "/v1/usage/series", Tag: tag, Status: http.StatusOK,
		Scope: scope.UsageRead, Quota: admission.Plain, Problems: []problem.Kind{problem.InvalidRequest, problem.AccountNotFound, problem.AccountNotAllowedForKey},
		Summary: "Get usage over time",
		Description: "Data for charts: calls by outcome, their durations, and events, by hour for up to 31 days or by day for up to 366. " +
			"The last point is still growing, with a delay of a second or two. A key that is limited to accounts sees only calls on them.",
	}, a.getSeries)
}

func (a *usages) getSeries(ctx context.Context, in *seriesInput) (*seriesOutput, error) {
	w, err := in.want(a.Now())
	if err != nil {
		return nil, err
	}
	caller := endpoint.Caller(ctx)
	w.Org, w.Accounts = caller.Org.ID, caller.Key.Allow.Accounts
	if in.Account != "" {
		at, err := endpoint.AllowedAccount(ctx, in.Account)
		if err != nil {
			return nil, err
		}
		if _, err := a.Accounts.Get(ctx, w.Org, at); err != nil {
			return nil, err
		}
		w.Accounts = []id.Account{at}
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
	events := w.Accounts == nil
	for i := range points {
		out.Body.Series[i] = usagePoint{
			At: stamp.Time(points[i].At), UsageFigures: viewFigures(&points[i].Figures, events),
		}
	}
	if events {
		n, err := a.Webhooks.CountWaiting(ctx, w.Org)
		if err != nil {
			return nil, err
		}
		out.Body.Waiting = &n
	}
	out.Body.Totals, out.Body.Previous = total(points, events), total(earlier, events)
	return out, nil
}

// want returns the requested period in whole steps.
func (in *seriesInput) want(now time.Time) (usage.Want, error) {
	bad := problem.InvalidRequest.New("The period is invalid.")
	step, most, usual := time.Hour, maxHours, 24
	if in.By == "day" {
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
		bad.At("query/since", "range", "must be at most 31 days before until with by=hour, and 366 with by=day")
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
		Calls: f.Calls, Succeeded: f.Succeeded(), Limited: f.Limited, ClientErrors: f.ClientErrors, Failed: f.Failed, P50: quantile(f, 0.5), P95: quantile(f, 0.95),
	}
	if events {
		out.Received, out.Delivered, out.DeliveryFailed = &f.Events.Received, &f.Events.Delivered, &f.Events.DeliveryFailed
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
