package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Errors of Prepare and Connect.
var (
	// ErrMismatch means that the creator who signed in is not the creator of the account.
	ErrMismatch = errors.New("the creator who signed in is not the creator of the account")
	// ErrLimit means that the org has as many accounts as its plan allows.
	ErrLimit = errors.New("the org has as many accounts as its plan allows")
	// ErrRaced means that the account changed after Prepare. Roll back, prepare again and retry.
	ErrRaced = errors.New("the account has changed since the sign-in was prepared")
	// ErrFenced means that a sign-in with remembered credentials has lost its lease: another attempt holds it, or the
	// account has left reauthenticating.
	ErrFenced = errors.New("the sign-in has lost its lease")
)

// KindReauth is the kind of an attempt that signs in with remembered credentials.
const KindReauth = "reauth"

// Connected is the result of a finished sign-in.
type Connected struct {
	Org id.Org
	// Account is the account to connect again. If it is empty, the creator decides which account the sign-in is for.
	Account id.Account
	// Attempt is the attempt that signed in and Kind its flow: credentials, mobile_app, cookie, curl, token, oauth, reauth.
	Attempt  id.Attempt
	Kind     string
	Identity driver.Identity
	// Place is where the creator signed in.
	Place   driver.Place
	Session driver.Session
	// Credentials are what was used to sign in; nil for a flow without. They are stored only if the account remembers
	// credentials.
	Credentials *Credentials
	// Region, Label, Metadata and Remember are the settings of a new account. An existing account takes only those that
	// Named marks.
	Region, Label string
	Metadata      map[string]string
	Remember      bool
	Named         Named
	// ReferenceID replaces that of an existing account unless it is empty.
	ReferenceID string
	// MaxAccounts is the org's limit; negative for none.
	MaxAccounts int
	// SessionExpiresAt is zero if the platform does not report it.
	SessionExpiresAt time.Time
	// Consent is recorded if it has a Who; only a reauth has none.
	Consent Consent
}

// Named marks the settings that the caller of a sign-in has given explicitly.
type Named struct{ Region, Label, Metadata, Remember bool }

// Credentials are what a creator signs in with.
type Credentials struct{ Email, Password secret.String }

// Consent records who agreed to a connect, and to which text.
type Consent struct {
	// Kind is the flow of the attempt.
	Kind string
	// TextHash and TextVersion name the text that was shown or attested.
	TextHash, TextVersion string
	// Who is "creator" for a consent given on a connect page, or "caller" for one that an API caller attests.
	Who    string
	IPHash string
	At     time.Time
	// Attempt is set only by Consents.
	Attempt id.Attempt
}

// Prepared is a finished sign-in with its secrets sealed. Connect writes it in one transaction.
type Prepared struct {
	Connected
	account id.Account
	isNew   bool
	env     environment.Environment
	// version is the sealed version that session and credentials are sealed for.
	version              int64
	session, credentials []byte
}

// AccountID returns the account that Connect will write: an existing one, or the id chosen for a new one.
func (p Prepared) AccountID() id.Account { return p.account }

// Prepare finds the account that a sign-in belongs to, or chooses an id for a new one, creates its data key and seals
// the secrets. Sealing may call the KMS, so it happens here and not in Connect's transaction. Prepare does not write to
// the account. It fails with ErrMismatch, ErrLimit or account-not-found.
func (s *Accounts) Prepare(ctx context.Context, c Connected) (Prepared, error) {
	env, err := s.environment(ctx, c.Org)
	if err != nil {
		return Prepared{}, err
	}
	p := Prepared{Connected: c, env: env, version: 1}
	if c.Identity.ID == "" {
		return Prepared{}, errors.New("sign-in without a creator")
	}
	// Check the limit before looking for the creator. In the other order, a concurrent sign-in of the same creator could
	// create the account in between and use up the limit, and this one would fail although its account exists.
	full := checkAccountLimit(ctx, s.deps.DB, c)
	if p.account = c.Account; p.account == "" {
		if p.account, err = findByUpstream(ctx, s.deps.DB, c); err != nil {
			return Prepared{}, err
		}
	}
	if p.account == "" {
		p.account, p.isNew = id.New[id.Account](), true
		if full != nil {
			return Prepared{}, full
		}
	} else {
		a, err := getAccount(ctx, s.deps.DB, c.Org, p.account)
		if err != nil {
			return Prepared{}, err
		}
		if a.UpstreamID != c.Identity.ID || a.Place.Platform != c.Place.Platform || a.Place.SiteID != c.Place.SiteID {
			return Prepared{}, ErrMismatch
		}
		p.version = a.sealedVersion + 1
		if !c.Named.Remember {
			p.Remember = a.RememberCredentials
		}
	}
	return s.sealSecrets(ctx, p)
}

// sealSecrets returns p with its sealed session and, if the account remembers them, its sealed credentials.
func (s *Accounts) sealSecrets(ctx context.Context, p Prepared) (Prepared, error) {
	if err := s.deps.Seal.Prepare(ctx, p.Org, string(p.account)); err != nil {
		return Prepared{}, fmt.Errorf("create the data key of %s: %w", p.account, err)
	}
	var err error
	if p.session, err = s.deps.Seal.Seal(ctx, p.address(seal.PurposeSession), p.Session.Encode()); err != nil {
		return Prepared{}, fmt.Errorf("seal the session of %s: %w", p.account, err)
	}
	if p.Credentials == nil || !p.Remember {
		return p, nil
	}
	if p.credentials, err = s.deps.Seal.Seal(ctx, p.address(seal.PurposeCredentials), p.Credentials.encode()); err != nil {
		return Prepared{}, fmt.Errorf("seal the credentials of %s: %w", p.account, err)
	}
	return p, nil
}

func (p Prepared) address(purpose seal.Purpose) seal.Address {
	return seal.Address{Org: p.Org, Holder: string(p.account), Purpose: purpose, Version: p.version}
}

// Connect writes a prepared sign-in in the caller's transaction: a new account, or a new session of an existing one. If
// it fails, with ErrRaced, ErrLimit or ErrFenced among others, the caller must roll back. Call the returned AfterCommit
// once the transaction is committed.
func (s *Accounts) Connect(ctx context.Context, tx postgres.Tx, by audit.By, p Prepared) (Account, AfterCommit, error) {
	var (
		a       Account
		changes audit.Changes
		err     error
	)
	if p.isNew {
		a, changes, err = s.createAccount(ctx, tx, p)
	} else {
		a, changes, err = s.renewSession(ctx, tx, by, p)
	}
	if err != nil {
		return Account{}, nil, err
	}
	if err := s.storeSecrets(ctx, tx, a, p); err != nil {
		return Account{}, nil, err
	}
	if p.Consent.Who != "" {
		if err := insertConsent(ctx, tx, a, p.Attempt, p.Consent); err != nil {
			return Account{}, nil, err
		}
	}
	if err := s.deps.Audit.Record(ctx, tx, a.Org, by, string(a.ID), changes); err != nil {
		return Account{}, nil, err
	}
	return a, s.publishAfter(a), nil
}

func (s *Accounts) createAccount(ctx context.Context, tx postgres.Tx, p Prepared) (Account, audit.Changes, error) {
	// Lock the org's row, so that two concurrent sign-ins cannot both take the last account of the limit.
	if _, err := s.deps.Orgs.Lock(ctx, tx, p.Org); err != nil {
		return Account{}, nil, err
	}
	// A concurrent sign-in of the same creator may have created the account. Then the limit does not apply.
	if known, err := findByUpstream(ctx, tx, p.Connected); err != nil {
		return Account{}, nil, err
	} else if known != "" {
		return Account{}, nil, ErrRaced
	}
	if err := checkAccountLimit(ctx, tx, p.Connected); err != nil {
		return Account{}, nil, err
	}
	step, err := Next(Unborn, SignedIn, Facts{})
	if err != nil {
		return Account{}, nil, err
	}
	now, err := s.deps.DB.Now(ctx, tx)
	if err != nil {
		return Account{}, nil, err
	}
	a := Account{
		Org: p.Org, ID: p.account, Environment: p.env, Place: p.Place, UpstreamID: p.Identity.ID, State: step.To, StateChangedAt: now, CreatedAt: now,
		LastSeenAt: &now, LastCheckedAt: &now, SessionVersion: 1,
		inner: inner{sealedVersion: 1, signIn: 1},
	}
	a.Health = s.healthAfterSignIn(a, now)
	p.applyTo(&a, now)
	changes := audit.Changes{
		"state": {To: a.State}, "ofUserId": audit.Personal(nil, a.UpstreamID), "label": audit.Personal(nil, a.Label), "kind": {To: p.Kind},
		"attemptId": {To: p.Attempt}, "rememberCredentials": {To: a.RememberCredentials},
	}
	return a, changes, insertAccount(ctx, tx, a)
}

// renewSession gives an existing account a new session.
func (s *Accounts) renewSession(ctx context.Context, tx postgres.Tx, by audit.By, p Prepared) (Account, audit.Changes,
	error) {
	a, err := s.lockAccount(ctx, tx, Ref{p.Org, p.account})
	if err != nil {
		return Account{}, nil, err
	}
	// Pausing ended the lease (enterState), but the new session is still good for when the account is resumed.
	if p.Kind == KindReauth && p.Attempt != a.reauth.owner && a.State != Paused {
		return Account{}, nil, ErrFenced
	}
	if p.version != a.sealedVersion+1 {
		return Account{}, nil, ErrRaced
	}
	now, err := s.deps.DB.Now(ctx, tx)
	if err != nil {
		return Account{}, nil, err
	}
	before := a
	a.sealedVersion, a.signIn = p.version, a.signIn+1
	a.SessionVersion++
	p.applyTo(&a, now)
	cause := Cause{On: SignedIn, Attempt: p.Attempt}
	if p.Kind == KindReauth && a.State == Reauthenticating {
		cause.On = SignInSucceeded
	}
	step, err := s.applyTrigger(ctx, tx, by, &a, cause)
	if err != nil {
		return Account{}, nil, err
	}
	if a.State == Connecting {
		a.Health = s.healthAfterSignIn(a, now)
		// The account was connecting already, so enterState did not run: its socket still belongs to the old session.
		a.resetListener = a.resetListener || !step.Changed()
	}
	changes := changesOf(before, a)
	changes["kind"], changes["attemptId"] = audit.Change{To: p.Kind}, audit.Change{To: p.Attempt}
	return a, changes, saveAccount(ctx, tx, a)
}

// healthAfterSignIn returns the health of a connecting account. The sign-in has just used the session, which counts as
// its first probe. If the platform has events, the account becomes active when its listener is up, and a probe is due only when
// that takes too long. Without events a probe is due immediately.
func (s *Accounts) healthAfterSignIn(a Account, now time.Time) Health {
	if !s.listens(a) {
		return Health{ProbeAt: &now}
	}
	until := now.Add(listenerWait)
	return Health{Successes: SuccessesNeeded(Connecting), ProbeAt: &until}
}

// applyTo copies the result of the sign-in into the account.
func (p Prepared) applyTo(a *Account, now time.Time) {
	a.Username, a.DisplayName, a.AvatarURL = p.Identity.Username, p.Identity.Name, ""
	if p.Identity.AvatarURL != nil {
		a.AvatarURL = *p.Identity.AvatarURL
	}
	a.Attempt, a.AttemptKind = p.Attempt, p.Kind
	// The site's address may have moved since the last sign-in.
	a.Place.Site, a.Place.Root, a.Credentials = p.Place.Site, p.Place.Root, p.Session.Credentials()
	if a.PendingAttempt == p.Attempt {
		a.PendingAttempt = ""
	}
	if p.isNew || p.Named.Region {
		a.Region = p.Region
	}
	if p.isNew || p.Named.Label {
		a.Label = p.Label
	}
	if p.isNew || p.Named.Metadata {
		a.Metadata = p.Metadata
	}
	if p.ReferenceID != "" {
		a.ReferenceID = p.ReferenceID
	}
	if p.isNew || p.Named.Remember {
		a.RememberCredentials = p.Remember && p.credentials != nil
	}
	if a.Credentials != catalog.BySession {
		// A password from before must not replace the key or the authorisation when that ends.
		a.RememberCredentials = false
	}
	a.SessionExpiresAt = nil
	if !p.SessionExpiresAt.IsZero() {
		ends := p.SessionExpiresAt.UTC().Truncate(time.Microsecond)
		a.SessionExpiresAt = &ends
	}
	a.warnAt = nextWarning(a.SessionExpiresAt, now)
}

// storeSecrets stores the sealed session and credentials, and deletes credentials that the account no longer remembers.
func (s *Accounts) storeSecrets(ctx context.Context, tx postgres.Tx, a Account, p Prepared) error {
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

// Consents lists the consents to the account's connects, oldest first. They outlive the account.
func (s *Accounts) Consents(ctx context.Context, owner id.Org, account id.Account) ([]Consent, error) {
	return listConsents(ctx, s.deps.DB, owner, account)
}

// storedCredentials is the JSON form of credentials that is sealed.
type storedCredentials struct {
	Email    string `json:"email"`
	Password string `json:"password"`
}

func (c Credentials) encode() secret.String {
	text, err := json.Marshal(storedCredentials{c.Email.Reveal(), c.Password.Reveal()})
	if err != nil {
		panic("encode credentials: " + err.Error())
	}
	return secret.New(string(text))
}

func decodeCredentials(text secret.String) (Credentials, error) {
	var c storedCredentials
	if json.Unmarshal([]byte(text.Reveal()), &c) != nil {
		return Credentials{}, errors.New("stored credentials cannot be decoded")
	}
	return Credentials{secret.New(c.Email), secret.New(c.Password)}, nil
}
