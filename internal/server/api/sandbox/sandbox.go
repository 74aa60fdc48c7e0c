// Package sandbox has the operations of the public API that control the sandbox platform: what its creators and fans
// do (sandbox.go, act.go), the faults it injects (fault.go), and the logins it knows (personas.go). They exist only
// for organisations of the sandbox environment.
package sandbox

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/sandboxapi"
	connectapi "github.com/stagedoor/stagedoor/internal/server/api/connect"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// These operations use the control API of our own sandbox server (package sandboxapi). They are the only ones that
// reach it without egress: the control API is not part of the platform, and its traffic does not belong to an account.

// Deps are the dependencies of the operations.
type Deps struct {
	// Sandbox controls the sandbox platform; nil if there is none.
	Sandbox  *sandboxapi.Client
	Accounts *account.Accounts
	Connects *connect.Connects
	// Catalog is that of the sandbox; nil if there is none.
	Catalog   *catalog.Catalog
	PublicURL string
	Now       func() time.Time
}

type operations struct{ Deps }

type accountInput struct {
	ID string `path:"id" maxLength:"64" doc:"The account's id."`
}

type accountOutput struct {
	Body struct {
		_       struct{}         `schema:"SandboxAccountResponse" doc:"The account after the change."`
		Account contract.Account `json:"account" doc:"The account."`
	}
}

type attemptOutput struct {
	ETag string `header:"ETag"`
	Body *contract.Attempt
}

type fireInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The account's id."`
	Body struct {
		Event string   `json:"event" minLength:"1" maxLength:"64" doc:"The kind of event, for example message, tips or subscribed."`
		Data  fireData `json:"data,omitempty" doc:"The contents of the event. All fields are optional."`
	}
}

type fireData struct {
	_      struct{} `schema:"SandboxEventData" doc:"The fields to set in an event that is fired on the sandbox."`
	User   string   `json:"userId,omitempty" maxLength:"19" pattern:"^[0-9]*$" doc:"The fan's id on the platform. Default: one of the creator's fans."`
	Ref    string   `json:"refId,omitempty" maxLength:"19" pattern:"^[0-9]*$" doc:"The id of the message, post, stream or link that the event is about."`
	Text   string   `json:"text,omitempty" maxLength:"4000" doc:"The text of the message or comment."`
	Reason string   `json:"reason,omitempty" maxLength:"200" doc:"Why something failed."`
	Cents  int64    `json:"amountCents,omitempty" minimum:"0" maximum:"10000000" doc:"The amount of the tip or purchase, in cents."`
	Count  int      `json:"count,omitempty" minimum:"0" maximum:"10000" doc:"How many there are."`
}

type acceptedOutput struct {
	Body struct {
		_        struct{} `schema:"SandboxAccepted" doc:"The confirmation that the sandbox accepted the request."`
		Accepted bool     `json:"accepted" doc:"True: the events follow."`
	}
}

type advanceInput struct {
	endpoint.Prefer
	ID   string `path:"attemptId" maxLength:"64" doc:"The attempt's id."`
	Body struct {
		To string `json:"to" enum:"scan,approve,deny,pass_selfie,fail_selfie" doc:"What the creator does: scan, approve and deny use their phone, the others their camera."`
	}
}

type sandboxSessionInput struct {
	Body struct {
		Login string `json:"login" minLength:"1" maxLength:"254" doc:"Any address at sandbox.test."`
	}
}

type sandboxSessionOutput struct{ Body sandboxSessionBody }

type sandboxSessionBody struct {
	_         struct{}          `schema:"SandboxSession" doc:"A browser session on the sandbox, to connect with cookies."`
	Cookie    string            `json:"cookie" sensitive:"true" doc:"For POST /v1/connect/cookie, with userAgent and headers."`
	UserAgent string            `json:"userAgent" doc:"The User-Agent of the browser."`
	Headers   map[string]string `json:"headers" doc:"The headers that belong to the session."`
	Curl      string            `json:"curl" sensitive:"true" doc:"For POST /v1/connect/curl: the same session as a command, as Chrome copies it."`
}

const (
	tag = "Sandbox"
	// notRecorded is the reason why these operations write no audit entry.
	notRecorded = "it acts as the platform; its effects are recorded"
	// advanceWait is how long the response is held for the attempt to notice.
	advanceWait = 5 * time.Second
)

// Routes adds the operations.
func Routes(t *endpoint.Table, d Deps) {
	a := &operations{d}
	live := []problem.Kind{problem.RouteNotFound}
	endpoint.Typed(t, endpoint.Operation{
		ID: "resetSandboxLogin", Method: http.MethodPost, Path: "/v1/sandbox/accounts/{id}/reset_login", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Account: "id", Unaudited: notRecorded, Repeatable: true, Problems: append([]problem.Kind{problem.AccountNotFound}, live...),
		Summary: "End an account's session on the sandbox", Description: "The platform ends the session. The next call or check notices it, and the account signs in again or needs to be reconnected by a person. " +
			"For sandbox organisations only.",
	}, a.resetLogin)
	endpoint.Typed(t, endpoint.Operation{
		ID: "fireSandboxEvent", Method: http.MethodPost, Path: "/v1/sandbox/accounts/{id}/fire_event", Tag: tag, Status: http.StatusAccepted,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Account: "id", Unaudited: notRecorded, Problems: append([]problem.Kind{problem.AccountNotFound, problem.UnknownEvent}, live...),
		Summary: "Trigger a sandbox event", Description: "A fan writes, tips or subscribes. It really happens on the platform, which emits this one event on the account's socket. " +
			"Later calls also show it with its effects, such as the transaction of a tip. For sandbox organisations only.",
		Example: map[string]any{"event": "message", "data": map[string]any{"text": "Hello"}},
	}, a.fireEvent)
	endpoint.Typed(t, endpoint.Operation{
		ID: "advanceSandboxAttempt", Method: http.MethodPost, Path: "/v1/sandbox/attempts/{attemptId}/advance", Tag: tag, Status: http.StatusOK, Timeout: endpoint.WaitTimeout,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Unaudited: notRecorded, Problems: append([]problem.Kind{problem.AttemptNotFound, problem.AttemptStateConflict}, live...),
		Summary: "Act as the creator in a sandbox attempt", Description: "Does what a creator would do with their phone or camera. The response is held for up to 5 s until the attempt changes " +
			"(`Prefer: wait=N` changes the time). For sandbox organisations only.",
		Example: map[string]any{"to": "approve"},
	}, a.advanceAttempt)
	endpoint.Typed(t, endpoint.Operation{
		ID: "openSandboxSession", Method: http.MethodPost, Path: "/v1/sandbox/session", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Unaudited: notRecorded, Repeatable: true, Problems: live,
		Summary: "Create a sandbox browser session", Description: "A new session of a login, as a signed-in browser would have it, to try the connect methods cookie and cURL. " +
			"For sandbox organisations only.",
		Example: map[string]any{"login": "ok@sandbox.test"},
	}, a.openSession)
	a.personaRoutes(t)
	a.faultRoutes(t, live)
	a.actRoutes(t, live)
}

// sandboxOnly hides these operations from organisations of other environments.
func (a *operations) sandboxOnly(ctx context.Context) error {
	if endpoint.Caller(ctx).Org.Environment != environment.Sandbox {
		return problem.RouteNotFound.New("Nothing is served at this path. The operations are listed in " + a.PublicURL + "/v1/openapi.json.")
	}
	if a.Sandbox == nil {
		return problem.ServiceUnavailable.New("This server has no sandbox.").After(60)
	}
	return nil
}

// sandboxAccount finds one of the caller's accounts.
func (a *operations) sandboxAccount(ctx context.Context, text string) (account.Account, error) {
	if err := a.sandboxOnly(ctx); err != nil {
		return account.Account{}, err
	}
	at, err := endpoint.ParseAccount(text)
	if err != nil {
		return account.Account{}, err
	}
	return a.Accounts.Get(ctx, endpoint.Caller(ctx).Org.ID, at)
}

func (a *operations) resetLogin(ctx context.Context, in *accountInput) (*accountOutput, error) {
	found, err := a.sandboxAccount(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if err := a.Sandbox.EndSessions(ctx, found.UpstreamID); err != nil {
		return nil, sandboxProblem(err, "", "")
	}
	now, err := a.Accounts.Get(ctx, found.Org, found.ID)
	if err != nil {
		return nil, err
	}
	out := &accountOutput{}
	out.Body.Account = now.View()
	return out, nil
}

func (a *operations) fireEvent(ctx context.Context, in *fireInput) (*acceptedOutput, error) {
	found, err := a.sandboxAccount(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	frame := a.Catalog.FrameFor(in.Body.Event)
	if frame == "" {
		return nil, a.unknownEvent(in.Body.Event)
	}
	d := in.Body.Data
	err = a.Sandbox.Happen(ctx, found.UpstreamID, sandboxapi.Happening{Alone: true,
		What: frame, User: d.User, Ref: d.Ref, Text: d.Text, Reason: d.Reason, Cents: d.Cents, Count: d.Count,
	})
	if refused, ok := errors.AsType[*sandboxapi.Refused](err); ok && refused.Field == "what" {
		return nil, a.unknownEvent(in.Body.Event)
	}
	if err != nil {
		return nil, sandboxProblem(err, "/data", "must refer to something that exists on the platform")
	}
	out := &acceptedOutput{}
	out.Body.Accepted = true
	return out, nil
}

// unknownEvent suggests kinds that the caller may have meant. It does not repeat the kind, which is unchecked input.
func (a *operations) unknownEvent(kind string) error {
	var kinds []string
	for _, one := range a.Catalog.Events() {
		if a.Catalog.FrameFor(one.Kind) != "" {
			kinds = append(kinds, one.Kind)
		}
	}
	detail := "must be the kind of an event that the platform emits; GET /v1/events/kinds lists them"
	if near := catalog.Closest(kind, kinds); len(near) > 0 {
		detail = "must be the kind of an event that the platform emits, such as " + strings.Join(near, ", ")
	}
	return problem.UnknownEvent.New("The sandbox cannot emit an event of this kind.").At("/event", "unknown", detail)
}

func (a *operations) advanceAttempt(ctx context.Context, in *advanceInput) (*attemptOutput, error) {
	if err := a.sandboxOnly(ctx); err != nil {
		return nil, err
	}
	at, err := connectapi.FindAttempt(ctx, a.Connects, in.ID)
	if err != nil {
		return nil, err
	}
	wait, err := endpoint.Wait(ctx, advanceWait)
	if err != nil {
		return nil, err
	}
	owner := endpoint.Caller(ctx).Org.ID
	before, err := a.Connects.Get(ctx, owner, at)
	if err != nil {
		return nil, err
	}
	kind, handle, err := a.Connects.SandboxHandle(ctx, owner, at)
	if err != nil {
		return nil, err
	}
	selfie := strings.HasSuffix(in.Body.To, "_selfie")
	if selfie != (kind == "selfie") {
		return nil, problem.AttemptStateConflict.New("The attempt waits for another action of the creator.").
			With("attemptId", before.AttemptID).With("state", before.State).With("nextActions", before.NextActions)
	}
	if selfie {
		err = a.Sandbox.TakeSelfie(ctx, handle, in.Body.To == "pass_selfie")
	} else {
		err = a.Sandbox.AnswerQR(ctx, handle, in.Body.To)
	}
	if err != nil {
		return nil, sandboxProblem(err, "/to", "is no longer possible")
	}
	after, err := a.Connects.Changed(ctx, owner, at, before.Version, wait)
	if err != nil {
		return nil, err
	}
	return &attemptOutput{ETag: `"` + strconv.FormatInt(after.Version, 10) + `"`, Body: &after.Attempt}, nil
}

func (a *operations) openSession(ctx context.Context, in *sandboxSessionInput) (*sandboxSessionOutput, error) {
	if err := a.sandboxOnly(ctx); err != nil {
		return nil, err
	}
	s, err := a.Sandbox.OpenSession(ctx, in.Body.Login)
	if err != nil {
		return nil, sandboxProblem(err, "/login", "must be an address at sandbox.test")
	}
	return &sandboxSessionOutput{sandboxSessionBody{
		Cookie: s.Cookie.Reveal(), UserAgent: s.UserAgent, Headers: s.Headers, Curl: copyAsCurl(a.Sandbox.Origin()+"/api/v2/me", s),
	}}, nil
}

// copyAsCurl returns the command that Chrome copies for a request with this session.
func copyAsCurl(address string, s sandboxapi.Session) string {
	headers := map[string]string{"accept": "application/json, text/plain, */*", "accept-language": "en-US,en;q=0.9", "user-agent": s.UserAgent}
	maps.Copy(headers, s.Headers)
	var command strings.Builder
	command.WriteString("curl " + quoted(address))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		command.WriteString(" \\\n  -H " + quoted(name+": "+headers[name]))
		if name == "accept-language" {
			command.WriteString(" \\\n  -b " + quoted(s.Cookie.Reveal()))
		}
	}
	return command.String()
}

// quoted quotes a word for a POSIX shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// sandboxProblem turns an error of the sandbox into a problem: the sandbox is unavailable, or the caller's value is
// invalid. The sandbox's own message may quote the value, so it is not passed on.
func sandboxProblem(err error, pointer, rule string) error {
	if _, ok := errors.AsType[*sandboxapi.Refused](err); ok && pointer != "" {
		return problem.ValidationFailed.New("The sandbox rejected the request.").At(pointer, "refused", rule).Because(err)
	}
	return problem.ServiceUnavailable.New("The sandbox is not responding.").After(2).Because(err)
}
