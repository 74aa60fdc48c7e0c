package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

type auditInput struct {
	Org    string    `query:"org" maxLength:"64" doc:"Only this organisation's log."`
	Own    bool      `query:"own" doc:"Only changes to the service itself by operators."`
	Action string    `query:"action" maxLength:"64"`
	Kind   string    `query:"actorKind" enum:"key,member,operator,system,creator"`
	Actor  string    `query:"actorId" maxLength:"255"`
	Target string    `query:"target" maxLength:"128"`
	Since  time.Time `query:"since"`
	Until  time.Time `query:"until"`
	Limit  int       `query:"limit" minimum:"1" maximum:"100" default:"50"`
	Cursor string    `query:"cursor" maxLength:"64" doc:"nextCursor of the previous page."`
}

type auditOutput struct {
	Body struct {
		Entries    []auditBody `json:"entries" doc:"Newest first."`
		NextCursor *string     `json:"nextCursor"`
	}
}

type auditBody struct {
	ID        string          `json:"id"`
	Org       *orgRef         `json:"org" doc:"The organisation whose log has the entry; null for changes to the service itself."`
	At        stamp.Time      `json:"at"`
	Actor     actorBody       `json:"actor"`
	Action    string          `json:"action"`
	Target    string          `json:"target"`
	RequestID string          `json:"requestId"`
	IPHash    string          `json:"ipHash" doc:"A hash of the source address: equal for equal sources, and not reversible."`
	Changes   json.RawMessage `json:"changes" doc:"The fields that changed, each with from and to. Only the host of customers' addresses is shown."`
}

type actorBody struct {
	Kind  string `json:"kind" enum:"key,member,operator,system,creator"`
	ID    string `json:"id"`
	Label string `json:"label"`
}

func (a *Admin) auditRoutes() {
	endpoint.Typed(a.table, endpoint.Operation{
		ID: "listAllAudit", Method: http.MethodGet, Path: "/admin/v1/audit", Tag: "Audit", Status: http.StatusOK, Scope: scope.AdminViewer,
		Summary:     "List audit entries of all organisations",
		Description: "Who changed what, in all organisations and in the service itself. Each organisation can read its own entries.",
	}, a.listAudit)
}

func (a *Admin) listAudit(ctx context.Context, in *auditInput) (*auditOutput, error) {
	c := audit.Choice{Action: in.Action, Kind: audit.ActorKind(in.Kind), Actor: in.Actor, Target: in.Target, Since: in.Since, Until: in.Until}
	bad := problem.InvalidRequest.New("A query parameter is invalid.")
	endpoint.CheckTimes(bad, map[string]time.Time{"query/since": in.Since, "query/until": in.Until})
	if len(bad.Fields) > 0 {
		return nil, bad
	}
	var err error
	if c.Org, err = optional[id.Org](in.Org, "query/org"); err != nil {
		return nil, err
	}
	if c.Before, err = optional[id.Audit](in.Cursor, "query/cursor"); err != nil {
		return nil, err
	}
	if in.Own {
		c.Org = audit.Operators
	}
	entries, err := a.deps.Audit.All(ctx, c, in.Limit+1)
	if err != nil {
		return nil, err
	}
	out := &auditOutput{}
	if len(entries) > in.Limit {
		entries = entries[:in.Limit]
		out.Body.NextCursor = endpoint.NilIfEmpty(string(entries[in.Limit-1].ID))
	}
	names, err := a.names(ctx, len(entries), func(i int) id.Org { return entries[i].Org })
	if err != nil {
		return nil, err
	}
	out.Body.Entries = make([]auditBody, len(entries))
	for i, e := range entries {
		b := auditBody{
			ID: string(e.ID), At: stamp.Time(e.At), Actor: actorBody{string(e.By.Kind), e.By.ID, e.By.Label}, Action: e.By.Action, Target: e.Target,
			RequestID: string(e.By.Request), IPHash: e.By.IPHash, Changes: masked(e.Changes),
		}
		if e.Org != audit.Operators {
			b.Org = &orgRef{string(e.Org), names[e.Org]}
		}
		out.Body.Entries[i] = b
	}
	return out, nil
}

// masked returns changes as operators may see them: the part of a customer's address after its host may contain a
// secret.
func masked(changes json.RawMessage) json.RawMessage {
	var fields map[string]map[string]any
	if json.Unmarshal(changes, &fields) != nil {
		return changes
	}
	hidden := false
	for _, field := range fields {
		for side, value := range field {
			text, ok := value.(string)
			if !ok || !strings.Contains(text, "://") {
				continue
			}
			field[side], hidden = origin(text), true
		}
	}
	if !hidden {
		return changes
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return json.RawMessage("{}")
	}
	return text
}

// origin cuts an address after its host.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "…"
	}
	return u.Scheme + "://" + u.Host + "/…"
}
