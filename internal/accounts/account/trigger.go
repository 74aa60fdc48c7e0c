package account

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// Cause is a trigger with its context.
type Cause struct {
	On     Trigger
	Reason string
	// Observed is the account that the observation was made with. If its session has been replaced since, the trigger
	// fails with ErrStale. Nil for a cause that does not depend on the session.
	Observed *Account
	// Attempt is the sign-in attempt that is the cause; empty for none.
	Attempt id.Attempt
	// Upstream is the platform's error, such as that of a ban; empty if there was none.
	Upstream contract.UpstreamError
	// ProbeAt, if not nil, replaces the time of the next probe that the new state would have.
	ProbeAt *time.Time
	// Probed means that the observation comes from a probe. FailingSince is when the failures began.
	Probed       bool
	FailingSince *time.Time
}

// ErrStale means that an observation is about a session that the account no longer has.
var ErrStale = errors.New("the session of the account has been replaced")

// AfterCommit notifies the other nodes of a change. Call it after the transaction is committed, and only then.
type AfterCommit func(ctx context.Context)

// Trigger moves an account along an edge of the machine, in its own transaction, and notifies the other nodes. A
// trigger that changes nothing in this state is not an error. It fails with ErrIllegal, ErrStale or account-not-found.
func (s *Accounts) Trigger(ctx context.Context, by audit.By, owner id.Org, account id.Account, c Cause) (Account, error) {
	var (
		a     Account
		after AfterCommit
	)
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		var err error
		a, after, err = s.TriggerIn(ctx, tx, by, Ref{owner, account}, c)
		return err
	})
	if err != nil {
		return Account{}, err
	}
	after(ctx)
	return a, nil
}

// Ref identifies an account.
type Ref struct {
	Org     id.Org
	Account id.Account
}

// TriggerIn is Trigger within the caller's transaction. Call the returned AfterCommit once it is committed.
func (s *Accounts) TriggerIn(ctx context.Context, tx postgres.Tx, by audit.By, ref Ref, c Cause) (Account, AfterCommit,
	error) {
	a, err := s.lockAccount(ctx, tx, ref)
	if err != nil {
		return Account{}, nil, err
	}
	if c.Observed != nil && (a.signIn != c.Observed.signIn || c.On == SessionLost &&
		a.sealedVersion != c.Observed.sealedVersion) {
		return Account{}, nil, ErrStale
	}
	before := a
	step, err := s.applyTrigger(ctx, tx, by, &a, c)
	if err != nil {
		return Account{}, nil, err
	}
	if !step.Changed() && !c.Probed && a.sessionDead == before.sessionDead {
		return a, func(context.Context) {}, nil // a repeat: nothing to save
	}
	if err := saveAccount(ctx, tx, a); err != nil {
		return Account{}, nil, err
	}
	if step.Changed() && by.Kind != audit.ActorSystem {
		if err := s.deps.Audit.Record(ctx, tx, a.Org, by, string(a.ID), changesOf(before, a)); err != nil {
			return Account{}, nil, err
		}
	}
	return a, s.publishAfter(a), nil
}

// lockAccount reads an account with its environment and locks it until the transaction ends.
func (s *Accounts) lockAccount(ctx context.Context, tx postgres.Tx, ref Ref) (Account, error) {
	env, err := s.environment(ctx, ref.Org)
	if err != nil {
		return Account{}, err
	}
	a, err := lockRow(ctx, tx, ref.Org, ref.Account)
	a.Environment = env
	return a, err
}

// applyTrigger changes a as the machine demands and writes the event of the edge. The caller must hold the lock and
// save a.
func (s *Accounts) applyTrigger(ctx context.Context, tx postgres.Tx, by audit.By, a *Account, c Cause) (Step, error) {
	now, err := s.deps.DB.Now(ctx, tx)
	if err != nil {
		return Step{}, err
	}
	_, can := a.NextReauth(now)
	step, err := Next(a.State, c.On, Facts{WasActive: a.firstActiveAt != nil, CanReauth: can, SessionDead: a.sessionDead})
	if err != nil {
		return step, err
	}
	before := *a
	a.recordFacts(c, now)
	if !step.Changed() {
		return step, nil
	}
	a.enterState(step.To, c, now)
	if step.event == nil {
		return step, nil
	}
	return step, s.deps.Outbox.Add(ctx, tx, a.event(step.event(change{
		before: before, after: *a, by: by, cause: c, at: now, connectURL: s.deps.ReconnectURL(a.Org, a.ID),
	})))
}

// recordFacts updates the fields that an observation determines even if the state does not change.
func (a *Account) recordFacts(c Cause, now time.Time) {
	switch c.On {
	case SessionLost, LoggedOut, SignInFailed:
		a.sessionDead = true
	case SignedIn, SignInSucceeded:
		a.sessionDead = false
		a.LastSeenAt, a.LastCheckedAt = &now, &now
	case ProbePassed, Recovered:
		a.LastSeenAt = &now
	case Failing, ReauthRequested, Banned, Pause, Resume, Disconnect:
	}
	if c.Probed {
		a.LastCheckedAt = &now
	}
}

// enterState moves the account to another state and resets what depends on the state: its health, a reauth lease, its
// listener.
func (a *Account) enterState(to State, c Cause, now time.Time) {
	if a.State == Reauthenticating {
		// An attempt that still runs loses its lease, so its result will be ignored.
		a.reauth.owner, a.reauth.until = "", nil
	}
	a.State, a.Reason, a.StateChangedAt = to, c.Reason, now
	a.SessionVersion++
	// In these states the account has no listener, or needs a new socket.
	a.resetListener = a.resetListener || to == Connecting || !slices.Contains(working, to)
	a.Health = Health{ProbeAt: probeAt(to, now)}
	if c.ProbeAt != nil {
		a.Health.ProbeAt = c.ProbeAt
	}
	switch to {
	case Active:
		a.downSince, a.Reason = nil, ""
		if a.firstActiveAt == nil {
			a.firstActiveAt = &now
		}
	case Reauthenticating, ReconnectRequired, Restricted, Paused:
		if a.downSince == nil {
			a.downSince = &now
		}
	case Connecting, Degraded, Disconnected, Unborn:
	}
}

// changesOf returns the differences between two versions of an account for the audit log.
func changesOf(before, after Account) audit.Changes {
	changes := audit.Changes{}
	changes.Note("state", before.State, after.State)
	changes.Note("stateReason", before.Reason, after.Reason)
	changes.NotePersonal("label", before.Label, after.Label)
	changes.Note("proxyCountry", before.Region, after.Region)
	changes.NotePersonal("referenceId", before.ReferenceID, after.ReferenceID)
	changes.Note("rememberCredentials", before.RememberCredentials, after.RememberCredentials)
	return changes
}
