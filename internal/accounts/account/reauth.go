package account

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// ErrNoTry means that the account may not be signed in by itself now: too often already, or too soon.
var ErrNoTry = errors.New("the account has been signed in too often lately")

// reauthLease is longer than any attempt: it only ends one whose end was never written.
const reauthLease = 35 * time.Minute

// BeginReauth takes the lease on signing an account in with its remembered credentials, counts the try, and puts the account into
// reauthenticating, within the transaction that starts the attempt. A caller may always ask for it; by itself the system keeps to the
// tries that are left. It fails with credentials-missing, attempt-in-progress, ErrNoTry, or what the state demands. Call after once the
// transaction is committed.
func (s *Accounts) BeginReauth(ctx context.Context, tx postgres.Tx, by audit.By, owner id.Org, account id.Account, attempt id.Attempt) (After, error) {
	a, err := s.locked(ctx, tx, Ref{owner, account})
	if err != nil {
		return nil, err
	}
	now, err := s.DB.Now(ctx, tx)
	if err != nil {
		return nil, err
	}
	asked := by.Kind != audit.ActorSystem
	if err := a.mayReauth(asked, now); err != nil {
		return nil, err
	}
	before := a
	if a.State != Reauthenticating {
		cause := Cause{On: SessionLost, Reason: ReasonSessionExpired, Attempt: attempt}
		if asked {
			cause = Cause{On: Asked, Attempt: attempt}
			if a.State == Connecting {
				// The sign-in that connected it has proved the session; the prober just has not come by yet.
				if _, err := s.move(ctx, tx, by, &a, Cause{On: Proved}); err != nil {
					return nil, err
				}
			}
		}
		if _, err := s.move(ctx, tx, by, &a, cause); err != nil {
			return nil, cmp.Or(s.Refusal(a), err) // a state without this edge is one that refuses calls too
		}
	}
	until := now.Add(reauthLease)
	a.reauth = lease{owner: attempt, until: &until, tries: append(a.reauth.recent(now), now)}
	a.PendingAttempt, a.Health.ProbeAt = attempt, &until
	if err := save(ctx, tx, a); err != nil {
		return nil, err
	}
	if asked {
		changes := changesOf(before, a)
		changes["attemptId"] = audit.Change{To: attempt}
		if err := s.Audit.Record(ctx, tx, a.Org, by, string(a.ID), changes); err != nil {
			return nil, err
		}
	}
	return s.after(a), nil
}

// mayReauth says why not.
func (a Account) mayReauth(asked bool, now time.Time) error {
	switch {
	case !a.RememberCredentials:
		return credentialsMissing()
	case a.reauth.held(now):
		return problem.AttemptInProgress.New("The account is being signed in already.").With("attemptId", a.reauth.owner)
	case asked:
		return nil
	}
	if at, ok := a.reauth.next(now); !ok || at.After(now) {
		return ErrNoTry
	}
	return nil
}

// ReauthOutcome is how a sign-in with remembered credentials ended without a session. A success is written by Connect.
type ReauthOutcome struct {
	on     Trigger
	reason string
	again  bool
	data   map[string]any
}

// The outcomes.
var (
	// ReauthRefused means that the credentials are no longer right.
	ReauthRefused = ReauthOutcome{on: SignInFailed, reason: ReasonCredentialsChanged}
	// ReauthUnanswered means that the platform asked for a person and none came, or somebody broke it off.
	ReauthUnanswered = ReauthOutcome{on: SignInFailed, reason: ReasonChallengePending}
	// ReauthRestricted means that the platform has locked or banned the account.
	ReauthRestricted = ReauthOutcome{on: Banned, reason: ReasonLocked}
	// ReauthFailed means that nothing was learned, as of a platform that is away: it is tried again as long as a try is left.
	ReauthFailed = ReauthOutcome{on: SignInFailed, reason: ReasonSessionExpired, again: true}
)

// Said adds what the platform said.
func (o ReauthOutcome) Said(code int, message string) ReauthOutcome {
	o.data = map[string]any{"upstreamCode": code, "upstreamMessage": message}
	return o
}

// As replaces the reason.
func (o ReauthOutcome) As(reason string) ReauthOutcome {
	o.reason = reason
	return o
}

// EndReauth gives an attempt's lease back and takes the account where the outcome leads. An attempt that has no lease any more changes
// nothing. Call after once the transaction is committed.
func (s *Accounts) EndReauth(ctx context.Context, tx postgres.Tx, owner id.Org, account id.Account, attempt id.Attempt, o ReauthOutcome) (After, error) {
	a, err := s.locked(ctx, tx, Ref{owner, account})
	if errors.Is(err, problem.AccountNotFound.New("")) {
		return func(context.Context) {}, nil // it was disconnected meanwhile
	}
	if err != nil {
		return nil, err
	}
	if a.PendingAttempt == attempt {
		a.PendingAttempt = ""
	}
	if a.reauth.owner != attempt || a.State != Reauthenticating {
		return s.after(a), save(ctx, tx, a)
	}
	a.reauth.owner, a.reauth.until = "", nil
	now, err := s.DB.Now(ctx, tx)
	if err != nil {
		return nil, err
	}
	if next, can := a.NextReauth(now); o.again && can {
		a.Reason, a.Health.ProbeAt = o.reason, &next
		return s.after(a), save(ctx, tx, a)
	}
	by := audit.By{Kind: audit.ActorSystem, ID: string(attempt)}
	if _, err := s.move(ctx, tx, by, &a, Cause{On: o.on, Reason: o.reason, Attempt: attempt, Data: o.data}); err != nil {
		return nil, err
	}
	return s.after(a), save(ctx, tx, a)
}

func (s *Accounts) after(a Account) After {
	return func(ctx context.Context) { s.tell(ctx, a) }
}

// Challenged tells that a sign-in with remembered credentials waits for a person. Data is what they need to know, as
// account.challenge_required lists it.
func (s *Accounts) Challenged(ctx context.Context, tx postgres.Tx, owner id.Org, account id.Account, data map[string]any) error {
	a, err := s.locked(ctx, tx, Ref{owner, account})
	if err != nil {
		return err
	}
	if a.State == Reauthenticating {
		a.Reason = ReasonChallengePending
		if err := save(ctx, tx, a); err != nil {
			return err
		}
	}
	told := transition(a.State, a)
	for name, value := range data {
		told[name] = value
	}
	return s.Outbox.Add(ctx, tx, a.event(EventChallengeRequired, told))
}

// Began notes that an attempt is under way for an account, Ended that it is not any more. An account that is gone is no error.
func (s *Accounts) Began(ctx context.Context, tx postgres.Tx, owner id.Org, account id.Account, attempt id.Attempt) error {
	return notePending(ctx, tx, Ref{owner, account}, "", attempt)
}

// Ended undoes Began, unless another attempt has begun since.
func (s *Accounts) Ended(ctx context.Context, tx postgres.Tx, owner id.Org, account id.Account, attempt id.Attempt) error {
	return notePending(ctx, tx, Ref{owner, account}, attempt, "")
}

// ReauthUntil is how long a sign-in with remembered credentials may still be under way; not held if none is.
func (a Account) ReauthUntil(now time.Time) (until time.Time, held bool) {
	if !a.reauth.held(now) {
		return time.Time{}, false
	}
	return *a.reauth.until, true
}
