package sandboxes

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
	Codes    []codeBody    `json:"codes" doc:"Codes that mean something to every login."`
	Password string        `json:"password" doc:"Any is right but bad and none; this one will do."`
	Domain   string        `json:"domain" doc:"A login is any address there. What stands before + or @ is the persona: ok+7@ is another creator like ok@."`
}

type personaBody struct {
	Persona string `json:"persona"`
	Login   string `json:"login" doc:"A login of it. With + and anything behind the persona it is another creator."`
	Group   string `json:"group" enum:"works,asks,refuses,breaks,later" doc:"Whether it signs in, asks for something first, is refused, meets trouble, or signs in and meets it later."`
	Effect  string `json:"effect" doc:"What happens, for a person."`
}

type codeBody struct {
	Code   string `json:"code"`
	Effect string `json:"effect"`
}

const sandboxDomain = "sandbox.test"

// personas are those of docs/sandbox.md.
var personas = []personaBody{
	{"ok", "", "works", "Signs in at once."},
	{"sms", "", "asks", "Asks for a code by text message."},
	{"app", "", "asks", "Asks for a code of the authenticator app."},
	{"email", "", "asks", "Asks for a code by mail."},
	{"face", "", "asks", "Asks for a selfie."},
	{"sms-email", "", "asks", "Asks for a code by text, then for one by mail. Any chain of sms, app, email and face works."},
	{"locked", "", "refuses", "The platform has locked the account."},
	{"banned", "", "refuses", "The platform has closed the account."},
	{"terms", "", "refuses", "New terms must be accepted on the platform first."},
	{"captcha", "", "refuses", "The platform wants a captcha; only the creator's phone gets past it."},
	{"fan", "", "refuses", "Signs in, and is no creator."},
	{"slow", "", "breaks", "Signing in takes 20 seconds."},
	{"flaky", "", "breaks", "Fails twice with 503, then works."},
	{"timeout", "", "breaks", "Signing in is never answered."},
	{"down", "", "breaks", "The platform answers 503."},
	{"changed", "", "breaks", "Signing in answers with something unknown."},
	{"expires60", "", "later", "The session ends after 60 seconds."},
	{"logout", "", "later", "The session ends after the first write."},
	{"mismatch", "", "later", "The second sign-in is somebody else."},
	{"restricted", "", "later", "Every call is refused from 5 seconds after the first sign-in."},
}

var codes = []codeBody{
	{"123456", "Right."},
	{"000000", "Wrong, as any other; the fifth wrong one ends the sign-in."},
	{"111111", "Expired."},
	{"999999", "The one that locks verification."},
}

func (a *sandboxes) personaRoutes(t *endpoint.Table) {
	endpoint.Typed(t, endpoint.Operation{
		ID: "listSandboxPersonas", Method: http.MethodGet, Path: "/v1/sandbox/personas", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsRead, Quota: admission.Plain, Problems: []problem.Kind{problem.RouteNotFound},
		Summary: "Whom one can sign in as on the sandbox", Description: "Logins by what happens to whoever signs in with them, and the codes they take. For sandbox organisations only.",
	}, a.listPersonas)
}

func (a *sandboxes) listPersonas(ctx context.Context, _ *struct{}) (*personasOutput, error) {
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
