package admission

import (
	"math"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// orgState is what one node knows of one org.
type orgState struct {
	mu sync.Mutex
	// retired means that the state was dropped from the limiter; a call must fetch the new one.
	retired bool
	touched time.Time
	// incarnation is that of the shared counters as last seen; 0 if unknown.
	incarnation int64
	// month and used are the last known total; level the last known state of the minute.
	month int
	used  int64
	known bool
	level bucket
	// local is the node's own share of the minute while degraded, safety that of the limit of its name.
	local, safety bucket
	// pending are admitted calls that the database does not know of yet.
	pending []pendingCount
	// doubts counts calls of which it is not known whether the shared counters have them; resolved, up to which of them
	// the counters have since been rebuilt.
	doubts, resolved int64
	held             heldDenial
}

// pendingCount are calls admitted in a month under one incarnation of the shared counters; under 0, by this node alone.
type pendingCount struct {
	month       int
	incarnation int64
	calls       int64
}

// state finds or makes the state of an org.
func (l *Limiter) state(org id.Org) *orgState {
	if st, ok := l.orgs.Load(org); ok {
		return st.(*orgState)
	}
	st, _ := l.orgs.LoadOrStore(org, &orgState{touched: l.Now()})
	return st.(*orgState)
}

// touch is state for a call: what it returns is not retired for as long as a call can take.
func (l *Limiter) touch(org id.Org) *orgState {
	for {
		st := l.state(org)
		st.mu.Lock()
		retired := st.retired
		st.touched = l.Now()
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

func (st *orgState) setIncarnation(n int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.incarnation = max(st.incarnation, n)
}

func (st *orgState) doubted() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.doubts++
}

// learn keeps what the shared counters said, for the case that they are gone at the next call.
func (st *orgState) learn(month int, used int64, level bucket) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.month, st.used, st.known, st.level = month, used, true, level
}

// count adds an admitted call to what the database is to be told.
func (st *orgState) count(month int, incarnation int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.add(month, incarnation)
}

// add is count for a caller that holds the lock.
func (st *orgState) add(month int, incarnation int64) {
	for i := range st.pending {
		if p := &st.pending[i]; p.month == month && p.incarnation == incarnation {
			p.calls++
			return
		}
	}
	st.pending = append(st.pending, pendingCount{month, incarnation, 1})
}

// take empties the pending counts.
func (st *orgState) take() []pendingCount {
	st.mu.Lock()
	defer st.mu.Unlock()
	taken := st.pending
	st.pending = nil
	return taken
}

// unresolved says up to which doubt a rebuild would settle, and whether one is needed.
func (st *orgState) unresolved() (upTo int64, needed bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.doubts, st.doubts > st.resolved
}

func (st *orgState) resolve(upTo int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.resolved = max(st.resolved, upTo)
}

// retire marks a state that nobody has used for a while and that owes nothing, and says whether it did.
func (st *orgState) retire(before time.Time) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.touched.After(before) || len(st.pending) > 0 || st.doubts > st.resolved {
		return false
	}
	st.retired = true
	return true
}

// heldDenial is a refusal that this node repeats without asking, until shortly before it ends.
type heldDenial struct {
	denial Denial
	// org, month and account are what was left when it was made.
	org, month, account Window
	// ends is when the wait is over, until when the refusal is repeated.
	ends, until time.Time
}

const (
	// denyMargin is how long before its end a refusal is no longer repeated: clocks differ a little, and a caller that
	// waited as told must never be refused.
	denyMargin = time.Second
	// denyAtMost bounds how long a node may miss that a limit was raised, if the news is lost.
	denyAtMost = 5 * time.Second
)

// hold remembers a refusal that is long enough to be worth it.
func (l *Limiter) hold(st *orgState, c Call, d Decision, now time.Time) {
	if c.Quota == Safety {
		return // it drains one a second: too short to be worth it
	}
	h := heldDenial{denial: *d.Denied, org: d.Org, month: d.Month, account: d.Account, ends: now.Add(d.Denied.Wait)}
	h.until = earlier(h.ends.Add(-denyMargin), now.Add(denyAtMost))
	if !h.until.After(now) {
		return
	}
	// A wait is the longest of all limits that the call uses, so it is repeated only to calls that use the same ones.
	if c.Quota == Plain {
		st.mu.Lock()
		st.held = h
		st.mu.Unlock()
		return
	}
	l.denials.Put(accountQuota{c.Account, c.Quota}, h)
}

// held finds a refusal to repeat.
func (l *Limiter) held(st *orgState, c Call) (Decision, bool) {
	if c.Quota == Free || c.Quota == Safety {
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
	now := l.Now()
	if !now.Before(h.until) {
		return Decision{}, false
	}
	d := h.denial
	d.Wait = h.ends.Sub(now)
	if ofOrg := d.Reason == OrgPerMinute || d.Reason == OrgPerMonth; !ofOrg && c.Limits.CallsPerMinute > 0 {
		// Calls for other accounts may have filled the org's minute since. It has room for one more after this long.
		d.Wait = max(d.Wait, time.Minute/time.Duration(c.Limits.CallsPerMinute))
	}
	return Decision{Denied: &d, Org: h.org, Month: h.month, Account: h.account}, true
}

// release drops a held refusal.
func (st *orgState) release() {
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
