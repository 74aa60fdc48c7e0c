package api

import (
	"context"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/apikey"
	"github.com/stagedoor/stagedoor/internal/limit"
	"github.com/stagedoor/stagedoor/internal/problem"
	"github.com/stagedoor/stagedoor/internal/route"
	"github.com/stagedoor/stagedoor/internal/scope"
)

type keysOutput struct{ Body keysBody }

type keysBody struct {
	Keys []keyEntry `json:"keys"`
}

type keyEntry struct {
	ID        string     `json:"id"`
	Label     string     `json:"label"`
	Hint      string     `json:"hint" doc:"How the key begins, to tell one from another."`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	RevokedAt *time.Time `json:"revokedAt,omitempty"`
	Scopes    []string   `json:"scopes"`
	Current   bool       `json:"current" doc:"True for the key that makes this call."`
}

type mintInput struct {
	Body struct {
		Label     string     `json:"label" minLength:"1" maxLength:"120" doc:"What the key is for."`
		Scopes    []string   `json:"scopes,omitempty" maxItems:"64" doc:"Left out, the key gets the default set."`
		ExpiresAt *time.Time `json:"expiresAt,omitempty" doc:"Left out, the key does not expire."`
	}
}

type mintOutput struct{ Body mintBody }

type mintBody struct {
	Key       string     `json:"key" doc:"The key itself. It is shown only here; store it now." sensitive:"true"`
	ID        string     `json:"id"`
	Label     string     `json:"label"`
	Scopes    []string   `json:"scopes"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

type keyInput struct {
	ID string `path:"id" maxLength:"64" doc:"The key's id, as GET /v1/me/keys lists it."`
}

type revokeOutput struct {
	Body struct {
		ID      string `json:"id"`
		Revoked bool   `json:"revoked"`
	}
}

func (a *API) keyRoutes() {
	route.Typed(a.table, route.Operation{
		ID: "listKeys", Method: http.MethodGet, Path: "/v1/me/keys", Tag: "Keys", Status: http.StatusOK,
		Scope: scope.MeRead, Quota: limit.Plain,
		Summary: "List keys", Description: "All keys of the organisation, revoked ones too, oldest first. Never the keys themselves.",
	}, a.listKeys)
	route.Typed(a.table, route.Operation{
		ID: "mintKey", Method: http.MethodPost, Path: "/v1/me/keys", Tag: "Keys", Status: http.StatusCreated,
		Scope: scope.MeWrite, Quota: limit.Plain, Audit: "key.mint",
		Problems: []problem.Kind{problem.ScopeEscalation, problem.PlanRequired},
		Summary:  "Mint a key", Description: "Issues a key in the caller's organisation. It can never hold more scopes than the caller.",
		Example: map[string]any{"label": "ci", "scopes": []string{"accounts:read", "sdk:call"}},
	}, a.mintKey)
	route.Typed(a.table, route.Operation{
		ID: "revokeKey", Method: http.MethodDelete, Path: "/v1/me/keys/{id}", Tag: "Keys", Status: http.StatusOK,
		Scope: scope.MeWrite, Quota: limit.Plain, Audit: "key.revoke",
		Problems: []problem.Kind{problem.KeyNotFound, problem.KeySelfRevoke},
		Summary:  "Revoke a key", Description: "When this has answered, no call that starts later succeeds with the key, on any server. " +
			"Revoking a key again changes nothing.",
	}, a.revokeKey)
}

func (a *API) listKeys(ctx context.Context, _ *struct{}) (*keysOutput, error) {
	caller := route.Caller(ctx)
	keys, err := a.Keys.List(ctx, caller.Org.ID)
	if err != nil {
		return nil, err
	}
	out := &keysOutput{keysBody{make([]keyEntry, len(keys))}}
	for i, k := range keys {
		out.Body.Keys[i] = keyEntry{
			string(k.ID), k.Label, k.Hint, k.CreatedAt, k.ExpiresAt, k.RevokedAt, k.Scopes.Names(), k.ID == caller.Key.ID,
		}
	}
	return out, nil
}

func (a *API) mintKey(ctx context.Context, in *mintInput) (*mintOutput, error) {
	key, plain, err := a.Keys.Mint(ctx, route.Caller(ctx), route.By(ctx), apikey.Draft{
		Label: in.Body.Label, Scopes: in.Body.Scopes, ExpiresAt: in.Body.ExpiresAt,
	})
	if err != nil {
		return nil, err
	}
	return &mintOutput{mintBody{
		plain.Reveal(), string(key.ID), key.Label, key.Scopes.Names(), key.CreatedAt, key.ExpiresAt,
	}}, nil
}

func (a *API) revokeKey(ctx context.Context, in *keyInput) (*revokeOutput, error) {
	if err := a.Keys.Revoke(ctx, route.Caller(ctx), route.By(ctx), in.ID); err != nil {
		return nil, err
	}
	out := &revokeOutput{}
	out.Body.ID, out.Body.Revoked = in.ID, true
	return out, nil
}
