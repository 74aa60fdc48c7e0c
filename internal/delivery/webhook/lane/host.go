package lane

import (
	"net/http"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// hostKey identifies a host within an organisation: failures of one organisation's endpoints never affect another's.
type hostKey struct {
	org  id.Org
	name string
}

// host tracks a receiver's host: an adaptive limit on concurrent deliveries, and a breaker.
//
// The breaker opens after failures of several lanes. Lanes that then want to send are parked, and one at a time probes
// the host. The first success half-opens the breaker, and each further success releases twice as many parked lanes. It
// closes when no lane is parked.
type host struct {
	key    hostKey
	tenant *tenant
	// waiters wait at the gate, by class; listed is set while the host is in the queue of its tenant.
	waiters  [classes]fifo[waiter]
	listed   [classes]bool
	inFlight [classes]int
	// limit is the adaptive limit on deliveries in flight, see adaptLimit.
	limit      float64
	limitCutAt time.Time
	lastUsed   time.Time

	// failures counts failures in a row, failedSources the sources that they came from.
	failures       int
	failedSources  []string
	open, halfOpen bool
	// openCount counts openings and failed probes since the breaker last closed. It selects the delay before a probe.
	openCount int
	// probe is the lane that probes the host. probeScheduled means that it was sent at probeAt: only then does its
	// failure delay the next probe.
	probe          *Lane
	probeScheduled bool
	// extraTries are lanes that may send although the host is down, until one of their deliveries has ended. Unlike
	// the probe, they delay nothing when they fail.
	extraTries map[*Lane]struct{}
	// lastSuccess is when a delivery to the host last succeeded, lastTry when a lane last tried it while it was down.
	lastSuccess time.Time
	lastTry     time.Time
	// releaseWindow is how many parked lanes a success releases. Each success doubles it.
	releaseWindow int
	parked        []*Lane
	// probeAt is when the next parked lane probes the host. The timer may be set for an earlier time, see
	// scheduleProbe.
	probeAt time.Time
	timer   timer
}

// adaptLimit raises the limit by one per limit responses and halves it when the host is overloaded.
func (h *host) adaptLimit(r Result, now time.Time, most int) {
	switch {
	case r.Aborted:
	case isOverloaded(r):
		// Cut once per round trip: everything in flight at the time of the overload reports the same overload.
		if now.Sub(h.limitCutAt) >= max(r.Took, time.Second) {
			h.limit, h.limitCutAt = max(h.limit/2, 1), now
		}
	case r.Status > 0 && h.limit < float64(most):
		h.limit = min(h.limit+1/h.limit, float64(most))
	}
}

// leastHealthy is how many deliveries of healthy lanes a host always accepts, however low its limit. Endpoints that
// hang must not block the others on their host.
const leastHealthy = 8

// isFull reports whether the host has no room for another delivery of a class. Troubled lanes get half of the limit, in
// addition to the healthy ones.
func (h *host) isFull(c class) bool {
	if c == troubled {
		return h.inFlight[c] >= max(int(h.limit)/2, 1)
	}
	return h.inFlight[c] >= max(int(h.limit), leastHealthy)
}

// admits reports whether a lane may send to the host: the host is not down, or the lane is to try it.
func (h *host) admits(l *Lane) bool {
	_, extra := h.extraTries[l]
	return !h.open || h.probe == l || extra
}

// allowTry lets a lane send although the host is down.
func (h *host) allowTry(l *Lane, now time.Time) {
	if h.extraTries == nil {
		h.extraTries = map[*Lane]struct{}{}
	}
	h.extraTries[l] = struct{}{}
	h.lastTry = now
}

// isIdle reports whether the host was last used before a time and can be dropped.
func (h *host) isIdle(before time.Time) bool {
	return h.inFlight == [classes]int{} && !h.open && len(h.parked) == 0 && h.lastUsed.Before(before) &&
		h.waiters[healthy].empty() && h.waiters[troubled].empty()
}

// recordHostFailure counts a failed delivery and opens the breaker if there are too many. A delivery that started
// before the host's last success does not count, nor does a response below 500 other than 429: that is the endpoint's.
func (m *Machine) recordHostFailure(h *host, job *Job, r Result, now time.Time) {
	source := job.Lane.source
	if h.open {
		if h.probe == job.Lane && h.probeScheduled {
			m.openBreaker(h, now)
		}
		return // the delivery was in flight when the breaker opened, or its lane was allowed to try
	}
	if now.Add(-r.Took).Before(h.lastSuccess) || r.Status != 0 && r.Status < 500 && r.Status != http.StatusTooManyRequests {
		return
	}
	h.failures++
	if len(h.failedSources) < m.OpenLanes && !slices.Contains(h.failedSources, source) {
		h.failedSources = append(h.failedSources, source)
	}
	// While half-open, the host has just worked for another lane. A lane that failed before may itself be the cause.
	if h.halfOpen && job.Lane.fault != faultEndpoint || h.failures >= m.OpenAfter && len(h.failedSources) >= m.OpenLanes {
		m.openBreaker(h, now)
	}
}

// openBreaker opens the breaker, or keeps it open after a failed probe, and schedules the next probe.
func (m *Machine) openBreaker(h *host, now time.Time) {
	h.open, h.halfOpen, h.probe, h.probeScheduled = true, false, nil, false
	h.openCount++
	h.probeAt = now.Add(m.Delay(h.openCount, m.chance()))
	m.scheduleProbe(h, now)
}

// scheduleProbe sets the timer of a host that is down: to probeAt, or earlier if a lane is parked that never failed.
func (m *Machine) scheduleProbe(h *host, now time.Time) {
	at := h.probeAt
	if slices.ContainsFunc(h.parked, (*Lane).isBlameless) {
		at = h.earlyProbeAt(now)
	}
	m.timers.set(&h.timer, at)
}

// earlyProbeAt returns when a blameless lane may probe the host. That is before probeAt if the host worked lately: a
// few bad endpoints may make a working host look down.
func (h *host) earlyProbeAt(now time.Time) time.Time {
	at := h.lastTry.Add(tryEvery)
	if at.Before(now) {
		at = now
	}
	if now.Sub(h.lastSuccess) >= worksFor || h.probeAt.Before(at) {
		return h.probeAt
	}
	return at
}

// isBlameless reports whether the lane waits for its host and has not failed itself.
func (l *Lane) isBlameless() bool { return l.parked && l.fault != faultEndpoint }

// recordHostSuccess closes the breaker step by step: each success releases twice as many parked lanes as the last.
func (m *Machine) recordHostSuccess(h *host, now time.Time) {
	h.failures, h.failedSources, h.lastSuccess = 0, h.failedSources[:0], now
	if !h.open && !h.halfOpen {
		return
	}
	if h.open {
		h.open, h.halfOpen, h.releaseWindow = false, true, 1
		m.timers.stop(&h.timer)
		// Lanes that have not failed themselves come first.
		slices.SortStableFunc(h.parked, func(a, b *Lane) int { return min(a.row.FailCount, 1) - min(b.row.FailCount, 1) })
	} else {
		h.releaseWindow *= 2
	}
	h.probe, h.probeScheduled = nil, false
	for n := 0; n < h.releaseWindow && len(h.parked) > 0; {
		l := h.parked[0]
		h.parked = append(h.parked[:0], h.parked[1:]...)
		if l.parked {
			l.parked, l.probing = false, true
			m.advance(l, now)
			n++
		}
	}
	if len(h.parked) == 0 {
		h.halfOpen, h.openCount, h.releaseWindow = false, 0, 0
		h.parked = nil
	}
}

// probePatience is how long a probe may take before another lane probes the host. The first endpoint may hang while the
// host works.
const probePatience = 2 * time.Second

// probeHost releases one parked lane to find out whether the host works again. It runs when the host's timer is due.
func (m *Machine) probeHost(h *host, now time.Time) {
	if !h.open {
		return
	}
	if now.Before(h.probeAt) {
		m.probeEarly(h, now)
		return
	}
	for len(h.parked) > 0 {
		// A lane that has not failed itself says more about the host.
		at := max(slices.IndexFunc(h.parked, (*Lane).isBlameless), 0)
		l := h.parked[at]
		h.parked = slices.Delete(h.parked, at, at+1)
		if !l.parked {
			continue
		}
		l.parked, l.probing = false, true
		h.probe, h.probeScheduled, h.lastTry = l, true, now
		// If the lane turns out to have nothing to send, or hangs, the next one probes.
		h.probeAt = now.Add(probePatience)
		m.scheduleProbe(h, now)
		m.advance(l, now)
		return
	}
	// No lane is parked: the next delivery is the probe.
	h.open, h.halfOpen, h.releaseWindow, h.parked = false, true, 1, nil
}

// probeEarly releases one blameless lane before the scheduled probe. Only a success has consequences for other lanes.
func (m *Machine) probeEarly(h *host, now time.Time) {
	if at := slices.IndexFunc(h.parked, (*Lane).isBlameless); at >= 0 {
		l := h.parked[at]
		h.parked = slices.Delete(h.parked, at, at+1)
		l.parked, l.probing = false, true
		h.allowTry(l, now)
		m.advance(l, now)
	}
	m.scheduleProbe(h, now)
}

// claimHostTry reports whether a lane may send to a host that is down, and if so uses up the host's tries for tryEvery.
// Healthy lanes may, and so may lanes that failed once or twice while the host worked for others, so that bad endpoints
// do not delay working ones on the same host.
func (m *Machine) claimHostTry(l *Lane, h *host, now time.Time) bool {
	retries := l.probing && l.row.FailCount <= earlyDelays && now.Sub(h.lastSuccess) < worksFor
	if !l.isHealthy() && !retries || now.Sub(h.lastTry) < tryEvery {
		return false
	}
	h.allowTry(l, now)
	return true
}

const (
	// tryEvery is the least time between two early tries of a host that is down.
	tryEvery = 250 * time.Millisecond
	// worksFor is how long after a success a host is assumed to work for some of its endpoints.
	worksFor = time.Minute
)

// parkLane lets a lane wait for its host. The lane counts as failing, so its timer is set to when it must be disabled.
func (m *Machine) parkLane(l *Lane, h *host, now time.Time) {
	if l.isHealthy() {
		l.fault = faultHost
	}
	l.row.State, l.probing = Backoff, false
	if l.row.FailSince.IsZero() {
		l.row.FailSince = now
	}
	l.markRowStale()
	m.timers.set(&l.timer, l.row.FailSince.Add(m.GiveUp))
	if !l.parked {
		l.parked = true
		h.parked = append(h.parked, l)
		if at := h.earlyProbeAt(now); l.isBlameless() && at.Before(h.timer.at) {
			m.timers.set(&h.timer, at)
		}
	}
	l.row.NextAt = h.timer.at
	l.unload()
	m.changed[l] = struct{}{}
}
