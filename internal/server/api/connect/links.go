package connect

import (
	"context"
	"encoding/base64"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/server/mailview"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

type delivery struct {
	_     struct{} `schema:"LinkDelivery" doc:"The recipient of a link."`
	Email string   `json:"email,omitempty" maxLength:"254" doc:"The creator's email address. A creator gets at most one email per hour about the same connection. When the account is connected, a receipt with a link to disconnect it goes to the same address."`
}

// address returns the address that a caller has named; empty for none.
func (d *delivery) address() string {
	if d == nil {
		return ""
	}
	return d.Email
}

type sessionInput struct {
	Body struct {
		Platform  string    `json:"platform,omitempty" maxLength:"32" doc:"The platform, from GET /v1/platforms. Default: its first one; a reconnect uses the account's."`
		Site      string    `json:"site,omitempty" maxLength:"2048" doc:"The https address of the creator's own site, for a platform with siteRequired. Default: the page asks the creator for it."`
		Kinds     []string  `json:"kinds,omitempty" maxItems:"4" doc:"The connect methods that the page offers: oauth, token, credentials, mobile_app. Default: those of the platform; to reconnect an account, those that give the same credentials."`
		Reference *string   `json:"reference_id,omitempty" maxLength:"255" doc:"Your own reference of the creator. Attempts, accounts and events of the link have it."`
		Label     *string   `json:"label,omitempty" maxLength:"120" doc:"The label of the account that is connected."`
		Region    *string   `json:"proxy_country,omitempty" choices:"regions" doc:"The region of the account that is connected."`
		Account   *string   `json:"account_id,omitempty" maxLength:"64" doc:"The account to reconnect."`
		ReturnURL *string   `json:"return_url,omitempty" maxLength:"2048" doc:"The address to which the creator's browser goes at the end, with status, account_id, reference_id and session_id in the query."`
		Origins   []string  `json:"allowed_origins,omitempty" maxItems:"10" doc:"Origins that may embed the page in a frame and receive its messages."`
		ExpiresIn *int      `json:"expires_in_sec,omitempty" minimum:"60" maximum:"604800" doc:"Default: 1800."`
		Locale    *string   `json:"locale,omitempty" enum:"en,es,pt,fr,de" doc:"Default: the language of the creator's browser."`
		Remember  *string   `json:"remember_credentials,omitempty" enum:"ask,always,never" doc:"Default: ask."`
		Deliver   *delivery `json:"deliver,omitempty" doc:"Sends the link to the creator by email, in Spanish if that is the locale, or else in English. mail in the response says what became of it. Default: you send url yourself."`
	}
}

type sessionBody struct {
	_          struct{}       `schema:"ConnectSession" doc:"A link to a hosted page on which a creator connects."`
	ID         string         `json:"id" doc:"The id of the session."`
	URL        *string        `json:"url" doc:"The link for the creator. It is shown only in the response that creates it; null otherwise."`
	Token      *string        `json:"client_token" doc:"The token in the link, for connect.js. It is shown only in the response that creates it; null otherwise." sensitive:"true"`
	Status     string         `json:"status" enum:"open,in_progress,success,exited,expired" doc:"How far the session is."`
	Platform   *string        `json:"platform" doc:"The platform that the page asks for; null if the organisation has none."`
	Site       *string        `json:"site" doc:"The creator's own site; null if the platform has none, or if the page asks for it."`
	Kinds      []string       `json:"kinds" doc:"The ways to connect that the page offers."`
	Attempts   []string       `json:"attempts" doc:"The ids of the creator's attempts."`
	AccountID  *string        `json:"account_id" doc:"The account that was connected; null if none was."`
	Reference  *string        `json:"reference_id" doc:"Your own reference of the creator; null if there is none."`
	Label      string         `json:"label" doc:"The label of the account that is connected; may be empty."`
	Reconnects *string        `json:"reconnect_account_id" doc:"The account that the link reconnects; null for a new account."`
	OpenedAt   *stamp.Time    `json:"opened_at" doc:"When a person first opened the link; null if that has not happened. A link preview does not count."`
	FinishedAt *stamp.Time    `json:"finished_at" doc:"When the session ended; null if it has not ended."`
	ExpiresAt  stamp.Time     `json:"expires_at" doc:"When the link stops working."`
	CreatedAt  stamp.Time     `json:"created_at" doc:"When the session was created."`
	Mail       *mailview.Mail `json:"mail" doc:"What became of the email with the link. Only the response that creates the link has it; null otherwise, and if deliver was not set."`
}

type sessionsInput struct {
	Status    string `query:"status" enum:"open,in_progress,success,exited,expired" doc:"Only links in this status."`
	Reference string `query:"reference_id" maxLength:"255" doc:"Only links with this reference id (your own identifier)."`
	Limit     int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"The maximum number of links."`
	Cursor    string `query:"cursor" maxLength:"64" doc:"nextCursor of the previous page."`
}

type sessionsOutput struct {
	Body struct {
		_          struct{}      `schema:"ConnectSessionPage" doc:"A page of connect sessions."`
		Sessions   []sessionBody `json:"sessions" doc:"Newest first."`
		NextCursor *string       `json:"nextCursor" doc:"Null on the last page."`
	}
}

type sessionOutput struct {
	Body struct {
		_       struct{}    `schema:"ConnectSessionResponse" doc:"One connect session."`
		Session sessionBody `json:"session" doc:"The session."`
	}
}

type sessionIDInput struct {
	ID string `path:"id" maxLength:"64" doc:"The id of the session."`
}

type reconnectInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The account's id."`
	Body *struct {
		Locale  *string   `json:"locale,omitempty" enum:"en,es,pt,fr,de" doc:"The language of the page. The email is in Spanish if this is es, or else in English. Default: the language of the creator's browser."`
		Deliver *delivery `json:"deliver,omitempty" doc:"Sends the link to the creator by email. mail in the response says what became of it. Default: you send url yourself."`
	}
}

type pageBody struct {
	_          struct{} `schema:"ConnectPage" doc:"The appearance of the pages on which creators connect."`
	BrandLight string   `json:"brand_light" maxLength:"7" doc:"The colour of buttons on a light background, as #rrggbb; empty for the default. A colour with too little contrast to its text is darkened."`
	BrandDark  string   `json:"brand_dark" maxLength:"7" doc:"The colour of buttons on a dark background; empty to use brand_light."`
	Scheme     string   `json:"scheme" enum:"system,light,dark" doc:"Light or dark; system follows the creator's device."`
	Origins    []string `json:"allowed_origins" maxItems:"10" doc:"Origins that may embed pages of attempts, and of sessions without allowed_origins."`
	HelpURL    string   `json:"help_url" maxLength:"2048" doc:"The address of your own help page; empty for none."`
}

type pageInput struct{ Body pageBody }

type pageOutput struct {
	Body struct {
		_    struct{} `schema:"ConnectPageResponse" doc:"The look of the organisation's connect pages."`
		Page pageBody `json:"page" doc:"The look of the pages."`
		Logo *string  `json:"logo_url" doc:"The address of the logo, a PNG that anyone can load; null if there is none."`
	}
}

type logoInput struct {
	Body struct {
		_     struct{} `schema:"SetOrgLogoRequest" doc:"A logo for the connect pages."`
		Image string   `json:"image" minLength:"1" maxLength:"700000" doc:"A PNG, JPEG or GIF file in base64, of at most 512 KiB and 2048 pixels on each side. It is scaled to 256 pixels and stored as PNG."`
	}
}

func (a *operations) linkRoutes(t *endpoint.Table) {
	endpoint.Typed(t, endpoint.Operation{
		ID: "createConnectSession", Method: http.MethodPost, Path: "/v1/connect/sessions", Tag: tag, Status: http.StatusCreated,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Audit: "connect.session", Problems: []problem.Kind{problem.AccountNotFound, problem.AccountNotAllowedForKey, problem.ValidationFailed},
		Summary: "Create a link for a creator",
		Description: "Creates a page on which the creator signs in, so that you never see a password. The link works until one account is connected. " +
			"Opening it does not use it up, so mail scanners do no harm.",
		Example: map[string]any{"kinds": []string{"credentials", "mobile_app"}, "reference_id": "user_456", "return_url": "https://app.example/done"},
	}, a.createSession)
	endpoint.Typed(t, endpoint.Operation{
		ID: "getConnectSession", Method: http.MethodGet, Path: "/v1/connect/sessions/{id}", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsRead, Quota: admission.Plain, Problems: []problem.Kind{problem.SessionNotFound},
		Summary: "Get the state of a link", Description: "The link's status, attempts and account. The link itself is not shown again.",
	}, a.getSession)
	endpoint.Typed(t, endpoint.Operation{
		ID: "listConnectSessions", Method: http.MethodGet, Path: "/v1/connect/sessions", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsRead, Quota: admission.Plain, Problems: []problem.Kind{problem.InvalidRequest},
		Summary: "List links", Description: "Links for creators and their states, newest first. Ended links are listed for 30 days. The links themselves are not shown again. " +
			"A key with `accountIds` sees the links that reconnect its accounts.",
	}, a.listSessions)
	endpoint.Typed(t, endpoint.Operation{
		ID: "createReconnectLink", Method: http.MethodPost, Path: "/v1/accounts/{id}/reconnect-link", Tag: "Accounts", Status: http.StatusCreated,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Account: "id", Audit: "account.reconnect_link", Problems: []problem.Kind{problem.AccountNotFound, problem.AccountNotAllowedForKey, problem.ValidationFailed},
		Summary: "Create a link to reconnect an account",
		Description: "Creates a connect session for this account, open for 24 hours. Send `session.url` to the creator, or let the service mail it with `deliver`. The account keeps its region, label, metadata and credentials unless the creator changes them. " +
			"For a link with other settings, use `POST /v1/connect/sessions` with `account_id`.",
		Example: map[string]any{"deliver": map[string]any{"email": "luna@example.com"}, "locale": "en"},
	}, endpoint.OnAccount(a.createReconnectLink))
	a.funnelRoutes(t)
	endpoint.Typed(t, endpoint.Operation{
		ID: "getConnectPage", Method: http.MethodGet, Path: "/v1/connect/page", Tag: tag, Status: http.StatusOK,
		Scope: scope.MeRead, Quota: admission.Plain, Summary: "Get the appearance of the connect pages",
	}, a.getPage)
	endpoint.Typed(t, endpoint.Operation{
		ID: "setConnectPage", Method: http.MethodPut, Path: "/v1/connect/page", Tag: tag, Status: http.StatusOK,
		Scope: scope.MeWrite, Quota: admission.Plain, Audit: "connect.page", Problems: []problem.Kind{problem.ValidationFailed},
		Summary: "Set the appearance of the connect pages", Description: "Replaces the colours, the scheme, the help address and the origins that may embed the pages.",
		Example: map[string]any{"brand_light": "#4f46e5", "brand_dark": "", "scheme": "system", "allowed_origins": []string{"https://app.example"}, "help_url": ""},
	}, a.setPage)
	endpoint.Typed(t, endpoint.Operation{
		ID: "setOrgLogo", Method: http.MethodPut, Path: "/v1/org/logo", Tag: tag, Status: http.StatusOK,
		Scope: scope.MeWrite, Quota: admission.Plain, Audit: "connect.logo", Problems: []problem.Kind{problem.ValidationFailed},
		Summary: "Set the logo of the connect pages", Description: "The pages show it next to the organisation's name. The file is decoded and written again, so that only its pixels are kept.",
		Example: map[string]any{"image": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="},
	}, a.setLogo)
	endpoint.Typed(t, endpoint.Operation{
		ID: "deleteOrgLogo", Method: http.MethodDelete, Path: "/v1/org/logo", Tag: tag, Status: http.StatusOK,
		Scope: scope.MeWrite, Quota: admission.Plain, Audit: "connect.logo",
		Summary: "Delete the logo of the connect pages", Description: "The pages show the first letter of the organisation's name instead.",
	}, a.deleteLogo)
}

func (a *operations) createSession(ctx context.Context, in *sessionInput) (*sessionOutput, error) {
	b := in.Body
	d := link.Draft{
		Kinds: b.Kinds, ReferenceID: deref(b.Reference), Label: deref(b.Label), Region: deref(b.Region), ReturnURL: deref(b.ReturnURL),
		AllowedOrigins: b.Origins, ExpiresIn: time.Duration(deref(b.ExpiresIn)) * time.Second, Locale: deref(b.Locale), Remember: deref(b.Remember),
	}
	d.DeliverEmail = b.Deliver.address()
	org := endpoint.Caller(ctx).Org
	if b.Account != nil {
		at, err := endpoint.ParseAccount(*b.Account)
		if err != nil {
			return nil, err
		}
		d.Account = at
	}
	if err := mayConnect(ctx, d.Account); err != nil {
		return nil, err
	}
	if err := a.placeLink(ctx, org, &d, b.Platform, b.Site); err != nil {
		return nil, err
	}
	return a.createLink(ctx, org, d)
}

// placeLink sets the platform of a link, and its site if the caller has named one. The page asks for a site that is
// missing.
func (a *operations) placeLink(ctx context.Context, o org.Org, d *link.Draft, platform, site string) error {
	if d.Account != "" || site != "" {
		s := connect.Start{Org: o, By: endpoint.By(ctx), Account: d.Account, Platform: platform, Site: site, Region: d.Region}
		p, place, err := a.Connects.Locate(ctx, &s)
		if err != nil {
			return err
		}
		d.Platform, d.Site, d.PlatformName = place.Platform, place.Site, p.Catalog.Name
		return a.chooseKinds(ctx, o, p, d)
	}
	p, err := a.Platforms.Choose(o.Environment, platform)
	d.Platform = p.ID
	if err == nil {
		d.PlatformName = p.Catalog.Name
		err = a.chooseKinds(ctx, o, p, d)
	}
	if platform == "" {
		return nil // An org without a platform can create links; their pages say that connecting is not possible.
	}
	return err
}

// chooseKinds sets the connect methods of a link whose caller has named none.
func (a *operations) chooseKinds(ctx context.Context, o org.Org, p registry.Platform, d *link.Draft) error {
	if len(d.Kinds) > 0 {
		return nil
	}
	if d.Account == "" {
		d.Kinds = link.Kinds(p.Has)
		return nil
	}
	known, err := a.Accounts.Get(ctx, o.ID, d.Account)
	d.Kinds = link.ReconnectKinds(known.Credentials)
	return err
}

func (a *operations) createReconnectLink(ctx context.Context, at id.Account, in *reconnectInput) (*sessionOutput, error) {
	org := endpoint.Caller(ctx).Org
	known, err := a.Accounts.Get(ctx, org.ID, at)
	if err != nil {
		return nil, err
	}
	d := link.ReconnectDraft(at, known.Credentials)
	d.Platform, d.Site = known.Place.Platform, known.Place.Site
	if p, ok := a.Platforms.Get(d.Platform); ok {
		d.PlatformName = p.Catalog.Name
	}
	if in.Body != nil {
		d.DeliverEmail, d.Locale = in.Body.Deliver.address(), deref(in.Body.Locale)
	}
	return a.createLink(ctx, org, d)
}

// createLink creates a session. Its response is the only one that contains the link.
func (a *operations) createLink(ctx context.Context, o org.Org, d link.Draft) (*sessionOutput, error) {
	made, token, err := a.Sessions.Create(ctx, endpoint.By(ctx), o, d)
	if err != nil {
		return nil, err
	}
	out := &sessionOutput{}
	out.Body.Session = viewSession(made)
	text, link := token.Reveal(), a.Sessions.URL(token)
	out.Body.Session.URL, out.Body.Session.Token = &link, &text
	if made.Mail != nil {
		out.Body.Session.Mail = mailview.View(*made.Mail)
	}
	return out, nil
}

func (a *operations) getSession(ctx context.Context, in *sessionIDInput) (*sessionOutput, error) {
	at, err := id.Parse[id.Session](in.ID)
	if err != nil {
		return nil, sessionNotFound()
	}
	caller := endpoint.Caller(ctx)
	found, err := a.Sessions.Get(ctx, caller.Org.ID, at)
	if err != nil {
		return nil, err
	}
	if !caller.Key.Allow.MayUse(found.Account) {
		return nil, sessionNotFound()
	}
	out := &sessionOutput{}
	out.Body.Session = viewSession(found)
	return out, nil
}

func (a *operations) listSessions(ctx context.Context, in *sessionsInput) (*sessionsOutput, error) {
	caller := endpoint.Caller(ctx)
	f := link.Filter{Status: link.Status(in.Status), ReferenceID: in.Reference, Accounts: caller.Key.Allow.Accounts, Limit: in.Limit + 1}
	if in.Cursor != "" {
		at, err := id.Parse[id.Session](in.Cursor)
		if err != nil {
			return nil, endpoint.InvalidCursor("query/cursor")
		}
		f.Before = at
	}
	found, err := a.Sessions.List(ctx, caller.Org.ID, f)
	if err != nil {
		return nil, err
	}
	out := &sessionsOutput{}
	out.Body.Sessions = []sessionBody{}
	if len(found) > in.Limit {
		found = found[:in.Limit]
		last := string(found[in.Limit-1].ID)
		out.Body.NextCursor = &last
	}
	for _, one := range found {
		out.Body.Sessions = append(out.Body.Sessions, viewSession(one))
	}
	return out, nil
}

func sessionNotFound() error {
	return problem.SessionNotFound.New("There is no connect session with this id.")
}

func viewSession(s link.Session) sessionBody {
	v := sessionBody{
		ID: string(s.ID), Status: string(s.Status), Platform: nilIfEmpty(s.Platform), Site: nilIfEmpty(s.Site), Kinds: s.Kinds, Attempts: []string{}, Label: s.Label, OpenedAt: (*stamp.Time)(s.OpenedAt), FinishedAt: (*stamp.Time)(s.FinishedAt),
		ExpiresAt: stamp.Time(s.ExpiresAt), CreatedAt: stamp.Time(s.CreatedAt),
	}
	for _, one := range s.Attempts {
		v.Attempts = append(v.Attempts, string(one))
	}
	if at := string(s.Connected); at != "" {
		v.AccountID = &at
	}
	if at := string(s.Account); at != "" {
		v.Reconnects = &at
	}
	if s.ReferenceID != "" {
		v.Reference = &s.ReferenceID
	}
	return v
}

func nilIfEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (a *operations) getPage(ctx context.Context, _ *struct{}) (*pageOutput, error) {
	org := endpoint.Caller(ctx).Org.ID
	p, err := a.Sessions.Page(ctx, org)
	return a.viewPage(org, p, err)
}

func (a *operations) setPage(ctx context.Context, in *pageInput) (*pageOutput, error) {
	b, org := in.Body, endpoint.Caller(ctx).Org
	p, err := a.Sessions.SetPage(ctx, endpoint.By(ctx), org, link.Page{
		BrandLight: b.BrandLight, BrandDark: b.BrandDark, Scheme: b.Scheme, AllowedOrigins: b.Origins, HelpURL: b.HelpURL,
	})
	return a.viewPage(org.ID, p, err)
}

func (a *operations) setLogo(ctx context.Context, in *logoInput) (*pageOutput, error) {
	file, err := base64.StdEncoding.DecodeString(in.Body.Image)
	if err != nil {
		return nil, problem.ValidationFailed.New("The logo cannot be used.").At("/image", "format", "must be a file in base64")
	}
	org := endpoint.Caller(ctx).Org.ID
	p, err := a.Sessions.SetLogo(ctx, endpoint.By(ctx), org, file)
	return a.viewPage(org, p, err)
}

func (a *operations) deleteLogo(ctx context.Context, _ *struct{}) (*pageOutput, error) {
	org := endpoint.Caller(ctx).Org.ID
	p, err := a.Sessions.DeleteLogo(ctx, endpoint.By(ctx), org)
	return a.viewPage(org, p, err)
}

func (a *operations) viewPage(org id.Org, p link.Page, err error) (*pageOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &pageOutput{}
	out.Body.Page = pageBody{
		BrandLight: p.BrandLight, BrandDark: p.BrandDark, Scheme: p.Scheme, Origins: p.AllowedOrigins,
		HelpURL: p.HelpURL,
	}
	out.Body.Logo = nilIfEmpty(a.Sessions.LogoURL(org, p))
	return out, nil
}
