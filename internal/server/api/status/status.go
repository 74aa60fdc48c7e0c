// Package status is the operation of the public API that reports whether the service works.
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

type status struct {
	egress  *egress.Egress
	control *switches.Control
}

type statusOutput struct{ Body statusBody }

type statusBody struct {
	_       struct{}     `schema:"ServiceStatus" doc:"The status of the service."`
	Status  string       `json:"status" enum:"normal,degraded,down" doc:"down if no region works."`
	Message string       `json:"message" doc:"The status as a sentence."`
	Regions []regionBody `json:"regions" doc:"The egress regions, as this server sees them."`
	Banner  *bannerBody  `json:"banner" doc:"A message from the operators; null if there is none."`
}

type regionBody struct {
	_         struct{} `schema:"Region" doc:"A region from which traffic leaves."`
	Region    string   `json:"region" doc:"The region."`
	OK        bool     `json:"ok" doc:"Whether its proxy works."`
	LatencyMS *float64 `json:"latencyMs" doc:"The time that the last connection through the region took to open, in milliseconds; null if unknown."`
}

type bannerBody struct {
	_     struct{} `schema:"Banner" doc:"A message from the operators of the service to all customers."`
	Text  string   `json:"text" doc:"What to show."`
	Level string   `json:"level" enum:"info,warning,critical" doc:"How serious it is."`
	URL   *string  `json:"url" doc:"The address of more information; null if there is none."`
}

// Routes adds the operation.
func Routes(t *endpoint.Table, proxies *egress.Egress, control *switches.Control) {
	a := &status{proxies, control}
	endpoint.Typed(t, endpoint.Operation{
		ID: "getStatus", Method: http.MethodGet, Path: "/v1/status", Tag: "Status", Status: http.StatusOK, Scope: scope.Any, Quota: admission.Free,
		Summary: "Get the service status", Description: "The state of the regions that accounts use, and the operators' message. This call is free.",
	}, a.get)
}

func (a *status) get(context.Context, *struct{}) (*statusOutput, error) {
	state := a.control.State()
	regions := regionsOf(a.egress.Status(), state)
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
		out.Body.Status, out.Body.Message = "degraded", "Some regions are down"
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

// regionsOf groups proxies by region. One healthy proxy is enough, and the fastest one gives the latency.
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
