package links

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
	Since time.Time `query:"since" doc:"From when on. Left out, and at the earliest, 7 days ago."`
	Until time.Time `query:"until" doc:"Until when. Left out, now."`
}

type funnelOutput struct{ Body funnelBody }

type funnelBody struct {
	Since     stamp.Time              `json:"since"`
	Until     stamp.Time              `json:"until"`
	LinksMade int64                   `json:"linksMade" doc:"Links that were made."`
	Opened    int64                   `json:"opened" doc:"Creators who came to where they can connect: links that were opened, by whoever or whatever, and attempts that began without one."`
	Begun     int64                   `json:"credentials" doc:"Those who gave credentials or a session, or asked for a QR code."`
	Asked     int64                   `json:"challenge" doc:"Those whom the platform asked for a code, a selfie or their phone. Not everybody is asked."`
	Connected int64                   `json:"connected"`
	Failed    int64                   `json:"failed" doc:"Those who tried, and whose last attempt has ended without an account."`
	ByMethod  map[string]funnelMethod `json:"byMethod" doc:"The same by the way to connect: credentials, mobile_app, cookie, curl."`
	Failures  []failureCount          `json:"failures" doc:"Why attempts failed, the most frequent first. A creator who tried three times counts three times here."`
}

type funnelMethod struct {
	Begun     int64 `json:"credentials"`
	Asked     int64 `json:"challenge"`
	Connected int64 `json:"connected"`
	Failed    int64 `json:"failed"`
}

type failureCount struct {
	Reason string `json:"reason" doc:"The code of the failure, as attempts have it."`
	Count  int64  `json:"count"`
}

func (a *links) funnelRoutes(t *endpoint.Table) {
	endpoint.Typed(t, endpoint.Operation{
		ID: "getConnectFunnel", Method: http.MethodGet, Path: "/v1/connect/funnel", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsRead, Quota: admission.Plain, Problems: []problem.Kind{problem.InvalidRequest},
		Summary: "How far creators come", Description: "Of those who began within the time: how many gave what it takes, were asked for more, and got connected. All attempts of one link are one creator. " +
			"Attempts are kept for 7 days after they end, so that is as far back as it goes. A key with `accountIds` counts those that connect its accounts again.",
	}, a.getFunnel)
}

func (a *links) getFunnel(ctx context.Context, in *funnelInput) (*funnelOutput, error) {
	now := a.Now()
	since, until := in.Since, in.Until
	if until.IsZero() || until.After(now) {
		until = now
	}
	if oldest := now.Add(-connect.FunnelWithin); since.Before(oldest) {
		since = oldest
	}
	if !in.Since.IsZero() && !in.Until.IsZero() && !in.Since.Before(in.Until) {
		return nil, problem.InvalidRequest.New("This time cannot be shown.").At("query/since", "range", "must be before until")
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
	// A link may have been made before the time, and used in it.
	out.Body.Opened = max(made.Opened, f.All.Linked) + f.All.Begun - f.All.Linked
	for kind, way := range f.ByKind {
		out.Body.ByMethod[kind] = funnelMethod{way.Begun, way.Challenged, way.Connected, way.Failed}
	}
	for _, r := range f.Failures {
		out.Body.Failures = append(out.Body.Failures, failureCount{r.Code, r.Count})
	}
	return out, nil
}
