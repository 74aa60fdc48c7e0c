package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// How a finished sign-in can fail to become an account.
var (
	// ErrMismatch means that the sign-in is of another creator than the account is.
	ErrMismatch = errors.New("the sign-in is of another creator than the account")
	// ErrLimit means that the org has as many accounts as it may have.
	ErrLimit = errors.New("the org has as many accounts as its plan allows")
	// ErrRaced means that the account changed since it was prepared: roll back, prepare again, repeat.
	ErrRaced = errors.New("the account has changed meanwhile")
	// ErrFenced means that a sign-in with remembered credentials has lost its lease: another one has taken over, or the account moved on.
	ErrFenced = errors.New("another sign-in has taken over")
)

// KindReauth is the kind of an attempt that signs in with remembered credentials.
const KindReauth = "reauth"

// Connected is what a finished sign-in knows.
type Connected struct {
	Org id.Org
	// Account is the one that is to be connected again; empty to go by the creator alone.
	Account id.Account
	// Attempt is the sign-in and Kind its flow: credentials, mobile_app, cookie, curl, reauth.
	Attempt  id.Attempt
	Kind     string
	Identity driver.Identity
	Session  driver.Session
	// Credentials are those that signed in; nil if there were none. They are kept only by an account that remembers credentials.
	Credentials *Credentials
	// Region, Label, Metadata and Remember are for a new account. One that is there already takes those that Named says and keeps its
	// own for the rest.
	Region, Label string
	Metadata      map[string]string
	Remember      bool
	Named         Named
	// ReferenceID is empty to leave that of an account that is there already.
	ReferenceID string
	// MaxAccounts is the org's limit; negative for none.
	MaxAccounts int
	// SessionExpiresAt is zero if the platform does not say.
	SessionExpiresAt time.Time
	// Consent is without Who only for a reauth.
	Consent Consent
}

// Named says which settings of an account the caller of a sign-in has named.
type Named struct{ Region, Label, Metadata, Remember bool }

// Credentials are what a creator signs in with.
type Credentials struct{ Email, Password secret.String }

// Consent is who agreed to a connect, and to which text.
type Consent struct {
	// Kind is the flow, as that of the attempt.
	Kind string
	// TextHash and TextVersion name the text that was shown or attested.
	TextHash, TextVersion string
	// Who is creator, on the hosted page, or caller, who attests it.
	Who    string
	IPHash string
	At     time.Time
	// Attempt is filled in when it is read.
	Attempt id.Attempt
}

// Prepared is a finished sign-in with everything sealed, ready to be written in one transaction.
type Prepared struct {
	Connected
	account id.Account
	fresh   bool
	env     org.Environment
	// version is the one that the session is sealed for.
	version              int64
	session, credentials []byte
}

// AccountID is the account that the sign-in becomes.
func (p Prepared) AccountID() id.Account { return p.account }

// Prepare finds the account that a sign-in belongs to, or chooses an id for a new one, makes its data key and seals. It writes nothing
// to the accounts. It fails with ErrMismatch, ErrLimit, or account-not-found.
func (s *Accounts) Prepare(ctx context.Context, c Connected) (Prepared, error) {
	env, err := s.environment(ctx, c.Org)
	if err != nil {
		return Prepared{}, err
	}
	p := Prepared{Connected: c, env: env, version: 1}
	if c.Identity.ID == "" {
		return Prepared{}, errors.New("a sign-in without a creator")
	}
	// Asked before the creator is looked for: who then finds none has not been outrun by a sign-in that took the last place.
	full := roomFor(ctx, s.DB.Pool(), c)
	if p.account = c.Account; p.account == "" {
		if p.account, err = byUpstream(ctx, s.DB.Pool(), c.Org, c.Identity.ID); err != nil {
			return Prepared{}, err
		}
	}
	if p.account == "" {
		p.account, p.fresh = id.New[id.Account](), true
		if full != nil {
			return Prepared{}, full
		}
	} else {
		a, err := get(ctx, s.DB.Pool(), c.Org, p.account)
		if err != nil {
			return Prepared{}, err
		}
		if a.UpstreamID != c.Identity.ID {
			return Prepared{}, ErrMismatch
		}
		p.version = a.sealedVersion + 1
		if !c.Named.Remember {
			p.Remember = a.RememberCredentials
		}
	}
	return s.sealed(ctx, p)
}

// sealed adds what the account keeps, sealed.
func (s *Accounts) sealed(ctx context.Context, p Prepared) (Prepared, error) {
	if err := s.Seal.Prepare(ctx, p.Org, string(p.account)); err != nil {
		return Prepared{}, fmt.Errorf("make the data key of %s: %w", p.account, err)
	}
	var err error
	if p.session, err = s.Seal.Seal(ctx, p.address(seal.PurposeSession), p.Session.Encode()); err != nil {
		return Prepared{}, fmt.Errorf("seal the session of %s: %w", p.account, err)
	}
	if p.Credentials == nil || !p.Remember {
		return p, nil
	}
	if p.credentials, err = s.Seal.Seal(ctx, p.address(seal.PurposeCredentials), p.Credentials.encode()); err != nil {
		return Prepared{}, fmt.Errorf("seal the credentials of %s: %w", p.account, err)
	}
	return p, nil
}

func (p Prepared) address(purpose seal.Purpose) seal.Address {
	return seal.Address{Org: p.Org, Holder: string(p.account), Purpose: purpose, Version: p.version}
}

// Connect writes a prepared sign-in within a transaction: a new account, or a new session of one that is there. It fails with ErrRaced,
// ErrLimit or ErrFenced, and then the transaction must be rolled back. Call after once it is committed.
func (s *Accounts) Connect(ctx context.Context, tx postgres.Tx, by audit.By, p Prepared) (Account, After, error) {
	var (
		a       Account
		changes audit.Changes
		err     error
	)
	if p.fresh {
		a, changes, err = s.create(ctx, tx, p)
	} else {
		a, changes, err = s.renew(ctx, tx, by, p)
	}
	if err != nil {
		return Account{}, nil, err
	}
	if err := s.keep(ctx, tx, a, p); err != nil {
		return Account{}, nil, err
	}
	if p.Consent.Who != "" {
		if err := insertConsent(ctx, tx, a, p.Attempt, p.Consent); err != nil {
			return Account{}, nil, err
		}
	}
	if err := s.Audit.Record(ctx, tx, a.Org, by, string(a.ID), changes); err != nil {
		return Account{}, nil, err
	}
	return a, s.after(a), nil
}

// create makes a new account.
func (s *Accounts) create(ctx context.Context, tx postgres.Tx, p Prepared) (Account, audit.Changes, error) {
	// Locks the org's row, so that two sign-ins at once cannot both be the last one allowed.
	if _, err := s.Orgs.Lock(ctx, tx, p.Org); err != nil {
		return Account{}, nil, err
	}
	// Another sign-in of the same creator may have been faster; that is no question of room.
	if known, err := byUpstream(ctx, tx, p.Org, p.Identity.ID); err != nil {
		return Account{}, nil, err
	} else if known != "" {
		return Account{}, nil, ErrRaced
	}
	if err := roomFor(ctx, tx, p.Connected); err != nil {
		return Account{}, nil, err
	}
	step, err := Next(Unborn, SignedIn, Facts{})
	if err != nil {
		return Account{}, nil, err
	}
	now, err := s.DB.Now(ctx, tx)
	if err != nil {
		return Account{}, nil, err
	}
	a := Account{
		Org: p.Org, ID: p.account, Environment: p.env, UpstreamID: p.Identity.ID, State: step.To, StateChangedAt: now, CreatedAt: now,
		LastSeenAt: &now, LastCheckedAt: &now, SessionVersion: 1, Health: s.signedIn(now), inner: inner{sealedVersion: 1, signIn: 1},
	}
	p.fill(&a, now)
	return a, audit.Changes{
		"state": {To: a.State}, "ofUserId": {To: a.UpstreamID}, "label": {To: a.Label}, "kind": {To: p.Kind}, "attemptId": {To: p.Attempt},
		"rememberCredentials": {To: a.RememberCredentials},
	}, insert(ctx, tx, a)
}

// renew gives an account that is there a new session.
func (s *Accounts) renew(ctx context.Context, tx postgres.Tx, by audit.By, p Prepared) (Account, audit.Changes, error) {
	a, err := s.locked(ctx, tx, Ref{p.Org, p.account})
	if err != nil {
		return Account{}, nil, err
	}
	if p.Kind == KindReauth && p.Attempt != a.reauth.owner && a.State != Paused {
		return Account{}, nil, ErrFenced
	}
	if p.version != a.sealedVersion+1 {
		return Account{}, nil, ErrRaced
	}
	now, err := s.DB.Now(ctx, tx)
	if err != nil {
		return Account{}, nil, err
	}
	before := a
	a.sealedVersion, a.signIn = p.version, a.signIn+1
	a.SessionVersion++
	p.fill(&a, now)
	cause := Cause{On: SignedIn, Attempt: p.Attempt}
	if p.Kind == KindReauth && a.State == Reauthenticating {
		cause.On = SignInSucceeded
	}
	step, err := s.move(ctx, tx, by, &a, cause)
	if err != nil {
		return Account{}, nil, err
	}
	if a.State == Connecting {
		a.Health = s.signedIn(now)
		a.hungUp = a.hungUp || !step.Changed()
	}
	changes := changesOf(before, a)
	changes["kind"], changes["attemptId"] = audit.Change{To: p.Kind}, audit.Change{To: p.Attempt}
	return a, changes, save(ctx, tx, a)
}

// signedIn is the health of an account in connecting whose session a sign-in has just proved. That was its first probe. It needs no other
// unless its listener does not come up; an account without a listener becomes active by a probe.
func (s *Accounts) signedIn(now time.Time) Health {
	if !s.Config.Listens {
		return Health{ProbeAt: &now}
	}
	until := now.Add(listenerWait)
	return Health{Goods: GoodsNeeded(Connecting), ProbeAt: &until}
}

// fill puts what the sign-in says into the account.
func (p Prepared) fill(a *Account, now time.Time) {
	a.Username, a.DisplayName, a.AvatarURL = p.Identity.Username, p.Identity.Name, ""
	if p.Identity.AvatarURL != nil {
		a.AvatarURL = *p.Identity.AvatarURL
	}
	a.Attempt, a.AttemptKind = p.Attempt, p.Kind
	if a.PendingAttempt == p.Attempt {
		a.PendingAttempt = ""
	}
	if p.fresh || p.Named.Region {
		a.Region = p.Region
	}
	if p.fresh || p.Named.Label {
		a.Label = p.Label
	}
	if p.fresh || p.Named.Metadata {
		a.Metadata = p.Metadata
	}
	if p.ReferenceID != "" {
		a.ReferenceID = p.ReferenceID
	}
	if p.fresh || p.Named.Remember {
		a.RememberCredentials = p.Remember && p.credentials != nil
	}
	a.SessionExpiresAt = nil
	if !p.SessionExpiresAt.IsZero() {
		ends := p.SessionExpiresAt.UTC().Truncate(time.Microsecond)
		a.SessionExpiresAt = &ends
	}
	a.warnAt = nextWarning(a.SessionExpiresAt, now)
}

// keep stores what was sealed, and forgets credentials that are not to be remembered any more.
func (s *Accounts) keep(ctx context.Context, tx postgres.Tx, a Account, p Prepared) error {
	if err := putSecret(ctx, tx, p.address(seal.PurposeSession), p.session); err != nil {
		return err
	}
	switch {
	case !a.RememberCredentials:
		return dropSecret(ctx, tx, a, seal.PurposeCredentials)
	case p.credentials != nil:
		return putSecret(ctx, tx, p.address(seal.PurposeCredentials), p.credentials)
	}
	return nil
}

// Consents lists who agreed to the account's connects, oldest first. They outlive the account.
func (s *Accounts) Consents(ctx context.Context, owner id.Org, account id.Account) ([]Consent, error) {
	return consents(ctx, s.DB.Pool(), owner, account)
}

// storedCredentials is the form that is sealed.
type storedCredentials struct {
	Email    string `json:"email"`
	Password string `json:"password"`
}

func (c Credentials) encode() secret.String {
	text, err := json.Marshal(storedCredentials{c.Email.Reveal(), c.Password.Reveal()})
	if err != nil {
		panic("credentials are texts: " + err.Error())
	}
	return secret.New(string(text))
}

func decodeCredentials(text secret.String) (Credentials, error) {
	var c storedCredentials
	if json.Unmarshal([]byte(text.Reveal()), &c) != nil {
		return Credentials{}, errors.New("what was stored are no credentials")
	}
	return Credentials{secret.New(c.Email), secret.New(c.Password)}, nil
}
