package admin

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/operate/operator"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

type operatorOutput struct {
	Body struct {
		Name    string `json:"name" doc:"The operator's email address, the name that was entered with a token, or token for a program."`
		Role    string `json:"role" enum:"viewer,support,operator,owner"`
		Person  bool   `json:"person" doc:"Whether the operator signed in at the identity provider."`
		Node    string `json:"node" doc:"The node that answers."`
		Version string `json:"version"`
	}
}

type nodesOutput struct {
	Body struct {
		Nodes []nodeBody `json:"nodes"`
	}
}

type nodeBody struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Roles     []string   `json:"roles"`
	Version   string     `json:"version"`
	StartedAt stamp.Time `json:"startedAt"`
	SeenAt    stamp.Time `json:"seenAt"`
}

func (a *Admin) fleetRoutes() {
	endpoint.Typed(a.table, endpoint.Operation{
		ID: "getOperator", Method: http.MethodGet, Path: "/admin/v1/me", Tag: "Fleet", Status: http.StatusOK, Scope: scope.AdminViewer,
		Summary: "Get the current operator and node",
	}, a.getOperator)
	endpoint.Typed(a.table, endpoint.Operation{
		ID: "listNodes", Method: http.MethodGet, Path: "/admin/v1/nodes", Tag: "Fleet", Status: http.StatusOK, Scope: scope.AdminViewer,
		Summary: "List nodes", Description: "The processes that are alive.",
	}, a.listNodes)
}

func (a *Admin) getOperator(ctx context.Context, _ *struct{}) (*operatorOutput, error) {
	out := &operatorOutput{}
	who := endpoint.From(ctx).Identity
	out.Body.Name, out.Body.Role, out.Body.Person = who.Label, string(operator.RoleOf(who.Scopes)), who.ID != operator.TokenID
	out.Body.Node, out.Body.Version = a.deps.Config.Node, a.deps.Config.Version
	return out, nil
}

func (a *Admin) listNodes(ctx context.Context, _ *struct{}) (*nodesOutput, error) {
	nodes, err := a.deps.Fleet.Live(ctx)
	if err != nil {
		return nil, err
	}
	out := &nodesOutput{}
	out.Body.Nodes = make([]nodeBody, len(nodes))
	for i, n := range nodes {
		out.Body.Nodes[i] = nodeBody{n.ID, n.Name, n.Roles, n.Version, stamp.Time(n.StartedAt), stamp.Time(n.SeenAt)}
	}
	return out, nil
}
