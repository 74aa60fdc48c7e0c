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
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/tenant/admission/internal/db"
)

// The month's total exists twice: in Redis (the shared counters), where each admission adds to it, and in the database,
// to which every node adds once a second what it admitted. Each repairs the other, by means of an incarnation number:
//
//   - The database hands out a new incarnation whenever a node rebuilds the shared counters from it. An admission names
//     the incarnation that the node knows, and the counters reject any other, so that a late command cannot count into
//     a newer one.
//   - For each call a node records the incarnation under which it was counted, or 0 if the node decided alone.
//   - A batch that is added to the database locks the org's ledger, which a rebuild also locks, and reads the current
//     incarnation. If that is newer than the one of a call, the rebuild did not include the call: the ledger records it
//     as owed, and a node credits it to the shared counters.
//   - When it is unknown whether the shared counters contain a call (after a time-out), they are rebuilt.
//   - When a node has died, the calls of its last second may be in the shared counters and not in the database. The
//     other nodes then take the shared total over (lift): a new incarnation starts with the same counters, and calls of
//     older incarnations are not added again.
//
// So the total is exact again once Redis is back, except if Redis returns with old data. ARCHITECTURE.md, section 6,
// lists the cases.

// monthCount is a pendingCount of an org, on its way to the database.
type monthCount struct {
	org         id.Org
	month       int
	incarnation int64
	calls       int64
}

// settling is the state of Settle, guarded by mu.
type settling struct {
	mu sync.Mutex
	// number identifies batch to the database. A batch is kept, with its number, until its commit is certain, so that a
	// repeated write is recognised.
	number int64
	batch  []monthCount
	// due holds the orgs of earlier batches whose shared counters may need a credit or a lift.
	due map[id.Org]due
}

const (
	settleInterval = time.Second
	// settleTimeout bounds one Settle.
	settleTimeout = 10 * time.Second
	sweepInterval = time.Minute
	// idleAfter is how long the state of an org without calls is kept.
	idleAfter = 10 * time.Minute
)

// Run settles every second until ctx ends, and then once more. It returns an error if the last batch may be lost.
func (l *Limiter) Run(ctx context.Context) error {
	settle, sweep := time.NewTicker(settleInterval), time.NewTicker(sweepInterval)
	defer settle.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			err := l.Settle(last)
			if err != nil && len(l.settle.batch) > 0 {
				return fmt.Errorf("settle the month's calls: %w", err)
			}
			return nil // the ledger has what Redis still lacks, and another node will credit it
		case <-settle.C:
			if err := l.Settle(ctx); err != nil {
				l.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot settle month", slog.Any(logkey.Error, err))
			}
		case <-sweep.C:
			l.sweepIdle(ctx)
		}
	}
}

// Settle adds this node's admitted calls to the database, and then credits, lifts or rebuilds shared counters that need
// it. After an error the next Settle continues where this one failed.
func (l *Limiter) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	l.settle.mu.Lock()
	defer l.settle.mu.Unlock()
	s := &l.settle
	if len(s.batch) == 0 {
		s.batch = l.collectPending()
		s.number++
	}
	if len(s.batch) > 0 {
		ledgers, applied, err := l.addToMonths(ctx, s.number, s.batch)
		if err != nil {
			return err
		}
		for _, b := range s.batch {
			ledger := ledgers[b.org]
			// Either an earlier attempt had committed the batch, and the ledgers it read are lost; or another node is
			// in doubt and may die before it rebuilds. In both cases this node rebuilds.
			if !applied || ledger.doubted {
				l.state(b.org).addDoubt()
				continue
			}
			s.due[b.org] = due{owes: s.due[b.org].owes || ledger.owed > 0 || ledger.isLacking(b), liftedAt: ledger.liftedAt}
		}
		s.batch = nil
	}
	if err := l.recordDoubts(ctx); err != nil {
		return err
	}
	if l.breaker.State() == gobreaker.StateOpen {
		return nil // Redis is away. Half-open is good enough, because an org without new calls must be settled too.
	}
	if err := l.processDue(ctx); err != nil {
		return err
	}
	return l.rebuildDoubted(ctx)
}

// due is work that an org of an earlier batch may need.
type due struct {
	// owes means that the shared counters lack calls. liftedAt is when their total was last taken over.
	owes     bool
	liftedAt time.Time
}

// processDue credits and lifts the orgs in due. It skips an org in doubt, because the rebuild does both.
func (l *Limiter) processDue(ctx context.Context) error {
	died := l.deps.Fleet.LastDeath()
	for org, d := range l.settle.due {
		if _, doubtful := l.state(org).unresolvedDoubts(); doubtful {
			delete(l.settle.due, org)
			continue
		}
		if d.owes {
			if err := l.creditOwed(ctx, org); err != nil {
				l.recordFailure(err, l.state(org)) // the credit may have been added, so the counters are in doubt
				return err
			}
		}
		// A node that died may have counted calls in Redis that it did not add to the database. died is its last
		// heartbeat, after which it may have lived on for a while, so only a lift more than settleTimeout later
		// includes all its calls.
		if died.After(d.liftedAt.Add(-settleTimeout)) {
			if err := l.liftTotal(ctx, org, died.Add(settleTimeout)); err != nil {
				return err
			}
		}
		delete(l.settle.due, org)
	}
	return nil
}

// recordDoubts writes this node's doubts to the ledgers, so that no node credits or lifts doubtful counters.
func (l *Limiter) recordDoubts(ctx context.Context) error {
	var orgs []string
	l.orgs.Range(func(key, value any) bool {
		if _, doubtful := value.(*orgState).unresolvedDoubts(); doubtful {
			orgs = append(orgs, string(key.(id.Org)))
		}
		return true
	})
	if len(orgs) == 0 {
		return nil
	}
	slices.Sort(orgs) // all nodes lock the rows in the same order
	return l.markInDoubt(ctx, orgs)
}

// collectPending takes the pending counts of all orgs, sorted by org so that nodes do not deadlock, and by month.
func (l *Limiter) collectPending() []monthCount {
	var batch []monthCount
	l.orgs.Range(func(key, value any) bool {
		for _, p := range value.(*orgState).takePending() {
			batch = append(batch, monthCount{key.(id.Org), p.month, p.incarnation, p.calls})
		}
		return true
	})
	slices.SortFunc(batch, func(a, b monthCount) int {
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

// rebuildDoubted rebuilds the shared counters of the orgs that are in doubt on this node.
func (l *Limiter) rebuildDoubted(ctx context.Context) error {
	var first error
	l.orgs.Range(func(key, value any) bool {
		st := value.(*orgState)
		upTo, needed := st.unresolvedDoubts()
		if !needed {
			return true
		}
		if err := l.rebuildCounters(ctx, st, key.(id.Org)); err != nil {
			first = err
			return false
		}
		st.resolveDoubts(upTo)
		return true
	})
	return first
}

// adoptIncarnation handles an admission that named another incarnation than the shared counters have: it adopts theirs
// if it is newer, and rebuilds them otherwise, because they are lost. asked is the incarnation that the call named. If
// this node knows another by now, a concurrent call has rebuilt them, and this call only repeats its admission.
func (l *Limiter) adoptIncarnation(ctx context.Context, st *orgState, org id.Org, asked, found int64) error {
	if found > asked {
		st.setIncarnation(found)
		return nil
	}
	_, err, _ := l.priming.Do(string(org), func() (any, error) {
		if st.currentIncarnation() != asked {
			return nil, nil //nolint:nilnil // there is no result
		}
		ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
		defer cancel()
		return nil, l.rebuildCounters(ctx, st, org)
	})
	return err
}

// rebuildCounters rebuilds an org's shared counters from the database, under a new incarnation.
func (l *Limiter) rebuildCounters(ctx context.Context, st *orgState, org id.Org) error {
	incarnation, answer, err := l.rebuildInTx(ctx, org, monthOf(l.deps.Now()))
	if err != nil {
		l.recordFailure(err, nil)
		return err
	}
	if answer != "ok" {
		found, err := strconv.ParseInt(answer, 10, 64)
		if err != nil {
			return errAnswer
		}
		if found > incarnation {
			st.setIncarnation(found) // another node has rebuilt them concurrently, from a newer total
			return nil
		}
		st.addDoubt()
		return errors.Join(errAhead, l.raiseIncarnation(ctx, org, found))
	}
	st.setIncarnation(incarnation)
	return nil
}

// errAhead means that the shared counters already had the incarnation that the database has just handed out, because a
// lift reached Redis and was then rolled back in the database. They were not rebuilt; the next attempt does that.
var errAhead = errors.New("the shared counters were ahead of the ledger")

// sweepIdle removes the state of orgs without recent calls, and the batch numbers of processes that ended long ago.
func (l *Limiter) sweepIdle(ctx context.Context) {
	before := l.deps.Now().Add(-idleAfter)
	l.orgs.Range(func(key, value any) bool {
		if value.(*orgState).tryRetire(before) {
			l.orgs.Delete(key)
		}
		return true
	})
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	if err := db.New(l.deps.DB).ForgetFlushes(ctx, l.deps.Now().Add(-7*24*time.Hour)); err != nil {
		l.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot delete old flush marks", slog.Any(logkey.Error, err))
	}
}
