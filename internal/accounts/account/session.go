package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Session opens an account's session for a call, or refuses as the account's state demands.
func (s *Accounts) Session(ctx context.Context, owner id.Org, account id.Account) (Account, driver.Session, error) {
	a, sealed, err := withSession(ctx, s.DB.Pool(), owner, account)
	if err != nil {
		return Account{}, driver.Session{}, err
	}
	if a, err = s.placed(ctx, a); err != nil {
		return Account{}, driver.Session{}, err
	}
	if err := s.Refusal(a); err != nil {
		return a, driver.Session{}, err
	}
	session, err := s.open(ctx, a, sealed)
	return a, session, err
}

// Stored opens an account's session whatever its state, for a probe.
func (s *Accounts) Stored(ctx context.Context, owner id.Org, account id.Account) (Account, driver.Session, error) {
	a, sealed, err := withSession(ctx, s.DB.Pool(), owner, account)
	if err != nil {
		return Account{}, driver.Session{}, err
	}
	if a, err = s.placed(ctx, a); err != nil {
		return Account{}, driver.Session{}, err
	}
	session, err := s.open(ctx, a, sealed)
	return a, session, err
}

// reauthRetry is how many seconds a caller waits while the account signs in again.
const reauthRetry = 5

// Refusal is why no call can be made in the account's state; nil if one can.
func (s *Accounts) Refusal(a Account) error {
	switch a.State {
	case Connecting, Active, Degraded:
		return nil
	case Reauthenticating:
		return problem.AccountReauthenticating.New("The account's session ended and a new one is being fetched.").After(reauthRetry)
	case ReconnectRequired:
		return disconnected(a)
	case Restricted:
		return problem.UpstreamAccountRestricted.New("The platform has locked or limited this account.")
	case Paused:
		return problem.AccountPaused.New("The account is paused.")
	case Disconnected, Unborn:
	}
	return notFound()
}

// disconnected reports that a person must connect the account again. Where they can is added for callers who may know.
func disconnected(a Account) error {
	return problem.AccountDisconnected.New("The account has no session that the platform accepts. Its creator must connect it again.").
		With("accountId", a.ID)
}

// SameSession says whether both have the very same session, cookies and all.
func (a Account) SameSession(b Account) bool {
	return a.signIn == b.signIn && a.sealedVersion == b.sealedVersion
}

func sessionAddress(a Account) seal.Address {
	return seal.Address{Org: a.Org, Holder: string(a.ID), Purpose: seal.PurposeSession, Version: a.sealedVersion}
}

func (s *Accounts) open(ctx context.Context, a Account, sealed []byte) (driver.Session, error) {
	if sealed == nil {
		return driver.Session{}, disconnected(a)
	}
	text, err := s.Seal.Open(ctx, sessionAddress(a), sealed)
	if err != nil {
		return driver.Session{}, sealProblem(a, err)
	}
	session, err := driver.DecodeSession(text)
	if err != nil {
		return driver.Session{}, fmt.Errorf("session of %s: %w", a.ID, err)
	}
	return session, nil
}

// sealProblem is what a caller is told when the seal does not open.
func sealProblem(a Account, err error) error {
	switch {
	case errors.Is(err, seal.ErrShredded): // it is being disconnected
		return notFound()
	case errors.Is(err, seal.ErrUnavailable):
		return problem.ServiceUnavailable.New("The keys of this account cannot be read now.").After(reauthRetry).Because(err)
	}
	return fmt.Errorf("open what is sealed of %s: %w", a.ID, err)
}

// rotateTries is how often a rotation is merged into what another node has stored meanwhile.
const rotateTries = 3

// Rotate stores the cookies that an answer of the platform changed. Names are those that changed, session has their new values, and a
// is the account whose session was sent. Another node may have stored other cookies meanwhile: both count. A session that was opened
// by another sign-in since is left alone.
func (s *Accounts) Rotate(ctx context.Context, a Account, names []string, session driver.Session) (Account, error) {
	if len(names) == 0 {
		return a, nil
	}
	next := session
	for range rotateTries {
		stored, err := s.rotateOnce(ctx, a, next)
		if err != nil {
			return a, err
		}
		if stored != nil {
			s.tell(ctx, *stored)
			return *stored, nil
		}
		current, theirs, err := s.Stored(ctx, a.Org, a.ID)
		if err != nil {
			return a, err
		}
		if current.signIn != a.signIn {
			return current, nil // these cookies belong to a session that is gone
		}
		// Where both changed the same cookie ours came in later, as far as anybody can tell.
		a, next = current, theirs.Merge(session, names)
	}
	return a, fmt.Errorf("the session of %s changes too fast to store a rotation", a.ID)
}

// rotateOnce stores the next version of a session; nil if the account has another version than a.
func (s *Accounts) rotateOnce(ctx context.Context, a Account, session driver.Session) (*Account, error) {
	a.sealedVersion++
	if c := s.Catalogs[a.Environment]; c != nil {
		if ends := session.ExpiresAt(c).UTC().Truncate(time.Microsecond); !ends.IsZero() {
			now, err := s.Time(ctx)
			if err != nil {
				return nil, err
			}
			a.SessionExpiresAt, a.warnAt = &ends, nextWarning(&ends, now)
		}
	}
	sealed, err := s.Seal.Seal(ctx, sessionAddress(a), session.Encode())
	if err != nil {
		return nil, sealProblem(a, err)
	}
	var changed bool
	err = s.DB.Tx(ctx, func(tx postgres.Tx) error {
		changed, err = rotate(ctx, tx, &a, sealed)
		return err
	})
	if err != nil || !changed {
		return nil, err
	}
	return &a, nil
}

// Credentials opens the credentials that are remembered.
func (s *Accounts) Credentials(ctx context.Context, owner id.Org, account id.Account) (Credentials, error) {
	a, err := get(ctx, s.DB.Pool(), owner, account)
	if err != nil {
		return Credentials{}, err
	}
	at, sealed, err := getSecret(ctx, s.DB.Pool(), a, seal.PurposeCredentials)
	if err != nil {
		return Credentials{}, err
	}
	if sealed == nil || !a.RememberCredentials {
		return Credentials{}, credentialsMissing()
	}
	text, err := s.Seal.Open(ctx, at, sealed)
	if err != nil {
		return Credentials{}, sealProblem(a, err)
	}
	return decodeCredentials(text)
}

func credentialsMissing() error {
	return problem.CredentialsMissing.New("The account's credentials are not remembered, so it cannot sign in by itself.")
}

// seenEvery is how often a success of one account is written down.
const seenEvery = time.Minute

// Seen notes that the platform accepted the session. It costs nothing more than once a minute. An active account that is used is not
// probed.
func (s *Accounts) Seen(ctx context.Context, a Account) error {
	now := s.Now() // only for how much this node writes
	if last, ok := s.seen.Get(a.ID); ok && now.Sub(last) < seenEvery {
		return nil
	}
	fresh := false
	s.seen.Change(a.ID, func(last time.Time, found bool) (time.Time, cache.Outcome) {
		if found && now.Sub(last) < seenEvery {
			return last, cache.Keep
		}
		fresh = true
		return now, cache.Replace
	})
	if !fresh {
		return nil
	}
	now, err := s.Time(ctx)
	if err != nil {
		return err
	}
	var next *time.Time
	if a.State == Active {
		next = probeAt(Active, now)
	}
	return seenAt(ctx, s.DB.Pool(), a, now, next)
}
