package connectpages

import (
	"context"
	"errors"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Backend implements the Attempts, Orgs and Connections of the pages with the services of a node.
type Backend struct {
	Connects *connect.Connects
	Sessions *link.Sessions
	Orgs     *org.Orgs
	Accounts *account.Accounts
}

// Org loads an org and the appearance of its pages.
func (b Backend) Org(ctx context.Context, of id.Org) (Org, error) {
	o, err := b.Orgs.Get(ctx, of)
	if err != nil {
		return Org{}, err
	}
	appearance, err := b.Sessions.Page(ctx, of)
	return Org{ID: o.ID, Name: o.Name, Environment: o.Environment, Page: appearance, Since: o.CreatedAt, Suspended: o.SuspendedAt != nil}, err
}

// Logo loads the logo of an org.
func (b Backend) Logo(ctx context.Context, of id.Org) (logo []byte, tag string, err error) {
	return b.Sessions.Logo(ctx, of)
}

func (b Backend) view(ctx context.Context, a connect.Paged) (View, error) {
	o, err := b.Org(ctx, a.Org)
	if err != nil {
		return View{}, err
	}
	v := View{
		Org: o, ID: a.ID, Kind: a.Kind, Platform: a.Place.Platform, Site: a.Place.Site, Token: a.Token.Reveal(), Version: a.Version, State: a.State, Progress: a.Progress, Channel: a.Channel, Channels: a.Available,
		Actions: a.NextActions(), SubmissionsLeft: attempt.MaxSubmissions - a.Submissions, ResendAt: a.ResendAt, PhoneURL: a.PhoneURL,
		PlatformURL: a.PlatformURL, ReferenceID: a.Reference, Session: a.Session, ReturnURL: a.ReturnURL,
		AllowedOrigins: o.Page.AllowedOrigins, UpdatedAt: a.UpdatedAt,
	}
	if a.State == attempt.Success {
		v.Account = a.Account
	}
	switch a.Channel {
	case "email":
		v.EmailMask = a.Mask
	case "sms":
		v.PhoneMask = a.Mask
	}
	if a.Failure != nil {
		v.Failure = a.Failure.Code
	}
	if a.Session == "" {
		return v, nil
	}
	s, err := b.Sessions.Get(ctx, a.Org, a.Session)
	if err != nil && !errors.Is(err, problem.SessionNotFound.New("")) {
		return View{}, err
	}
	v.ReturnURL, v.Locale = s.ReturnURL, s.Locale
	if len(s.AllowedOrigins) > 0 {
		v.AllowedOrigins = s.AllowedOrigins
	}
	return v, nil
}

// ByToken finds the attempt of a link.
func (b Backend) ByToken(ctx context.Context, token string) (View, error) {
	a, err := b.Connects.ByToken(ctx, secret.New(token))
	if err != nil {
		return View{}, err
	}
	return b.view(ctx, a)
}

// Wait returns when the attempt has changed.
func (b Backend) Wait(ctx context.Context, token string, version int64, atMost time.Duration) (View, error) {
	a, err := b.Connects.ChangedPage(ctx, secret.New(token), version, atMost)
	if err != nil {
		return View{}, err
	}
	return b.view(ctx, a)
}

// resultWithin is how long a page waits for the result of a code.
const resultWithin = 8 * time.Second

// Act does what a creator asks for.
func (b Backend) Act(ctx context.Context, token string, by audit.By, act Act) (View, error) {
	a, err := b.Connects.ByToken(ctx, secret.New(token))
	if err != nil {
		return View{}, err
	}
	switch {
	case act.Cancel:
		by.Action = "connect.cancel"
		_, err = b.Connects.Cancel(ctx, a.Org, by, a.ID)
	case act.SendEmail:
		_, err = b.Connects.SendEmail(ctx, a.Org, a.ID)
	case act.Resend:
		_, err = b.Connects.Resend(ctx, a.Org, a.ID)
	default:
		_, err = b.Connects.Submit(ctx, a.Org, a.ID, connect.Submission{Code: act.Code, Selfie: act.SelfieDone, Channel: act.Channel})
	}
	if err == nil {
		_, err = b.Connects.Verdict(ctx, a.Org, a.ID, resultWithin)
	}
	if err != nil {
		return View{}, err
	}
	return b.ByToken(ctx, a.Token.Reveal())
}

// Authorize prepares an attempt for the creator's visit to the platform.
func (b Backend) Authorize(ctx context.Context, token string, browser secret.String, consent link.Consent) (secret.String, error) {
	return b.Connects.Authorize(ctx, secret.New(token), browser, consentOf(consent))
}

// Authorized accepts a creator who comes back from the platform.
func (b Backend) Authorized(ctx context.Context, back connect.Return) (View, error) {
	a, err := b.Connects.Authorized(ctx, back)
	if err != nil {
		return View{}, err
	}
	return b.view(ctx, a)
}

// consentOf returns the record of a creator's consent as attempts store it.
func consentOf(c link.Consent) connect.Consent {
	return connect.Consent{Who: "creator", TextVersion: c.Version + "." + c.Locale, TextHash: c.TextHash, Locale: c.Locale, IPHash: c.IPHash, At: c.At}
}

// FindSite checks a site that a creator has named in a session.
func (b Backend) FindSite(ctx context.Context, by audit.By, s link.Session, site string) (driver.Place, error) {
	o, err := b.Orgs.Get(ctx, s.Org)
	if err != nil {
		return driver.Place{}, err
	}
	_, place, err := b.Connects.Locate(ctx, &connect.Start{
		Org: o, By: by, Platform: s.Platform, Site: site, Region: s.Region,
	})
	return place, err
}

// Start starts an attempt in a hosted session.
func (b Backend) Start(ctx context.Context, by audit.By, s Start) error {
	o, err := b.Orgs.Get(ctx, s.Session.Org)
	if err != nil {
		return err
	}
	by.Action = "connect.start"
	var label *string
	if s.Session.Label != "" {
		label = &s.Session.Label
	}
	_, err = b.Connects.Start(ctx, connect.Start{
		Org: o, By: by, Kind: attempt.Kind(s.Kind), Email: s.Email, Password: s.Password, Token: s.Token, Label: label, Region: s.Session.Region,
		Reference: s.Session.ReferenceID, Remember: s.Remember, Account: s.Session.Account, Platform: s.Session.Platform, Site: s.Site, Supersede: true, ReturnURL: s.Session.ReturnURL,
		Hosted: s.Session.ID, Openings: s.Session.Openings(), Consent: consentOf(s.Consent),
	})
	return err
}

// Token returns the token of an attempt's pages.
func (b Backend) Token(ctx context.Context, of id.Org, at id.Attempt) (string, error) {
	t, err := b.Connects.PageToken(ctx, of, at)
	return t.Reveal(), err
}

// Connection loads an account as its creator sees it.
func (b Backend) Connection(ctx context.Context, of id.Org, at id.Account) (Connection, error) {
	a, err := b.Accounts.Get(ctx, of, at)
	if err != nil {
		return Connection{}, err
	}
	name := a.DisplayName
	if a.Username != "" && a.Credentials == catalog.BySession {
		name = "@" + a.Username
	}
	return Connection{
		Name: name, DisplayName: a.DisplayName, Since: a.CreatedAt, Platform: a.Place.Platform, Site: a.Place.Site, Remembered: a.RememberCredentials,
		Lost: a.State == account.ReconnectRequired, Credentials: a.Credentials,
	}, nil
}

func (b Backend) Reconnect(ctx context.Context, by audit.By, of id.Org, at id.Account) (link.Session, secret.String, error) {
	o, err := b.Orgs.Get(ctx, of)
	if err != nil {
		return link.Session{}, secret.String{}, err
	}
	c, err := b.Connection(ctx, of, at)
	if err != nil {
		return link.Session{}, secret.String{}, err
	}
	return b.Sessions.Reconnecting(ctx, by, o, reconnectDraft(at, c))
}

// Disconnect ends a connection at the creator's request.
func (b Backend) Disconnect(ctx context.Context, by audit.By, of id.Org, at id.Account) error {
	by.Action = "account.disconnect"
	return b.Accounts.Disconnect(ctx, by, of, at)
}
