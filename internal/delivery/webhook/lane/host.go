package lane

import (
	"container/list"
	"net/http"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane/phase"
)

// hostKey identifies a host within an organisation: failures of one organisation's endpoints never affect another's.
type hostKey struct {
	org  id.Org
	name string
}

// breaker is the state of a host's circuit breaker.
type breaker uint8

const (
	// breakerClosed means that the host works.
	breakerClosed breaker = iota
	// breakerOpen means that the host is down: its lanes wait.
	breakerOpen
	// breakerHalfOpen means that the host works again and its lanes are being released.
	breakerHalfOpen
)

// host tracks a receiver's host: an adaptive limit on concurrent deliveries, and a breaker.
//
// The breaker opens after failures of several lanes. Lanes that then want to send wait, and one at a time probes the
// host. The first success half-opens the breaker, and each further success releases twice as many waiting lanes. It
// closes when no lane waits.
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
	failures      int
	failedSources []string
	breaker       breaker
	// openCount counts openings and failed probes since the breaker last closed. It selects the delay before a probe.
	openCount int
	// probe is the lane that was released at probeAt to try the host. Its failure delays the next probe.
	probe *Lane
	// extraTries are lanes that may send although the host is down, until one of their deliveries has ended. Unlike
	// the probe, they delay nothing when they fail.
	extraTries map[*Lane]struct{}
	// lastSuccess is when a delivery to the host last succeeded, lastTry when a lane last tried it while it was down.
	lastSuccess time.Time
	lastTry     time.Time
	// releaseWindow is how many waiting lanes a success releases. Each success doubles it.
	releaseWindow int
	// working and failing are the lanes that wait for the host: those that have not failed themselves, and those that
	// have. The former say more about the host and come first.
	working, failing list.List
	// probeAt is when the next waiting lane probes the host. The timer may be set for an earlier time, see
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

// admits reports whether a lane may send to the host: the host is not down, or the lane is to try it. ProbingNext
// completes a try that was admitted.
func (h *host) admits(l *Lane) bool {
	_, extra := h.extraTries[l]
	return h.breaker != breakerOpen || h.probe == l || extra || l.phase == phase.ProbingNext
}

// allowTry lets a lane send although the host is down.
func (h *host) allowTry(l *Lane, now time.Time) {
	if h.extraTries == nil {
		h.extraTries = map[*Lane]struct{}{}
	}
	h.extraTries[l] = struct{}{}
	h.lastTry = now
}

// hold adds a lane to those that wait for the host.
func (h *host) hold(l *Lane) {
	lanes := &h.working
	if l.fault == faultEndpoint {
		lanes = &h.failing
	}
	l.downAt, l.downEntry = h, lanes.PushBack(l)
}

// leaveHost ends the lane's wait for its host, if it waits.
func (l *Lane) leaveHost() {
	if h := l.downAt; h != nil {
		h.working.Remove(l.downEntry)
		h.failing.Remove(l.downEntry)
		l.downAt, l.downEntry = nil, nil
	}
}

// firstWaiting returns the lane that is released next; nil if none waits.
func (h *host) firstWaiting() *Lane {
	for _, lanes := range []*list.List{&h.working, &h.failing} {
		if first := lanes.Front(); first != nil {
			return first.Value.(*Lane)
		}
	}
	return nil
}

// isIdle reports whether the host was last used before a time and can be dropped.
func (h *host) isIdle(before time.Time) bool {
	return h.inFlight == [classes]int{} && h.breaker != breakerOpen && h.firstWaiting() == nil &&
		h.lastUsed.Before(before) && h.waiters[healthy].empty() && h.waiters[troubled].empty()
}

// recordHostFailure counts a failed delivery and opens the breaker if there are too many. A delivery that started
// before the host's last success does not count, nor does a response below 500 other than 429: that is the endpoint's.
func (m *Machine) recordHostFailure(h *host, job *Job, r Result, now time.Time) {
	source := job.Lane.source
	if h.breaker == breakerOpen {
		if h.probe == job.Lane {
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
	if h.breaker == breakerHalfOpen && job.Lane.fault != faultEndpoint ||
		h.failures >= m.OpenAfter && len(h.failedSources) >= m.OpenLanes {
		m.openBreaker(h, now)
	}
}

// openBreaker opens the breaker, or keeps it open after a failed probe, and schedules the next probe.
func (m *Machine) openBreaker(h *host, now time.Time) {
	h.breaker, h.probe = breakerOpen, nil
	h.openCount++
	h.probeAt = now.Add(m.Delay(h.openCount, m.chance()))
	m.scheduleProbe(h, now)
}

// scheduleProbe sets the timer of a host that is down: to probeAt, or earlier if a lane waits that has not failed.
func (m *Machine) scheduleProbe(h *host, now time.Time) {
	at := h.probeAt
	if h.working.Len() > 0 {
		at = h.earlyProbeAt(now)
	}
	m.timers.set(&h.timer, at)
}

// earlyProbeAt returns when a lane that has not failed may probe the host. That is before probeAt if the host worked
// lately: a few bad endpoints may make a working host look down.
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

// recordHostSuccess closes the breaker step by step: each success releases twice as many lanes as the last.
func (m *Machine) recordHostSuccess(h *host, now time.Time) {
	h.failures, h.failedSources, h.lastSuccess = 0, h.failedSources[:0], now
	switch h.breaker {
	case breakerClosed:
		return
	case breakerOpen:
		h.breaker, h.releaseWindow = breakerHalfOpen, 1
		m.timers.stop(&h.timer)
	case breakerHalfOpen:
		h.releaseWindow *= 2
	}
	h.probe = nil
	l := h.firstWaiting()
	for n := 0; n < h.releaseWindow && l != nil; n++ {
		m.releaseLane(l, now)
		l = h.firstWaiting()
	}
	if l == nil {
		h.breaker, h.openCount, h.releaseWindow = breakerClosed, 0, 0
	}
}

// releaseLane lets a lane that waits for its host try it.
func (m *Machine) releaseLane(l *Lane, now time.Time) {
	m.fire(l, phase.HostReleased, occasion{now: now})
	m.advance(l, now)
}

// probePatience is how long a probe may take before another lane probes the host. The first endpoint may hang while the
// host works.
const probePatience = 2 * time.Second

// probeHost releases one lane to find out whether the host works again. It runs when the host's timer is due.
func (m *Machine) probeHost(h *host, now time.Time) {
	if h.breaker != breakerOpen {
		return
	}
	if now.Before(h.probeAt) {
		m.probeEarly(h, now)
		return
	}
	l := h.firstWaiting()
	if l == nil { // the next delivery is the probe
		h.breaker, h.releaseWindow = breakerHalfOpen, 1
		return
	}
	h.probe, h.lastTry = l, now
	// If the lane turns out to have nothing to send, or hangs, the next one probes.
	h.probeAt = now.Add(probePatience)
	m.releaseLane(l, now)
	m.scheduleProbe(h, now)
}

// probeEarly releases one lane that has not failed before the scheduled probe. Only a success has consequences for
// other lanes.
func (m *Machine) probeEarly(h *host, now time.Time) {
	if first := h.working.Front(); first != nil {
		l := first.Value.(*Lane)
		h.allowTry(l, now)
		m.releaseLane(l, now)
	}
	m.scheduleProbe(h, now)
}

// claimHostTry reports whether a lane may send to a host that is down, and if so uses up the host's tries for tryEvery.
// Healthy lanes may, and so may lanes that failed once or twice while the host worked for others, so that bad endpoints
// do not delay working ones on the same host.
func (m *Machine) claimHostTry(l *Lane, h *host, now time.Time) bool {
	retries := l.phase.Probes() && l.row.FailCount <= earlyDelays && now.Sub(h.lastSuccess) < worksFor
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
