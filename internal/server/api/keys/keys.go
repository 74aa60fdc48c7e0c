// Package keys has the operations of the public API on API keys.
package keys

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
)

type operations struct {
	keys     *apikey.Keys
	accounts *account.Accounts
	// platforms have the callable methods.
	platforms registry.Registry
}

// KeyLimits are the limits of a key beyond its scopes. They are enforced in three places: by the table for the address of
// the caller and where a path names an account, by package sdk where it names a method, and by all other operations that
// take or list accounts.
type KeyLimits struct {
	Methods   []string   `json:"methods,omitempty" doc:"Patterns of the SDK methods that the key may call. Absent if it may call all."`
	Inherited [][]string `json:"inheritedMethods,omitempty" doc:"The lists of the keys from which this key was created. They apply as well."`
	Accounts  []string   `json:"accountIds,omitempty" doc:"The accounts that the key may use. Absent if it may use all."`
	Networks  []string   `json:"allowedIps,omitempty" doc:"The networks from which the key may be used, in CIDR notation. Absent if it may be used from anywhere."`
}

// ViewLimits returns the limits of a key in the form of a response.
func ViewLimits(a *apikey.Allow) KeyLimits {
	var l KeyLimits
	l.Methods, l.Inherited = a.Lists()
	l.Accounts, l.Networks = id.Texts(a.Accounts), a.NetworkTexts()
	return l
}

type keysOutput struct{ Body keysBody }

type keysBody struct {
	_    struct{}   `schema:"KeyList" doc:"The organisation's keys."`
	Keys []keyEntry `json:"keys" doc:"The keys, the oldest first."`
}

type keyEntry struct {
	_          struct{}    `schema:"Key" doc:"An API key, without its secret."`
	ID         string      `json:"id" doc:"The id of the key."`
	Label      string      `json:"label" doc:"The name of the key."`
	Hint       string      `json:"hint" doc:"The first characters of the key, to recognise it."`
	CreatedAt  stamp.Time  `json:"createdAt" doc:"When the key was created."`
	ExpiresAt  *stamp.Time `json:"expiresAt,omitempty" doc:"When the key stops working; null if it does not expire."`
	RevokedAt  *stamp.Time `json:"revokedAt,omitempty" doc:"When the key was revoked; null if it was not."`
	LastUsedAt *stamp.Time `json:"lastUsedAt" doc:"Time of its last call, accurate to two minutes; null if it was never used."`
	Scopes     []string    `json:"scopes" doc:"What the key may do."`
	KeyLimits
	ReplacedBy string `json:"replacedBy,omitempty" doc:"The key that replaced it in a rotation. Absent if none did."`
	CreatedBy  string `json:"createdBy,omitempty" doc:"The person who created it, directly or with another key, as GET /v1/org/members lists them. Absent for a key of the operators."`
	Current    bool   `json:"current" doc:"True for the key that makes this call."`
}

type mintInput struct {
	Body struct {
		Label     string     `json:"label" minLength:"1" maxLength:"120" doc:"What the key is for."`
		Scopes    []string   `json:"scopes,omitempty" maxItems:"64" doc:"Default: the default set of scopes."`
		ExpiresAt *time.Time `json:"expiresAt,omitempty" doc:"Default: the key does not expire."`
		Methods   []string   `json:"methods,omitempty" maxItems:"64" doc:"Methods that the key may call: resource.method, resource.*, * or sensitive. A leading ! denies, and denials win. Default: everything that the calling key may call."`
		Accounts  []string   `json:"accountIds,omitempty" maxItems:"100" doc:"The accounts that the key may use. Default: all that the calling key may use."`
		Networks  []string   `json:"allowedIps,omitempty" maxItems:"50" doc:"The networks from which the key may be used, in CIDR notation. Default: those of the calling key."`
	}
}

type updateKeyInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The key's id, as GET /v1/me/keys lists it."`
	Body struct {
		Label     *string    `json:"label,omitempty" minLength:"1" maxLength:"120" doc:"What the key is for."`
		Scopes    []string   `json:"scopes,omitempty" maxItems:"64" doc:"Some of the scopes that the key has. Scopes can only be taken away."`
		ExpiresAt *time.Time `json:"expiresAt,omitempty" nullable:"true" doc:"When the key ends; null for never. Not later than the end of the calling key."`
		Methods   []string   `json:"methods,omitempty" nullable:"true" maxItems:"64" doc:"Methods that the key may call, within what the calling key may call; null for no limit of its own."`
		Accounts  []string   `json:"accountIds,omitempty" nullable:"true" maxItems:"100" doc:"The accounts that the key may use, among those that the calling key may use; null for no limit of its own."`
		Networks  []string   `json:"allowedIps,omitempty" nullable:"true" maxItems:"50" doc:"The networks from which the key may be used, in CIDR notation, within those of the calling key; null for no limit of its own."`
	}
}

type updateKeyOutput struct{ Body keyEntry }

type rotateKeyInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The key's id, as GET /v1/me/keys lists it."`
	Body *struct {
		Overlap *int `json:"overlapSec,omitempty" minimum:"0" maximum:"86400" doc:"For how many seconds the old key still works. With 0 it is revoked immediately. Default: 3600."`
	}
}

type rotateKeyOutput struct{ Body rotateBody }

type rotateBody struct {
	_         struct{}    `schema:"RotatedKey" doc:"The key that replaces another one. Its secret is shown only once."`
	Key       string      `json:"key" doc:"The key itself. It is shown only once; store it now." sensitive:"true"`
	ID        string      `json:"id" doc:"The id of the key."`
	Label     string      `json:"label" doc:"The name of the key."`
	Scopes    []string    `json:"scopes" doc:"What the key may do."`
	CreatedAt stamp.Time  `json:"createdAt" doc:"When the key was created."`
	ExpiresAt *stamp.Time `json:"expiresAt,omitempty" doc:"When the key stops working; absent if it does not expire."`
	KeyLimits
	Replaces previousKey `json:"replaces" doc:"The key that it replaces."`
}

type previousKey struct {
	_      struct{}   `schema:"ReplacedKey" doc:"The key that was replaced."`
	ID     string     `json:"id" doc:"The id of the key."`
	EndsAt stamp.Time `json:"endsAt" doc:"When it stops working."`
}

type mintOutput struct{ Body mintBody }

type mintBody struct {
	_         struct{}    `schema:"MintedKey" doc:"A new key. Its secret is shown only once."`
	Key       string      `json:"key" doc:"The key itself. It is shown only once; store it now." sensitive:"true"`
	ID        string      `json:"id" doc:"The id of the key."`
	Label     string      `json:"label" doc:"The name of the key."`
	Scopes    []string    `json:"scopes" doc:"What the key may do."`
	CreatedAt stamp.Time  `json:"createdAt" doc:"When the key was created."`
	ExpiresAt *stamp.Time `json:"expiresAt,omitempty" doc:"When the key stops working; null if it does not expire."`
	KeyLimits
}

type keyInput struct {
	ID string `path:"id" maxLength:"64" doc:"The key's id, as GET /v1/me/keys lists it."`
}

type revokeOutput struct {
	Body struct {
		_       struct{} `schema:"KeyRevoked" doc:"The result of revoking a key."`
		ID      string   `json:"id" doc:"The id of the key."`
		Revoked bool     `json:"revoked" doc:"True: the key no longer works."`
	}
}

// Routes adds the operations.
func Routes(t *endpoint.Table, keys *apikey.Keys, accounts *account.Accounts, platforms registry.Registry) {
	a := &operations{keys, accounts, platforms}
	endpoint.Typed(t, endpoint.Operation{
		ID: "listKeys", Method: http.MethodGet, Path: "/v1/me/keys", Tag: "Keys", Status: http.StatusOK,
		Scope: scope.MeRead, Quota: admission.Plain,
		Summary: "List keys", Description: "All keys of the organisation including revoked ones, oldest first. The keys themselves are never shown.",
	}, a.listKeys)
	endpoint.Typed(t, endpoint.Operation{
		ID: "mintKey", Method: http.MethodPost, Path: "/v1/me/keys", Tag: "Keys", Status: http.StatusCreated,
		Scope: scope.MeWrite, Quota: admission.Plain, Audit: "key.mint", Recent: true,
		Problems: []problem.Kind{problem.ScopeEscalation, problem.PlanRequired},
		Summary:  "Create a key", Description: "Creates a key in the caller's organisation. It can never do more than the caller: it cannot have other scopes, and the caller's limits apply to it too.",
		Example: map[string]any{"label": "ci", "scopes": []string{"accounts:read", "sdk:call"}, "methods": []string{"chats.*", "messages.*", "!sensitive"}},
	}, a.mintKey)
	endpoint.Typed(t, endpoint.Operation{
		ID: "updateKey", Method: http.MethodPatch, Path: "/v1/me/keys/{id}", Tag: "Keys", Status: http.StatusOK,
		Scope: scope.MeWrite, Quota: admission.Plain, Audit: "key.update", Recent: true,
		Problems: []problem.Kind{problem.KeyNotFound, problem.KeyEnded, problem.ScopeEscalation},
		Summary:  "Change a key", Description: "Omitted fields stay unchanged. The change holds for calls that start after the response, on every server, and open streams of the key end or continue with it. A key can never be given more than the caller has.",
		Example: map[string]any{"label": "nightly", "methods": []string{"chats.*"}, "allowedIps": []string{"127.0.0.0/8", "203.0.113.0/24"}},
	}, a.updateKey)
	endpoint.Typed(t, endpoint.Operation{
		ID: "rotateKey", Method: http.MethodPost, Path: "/v1/me/keys/{id}/rotate", Tag: "Keys", Status: http.StatusCreated,
		Scope: scope.MeWrite, Quota: admission.Plain, Audit: "key.rotate", Recent: true,
		Problems: []problem.Kind{problem.KeyNotFound, problem.KeyEnded, problem.ScopeEscalation, problem.PlanRequired},
		Summary:  "Rotate a key", Description: "Creates a key with the label, rights and end of another one, which works on until the overlap is over. The caller must have all rights of the key. A key can rotate itself.",
		Example: map[string]any{"overlapSec": 3600},
	}, a.rotateKey)
	endpoint.Typed(t, endpoint.Operation{
		ID: "revokeKey", Method: http.MethodDelete, Path: "/v1/me/keys/{id}", Tag: "Keys", Status: http.StatusOK,
		Scope: scope.MeWrite, Quota: admission.Safety, Audit: "key.revoke",
		Problems: []problem.Kind{problem.KeyNotFound, problem.KeySelfRevoke},
		Summary:  "Revoke a key", Description: "Calls that start after the response are refused on every server. Revoking a key again changes nothing.",
	}, a.revokeKey)
}

func (a *operations) listKeys(ctx context.Context, _ *struct{}) (*keysOutput, error) {
	caller := endpoint.Caller(ctx)
	keys, err := a.keys.List(ctx, caller.Org.ID)
	if err != nil {
		return nil, err
	}
	out := &keysOutput{keysBody{Keys: make([]keyEntry, len(keys))}}
	for i, k := range keys {
		out.Body.Keys[i] = viewKey(&k, caller)
	}
	return out, nil
}

func viewKey(k *apikey.Key, caller *apikey.Principal) keyEntry {
	return keyEntry{
		ID: string(k.ID), Label: k.Label, Hint: k.Hint, CreatedAt: stamp.Time(k.CreatedAt),
		ExpiresAt: (*stamp.Time)(k.ExpiresAt), RevokedAt: (*stamp.Time)(k.RevokedAt),
		LastUsedAt: (*stamp.Time)(k.LastUsedAt), Scopes: k.Scopes.Names(), KeyLimits: ViewLimits(&k.Allow),
		ReplacedBy: string(k.ReplacedBy), CreatedBy: string(k.MintedBy), Current: k.ID == caller.Key.ID,
	}
}

func (a *operations) mintKey(ctx context.Context, in *mintInput) (*mintOutput, error) {
	caller := endpoint.Caller(ctx)
	bad := problem.ValidationFailed.New("The limits of the key are invalid.")
	a.checkNames(bad, caller.Org.Environment, in.Body.Methods)
	accounts, err := a.ownAccounts(ctx, bad, caller, in.Body.Accounts)
	if err != nil {
		return nil, err
	}
	if len(bad.Fields) > 0 {
		return nil, bad
	}
	key, plain, err := a.keys.Mint(ctx, caller, endpoint.By(ctx), apikey.Draft{
		Label: in.Body.Label, Scopes: in.Body.Scopes, ExpiresAt: in.Body.ExpiresAt, Methods: in.Body.Methods, Accounts: accounts,
		Networks: in.Body.Networks,
	})
	if err != nil {
		return nil, err
	}
	return &mintOutput{mintBody{
		Key: plain.Reveal(), ID: string(key.ID), Label: key.Label, Scopes: key.Scopes.Names(),
		CreatedAt: stamp.Time(key.CreatedAt), ExpiresAt: (*stamp.Time)(key.ExpiresAt),
		KeyLimits: ViewLimits(&key.Allow),
	}}, nil
}

func (a *operations) updateKey(ctx context.Context, in *updateKeyInput) (*updateKeyOutput, error) {
	caller := endpoint.Caller(ctx)
	p, err := a.parsePatch(ctx, caller, in)
	if err != nil {
		return nil, err
	}
	key, err := a.keys.Update(ctx, caller, endpoint.By(ctx), in.ID, p)
	if err != nil {
		return nil, err
	}
	return &updateKeyOutput{viewKey(&key, caller)}, nil
}

// parsePatch returns the changes that a request asks for. A member that is null removes the limit.
func (a *operations) parsePatch(ctx context.Context, caller *apikey.Principal, in *updateKeyInput) (apikey.Patch, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(endpoint.From(ctx).Body(), &given); err != nil {
		return apikey.Patch{}, problem.MalformedJSON.New("The body is not a JSON object.")
	}
	has := func(name string) bool { _, ok := given[name]; return ok }
	body := &in.Body
	bad := problem.ValidationFailed.New("The key cannot be changed in this way.")
	if len(given) == 0 {
		bad.At("", "required", "must have at least one of label, scopes, expiresAt, methods, accountIds and allowedIps")
	}
	if has("scopes") && body.Scopes == nil {
		bad.At("/scopes", "type", "must be a list of scopes")
	}
	p := apikey.Patch{Label: body.Label, Scopes: body.Scopes}
	if has("expiresAt") {
		p.ExpiresAt = &body.ExpiresAt
	}
	if has("methods") {
		p.Methods = &body.Methods
		a.checkNames(bad, caller.Org.Environment, body.Methods)
	}
	if has("accountIds") {
		accounts, err := a.ownAccounts(ctx, bad, caller, body.Accounts)
		if err != nil {
			return apikey.Patch{}, err
		}
		p.Accounts = &accounts
	}
	if has("allowedIps") {
		p.Networks = &body.Networks
	}
	if len(bad.Fields) > 0 {
		return apikey.Patch{}, bad
	}
	return p, nil
}

func (a *operations) rotateKey(ctx context.Context, in *rotateKeyInput) (*rotateKeyOutput, error) {
	overlap := apikey.DefaultOverlap
	if in.Body != nil && in.Body.Overlap != nil {
		overlap = time.Duration(*in.Body.Overlap) * time.Second
	}
	made, err := a.keys.Rotate(ctx, endpoint.Caller(ctx), endpoint.By(ctx), in.ID, overlap)
	if err != nil {
		return nil, err
	}
	return &rotateKeyOutput{rotateBody{
		Key: made.Plain.Reveal(), ID: string(made.Key.ID), Label: made.Key.Label, Scopes: made.Key.Scopes.Names(),
		CreatedAt: stamp.Time(made.Key.CreatedAt), ExpiresAt: (*stamp.Time)(made.Key.ExpiresAt), KeyLimits: ViewLimits(&made.Key.Allow),
		Replaces: previousKey{ID: in.ID, EndsAt: stamp.Time(made.Ends)},
	}}, nil
}

// checkNames rejects patterns that match nothing in the catalogue: a misspelt denial would deny nothing.
func (a *operations) checkNames(bad *problem.Error, env environment.Environment, patterns []string) {
	platforms := a.platforms.In(env)
	if len(platforms) == 0 {
		return
	}
	for i, text := range patterns {
		m, ok := apikey.Named(text)
		if !ok {
			continue
		}
		if detail := unmatched(platforms, m); detail != "" {
			bad.At("/methods/"+strconv.Itoa(i), "unknown", detail)
		}
	}
}

// unmatched returns why a pattern matches no method of any platform; empty if it matches one.
func unmatched(platforms []registry.Platform, m apikey.Method) string {
	detail := "matches nothing in the catalogue"
	for _, p := range platforms {
		switch {
		case m.Platform != "" && m.Platform != p.ID:
			continue
		case m.Resource == "":
			return ""
		}
		near := p.Catalog.NearestResource(m.Resource)
		_, known := p.Catalog.Resource(m.Resource)
		if known && m.Name != "" {
			_, known = p.Catalog.Method(m.Resource, m.Name)
			near = p.Catalog.Nearest(m.Resource, m.Name)
		}
		if known {
			return ""
		}
		if len(near) > 0 && !strings.Contains(detail, ";") {
			detail = "matches nothing in the catalogue; similar names: " + strings.Join(near, ", ")
		}
	}
	return detail
}

// ownAccounts parses ids of the org's accounts. Accounts of other orgs are treated like unknown ones. A key that is
// limited to accounts does not learn which exist: it can only pass on accounts that it may use.
func (a *operations) ownAccounts(ctx context.Context, bad *problem.Error, caller *apikey.Principal, texts []string) ([]id.Account, error) {
	if texts == nil {
		return nil, nil
	}
	accounts := make([]id.Account, len(texts))
	for i, text := range texts {
		accounts[i], _ = id.Parse[id.Account](text) // An invalid id stays empty and is reported below.
	}
	known := map[id.Account]bool{}
	if len(texts) > 0 && caller.Key.Allow.Accounts == nil {
		err := a.accounts.List(ctx, caller.Org.ID, account.Filter{Among: accounts}, func(one account.Account) error {
			known[one.ID] = true
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for i, one := range accounts {
		if one == "" || (caller.Key.Allow.Accounts == nil && !known[one]) {
			bad.At("/accountIds/"+strconv.Itoa(i), "unknown", "is not an account of the organisation")
		}
	}
	return accounts, nil
}

func (a *operations) revokeKey(ctx context.Context, in *keyInput) (*revokeOutput, error) {
	if err := a.keys.Revoke(ctx, endpoint.Caller(ctx), endpoint.By(ctx), in.ID); err != nil {
		return nil, err
	}
	out := &revokeOutput{}
	out.Body.ID, out.Body.Revoked = in.ID, true
	return out, nil
}
