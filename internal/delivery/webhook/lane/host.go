package lane

import (
	"net/http"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// hostKey names a host as one org uses it: what one org does to a host is nobody else's trouble.
type hostKey struct {
	org  id.Org
	name string
}

// host is what is known of a receiver's host: how much it can take at once, and whether it is down.
type host struct {
	key hostKey
	org *tenant
	// ready are who would send, by class; listed says in which of the org's rings the host is.
	ready  [classes]fifo[waiter]
	listed [classes]bool
	flying [classes]int
	// limit grows by one with a window of successes and is halved by trouble.
	limit float64
	cutAt time.Time
	used  time.Time

	// fails are failures in a row, who whose they were.
	fails int
	who   []string
	// open means that it is down: lanes are parked, and one at a time is tried. half means that one got through.
	open, half bool
	opens      int
	// probe is the lane that is tried; elected means that it was its turn, and it did not come by itself. lastGood is when a delivery to
	// the host last worked, lastTry when a lane last tried it by itself.
	probe    *Lane
	elected  bool
	lastGood time.Time
	lastTry  time.Time
	window   int
	parked   []*Lane
	// due is when it is the turn of one that is parked; the timer may be set for sooner.
	due   time.Time
	timer timer
}

// learn adapts what is sent at once.
func (h *host) learn(r Result, now time.Time, most int) {
	switch {
	case r.Aborted:
	case crowded(r):
		// Once per round: all that was under way when it became too much tells the same.
		if now.Sub(h.cutAt) >= max(r.Took, time.Second) {
			h.limit, h.cutAt = max(h.limit/2, 1), now
		}
	case r.Status > 0 && h.limit < float64(most):
		h.limit = min(h.limit+1/h.limit, float64(most))
	}
}

// leastHealthy is what lanes that work may always have under way: others that hang must not take their host from them.
const leastHealthy = 8

// full says whether no more may be under way. Lanes that failed lately have half of the limit to themselves.
func (h *host) full(c class) bool {
	if c == troubled {
		return h.flying[c] >= max(int(h.limit)/2, 1)
	}
	return h.flying[c] >= max(int(h.limit), leastHealthy)
}

// quiet says whether the host can be forgotten.
func (h *host) quiet(before time.Time) bool {
	return h.flying == [classes]int{} && !h.open && len(h.parked) == 0 && h.used.Before(before) && h.ready[healthy].empty() && h.ready[troubled].empty()
}

// hostFailed counts a failure of an endpoint, and opens the breaker when it is one too many. What was begun before the host last worked
// tells nothing of it.
func (m *Machine) hostFailed(h *host, job *Job, r Result, now time.Time) {
	source := job.Lane.source
	if h.open {
		if h.probe == job.Lane && h.elected {
			m.openHost(h, now)
		}
		return // others were under way already, or came by themselves
	}
	if now.Add(-r.Took).Before(h.lastGood) || r.Status != 0 && r.Status < 500 && r.Status != http.StatusTooManyRequests {
		return
	}
	h.fails++
	if len(h.who) < m.OpenLanes && !slices.Contains(h.who, source) {
		h.who = append(h.who, source)
	}
	// One that failed before may be the only one to blame: the host has just worked for another.
	if h.half && job.Lane.row.FailCount == 0 || h.fails >= m.OpenAfter && len(h.who) >= m.OpenLanes {
		m.openHost(h, now)
	}
}

func (m *Machine) openHost(h *host, now time.Time) {
	h.open, h.half, h.probe, h.elected = true, false, nil, false
	h.opens++
	h.due = now.Add(m.Delay(h.opens, m.chance()))
	m.expect(h, now)
}

// expect sets when a host that is down is tried next: when its turn comes, or sooner for the sake of those that wait for it and never
// failed themselves.
func (m *Machine) expect(h *host, now time.Time) {
	at := h.due
	if slices.ContainsFunc(h.parked, (*Lane).blameless) {
		at = h.soon(now)
	}
	m.timers.set(&h.timer, at)
}

// soon is when a host may be tried that works for some: others there may have made it look as if it were down.
func (h *host) soon(now time.Time) time.Time {
	at := h.lastTry.Add(tryEvery)
	if at.Before(now) {
		at = now
	}
	if now.Sub(h.lastGood) >= worksFor || h.due.Before(at) {
		return h.due
	}
	return at
}

// blameless says whether a lane waits for its host only, and never failed itself.
func (l *Lane) blameless() bool { return l.parked && l.row.FailCount == 0 }

// hostWorks closes the breaker step by step: with every success twice as many parked lanes are let go.
func (m *Machine) hostWorks(h *host, now time.Time) {
	h.fails, h.who, h.lastGood = 0, h.who[:0], now
	if !h.open && !h.half {
		return
	}
	if h.open {
		h.open, h.half, h.window = false, true, 1
		m.timers.stop(&h.timer)
		// Those that never failed themselves have waited for nothing but the host.
		slices.SortStableFunc(h.parked, func(a, b *Lane) int { return min(a.row.FailCount, 1) - min(b.row.FailCount, 1) })
	} else {
		h.window *= 2
	}
	h.probe, h.elected = nil, false
	for n := 0; n < h.window && len(h.parked) > 0; {
		l := h.parked[0]
		h.parked = append(h.parked[:0], h.parked[1:]...)
		if l.parked {
			l.parked, l.probing = false, true
			m.act(l, now)
			n++
		}
	}
	if len(h.parked) == 0 {
		h.half, h.opens, h.window = false, 0, 0
		h.parked = nil
	}
}

// probePatience is how long one that was sent ahead is waited for, until another is: it may hang by itself.
const probePatience = 2 * time.Second

// tryHost sends one lane ahead to see whether a host is back.
func (m *Machine) tryHost(h *host, now time.Time) {
	if !h.open {
		return
	}
	if now.Before(h.due) {
		m.tryEarly(h, now)
		return
	}
	for len(h.parked) > 0 {
		// One that never failed itself tells more.
		at := max(slices.IndexFunc(h.parked, (*Lane).blameless), 0)
		l := h.parked[at]
		h.parked = slices.Delete(h.parked, at, at+1)
		if !l.parked {
			continue
		}
		l.parked, l.probing = false, true
		h.probe, h.elected, h.lastTry = l, true, now
		// In case that it turns out to have nothing to send.
		h.due = now.Add(probePatience)
		m.expect(h, now)
		m.act(l, now)
		return
	}
	// Nobody waits: whoever comes next finds out.
	h.open, h.half, h.window, h.parked = false, true, 1, nil
}

// tryEarly lets one go that waits and never failed itself. What becomes of it tells nothing of others, unless it gets through.
func (m *Machine) tryEarly(h *host, now time.Time) {
	if at := slices.IndexFunc(h.parked, (*Lane).blameless); at >= 0 {
		l := h.parked[at]
		h.parked = slices.Delete(h.parked, at, at+1)
		l.parked, l.probing, l.volunteer, h.lastTry = false, true, true, now
		m.act(l, now)
	}
	m.expect(h, now)
}

// volunteers says whether a lane may see for itself whether its host is back, so that it does not wait for what others have found out:
// one that works, or one that has failed once or twice at a host that works for others.
func (m *Machine) volunteers(l *Lane, h *host, now time.Time) bool {
	retries := l.probing && l.row.FailCount <= gentle && now.Sub(h.lastGood) < worksFor
	if !l.works() && !retries || now.Sub(h.lastTry) < tryEvery {
		return false
	}
	l.volunteer, h.lastTry = true, now
	return true
}

const (
	// tryEvery is how often somebody may.
	tryEvery = 250 * time.Millisecond
	// worksFor is how long a host is taken to work for some after it did.
	worksFor = time.Minute
)

// park lets a lane wait for its host.
func (m *Machine) park(l *Lane, h *host, now time.Time) {
	l.clean = l.works()
	l.row.State, l.probing = Backoff, false
	if l.row.FailSince.IsZero() {
		l.row.FailSince = now
	}
	l.wantsRow, l.dirty = true, true
	m.timers.set(&l.timer, l.row.FailSince.Add(m.GiveUp))
	if !l.parked {
		l.parked = true
		h.parked = append(h.parked, l)
		if at := h.soon(now); l.blameless() && at.Before(h.timer.at) {
			m.timers.set(&h.timer, at)
		}
	}
	l.row.NextAt = h.timer.at
	l.forget()
	m.changed[l] = struct{}{}
}
