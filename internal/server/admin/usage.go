package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/billing"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

type usageInput struct {
	Org    string `query:"org" maxLength:"64" doc:"Only this organisation."`
	From   string `query:"from" required:"true" maxLength:"10" doc:"The first day in UTC, such as 2026-11-01."`
	To     string `query:"to" maxLength:"10" doc:"The day after the last one, at most 92 days later and not after today, which is not complete. Default: today."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"The number of organisations in a page."`
	Cursor string `query:"cursor" maxLength:"64" doc:"nextCursor of the previous page."`
}

type usageOutput struct {
	Body struct {
		Days       []billing.UsageDay `json:"days" doc:"By organisation and day. Days without usage are not listed."`
		NextCursor *string            `json:"nextCursor"`
	}
}

// maxUsageDays is the longest period of a request.
const maxUsageDays = 92

func (a *Admin) usageRoutes() {
	endpoint.Typed(a.table, endpoint.Operation{
		ID: "listUsageDays", Method: http.MethodGet, Path: "/admin/v1/usage", Tag: "Organisations", Status: http.StatusOK, Scope: scope.AdminViewer,
		Problems: []problem.Kind{problem.InvalidRequest, problem.OrgNotFound},
		Summary:  "List usage by day", Description: "The usage of organisations on complete days, for billing. Nodes count in memory and write every second: " +
			"read a day a few minutes after its end. A killed node loses the counts of its last second.",
	}, a.listUsage)
}

func (a *Admin) listUsage(ctx context.Context, in *usageInput) (*usageOutput, error) {
	since, until, err := usagePeriod(in, a.deps.Now().UTC().Truncate(24*time.Hour))
	if err != nil {
		return nil, err
	}
	of, err := optional[id.Org](in.Org, "query/org")
	if err != nil {
		return nil, err
	}
	after, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	orgs, err := a.orgsOfUsage(ctx, of, after, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &usageOutput{}
	if len(orgs) > in.Limit {
		orgs = orgs[:in.Limit]
		out.Body.NextCursor = endpoint.NilIfEmpty(string(orgs[in.Limit-1].ID))
	}
	ids, byID := make([]id.Org, len(orgs)), make(map[id.Org]org.Org, len(orgs))
	for i, o := range orgs {
		ids[i], byID[o.ID] = o.ID, o
	}
	days, err := a.deps.Usage.Days(ctx, ids, since, until)
	if err != nil {
		return nil, err
	}
	out.Body.Days = make([]billing.UsageDay, len(days))
	for i, d := range days {
		out.Body.Days[i] = d.Bill(byID[d.Org])
	}
	return out, nil
}

// orgsOfUsage returns one org, or a page of all; with one more than the limit if there is another page.
func (a *Admin) orgsOfUsage(ctx context.Context, of, after id.Org, limit int) ([]org.Org, error) {
	if of == "" {
		return a.deps.Orgs.Search(ctx, org.Search{After: after}, limit+1)
	}
	one, err := a.deps.Orgs.Get(ctx, of)
	return []org.Org{one}, err
}

// usagePeriod returns the period of a request.
func usagePeriod(in *usageInput, today time.Time) (since, until time.Time, err error) {
	bad := problem.InvalidRequest.New("A query parameter is invalid.")
	since, err = time.Parse(time.DateOnly, in.From)
	if err != nil {
		bad.At("query/from", "format", "must be a day, such as 2026-11-01")
	}
	until = today
	if in.To != "" {
		if until, err = time.Parse(time.DateOnly, in.To); err != nil {
			bad.At("query/to", "format", "must be a day, such as 2026-12-01")
		}
	}
	switch {
	case len(bad.Fields) > 0:
	case until.After(today):
		bad.At("query/to", "maximum", "must not be after today")
	case !since.Before(until):
		bad.At("query/from", "maximum", "must be before the end of the period")
	case until.Sub(since) > maxUsageDays*24*time.Hour:
		bad.At("query/from", "minimum", "must be at most 92 days before the end of the period")
	}
	if len(bad.Fields) > 0 {
		return since, until, bad
	}
	return since, until, nil
}
