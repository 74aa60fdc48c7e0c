package admin

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

type lanesInput struct {
	State  string `query:"state" enum:"lagging,backoff,draining,paused,disabled" doc:"Default: all states except live."`
	Org    string `query:"org" maxLength:"64" doc:"Only webhooks of this organisation."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50"`
	Cursor string `query:"cursor" maxLength:"128" doc:"nextCursor of the previous page."`
}

type lanesOutput struct {
	Body struct {
		Lanes      []laneBody     `json:"lanes"`
		Counts     map[string]int `json:"counts" doc:"The number of webhooks in each lane state. Live lanes are up to date and not listed."`
		NextCursor *string        `json:"nextCursor"`
	}
}

type laneBody struct {
	Org           orgRef      `json:"org"`
	AccountID     string      `json:"accountId"`
	Host          string      `json:"host" doc:"The host of the receiver. The rest of the address may contain a secret and is not shown."`
	State         string      `json:"state"`
	Reason        *string     `json:"reason" doc:"Why the lane is disabled (gone, failing) or paused (operator; null if its owner paused it)."`
	FailingSince  *stamp.Time `json:"failingSince"`
	FailCount     int         `json:"failCount"`
	NextAttemptAt *stamp.Time `json:"nextAttemptAt"`
	LastStatus    int         `json:"lastStatus" doc:"0 if there was no response."`
	LastError     *string     `json:"lastError" doc:"Why there was no response."`
	Backlog       int64       `json:"backlog" doc:"The maximum number of waiting events."`
}

type bulkInput struct {
	Body struct {
		State    string   `json:"state,omitempty" enum:"lagging,backoff,draining,paused,disabled" doc:"Default: every state to which the action applies."`
		Org      string   `json:"orgId,omitempty" maxLength:"64" doc:"Only webhooks of this organisation."`
		Accounts []string `json:"accountIds,omitempty" minItems:"1" maxItems:"100" doc:"Only webhooks of these accounts."`
		Limit    int      `json:"limit,omitempty" minimum:"1" maximum:"1000" default:"100" doc:"The maximum number of lanes."`
	}
}

type bulkOutput struct {
	Body struct {
		Changed int  `json:"changed" doc:"The number of changed lanes."`
		Orgs    int  `json:"orgs" doc:"The number of affected organisations. Each has an entry in its audit log."`
		More    bool `json:"more" doc:"Whether more lanes match. Repeat the request for them."`
	}
}

func (a *Admin) laneRoutes() {
	op := func(o endpoint.Operation) endpoint.Operation {
		o.Tag, o.Scope, o.Status = "Webhooks", leastRole(o), http.StatusOK
		return o
	}
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "listLanes", Method: http.MethodGet, Path: "/admin/v1/webhooks/lanes", Problems: []problem.Kind{problem.InvalidRequest},
		Summary: "List webhook lanes", Description: "Webhooks that are not up to date, ordered by organisation and account. The delivered events are not shown.",
	}), a.listLanes)
	for _, one := range []struct {
		do                          webhook.LaneAction
		id, summary, about, example string
	}{
		{webhook.RetryLanes, "retryLanes", "Retry many webhooks", "Retries failing and disabled webhooks immediately.", "backoff"},
		{webhook.PauseLanes, "pauseLanes", "Pause many webhooks", "Pauses lanes that are not up to date. Their events stay in the store.", "lagging"},
		{webhook.ResumeLanes, "resumeLanes", "Resume many webhooks", "Resumes lanes that an operator paused. Lanes that their owner paused stay paused.", "paused"},
	} {
		endpoint.Typed(a.table, op(endpoint.Operation{
			ID: one.id, Method: http.MethodPost, Path: "/admin/v1/webhooks/lanes/" + string(one.do), Audit: "webhook." + string(one.do), Timeout: time.Minute,
			Summary: one.summary, Description: one.about + " The audit log of each organisation names the affected webhooks. Repeating the request changes nothing more.",
			Example: map[string]any{"state": one.example, "limit": 100},
		}), func(ctx context.Context, in *bulkInput) (*bulkOutput, error) { return a.operateLanes(ctx, one.do, in) })
	}
}

func (a *Admin) listLanes(ctx context.Context, in *lanesInput) (*lanesOutput, error) {
	f := webhook.LaneFilter{State: lane.State(in.State)}
	var err error
	if f.Org, err = optional[id.Org](in.Org, "query/org"); err != nil {
		return nil, err
	}
	org, account, _ := strings.Cut(in.Cursor, ".")
	if f.AfterOrg, err = optional[id.Org](org, "query/cursor"); err != nil {
		return nil, err
	}
	if f.AfterAccount, err = optional[id.Account](account, "query/cursor"); err != nil {
		return nil, err
	}
	list, err := a.deps.Webhooks.ListLanes(ctx, f, in.Limit+1)
	if err != nil {
		return nil, err
	}
	counts, err := a.deps.Webhooks.CountLanes(ctx, f.Org)
	if err != nil {
		return nil, err
	}
	out := &lanesOutput{}
	out.Body.Counts = viewCounts(counts)
	if len(list) > in.Limit {
		list = list[:in.Limit]
		last := list[in.Limit-1]
		out.Body.NextCursor = endpoint.NilIfEmpty(string(last.Org) + "." + string(last.Account))
	}
	names, err := a.names(ctx, len(list), func(i int) id.Org { return list[i].Org })
	if err != nil {
		return nil, err
	}
	out.Body.Lanes = make([]laneBody, len(list))
	for i, l := range list {
		out.Body.Lanes[i] = laneBody{
			Org: orgRef{string(l.Org), names[l.Org]}, AccountID: string(l.Account), Host: l.Host, State: string(l.State), Reason: endpoint.NilIfEmpty(l.Reason),
			FailingSince: stamp.Optional(l.FailingSince), FailCount: l.FailCount, NextAttemptAt: stamp.Optional(l.NextAt), LastStatus: l.LastStatus,
			LastError: endpoint.NilIfEmpty(l.LastError), Backlog: l.Backlog,
		}
		if l.State == lane.Paused && l.Reason != lane.ReasonOperator {
			out.Body.Lanes[i].Reason = nil
		}
	}
	return out, nil
}

func viewCounts(counts map[lane.State]int) map[string]int {
	all := map[string]int{}
	for _, s := range []lane.State{lane.Live, lane.Lagging, lane.Backoff, lane.Draining, lane.Paused, lane.Disabled} {
		all[string(s)] = counts[s]
	}
	return all
}

func (a *Admin) operateLanes(ctx context.Context, do webhook.LaneAction, in *bulkInput) (*bulkOutput, error) {
	o := webhook.LaneOrder{Do: do, State: lane.State(in.Body.State), Limit: in.Body.Limit}
	bad := problem.ValidationFailed.New("The request has invalid values.")
	if states := o.Do.States(); o.State != "" && !slices.Contains(states, o.State) {
		bad.At("/state", "enum", "is not possible in this state; possible states: "+strings.Join(id.Texts(states), ", "))
	}
	var err error
	if in.Body.Org != "" {
		if o.Org, err = id.Parse[id.Org](in.Body.Org); err != nil {
			bad.At("/orgId", "format", "must be an organisation's id")
		}
	}
	for _, text := range in.Body.Accounts {
		one, err := id.Parse[id.Account](text)
		if err != nil {
			bad.At("/accountIds", "format", "must be accounts' ids")
			break
		}
		o.Accounts = append(o.Accounts, one)
	}
	if len(bad.Fields) > 0 {
		return nil, bad
	}
	done, err := a.deps.Webhooks.OrderLanes(ctx, endpoint.By(ctx), o)
	if err != nil {
		return nil, err
	}
	out := &bulkOutput{}
	out.Body.Changed, out.Body.Orgs, out.Body.More = done.Changed, done.Orgs, done.More
	return out, nil
}
