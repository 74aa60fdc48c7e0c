package admin

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

type egressOutput struct {
	Body struct {
		Node    string       `json:"node" doc:"The node that answers. Health and open connections are as this node sees them; draining applies to all nodes."`
		Regions []regionBody `json:"regions"`
	}
}

type regionBody struct {
	Region    string      `json:"region"`
	On        bool        `json:"on" doc:"Whether its switch is on."`
	Available bool        `json:"available" doc:"Whether the region has a usable proxy."`
	Proxies   []proxyBody `json:"proxies"`
}

type proxyBody struct {
	Proxy       string      `json:"proxy" doc:"The position of the proxy in the settings, from 0. Addresses and passwords are not shown."`
	Healthy     bool        `json:"healthy"`
	Since       *stamp.Time `json:"since" doc:"Since when it has been healthy or unhealthy; null if that never changed."`
	LastFailure *string     `json:"lastFailure" doc:"Why the last dial or check failed; null if it did not."`
	Draining    bool        `json:"draining" doc:"Whether the proxy gets no new connections."`
	DrainedAt   *stamp.Time `json:"drainedAt"`
	DrainedBy   *string     `json:"drainedBy"`
	Reason      *string     `json:"reason" doc:"Why it is drained."`
	Open        int         `json:"openConnections"`
}

// ProxyRef is a proxy in a path.
type ProxyRef struct {
	Region string `path:"region" maxLength:"8"`
	Proxy  string `path:"proxy" maxLength:"8" doc:"The position of the proxy in the settings, from 0."`
}

type drainInput struct {
	ProxyRef
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"500"`
	}
}

type undrainInput struct{ ProxyRef }

func (a *Admin) egressRoutes() {
	op := func(o endpoint.Operation) endpoint.Operation {
		o.Tag, o.Scope, o.Status = "Egress", leastRole(o), http.StatusOK
		return o
	}
	notFound := []problem.Kind{problem.ProxyNotFound}
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "getEgress", Method: http.MethodGet, Path: "/admin/v1/egress", Summary: "List proxies by region",
	}), a.getEgress)
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "drainProxy", Method: http.MethodPost, Path: "/admin/v1/egress/{region}/{proxy}/drain", Audit: "egress.drain", Problems: notFound,
		Summary: "Drain a proxy", Description: "Within seconds no node opens new connections through the proxy; its accounts use the other proxies of the region. " +
			"Open connections have two minutes to finish. Without another proxy, calls on the region's accounts get 503 `egress-unavailable`.",
		Example: map[string]any{"reason": "The provider is doing maintenance."},
	}), a.drainProxy)
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "undrainProxy", Method: http.MethodPost, Path: "/admin/v1/egress/{region}/{proxy}/undrain", Audit: "egress.undrain", Problems: notFound,
		Summary: "Undrain a proxy", Description: "The proxy is used again, by the same accounts as before.",
	}), a.undrainProxy)
}

func (a *Admin) getEgress(context.Context, *struct{}) (*egressOutput, error) {
	return a.viewEgress(a.deps.Control.State()), nil
}

func (a *Admin) viewEgress(s switches.State) *egressOutput {
	out := &egressOutput{}
	out.Body.Node, out.Body.Regions = a.deps.Config.Node, []regionBody{}
	all := a.deps.Egress.Status()
	for _, name := range a.deps.Egress.Regions() {
		_, off := s.Off[switches.Region(name)]
		r := regionBody{Region: name, On: !off, Available: a.deps.Egress.Available(name)}
		for _, p := range all {
			if p.Region == name {
				r.Proxies = append(r.Proxies, viewProxy(p, s))
			}
		}
		out.Body.Regions = append(out.Body.Regions, r)
	}
	return out
}

func viewProxy(p egress.Status, s switches.State) proxyBody {
	b := proxyBody{Proxy: strconv.Itoa(p.Proxy), Healthy: p.Healthy, Since: stamp.Optional(p.Since), LastFailure: endpoint.NilIfEmpty(p.Reason), Open: p.Open}
	if d, drained := s.Drained[drainName(p)]; drained {
		b.Draining, b.DrainedAt, b.DrainedBy, b.Reason = true, stamp.Optional(d.At), endpoint.NilIfEmpty(d.By), endpoint.NilIfEmpty(d.Reason)
	}
	return b
}

// drainName identifies a proxy on all nodes.
func drainName(p egress.Status) string { return p.Region + "/" + p.Fingerprint }

func (a *Admin) drainProxy(ctx context.Context, in *drainInput) (*egressOutput, error) {
	return a.drain(ctx, in.ProxyRef, strings.TrimSpace(in.Body.Reason), true)
}

func (a *Admin) undrainProxy(ctx context.Context, in *undrainInput) (*egressOutput, error) {
	return a.drain(ctx, in.ProxyRef, "", false)
}

func (a *Admin) drain(ctx context.Context, which ProxyRef, reason string, drained bool) (*egressOutput, error) {
	for _, p := range a.deps.Egress.Status() {
		if p.Region != which.Region || strconv.Itoa(p.Proxy) != which.Proxy {
			continue
		}
		s, err := a.deps.Control.Drain(ctx, endpoint.By(ctx), drainName(p), which.Region+"/"+which.Proxy, reason, drained)
		if err != nil {
			return nil, err
		}
		return a.viewEgress(s), nil
	}
	return nil, problem.ProxyNotFound.New("This region has no proxy at this position.")
}
