package account

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// Times of a refresh. A refresh token may work only once, so the claim must outlast everything that its holder does: the
// request, and storing the result.
const (
	refreshRequest = 10 * time.Second
	refreshStore   = 15 * time.Second
	refreshClaim   = refreshRequest + refreshStore + 10*time.Second
	// refreshWait bounds how long a node waits for a refresh that it or another node makes.
	refreshWait = refreshClaim + refreshRequest
	// refreshPoll is how often a node looks whether another node has finished.
	refreshPoll = 50 * time.Millisecond
)

// refresher is the actor of changes that a refresh causes.
var refresher = audit.By{Kind: audit.ActorSystem, ID: "refresh", Label: "refresh"}

// openFresh opens the session of an account and refreshes it if it is about to end. If the refresh fails for a reason
// that may pass, the session is used until its end.
func (s *Accounts) openFresh(ctx context.Context, a Account, sealed []byte) (Account, driver.Session, error) {
	session, err := s.openSession(ctx, a, sealed)
	if err != nil || a.sessionDead || !session.RefreshDue(s.deps.Now()) {
		return a, session, err
	}
	fresh, renewed, err := s.refresh(ctx, a)
	if err != nil && fresh.ID == "" && !session.AccessEnded(s.deps.Now()) && ctx.Err() == nil {
		return a, session, nil
	}
	if fresh.ID == "" {
		fresh = a
	}
	return fresh, renewed, err
}

// Renew returns the account with a session that is newer than the one of refused, which the platform did not accept. It
// refreshes the session unless that has happened since. A session that cannot be refreshed is returned as it is.
func (s *Accounts) Renew(ctx context.Context, refused Account) (Account, driver.Session, error) {
	a, session, err := s.refresh(ctx, refused)
	if a.ID == "" {
		a = refused
	}
	return a, session, err
}

// refreshed is the result of a refresh.
type refreshed struct {
	account Account
	session driver.Session
}

// refresh refreshes the session of an account, once for all callers on all nodes, and returns it as it is stored then. If
// the platform does not accept the refresh token, the account loses its session, and refresh returns it together with
// the problem for callers. With any other error, the account is empty and nothing has changed.
func (s *Accounts) refresh(ctx context.Context, seen Account) (Account, driver.Session, error) {
	for first := true; ; first = false {
		done := s.refreshes.DoChan(string(seen.Org)+" "+string(seen.ID), func() (any, error) {
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshWait)
			defer cancel()
			return s.refreshClaimed(limited, seen)
		})
		select {
		case <-ctx.Done():
			return Account{}, driver.Session{}, context.Cause(ctx)
		case r := <-done:
			got, _ := r.Val.(refreshed)
			// A flight that began for an older session may have ended with the one that this caller has already seen.
			if first && r.Shared && r.Err == nil && got.account.SameSession(seen) {
				continue
			}
			return got.account, got.session, r.Err
		}
	}
}

// refreshClaimed claims the refresh of a session in the account's row and makes it, or waits for the node that has the
// claim. No transaction is open during the request.
func (s *Accounts) refreshClaimed(ctx context.Context, seen Account) (refreshed, error) {
	for {
		a, session, err := s.stored(ctx, Ref{seen.Org, seen.ID})
		if err != nil {
			return refreshed{}, err
		}
		if !a.SameSession(seen) || a.sessionDead || !session.CanRefresh() {
			out := refreshed{a, session}
			if a.sessionDead {
				return out, s.Refusal(a)
			}
			return out, nil
		}
		now, err := s.Time(ctx)
		if err != nil {
			return refreshed{}, err
		}
		until := now.Add(refreshClaim)
		claimed, err := db.New(s.deps.DB).ClaimRefresh(ctx, db.ClaimRefreshParams{
			OrgID: a.Org, ID: a.ID, Seen: a.sealedVersion, Until: &until, Now: &now,
		})
		if err != nil {
			return refreshed{}, err
		}
		if claimed > 0 {
			return s.refreshNow(ctx, a, session, until)
		}
		select {
		case <-ctx.Done():
			return refreshed{}, problem.UpstreamTimeout.New("Refreshing the account's authorisation takes too long.").After(reauthRetry)
		case <-time.After(refreshPoll + rand.N(refreshPoll)):
		}
	}
}

// refreshNow makes the request of a refresh that this node has claimed, and stores the result before anyone uses it.
func (s *Accounts) refreshNow(ctx context.Context, a Account, session driver.Session, until time.Time) (refreshed, error) {
	platform, ok := s.deps.Platforms(a.Place.Platform)
	if !ok {
		s.releaseRefresh(ctx, a, until)
		return refreshed{}, registry.Unavailable(a.Place.Platform)
	}
	limited, cancel := context.WithTimeout(ctx, refreshRequest)
	next, err := platform.Driver.Refresh(limited, a.Via(), session)
	cancel()
	if err == nil {
		return s.storeRefreshed(ctx, a, next)
	}
	defer s.releaseRefresh(ctx, a, until)
	if refused, ok := errors.AsType[*driver.Refused](err); ok && refused.Kind == catalog.RefusedSession {
		return s.loseAuthorisation(ctx, a)
	}
	if _, known := errors.AsType[*problem.Error](err); !known && limited.Err() != nil {
		err = problem.UpstreamTimeout.New("The platform did not answer in time.").Because(err)
	}
	return refreshed{}, err
}

// storeRefreshed stores a refreshed session. The old refresh token may have ended, so it tries for a while.
func (s *Accounts) storeRefreshed(ctx context.Context, a Account, next driver.Session) (refreshed, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshStore)
	defer cancel()
	for wait := 100 * time.Millisecond; ; wait *= 2 {
		stored, err := s.tryRotate(ctx, a, next)
		switch {
		case err == nil && stored != nil:
			s.publishVersion(ctx, *stored)
			return refreshed{*stored, next}, nil
		case err == nil:
			// The account was connected again during the refresh, or is being disconnected.
			current, session, err := s.stored(ctx, Ref{a.Org, a.ID})
			return refreshed{current, session}, err
		}
		select {
		case <-ctx.Done():
			s.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot store refreshed session", slog.String(logkey.Account, string(a.ID)),
				slog.Any(logkey.Error, err))
			return refreshed{}, err
		case <-time.After(wait):
		}
	}
}

// loseAuthorisation records that the platform does not accept the refresh token of the account any more.
func (s *Accounts) loseAuthorisation(ctx context.Context, a Account) (refreshed, error) {
	after, err := s.Trigger(ctx, refresher, a.Org, a.ID, Cause{On: LoggedOut, Reason: ReasonLoggedOut, Observed: &a})
	switch {
	case errors.Is(err, ErrStale):
		current, session, err := s.stored(ctx, Ref{a.Org, a.ID})
		return refreshed{current, session}, err
	case err != nil:
		return refreshed{}, err
	}
	if refusal := s.Refusal(after); refusal != nil {
		return refreshed{account: after}, refusal
	}
	return refreshed{account: after}, disconnectedProblem(after)
}

// releaseRefresh gives up the claim. If that fails, it expires.
func (s *Accounts) releaseRefresh(ctx context.Context, a Account, until time.Time) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	if err := db.New(s.deps.DB).ReleaseRefresh(ctx, db.ReleaseRefreshParams{OrgID: a.Org, ID: a.ID, Until: &until}); err != nil {
		s.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot release refresh of account", slog.String(logkey.Account, string(a.ID)),
			slog.Any(logkey.Error, err))
	}
}
