package operator

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/operate/operator/internal/db"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

const (
	// idleTimeout signs out a browser that is not used.
	idleTimeout = time.Hour
	// Lifetime signs out every browser.
	Lifetime = 8 * time.Hour
	// cookieChars is the length of a cookie: 256 bits in base64.
	cookieChars = 43
)

// Claims are an identity provider's statements about a person. The caller has checked that Email is verified.
type Claims struct {
	Issuer, Subject, Email, Name string
	Groups                       []string
}

// Session is a browser in which an operator is signed in.
type Session struct {
	ID id.BrowserSession
	// Operator is the operator with the current role, which is empty for a person who is no operator any more.
	Operator                         Operator
	Name, UserAgent                  string
	CreatedAt, LastSeenAt, ExpiresAt time.Time
}

// ErrNoRole means that a person is no operator.
var ErrNoRole = errors.New("the person has no role")

// SignIn signs in a person, and returns the value of a cookie.
func (o *Operators) SignIn(ctx context.Context, by audit.By, c Claims, userAgent string) (secret.String, error) {
	email, ok := member.CleanEmail(c.Email)
	if !ok || c.Issuer == "" || c.Subject == "" || c.Subject == TokenID {
		return secret.String{}, ErrNoRole
	}
	role, err := o.roleOf(ctx, email, c.Groups)
	if err != nil {
		return secret.String{}, err
	}
	if role == "" {
		return secret.String{}, ErrNoRole
	}
	by.ID, by.Label = c.Subject, email
	return o.open(ctx, by, role, db.AddSessionParams{
		Issuer: c.Issuer, Subject: c.Subject, Email: email, Name: c.Name, GroupNames: c.Groups, UserAgent: userAgent,
	})
}

// SignInWithToken signs in a browser with a token, which IsToken has accepted.
func (o *Operators) SignInWithToken(ctx context.Context, by audit.By, token secret.String, name, userAgent string) (secret.String, error) {
	by.ID, by.Label = TokenID, name
	return o.open(ctx, by, Owner, db.AddSessionParams{Name: name, Token: fingerprint(token), UserAgent: userAgent})
}

// open writes a session. The sign-in is recorded in the operators' audit log.
func (o *Operators) open(ctx context.Context, by audit.By, role Role, p db.AddSessionParams) (secret.String, error) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	cookie := secret.New(base64.RawURLEncoding.EncodeToString(raw))
	h := hashOf(cookie)
	p.ID, p.Hash, p.Lifetime = id.New[id.BrowserSession](), h[:], Lifetime
	p.UserAgent = p.UserAgent[:min(len(p.UserAgent), maxUserAgent)]
	if p.GroupNames == nil {
		p.GroupNames = []string{}
	}
	by.Kind, by.Action = audit.ActorOperator, "operator.sign_in"
	err := o.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		row, err := db.New(tx).AddSession(ctx, p)
		if err != nil {
			return err
		}
		return o.deps.Audit.Record(ctx, tx, audit.Operators, by, string(row.ID), audit.Changes{"role": {To: string(role)}, "until": {To: row.EndsAt}})
	})
	return cookie, err
}

// maxUserAgent bounds what is stored of a User-Agent, in bytes.
const maxUserAgent = 256

// Find returns the operator of a cookie, or the problem signed-out.
func (o *Operators) Find(ctx context.Context, cookie secret.String) (Operator, error) {
	if len(cookie.Reveal()) != cookieChars {
		return Operator{}, signedOut()
	}
	h := hashOf(cookie)
	q := db.New(o.deps.DB)
	found, err := q.FindSession(ctx, db.FindSessionParams{Hash: h[:], Idle: idleTimeout})
	if errors.Is(err, postgres.ErrNoRows) {
		return Operator{}, signedOut()
	}
	if err != nil {
		return Operator{}, err
	}
	who, err := o.operatorOf(ctx, found.OperatorSession)
	if err != nil {
		return Operator{}, err
	}
	if who.Role == "" {
		return Operator{}, signedOut()
	}
	if found.Stale {
		if err := q.Seen(ctx, who.Session); err != nil {
			return Operator{}, err
		}
	}
	return who, nil
}

// operatorOf returns the operator of a session with the current role.
func (o *Operators) operatorOf(ctx context.Context, row db.OperatorSession) (Operator, error) {
	who, current := Operator{ID: TokenID, Label: row.Name, Session: row.ID}, row.Issuer == o.deps.Config.Issuer
	if row.Token == nil {
		who.ID, who.Label = row.Subject, row.Email
	}
	var err error
	switch {
	case !current:
	case row.Token == nil:
		who.Role, err = o.roleOf(ctx, row.Email, row.GroupNames)
	default:
		var valid bool
		if valid, err = o.hasToken(ctx, row.Token); valid {
			who.Role = Owner
		}
	}
	return who, err
}

func signedOut() error { return problem.SignedOut.New("Sign in again at /ops/sign-in.") }

// SignOut ends the session of a cookie. It returns nil if the browser is not signed in.
func (o *Operators) SignOut(ctx context.Context, by audit.By, cookie secret.String) error {
	who, err := o.Find(ctx, cookie)
	if errors.Is(err, signedOut()) {
		return nil
	}
	if err != nil {
		return err
	}
	by.Kind, by.ID, by.Label, by.Action = audit.ActorOperator, who.ID, who.Label, "operator.sign_out"
	err = o.End(ctx, by, string(who.Session))
	if errors.Is(err, sessionNotFound()) {
		return nil // another request was quicker
	}
	return err
}

// End ends a session, or returns the problem browser-session-not-found. The next request of the browser is refused.
func (o *Operators) End(ctx context.Context, by audit.By, session string) error {
	which, err := id.Parse[id.BrowserSession](session)
	if err != nil {
		return sessionNotFound()
	}
	return o.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		row, err := db.New(tx).EndSession(ctx, which)
		if errors.Is(err, postgres.ErrNoRows) {
			return sessionNotFound()
		}
		if err != nil {
			return err
		}
		whose := row.Email
		if row.Token != nil {
			whose = row.Name
		}
		return o.deps.Audit.Record(ctx, tx, audit.Operators, by, session, audit.Changes{"operator": {From: whose}})
	})
}

func sessionNotFound() error {
	return problem.BrowserNotFound.New("No operator is signed in with this session.")
}

// Sessions lists the browsers that are signed in, newest first.
func (o *Operators) Sessions(ctx context.Context) ([]Session, error) {
	rows, err := db.New(o.deps.DB).Sessions(ctx, idleTimeout)
	if err != nil {
		return nil, err
	}
	list := make([]Session, len(rows))
	for i, row := range rows {
		who, err := o.operatorOf(ctx, row)
		if err != nil {
			return nil, err
		}
		ends := row.LastSeenAt.Add(idleTimeout)
		if row.EndsAt.Before(ends) {
			ends = row.EndsAt
		}
		list[i] = Session{row.ID, who, row.Name, row.UserAgent, row.CreatedAt, row.LastSeenAt, ends}
	}
	return list, nil
}

// Trim deletes sessions that ended long ago.
func (o *Operators) Trim(ctx context.Context) error { return db.New(o.deps.DB).TrimSessions(ctx) }
