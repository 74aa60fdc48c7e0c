package app

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
	"github.com/stagedoor/stagedoor/internal/server/connectpages"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// pages implements the dependencies of connectpages.
type pages struct {
	connects *connect.Connects
	sessions *link.Sessions
	orgs     *org.Orgs
	accounts *account.Accounts
}

// Org loads an org and the appearance of its pages.
func (p pages) Org(ctx context.Context, of id.Org) (connectpages.Org, error) {
	o, err := p.orgs.Get(ctx, of)
	if err != nil {
		return connectpages.Org{}, err
	}
	appearance, err := p.sessions.Page(ctx, of)
	return connectpages.Org{ID: o.ID, Name: o.Name, Page: appearance, Suspended: o.SuspendedAt != nil}, err
}

func (p pages) view(ctx context.Context, a connect.Paged) (connectpages.View, error) {
	o, err := p.Org(ctx, a.Org)
	if err != nil {
		return connectpages.View{}, err
	}
	v := connectpages.View{
		Org: o, ID: a.ID, Token: a.Token.Reveal(), Version: a.Version, State: a.State, Progress: a.Progress, Channel: a.Channel, Channels: a.Available,
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
	s, err := p.sessions.Get(ctx, a.Org, a.Session)
	if err != nil && !errors.Is(err, problem.SessionNotFound.New("")) {
		return connectpages.View{}, err
	}
	v.ReturnURL, v.Locale = s.ReturnURL, s.Locale
	if len(s.AllowedOrigins) > 0 {
		v.AllowedOrigins = s.AllowedOrigins
	}
	return v, nil
}

// ByToken finds the attempt of a link.
func (p pages) ByToken(ctx context.Context, token string) (connectpages.View, error) {
	a, err := p.connects.ByToken(ctx, secret.New(token))
	if err != nil {
		return connectpages.View{}, err
	}
	return p.view(ctx, a)
}

// Wait returns when the attempt has changed.
func (p pages) Wait(ctx context.Context, token string, version int64, atMost time.Duration) (connectpages.View, error) {
	a, err := p.connects.ChangedPage(ctx, secret.New(token), version, atMost)
	if err != nil {
		return connectpages.View{}, err
	}
	return p.view(ctx, a)
}

// resultWithin is how long a page waits for the result of a code.
const resultWithin = 8 * time.Second

// Act does what a creator asks for.
func (p pages) Act(ctx context.Context, token string, by audit.By, act connectpages.Act) (connectpages.View, error) {
	a, err := p.connects.ByToken(ctx, secret.New(token))
	if err != nil {
		return connectpages.View{}, err
	}
	switch {
	case act.Cancel:
		by.Action = "connect.cancel"
		_, err = p.connects.Cancel(ctx, a.Org, by, a.ID)
	case act.SendEmail:
		_, err = p.connects.SendEmail(ctx, a.Org, a.ID)
	case act.Resend:
		_, err = p.connects.Resend(ctx, a.Org, a.ID)
	default:
		_, err = p.connects.Submit(ctx, a.Org, a.ID, connect.Submission{Code: act.Code, Selfie: act.SelfieDone, Channel: act.Channel})
	}
	if err == nil {
		_, err = p.connects.Verdict(ctx, a.Org, a.ID, resultWithin)
	}
	if err != nil {
		return connectpages.View{}, err
	}
	return p.ByToken(ctx, a.Token.Reveal())
}

// Start starts an attempt in a hosted session.
func (p pages) Start(ctx context.Context, by audit.By, s connectpages.Start) error {
	o, err := p.orgs.Get(ctx, s.Session.Org)
	if err != nil {
		return err
	}
	by.Action = "connect.start"
	var label *string
	if s.Session.Label != "" {
		label = &s.Session.Label
	}
	_, err = p.connects.Start(ctx, connect.Start{
		Org: o, By: by, Kind: attempt.Kind(s.Kind), Email: s.Email, Password: s.Password, Label: label, Region: s.Session.Region,
		Reference: s.Session.ReferenceID, Remember: s.Remember, Account: s.Session.Account, Supersede: true, ReturnURL: s.Session.ReturnURL,
		Hosted: s.Session.ID, Consent: connect.Consent{
			Who: "creator", TextVersion: s.Consent.Version + "." + s.Consent.Locale, TextHash: s.Consent.TextHash, IPHash: s.Consent.IPHash, At: s.Consent.At,
		},
	})
	return err
}

// Token returns the token of an attempt's pages.
func (p pages) Token(ctx context.Context, of id.Org, at id.Attempt) (string, error) {
	t, err := p.connects.PageToken(ctx, of, at)
	return t.Reveal(), err
}

// Connection loads an account as its creator sees it.
func (p pages) Connection(ctx context.Context, of id.Org, at id.Account) (connectpages.Connection, error) {
	a, err := p.accounts.Get(ctx, of, at)
	if err != nil {
		return connectpages.Connection{}, err
	}
	return connectpages.Connection{Name: "@" + a.Username, Since: a.CreatedAt, Remembered: a.RememberCredentials, Lost: a.State == account.ReconnectRequired}, nil
}

// Reconnect returns a session to reconnect an account.
func (p pages) Reconnect(ctx context.Context, by audit.By, of id.Org, at id.Account) (link.Session, secret.String, error) {
	o, err := p.orgs.Get(ctx, of)
	if err != nil {
		return link.Session{}, secret.String{}, err
	}
	return p.sessions.Reconnecting(ctx, by, o, at)
}

// Disconnect ends a connection at the creator's request.
func (p pages) Disconnect(ctx context.Context, by audit.By, of id.Org, at id.Account) error {
	by.Action = "account.disconnect"
	return p.accounts.Disconnect(ctx, by, of, at)
}
