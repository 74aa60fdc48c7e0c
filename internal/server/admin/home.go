package admin

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/operate/pulse"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

type homeOutput struct {
	Body struct {
		At         stamp.Time      `json:"at" doc:"The time of the answer, by the database's clock."`
		Counted    *stamp.Time     `json:"counted" doc:"The latest minute that a node has counted; null if there is none."`
		Troubles   []troubleBody   `json:"troubles" doc:"What is wrong, the worst first."`
		Objectives []objectiveBody `json:"objectives"`
		Chart      []pointBody     `json:"chart" doc:"The last three hours, oldest first."`
		Engines    []engineBody    `json:"engines"`
		Regions    []shareBody     `json:"regions"`
		Nodes      int             `json:"nodes" doc:"How many nodes are alive."`
	}
}

type troubleBody struct {
	Name    string      `json:"name"`
	Harm    string      `json:"harm" enum:"critical,warning,notice" doc:"critical: customers notice now. warning: they will if nothing is done. notice: an operator wanted it."`
	Title   string      `json:"title"`
	Detail  string      `json:"detail"`
	Where   string      `json:"where" doc:"The nodes, the region, the role or the switch; empty for the whole service."`
	Since   *stamp.Time `json:"since" doc:"Null if it is not known."`
	Runbook *string     `json:"runbook" doc:"The address of the page that says what to do; null if an operator did it."`
}

type objectiveBody struct {
	Name   string   `json:"name"`
	Title  string   `json:"title"`
	Target float64  `json:"target" doc:"The share that must go well over 30 days."`
	Month  *float64 `json:"month" doc:"The share that went well in the last 30 days; null without traffic."`
	Left   *float64 `json:"left" doc:"The share of the error budget of 30 days that is left, negative if it is overdrawn; null without traffic."`
	Burn   float64  `json:"burn" doc:"How fast the budget was used up in the last hour: 1 uses up exactly the budget of 30 days in 30 days."`
}

type pointBody struct {
	At         stamp.Time `json:"at"`
	Requests   int64      `json:"requests"`
	Failed     int64      `json:"failed" doc:"Failures of this service, without those of platforms."`
	P95MS      float64    `json:"p95Ms" doc:"The time that this service added to 95 percent of the calls, in milliseconds."`
	LagSeconds float64    `json:"lagSeconds" doc:"How far the event store lagged relative to the event log."`
	Backlog    int64      `json:"backlog" doc:"Accounts whose deliveries waited."`
}

type engineBody struct {
	Name  string   `json:"name"`
	Nodes int      `json:"nodes" doc:"How many nodes reported."`
	Down  []string `json:"down" doc:"The nodes that do not reach it."`
}

type shareBody struct {
	Name    string `json:"name"`
	Healthy int64  `json:"healthy"`
	All     int64  `json:"all"`
}

func (a *Admin) homeRoutes() {
	endpoint.Typed(a.table, endpoint.Operation{
		ID: "getHome", Method: http.MethodGet, Path: "/admin/v1/home", Tag: "Fleet", Status: http.StatusOK, Scope: scope.AdminViewer,
		Summary: "Is anything wrong?", Description: "What is wrong, where, since when, and which runbook helps, with the objectives and the last three hours.",
	}, a.getHome)
}

const (
	chartPart  = 3 * time.Minute
	chartParts = 60
	// budgetDays is the period of an error budget.
	budgetDays = 30
)

func (a *Admin) getHome(ctx context.Context, _ *struct{}) (*homeOutput, error) {
	facts, err := a.deps.Pulse.Facts(ctx, chartPart*chartParts)
	if err != nil {
		return nil, err
	}
	days, err := a.deps.Pulse.Days(ctx, budgetDays)
	if err != nil {
		return nil, err
	}
	out := &homeOutput{}
	b := &out.Body
	b.At, b.Nodes = stamp.Time(facts.Now), len(facts.Live)
	if n := len(facts.Minutes); n > 0 {
		last := stamp.Time(facts.Minutes[n-1].At)
		b.Counted = &last
	}
	b.Troubles = []troubleBody{}
	for _, t := range pulse.Diagnose(facts) {
		b.Troubles = append(b.Troubles, a.trouble(t))
	}
	for _, o := range pulse.Objectives() {
		b.Objectives = append(b.Objectives, objective(o, facts, days))
	}
	for _, p := range pulse.Chart(facts.Minutes, facts.Now, chartPart, chartParts) {
		b.Chart = append(b.Chart, pointBody{stamp.Time(p.At), p.Requests, p.Failed, 1000 * p.P95, p.Lag, p.Backlog})
	}
	b.Engines = engines(facts)
	b.Regions = []shareBody{}
	for region, p := range facts.Regions() {
		b.Regions = append(b.Regions, shareBody{region, p.Healthy, p.All})
	}
	slices.SortFunc(b.Regions, func(x, y shareBody) int { return strings.Compare(x.Name, y.Name) })
	return out, nil
}

func (a *Admin) trouble(t pulse.Trouble) troubleBody {
	b := troubleBody{Name: t.Name, Harm: string(t.Harm), Title: t.Title, Detail: t.Detail, Where: t.Where}
	if !t.Since.IsZero() {
		since := stamp.Time(t.Since)
		b.Since = &since
	}
	if t.Runbook != "" {
		address := a.deps.Config.PublicURL + "/docs/runbooks/" + t.Runbook
		b.Runbook = &address
	}
	return b
}

func objective(o pulse.Objective, f pulse.Facts, days []pulse.Day) objectiveBody {
	b := objectiveBody{Name: o.Name, Title: o.Title, Target: o.Target}
	var month pulse.Ratio
	for _, d := range days {
		if d.Objective == o.Name {
			month = month.Plus(d.Ratio)
		}
	}
	if month.Total > 0 {
		share, left := float64(month.Good)/float64(month.Total), 1-o.Burn(month)
		b.Month, b.Left = &share, &left
	}
	b.Burn = o.Burn(f.Met(o.Name, f.Now.Add(-time.Hour)))
	return b
}

// engineNames are the checks of a node that are about an engine.
var engineNames = []string{"postgres", "redis", "nats", "kms", "objects"}

// engines returns which nodes do not reach which engine.
func engines(f pulse.Facts) []engineBody {
	last := f.Latest()
	list := make([]engineBody, len(engineNames))
	for i, name := range engineNames {
		list[i] = engineBody{Name: name, Nodes: len(last), Down: []string{}}
		for _, m := range last {
			if _, down := m.Down[name]; down {
				list[i].Down = append(list[i].Down, m.Node)
			}
		}
		slices.Sort(list[i].Down)
	}
	return list
}
