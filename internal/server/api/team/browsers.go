package team

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

type browsersOutput struct {
	Body struct {
		_        struct{}      `schema:"BrowserSessionList" doc:"The browsers that are signed in."`
		Sessions []browserBody `json:"sessions" doc:"Newest first."`
	}
}

type browserBody struct {
	_          struct{}      `schema:"BrowserSession" doc:"A browser that is signed in to the dashboard."`
	ID         string        `json:"id" doc:"The id of the session."`
	Person     browserPerson `json:"person" doc:"Who is signed in."`
	CreatedAt  stamp.Time    `json:"createdAt" doc:"When the person signed in."`
	LastSeenAt stamp.Time    `json:"lastSeenAt" doc:"Accurate to the minute."`
	ExpiresAt  stamp.Time    `json:"expiresAt" doc:"When the session ends if it is not used again."`
	UserAgent  string        `json:"userAgent" doc:"The User-Agent of the browser."`
	Current    bool          `json:"current" doc:"True for the browser that makes this call."`
}

type browserPerson struct {
	_     struct{} `doc:"The person who is signed in."`
	ID    string   `json:"id" doc:"operator for an operator of the service to whom an owner has granted access."`
	Email string   `json:"email" doc:"The email address of the person."`
}

type browserInput struct {
	ID string `path:"id" maxLength:"64" doc:"The session's id, as GET /v1/me/sessions lists it."`
}

type endedOutput struct {
	Body struct {
		_     struct{} `schema:"BrowserSessionEnded" doc:"The result of signing a browser out."`
		ID    string   `json:"id" doc:"The id of the session."`
		Ended bool     `json:"ended" doc:"True: the browser is signed out."`
	}
}

func (a *operations) browserRoutes(t *endpoint.Table) {
	whose := "Members see their own sessions; a caller with `me:write` sees all sessions of the organisation."
	endpoint.Typed(t, endpoint.Operation{
		ID: "listBrowserSessions", Method: http.MethodGet, Path: "/v1/me/sessions", Tag: tag, Status: http.StatusOK,
		Scope: scope.MeRead, Quota: admission.Plain,
		Summary: "List signed-in browsers", Description: "Browsers that are signed in to the dashboard and have opened this organisation. " + whose,
	}, a.listBrowsers)
	endpoint.Typed(t, endpoint.Operation{
		ID: "endBrowserSession", Method: http.MethodDelete, Path: "/v1/me/sessions/{id}", Tag: tag, Status: http.StatusOK,
		Scope: scope.MeRead, Quota: admission.Safety, Audit: "session.end", Problems: []problem.Kind{problem.BrowserNotFound},
		Summary: "Sign out a browser", Description: "Calls of the browser that start after the response are refused on every server. " + whose,
	}, a.endBrowser)
}

func (a *operations) listBrowsers(ctx context.Context, _ *struct{}) (*browsersOutput, error) {
	caller := endpoint.Caller(ctx)
	list, err := a.members.Browsers(ctx, caller.Org.ID, caller.Key.Person, caller.Scopes.Has(scope.MeWrite))
	if err != nil {
		return nil, err
	}
	out := &browsersOutput{}
	out.Body.Sessions = make([]browserBody, len(list))
	for i, b := range list {
		out.Body.Sessions[i] = viewBrowser(b)
		out.Body.Sessions[i].Current = b.ID == caller.Key.Session
	}
	return out, nil
}

func viewBrowser(b member.Session) browserBody {
	v := browserBody{
		ID: string(b.ID), Person: browserPerson{ID: string(b.Person.ID), Email: b.Person.Email},
		CreatedAt: stamp.Time(b.CreatedAt), LastSeenAt: stamp.Time(b.LastSeenAt),
		ExpiresAt: stamp.Time(b.ExpiresAt), UserAgent: b.UserAgent,
	}
	if b.Person.ID == "" {
		v.Person = browserPerson{ID: "operator", Email: b.OperatorLabel()}
	}
	return v
}

func (a *operations) endBrowser(ctx context.Context, in *browserInput) (*endedOutput, error) {
	caller := endpoint.Caller(ctx)
	err := a.members.End(ctx, endpoint.By(ctx), caller.Org.ID, caller.Key.Person, caller.Scopes.Has(scope.MeWrite), in.ID)
	if err != nil {
		return nil, err
	}
	out := &endedOutput{}
	out.Body.ID, out.Body.Ended = in.ID, true
	return out, nil
}
