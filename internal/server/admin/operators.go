package admin

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

// leastRole returns the scope of the least role that an operation needs: the one that its row declares, or else viewer to
// read and operator to change something.
func leastRole(o endpoint.Operation) scope.Scope {
	switch {
	case o.Scope != scope.Any:
		return o.Scope
	case o.Method == http.MethodGet:
		return scope.AdminViewer
	}
	return scope.AdminOperator
}

type operatorSessionsOutput struct {
	Body struct {
		Sessions []operatorSessionBody `json:"sessions" doc:"Newest first."`
	}
}

type operatorSessionBody struct {
	ID         string     `json:"id"`
	Operator   string     `json:"operator" doc:"The operator's email address, or the name that was entered with a token."`
	Person     bool       `json:"person" doc:"Whether the operator signed in at the identity provider."`
	Role       *string    `json:"role" doc:"The current role; null if the settings give the operator none any more, so that requests are refused."`
	CreatedAt  stamp.Time `json:"createdAt"`
	LastSeenAt stamp.Time `json:"lastSeenAt" doc:"Accurate to the minute."`
	ExpiresAt  stamp.Time `json:"expiresAt" doc:"When the session ends if it is not used again."`
	UserAgent  string     `json:"userAgent"`
}

type operatorSessionInput struct {
	ID string `path:"id" maxLength:"64"`
}

type endedOperatorOutput struct {
	Body struct {
		ID    string `json:"id"`
		Ended bool   `json:"ended"`
	}
}

func (a *Admin) operatorRoutes() {
	endpoint.Typed(a.table, endpoint.Operation{
		ID: "listOperatorSessions", Method: http.MethodGet, Path: "/admin/v1/sessions", Tag: "Operators", Status: http.StatusOK, Scope: scope.AdminOwner,
		Summary: "List the browsers of operators", Description: "Browsers in which an operator is signed in to the console.",
	}, a.listOperatorSessions)
	endpoint.Typed(a.table, endpoint.Operation{
		ID: "endOperatorSession", Method: http.MethodDelete, Path: "/admin/v1/sessions/{id}", Tag: "Operators", Status: http.StatusOK, Scope: scope.AdminOwner,
		Audit: "operator.session_end", Problems: []problem.Kind{problem.BrowserNotFound},
		Summary: "Sign out an operator's browser", Description: "The next request of the browser is refused, on every node. To remove an operator, change the settings.",
	}, a.endOperatorSession)
}

func (a *Admin) listOperatorSessions(ctx context.Context, _ *struct{}) (*operatorSessionsOutput, error) {
	list, err := a.deps.Operators.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	out := &operatorSessionsOutput{}
	out.Body.Sessions = make([]operatorSessionBody, len(list))
	for i, s := range list {
		out.Body.Sessions[i] = operatorSessionBody{
			ID: string(s.ID), Operator: s.Operator.Label, Person: s.Operator.IsPerson(), Role: endpoint.NilIfEmpty(string(s.Operator.Role)),
			CreatedAt: stamp.Time(s.CreatedAt), LastSeenAt: stamp.Time(s.LastSeenAt), ExpiresAt: stamp.Time(s.ExpiresAt), UserAgent: s.UserAgent,
		}
	}
	return out, nil
}

func (a *Admin) endOperatorSession(ctx context.Context, in *operatorSessionInput) (*endedOperatorOutput, error) {
	if err := a.deps.Operators.End(ctx, endpoint.By(ctx), in.ID); err != nil {
		return nil, err
	}
	out := &endedOperatorOutput{}
	out.Body.ID, out.Body.Ended = in.ID, true
	return out, nil
}
