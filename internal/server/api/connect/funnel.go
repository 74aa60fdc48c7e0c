package connect

import (
	"context"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

type funnelInput struct {
	Since time.Time `query:"since" doc:"The start of the period, at most 7 days ago. Default: 7 days ago."`
	Until time.Time `query:"until" doc:"The end of the period. Default: now."`
}

type funnelOutput struct{ Body funnelBody }

type funnelBody struct {
	_         struct{}                `schema:"ConnectFunnel" doc:"The number of creators who reached each step of connecting."`
	Since     stamp.Time              `json:"since" doc:"The start of the period."`
	Until     stamp.Time              `json:"until" doc:"The end of the period."`
	LinksMade int64                   `json:"linksMade" doc:"Links that were created."`
	Opened    int64                   `json:"opened" doc:"Creators who reached a connect page or method: links that were opened, and attempts that started without a link."`
	Begun     int64                   `json:"credentials" doc:"Creators who entered credentials, sent a session or requested a QR code."`
	Asked     int64                   `json:"challenge" doc:"Creators whom the platform asked for a code, a selfie or their phone. It does not ask everyone."`
	Connected int64                   `json:"connected" doc:"The attempts that ended with a connected account."`
	Failed    int64                   `json:"failed" doc:"Creators whose last attempt ended without an account."`
	ByMethod  map[string]funnelMethod `json:"byMethod" doc:"The same by connect method: credentials, mobile_app, cookie, curl, token, oauth."`
	Failures  []failureCount          `json:"failures" doc:"The reasons why attempts failed, most frequent first. A creator who tried three times counts three times here."`
}

type funnelMethod struct {
	_         struct{} `schema:"ConnectFunnelMethod" doc:"The funnel of one connect method."`
	Begun     int64    `json:"credentials" doc:"The attempts that sent credentials."`
	Asked     int64    `json:"challenge" doc:"The attempts that reached a challenge."`
	Connected int64    `json:"connected" doc:"The attempts that ended with a connected account."`
	Failed    int64    `json:"failed" doc:"The attempts that failed."`
}

type failureCount struct {
	_      struct{} `doc:"The number of attempts that failed for one reason."`
	Reason string   `json:"reason" doc:"The failure code, as in attempts."`
	Count  int64    `json:"count" doc:"The number of attempts that failed for this reason."`
}

func (a *operations) funnelRoutes(t *endpoint.Table) {
	endpoint.Typed(t, endpoint.Operation{
		ID: "getConnectFunnel", Method: http.MethodGet, Path: "/v1/connect/funnel", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsRead, Quota: admission.Plain, Problems: []problem.Kind{problem.InvalidRequest},
		Summary: "Get the connect funnel", Description: "How many of the creators who started in the period entered credentials, were asked for more, and were connected. All attempts of one link count as one creator. " +
			"Attempts are kept for 7 days after they end, which limits the period. A key with `accountIds` counts only attempts that reconnect its accounts.",
	}, a.getFunnel)
}

func (a *operations) getFunnel(ctx context.Context, in *funnelInput) (*funnelOutput, error) {
	bad := problem.InvalidRequest.New("The period is invalid.")
	if endpoint.CheckPeriod(bad, in.Since, in.Until); len(bad.Fields) > 0 {
		return nil, bad
	}
	now := a.Now()
	since, until := in.Since, in.Until
	if until.IsZero() || until.After(now) {
		until = now
	}
	if oldest := now.Add(-connect.FunnelWithin); since.Before(oldest) {
		since = oldest
	}
	caller := endpoint.Caller(ctx)
	among := caller.Key.Allow.Accounts
	f, err := a.Connects.Funnel(ctx, caller.Org.ID, since, until, among)
	if err != nil {
		return nil, err
	}
	made, err := a.Sessions.CountLinks(ctx, caller.Org.ID, since, until, among)
	if err != nil {
		return nil, err
	}
	out := &funnelOutput{funnelBody{
		Since: stamp.Time(since), Until: stamp.Time(until), LinksMade: made.All, Begun: f.All.Begun, Asked: f.All.Challenged, Connected: f.All.Connected, Failed: f.All.Failed,
		ByMethod: map[string]funnelMethod{}, Failures: []failureCount{},
	}}
	// A link may have been created before the period and used in it.
	out.Body.Opened = max(made.Opened, f.All.Linked) + f.All.Begun - f.All.Linked
	for kind, way := range f.ByKind {
		out.Body.ByMethod[kind] = funnelMethod{
			Begun: way.Begun, Asked: way.Challenged, Connected: way.Connected, Failed: way.Failed,
		}
	}
	for _, r := range f.Failures {
		out.Body.Failures = append(out.Body.Failures, failureCount{Reason: r.Code, Count: r.Count})
	}
	return out, nil
}
