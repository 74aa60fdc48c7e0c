package lane

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane/phase"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// This file loads the webhook of a lane and applies changes to it.

// hookState says whether the machine knows the webhook of a lane.
type hookState uint8

const (
	hookUnknown hookState = iota
	hookLoading
	// hookNone means that the source has no webhook.
	hookNone
	hookReady
)

// HookLoad is a read of a lane's webhook.
type HookLoad struct {
	Lane   *Lane
	number int
}

// isCurrent reports whether the lane still waits for this read.
func (m *Machine) isCurrent(load HookLoad) bool {
	return m.lanes[load.Lane.key] == load.Lane && load.number == load.Lane.hookLoad
}

// requestHook queues a lane for NextHookLoads. A read that is running is superseded: it may return the webhook from
// before a change.
func (m *Machine) requestHook(l *Lane) {
	l.hookState = hookLoading
	l.hookLoad++
	m.loadQueue.push(HookLoad{l, l.hookLoad})
}

// NextHookLoads returns up to most webhooks that must be read. The caller must call HookLoaded or HookLoadFailed for
// each of them.
func (m *Machine) NextHookLoads(most int) []HookLoad {
	var list []HookLoad
	for len(list) < most && !m.loadQueue.empty() {
		if load := m.loadQueue.pop(); m.isCurrent(load) {
			list = append(list, load)
		}
	}
	return list
}

// HookLoadFailed reports that a webhook could not be read. The lane requests it again.
func (m *Machine) HookLoadFailed(load HookLoad) {
	if m.isCurrent(load) {
		m.requestHook(load.Lane)
	}
}

// Invalidate reports that the webhook of a source was created, changed or deleted. It is read again.
func (m *Machine) Invalidate(org id.Org, source string) {
	if b := m.buckets[event.Bucket(source)]; b != nil && b.held {
		m.requestHook(m.ensureLane(org, source, b))
	}
}

// HookLoaded sets the webhook of a lane; nil if there is none. It ignores a read that a later one has superseded.
func (m *Machine) HookLoaded(load HookLoad, h *Hook, now time.Time) {
	if !m.isCurrent(load) {
		return
	}
	l := load.Lane
	l.hook, l.hookState = h, hookReady
	defer l.answerHookWaiters()
	if h == nil {
		m.clearHook(l)
		return
	}
	if h.Gen != l.row.Gen {
		m.adoptHook(l, h, now)
	} else if l.hasCursor() {
		l.applyFilter()
	}
	if l.hasCursor() && l.cursor < h.StartSeq && l.inFlight == 0 {
		head := max(l.head, h.StartSeq)
		if l.tail < h.StartSeq {
			l.setCursor(h.StartSeq)
			l.head = head
		} else {
			l.skipThrough(h.StartSeq)
		}
	}
	m.markChanged(l)
	m.advance(l, now)
}

// skipThrough marks the events up to a sequence done: they are older than the webhook.
func (l *Lane) skipThrough(upTo int64) {
	for i := range l.items {
		if l.items[i].event.Seq <= upTo {
			l.items[i].done = true
		}
	}
	l.advanceCursor()
	l.cursor = max(l.cursor, upTo)
}

// clearHook resets the lane of a source that has no webhook. Everything so far is done.
func (m *Machine) clearHook(l *Lane) {
	l.hookState = hookNone
	l.detachInFlight()
	m.fire(l, phase.HookRemoved, occasion{})
	l.setRow(Row{})
	l.stored, l.headStale, l.doneAhead = rowAbsent, false, nil
	l.skipToHead()
	delete(m.changed, l)
}

// detachInFlight starts a new run of the lane: deliveries in flight become strays, and memory is cleared.
func (l *Lane) detachInFlight() {
	l.run++
	l.strays += l.inFlight
	l.inFlight = 0
	l.items, l.bytes = nil, 0
	l.tail = l.cursor
}

// adoptHook applies a webhook with another Gen, that is, a change by its owner or an operator: the state in the
// database replaces that of the lane.
func (m *Machine) adoptHook(l *Lane, h *Hook, now time.Time) {
	oldGen := l.row.Gen
	l.row.Gen = h.Gen
	if h.Row == nil {
		m.fire(l, phase.HookReplaced, occasion{})
		l.markRowStale()
		if l.hasCursor() {
			l.applyFilter()
		}
		return
	}
	l.setRow(*h.Row)
	switch h.Row.State {
	case Paused:
		m.fire(l, phase.OwnerPaused, occasion{})
	case Draining:
		m.fire(l, phase.OwnerResumed, occasion{})
	case Live, Lagging, Backoff, Disabled: // the change left the state, or the bucket is not loaded yet
		m.restorePhase(l)
	}
	l.row.Moved, l.stored = 0, rowSaved
	if l.hasCursor() {
		l.stored = rowStale // the lane's cursor is newer than the stored one
	}
	// The lane's own cursor is newer than the stored one, unless the change moved the stored one.
	if h.Row.Cursor >= 0 && (h.Row.Moved > oldGen || !l.hasCursor()) {
		head := l.head
		l.detachInFlight()
		l.setCursor(h.Row.Cursor)
		l.head = max(l.head, head)
		l.doneAhead = nil
	} else if l.hasCursor() {
		l.applyFilter()
	}
	if !l.hasPending() {
		l.missedAt = now
	}
	l.headStale = true
	m.goLiveIfNothingPending(l)
	if m.isSuspended(l.org) {
		m.fire(l, phase.OrgSuspended, occasion{})
	}
}

// maxHookWaiters limits how many events that are not stored wait for a lane's webhook: about one of each kind.
const maxHookWaiters = 16

// WithLiveHook calls give with the webhook of a source if its lane delivers: immediately, or when the webhook was read.
// It is for events that are not stored. give is never called if the source has no webhook or its lane does not
// deliver. give must not block.
func (m *Machine) WithLiveHook(org id.Org, source string, give func(*Hook)) {
	l := m.lanes[source]
	if l == nil {
		b := m.buckets[event.Bucket(source)]
		if b == nil || !b.isRunning() {
			return
		}
		l = m.ensureLane(org, source, b)
	}
	switch l.hookState {
	case hookReady:
		l.callIfSending(give)
		return
	case hookNone:
		return
	case hookUnknown:
		m.requestHook(l)
	case hookLoading:
	}
	if len(l.hookWaiters) < maxHookWaiters {
		l.hookWaiters = append(l.hookWaiters, give)
	}
}

func (l *Lane) callIfSending(give func(*Hook)) {
	if l.hook != nil && l.phase.Sends() {
		give(l.hook)
	}
}

func (l *Lane) answerHookWaiters() {
	for _, give := range l.hookWaiters {
		l.callIfSending(give)
	}
	l.hookWaiters = nil
}
