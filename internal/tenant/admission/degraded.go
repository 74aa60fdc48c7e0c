package admission

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// While the shared server is away a node enforces its share of each limit by itself.
const (
	// shareSlack lets the nodes together admit a fifth more than the limit, because load is never spread evenly.
	shareSlack = 1.2
	// monthReserve is the part of a month's limit that is not handed out by nodes on their own.
	monthReserve = 0.005
)

// share is one node's part of a limit, and never more than the whole.
func share(limit, nodes int) int {
	if limit < 0 {
		return limit
	}
	return min(limit, int(math.Ceil(float64(limit)/float64(max(nodes, 1))*shareSlack)))
}

// localBucket is a bucket that only this node knows.
type localBucket struct {
	mu sync.Mutex
	bucket
}

// aloneAge is how old an identity may be while the shared server is away: a revoked key is refused after this time at
// the latest, and the database is asked about each key once in it.
const aloneAge = time.Second

// outdated says whether an identity is too old to be acted on without the shared server. An answer that merely came too
// late is rare enough to ask the database each time.
func (l *Limiter) outdated(c Call) bool {
	if c.ReadAt.IsZero() || c.fresh() {
		return false
	}
	return l.breaker.State() != gobreaker.StateOpen || l.Now().Sub(c.ReadAt) > aloneAge
}

// alone decides without the shared server.
func (l *Limiter) alone(ctx context.Context, st *orgState, c Call) Decision {
	if l.outdated(c) {
		return Decision{Stale: true}
	}
	l.metrics.decisions.WithLabelValues("alone").Inc()
	now := l.Now()
	nodes := l.Fleet.LiveAPI()
	used := l.lastKnown(ctx, st, c, now)

	st.mu.Lock()
	defer st.mu.Unlock()
	minute := share(c.Limits.CallsPerMinute, nodes)
	if st.level.at.After(st.local.at) && c.Limits.CallsPerMinute > 0 {
		// Go on from where the shared bucket stood, scaled down to the share.
		st.local = st.level
		st.local.level *= float64(minute) / float64(c.Limits.CallsPerMinute)
	}
	d := Decision{
		Degraded: true,
		Org:      window(now, st.local.drained(now, minute, time.Minute), minute, time.Minute),
		Month:    monthWindow(now, used, c.Limits.CallsPerMonth),

		MonthUsed: used,
	}
	d.Org.Limit = c.Limits.CallsPerMinute
	if c.Quota == Free {
		return d
	}
	if c.Quota == Safety {
		d.Denied = st.safetyAlone(now, nodes, &d.Safety)
		return d
	}
	if d.Denied = l.refuseAlone(c, now, used); d.Denied != nil {
		return d
	}
	if wait := st.local.wait(now, minute, time.Minute); wait > 0 {
		d.Denied = &Denial{Reason: OrgPerMinute, Wait: wait, Limit: c.Limits.CallsPerMinute, Current: c.Limits.CallsPerMinute}
		return d
	}
	if d.Denied = l.accountAlone(c, now, nodes, &d.Account); d.Denied != nil {
		return d
	}
	st.local.take(now, minute, time.Minute)
	d.Org.Remaining = max(d.Org.Remaining-1, 0)
	d.Month = monthWindow(now, used+1, c.Limits.CallsPerMonth)
	d.MonthUsed++
	st.used++
	st.add(monthOf(now), 0) // the shared counters surely do not have it
	return d
}

// safetyAlone takes from the node's own bucket for safety. The state is locked.
func (st *orgState) safetyAlone(now time.Time, nodes int, w *Window) *Denial {
	limit := share(SafetyPerMinute, nodes)
	wait := st.safety.take(now, limit, time.Minute)
	*w = window(now, st.safety.drained(now, limit, time.Minute), limit, time.Minute)
	w.Limit = SafetyPerMinute
	if wait == 0 {
		return nil
	}
	return &Denial{Reason: SafetyReason, Wait: wait, Limit: SafetyPerMinute, Current: SafetyPerMinute}
}

// refuseAlone checks what needs no bucket: a cool-down this node knows of, and the month.
func (l *Limiter) refuseAlone(c Call, now time.Time, used int64) *Denial {
	if c.Quota == Read || c.Quota == Write {
		if until, ok := l.cooldowns.Get(c.Account); ok && now.Before(until) {
			return &Denial{CoolDown: true, Wait: until.Sub(now)}
		}
	}
	if limit := c.Limits.CallsPerMonth; limit >= 0 && float64(used) >= float64(limit)*(1-monthReserve) {
		return &Denial{Reason: OrgPerMonth, Wait: l.monthWait(now, used, limit), Limit: limit, Current: int(used)}
	}
	return nil
}

// monthWait is until the next month, unless only the reserve is left: then the shared server decides when it is back.
func (l *Limiter) monthWait(now time.Time, used int64, limit int) time.Duration {
	if used < int64(limit) {
		return denyAtMost
	}
	return nextMonth(now).Sub(now)
}

// accountAlone takes from the node's own bucket of an account.
func (l *Limiter) accountAlone(c Call, now time.Time, nodes int, w *Window) *Denial {
	if c.Quota != Read && c.Quota != Write {
		return nil
	}
	limit := share(c.accountLimit(), nodes)
	b := l.accounts.GetOrMake(accountQuota{c.Account, c.Quota}, func() *localBucket { return &localBucket{} })
	b.mu.Lock()
	defer b.mu.Unlock()
	wait := b.take(now, limit, time.Minute)
	*w = window(now, b.drained(now, limit, time.Minute), limit, time.Minute)
	w.Limit = c.accountLimit()
	if wait == 0 {
		return nil
	}
	reason := AccountRead
	if c.Quota == Write {
		reason = AccountWrite
	}
	return &Denial{Reason: reason, Wait: wait, Limit: c.accountLimit(), Current: c.accountLimit()}
}

// lastKnown is the month's total as far as this node knows; it asks the database once if it knows nothing.
func (l *Limiter) lastKnown(ctx context.Context, st *orgState, c Call, now time.Time) int64 {
	month := monthOf(now)
	st.mu.Lock()
	known, used := st.known && st.month == month, st.used
	st.mu.Unlock()
	if known {
		return used
	}
	ctx, cancel := context.WithTimeout(ctx, databaseAtMost)
	defer cancel()
	used, err := l.monthUsed(ctx, c.Org, month)
	if err != nil {
		return 0 // neither engine answers: the minute's share still bounds what passes
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.known || st.month != month {
		st.month, st.used, st.known = month, used, true
	}
	return st.used
}

func boolFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
