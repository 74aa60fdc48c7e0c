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
	Personas []personaBody `json:"personas"`
	Codes    []codeBody    `json:"codes" doc:"Codes with an effect for every login."`
	Password string        `json:"password" doc:"A password that works. Any password works except bad and an empty one."`
	Domain   string        `json:"domain" doc:"A login is any address in this domain. The part before + or @ is the persona: ok+7@ is another creator that behaves like ok@."`
}

type personaBody struct {
	Persona string `json:"persona"`
	Login   string `json:"login" doc:"A login of the persona. Adding + and any text after the persona makes another creator."`
	Group   string `json:"group" enum:"works,asks,refuses,breaks,later" doc:"works: signs in. asks: requires a code or a selfie first. refuses: is refused. breaks: fails while signing in. later: fails after signing in."`
	Effect  string `json:"effect" doc:"What the persona does."`
}

type codeBody struct {
	Code   string `json:"code"`
	Effect string `json:"effect"`
}

const sandboxDomain = "sandbox.test"

// personas are those of docs/sandbox.md, in the order in which they are listed. A test compares both.
var personas = []personaBody{
	{"ok", "", "works", "Signs in immediately."},
	{"sms", "", "asks", "Asks for a code by text message."},
	{"app", "", "asks", "Asks for a code from the authenticator app."},
	{"email", "", "asks", "Asks for a code by email."},
	{"face", "", "asks", "Asks for a selfie."},
	{"sms-email", "", "asks", "Asks for a code by text, then for one by email. Any chain of sms, app, email and face works."},
	{"locked", "", "refuses", "The platform has locked the account."},
	{"banned", "", "refuses", "The platform has closed the account."},
	{"terms", "", "refuses", "New terms must be accepted on the platform first."},
	{"captcha", "", "refuses", "The platform requires a captcha, which only the creator's phone can pass."},
	{"fan", "", "refuses", "Signs in, but is not a creator."},
	{"slow", "", "breaks", "Signing in takes 20 seconds."},
	{"flaky", "", "breaks", "Fails twice with 503, then works."},
	{"timeout", "", "breaks", "Signing in never gets a response."},
	{"down", "", "breaks", "The platform answers 503."},
	{"changed", "", "breaks", "Signing in returns an unknown response."},
	{"expires60", "", "later", "The session ends after 60 seconds."},
	{"logout", "", "later", "The session ends after the first write."},
	{"mismatch", "", "later", "The second sign-in is a different creator."},
	{"restricted", "", "later", "Every call is refused from 5 seconds after the first sign-in."},
}

var codes = []codeBody{
	{"123456", "Correct."},
	{"000000", "Wrong, like any other; the fifth wrong code ends the sign-in."},
	{"111111", "Expired."},
	{"999999", "Locks the verification."},
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
