package sandboxes

import (
	"context"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/platform/sandboxapi"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

type actInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The account's id."`
	Body struct {
		As    string `json:"as,omitempty" enum:"fan" default:"fan" doc:"Who does it."`
		Do    string `json:"do" enum:"message,tip,subscribe,unsubscribe,like,comment,typing" doc:"What they do."`
		Fan   string `json:"fanId,omitempty" maxLength:"19" pattern:"^[0-9]*$" doc:"The fan's id on the platform. Left out, one of the creator's fans; asked again and again, another each time."`
		Text  string `json:"text,omitempty" maxLength:"4000" doc:"The words of a message, a tip or a comment."`
		Cents int64  `json:"amountCents,omitempty" minimum:"0" maximum:"10000000" doc:"What a tip is worth."`
	}
}

type generatorInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The account's id."`
	Body struct {
		PerSecond float64 `json:"perSecond" minimum:"0.1" maximum:"1000" doc:"How many events a second."`
		Seconds   int     `json:"seconds" minimum:"1" maximum:"600" doc:"For how long."`
	}
}

type generatorOutput struct {
	Body struct {
		Running   bool       `json:"running"`
		PerSecond float64    `json:"perSecond"`
		Until     stamp.Time `json:"until"`
	}
}

type stoppedOutput struct {
	Body struct {
		Stopped bool `json:"stopped" doc:"Whether something ran."`
	}
}

// acts are the frames that doings begin with; the platform sends those that follow from them as well.
var acts = map[string]string{
	"message": "chat.message", "tip": "fan.tip", "subscribe": "fan.joined", "unsubscribe": "fan.left", "like": "post.liked", "comment": "post.commented", "typing": "chat.typing",
}

func (a *sandboxes) actRoutes(t *endpoint.Table, live []problem.Kind) {
	missing := append([]problem.Kind{problem.AccountNotFound}, live...)
	endpoint.Typed(t, endpoint.Operation{
		ID: "actOnSandbox", Method: http.MethodPost, Path: "/v1/sandbox/accounts/{id}/act", Tag: tag, Status: http.StatusAccepted,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Account: "id", Unaudited: notRecorded, Problems: missing,
		Summary: "Act as a fan on the sandbox", Description: "A fan writes, tips or subscribes, and the platform tells everything that comes of it, as it does when it is real: of a tip also its transaction and its notification. " +
			"`fire_event` sends the one event alone. For sandbox organisations only.",
		Example: map[string]any{"as": "fan", "do": "tip", "amountCents": 2500, "text": "For you"},
	}, a.act)
	endpoint.Typed(t, endpoint.Operation{
		ID: "startSandboxGenerator", Method: http.MethodPost, Path: "/v1/sandbox/accounts/{id}/generator", Tag: tag, Status: http.StatusAccepted, Repeatable: true,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Account: "id", Unaudited: notRecorded, Problems: missing,
		Summary: "Make events at a rate", Description: "Things happen to the account for a while: mostly messages, some tips, likes and new fans. A second order replaces the first. For sandbox organisations only.",
		Example: map[string]any{"perSecond": 5, "seconds": 60},
	}, a.startGenerator)
	endpoint.Typed(t, endpoint.Operation{
		ID: "stopSandboxGenerator", Method: http.MethodDelete, Path: "/v1/sandbox/accounts/{id}/generator", Tag: tag, Status: http.StatusOK, Repeatable: true,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Account: "id", Unaudited: notRecorded, Problems: missing,
		Summary: "Stop making events", Description: "What was made stays. For sandbox organisations only.",
	}, a.stopGenerator)
}

func (a *sandboxes) act(ctx context.Context, in *actInput) (*acceptedOutput, error) {
	found, err := a.sandboxAccount(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	err = a.Sandbox.Happen(ctx, found.UpstreamID, sandboxapi.Happening{What: acts[in.Body.Do], User: in.Body.Fan, Text: in.Body.Text, Cents: in.Body.Cents})
	if err != nil {
		return nil, sandboxProblem(err, "/do", "cannot be done by this fan")
	}
	out := &acceptedOutput{}
	out.Body.Accepted = true
	return out, nil
}

func (a *sandboxes) startGenerator(ctx context.Context, in *generatorInput) (*generatorOutput, error) {
	found, err := a.sandboxAccount(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	lasting := time.Duration(in.Body.Seconds) * time.Second
	if err := a.Sandbox.Generate(ctx, found.UpstreamID, in.Body.PerSecond, lasting); err != nil {
		return nil, sandboxProblem(err, "/perSecond", "must be a rate that the sandbox can keep")
	}
	out := &generatorOutput{}
	out.Body.Running, out.Body.PerSecond, out.Body.Until = true, in.Body.PerSecond, stamp.Time(a.Now().Add(lasting).UTC())
	return out, nil
}

func (a *sandboxes) stopGenerator(ctx context.Context, in *accountInput) (*stoppedOutput, error) {
	found, err := a.sandboxAccount(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	ran, err := a.Sandbox.StopGenerating(ctx, found.UpstreamID)
	if err != nil {
		return nil, sandboxProblem(err, "", "")
	}
	out := &stoppedOutput{}
	out.Body.Stopped = ran
	return out, nil
}
