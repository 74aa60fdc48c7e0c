package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// The month's total lives twice: on the shared server, where each admission adds to it, and in the database, to which
// every node adds each second what it admitted. Each side repairs the other, by way of an incarnation number:
//
//   - The database hands out a new incarnation whenever somebody rebuilds the shared counters from it. An admission says
//     which incarnation it means and is turned away by any other, so a late command cannot count into the wrong one.
//   - A node notes for each call under which incarnation it was counted; 0 if this node admitted it alone.
//   - Adding to the database returns the org's incarnation at that moment, under a lock that a rebuild also takes.
//     Calls of an older incarnation were therefore not in the reading of the newest rebuild: the ledger notes them as
//     owed, and they are credited to it.
//   - When it is not known whether the shared counters have a call (a time-out), they are rebuilt.
//   - When a node has died, which may not have added its last second to the database, the shared total is taken over
//     (lift): a new incarnation begins with the same counters, and batches of older ones find their calls included.
//
// So the total is exact again once the shared server is back, whatever happened to it in between.

// settled is one sum that has to reach the database and maybe the shared counters.
type settled struct {
	org         id.Org
	month       int
	incarnation int64
	calls       int64
}

// settling is the state of the flush loop. Only one goroutine uses it at a time.
type settling struct {
	mu sync.Mutex
	// number is that of the batch; it stays in batch until the database is known to have it.
	number int64
	batch  []settled
	// due are orgs of earlier batches that are still to be looked at; an entry an org.
	due map[id.Org]due
}

const (
	settleEvery = time.Second
	// settleAtMost bounds how long a database that hangs is waited for.
	settleAtMost = 10 * time.Second
	sweepEvery   = time.Minute
	idleAfter    = 10 * time.Minute
)

// Run settles the counts until the context ends, and once more then.
func (l *Limiter) Run(ctx context.Context) error {
	settle, sweep := time.NewTicker(settleEvery), time.NewTicker(sweepEvery)
	defer settle.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			err := l.Settle(last)
			if err != nil && len(l.settle.batch) > 0 {
				return fmt.Errorf("calls of the month were not settled: %w", err)
			}
			return nil // what Redis may still lack is in the ledger, and another node will see to it
		case <-settle.C:
			if err := l.Settle(ctx); err != nil {
				l.Log.LogAttrs(ctx, slog.LevelWarn, "month not settled", slog.Any("error", err))
			}
		case <-sweep.C:
			l.sweep(ctx)
		}
	}
}

// Settle brings the database and the shared counters up to date with what this node admitted.
func (l *Limiter) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleAtMost)
	defer cancel()
	l.settle.mu.Lock()
	defer l.settle.mu.Unlock()
	s := &l.settle
	if len(s.batch) == 0 {
		s.batch = l.collect()
		s.number++
	}
	if len(s.batch) > 0 {
		ledgers, applied, err := l.addToMonths(ctx, s.number, s.batch)
		if err != nil {
			return err
		}
		for _, b := range s.batch {
			ledger := ledgers[b.org]
			// An earlier try did it, and what that try learned is lost; or another node doubts, and may not live to act on it.
			if !applied || ledger.doubted {
				l.state(b.org).doubted()
				continue
			}
			s.due[b.org] = due{owes: s.due[b.org].owes || ledger.owed > 0 || ledger.lacks(b), liftedAt: ledger.liftedAt}
		}
		s.batch = nil
	}
	if err := l.markDoubted(ctx); err != nil {
		return err
	}
	if l.breaker.State() == gobreaker.StateOpen {
		return nil // half open will do: an org without calls must be settled too
	}
	if err := l.payDue(ctx); err != nil {
		return err
	}
	return l.rebuildDoubted(ctx)
}

// due is what may have to be done for an org that was in a batch.
type due struct {
	// owes means that the shared counters lack calls; liftedAt is when their total was last taken over.
	owes     bool
	liftedAt time.Time
}

// payDue credits and lifts. An org whose counters are in doubt is left to the rebuild, which does both.
func (l *Limiter) payDue(ctx context.Context) error {
	died := l.Fleet.LastDeath()
	for org, d := range l.settle.due {
		if _, doubtful := l.state(org).unresolved(); doubtful {
			delete(l.settle.due, org)
			continue
		}
		if d.owes {
			if err := l.pay(ctx, org); err != nil {
				l.failed(err, l.state(org)) // it may have been added; a rebuild will tell
				return err
			}
		}
		// That node may have admitted calls, and counted them in Redis, that it could not add to the database.
		if died.After(d.liftedAt.Add(-settleAtMost)) {
			if err := l.lift(ctx, org, died.Add(settleAtMost)); err != nil {
				return err
			}
		}
		delete(l.settle.due, org)
	}
	return nil
}

// markDoubted writes this node's doubts down, so that no other node takes a doubtful total over.
func (l *Limiter) markDoubted(ctx context.Context) error {
	var orgs []string
	l.orgs.Range(func(key, value any) bool {
		if _, doubtful := value.(*orgState).unresolved(); doubtful {
			orgs = append(orgs, string(key.(id.Org)))
		}
		return true
	})
	if len(orgs) == 0 {
		return nil
	}
	slices.Sort(orgs) // all nodes take the rows' locks in one order
	return l.doubt(ctx, orgs)
}

// collect takes the pending counts of all orgs, in the order of their ids so that nodes do not deadlock.
func (l *Limiter) collect() []settled {
	var batch []settled
	l.orgs.Range(func(key, value any) bool {
		for _, p := range value.(*orgState).take() {
			batch = append(batch, settled{key.(id.Org), p.month, p.incarnation, p.calls})
		}
		return true
	})
	slices.SortFunc(batch, func(a, b settled) int {
		if a.org != b.org {
			if a.org < b.org {
				return -1
			}
			return 1
		}
		return a.month - b.month
	})
	return batch
}

// rebuildDoubted rebuilds the shared counters of orgs of which it is not known whether they are right.
func (l *Limiter) rebuildDoubted(ctx context.Context) error {
	var first error
	l.orgs.Range(func(key, value any) bool {
		st := value.(*orgState)
		upTo, needed := st.unresolved()
		if !needed {
			return true
		}
		if err := l.prime(ctx, st, key.(id.Org)); err != nil {
			first = err
			return false
		}
		st.resolve(upTo)
		return true
	})
	return first
}

// adopt takes over the incarnation that the shared counters were found to have, or rebuilds them if they are gone.
// asked is the one that the call knew: if the node knows another by now, somebody was faster, and the call just asks again.
func (l *Limiter) adopt(ctx context.Context, st *orgState, org id.Org, asked, found int64) error {
	if found > asked {
		st.setIncarnation(found)
		return nil
	}
	_, err, _ := l.priming.Do(string(org), func() (any, error) {
		if st.currentIncarnation() != asked {
			return nil, nil //nolint:nilnil // nothing to return, nothing wrong
		}
		ctx, cancel := context.WithTimeout(ctx, databaseAtMost)
		defer cancel()
		return nil, l.prime(ctx, st, org)
	})
	return err
}

// prime rebuilds an org's shared counters from the database, under a new incarnation.
func (l *Limiter) prime(ctx context.Context, st *orgState, org id.Org) error {
	incarnation, answer, err := l.rebuild(ctx, org, monthOf(l.Now()))
	if err != nil {
		l.failed(err, nil)
		return err
	}
	if answer != "ok" {
		found, err := strconv.ParseInt(answer, 10, 64)
		if err != nil {
			return errAnswer
		}
		if found > incarnation {
			st.setIncarnation(found) // another node rebuilt them meanwhile, from a later reading
			return nil
		}
		st.doubted()
		return errors.Join(errAhead, l.raiseIncarnation(ctx, org, found))
	}
	st.setIncarnation(incarnation)
	return nil
}

// errAhead means that the shared counters already had the incarnation that was just handed out: a lift had reached them and
// not the database. They were not rebuilt; the next try does it.
var errAhead = errors.New("the shared counters were ahead of the ledger")

// sweep forgets orgs that have not called for a while, and the marks of processes that are long gone.
func (l *Limiter) sweep(ctx context.Context) {
	before := l.Now().Add(-idleAfter)
	l.orgs.Range(func(key, value any) bool {
		if value.(*orgState).retire(before) {
			l.orgs.Delete(key)
		}
		return true
	})
	ctx, cancel := context.WithTimeout(ctx, databaseAtMost)
	defer cancel()
	if err := l.forgetFlushes(ctx, l.Now().Add(-7*24*time.Hour)); err != nil {
		l.Log.LogAttrs(ctx, slog.LevelWarn, "old flush marks not removed", slog.Any("error", err))
	}
}
