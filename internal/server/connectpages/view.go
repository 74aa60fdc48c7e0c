package connectpages

import (
	"context"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// Org is who asks.
type Org struct {
	ID   id.Org
	Name string
	Page link.Page
	// Suspended means that its pages for connecting are closed.
	Suspended bool
}

// View is what a page may know of an attempt: masks and states, and nothing that signs in.
type View struct {
	Org Org
	ID  id.Attempt
	// Token is the one of the attempt's own pages.
	Token string
	// Version grows with every change.
	Version  int64
	State    attempt.State
	Progress attempt.Progress
	// Channel is where the code of the challenge comes from: sms, app, email, face. Channels are all that could be used.
	Channel  string
	Channels []string
	// EmailMask and PhoneMask say where a message went; empty if the platform does not tell.
	EmailMask, PhoneMask string
	// Actions are the contract's next_actions.
	Actions         []string
	SubmissionsLeft int
	// ResendAt is when another message may be asked for.
	ResendAt time.Time
	// PhoneURL is the address of the attempt's page for phones: what a QR shows.
	PhoneURL string
	// PlatformURL is where the platform itself takes the selfie or the approval; it is shown as a link and never logged.
	PlatformURL secret.String
	Failure     string
	// Account is the one that was connected.
	Account     id.Account
	ReferenceID string
	// Session is the hosted session that the attempt was started in, or empty.
	Session id.Session
	// ReturnURL is where the creator goes at the end, or empty.
	ReturnURL string
	// AllowedOrigins may frame the page.
	AllowedOrigins []string
	Locale         string
	UpdatedAt      time.Time
}

// Act is what a creator does on a page; exactly one of its fields is set.
type Act struct {
	Code       secret.String
	SelfieDone bool
	Channel    string
	Resend     bool
	SendEmail  bool
	Cancel     bool
}

// attempts are the attempts of links. Errors are problems: attempt-not-found for a token that we did not make.
type attempts interface {
	ByToken(ctx context.Context, token string) (View, error)
	// Wait returns when the attempt has another version than the given one, or after at most the given time.
	Wait(ctx context.Context, token string, version int64, atMost time.Duration) (View, error)
	// Act does what a creator asks for, and waits some seconds for what comes of a code.
	Act(ctx context.Context, token string, by audit.By, a Act) (View, error)
	// Start begins an attempt in a hosted session, in place of an older one for the same login.
	Start(ctx context.Context, by audit.By, s Start) error
	// Token is the one of an attempt of a session's.
	Token(ctx context.Context, org id.Org, attempt id.Attempt) (string, error)
}

// Start is what a creator has entered on a session's page.
type Start struct {
	Session link.Session
	// Kind is link.Credentials or link.MobileApp.
	Kind            string
	Email, Password secret.String
	// Remember is what becomes of the password; nil if none was entered.
	Remember *bool
	Consent  link.Consent
}

// sessions are the hosted sessions; *link.Sessions has it.
type sessions interface {
	ByToken(ctx context.Context, token string) (link.Session, error)
	Opened(ctx context.Context, it link.Session) error
	Exit(ctx context.Context, org id.Org, session id.Session) (link.Session, error)
}

// orgs tells who asks.
type orgs interface {
	Org(ctx context.Context, org id.Org) (Org, error)
}

// Connection is an account as its creator sees it.
type Connection struct {
	// Name is the account's on the platform, such as @luna.
	Name  string
	Since time.Time
	// Remembered means that the password is kept to sign in again.
	Remembered bool
	// Lost means that the account has no session any more, and its creator must connect it again.
	Lost bool
}

// connections are the accounts of manage links.
type connections interface {
	// Connection reads an account; account-not-found once it is disconnected.
	Connection(ctx context.Context, org id.Org, account id.Account) (Connection, error)
	Disconnect(ctx context.Context, by audit.By, org id.Org, account id.Account) error
	// Reconnect is the session in which an account is connected again, and its token: one that is open, or a new one.
	Reconnect(ctx context.Context, by audit.By, org id.Org, account id.Account) (link.Session, secret.String, error)
}

// links makes and reads the tokens of manage and reconnect links; *link.Links has it.
type links interface {
	Make(ctx context.Context, org id.Org, account id.Account) (secret.String, error)
	Read(ctx context.Context, token string) (id.Org, id.Account, error)
	ReadReconnect(ctx context.Context, token string, now time.Time) (id.Org, id.Account, error)
}
