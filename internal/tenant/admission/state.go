package admission

import (
	"math"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// orgState is one node's knowledge of one org.
type orgState struct {
	mu sync.Mutex
	// retired means that the state was removed from Limiter.orgs. A call must use the new one.
	retired bool
	touched time.Time // by the last call
	// incarnation is the last seen incarnation of the shared counters; 0 if unknown.
	incarnation int64
	// month and used are the last known total, valid if known is true. level is the last known level of the shared
	// minute.
	month int
	used  int64
	known bool
	level bucket
	// local and safety are the node's own buckets while it decides alone: for the org's minute and for Safety.
	local, safety bucket
	// pending counts admitted calls that are not in the database yet.
	pending []pendingCount
	// doubts counts calls that the shared counters may or may not contain. resolved is the value of doubts up to which
	// the counters have been rebuilt since.
	doubts, resolved int64
	held             heldDenial // of Plain calls
}

// pendingCount counts calls of one month that were admitted under one incarnation of the shared counters, or by this
// node alone if incarnation is 0.
type pendingCount struct {
	month       int
	incarnation int64
	calls       int64
}

// state returns the state of an org, creating it if necessary.
func (l *Limiter) state(org id.Org) *orgState {
	if st, ok := l.orgs.Load(org); ok {
		return st.(*orgState)
	}
	st, _ := l.orgs.LoadOrStore(org, &orgState{touched: l.deps.Now()})
	return st.(*orgState)
}

// touchState returns the state of an org for a call. It will not be retired during the call, because idleAfter is much
// longer than a call takes.
func (l *Limiter) touchState(org id.Org) *orgState {
	for {
		st := l.state(org)
		st.mu.Lock()
		retired := st.retired
		st.touched = l.deps.Now()
		st.mu.Unlock()
		if !retired {
			return st
		}
	}
}

func (st *orgState) currentIncarnation() int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.incarnation
}

// setIncarnation ignores an incarnation that is older than the known one.
func (st *orgState) setIncarnation(n int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.incarnation = max(st.incarnation, n)
}

// addDoubt records that the shared counters may or may not contain a call, so that the next Settle rebuilds them.
func (st *orgState) addDoubt() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.doubts++
}

// rememberShared stores the values of the shared counters in case Redis is away at the next call.
func (st *orgState) rememberShared(month int, used int64, level bucket) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.month, st.used, st.known, st.level = month, used, true, level
}

// countCall adds an admitted call to the pending counts.
func (st *orgState) countCall(month int, incarnation int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.countLocked(month, incarnation)
}

// countLocked is countCall for callers that hold st.mu.
func (st *orgState) countLocked(month int, incarnation int64) {
	for i := range st.pending {
		if p := &st.pending[i]; p.month == month && p.incarnation == incarnation {
			p.calls++
			return
		}
	}
	st.pending = append(st.pending, pendingCount{month, incarnation, 1})
}

func (st *orgState) takePending() []pendingCount {
	st.mu.Lock()
	defer st.mu.Unlock()
	taken := st.pending
	st.pending = nil
	return taken
}

// unresolvedDoubts reports whether a rebuild is needed, and the value to pass to resolveDoubts after it. Doubts that
// arise during the rebuild remain unresolved.
func (st *orgState) unresolvedDoubts() (upTo int64, needed bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.doubts, st.doubts > st.resolved
}

func (st *orgState) resolveDoubts(upTo int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.resolved = max(st.resolved, upTo)
}

// tryRetire marks the state as retired if no call has used it since before and it has no pending counts or doubts. It
// reports whether it did.
func (st *orgState) tryRetire(before time.Time) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.touched.After(before) || len(st.pending) > 0 || st.doubts > st.resolved {
		return false
	}
	st.retired = true
	return true
}

// heldDenial is a denial that this node repeats without asking Redis, until shortly before it ends.
type heldDenial struct {
	denial Denial
	// org, month and account are the windows at the time of the denial.
	org, month, account Window
	// ends is when the denial's wait is over. The node repeats the denial until the earlier time until.
	ends, until time.Time
}

const (
	// holdMargin is how long before its end a denial is no longer repeated. Clocks differ a little, and a caller that
	// waited as long as it was asked to must never be denied.
	holdMargin = time.Second
	// maxHold bounds how long a node repeats a denial after the limit was raised, if the message about it is lost.
	maxHold = 5 * time.Second
)

// holdDenial remembers a denial, unless it is too short.
func (l *Limiter) holdDenial(st *orgState, c Call, d Decision, now time.Time) {
	if c.hasOwnBucket() {
		return // one call drains per second, so these denials are too short
	}
	h := heldDenial{denial: *d.Denied, org: d.Org, month: d.Month, account: d.Account, ends: now.Add(d.Denied.Wait)}
	h.until = earlier(h.ends.Add(-holdMargin), now.Add(maxHold))
	if !h.until.After(now) {
		return
	}
	// The wait is the longest of all limits that the call uses, so it is valid only for calls that use the same limits.
	if c.Quota == Plain {
		st.mu.Lock()
		st.held = h
		st.mu.Unlock()
		return
	}
	l.denials.Put(accountQuota{c.Account, c.Quota}, h)
}

// findHeldDenial returns a held denial that applies to the call, with the remaining wait.
func (l *Limiter) findHeldDenial(st *orgState, c Call) (Decision, bool) {
	if c.Quota == Free || c.hasOwnBucket() {
		return Decision{}, false
	}
	var h heldDenial
	if c.Quota == Plain {
		st.mu.Lock()
		h = st.held
		st.mu.Unlock()
	} else {
		h, _ = l.denials.Get(accountQuota{c.Account, c.Quota})
	}
	now := l.deps.Now()
	if !now.Before(h.until) {
		return Decision{}, false
	}
	d := h.denial
	d.Wait = h.ends.Sub(now)
	if ofOrg := d.Reason == OrgPerMinute || d.Reason == OrgPerMonth; !ofOrg && c.Limits.CallsPerMinute > 0 {
		// Calls on other accounts may have filled the org's minute since. It has room for one more call after this
		// long.
		d.Wait = max(d.Wait, time.Minute/time.Duration(c.Limits.CallsPerMinute))
	}
	return Decision{Denied: &d, Org: h.org, Month: h.month, Account: h.account}, true
}

func (st *orgState) dropHeldDenial() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.held = heldDenial{}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func ceil(x float64) float64 { return math.Ceil(x) }
