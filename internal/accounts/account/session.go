package account

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Session reads and opens an account's session for a call, or returns the problem that the account's state demands.
// Ready does the same with a cache.
func (s *Accounts) Session(ctx context.Context, owner id.Org, account id.Account) (Account, driver.Session, error) {
	a, sealed, err := s.readSealed(ctx, Ref{owner, account})
	if err != nil {
		return Account{}, driver.Session{}, err
	}
	if err := s.Refusal(a); err != nil {
		return a, driver.Session{}, err
	}
	return s.openFresh(ctx, a, sealed)
}

// StoredSession opens an account's session whatever its state, for a probe.
func (s *Accounts) StoredSession(ctx context.Context, owner id.Org, account id.Account) (Account, driver.Session,
	error) {
	a, sealed, err := s.readSealed(ctx, Ref{owner, account})
	if err != nil {
		return Account{}, driver.Session{}, err
	}
	return s.openFresh(ctx, a, sealed)
}

// stored opens an account's session in any state, without refreshing it.
func (s *Accounts) stored(ctx context.Context, ref Ref) (Account, driver.Session, error) {
	a, sealed, err := s.readSealed(ctx, ref)
	if err != nil {
		return Account{}, driver.Session{}, err
	}
	session, err := s.openSession(ctx, a, sealed)
	return a, session, err
}

// readSealed reads an account with its environment and its sealed session.
func (s *Accounts) readSealed(ctx context.Context, ref Ref) (Account, []byte, error) {
	a, sealed, err := getWithSession(ctx, s.deps.DB, ref.Org, ref.Account)
	if err != nil {
		return Account{}, nil, err
	}
	a, err = s.withEnvironment(ctx, a)
	return a, sealed, err
}

// reauthRetry is the Retry-After, in seconds, while the account signs in again.
const reauthRetry = 5

// Refusal returns the problem with which calls fail in the account's state; nil if calls can run.
func (s *Accounts) Refusal(a Account) error {
	switch a.State {
	case Connecting, Active, Degraded:
		return nil
	case Reauthenticating:
		return problem.AccountReauthenticating.New(
			"The account's session has ended. We are signing in again automatically.").After(reauthRetry)
	case ReconnectRequired:
		return disconnectedProblem(a)
	case Restricted:
		return problem.UpstreamAccountRestricted.New("The platform has locked or limited this account.")
	case Paused:
		return problem.AccountPaused.New("The account is paused.")
	case Disconnected, Unborn:
	}
	return notFound()
}

// disconnectedProblem says that a person must connect the account again. The server adds the link for keys that may
// see it.
func disconnectedProblem(a Account) error {
	return problem.AccountDisconnected.New("The account has no session that the platform accepts. Its creator must connect it again.").
		With("accountId", a.ID)
}

// SameSession reports whether both snapshots have the same session, including its cookies.
func (a Account) SameSession(b Account) bool {
	return a.signIn == b.signIn && a.sealedVersion == b.sealedVersion
}

func sessionAddress(a Account) seal.Address {
	return seal.Address{Org: a.Org, Holder: string(a.ID), Purpose: seal.PurposeSession, Version: a.sealedVersion}
}

func (s *Accounts) openSession(ctx context.Context, a Account, sealed []byte) (driver.Session, error) {
	if sealed == nil {
		return driver.Session{}, disconnectedProblem(a)
	}
	text, err := s.deps.Seal.Open(ctx, sessionAddress(a), sealed)
	if err != nil {
		return driver.Session{}, sealProblem(a, err)
	}
	session, err := driver.DecodeSession(text)
	if err != nil {
		return driver.Session{}, fmt.Errorf("session of %s: %w", a.ID, err)
	}
	return session, nil
}

// sealProblem converts an error of the sealer for the caller.
func sealProblem(a Account, err error) error {
	switch {
	case errors.Is(err, seal.ErrShredded): // the account is being disconnected
		return notFound()
	case errors.Is(err, seal.ErrUnavailable):
		return problem.ServiceUnavailable.New("The keys of this account cannot be read now.").After(reauthRetry).Because(err)
	}
	return fmt.Errorf("unseal a secret of %s: %w", a.ID, err)
}

// rotateTries bounds how often Rotate merges its cookies into a session that another node has stored in between.
const rotateTries = 3

// Rotate stores the cookies that a response of the platform changed, and returns the account as it is stored. a is the
// account whose session was sent, names are the cookies that changed, and session holds their new values. If another
// node has stored other cookies since, both sets are kept. If another sign-in has replaced the session since, the
// cookies are dropped. If the database cannot be reached, Rotate fails, and the cookies are stored once it can be.
func (s *Accounts) Rotate(ctx context.Context, a Account, names []string, session driver.Session) (Account, error) {
	if len(names) == 0 {
		return a, nil
	}
	next, err := s.rotate(ctx, a, names, session)
	switch {
	case err == nil:
		s.rotations.drop(a.ID)
	case isOutage(err):
		s.storeLater(ctx, rotation{a, names, session})
	}
	return next, err
}

func (s *Accounts) rotate(ctx context.Context, a Account, names []string, session driver.Session) (Account, error) {
	next := session
	for range rotateTries {
		stored, err := s.tryRotate(ctx, a, next)
		if err != nil {
			return a, err
		}
		if stored != nil {
			s.publishVersion(ctx, *stored)
			return *stored, nil
		}
		current, theirs, err := s.stored(ctx, Ref{a.Org, a.ID})
		if err != nil {
			return a, err
		}
		if current.signIn != a.signIn {
			return current, nil // the cookies belong to a session that was replaced
		}
		// If both changed the same cookie, ours wins: as far as this node can tell, it is the later one.
		a, next = current, theirs.Merge(session, names)
	}
	return a, fmt.Errorf("store rotated cookies of %s: too many concurrent rotations", a.ID)
}

// tryRotate stores the next version of a session and returns the new account; nil if the stored version is not a's.
func (s *Accounts) tryRotate(ctx context.Context, a Account, session driver.Session) (*Account, error) {
	a.sealedVersion++
	if p, ok := s.deps.Platforms(a.Place.Platform); ok {
		if ends := session.ExpiresAt(p.Catalog).UTC().Truncate(time.Microsecond); !ends.IsZero() {
			now, err := s.Time(ctx)
			if err != nil {
				return nil, err
			}
			a.SessionExpiresAt, a.warnAt = &ends, nextWarning(&ends, now)
		}
	}
	sealed, err := s.deps.Seal.Seal(ctx, sessionAddress(a), session.Encode())
	if err != nil {
		return nil, sealProblem(a, err)
	}
	var changed bool
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		changed, err = storeRotation(ctx, tx, &a, sealed)
		return err
	})
	if err != nil || !changed {
		return nil, err
	}
	return &a, nil
}

// Credentials opens the remembered credentials. It fails with credentials-missing if there are none.
func (s *Accounts) Credentials(ctx context.Context, owner id.Org, account id.Account) (Credentials, error) {
	a, err := getAccount(ctx, s.deps.DB, owner, account)
	if err != nil {
		return Credentials{}, err
	}
	at, sealed, err := getSecret(ctx, s.deps.DB, a, seal.PurposeCredentials)
	if err != nil {
		return Credentials{}, err
	}
	if sealed == nil || !a.RememberCredentials {
		return Credentials{}, credentialsMissing()
	}
	text, err := s.deps.Seal.Open(ctx, at, sealed)
	if err != nil {
		return Credentials{}, sealProblem(a, err)
	}
	return decodeCredentials(text)
}

func credentialsMissing() error {
	return problem.CredentialsMissing.New(
		"The account's credentials are not remembered, so it cannot be signed in automatically.")
}

const (
	// seenEvery is the minimum time between two writes of an account's last success.
	seenEvery = time.Minute
	// seenPause is how long successes are collected before they are written with one statement.
	seenPause = 500 * time.Millisecond
	// seenAtMost is how long writing them may take.
	seenAtMost = 10 * time.Second
)

// RecordSeen records that the platform accepted the session, and postpones the next probe of an active account. The
// success is written seenPause later, at most once a minute per account and node; otherwise it costs one cache lookup.
// A node that is killed in between loses it, and a later success is written instead.
func (s *Accounts) RecordSeen(ctx context.Context, a Account) {
	now := s.deps.Now() // this node's clock only limits its writes
	if last, ok := s.seenWritten.Get(a.ID); ok && now.Sub(last) < seenEvery {
		return
	}
	fresh := false
	s.seenWritten.Change(a.ID, func(last time.Time, found bool) (time.Time, cache.Outcome) {
		if found && now.Sub(last) < seenEvery {
			return last, cache.Keep
		}
		fresh = true
		return now, cache.Replace
	})
	if !fresh {
		return
	}
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	if s.seen.list = append(s.seen.list, a); len(s.seen.list) == 1 {
		s.seen.timer = time.AfterFunc(seenPause, func() { s.FlushSeen(context.WithoutCancel(ctx)) })
	}
}

// seenAccounts are accounts whose success is not written yet. timer writes them.
type seenAccounts struct {
	mu    sync.Mutex
	list  []Account
	timer *time.Timer
}

// FlushSeen is WriteSeen with a time limit. It only logs a failure.
func (s *Accounts) FlushSeen(ctx context.Context) {
	ctx, cancel := context.WithTimeout(postgres.WithAllOrgs(ctx), seenAtMost)
	defer cancel()
	if err := s.WriteSeen(ctx); err != nil {
		s.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot record successes of accounts", slog.Any(logkey.Error, err))
	}
}

// WriteSeen writes the successes that RecordSeen has collected.
func (s *Accounts) WriteSeen(ctx context.Context) error {
	s.seen.mu.Lock()
	list := s.seen.list
	s.seen.list = nil
	if s.seen.timer != nil {
		s.seen.timer.Stop()
	}
	s.seen.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	now, err := s.Time(ctx)
	if err == nil {
		err = recordSeen(ctx, s.deps.DB, list, now)
	}
	if err != nil {
		for i := range list {
			s.seenWritten.Drop(list[i].ID) // the next success is written
		}
	}
	return err
}
