package sandbox

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

type personasOutput struct{ Body personasBody }

type personasBody struct {
	_        struct{}      `schema:"PersonaList" doc:"The sandbox logins and the codes that work."`
	Personas []personaBody `json:"personas" doc:"The personas."`
	Codes    []codeBody    `json:"codes" doc:"Codes with an effect for every login."`
	Password string        `json:"password" doc:"A password that works. Any password works except bad and an empty one."`
	Domain   string        `json:"domain" doc:"A login is any address in this domain. The part before + or @ is the persona: ok+7@ is another creator that behaves like ok@."`
}

type personaBody struct {
	_       struct{} `schema:"Persona" doc:"A sandbox login with a fixed behaviour."`
	Persona string   `json:"persona" doc:"The name of the persona, which starts the email address."`
	Login   string   `json:"login" doc:"A login of the persona. Adding + and any text after the persona makes another creator."`
	Group   string   `json:"group" enum:"works,asks,refuses,breaks,later" doc:"works: signs in. asks: requires a code or a selfie first. refuses: is refused. breaks: fails while signing in. later: fails after signing in."`
	Effect  string   `json:"effect" doc:"What the persona does."`
}

type codeBody struct {
	_      struct{} `schema:"SandboxCode" doc:"A code and its effect on the sandbox."`
	Code   string   `json:"code" doc:"The code to enter."`
	Effect string   `json:"effect" doc:"What happens then."`
}

const sandboxDomain = "sandbox.test"

// personas are those of docs/sandbox.md, in the order in which they are listed. A test compares both.
var personas = []personaBody{
	{Persona: "ok", Group: "works", Effect: "Signs in immediately."},
	{Persona: "oauth", Group: "works", Effect: "Signs in immediately, on the platform's authorize page too."},
	{Persona: "sms", Group: "asks", Effect: "Asks for a code by text message."},
	{Persona: "app", Group: "asks", Effect: "Asks for a code from the authenticator app."},
	{Persona: "email", Group: "asks", Effect: "Asks for a code by email."},
	{Persona: "face", Group: "asks", Effect: "Asks for a selfie."},
	{
		Persona: "sms-email", Group: "asks",
		Effect: "Asks for a code by text, then for one by email. Any chain of sms, app, email and face works.",
	},
	{Persona: "locked", Group: "refuses", Effect: "The platform has locked the account."},
	{Persona: "banned", Group: "refuses", Effect: "The platform has closed the account."},
	{Persona: "terms", Group: "refuses", Effect: "New terms must be accepted on the platform first."},
	{
		Persona: "captcha", Group: "refuses",
		Effect: "The platform requires a captcha, which only the creator's phone can pass.",
	},
	{Persona: "fan", Group: "refuses", Effect: "Signs in, but is not a creator."},
	{Persona: "slow", Group: "breaks", Effect: "Signing in takes 20 seconds."},
	{Persona: "flaky", Group: "breaks", Effect: "Fails twice with 503, then works."},
	{Persona: "timeout", Group: "breaks", Effect: "Signing in never gets a response."},
	{Persona: "down", Group: "breaks", Effect: "The platform answers 503."},
	{Persona: "changed", Group: "breaks", Effect: "Signing in returns an unknown response."},
	{Persona: "expires60", Group: "later", Effect: "The session ends after 60 seconds."},
	{Persona: "logout", Group: "later", Effect: "The session ends after the first write."},
	{Persona: "mismatch", Group: "later", Effect: "The second sign-in is a different creator."},
	{Persona: "restricted", Group: "later", Effect: "Every call is refused from 5 seconds after the first sign-in."},
}

var codes = []codeBody{
	{Code: "123456", Effect: "Correct."},
	{Code: "000000", Effect: "Wrong, like any other; the fifth wrong code ends the sign-in."},
	{Code: "111111", Effect: "Expired."},
	{Code: "999999", Effect: "Locks the verification."},
}

func (a *operations) personaRoutes(t *endpoint.Table) {
	endpoint.Typed(t, endpoint.Operation{
		ID: "listSandboxPersonas", Method: http.MethodGet, Path: "/v1/sandbox/personas", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsRead, Quota: admission.Plain, Problems: []problem.Kind{problem.RouteNotFound},
		Summary: "List sandbox personas", Description: "The logins of the sandbox with what each one does, and the codes that they accept. For sandbox organisations only.",
	}, a.listPersonas)
}

func (a *operations) listPersonas(ctx context.Context, _ *struct{}) (*personasOutput, error) {
	if err := a.sandboxOnly(ctx); err != nil {
		return nil, err
	}
	out := &personasOutput{personasBody{Codes: codes, Password: "good", Domain: sandboxDomain}}
	for _, p := range personas {
		p.Login = p.Persona + "@" + sandboxDomain
		out.Body.Personas = append(out.Body.Personas, p)
	}
	return out, nil
}
