// Package identity has the operations of the public API on the caller: its key or member, its organisation and limits,
// and the deletion of the organisation (deletion.go).
package identity

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/server/api/keys"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Deps are the dependencies of the operations.
type Deps struct {
	Orgs    *org.Orgs
	Members *member.Members
	// Regions lists the regions that an account can have.
	Regions func() []string
	// PublicURL is the address at which callers reach the service, without a trailing slash.
	PublicURL string
}

type operations struct{ Deps }

type identityOutput struct{ Body identityBody }

type identityBody struct {
	_      struct{}        `schema:"Identity" doc:"The organisation and the key in use, with their permissions and limits."`
	Kind   string          `json:"kind" enum:"customer" doc:"The type of the caller."`
	Key    identityKey     `json:"key" doc:"The calling key. For a member, the hidden key of the browser session, which GET /v1/me/keys does not list."`
	Member *identityMember `json:"member" doc:"The person who is signed in to the dashboard; null for a key."`
	Org    identityOrg     `json:"org" doc:"The organisation of the caller."`
	Scopes []string        `json:"scopes" doc:"The scopes of the calling key or of the member's role."`
	Limits limitsBody      `json:"limits" doc:"The organisation's limits, resolved from its plan; -1 means unlimited."`
}

type identityMember struct {
	_     struct{} `doc:"The person who is signed in."`
	ID    string   `json:"id" doc:"The id of the member."`
	Email string   `json:"email" doc:"The email address of the member."`
	Name  string   `json:"name" doc:"The name of the member; may be empty."`
	Role  string   `json:"role" enum:"owner,admin,developer,support" doc:"What the member may do."`
}

type identityKey struct {
	_         struct{}   `doc:"The key in use."`
	ID        string     `json:"id" doc:"The id of the key."`
	Label     string     `json:"label" doc:"The name of the key."`
	CreatedAt stamp.Time `json:"createdAt" doc:"When the key was created."`
	keys.KeyLimits
}

type identityOrg struct {
	_            struct{} `doc:"The organisation."`
	ID           string   `json:"id" doc:"The id of the organisation."`
	Name         string   `json:"name" doc:"The name of the organisation."`
	Plan         string   `json:"plan" doc:"The plan, which sets the limits."`
	ContactEmail string   `json:"contactEmail" doc:"The address for messages about the organisation."`
	Environment  string   `json:"environment" enum:"sandbox,live" doc:"sandbox for development, live for the platforms themselves."`
}

type limitsBody struct {
	_                      struct{} `schema:"Limits" doc:"The limits of the plan."`
	CallsPerMinute         int      `json:"callsPerMinute" doc:"Requests a minute of all keys together."`
	CallsPerMonth          int      `json:"callsPerMonth" doc:"Requests a month of all keys together."`
	AccountReadPerMinute   int      `json:"accountReadPerMinute" doc:"Reads a minute of one account."`
	AccountWritePerMinute  int      `json:"accountWritePerMinute" doc:"Writes a minute of one account."`
	ConnectAttemptsPerHour int      `json:"connectAttemptsPerHour" doc:"Connect attempts an hour."`
	MaxAccounts            int      `json:"maxAccounts" doc:"Connected accounts."`
	MaxKeys                int      `json:"maxKeys" doc:"API keys that are not revoked."`
	MaxStreamsPerAccount   int      `json:"maxStreamsPerAccount" doc:"Concurrent event streams of one account."`
	EventRetentionDays     int      `json:"eventRetentionDays" doc:"Days for which events are kept."`
	DeliveryRetentionDays  int      `json:"deliveryRetentionDays" doc:"Days for which deliveries are kept."`
	MaxRequestBytes        int      `json:"maxRequestBytes" doc:"The largest body of a request, in bytes."`
	MaxResponseBytes       int      `json:"maxResponseBytes" doc:"The largest body of a response, in bytes."`
	UploadMaxBytes         int      `json:"uploadMaxBytes" doc:"The largest file to upload, in bytes."`
	ProxyCountries         []string `json:"proxyCountries" doc:"The egress regions that an account can have."`
	Features               []string `json:"features" doc:"What the plan includes."`
}

type patchMeInput struct {
	Body struct {
		ContactEmail *string `json:"contactEmail,omitempty" maxLength:"254" doc:"The address at which the service contacts the organisation."`
		Name         *string `json:"name,omitempty" minLength:"1" maxLength:"120" doc:"The name of the organisation."`
	}
}

const tag = "Identity"

// Routes adds the operations.
func Routes(t *endpoint.Table, d Deps) {
	a := &operations{d}
	endpoint.Typed(t, endpoint.Operation{
		ID: "getMe", Method: http.MethodGet, Path: "/v1/me", Tag: tag, Status: http.StatusOK, Quota: admission.Plain, WhileDeleting: true,
		Summary: "Get the current identity", Description: "Checks the key and returns its organisation, scopes and limits.",
	}, a.getMe)
	endpoint.Typed(t, endpoint.Operation{
		ID: "updateMe", Method: http.MethodPatch, Path: "/v1/me", Tag: tag, Status: http.StatusOK,
		Scope: scope.MeWrite, Quota: admission.Plain, Audit: "org.update",
		Summary: "Update the organisation", Description: "Changes the name or the contact address. Omitted fields stay unchanged.",
		Example: map[string]any{"contactEmail": "ops@example.com"},
	}, a.updateMe)
	a.deletionRoutes(t)
}

func (a *operations) getMe(ctx context.Context, _ *struct{}) (*identityOutput, error) {
	return a.viewIdentity(ctx, endpoint.Caller(ctx))
}

func (a *operations) updateMe(ctx context.Context, in *patchMeInput) (*identityOutput, error) {
	caller := *endpoint.Caller(ctx)
	var err error
	caller.Org, err = a.Orgs.Update(ctx, caller.Org.ID, endpoint.By(ctx), org.Change{ContactEmail: in.Body.ContactEmail, Name: in.Body.Name})
	if err != nil {
		return nil, err
	}
	return a.viewIdentity(ctx, &caller)
}

// viewIdentity describes the caller. A key is in memory already; the name of a member is read from the database.
func (a *operations) viewIdentity(ctx context.Context, p *apikey.Principal) (*identityOutput, error) {
	out := a.viewCaller(p)
	if p.Key.Person == "" {
		return out, nil
	}
	m, err := a.Members.Get(ctx, p.Org.ID, p.Key.Person)
	if err != nil {
		return nil, err
	}
	out.Body.Member = &identityMember{ID: string(m.ID), Email: m.Email, Name: m.Name, Role: string(m.Role)}
	return out, nil
}

func (a *operations) viewCaller(p *apikey.Principal) *identityOutput {
	return &identityOutput{identityBody{
		Kind: "customer",
		Key: identityKey{
			ID: string(p.Key.ID), Label: p.Key.Label, CreatedAt: stamp.Time(p.Key.CreatedAt),
			KeyLimits: keys.ViewLimits(&p.Key.Allow),
		},
		Org: identityOrg{
			ID: string(p.Org.ID), Name: p.Org.Name, Plan: string(p.Org.Plan), ContactEmail: p.Org.ContactEmail,
			Environment: string(p.Org.Environment),
		},
		Scopes: p.Scopes.Names(),
		Limits: viewLimits(p.Org.Limits, a.Regions()),
	}}
}

func viewLimits(l org.Limits, regions []string) limitsBody {
	return limitsBody{
		CallsPerMinute: l.CallsPerMinute, CallsPerMonth: l.CallsPerMonth, AccountReadPerMinute: l.AccountReadPerMinute,
		AccountWritePerMinute: l.AccountWritePerMinute, ConnectAttemptsPerHour: l.ConnectAttemptsPerHour,
		MaxAccounts: l.MaxAccounts, MaxKeys: l.MaxKeys, MaxStreamsPerAccount: l.MaxStreamsPerAccount,
		EventRetentionDays: l.EventRetentionDays, DeliveryRetentionDays: l.DeliveryRetentionDays,
		MaxRequestBytes: l.MaxRequestBytes, MaxResponseBytes: l.MaxResponseBytes, UploadMaxBytes: l.UploadMaxBytes,
		ProxyCountries: regions, Features: []string{},
	}
}
