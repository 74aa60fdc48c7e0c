package account

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// ListenerState is how an account's live connection stands.
type ListenerState string

// The states of a listener. One that was up and is being opened again is down.
const (
	ListenerOff        ListenerState = "off"
	ListenerConnecting ListenerState = "connecting"
	ListenerUp         ListenerState = "up"
	ListenerDown       ListenerState = "down"
)

// Listener is an account's live connection.
type Listener struct {
	State ListenerState
	// Since is when it came to its state; nil if nobody has listened yet.
	Since       *time.Time
	LastEventAt *time.Time
}

const (
	// listenerWait is how long a new session waits for its listener before it is called active without one.
	listenerWait = 30 * time.Second
	// ListenerPatience is how long a listener may be down before the account is degraded.
	ListenerPatience = time.Minute
)

// Listenable says whether somebody should listen to the account.
func (a Account) Listenable() bool { return slices.Contains(working, a.State) }

// SameWay says whether a connection that was opened for one account serves the other: the same session, by the same way.
func (a Account) SameWay(b Account) bool { return a.signIn == b.signIn && a.Region == b.Region }

// AwaitsListener says whether the account cannot be called active yet although its session is good, and until when at most; the zero
// time is as long as it takes.
func (s *Accounts) AwaitsListener(a Account, now time.Time) (until time.Time, awaits bool) {
	if !s.Config.Listens || a.Listener.State == ListenerUp {
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

// GoodsNeeded is how many good probes in a row make an account in a state active.
func GoodsNeeded(s State) int {
	if s == Degraded {
		return 2
	}
	return 1
}

// ShardOf is the shard of an account.
func ShardOf(account id.Account) int { return int(shardOf(account)) }

// TakeShard tells that whoever has this epoch listens to a shard from now on: what others say of its accounts is not written any more.
func (s *Accounts) TakeShard(ctx context.Context, shard int, epoch int64) error {
	if err := db.New(s.DB.Pool()).TakeShard(ctx, db.TakeShardParams{Shard: int16(shard), Epoch: epoch}); err != nil {
		return fmt.Errorf("take shard %d: %w", shard, err)
	}
	return nil
}

// Listed is an account that somebody should listen to.
type Listed struct {
	Ref
	SessionVersion int64
}

// InShard lists the accounts of a shard that somebody should listen to, in the order of their ids.
func (s *Accounts) InShard(ctx context.Context, shard int, after id.Account, limit int) ([]Listed, error) {
	rows, err := db.New(s.DB.Pool()).Listenable(ctx, db.ListenableParams{Shard: int16(shard), After: after, MaxRows: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("list the accounts of shard %d: %w", shard, err)
	}
	list := make([]Listed, len(rows))
	for i, row := range rows {
		list[i] = Listed{Ref{row.OrgID, row.ID}, row.SessionVersion}
	}
	return list, nil
}

// Owner finds the org of an account that a poke named; empty if there is none.
func (s *Accounts) Owner(ctx context.Context, account id.Account) (id.Org, error) {
	owner, err := db.New(s.DB.Pool()).OwnerIn(ctx, db.OwnerInParams{Shard: shardOf(account), AccountID: account})
	if errors.Is(err, postgres.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("find the org of %s: %w", account, err)
	}
	return owner, nil
}

// listener is who acts when a listener has come up.
var listener = audit.By{Kind: audit.ActorSystem, ID: "listener", Label: "listener"}

// Listened writes down how an account's listener stands, for whoever holds its shard with this epoch. One that has come up may be what
// the account was waiting for.
func (s *Accounts) Listened(ctx context.Context, ref Ref, epoch int64, state ListenerState) error {
	after := func(context.Context) {}
	err := s.DB.Tx(ctx, func(tx postgres.Tx) error {
		if state != ListenerUp {
			_, _, err := s.listened(ctx, tx, ref, epoch, state)
			return err
		}
		// The account first, like everybody who changes both.
		a, err := s.locked(ctx, tx, ref)
		if err != nil || !a.Listenable() {
			return err
		}
		goods, mine, err := s.listened(ctx, tx, ref, epoch, state)
		if err != nil || !mine || !s.Config.Listens {
			return err
		}
		after, err = s.cameUp(ctx, tx, a, goods)
		return err
	})
	if err != nil {
		return err
	}
	after(ctx)
	return nil
}

// cameUp makes an account active that has only waited for its listener, and has one that needs probes as well probed now.
func (s *Accounts) cameUp(ctx context.Context, tx postgres.Tx, a Account, goods int) (After, error) {
	on := Proved
	if a.State == Degraded {
		on = Steadied
	}
	if a.State == Active {
		return func(context.Context) {}, nil
	}
	if goods < GoodsNeeded(a.State) {
		now, err := s.DB.Now(ctx, tx)
		if err != nil {
			return nil, err
		}
		return func(context.Context) {}, scheduleProbe(ctx, tx, Ref{a.Org, a.ID}, &now)
	}
	_, after, err := s.TriggerIn(ctx, tx, listener, Ref{a.Org, a.ID}, Cause{On: on})
	return after, err
}

// listened writes the state; mine is false if the shard is another's by now.
func (s *Accounts) listened(ctx context.Context, tx postgres.Tx, ref Ref, epoch int64, state ListenerState) (goods int, mine bool, err error) {
	now, err := s.DB.Now(ctx, tx)
	if err != nil {
		return 0, false, err
	}
	n, err := db.New(tx).Listened(ctx, db.ListenedParams{
		OrgID: ref.Org, AccountID: ref.Account, Shard: shardOf(ref.Account), Epoch: epoch, State: string(state), Now: &now,
	})
	if errors.Is(err, postgres.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("write down the listener of %s: %w", ref.Account, err)
	}
	return int(n), true, nil
}

// Eventful is an account that an event came for.
type Eventful struct {
	Ref
	At time.Time
}

// Eventful writes down when events came last, for many accounts at once.
func (s *Accounts) Eventful(ctx context.Context, list []Eventful) error {
	p := db.EventfulParams{}
	for _, e := range list {
		p.Orgs, p.Accounts, p.Ats = append(p.Orgs, string(e.Org)), append(p.Accounts, string(e.Account)), append(p.Ats, e.At)
	}
	if err := db.New(s.DB.Pool()).Eventful(ctx, p); err != nil {
		return fmt.Errorf("write down when events came: %w", err)
	}
	return nil
}
