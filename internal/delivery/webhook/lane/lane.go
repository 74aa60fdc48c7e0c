// Package lane decides how webhooks are delivered: which event is sent next and to which endpoint, what a response
// means, and when to retry.
//
// It performs no I/O: no clock, no network, no database. Callers report what happened to a Machine, which returns what
// to do; package webhook carries it out. A Lane is the ordered delivery of one account's events to its webhook.
//
// Start with package phase, which has the table of what a lane does, and machine.go. The effects of the table are in
// effect.go, the retry rules in rules.go, the limits on concurrent deliveries in gate.go, the breaker of each host in
// host.go, and what survives a crash in flush.go.
package lane

import (
	"container/list"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane/phase"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// State is the stored state of a lane. A lane in memory has a phase.Phase, which says more.
type State string

// The states. A lane has a row in the database in every state except Live.
const (
	// Live lanes keep up: they deliver events as they are committed.
	Live State = "live"
	// Lagging lanes deliver, but do not keep up.
	Lagging State = "lagging"
	// Backoff lanes wait for their next attempt, because the endpoint or its host fails.
	Backoff State = "backoff"
	// Draining lanes deliver a backlog that built up while they could not deliver.
	Draining State = "draining"
	// Paused lanes wait until their owner or an operator resumes them.
	Paused State = "paused"
	// Disabled lanes failed for too long, or their receiver responded with 410 Gone.
	Disabled State = "disabled"
)

// storedState returns the state under which a phase is stored.
func storedState(p phase.Phase) State {
	switch p {
	case phase.Live, phase.Lagging, phase.Draining, phase.Paused, phase.Disabled:
		return State(p)
	case phase.Waiting, phase.Probing, phase.ProbingNext, phase.HostDown:
	}
	return Backoff
}

// restoredPhase returns the phase in which a lane starts from its stored state.
func restoredPhase(s State) phase.Phase {
	if s == Backoff {
		return phase.Waiting
	}
	return phase.Phase(s)
}

// Hook is the part of a webhook that the machine needs.
type Hook struct {
	// Gen increases with every change that affects the lane: pause, resume, a new URL.
	Gen int64
	// StartSeq is the account's last event before the webhook was created.
	StartSeq int64
	// Host is the key by which failures are counted: scheme, name and port.
	Host string
	// Match reports whether the webhook wants a kind of event; nil means all kinds.
	Match func(kind string) bool
	// MaxInFlight limits concurrent deliveries; 1 keeps events in order.
	MaxInFlight int
	// Row is the lane's row in the database; nil for a live lane.
	Row *Row
	// Endpoint belongs to the caller. The machine only passes it on.
	Endpoint any
}

// Row is the stored state of a lane that is not live.
type Row struct {
	Org    id.Org
	Source string
	Bucket int
	Gen    int64
	State  State
	// Cursor is the last event that is done: delivered, filtered out or moved to a side delivery. Unknown means that
	// everything up to the bucket's checkpoint is done.
	Cursor int64
	// Moved is the Gen with which the owner set the cursor; 0 if the lane wrote it.
	Moved int64
	// FailSince and FailCount describe the failures of the endpoint; zero while it works.
	FailSince time.Time
	FailCount int
	NextAt    time.Time
	// LastStatus is 0 if there was no response; LastError then says why.
	LastStatus int
	LastError  string
	// Reason explains why the lane is disabled or paused.
	Reason string
	// HeadTries counts the failed tries of the first pending event. HeadSince is when its first error response came;
	// zero if the last try got no response.
	HeadTries int
	HeadSince time.Time
}

// Unknown is the cursor of a lane of which it is not known how far it has delivered: its row was written by an order, or
// its bucket is not loaded yet. Such a lane sends nothing.
const Unknown = -1

// storedRow says what the database has of a lane's row.
type storedRow uint8

const (
	rowAbsent storedRow = iota
	// rowSaved means that the database has the current row.
	rowSaved
	// rowStale means that the database has an older row, or may have one.
	rowStale
)

// fault says what is to blame for a lane's last outage.
type fault uint8

const (
	faultNone fault = iota
	// faultHost means that the lane kept up until its host went down. It stays until the lane has caught up.
	faultHost
	// faultEndpoint means that the lane's own deliveries fail: Row.FailCount is not 0.
	faultEndpoint
)

// item is an event that a lane holds in memory.
type item struct {
	event event.Stored
	// prev is the sequence of the last wanted event before this one; 0 if unknown.
	prev     int64
	inFlight bool
	done     bool
	// since is when the event was stored. For a lane of an endpoint it is when the event came into memory.
	since time.Time
}

// Lane is the ordered delivery of one source's events to its webhook. Its Machine owns all fields.
//
// Events up to cursor are done. Events in (cursor, tail] are in items, without those that the webhook does not want.
// Events in (tail, head] are only in the store and must be read before they can be sent.
type Lane struct {
	org    id.Org
	source string
	// key names the lane among all: the source, or an endpoint and the source.
	key    string
	bucket *bucket

	// hook is the webhook that was last read, which is current if hookState is hookReady; nil if there was none.
	hook      *Hook
	hookState hookState
	// hookLoad is the number of the last read of the webhook. Results of earlier reads are ignored.
	hookLoad int
	// hookWaiters are called when the hook is known. They send events that are not stored.
	hookWaiters []func(*Hook)

	phase phase.Phase
	// row is written to the database, with the stored state of phase and with cursor.
	row Row
	// stored says what the database has of row. It needs a row in every phase except Live.
	stored storedRow

	cursor, tail, head int64
	// headStale means that the store may have events after head.
	headStale bool
	// page is the read that the lane has requested or that is running; nil if there is none.
	page     *Page
	items    []item
	bytes    int
	inFlight int
	// prev is the last wanted event up to tail; 0 if unknown.
	prev int64
	// missedAt is when the first event after tail was stored, or earlier.
	missedAt time.Time
	// missed is, for a lane of an endpoint that holds no events, the position before its first pending event; last is that of
	// its newest event.
	missed, last event.Position
	// doneAhead holds events after the cursor that are done but no longer in memory, so that they are not sent again.
	doneAhead map[int64]struct{}
	// run counts resets of the lane. strays are deliveries in flight from before the last reset: their results no
	// longer concern the lane, but it starts nothing until they have ended.
	run, strays int
	// headResult is the last result of the first event, while the event after it is tried.
	headResult Result
	// downAt is the host that the lane waits for because it is down; nil if there is none. downEntry is the lane's
	// place in the host's list.
	downAt    *host
	downEntry *list.Element
	fault     fault
	// atFault means that the lane failed when its endpoint accepted events of others, so that its failures say nothing about
	// the endpoint until it succeeds.
	atFault bool
	timer   timer
	// queuedAt is the host at whose gate the lane waits for a permit; nil if it does not.
	queuedAt *host
	// newer and older link the lanes by their last use.
	newer, older *Lane
}

// Source returns the account whose events the lane carries.
func (l *Lane) Source() string { return l.source }

// Org returns the organisation that owns the account.
func (l *Lane) Org() id.Org { return l.org }

// markRowStale makes the next flush write the row again, if there is one.
func (l *Lane) markRowStale() {
	if l.stored == rowSaved {
		l.stored = rowStale
	}
}

// isHealthy reports whether the endpoint works, as far as its own deliveries show. A host that is down does not make
// its lanes unhealthy.
func (l *Lane) isHealthy() bool { return l.fault == faultHost || l.phase == phase.Live }

// setRow replaces the row by one from the database, or by an empty one.
func (l *Lane) setRow(row Row) {
	l.row = row
	switch {
	case row.FailCount > 0:
		l.fault = faultEndpoint
	case l.fault == faultEndpoint:
		l.fault = faultNone
	}
}

// clearFailures forgets the failures of the endpoint.
func (l *Lane) clearFailures() {
	l.row.FailSince, l.row.FailCount = time.Time{}, 0
	if l.fault == faultEndpoint {
		l.fault = faultNone
	}
}

// hasPending reports whether there may be events to deliver.
func (l *Lane) hasPending() bool { return len(l.items) > 0 || l.head > l.tail || l.headStale }

// oldestPendingAt returns when the oldest pending event was stored, or an earlier time.
func (l *Lane) oldestPendingAt() time.Time {
	if len(l.items) > 0 {
		return l.items[0].since
	}
	return l.missedAt
}

// isIdle reports whether the lane can be evicted without losing anything.
func (l *Lane) isIdle() bool {
	return l.phase == phase.Live && l.stored == rowAbsent && !l.hasPending() && l.inFlight == 0 &&
		l.hookState != hookLoading && l.page == nil && l.queuedAt == nil
}

func (l *Lane) wantsKind(kind string) bool { return l.hook.Match == nil || l.hook.Match(kind) }

func (l *Lane) hasCursor() bool { return l.cursor != Unknown }

// setCursor declares everything up to cursor done and drops the events in memory.
func (l *Lane) setCursor(cursor int64) {
	l.cursor, l.tail = cursor, cursor
	l.items, l.bytes, l.prev = nil, 0, 0
	l.head = max(l.head, cursor)
}

// skipToHead declares all events done.
func (l *Lane) skipToHead() {
	if l.tail = l.head; l.hasCursor() {
		l.cursor = l.head
	}
}

// appendEvent adds the event that follows tail to memory, or skips it if the webhook does not want it.
func (l *Lane) appendEvent(e *event.Stored, since time.Time) {
	l.tail = e.Seq
	if l.bucket.feed != nil {
		l.last = e.Position()
	}
	_, done := l.doneAhead[e.Seq]
	delete(l.doneAhead, e.Seq)
	if !done && l.hookState == hookReady && !l.wantsKind(e.Kind) {
		l.advanceCursor()
		return
	}
	prev := l.prev
	if l.hookState == hookReady && l.hook.Match == nil {
		prev = e.Seq - 1
	}
	l.items = append(l.items, item{event: *e, prev: prev, done: done, since: since})
	l.bytes += len(e.Body)
	l.prev = e.Seq
	if done {
		l.advanceCursor()
	}
}

// advanceCursor drops done events from the front and moves the cursor up to the first event that is not done.
func (l *Lane) advanceCursor() {
	n := 0
	for n < len(l.items) && l.items[n].done {
		l.bytes -= len(l.items[n].event.Body)
		n++
	}
	if n > 0 {
		l.row.HeadTries, l.row.HeadSince = 0, time.Time{}
		if n == len(l.items) {
			if clear(l.items); cap(l.items) > 8 {
				l.items = nil // idle lanes are many: they keep no large array
			}
			l.items = l.items[:0]
		} else {
			rest := copy(l.items, l.items[n:])
			clear(l.items[rest:])
			l.items = l.items[:rest]
		}
	}
	cursor := l.tail
	if len(l.items) > 0 {
		cursor = l.items[0].event.Seq - 1
	}
	if cursor != l.cursor {
		l.cursor = cursor
		l.markRowStale()
	}
}

// applyFilter drops events that the webhook does not want. It runs when the webhook becomes known or changes. Events in
// flight stay.
func (l *Lane) applyFilter() {
	kept, prev := l.items[:0], l.prev
	if len(l.items) > 0 {
		prev = l.items[0].prev
	}
	l.bytes = 0
	for _, one := range l.items {
		if !one.inFlight && !one.done && !l.wantsKind(one.event.Kind) {
			continue
		}
		one.prev = prev
		if l.hook.Match == nil {
			one.prev = one.event.Seq - 1
		}
		prev = one.event.Seq
		l.bytes += len(one.event.Body)
		kept = append(kept, one)
	}
	clear(l.items[len(kept):])
	l.items, l.prev = kept, prev
	l.advanceCursor()
}

// unload drops the events in memory, which are read again when needed. It does nothing while deliveries are in flight.
func (l *Lane) unload() {
	if l.inFlight > 0 || len(l.items) == 0 {
		return
	}
	for i := range l.items {
		if l.items[i].done {
			if l.doneAhead == nil {
				l.doneAhead = map[int64]struct{}{}
			}
			l.doneAhead[l.items[i].event.Seq] = struct{}{}
		}
	}
	l.missedAt, l.prev, l.missed = l.items[0].since, l.items[0].prev, positionBefore(&l.items[0].event)
	l.items, l.bytes = nil, 0
	l.tail = l.cursor
	l.head = max(l.head, l.cursor)
	l.headStale = true
}

// nextEvent returns the first event that is neither done nor in flight; nil if there is none.
func (l *Lane) nextEvent() *item {
	for i := range l.items {
		if one := &l.items[i]; !one.inFlight && !one.done {
			return one
		}
	}
	return nil
}

// nextAfterHead is nextEvent without the first event.
func (l *Lane) nextAfterHead() *item {
	for i := range l.items {
		if one := &l.items[i]; i > 0 && !one.inFlight && !one.done {
			return one
		}
	}
	return nil
}

func (l *Lane) findEvent(seq int64) *item {
	for i := range l.items {
		if l.items[i].event.Seq == seq {
			return &l.items[i]
		}
	}
	return nil
}
