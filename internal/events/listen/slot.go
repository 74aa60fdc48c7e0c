package listen

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// slot is a shard of accounts that this node listens to.
type slot struct {
	l     *Listeners
	shard int
	epoch int64
	// found are accounts that a poke named and nobody listens to yet; look is asked for when they were too many.
	found chan id.Account
	look  chan struct{}

	mu    sync.Mutex
	lines map[id.Account]*line
	ended bool
	wait  sync.WaitGroup
	// settled are the buckets of which the store had all that the log held, once since the slot was taken.
	settled [event.Buckets]bool
}

const (
	// foundMost is how many new accounts may wait to be looked up.
	foundMost = 1024
	// sweepPage is how many accounts are listed at once.
	sweepPage = 1000
	// retryShard is how soon what the database could not do is tried again.
	retryShard = time.Second
)

// hold listens to a shard until the context ends.
func (l *Listeners) hold(ctx context.Context, h lease.Held) {
	s := &slot{
		l: l, shard: h.Slot, epoch: h.Epoch, found: make(chan id.Account, foundMost), look: make(chan struct{}, 1), lines: map[id.Account]*line{},
	}
	if !s.take(ctx) {
		return
	}
	l.mu.Lock()
	l.slots[s.shard] = s
	l.mu.Unlock()
	s.run(ctx)
	l.mu.Lock()
	if l.slots[s.shard] == s {
		delete(l.slots, s.shard)
	}
	l.mu.Unlock()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.wait.Wait()
}

// take fences off whoever had the shard before.
func (s *slot) take(ctx context.Context) bool {
	for {
		err := s.l.Accounts.TakeShard(ctx, s.shard, s.epoch)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		s.l.Log.LogAttrs(ctx, slog.LevelWarn, "shard not taken", slog.Int("shard", s.shard), slog.Any("error", err))
		if !clock.Pause(ctx, retryShard) {
			return false
		}
	}
}

// run finds accounts until the context ends.
func (s *slot) run(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-s.found:
			s.meet(ctx, at)
		case <-s.look:
			next.Reset(0)
		case <-next.C:
			after := s.l.Config.Sweep
			if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
				s.l.Log.LogAttrs(ctx, slog.LevelWarn, "accounts of a shard not listed", slog.Int("shard", s.shard), slog.Any("error", err))
				after = retryShard
			}
			next.Reset(after)
		}
	}
}

// heard takes a poke about an account of the shard. It does not block.
func (s *slot) heard(at id.Account, payload []byte) {
	version, err := strconv.ParseInt(string(payload), 10, 64)
	if err != nil {
		return
	}
	s.mu.Lock()
	n := s.lines[at]
	s.mu.Unlock()
	if n != nil {
		if version > n.version.Load() {
			n.poke()
		}
		return
	}
	select {
	case s.found <- at:
	default:
		signal(s.look)
	}
}

// meet begins to listen to an account that a poke named, if it is to be listened to.
func (s *slot) meet(ctx context.Context, at id.Account) {
	owner, err := s.l.Accounts.Owner(ctx, at)
	if err != nil {
		signal(s.look) // the sweep finds it
		return
	}
	if owner == "" {
		return
	}
	a, err := s.l.Accounts.Get(ctx, owner, at)
	if err == nil && a.Listenable() && !s.l.isSuspended(ctx, owner) {
		s.start(ctx, account.Ref{Org: owner, Account: at})
	}
}

// start begins to listen to an account, unless that is so already.
func (s *slot) start(ctx context.Context, ref account.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.lines[ref.Account] != nil {
		return
	}
	n := newLine(s, ref)
	s.lines[ref.Account] = n
	s.wait.Go(func() { n.run(ctx) })
}

// leave ends a line, unless it was poked meanwhile.
func (s *slot) leave(n *line) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-n.poked:
		return false
	default:
		delete(s.lines, n.ref.Account)
		return true
	}
}

// sweep goes through all accounts of the shard: new ones are begun with, changed ones are looked at, and so are those that are gone.
func (s *slot) sweep(ctx context.Context) error {
	s.mu.Lock()
	gone := make(map[id.Account]*line, len(s.lines))
	for at, n := range s.lines {
		gone[at] = n
	}
	s.mu.Unlock()
	for after := id.Account(""); ; {
		list, err := s.l.Accounts.InShard(ctx, s.shard, after, sweepPage)
		if err != nil {
			return err
		}
		for _, one := range list {
			after = one.Account
			if s.l.isSuspended(ctx, one.Org) {
				continue // whoever listens to it is among the gone
			}
			if n := gone[one.Account]; n != nil {
				delete(gone, one.Account)
				if one.SessionVersion > n.version.Load() {
					n.poke()
				}
				continue
			}
			s.start(ctx, one.Ref)
		}
		if len(list) < sweepPage {
			break
		}
	}
	for _, n := range gone {
		n.poke()
	}
	return nil
}

// refill has every line fetch again what the log may have lost.
func (s *slot) refill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.lines {
		signal(n.refill)
	}
}

// awaitStore waits, within bounds, until the store has what the log held of a bucket when the slot was taken: what is fetched behind
// the store's watermark would otherwise be stored a second time.
func (s *slot) awaitStore(ctx context.Context, bucket int) error {
	if s.l.Settled == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, s.l.Config.Settle)
	defer cancel()
	for {
		s.mu.Lock()
		done := s.settled[bucket]
		s.mu.Unlock()
		if done {
			return nil
		}
		settled, err := s.l.Settled(limited, bucket)
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
			s.l.Log.LogAttrs(ctx, slog.LevelWarn, "the store is behind the log; frames may be stored twice", slog.Int("bucket", bucket), slog.Any("error", err))
			return nil
		}
	}
}

// signal wakes whoever reads a channel of one, now or when it comes to it.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
