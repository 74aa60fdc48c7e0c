package connectpages

import (
	"context"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// Org is the customer that asks for the connection.
type Org struct {
	ID          id.Org
	Name        string
	Environment environment.Environment
	Page        link.Page
	// Since is when the org was created.
	Since time.Time
	// Suspended means that its pages for connecting are closed.
	Suspended bool
}

// View is what a page may know of an attempt: masks and states, and nothing that could sign in.
type View struct {
	Org Org
	ID  id.Attempt
	// Kind is the method of the attempt.
	Kind attempt.Kind
	// Platform is the id of the platform, Site the address of the creator's site on it, or empty.
	Platform, Site string
	// Token is that of the attempt's own pages.
	Token string
	// Version grows with every change.
	Version  int64
	State    attempt.State
	Progress attempt.Progress
	// Channel is where the code of the challenge comes from: sms, app, email, face. Channels are all that can be used.
	Channel  string
	Channels []string
	// EmailMask and PhoneMask show where a message went; empty if the platform does not say.
	EmailMask, PhoneMask string
	// Actions are the next_actions of the API.
	Actions         []string
	SubmissionsLeft int
	// ResendAt is the time from which another message can be requested.
	ResendAt time.Time
	// PhoneURL is the address of the attempt's page for phones, which the QR code contains.
	PhoneURL string
	// PlatformURL is the platform's own page for the selfie or the approval. It is shown as a link and never logged.
	PlatformURL secret.String
	Failure     string
	Account     id.Account
	ReferenceID string
	// Session is the hosted session in which the attempt was started, or empty.
	Session id.Session
	// ReturnURL is where the creator goes at the end, or empty.
	ReturnURL string
	// AllowedOrigins may frame the page.
	AllowedOrigins []string
	Locale         string
	UpdatedAt      time.Time
}

// Act is an action of a creator on a page. Exactly one field is set.
type Act struct {
	Code       secret.String
	SelfieDone bool
	Channel    string
	Resend     bool
	SendEmail  bool
	Cancel     bool
}

// attempts loads and changes attempts by the tokens of links. Its errors are problems: attempt-not-found for an unknown
// token.
type attempts interface {
	starts
	authorizations
	ByToken(ctx context.Context, token string) (View, error)
	// Wait returns when the version of the attempt differs from the given one, or after atMost.
	Wait(ctx context.Context, token string, version int64, atMost time.Duration) (View, error)
	// Act does what the creator asks for, and waits a few seconds for the result of a code.
	Act(ctx context.Context, token string, by audit.By, a Act) (View, error)
	// Token returns the token of an attempt of a session.
	Token(ctx context.Context, org id.Org, attempt id.Attempt) (string, error)
}

// starts starts attempts in hosted sessions.
type starts interface {
	// FindSite checks a site that a creator has named in a session. Its errors are problems.
	FindSite(ctx context.Context, by audit.By, s link.Session, site string) (driver.Place, error)
	// Start starts an attempt in a hosted session. It replaces an older attempt for the same login.
	Start(ctx context.Context, by audit.By, s Start) error
}

// authorizations sends creators to the platform's own page, and accepts them when they come back.
type authorizations interface {
	// Authorize returns the platform's page to which a creator is sent, and binds the attempt to the browser.
	Authorize(ctx context.Context, token string, browser secret.String, consent link.Consent) (secret.String, error)
	// Authorized accepts a creator who comes back from there. Its errors are session-not-found, connect.ErrOtherBrowser and
	// others.
	Authorized(ctx context.Context, back connect.Return) (View, error)
}

// Start is what a creator entered on the page of a session.
type Start struct {
	Session link.Session
	// Site is the creator's site, from the session or from the page; empty if the platform has none.
	Site string
	// Kind is a method of package link.
	Kind                   string
	Email, Password, Token secret.String
	// Remember says whether to store the password; nil if none was entered.
	Remember *bool
	Consent  link.Consent
}

// sessions are the hosted sessions. *link.Sessions implements it.
type sessions interface {
	ByToken(ctx context.Context, token string) (link.Session, error)
	// ByBrowser returns a session that is bound to a browser, or was; session-not-found for any other browser.
	ByBrowser(ctx context.Context, session id.Session, browser secret.String) (link.Session, error)
	// Open binds a session to a browser. again allows it to take the session from another browser.
	Open(ctx context.Context, by audit.By, it link.Session, browser secret.String, kind link.Browser, again bool) (link.Session, error)
	Exit(ctx context.Context, org id.Org, session id.Session, openings int) (link.Session, error)
}

type orgs interface {
	Org(ctx context.Context, org id.Org) (Org, error)
	// Logo returns the logo of an org as PNG, and its tag; nil if there is none.
	Logo(ctx context.Context, org id.Org) (logo []byte, tag string, err error)
}

// Connection is an account as its creator sees it.
type Connection struct {
	// Name is the account's name on the platform, for example @luna. DisplayName is the one that its fans read, such as
	// Luna Vega, or empty.
	Name, DisplayName string
	Since             time.Time
	// Platform is the id of the platform, Site the address of the creator's site on it, or empty.
	Platform, Site string
	// Remembered means that the password is stored to sign in again.
	Remembered bool
	// Credentials is what the account is signed in with.
	Credentials catalog.Credentials
	// Lost means that the account has lost its session, and its creator must connect it again.
	Lost bool
}

// connections loads and changes the accounts of manage and reconnect links.
type connections interface {
	// Connection loads an account; account-not-found if it is disconnected.
	Connection(ctx context.Context, org id.Org, account id.Account) (Connection, error)
	Disconnect(ctx context.Context, by audit.By, org id.Org, account id.Account) error
	// Reconnect returns a session to connect an account again, and its token. It reuses an open session.
	Reconnect(ctx context.Context, by audit.By, org id.Org, account id.Account) (link.Session, secret.String, error)
}
