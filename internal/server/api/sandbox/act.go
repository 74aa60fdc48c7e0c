package sandbox

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
		As    string `json:"as,omitempty" enum:"fan" default:"fan" doc:"Who acts."`
		Do    string `json:"do" enum:"message,tip,subscribe,unsubscribe,like,comment,typing" doc:"The action."`
		Fan   string `json:"fanId,omitempty" maxLength:"19" pattern:"^[0-9]*$" doc:"The fan's id on the platform. Default: one of the creator's fans, another one in each call."`
		Text  string `json:"text,omitempty" maxLength:"4000" doc:"The text of a message, a tip or a comment."`
		Cents int64  `json:"amountCents,omitempty" minimum:"0" maximum:"10000000" doc:"The amount of a tip, in cents."`
	}
}

type generatorInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The account's id."`
	Body struct {
		PerSecond float64 `json:"perSecond" minimum:"0.1" maximum:"1000" doc:"Events per second."`
		Seconds   int     `json:"seconds" minimum:"1" maximum:"600" doc:"The duration in seconds."`
	}
}

type generatorOutput struct {
	Body struct {
		_         struct{}   `schema:"SandboxGenerator" doc:"A generator of sandbox events."`
		Running   bool       `json:"running" doc:"Whether events are being generated."`
		PerSecond float64    `json:"perSecond" doc:"Events a second."`
		Until     stamp.Time `json:"until" doc:"When it stops."`
	}
}

type stoppedOutput struct {
	Body struct {
		_       struct{} `schema:"SandboxGeneratorStopped" doc:"The result of stopping a generator."`
		Stopped bool     `json:"stopped" doc:"Whether a generator was running."`
	}
}

// acts maps actions to the frames of the platform, which also sends the frames that follow from them.
var acts = map[string]string{
	"message": "chat.message", "tip": "fan.tip", "subscribe": "fan.joined", "unsubscribe": "fan.left", "like": "post.liked", "comment": "post.commented", "typing": "chat.typing",
}

func (a *operations) actRoutes(t *endpoint.Table, live []problem.Kind) {
	missing := append([]problem.Kind{problem.AccountNotFound}, live...)
	endpoint.Typed(t, endpoint.Operation{
		ID: "actOnSandbox", Method: http.MethodPost, Path: "/v1/sandbox/accounts/{id}/act", Tag: tag, Status: http.StatusAccepted,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Account: "id", Unaudited: notRecorded, Problems: missing,
		Summary: "Act as a fan on the sandbox", Description: "A fan writes, tips or subscribes, and the platform emits all resulting events, as the real one does: a tip also causes a transaction and a notification. " +
			"`fire_event` emits only one event. For sandbox organisations only.",
		Example: map[string]any{"as": "fan", "do": "tip", "amountCents": 2500, "text": "For you"},
	}, a.act)
	endpoint.Typed(t, endpoint.Operation{
		ID: "startSandboxGenerator", Method: http.MethodPost, Path: "/v1/sandbox/accounts/{id}/generator", Tag: tag, Status: http.StatusAccepted, Repeatable: true,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Account: "id", Unaudited: notRecorded, Problems: missing,
		Summary: "Start the sandbox event generator", Description: "Generates events for the account at a rate for a while: mostly messages, some tips, likes and new fans. Another call replaces the running generator. For sandbox organisations only.",
		Example: map[string]any{"perSecond": 5, "seconds": 60},
	}, a.startGenerator)
	endpoint.Typed(t, endpoint.Operation{
		ID: "stopSandboxGenerator", Method: http.MethodDelete, Path: "/v1/sandbox/accounts/{id}/generator", Tag: tag, Status: http.StatusOK, Repeatable: true,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Account: "id", Unaudited: notRecorded, Problems: missing,
		Summary: "Stop the sandbox event generator", Description: "Events that were generated stay. For sandbox organisations only.",
	}, a.stopGenerator)
}

func (a *operations) act(ctx context.Context, in *actInput) (*acceptedOutput, error) {
	found, err := a.sandboxAccount(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	err = a.Sandbox.Happen(ctx, found.UpstreamID, sandboxapi.Happening{What: acts[in.Body.Do], User: in.Body.Fan, Text: in.Body.Text, Cents: in.Body.Cents})
	if err != nil {
		return nil, sandboxProblem(err, "/do", "is not possible for this fan")
	}
	out := &acceptedOutput{}
	out.Body.Accepted = true
	return out, nil
}

func (a *operations) startGenerator(ctx context.Context, in *generatorInput) (*generatorOutput, error) {
	found, err := a.sandboxAccount(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	lasting := time.Duration(in.Body.Seconds) * time.Second
	if err := a.Sandbox.Generate(ctx, found.UpstreamID, in.Body.PerSecond, lasting); err != nil {
		return nil, sandboxProblem(err, "/perSecond", "must be a rate that the sandbox can sustain")
	}
	out := &generatorOutput{}
	out.Body.Running, out.Body.PerSecond, out.Body.Until = true, in.Body.PerSecond, stamp.Time(a.Now().Add(lasting).UTC())
	return out, nil
}

func (a *operations) stopGenerator(ctx context.Context, in *accountInput) (*stoppedOutput, error) {
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
