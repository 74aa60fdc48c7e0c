package admin

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

type orgBody struct {
	ID              string         `json:"id"`
	Name            string         `json:"name"`
	Plan            string         `json:"plan"`
	Environment     string         `json:"environment"`
	ContactEmail    string         `json:"contactEmail"`
	Limits          map[string]int `json:"limits" doc:"Limits that differ from the plan."`
	Suspended       bool           `json:"suspended"`
	SuspendedAt     *stamp.Time    `json:"suspendedAt,omitempty"`
	SuspendedReason string         `json:"suspendedReason,omitempty"`
	Deletion        *deletionBody  `json:"deletion,omitempty" doc:"Present while the organisation is being deleted."`
	CreatedAt       stamp.Time     `json:"createdAt"`
	UpdatedAt       stamp.Time     `json:"updatedAt"`
}

type deletionBody struct {
	RequestedAt stamp.Time `json:"requestedAt"`
	PurgeAt     stamp.Time `json:"purgeAt" doc:"When everything of the organisation is destroyed. Until then it can be restored."`
	ReceiptURL  string     `json:"receiptUrl" doc:"Where the signed receipt is when everything is destroyed."`
}

type deletionOutput struct {
	Body struct {
		Deletion *deletionBody `json:"deletion" doc:"Null if the organisation is not being deleted."`
	}
}

type keyBody struct {
	Key       string     `json:"key" doc:"The key itself. It is shown only once." sensitive:"true"`
	ID        string     `json:"id"`
	Label     string     `json:"label"`
	Scopes    []string   `json:"scopes"`
	Methods   []string   `json:"methods,omitempty" doc:"Patterns of the SDK methods that the key may call. Absent if it may call all."`
	CreatedAt stamp.Time `json:"createdAt"`
}

type createOrgInput struct {
	Body struct {
		Name         string         `json:"name" minLength:"1" maxLength:"120"`
		Plan         string         `json:"plan" maxLength:"32" doc:"One of GET /admin/v1/plans."`
		Environment  string         `json:"environment" enum:"sandbox,live"`
		ContactEmail string         `json:"contactEmail" maxLength:"254"`
		Limits       map[string]int `json:"limits,omitempty" doc:"Limits that differ from the plan; -1 means unlimited."`
	}
}

type createOrgOutput struct {
	Body struct {
		Org orgBody `json:"org"`
		Key keyBody `json:"key"`
	}
}

type orgInput struct {
	ID string `path:"id" maxLength:"64"`
}

type orgOutput struct {
	Body struct {
		Org orgBody `json:"org"`
	}
}

type listOrgsInput struct {
	Text        string `query:"q" maxLength:"120" doc:"An id, or a part of the name or the contact address."`
	Plan        string `query:"plan" maxLength:"32"`
	Environment string `query:"environment" enum:"sandbox,live"`
	Suspended   string `query:"suspended" enum:"true,false"`
	Limit       int    `query:"limit" minimum:"1" maximum:"100" default:"50"`
	Cursor      string `query:"cursor" maxLength:"64" doc:"nextCursor of the previous page."`
}

type getOrgOutput struct {
	Body struct {
		Org      orgBody        `json:"org"`
		Limits   []limitBody    `json:"effectiveLimits" doc:"The limits of the organisation: those of its plan with its overrides."`
		Month    monthBody      `json:"month" doc:"Calls of this calendar month (UTC)."`
		Accounts map[string]int `json:"accounts" doc:"Connected accounts by state."`
		Webhooks map[string]int `json:"webhooks" doc:"Webhooks by the state of their lane."`
	}
}

type limitBody struct {
	Name       string `json:"name"`
	Value      int    `json:"value" doc:"-1 means unlimited."`
	Overridden bool   `json:"overridden"`
}

type monthBody struct {
	Used  int64 `json:"used"`
	Limit int   `json:"limit" doc:"-1 means unlimited."`
}

type listOrgsOutput struct {
	Body struct {
		Orgs       []orgBody `json:"orgs"`
		NextCursor *string   `json:"nextCursor"`
	}
}

type updateOrgInput struct {
	ID   string `path:"id" maxLength:"64"`
	Body struct {
		Name            *string         `json:"name,omitempty" minLength:"1" maxLength:"120"`
		ContactEmail    *string         `json:"contactEmail,omitempty" maxLength:"254"`
		Plan            *string         `json:"plan,omitempty"`
		Limits          *map[string]int `json:"limits,omitempty" doc:"Replaces all overrides."`
		Suspended       *bool           `json:"suspended,omitempty"`
		SuspendedReason *string         `json:"suspendedReason,omitempty" maxLength:"500"`
	}
}

type plansOutput struct {
	Body struct {
		Plans []planBody `json:"plans"`
	}
}

type planBody struct {
	Name   string         `json:"name"`
	Limits map[string]int `json:"limits"`
}

type issueKeyInput struct {
	ID   string `path:"id" maxLength:"64"`
	Body struct {
		Label   string   `json:"label" minLength:"1" maxLength:"120"`
		Scopes  []string `json:"scopes,omitempty" maxItems:"64"`
		Methods []string `json:"methods,omitempty" maxItems:"64" doc:"Methods that the key may call: resource.method, resource.*, * or sensitive. A leading ! denies, and denials win. Default: everything."`
	}
}

type keyOutput struct{ Body keyBody }

type verifyOutput struct {
	Body struct {
		Entries int64 `json:"entries"`
		Intact  bool  `json:"intact"`
	}
}

func (a *Admin) orgRoutes() {
	op := func(o endpoint.Operation) endpoint.Operation {
		o.Tag, o.Scope = "Organisations", leastRole(o)
		return o
	}
	notFound := []problem.Kind{problem.OrgNotFound}
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "createOrg", Method: http.MethodPost, Path: "/admin/v1/orgs", Status: http.StatusCreated, Audit: "org.create",
		Summary: "Create an organisation", Description: "Creates the organisation and its first key, which is shown only once.",
		Example: map[string]any{"name": "Acme", "plan": "starter", "environment": environment.ForSignups, "contactEmail": "ops@example.com"},
	}), a.createOrg)
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "listPlans", Method: http.MethodGet, Path: "/admin/v1/plans", Status: http.StatusOK,
		Summary: "List plans", Description: "The plans that organisations can have, in the order of STAGEDOOR_PLANS_FILE.",
	}), a.listPlans)
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "listOrgs", Method: http.MethodGet, Path: "/admin/v1/orgs", Status: http.StatusOK, Summary: "List organisations",
	}), a.listOrgs)
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "getOrg", Method: http.MethodGet, Path: "/admin/v1/orgs/{id}", Status: http.StatusOK, Problems: notFound,
		Summary: "Get an organisation", Description: "The organisation with its limits, its usage this month, and the states of its accounts and webhooks.",
	}), a.getOrg)
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "updateOrg", Method: http.MethodPatch, Path: "/admin/v1/orgs/{id}", Status: http.StatusOK, Audit: "org.update", Problems: notFound,
		Summary: "Update an organisation", Description: "Changes the plan, the overrides of limits, or the suspension. The change applies to the next call on every node.",
		Example: map[string]any{"limits": map[string]int{"callsPerMinute": 1200}},
	}), a.updateOrg)
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "deleteOrg", Method: http.MethodDelete, Path: "/admin/v1/orgs/{id}", Status: http.StatusOK, Audit: "org.delete", Scope: scope.AdminOwner, Problems: notFound,
		Summary: "Delete an organisation", Description: "Suspends the organisation immediately and destroys everything of it after 7 days, unless it is restored before. " +
			"Its owners can restore it in the dashboard, unless it was suspended before. Repeating the call changes nothing.",
	}), a.deleteOrg)
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "restoreOrg", Method: http.MethodPost, Path: "/admin/v1/orgs/{id}/restore", Status: http.StatusOK, Audit: "org.restore", Problems: notFound,
		Summary: "Restore an organisation", Description: "Ends the deletion of the organisation, and the suspension that came with it. An earlier suspension stays. " +
			"When the 7 days have passed, it is too late.",
	}), a.restoreOrg)
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "issueKey", Method: http.MethodPost, Path: "/admin/v1/orgs/{id}/keys", Status: http.StatusCreated, Audit: "key.mint", Scope: scope.AdminOwner,
		Problems: []problem.Kind{problem.OrgNotFound, problem.PlanRequired, problem.ScopeEscalation, problem.ConsentRequired},
		Summary:  "Issue a key", Description: "For an organisation that has lost its last key. If the organisation has an owner, who can create keys in the dashboard, " +
			"it needs the access that the owner granted you.",
		Example: map[string]any{"label": "recovery"},
	}), a.issueKey)
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "verifyAudit", Method: http.MethodGet, Path: "/admin/v1/orgs/{id}/audit/verification", Status: http.StatusOK, Problems: notFound,
		Summary: "Verify the audit log", Description: "Checks the organisation's chain of entries and reports whether one is missing or altered.",
	}), a.verifyAudit)
}

func (a *Admin) createOrg(ctx context.Context, in *createOrgInput) (*createOrgOutput, error) {
	var (
		o     org.Org
		key   apikey.Key
		plain secret.String
	)
	by := endpoint.By(ctx)
	err := a.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		var err error
		o, err = a.deps.Orgs.Create(ctx, tx, by, org.Draft{
			Name: in.Body.Name, Plan: org.Plan(in.Body.Plan), Environment: environment.Environment(in.Body.Environment),
			ContactEmail: in.Body.ContactEmail, Override: in.Body.Limits,
		})
		if err != nil {
			return err
		}
		mint := by
		mint.Action = "key.mint"
		key, plain, err = a.deps.Keys.Issue(ctx, tx, o, mint, apikey.Draft{Label: "First key"})
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &createOrgOutput{}
	out.Body.Org, out.Body.Key = a.viewOrg(o), viewKey(key, plain)
	return out, nil
}

func (a *Admin) listPlans(context.Context, *struct{}) (*plansOutput, error) {
	out := &plansOutput{}
	plans, _ := a.deps.Plans.All()
	for _, p := range plans {
		body := planBody{string(p.Name), map[string]int{}}
		for _, l := range p.List() {
			body.Limits[l.Name] = l.Value
		}
		out.Body.Plans = append(out.Body.Plans, body)
	}
	return out, nil
}

func (a *Admin) listOrgs(ctx context.Context, in *listOrgsInput) (*listOrgsOutput, error) {
	after, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	f := org.Search{Text: in.Text, Plan: org.Plan(in.Plan), Environment: environment.Environment(in.Environment), After: after}
	if in.Suspended != "" {
		suspended := in.Suspended == "true"
		f.Suspended = &suspended
	}
	// One more than requested shows whether there is another page.
	orgs, err := a.deps.Orgs.Search(ctx, f, in.Limit+1)
	if err != nil {
		return nil, err
	}
	out := &listOrgsOutput{}
	if len(orgs) > in.Limit {
		orgs = orgs[:in.Limit]
		next := string(orgs[in.Limit-1].ID)
		out.Body.NextCursor = &next
	}
	out.Body.Orgs = make([]orgBody, len(orgs))
	for i, o := range orgs {
		out.Body.Orgs[i] = a.viewOrg(o)
	}
	return out, nil
}

func parseCursor(text string) (id.Org, error) {
	if text == "" {
		return "", nil
	}
	after, err := id.Parse[id.Org](text)
	if err != nil {
		return "", endpoint.InvalidCursor("query/cursor")
	}
	return after, nil
}

// parseOrg parses an id. A malformed id is reported like an unknown one.
func parseOrg(text string) (id.Org, error) {
	o, err := id.Parse[id.Org](text)
	if err != nil {
		return "", problem.OrgNotFound.New("There is no organisation with this id.")
	}
	return o, nil
}

func (a *Admin) getOrg(ctx context.Context, in *orgInput) (*getOrgOutput, error) {
	owner, err := parseOrg(in.ID)
	if err != nil {
		return nil, err
	}
	o, err := a.deps.Orgs.Get(ctx, owner)
	if err != nil {
		return nil, err
	}
	out := &getOrgOutput{}
	out.Body.Org = a.viewOrg(o)
	for _, l := range o.ListLimits() {
		out.Body.Limits = append(out.Body.Limits, limitBody(l))
	}
	now := a.deps.Now()
	month, err := a.deps.Limits.Admit(ctx, admission.Call{Org: o.ID, Quota: admission.Free, Epoch: o.Epoch, Limits: &o.Limits, Started: now, ReadAt: now})
	if err != nil {
		return nil, err
	}
	out.Body.Month = monthBody{month.MonthUsed, o.Limits.CallsPerMonth}
	accounts, err := a.deps.Accounts.CountByState(ctx, o.ID, account.Filter{})
	if err != nil {
		return nil, err
	}
	out.Body.Accounts = map[string]int{}
	for state, n := range accounts {
		out.Body.Accounts[string(state)] = n
	}
	lanes, err := a.deps.Webhooks.CountLanes(ctx, o.ID)
	if err != nil {
		return nil, err
	}
	out.Body.Webhooks = viewCounts(lanes)
	return out, nil
}

func (a *Admin) updateOrg(ctx context.Context, in *updateOrgInput) (*orgOutput, error) {
	c := org.Change{
		Name: in.Body.Name, ContactEmail: in.Body.ContactEmail, Plan: (*org.Plan)(in.Body.Plan),
		Override: (*org.Override)(in.Body.Limits), Suspended: in.Body.Suspended, SuspendedReason: in.Body.SuspendedReason,
	}
	owner, err := parseOrg(in.ID)
	if err != nil {
		return nil, err
	}
	o, err := a.deps.Orgs.Update(ctx, owner, endpoint.By(ctx), c)
	if err != nil {
		return nil, err
	}
	out := &orgOutput{}
	out.Body.Org = a.viewOrg(o)
	return out, nil
}

func (a *Admin) deleteOrg(ctx context.Context, in *orgInput) (*deletionOutput, error) {
	return a.changeDeletion(ctx, in, a.deps.Orgs.Delete)
}

func (a *Admin) restoreOrg(ctx context.Context, in *orgInput) (*deletionOutput, error) {
	return a.changeDeletion(ctx, in, a.deps.Orgs.Restore)
}

func (a *Admin) changeDeletion(ctx context.Context, in *orgInput,
	change func(context.Context, id.Org, audit.By, org.Permit) (org.Org, error)) (*deletionOutput, error) {
	owner, err := parseOrg(in.ID)
	if err != nil {
		return nil, err
	}
	o, err := change(ctx, owner, endpoint.By(ctx), nil)
	if err != nil {
		return nil, err
	}
	out := &deletionOutput{}
	out.Body.Deletion = a.viewDeletion(o)
	return out, nil
}

// viewDeletion returns nil if the organisation is not being deleted.
func (a *Admin) viewDeletion(o org.Org) *deletionBody {
	d := o.Deletion
	if d == nil {
		return nil
	}
	receipt := a.deps.Config.PublicURL + "/v1/org-receipts/" + string(o.ID)
	return &deletionBody{stamp.Time(d.RequestedAt), stamp.Time(d.PurgeAt), receipt}
}

func (a *Admin) issueKey(ctx context.Context, in *issueKeyInput) (*keyOutput, error) {
	var (
		key   apikey.Key
		plain secret.String
	)
	owner, err := parseOrg(in.ID)
	if err != nil {
		return nil, err
	}
	err = a.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		o, err := a.deps.Orgs.Lock(ctx, tx, owner)
		if err != nil {
			return err
		}
		if err := a.deps.Members.RequireConsent(ctx, tx, endpoint.By(ctx), owner); err != nil {
			return err
		}
		key, plain, err = a.deps.Keys.Issue(ctx, tx, o, endpoint.By(ctx), apikey.Draft{Label: in.Body.Label, Scopes: in.Body.Scopes, Methods: in.Body.Methods})
		return err
	})
	if err != nil {
		return nil, err
	}
	return &keyOutput{viewKey(key, plain)}, nil
}

func (a *Admin) verifyAudit(ctx context.Context, in *orgInput) (*verifyOutput, error) {
	owner, err := parseOrg(in.ID)
	if err != nil {
		return nil, err
	}
	o, err := a.deps.Orgs.Get(ctx, owner)
	if err != nil {
		return nil, err
	}
	out := &verifyOutput{}
	out.Body.Entries, err = a.deps.Audit.Verify(ctx, o.ID)
	if audit.IsBroken(err) {
		return out, nil
	}
	out.Body.Intact = true
	return out, err
}

func (a *Admin) viewOrg(o org.Org) orgBody {
	limits := o.Override
	if limits == nil {
		limits = org.Override{}
	}
	return orgBody{
		string(o.ID), o.Name, string(o.Plan), string(o.Environment), o.ContactEmail, limits,
		o.SuspendedAt != nil, (*stamp.Time)(o.SuspendedAt), o.SuspendedReason, a.viewDeletion(o),
		stamp.Time(o.CreatedAt), stamp.Time(o.UpdatedAt),
	}
}

func viewKey(k apikey.Key, plain secret.String) keyBody {
	methods, _ := k.Allow.Lists() // A key from an operator inherits no lists.
	return keyBody{plain.Reveal(), string(k.ID), k.Label, k.Scopes.Names(), methods, stamp.Time(k.CreatedAt)}
}
