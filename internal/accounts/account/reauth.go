package account

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// ErrReauthLimit means that the account must not be signed in automatically now: too many tries in the last day, or the
// wait since the last one is not over.
var ErrReauthLimit = errors.New("too many automatic sign-ins")

// reauthLease is longer than any attempt. It only expires if the end of an attempt was never written.
const reauthLease = 35 * time.Minute

// BeginReauth acquires the lease on signing an account in with its remembered credentials, counts the try and moves the
// account to reauthenticating, in the transaction that starts the attempt. The limit on tries binds only the system; a
// caller may always ask. It fails with credentials-missing, attempt-in-progress, ErrReauthLimit or the problem of the
// account's state. Call the returned AfterCommit once the transaction is committed.
func (s *Accounts) BeginReauth(ctx context.Context, tx postgres.Tx, by audit.By, owner id.Org, account id.Account,
	attempt id.Attempt) (AfterCommit, error) {
	a, err := s.lockAccount(ctx, tx, Ref{owner, account})
	if err != nil {
		return nil, err
	}
	now, err := s.deps.DB.Now(ctx, tx)
	if err != nil {
		return nil, err
	}
	asked := by.Kind != audit.ActorSystem
	if err := a.checkReauth(asked, now); err != nil {
		return nil, err
	}
	before := a
	if a.State != Reauthenticating {
		cause := Cause{On: SessionLost, Reason: ReasonSessionExpired, Attempt: attempt}
		if asked {
			cause = Cause{On: ReauthRequested, Attempt: attempt}
			if a.State == Connecting {
				// The machine has no edge from connecting. The sign-in has already verified the session, so take the
				// step to active that the prober would take.
				if _, err := s.applyTrigger(ctx, tx, by, &a, Cause{On: ProbePassed}); err != nil {
					return nil, err
				}
			}
		}
		if _, err := s.applyTrigger(ctx, tx, by, &a, cause); err != nil {
			return nil, cmp.Or(s.Refusal(a), err) // a state without this edge is one that refuses calls too
		}
	}
	until := now.Add(reauthLease)
	a.reauth = lease{owner: attempt, until: &until, tries: append(a.reauth.recentTries(now), now)}
	a.PendingAttempt, a.Health.ProbeAt = attempt, &until
	if err := saveAccount(ctx, tx, a); err != nil {
		return nil, err
	}
	if asked {
		changes := changesOf(before, a)
		changes["attemptId"] = audit.Change{To: attempt}
		if err := s.deps.Audit.Record(ctx, tx, a.Org, by, string(a.ID), changes); err != nil {
			return nil, err
		}
	}
	return s.publishAfter(a), nil
}

// checkReauth returns why the account must not be signed in now, or nil. asked means that a caller requested it.
func (a Account) checkReauth(asked bool, now time.Time) error {
	switch {
	case !a.RememberCredentials:
		return credentialsMissing()
	case a.reauth.isHeld(now):
		return problem.AttemptInProgress.New("The account is already being signed in.").With("attemptId", a.reauth.owner)
	case asked:
		return nil
	}
	if at, ok := a.reauth.nextTry(now); !ok || at.After(now) {
		return ErrReauthLimit
	}
	return nil
}

// ReauthOutcome describes how a sign-in with remembered credentials failed. Connect writes a success.
type ReauthOutcome struct {
	on     Trigger
	reason string
	// again means that the system tries again while the limit on tries allows it.
	again    bool
	upstream contract.UpstreamError
}

// The outcomes.
var (
	// ReauthRefused means that the credentials are no longer right.
	ReauthRefused = ReauthOutcome{on: SignInFailed, reason: ReasonCredentialsChanged}
	// ReauthUnanswered means that the platform asked for a code or another action and got none, or that the attempt was
	// cancelled.
	ReauthUnanswered = ReauthOutcome{on: SignInFailed, reason: ReasonChallengePending}
	// ReauthRestricted means that the platform has locked or banned the account.
	ReauthRestricted = ReauthOutcome{on: Banned, reason: ReasonLocked}
	// ReauthFailed means that the credentials were not tested, for example because the platform was unavailable. The
	// system tries again while the limit on tries allows it.
	ReauthFailed = ReauthOutcome{on: SignInFailed, reason: ReasonSessionExpired, again: true}
)

// WithUpstream adds the platform's error to the event.
func (o ReauthOutcome) WithUpstream(code, message string) ReauthOutcome {
	o.upstream = contract.UpstreamError{UpstreamCode: problem.UpstreamCode(code), UpstreamMessage: &message}
	return o
}

func (o ReauthOutcome) WithReason(reason string) ReauthOutcome {
	o.reason = reason
	return o
}

// EndReauth releases an attempt's lease and moves the account as the outcome demands. An attempt that no longer holds
// the lease does not change the state. Call the returned AfterCommit once the transaction is committed.
func (s *Accounts) EndReauth(ctx context.Context, tx postgres.Tx, owner id.Org, account id.Account, attempt id.Attempt,
	o ReauthOutcome) (AfterCommit, error) {
	a, err := s.lockAccount(ctx, tx, Ref{owner, account})
	if errors.Is(err, problem.AccountNotFound.New("")) {
		return func(context.Context) {}, nil // disconnected in the meantime
	}
	if err != nil {
		return nil, err
	}
	if a.PendingAttempt == attempt {
		a.PendingAttempt = ""
	}
	if a.reauth.owner != attempt || a.State != Reauthenticating {
		return s.publishAfter(a), saveAccount(ctx, tx, a)
	}
	a.reauth.owner, a.reauth.until = "", nil
	now, err := s.deps.DB.Now(ctx, tx)
	if err != nil {
		return nil, err
	}
	if next, can := a.NextReauth(now); o.again && can {
		a.Reason, a.Health.ProbeAt = o.reason, &next
		return s.publishAfter(a), saveAccount(ctx, tx, a)
	}
	by := audit.By{Kind: audit.ActorSystem, ID: string(attempt)}
	if _, err := s.applyTrigger(ctx, tx, by, &a, Cause{On: o.on, Reason: o.reason, Attempt: attempt,
		Upstream: o.upstream}); err != nil {
		return nil, err
	}
	return s.publishAfter(a), saveAccount(ctx, tx, a)
}

func (s *Accounts) publishAfter(a Account) AfterCommit {
	return func(ctx context.Context) { s.publishVersion(ctx, a) }
}

// RecordChallenge writes an event: a sign-in with remembered credentials waits for a person. The caller sets the fields
// of the event that belong to the challenge.
func (s *Accounts) RecordChallenge(ctx context.Context, tx postgres.Tx, owner id.Org, account id.Account,
	e contract.AccountChallengeRequired) error {
	a, err := s.lockAccount(ctx, tx, Ref{owner, account})
	if err != nil {
		return err
	}
	if a.State == Reauthenticating {
		a.Reason = ReasonChallengePending
		if err := saveAccount(ctx, tx, a); err != nil {
			return err
		}
	}
	e.Transition = a.transitionFrom(a.State)
	return s.deps.Outbox.Add(ctx, tx, a.event(e))
}

// SetPendingAttempt records that an attempt is in progress for an account. A disconnected account is not an error.
func (s *Accounts) SetPendingAttempt(ctx context.Context, tx postgres.Tx, owner id.Org, account id.Account,
	attempt id.Attempt) error {
	return setPendingAttempt(ctx, tx, Ref{owner, account}, "", attempt)
}

// ClearPendingAttempt undoes SetPendingAttempt, unless another attempt has been set since.
func (s *Accounts) ClearPendingAttempt(ctx context.Context, tx postgres.Tx, owner id.Org, account id.Account,
	attempt id.Attempt) error {
	return setPendingAttempt(ctx, tx, Ref{owner, account}, attempt, "")
}

// ReauthUntil returns when the lease of a sign-in with remembered credentials expires; held is false if there is none.
func (a Account) ReauthUntil(now time.Time) (until time.Time, held bool) {
	if !a.reauth.isHeld(now) {
		return time.Time{}, false
	}
	return *a.reauth.until, true
}
