package account

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// ListenerState is the state of an account's socket to the platform.
type ListenerState string

// The states of a listener. A listener that was up and is reconnecting is down, not connecting.
const (
	ListenerOff        ListenerState = "off"
	ListenerConnecting ListenerState = "connecting"
	ListenerUp         ListenerState = "up"
	ListenerDown       ListenerState = "down"
)

// Listener describes an account's socket to the platform.
type Listener struct {
	State ListenerState
	// Since is when the state began; nil if no listener has run yet.
	Since       *time.Time
	LastEventAt *time.Time
}

const (
	// listenerWait bounds how long a connecting account waits for its listener before it becomes active without one.
	listenerWait = 30 * time.Second
	// ListenerPatience bounds how long a listener may be down before the account becomes degraded.
	ListenerPatience = time.Minute
)

// Listenable reports whether the account should have a listener.
func (a Account) Listenable() bool { return slices.Contains(working, a.State) }

// SameConnection reports whether a socket that was opened for a also serves b: both have the same sign-in and region.
func (a Account) SameConnection(b Account) bool { return a.signIn == b.signIn && a.Region == b.Region }

// AwaitsListener reports whether only the listener keeps an account with a good session from becoming active, and until
// when it waits at most. A zero time means no limit.
func (s *Accounts) AwaitsListener(a Account, now time.Time) (until time.Time, awaits bool) {
	if !s.listens(a) || a.Listener.State == ListenerUp {
		return time.Time{}, false
	}
	switch a.State {
	case Connecting:
		until = a.StateChangedAt.Add(listenerWait)
		return until, now.Before(until)
	case Degraded:
		return time.Time{}, true
	case Active, Reauthenticating, ReconnectRequired, Restricted, Paused, Disconnected, Unborn:
	}
	return time.Time{}, false
}

// SuccessesNeeded returns how many consecutive good probes make an account in a state active.
func SuccessesNeeded(s State) int {
	if s == Degraded {
		return 2
	}
	return 1
}

// ShardOf returns the shard of an account, from 0 to Shards-1.
func ShardOf(account id.Account) int { return int(shardOf(account)) }

// TakeShard records the lease epoch under which a shard's listeners write. Afterwards RecordListener ignores writers
// with an older epoch. An older epoch never replaces a newer one.
func (s *Accounts) TakeShard(ctx context.Context, shard int, epoch int64) error {
	return db.New(s.deps.DB).TakeShard(ctx, db.TakeShardParams{Shard: int16(shard), Epoch: epoch})
}

// ShardAccount is an account that should have a listener.
type ShardAccount struct {
	Ref
	SessionVersion int64
}

// InShard lists at most limit accounts of a shard that should have a listener, by id, starting after the id after.
func (s *Accounts) InShard(ctx context.Context, shard int, after id.Account, limit int) ([]ShardAccount, error) {
	rows, err := db.New(s.deps.DB).Listenable(ctx, db.ListenableParams{Shard: int16(shard), After: after, MaxRows: int32(limit)})
	return postgres.Convert(rows, func(r db.ListenableRow) ShardAccount {
		return ShardAccount{Ref{r.OrgID, r.ID}, r.SessionVersion}
	}), err
}

// Owner returns the org of an account, for messages that name only the account. It is empty if there is no such
// account. It does not check who asks, so never call it for an API caller.
func (s *Accounts) Owner(ctx context.Context, account id.Account) (id.Org, error) {
	owner, err := db.New(s.deps.DB).OwnerIn(ctx, db.OwnerInParams{Shard: shardOf(account), AccountID: account})
	if errors.Is(err, postgres.ErrNoRows) {
		return "", nil
	}
	return owner, err
}

// listenerActor is the actor of changes that a listener causes.
var listenerActor = audit.By{Kind: audit.ActorSystem, ID: "listener", Label: "listener"}

// RecordListener writes the state of an account's listener. It does nothing if the shard has been taken with a newer
// epoch. A listener that came up may make the account active.
func (s *Accounts) RecordListener(ctx context.Context, ref Ref, epoch int64, state ListenerState) error {
	after := func(context.Context) {}
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		if state != ListenerUp {
			_, _, err := s.writeListenerState(ctx, tx, ref, epoch, state)
			return err
		}
		// Lock the account before its health row, as everywhere else, to avoid deadlocks.
		a, err := s.lockAccount(ctx, tx, ref)
		if err != nil || !a.Listenable() {
			return err
		}
		successes, mine, err := s.writeListenerState(ctx, tx, ref, epoch, state)
		if err != nil || !mine || !s.listens(a) {
			return err
		}
		after, err = s.activateOrProbe(ctx, tx, a, successes)
		return err
	})
	if err != nil {
		return err
	}
	after(ctx)
	return nil
}

// activateOrProbe makes an account active that was only waiting for its listener. If it still needs good probes, the
// next one is due now.
func (s *Accounts) activateOrProbe(ctx context.Context, tx postgres.Tx, a Account, successes int) (AfterCommit, error) {
	on := ProbePassed
	if a.State == Degraded {
		on = Recovered
	}
	if a.State == Active {
		return func(context.Context) {}, nil
	}
	if successes < SuccessesNeeded(a.State) {
		now, err := s.deps.DB.Now(ctx, tx)
		if err != nil {
			return nil, err
		}
		return func(context.Context) {}, scheduleProbe(ctx, tx, Ref{a.Org, a.ID}, &now)
	}
	_, after, err := s.TriggerIn(ctx, tx, listenerActor, Ref{a.Org, a.ID}, Cause{On: on})
	return after, err
}

// writeListenerState writes the state and returns the number of consecutive good probes. mine is false, and nothing is
// written, if the shard has been taken with a newer epoch.
func (s *Accounts) writeListenerState(ctx context.Context, tx postgres.Tx, ref Ref, epoch int64,
	state ListenerState) (successes int, mine bool, err error) {
	now, err := s.deps.DB.Now(ctx, tx)
	if err != nil {
		return 0, false, err
	}
	successes, err = db.New(tx).Listened(ctx, db.ListenedParams{
		OrgID: ref.Org, AccountID: ref.Account, Shard: shardOf(ref.Account), Epoch: epoch, State: string(state), Now: &now,
	})
	if errors.Is(err, postgres.ErrNoRows) {
		return 0, false, nil
	}
	return successes, err == nil, err
}

// EventTime is when the last event of an account arrived.
type EventTime struct {
	Ref
	At time.Time
}

// RecordEventTimes writes when the last event arrived, for many accounts in one statement.
func (s *Accounts) RecordEventTimes(ctx context.Context, list []EventTime) error {
	p := db.EventfulParams{}
	for _, e := range list {
		p.Orgs, p.Accounts, p.Ats = append(p.Orgs, string(e.Org)), append(p.Accounts, string(e.Account)), append(p.Ats, e.At)
	}
	return db.New(s.deps.DB).Eventful(ctx, p)
}
