// Package lane decides how webhooks are delivered: which event is sent next and to whom, what an answer means, when it is tried again.
//
// It does nothing itself: no clock, no network, no database. Machine (machine.go) is told what happened and says what to do; package
// webhook does it. A Lane is the way of one account's events to its endpoint. The rules are in rules.go, who may send at the same time in
// gate.go, what is known of a host in host.go, and what survives a crash in flush.go.
package lane

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// State is where a lane stands.
type State string

// The states. A lane has a row in the database in all of them but Live.
const (
	// Live delivers events as they come.
	Live State = "live"
	// Lagging delivers, but does not keep up.
	Lagging State = "lagging"
	// Backoff waits for its next attempt, because the endpoint fails.
	Backoff State = "backoff"
	// Draining delivers what has gathered while it could not.
	Draining State = "draining"
	// Paused waits for its owner.
	Paused State = "paused"
	// Disabled failed for too long, or its receiver said that it is gone.
	Disabled State = "disabled"
)

// sends says whether a lane in the state delivers.
func (s State) sends() bool { return s == Live || s == Lagging || s == Draining }

// Hook is what the machine needs to know of a webhook.
type Hook struct {
	// Gen grows with every order of the owner's that concerns the lane: pause, resume, a new URL.
	Gen int64
	// StartSeq is the last event before the webhook was made.
	StartSeq int64
	// Host is what failures are counted by: scheme, name and port.
	Host string
	// Match says which kinds are wanted; nil for all.
	Match func(kind string) bool
	// AtOnce is how many events may be under way; 1 keeps them in order.
	AtOnce int
	// Row is what the database has of the lane; nil for a lane that is live.
	Row *Row
	// More is whatever the sender needs.
	More any
}

// Row is what the database keeps of a lane that is not live.
type Row struct {
	Org    id.Org
	Source string
	Bucket int
	Gen    int64
	State  State
	// Cursor is the last event that is done with; Unknown if it is as far as the bucket's floor.
	Cursor int64
	// Moved is the Gen with which the owner has set the cursor; 0 if it is the lane's own.
	Moved int64
	// FailSince and FailCount are those of the endpoint; zero while it works.
	FailSince time.Time
	FailCount int
	NextAt    time.Time
	// LastStatus is 0 if there was no answer; LastError says why then.
	LastStatus int
	LastError  string
	// Reason says why it is disabled.
	Reason string
	// HeadTries is how often the first event was tried, HeadSince since when it is answered with errors.
	HeadTries int
	HeadSince time.Time
}

// Unknown is the cursor of a row that was made without knowing it.
const Unknown = -1

// item is an event in a lane's memory.
type item struct {
	event event.Stored
	// prev is the wanted event before it, as far as known.
	prev   int64
	flying bool
	done   bool
}

// Lane is the way of one source's events to its endpoint. All of it belongs to its Machine.
type Lane struct {
	org    id.Org
	source string
	bucket *bucket

	hook *Hook
	// known means that hook is; it is nil if there is none.
	known, loading bool
	// asking are to be given the hook when it is known, for events that are not stored.
	asking []func(*Hook)
	// placed means that cursor is.
	placed bool

	row Row // State, Gen and what follows them; Cursor is cursor
	// hasRow means that the database has one, wantsRow that it shall, dirty that it differs.
	hasRow, wantsRow, dirty bool

	// cursor is the last event that is done with; (cursor, tail] is in memory, head is the last that was committed.
	cursor, tail, head int64
	// behind means that head may be higher than known.
	behind  bool
	reading bool
	items   []item
	bytes   int
	flying  int
	// prev is the last wanted event up to tail; 0 if not known.
	prev int64
	// missedAt is when the first event behind tail was stored.
	missedAt time.Time
	// skip are events above the cursor that are done, while they are not in memory.
	skip map[int64]struct{}
	// run tells apart what was before the lane was set anew; strays are the flights from then that have not landed.
	run, strays int
	// probing means that one event is tried to see whether the endpoint works; beside that it is the one behind a head that fails.
	probing, beside bool
	headResult      Result
	parked          bool
	// clean means that it did not work only because its host did not.
	clean bool
	// volunteer means that it may try its host although that is known to be down.
	volunteer bool
	timer     timer
	queued    bool
	// newer and older are the lanes used after and before.
	newer, older *Lane
}

// Source is whose events it carries.
func (l *Lane) Source() string { return l.source }

// Org is whose it is.
func (l *Lane) Org() id.Org { return l.org }

// works says whether the endpoint does, as far as its own deliveries tell.
func (l *Lane) works() bool { return l.clean || l.row.State == Live && l.row.FailSince.IsZero() }

// pending says whether something may be to be delivered.
func (l *Lane) pending() bool { return len(l.items) > 0 || l.head > l.tail || l.behind }

// pendingAt is when the oldest such event was stored, at the earliest.
func (l *Lane) pendingAt() time.Time {
	if len(l.items) > 0 {
		return l.items[0].event.At
	}
	return l.missedAt
}

// idle says whether the lane can be forgotten: nothing is lost by it.
func (l *Lane) idle() bool {
	return !l.pending() && l.flying == 0 && !l.hasRow && !l.wantsRow && !l.loading && !l.reading && !l.queued
}

func (l *Lane) wants(kind string) bool { return l.hook.Match == nil || l.hook.Match(kind) }

// place says up to where all is done.
func (l *Lane) place(cursor int64) {
	l.placed = true
	l.cursor, l.tail = cursor, cursor
	l.items, l.bytes, l.prev = nil, 0, 0
	l.head = max(l.head, cursor)
}

// add takes the event behind tail into memory.
func (l *Lane) add(e *event.Stored) {
	l.tail = e.Seq
	_, done := l.skip[e.Seq]
	delete(l.skip, e.Seq)
	if !done && l.known && !l.wants(e.Kind) {
		l.settle()
		return
	}
	prev := l.prev
	if l.known && l.hook.Match == nil {
		prev = e.Seq - 1
	}
	l.items = append(l.items, item{event: *e, prev: prev, done: done})
	l.bytes += len(e.Body)
	l.prev = e.Seq
	if done {
		l.settle()
	}
}

// settle takes what is done off the front and moves the cursor.
func (l *Lane) settle() {
	n := 0
	for n < len(l.items) && l.items[n].done {
		l.bytes -= len(l.items[n].event.Body)
		n++
	}
	if n > 0 {
		l.row.HeadTries, l.row.HeadSince = 0, time.Time{}
		if n == len(l.items) {
			if clear(l.items); cap(l.items) > 8 {
				l.items = nil // an idle lane costs little
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
		l.dirty = l.dirty || l.hasRow
	}
}

// choose takes out what a webhook does not want, when that has become known.
func (l *Lane) choose() {
	kept, prev := l.items[:0], l.prev
	if len(l.items) > 0 {
		prev = l.items[0].prev
	}
	l.bytes = 0
	for _, one := range l.items {
		if !one.flying && !one.done && !l.wants(one.event.Kind) {
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
	l.settle()
}

// forget drops what is in memory and not under way, to be read again when it is needed.
func (l *Lane) forget() {
	if l.flying > 0 || len(l.items) == 0 {
		return
	}
	for i := range l.items {
		if l.items[i].done {
			if l.skip == nil {
				l.skip = map[int64]struct{}{}
			}
			l.skip[l.items[i].event.Seq] = struct{}{}
		}
	}
	l.missedAt, l.prev = l.items[0].event.At, l.items[0].prev
	l.items, l.bytes = nil, 0
	l.tail = l.cursor
	l.head = max(l.head, l.cursor)
	l.behind = true
}

// next is the first event that is not under way; nil if there is none.
func (l *Lane) next() *item {
	for i := range l.items {
		if one := &l.items[i]; !one.flying && !one.done {
			return one
		}
	}
	return nil
}

// second is the first event behind the head that could be tried.
func (l *Lane) second() *item {
	for i := range l.items {
		if one := &l.items[i]; i > 0 && !one.flying && !one.done {
			return one
		}
	}
	return nil
}

func (l *Lane) find(seq int64) *item {
	for i := range l.items {
		if l.items[i].event.Seq == seq {
			return &l.items[i]
		}
	}
	return nil
}
