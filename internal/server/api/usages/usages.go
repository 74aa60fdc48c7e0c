// Package usages has the operations of the public API that show an org's usage: what is left of its limits, the totals
// of the month, and calls and events by minute, hour or day for charts (series.go). Counting is done by tenant/usage and
// tenant/admission.
package usages

import (
	"context"
	"maps"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
)

// Deps are the dependencies of the operations.
type Deps struct {
	Usage    *usage.Usage
	Limits   *admission.Limiter
	Accounts *account.Accounts
	Connects *connect.Connects
	Webhooks *webhook.Webhooks
	// Regions lists the regions that an account can have.
	Regions func() []string
	Now     func() time.Time
}

type usages struct {
	Deps
	// figures caches counts, because reading them is free for callers.
	figures cache.Cache[figuresKey, figures]
	// backlogs caches what waits, which takes several queries.
	backlogs cache.Cache[id.Org, webhook.Backlog]
}

type usageInput struct {
	Account string `query:"accountId" maxLength:"64" doc:"Include what is left of this account's limits."`
}

type usageOutput struct{ Body usageBody }

type usageBody struct {
	_          struct{}       `schema:"Usage" doc:"The limits and their usage."`
	RateLimits rateLimitsBody `json:"rateLimits" doc:"What is left of every limit."`
	Usage      periodBody     `json:"usage" doc:"What was used in the period."`
}

type rateLimitsBody struct {
	_               struct{}            `schema:"RateLimits" doc:"The remaining rate limits."`
	Org             windowBody          `json:"org" doc:"The organisation's calls per minute."`
	OrgMonth        windowBody          `json:"orgMonth" doc:"The organisation's calls in this calendar month (UTC)."`
	ConnectAttempts windowBody          `json:"connectAttempts" doc:"Connect attempts per hour."`
	AccountDefaults accountDefaultsBody `json:"accountDefaults" doc:"The limits of each connected account."`
	Account         *accountWindowsBody `json:"account,omitempty" doc:"The limits of the account in accountId."`
}

type accountWindowsBody struct {
	_     struct{}   `schema:"AccountWindows" doc:"The remaining limits of an account."`
	Read  windowBody `json:"read" doc:"Read calls per minute."`
	Write windowBody `json:"write" doc:"Write calls per minute."`
}

type windowBody struct {
	_         struct{} `schema:"UsageWindow" doc:"What is left of a limit."`
	Limit     int      `json:"limit" doc:"-1 means unlimited."`
	Remaining int      `json:"remaining" doc:"What is left until the window ends."`
	Reset     int64    `json:"reset" doc:"When the full limit is available again, in Unix seconds."`
}

type accountDefaultsBody struct {
	_              struct{} `schema:"AccountRateDefaults" doc:"The limits of an account that has none of its own."`
	ReadPerMinute  int      `json:"readPerMinute" doc:"Reads a minute of an account."`
	WritePerMinute int      `json:"writePerMinute" doc:"Writes a minute of an account."`
	Reset          int64    `json:"reset" doc:"When the full limits of every account are available again at the latest, in Unix seconds."`
}

type periodBody struct {
	_           struct{}         `schema:"UsagePeriod" doc:"The usage of this month."`
	PeriodStart stamp.Time       `json:"periodStart" doc:"The start of the month."`
	PeriodEnd   stamp.Time       `json:"periodEnd" doc:"The end of the month."`
	Calls       callsBody        `json:"calls" doc:"The calls of the month."`
	ByResource  map[string]int64 `json:"byResource" doc:"SDK calls by resource."`
	Accounts    heldBody         `json:"accounts" doc:"Accounts that are currently connected."`
	Connect     attemptsBody     `json:"connect" doc:"Connect attempts, without automatic sign-ins."`
	Events      eventsBody       `json:"events" doc:"Events stored, streamed and delivered."`
	EgressBytes map[string]int64 `json:"egressBytes" doc:"Bytes sent to the platform and received from it, by region."`
}

type eventsBody struct {
	_              struct{} `schema:"EventUsage" doc:"The number of events."`
	Received       int64    `json:"received" doc:"Stored events of accounts and of the organisation."`
	Streamed       int64    `json:"streamed" doc:"Events sent to streams and pulls. An event that two readers got counts twice."`
	Delivered      int64    `json:"delivered" doc:"Deliveries that receivers accepted."`
	DeliveryFailed int64    `json:"deliveryFailed" doc:"Delivery attempts that receivers did not accept."`
}

type heldBody struct {
	_         struct{}       `schema:"AccountUsage" doc:"The number of accounts and its limit."`
	Connected int            `json:"connected" doc:"The accounts that are connected."`
	Limit     int            `json:"limit" doc:"-1 means unlimited."`
	ByState   map[string]int `json:"byState" doc:"The number of accounts in each state. States without accounts are omitted."`
}

type attemptsBody struct {
	_         struct{} `schema:"AttemptUsage" doc:"The number of connect attempts."`
	Started   int64    `json:"started" doc:"The attempts that were started."`
	Succeeded int64    `json:"succeeded" doc:"The attempts that connected an account."`
	Failed    int64    `json:"failed" doc:"The attempts that failed."`
}

type callsBody struct {
	_           struct{} `schema:"CallUsage" doc:"The number of calls."`
	Total       int64    `json:"total" doc:"Calls that count towards the month, exact and up to date."`
	Read        int64    `json:"read" doc:"SDK calls that read."`
	Write       int64    `json:"write" doc:"SDK calls that write."`
	Failed      int64    `json:"failed" doc:"The calls that failed."`
	RateLimited int64    `json:"rateLimited" doc:"Calls refused by a limit. They do not count towards any limit."`
}

const tag = "Usage"

// Routes adds the operations.
func Routes(t *endpoint.Table, d Deps) {
	a := &usages{Deps: d, figures: cache.NewFor[figuresKey, figures](10_000, figuresFor), backlogs: cache.NewFor[id.Org, webhook.Backlog](10_000, figuresFor)}
	endpoint.Typed(t, endpoint.Operation{
		ID: "getUsage", Method: http.MethodGet, Path: "/v1/me/usage", Tag: tag, Status: http.StatusOK,
		Scope: scope.UsageRead, Quota: admission.Free, Problems: []problem.Kind{problem.AccountNotFound, problem.AccountNotAllowedForKey},
		Summary: "Get limits and usage", Description: "What is left of each limit, and what was used this month. This call is free. " +
			"The breakdown follows the total within a second or two. The totals are those of the organisation, even for a key with limits.",
	}, a.getUsage)
	a.seriesRoutes(t)
}

// figuresFor is how long figures are cached: reading them is free for callers, but counting them is not for us.
const figuresFor = time.Second

type figuresKey struct {
	org   id.Org
	month time.Time
}

// figures are the counts of an org's accounts and attempts.
type figures struct {
	states   map[account.State]int
	attempts connect.Month
}

func (a *usages) count(ctx context.Context, key figuresKey) (figures, error) {
	return a.figures.Load(ctx, key, func(ctx context.Context, k figuresKey) (f figures, err error) {
		if f.states, err = a.Accounts.CountByState(ctx, k.org, account.Filter{}); err != nil {
			return f, err
		}
		f.attempts, err = a.Connects.Month(ctx, k.org, k.month)
		return f, err
	})
}

// windows returns what is left of an account's limits; nil if no account is requested.
func (a *usages) windows(ctx context.Context, text string) (*accountWindowsBody, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no account was requested
	}
	at, err := endpoint.AllowedAccount(ctx, text)
	if err != nil {
		return nil, err
	}
	caller := endpoint.Caller(ctx)
	if _, err := a.Accounts.Get(ctx, caller.Org.ID, at); err != nil {
		return nil, err
	}
	read, write, err := a.Limits.AccountWindows(ctx, caller.Org.ID, at, &caller.Org.Limits)
	if err != nil {
		return nil, err
	}
	return &accountWindowsBody{Read: viewWindow(read), Write: viewWindow(write)}, nil
}

func (a *usages) getUsage(ctx context.Context, in *usageInput) (*usageOutput, error) {
	caller, d, now := endpoint.Caller(ctx), endpoint.From(ctx).Decision, a.Now()
	limits := caller.Org.Limits
	windows, err := a.windows(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	connect, err := a.Limits.ConnectWindow(ctx, caller.Org.ID, limits.ConnectAttemptsPerHour)
	if err != nil {
		return nil, err
	}
	start := admission.MonthStart(now)
	end := start.AddDate(0, 1, 0)
	sums, err := a.Usage.Summarise(ctx, caller.Org.ID, start, end)
	if err != nil {
		return nil, err
	}
	counted, err := a.count(ctx, figuresKey{caller.Org.ID, start})
	if err != nil {
		return nil, err
	}
	return &usageOutput{usageBody{
		RateLimits: rateLimitsBody{
			Org: viewWindow(d.Org), OrgMonth: viewWindow(d.Month), ConnectAttempts: viewWindow(connect),
			AccountDefaults: accountDefaultsBody{
				ReadPerMinute: limits.AccountReadPerMinute, WritePerMinute: limits.AccountWritePerMinute,
				Reset: now.Add(time.Minute).Unix(),
			},
			Account: windows,
		},
		Usage: periodBody{
			PeriodStart: stamp.Time(start), PeriodEnd: stamp.Time(end), ByResource: sums.ByResource,
			Calls: callsBody{
				Total: d.MonthUsed, Read: sums.Read, Write: sums.Write, Failed: sums.Failed,
				RateLimited: sums.RateLimited,
			},
			Accounts: viewHeld(counted.states, limits.MaxAccounts), Connect: viewAttempts(counted.attempts), EgressBytes: a.byRegion(sums.Bytes),
			Events: viewEvents(sums.Events),
		},
	}}, nil
}

func viewWindow(w admission.Window) windowBody {
	return windowBody{Limit: w.Limit, Remaining: w.Remaining, Reset: w.Reset}
}

func viewAttempts(m connect.Month) attemptsBody {
	return attemptsBody{Started: m.Started, Succeeded: m.Succeeded, Failed: m.Failed}
}

func viewEvents(e usage.Events) eventsBody {
	return eventsBody{
		Received: e.Received, Streamed: e.Streamed, Delivered: e.Delivered, DeliveryFailed: e.DeliveryFailed,
	}
}

func viewHeld(states map[account.State]int, most int) heldBody {
	held := heldBody{Limit: most, ByState: make(map[string]int, len(states))}
	for state, n := range states {
		held.ByState[string(state)] = n
		held.Connected += n
	}
	return held
}

// byRegion returns all regions, including those without traffic.
func (a *usages) byRegion(bytes map[string]int64) map[string]int64 {
	all := map[string]int64{}
	for _, region := range a.Regions() {
		all[region] = 0
	}
	maps.Copy(all, bytes)
	return all
}
