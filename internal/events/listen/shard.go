package listen

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// shardListener runs the listeners of one shard while this node holds its lease.
type shardListener struct {
	l     *Listeners
	shard int
	epoch int64
	// discovered carries accounts that a message named and that have no listener yet. sweepNow requests a sweep, also
	// when discovered is full.
	discovered chan id.Account
	sweepNow   chan struct{}

	mu        sync.Mutex
	listeners map[id.Account]*listener
	// closed means that no more listeners may start.
	closed bool
	wait   sync.WaitGroup
	// settled marks the buckets for which the store has caught up with the log since the shard was acquired.
	settled [event.Buckets]bool
}

const (
	// maxDiscovered bounds the accounts that wait in discovered.
	maxDiscovered = 1024
	// sweepPage is how many accounts one query of a sweep lists.
	sweepPage = 1000
	// dbRetry is the wait after a failure of the database.
	dbRetry = time.Second
)

// holdShard listens to a shard until ctx ends, and returns when all its listeners have ended.
func (l *Listeners) holdShard(ctx context.Context, h lease.Held) {
	s := &shardListener{
		l: l, shard: h.Slot, epoch: h.Epoch, discovered: make(chan id.Account, maxDiscovered),
		sweepNow:  make(chan struct{}, 1),
		listeners: map[id.Account]*listener{},
	}
	if !s.claimShard(ctx) {
		return
	}
	l.mu.Lock()
	l.shards[s.shard] = s
	l.mu.Unlock()
	s.findAccounts(ctx)
	l.mu.Lock()
	if l.shards[s.shard] == s {
		delete(l.shards, s.shard)
	}
	l.mu.Unlock()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wait.Wait()
}

// claimShard records the lease epoch of the shard, which fences off the previous holder. It retries until ctx ends.
func (s *shardListener) claimShard(ctx context.Context) bool {
	for {
		err := s.l.deps.Accounts.TakeShard(ctx, s.shard, s.epoch)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		s.l.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot claim shard", slog.Int(logkey.Shard, s.shard), slog.Any(logkey.Error, err))
		if !clock.Pause(ctx, dbRetry) {
			return false
		}
	}
}

// findAccounts starts listeners for new accounts until ctx ends.
func (s *shardListener) findAccounts(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-s.discovered:
			s.startIfListenable(ctx, at)
		case <-s.sweepNow:
			next.Reset(0)
		case <-next.C:
			after := s.l.deps.Config.Sweep
			if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
				s.l.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot list accounts of shard", slog.Int(logkey.Shard, s.shard),
					slog.Any(logkey.Error, err))
				after = dbRetry
			}
			next.Reset(after)
		}
	}
}

// onSessionChange handles a message about an account of the shard. payload is the account's newest session version. It
// does not block.
func (s *shardListener) onSessionChange(at id.Account, payload []byte) {
	version, err := strconv.ParseInt(string(payload), 10, 64)
	if err != nil {
		return
	}
	s.mu.Lock()
	n := s.listeners[at]
	s.mu.Unlock()
	if n != nil {
		if version > n.version.Load() {
			n.notifyChanged()
		}
		return
	}
	select {
	case s.discovered <- at:
	default:
		signal(s.sweepNow)
	}
}

// startIfListenable starts a listener for an account that a message named, if the account should have one.
func (s *shardListener) startIfListenable(ctx context.Context, at id.Account) {
	owner, err := s.l.deps.Accounts.Owner(ctx, at)
	if err != nil {
		signal(s.sweepNow) // the sweep finds it
		return
	}
	if owner == "" {
		return
	}
	a, err := s.l.deps.Accounts.Get(ctx, owner, at)
	if err == nil && a.Listenable() && !s.l.isSuspended(ctx, owner) {
		s.startListener(ctx, account.Ref{Org: owner, Account: at})
	}
}

// startListener starts a listener for an account unless it has one.
func (s *shardListener) startListener(ctx context.Context, ref account.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.listeners[ref.Account] != nil {
		return
	}
	n := newListener(s, ref)
	s.listeners[ref.Account] = n
	s.wait.Go(func() { n.run(ctx) })
}

// remove removes a listener that wants to stop, unless its account has changed again in the meantime.
func (s *shardListener) remove(n *listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-n.changed:
		return false
	default:
		delete(s.listeners, n.ref.Account)
		return true
	}
}

// sweep lists all accounts of the shard. It starts listeners for new ones, and notifies listeners whose account has
// changed or is not in the list any more.
func (s *shardListener) sweep(ctx context.Context) error {
	s.mu.Lock()
	gone := make(map[id.Account]*listener, len(s.listeners))
	maps.Copy(gone, s.listeners)
	s.mu.Unlock()
	for after := id.Account(""); ; {
		list, err := s.l.deps.Accounts.InShard(ctx, s.shard, after, sweepPage)
		if err != nil {
			return err
		}
		for _, one := range list {
			after = one.Account
			if s.l.isSuspended(ctx, one.Org) {
				continue // its listener stays in gone and is notified below
			}
			if n := gone[one.Account]; n != nil {
				delete(gone, one.Account)
				if one.SessionVersion > n.version.Load() {
					n.notifyChanged()
				}
				continue
			}
			s.startListener(ctx, one.Ref)
		}
		if len(list) < sweepPage {
			break
		}
	}
	for _, n := range gone {
		n.notifyChanged()
	}
	return nil
}

// requestRefill makes every listener fetch again what the log may have lost.
func (s *shardListener) requestRefill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.listeners {
		signal(n.refill)
	}
}

// awaitStore waits, at most Config.Settle, until the store has what the log contained of a bucket when the shard was
// acquired. Before that the store's watermark is old, and frames would be fetched that are already in the log.
func (s *shardListener) awaitStore(ctx context.Context, bucket int) error {
	if s.l.deps.Settled == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, s.l.deps.Config.Settle)
	defer cancel()
	for {
		s.mu.Lock()
		done := s.settled[bucket]
		s.mu.Unlock()
		if done {
			return nil
		}
		settled, err := s.l.deps.Settled(limited, bucket)
		if err == nil && settled {
			s.mu.Lock()
			s.settled[bucket] = true
			s.mu.Unlock()
			return nil
		}
		if !clock.Pause(limited, 100*time.Millisecond+rand.N(200*time.Millisecond)) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			s.l.deps.Log.LogAttrs(ctx, slog.LevelWarn, "store lags behind the event log, fetching frames that the log already has",
				slog.Int(logkey.Bucket, bucket), slog.Any(logkey.Error, err))
			return nil
		}
	}
}

// signal sends to a channel with a buffer of one unless a signal is already pending.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
