package api

import (
	"context"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/limit"
	"github.com/stagedoor/stagedoor/internal/route"
	"github.com/stagedoor/stagedoor/internal/scope"
)

type usageOutput struct{ Body usageBody }

type usageBody struct {
	RateLimits rateLimitsBody `json:"rateLimits"`
	Usage      periodBody     `json:"usage"`
}

type rateLimitsBody struct {
	Org             windowBody          `json:"org" doc:"Calls per minute of the organisation."`
	OrgMonth        windowBody          `json:"orgMonth" doc:"Calls of the organisation in this calendar month (UTC)."`
	ConnectAttempts windowBody          `json:"connectAttempts" doc:"Connect attempts per hour."`
	AccountDefaults accountDefaultsBody `json:"accountDefaults" doc:"What each connected account may be called."`
}

type windowBody struct {
	Limit     int   `json:"limit" doc:"-1 means unlimited."`
	Remaining int   `json:"remaining"`
	Reset     int64 `json:"reset" doc:"When the whole limit is free again, in Unix seconds."`
}

type accountDefaultsBody struct {
	ReadPerMinute  int   `json:"readPerMinute"`
	WritePerMinute int   `json:"writePerMinute"`
	Reset          int64 `json:"reset" doc:"When any account's limits are free again at the latest, in Unix seconds."`
}

type periodBody struct {
	PeriodStart time.Time        `json:"periodStart"`
	PeriodEnd   time.Time        `json:"periodEnd"`
	Calls       callsBody        `json:"calls"`
	ByResource  map[string]int64 `json:"byResource" doc:"SDK calls by resource."`
}

type callsBody struct {
	Total       int64 `json:"total" doc:"Calls that count towards the month; exact and live."`
	Read        int64 `json:"read" doc:"SDK calls that read."`
	Write       int64 `json:"write" doc:"SDK calls that write."`
	Failed      int64 `json:"failed"`
	RateLimited int64 `json:"rateLimited" doc:"Calls that were refused; they count towards nothing."`
}

func (a *API) usageRoutes() {
	route.Typed(a.table, route.Operation{
		ID: "getUsage", Method: http.MethodGet, Path: "/v1/me/usage", Tag: "Usage", Status: http.StatusOK,
		Scope: scope.UsageRead, Quota: limit.Free,
		Summary: "Limits and usage", Description: "What is left of each limit right now, and what was used this month. Reading it costs nothing. " +
			"The breakdown follows the total within a second or two.",
	}, a.getUsage)
}

func (a *API) getUsage(ctx context.Context, _ *struct{}) (*usageOutput, error) {
	caller, d, now := route.Caller(ctx), route.From(ctx).Decision, a.Now()
	limits := caller.Org.Limits
	connect, err := a.Limits.ConnectWindow(ctx, caller.Org.ID, limits.ConnectAttemptsPerHour)
	if err != nil {
		return nil, err
	}
	start := limit.MonthStart(now)
	end := start.AddDate(0, 1, 0)
	sums, err := a.Usage.Summarise(ctx, caller.Org.ID, start, end)
	if err != nil {
		return nil, err
	}
	return &usageOutput{usageBody{
		RateLimits: rateLimitsBody{
			Org: windowBody(d.Org), OrgMonth: windowBody(d.Month), ConnectAttempts: windowBody(connect),
			AccountDefaults: accountDefaultsBody{
				limits.AccountReadPerMinute, limits.AccountWritePerMinute, now.Add(time.Minute).Unix(),
			},
		},
		Usage: periodBody{
			PeriodStart: start, PeriodEnd: end, ByResource: sums.ByResource,
			Calls: callsBody{d.MonthUsed, sums.Read, sums.Write, sums.Failed, sums.RateLimited},
		},
	}}, nil
}
