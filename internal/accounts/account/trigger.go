package account

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// Cause is what happened to an account.
type Cause struct {
	On     Trigger
	Reason string
	// About is the account as whoever brings the news has read it: news of a session that was replaced since are ErrStale. Nil for news
	// that hold whatever the session.
	About *Account
	// Attempt is the sign-in that is the cause, if one is.
	Attempt id.Attempt
	// Data is added to the event, such as upstreamCode and upstreamMessage of a ban.
	Data map[string]any
	// ProbeAt replaces when the account is looked at next.
	ProbeAt *time.Time
	// Probed means that the news come from a probe, TroubledAt when its trouble began.
	Probed     bool
	TroubledAt *time.Time
}

// ErrStale means that the news are about a session that the account no longer has.
var ErrStale = errors.New("the account has another session by now")

// After makes a committed change known to the other nodes.
type After func(ctx context.Context)

// Trigger takes an account along an edge of the machine, in a transaction of its own.
func (s *Accounts) Trigger(ctx context.Context, by audit.By, owner id.Org, account id.Account, c Cause) (Account, error) {
	var (
		a     Account
		after After
	)
	err := s.DB.Tx(ctx, func(tx postgres.Tx) error {
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

// Ref names an account.
type Ref struct {
	Org     id.Org
	Account id.Account
}

// TriggerIn is Trigger within a transaction. Call after once it is committed.
func (s *Accounts) TriggerIn(ctx context.Context, tx postgres.Tx, by audit.By, ref Ref, c Cause) (Account, After, error) {
	a, err := s.locked(ctx, tx, ref)
	if err != nil {
		return Account{}, nil, err
	}
	if c.About != nil && (a.signIn != c.About.signIn || c.On == SessionLost && a.sealedVersion != c.About.sealedVersion) {
		return Account{}, nil, ErrStale
	}
	before := a
	step, err := s.move(ctx, tx, by, &a, c)
	if err != nil {
		return Account{}, nil, err
	}
	if !step.Changed() && !c.Probed && a.sessionDead == before.sessionDead {
		return a, func(context.Context) {}, nil // a repeat
	}
	if err := save(ctx, tx, a); err != nil {
		return Account{}, nil, err
	}
	if step.Changed() && by.Kind != audit.ActorSystem {
		if err := s.Audit.Record(ctx, tx, a.Org, by, string(a.ID), changesOf(before, a)); err != nil {
			return Account{}, nil, err
		}
	}
	return a, s.after(a), nil
}

func (s *Accounts) locked(ctx context.Context, tx postgres.Tx, ref Ref) (Account, error) {
	env, err := s.environment(ctx, ref.Org)
	if err != nil {
		return Account{}, err
	}
	a, err := lock(ctx, tx, ref.Org, ref.Account)
	a.Environment = env
	return a, err
}

// move changes the account as the machine says and writes the event. The caller saves it.
func (s *Accounts) move(ctx context.Context, tx postgres.Tx, by audit.By, a *Account, c Cause) (Step, error) {
	now, err := s.DB.Now(ctx, tx)
	if err != nil {
		return Step{}, err
	}
	_, can := a.NextReauth(now)
	step, err := Next(a.State, c.On, Facts{WasActive: a.firstActiveAt != nil, CanReauth: can, SessionDead: a.sessionDead})
	if err != nil {
		return step, err
	}
	before := *a
	a.note(c, now)
	if !step.Changed() {
		return step, nil
	}
	a.enter(step.To, c, now)
	if step.Event == "" {
		return step, nil
	}
	return step, s.Outbox.Add(ctx, tx, a.event(step.Event, s.eventData(before, *a, by, step, c)))
}

// event is one of the account's own.
func (a Account) event(kind string, data map[string]any) outbox.Event {
	return outbox.Event{Org: a.Org, Account: a.ID, Kind: kind, OfUserID: a.UpstreamID, ReferenceID: a.ReferenceID, Data: data}
}

// note keeps what the news tell, also where the state stays.
func (a *Account) note(c Cause, now time.Time) {
	switch c.On {
	case SessionLost, LoggedOut, SignInFailed:
		a.sessionDead = true
	case SignedIn, SignInSucceeded:
		a.sessionDead = false
		a.LastSeenAt, a.LastCheckedAt = &now, &now
	case Proved, Steadied:
		a.LastSeenAt = &now
	case Troubled, Asked, Banned, Pause, Resume, Leave:
	}
	if c.Probed {
		a.LastCheckedAt = &now
	}
}

// enter puts the account into another state.
func (a *Account) enter(to State, c Cause, now time.Time) {
	if a.State == Reauthenticating {
		// Whoever still signs in for it is late.
		a.reauth.owner, a.reauth.until = "", nil
	}
	a.State, a.Reason, a.StateChangedAt = to, c.Reason, now
	a.SessionVersion++
	// Whoever listens to it stops, or begins anew.
	a.hungUp = a.hungUp || to == Connecting || !slices.Contains(working, to)
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

// eventData is what an event tells (catalog §4.2): from, to, reason and userAction, and what belongs to its kind.
func (s *Accounts) eventData(before, a Account, by audit.By, step Step, c Cause) map[string]any {
	data := transition(step.From, a)
	now := a.StateChangedAt
	switch step.Event {
	case EventConnected:
		data["account"], data["attemptId"], data["kind"] = a.View(), some(string(a.Attempt)), a.AttemptKind
	case EventReconnected:
		data["account"], data["attemptId"], data["downForSec"] = a.View(), some(string(a.Attempt)), secondsSince(before.downSince, now)
	case EventReauthenticating:
		data["attemptId"] = some(string(c.Attempt))
	case EventDegraded:
		data["sinceSec"] = secondsSince(c.TroubledAt, now)
	case EventRecovered:
		data["sinceSec"] = secondsSince(&before.StateChangedAt, now)
	case EventReconnectRequired:
		data["connectUrl"] = some(s.ReconnectURL(a.Org, a.ID))
	case EventPaused, EventResumed:
		data["by"] = actor(by)
	}
	for name, value := range c.Data {
		data[name] = value
	}
	return data
}

// transition is what every event of an account has.
func transition(from State, a Account) map[string]any {
	return map[string]any{"from": from, "to": a.State, "reason": some(a.Reason), "userAction": a.UserAction()}
}

func actor(by audit.By) map[string]any {
	return map[string]any{"kind": by.Kind, "id": by.ID, "label": by.Label}
}

func secondsSince(at *time.Time, now time.Time) int {
	if at == nil {
		return 0
	}
	return int(max(now.Sub(*at), 0).Seconds())
}

// changesOf is how two versions of an account differ, for the audit log.
func changesOf(before, after Account) audit.Changes {
	changes := audit.Changes{}
	changes.Note("state", before.State, after.State)
	changes.Note("stateReason", before.Reason, after.Reason)
	changes.Note("label", before.Label, after.Label)
	changes.Note("proxyCountry", before.Region, after.Region)
	changes.Note("referenceId", before.ReferenceID, after.ReferenceID)
	changes.Note("rememberCredentials", before.RememberCredentials, after.RememberCredentials)
	return changes
}
