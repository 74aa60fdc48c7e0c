// Package status is the part of the public face that says whether the service is well.
package status

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// ways knows the proxies; *egress.Egress does.
type ways interface{ Status() []egress.Status }

// operators know what is switched off and what the banner says; *switches.Control does.
type operators interface{ State() switches.State }

// Deps is what the operation needs.
type Deps struct {
	Egress  ways
	Control operators
}

type status struct{ Deps }

type statusOutput struct{ Body statusBody }

type statusBody struct {
	Status  string       `json:"status" enum:"normal,degraded,down" doc:"down if no region works."`
	Message string       `json:"message" doc:"The same in words."`
	Regions []regionBody `json:"regions" doc:"Where traffic to platforms leaves, as this server sees it."`
	Banner  *bannerBody  `json:"banner" doc:"What the operators have to say; null if nothing."`
}

type regionBody struct {
	Region    string   `json:"region"`
	OK        bool     `json:"ok"`
	LatencyMS *float64 `json:"latencyMs" doc:"How long it last took to open a way out, in milliseconds; null if it is not known."`
}

type bannerBody struct {
	Text  string  `json:"text"`
	Level string  `json:"level" enum:"info,warning,critical"`
	URL   *string `json:"url" doc:"Where more is said; null for nowhere."`
}

// Routes adds the operation.
func Routes(t *endpoint.Table, d Deps) {
	a := &status{d}
	endpoint.Typed(t, endpoint.Operation{
		ID: "getStatus", Method: http.MethodGet, Path: "/v1/status", Tag: "Status", Status: http.StatusOK, Scope: scope.Any, Quota: admission.Free,
		Summary: "Whether the service is well", Description: "The regions that accounts use, and what the operators have to say. Reading it costs nothing.",
	}, a.get)
}

func (a *status) get(context.Context, *struct{}) (*statusOutput, error) {
	state := a.Control.State()
	regions := regionsOf(a.Egress.Status(), state)
	out := &statusOutput{statusBody{Status: "normal", Message: "All systems normal", Regions: regions}}
	down := 0
	for _, r := range regions {
		if !r.OK {
			down++
		}
	}
	paused := slices.ContainsFunc([]switches.Switch{switches.Connects, switches.Writes, switches.Webhooks}, func(s switches.Switch) bool {
		_, off := state.Off[s]
		return off
	})
	switch {
	case down > 0 && down == len(regions):
		out.Body.Status, out.Body.Message = "down", "Platforms cannot be reached"
	case down > 0:
		out.Body.Status, out.Body.Message = "degraded", "Some regions do not work"
	case paused:
		out.Body.Status, out.Body.Message = "degraded", "Some functions are paused"
	}
	if b := state.Banner; b != nil {
		out.Body.Banner = &bannerBody{Text: b.Text, Level: b.Level}
		if b.URL != "" {
			out.Body.Banner.URL = &b.URL
		}
	}
	return out, nil
}

// regionsOf sums up proxies by region: one that works is enough, and the quickest tells how long it takes.
func regionsOf(proxies []egress.Status, state switches.State) []regionBody {
	list := []regionBody{}
	for _, p := range proxies {
		at := slices.IndexFunc(list, func(r regionBody) bool { return r.Region == p.Region })
		if at < 0 {
			at = len(list)
			list = append(list, regionBody{Region: p.Region})
		}
		r := &list[at]
		_, off := state.Off[switches.Region(p.Region)]
		if !p.Healthy || p.Drained || off {
			continue
		}
		r.OK = true
		if ms := float64(p.Latency.Microseconds()) / float64(time.Millisecond/time.Microsecond); p.Latency > 0 && (r.LatencyMS == nil || ms < *r.LatencyMS) {
			r.LatencyMS = &ms
		}
	}
	return list
}
