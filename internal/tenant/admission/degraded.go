package admission

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/stagedoor/stagedoor/internal/tenant/admission/internal/db"
)

// While Redis is away, a node enforces its share of each limit alone.
const (
	// shareSlack lets all nodes together admit a fifth more than the limit, because load is never spread evenly.
	shareSlack = 1.2
	// monthReserve is the part of a month's limit that nodes do not use while they decide alone.
	monthReserve = 0.005
	// shareWait is how long jobs wait before they try again.
	shareWait = 5 * time.Second
)

// nodeShare returns one node's share of a limit, at most the whole limit.
func nodeShare(limit, nodes int) int {
	if limit < 0 {
		return limit
	}
	return min(limit, int(math.Ceil(float64(limit)/float64(max(nodes, 1))*shareSlack)))
}

// localBucket is a bucket of this node only, for an account.
type localBucket struct {
	mu sync.Mutex
	bucket
}

// aloneAge is the maximum age of an identity while the breaker is open. It bounds how long a revoked key is accepted,
// and makes the node read each key in use from the database once per second.
const aloneAge = time.Second

// isOutdated reports whether an identity is too old to decide without Redis. While the breaker is not open, only single
// answers fail, which is rare enough to read the identity from the database each time.
func (l *Limiter) isOutdated(c Call) bool {
	if c.ReadAt.IsZero() || c.isFresh() {
		return false
	}
	return l.breaker.State() != gobreaker.StateOpen || l.deps.Now().Sub(c.ReadAt) > aloneAge
}

// decideAlone decides without Redis, by this node's share of the limits.
func (l *Limiter) decideAlone(ctx context.Context, st *orgState, c Call) Decision {
	if l.isOutdated(c) {
		return Decision{Stale: true}
	}
	l.metrics.decisions.WithLabelValues("alone").Inc()
	now := l.deps.Now()
	nodes := l.deps.Fleet.LiveAPI()
	used := l.knownMonthUsed(ctx, st, c, now)

	st.mu.Lock()
	defer st.mu.Unlock()
	minute := nodeShare(c.Limits.CallsPerMinute, nodes)
	if st.level.at.After(st.local.at) && c.Limits.CallsPerMinute > 0 {
		// Continue from the last known level of the shared bucket, scaled down to the share.
		st.local = st.level
		st.local.level *= float64(minute) / float64(c.Limits.CallsPerMinute)
	}
	d := Decision{
		Degraded: true,
		Org:      window(now, st.local.levelAt(now, minute, time.Minute), minute, time.Minute),
		Month:    monthWindow(now, used, c.Limits.CallsPerMonth),

		MonthUsed: used,
	}
	d.Org.Limit = c.Limits.CallsPerMinute
	if c.Quota == Free {
		return d
	}
	if c.Quota == Safety {
		d.Denied = st.takeSafetyAlone(now, nodes, &d.Safety)
		return d
	}
	if c.Quota == Jobs {
		d.Denied = &Denial{Reason: JobShare, Wait: shareWait, Limit: c.Most} // jobs can wait, so that callers have what there is
		return d
	}
	if d.Denied = l.denyAlone(c, now, used); d.Denied != nil {
		return d
	}
	if wait := st.local.wait(now, minute, time.Minute); wait > 0 {
		d.Denied = &Denial{Reason: OrgPerMinute, Wait: wait, Limit: c.Limits.CallsPerMinute, Current: c.Limits.CallsPerMinute}
		return d
	}
	if d.Denied = l.takeAccountAlone(c, now, nodes, &d.Account); d.Denied != nil {
		return d
	}
	st.local.take(now, minute, time.Minute)
	d.Org.Remaining = max(d.Org.Remaining-1, 0)
	d.Month = monthWindow(now, used+1, c.Limits.CallsPerMonth)
	d.MonthUsed++
	st.used++
	st.countLocked(monthOf(now), 0) // 0: the shared counters do not have this call
	return d
}

// takeSafetyAlone takes one call from the node's own bucket for Safety, or returns a denial. The caller holds st.mu.
func (st *orgState) takeSafetyAlone(now time.Time, nodes int, w *Window) *Denial {
	limit := nodeShare(SafetyPerMinute, nodes)
	wait := st.safety.take(now, limit, time.Minute)
	*w = window(now, st.safety.levelAt(now, limit, time.Minute), limit, time.Minute)
	w.Limit = SafetyPerMinute
	if wait == 0 {
		return nil
	}
	return &Denial{Reason: SafetyReason, Wait: wait, Limit: SafetyPerMinute, Current: SafetyPerMinute}
}

// denyAlone checks what needs no bucket: a cool-down that this node knows of, and the month.
func (l *Limiter) denyAlone(c Call, now time.Time, used int64) *Denial {
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

// monthWait returns the time until the next month. If the reserve is left, it is short instead, because Redis may hand
// the reserve out when it is back.
func (l *Limiter) monthWait(now time.Time, used int64, limit int) time.Duration {
	if used < int64(limit) {
		return maxHold
	}
	return nextMonth(now).Sub(now)
}

// takeAccountAlone takes one call from the node's own bucket of an account, or returns a denial.
func (l *Limiter) takeAccountAlone(c Call, now time.Time, nodes int, w *Window) *Denial {
	if c.Quota != Read && c.Quota != Write {
		return nil
	}
	limit := nodeShare(c.accountLimit(), nodes)
	b := l.accounts.GetOrMake(accountQuota{c.Account, c.Quota}, func() *localBucket { return &localBucket{} })
	b.mu.Lock()
	defer b.mu.Unlock()
	wait := b.take(now, limit, time.Minute)
	*w = window(now, b.levelAt(now, limit, time.Minute), limit, time.Minute)
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

// knownMonthUsed returns the month's total as far as this node knows. If it does not know any, it reads the database
// once.
func (l *Limiter) knownMonthUsed(ctx context.Context, st *orgState, c Call, now time.Time) int64 {
	month := monthOf(now)
	st.mu.Lock()
	known, used := st.known && st.month == month, st.used
	st.mu.Unlock()
	if known {
		return used
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	used, err := db.New(l.deps.DB).MonthUsed(ctx, db.MonthUsedParams{OrgID: c.Org, Month: int32(month)})
	if err != nil {
		return 0 // neither Redis nor the database answers; the share of the minute still limits calls
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
