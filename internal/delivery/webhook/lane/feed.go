package lane

import (
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane/phase"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// This file delivers the events of an organisation to an endpoint. An endpoint is a bucket of its own, with a lane for each
// account whose events are being delivered. What the bucket of accounts does with a time, an endpoint does with a position in
// the organisation's log: everything up to it is done, except events of lanes that have a row. The caller reads the log and
// appends its events while FeedWork asks for them.
//
// Lanes fail on their own. Only if several fail, and nothing was delivered in between, the endpoint is down: its lanes
// forget what they hold, the position goes back to the first event that was not delivered, and nothing is left of the
// endpoint but one row and one timer. The caller probes the endpoint immediately and when the timer expires (FeedProbed,
// FeedProbeFailed). If it accepts a probe, the lanes that had failed are at fault themselves.

// FeedRow is the stored state of an endpoint.
type FeedRow struct {
	Org      id.Org
	Endpoint id.Endpoint
	Gen      int64
	// After is the position up to which everything is done, except events of lanes that have a row.
	After event.Position
	// State is Live, Backoff or Disabled.
	State     State
	FailSince time.Time
	FailCount int
	NextAt    time.Time
	// LastStatus and LastError are those of the last failure.
	LastStatus int
	LastError  string
	Reason     string
}

// FeedSave is what must be written of an endpoint: its row, rows of lanes to write, and sources whose row to delete. Bucket and
// Epoch are the lease that guards it.
type FeedSave struct {
	FeedRow
	Bucket  int
	Epoch   int64
	Rows    []Row
	Removed []string

	number int
}

// Feed is an endpoint to hold.
type Feed struct {
	// Bucket and Epoch are the lease under which the endpoint is held.
	Bucket int
	Epoch  int64
	// Holder is passed on in jobs.
	Holder any
	Hook   *Hook
	Row    FeedRow
	// Lanes are the stored rows of the endpoint's lanes.
	Lanes []Row
	// Wake is called when FeedWork may have something new. It must not block.
	Wake func()
}

type feed struct {
	lease int
	hook  *Hook
	row   FeedRow
	// stale means that the database may have an older row.
	stale bool
	// reached is the position up to which the log was appended.
	reached event.Position
	// failed are the lanes that have begun to fail since lastSuccess, failedAt is when the first of them did.
	failed      []string
	failedAt    time.Time
	lastSuccess time.Time
	// suspects are the sources that have failed since the endpoint is thought to be down.
	suspects map[string]struct{}
	timer    timer
	// probeDue means that the endpoint is down and must be probed.
	probeDue bool
	wake     func()
}

// firstFeed is the number of the first bucket that is an endpoint.
const firstFeed = event.Buckets

func (b *bucket) laneKey(source string) string {
	if b.feed == nil {
		return source
	}
	return string(b.feed.row.Endpoint) + "/" + source
}

// endpoint returns the endpoint whose lanes the bucket has; empty if they are of accounts.
func (b *bucket) endpoint() id.Endpoint {
	if b.feed == nil {
		return ""
	}
	return b.feed.row.Endpoint
}

// pendingSince returns from when on an event that is read counts as pending. The first event of a lane may have been in memory
// before.
func (l *Lane) pendingSince(e *event.Stored, now time.Time) time.Time {
	switch {
	case l.bucket.feed == nil:
		return e.At
	case len(l.items) == 0 && l.headStale && !l.missedAt.IsZero():
		return l.missedAt
	}
	return now
}

// positionBefore returns the position right before an event. Identifiers have the same length, so one without its last
// character sorts before it and after all others.
func positionBefore(e *event.Stored) event.Position {
	return event.Position{Tx: e.Tx, ID: e.ID[:max(len(e.ID)-1, 0)]}
}

func isBefore(a, b event.Position) bool { return a.Tx < b.Tx || a.Tx == b.Tx && a.ID < b.ID }

// allowsEviction reports whether an idle lane can be evicted: the endpoint's stored position is past its events, so that
// they are not appended again.
func (f *feed) allowsEviction(l *Lane) bool { return f == nil || !isBefore(f.row.After, l.last) }

// HoldFeed adds an endpoint and returns its number, by which the bucket functions know it: StopBucket, InFlight and DropBucket.
func (m *Machine) HoldFeed(in Feed, now time.Time) int {
	number := firstFeed + m.feeds
	m.feeds++
	b := m.ensureBucket(number)
	b.holder, b.epoch, b.held, b.loaded = in.Holder, in.Epoch, true, true
	b.feed = &feed{
		lease: in.Bucket, hook: in.Hook, row: in.Row, reached: in.Row.After, suspects: map[string]struct{}{}, wake: in.Wake,
	}
	b.feed.timer.feed = b
	for i := range in.Lanes {
		row := &in.Lanes[i]
		l := m.ensureLane(in.Row.Org, row.Source, b)
		row.Gen = in.Hook.Gen
		l.setRow(*row)
		m.restorePhase(l)
		l.stored = rowSaved
		l.setCursor(row.Cursor)
		l.headStale, l.missedAt = true, now
		m.markChanged(l)
	}
	if in.Row.State == Backoff {
		m.stopLaneTimers(b)
		m.timers.set(&b.feed.timer, in.Row.NextAt)
	}
	for _, l := range b.lanes {
		if m.isSuspended(l.org) {
			m.fire(l, phase.OrgSuspended, occasion{})
		}
		m.advance(l, now)
	}
	return number
}

func (m *Machine) stopLaneTimers(b *bucket) {
	for _, l := range b.lanes {
		m.timers.stop(&l.timer)
	}
}

// FeedWork is what the holder of an endpoint must do.
type FeedWork struct {
	// Probe means that the endpoint is down and must be probed, with events after After.
	Probe bool
	// Room is how many events may be appended; 0 if none.
	Room int
	// After is the position up to which events were appended.
	After event.Position
}

// FeedWork returns what must be done for an endpoint.
func (m *Machine) FeedWork(number int) FeedWork {
	b := m.buckets[number]
	if b == nil || b.stopping || m.IsHeld(b.feed.row.Org) {
		return FeedWork{}
	}
	f := b.feed
	work := FeedWork{After: f.reached, Probe: f.probeDue && f.row.State == Backoff}
	if f.row.State == Live {
		work.Room = m.Window
		for _, l := range b.lanes {
			if l.stored == rowAbsent {
				work.Room -= len(l.items)
			}
		}
	}
	return work
}

// FeedAppend appends events of the organisation's log to the lanes of an endpoint. reached is the position up to which the log
// was read; the events that are not in the list are unwanted.
func (m *Machine) FeedAppend(number int, list []event.Stored, reached event.Position, now time.Time) {
	b := m.buckets[number]
	if b == nil || b.feed.row.State != Live {
		return // they are read again
	}
	for i := range list {
		m.addToFeed(b, &list[i], now)
	}
	b.feed.reached = reached
}

func (m *Machine) addToFeed(b *bucket, e *event.Stored, now time.Time) {
	l := m.ensureLane(b.feed.row.Org, e.Source, b)
	m.touch(l)
	if !l.hasCursor() {
		l.setCursor(e.Seq - 1)
		l.head = e.Seq - 1
	}
	if e.Seq <= l.head {
		return
	}
	missed := l.head > l.tail || l.headStale
	switch {
	case !missed && !m.IsHeld(l.org) && l.phase.Sends() && len(l.items) < m.InMemory && l.bytes < m.InMemoryBytes:
		l.head = e.Seq
		l.appendEvent(e, now)
	case !missed && len(l.items) == 0:
		l.missed, l.missedAt = positionBefore(e), now
		l.head = e.Seq
	default:
		if !missed {
			l.missedAt = now
		}
		l.head = e.Seq
	}
	l.last = e.Position()
	m.markChanged(l)
	m.advance(l, now)
}

// FeedSkip drops the events of a source up to a sequence: its account was deleted, and its data must not be sent any more.
func (m *Machine) FeedSkip(number int, source string, upTo int64, now time.Time) {
	b := m.buckets[number]
	if b == nil {
		return
	}
	l := b.lanes[b.laneKey(source)]
	if l == nil || l.cursor >= upTo {
		return
	}
	l.detachInFlight()
	m.setPhase(l, phase.Live)
	l.setRow(Row{Gen: b.feed.hook.Gen})
	l.markRowStale()
	l.setCursor(upTo)
	l.head, l.headStale, l.doneAhead = upTo, false, nil
	m.markChanged(l)
	m.advance(l, now)
}

// FeedCandidate reports whether an event may probe an endpoint that is down: it is the first of its source that is not done.
// Accounts with a row have their own tries. suspect means that the source has failed since the endpoint is down.
func (m *Machine) FeedCandidate(number int, e *event.Stored) (ok, suspect bool) {
	b := m.buckets[number]
	if b == nil {
		return false, false
	}
	_, suspect = b.feed.suspects[e.Source]
	l := b.lanes[b.laneKey(e.Source)]
	return l == nil || l.stored == rowAbsent && e.Seq > l.cursor && l.inFlight == 0 && l.strays == 0, suspect
}

// FeedSuspect reports that an endpoint that is down has failed for a probe of a source.
func (m *Machine) FeedSuspect(number int, source string) {
	if b := m.buckets[number]; b != nil {
		b.feed.suspects[source] = struct{}{}
	}
}

// FeedProbed reports that an endpoint that was down has accepted an event, or at least answered it.
func (m *Machine) FeedProbed(number int, e *event.Stored, outcome Outcome, now time.Time) {
	b := m.buckets[number]
	if b == nil {
		return
	}
	if outcome == Delivered {
		l := m.ensureLane(b.feed.row.Org, e.Source, b)
		if l.cursor < e.Seq && l.inFlight == 0 {
			l.setCursor(e.Seq)
			l.head, l.last = e.Seq, e.Position()
		}
	}
	delete(b.feed.suspects, e.Source)
	b.feed.probeDue = false
	m.feedUp(b, now)
}

// FeedProbeFailed reports that an endpoint is still down, or that there was nothing to probe it with.
func (m *Machine) FeedProbeFailed(number int, r Result, tried bool, now time.Time) {
	b := m.buckets[number]
	if b == nil || b.feed.row.State != Backoff {
		return
	}
	f := b.feed
	f.probeDue, f.stale = false, true
	if !tried { // nothing waits: the next event goes out as usual
		f.row.FailSince, f.row.Reason = now, "" // this is no recovery, of which the owner is told
		clear(f.suspects)
		m.feedUp(b, now)
		return
	}
	f.row.LastStatus, f.row.LastError = r.Status, r.Failure
	f.row.FailCount++
	if Classify(r) == Gone {
		m.disableFeed(b, ReasonGone, now)
		return
	}
	if now.Sub(f.row.FailSince) >= m.GiveUp {
		m.disableFeed(b, ReasonFailing, now)
		return
	}
	m.scheduleFeed(b, r, now)
}

func (m *Machine) scheduleFeed(b *bucket, r Result, now time.Time) {
	f := b.feed
	at := now.Add(m.Delay(f.row.FailCount, m.chance()))
	if r.RetryAfter > 0 {
		at = now.Add(min(r.RetryAfter, m.MaxRetryAfter))
	}
	if end := f.row.FailSince.Add(m.GiveUp); at.After(end) {
		at = end
	}
	f.row.NextAt = at
	m.timers.set(&f.timer, at)
}

// recordFeedResult tells an endpoint how a delivery of one of its lanes ended, before the lane itself knows.
func (m *Machine) recordFeedResult(l *Lane, r Result, outcome Outcome, now time.Time) {
	b := l.bucket
	f := b.feed
	switch outcome {
	case Delivered, Refused:
		l.atFault = false
		f.lastSuccess, f.failed = now, f.failed[:0]
		if f.row.State == Backoff {
			m.feedUp(b, now)
		}
	case Gone:
		if f.row.State != Disabled {
			f.row.LastStatus, f.row.LastError = r.Status, r.Failure
			m.disableFeed(b, ReasonGone, now)
		}
	case Down:
		if now.Add(-r.Took).Before(f.lastSuccess) {
			return // it began before another succeeded
		}
		if f.row.State == Backoff {
			f.suspects[l.source] = struct{}{}
		}
		// A lane that fails for longer says nothing new.
		if f.row.State != Live || l.fault == faultEndpoint || l.atFault || slices.Contains(f.failed, l.source) {
			return
		}
		if len(f.failed) == 0 {
			f.failedAt = now
		}
		if f.failed = append(f.failed, l.source); len(f.failed) >= m.OpenLanes {
			f.row.LastStatus, f.row.LastError = r.Status, r.Failure
			f.row.State, f.row.FailSince, f.row.FailCount, f.row.NextAt, f.stale = Backoff, f.failedAt, 0, now, true
			for _, source := range f.failed {
				f.suspects[source] = struct{}{}
			}
			if f.probeDue = r.RetryAfter <= 0; !f.probeDue {
				f.row.FailCount = 1
				m.scheduleFeed(b, r, now)
			}
			m.stopFeed(b)
		}
	case Aborted:
	}
}

// stopFeed makes the lanes of an endpoint that does not work forget what they hold.
func (m *Machine) stopFeed(b *bucket) {
	m.stopLaneTimers(b)
	for _, l := range b.lanes {
		m.rewind(l)
	}
	b.feed.failed = b.feed.failed[:0]
	b.feed.wake()
}

// rewind makes a lane forget its events, which are read again from the log. A lane with a row keeps the row. It does
// nothing while deliveries are in flight.
func (m *Machine) rewind(l *Lane) {
	if l.inFlight > 0 {
		return
	}
	m.timers.stop(&l.timer)
	if l.stored != rowAbsent {
		l.unload()
		return
	}
	if l.hasPending() {
		before := l.firstPending()
		if isBefore(before, l.bucket.feed.reached) {
			l.bucket.feed.reached = before
		}
	}
	m.setPhase(l, phase.Live)
	m.timers.stop(&l.timer)
	l.setRow(Row{Gen: l.bucket.feed.hook.Gen})
	l.fault = faultNone
	l.items, l.bytes, l.headStale = nil, 0, false
	l.head, l.tail = l.cursor, l.cursor
}

// firstPending returns the position before the first pending event of a lane.
func (l *Lane) firstPending() event.Position {
	if len(l.items) > 0 {
		return positionBefore(&l.items[0].event)
	}
	return l.missed
}

// feedUp ends the outage of an endpoint. Lanes with a row continue with their own schedule.
func (m *Machine) feedUp(b *bucket, now time.Time) {
	f := b.feed
	if f.row.State != Backoff {
		return
	}
	if now.Sub(f.row.FailSince) >= m.NotifyAfter || f.row.Reason != "" {
		m.notices = append(m.notices, Notice{
			Org: f.row.Org, Source: string(f.row.Org), Endpoint: f.row.Endpoint, Recovered: true, Reason: f.row.Reason,
			Since: f.row.FailSince, At: now, Hook: f.hook,
		})
	}
	m.timers.stop(&f.timer)
	for source := range f.suspects {
		m.ensureLane(f.row.Org, source, b).atFault = true
	}
	clear(f.suspects)
	f.row.State, f.row.FailSince, f.row.FailCount, f.row.NextAt, f.row.Reason = Live, time.Time{}, 0, time.Time{}, ""
	f.probeDue, f.stale, f.lastSuccess = false, true, now
	for _, l := range b.lanes {
		if l.phase == phase.Waiting {
			m.timers.set(&l.timer, l.row.NextAt)
		}
		m.advance(l, now)
	}
	f.wake()
}

func (m *Machine) disableFeed(b *bucket, reason string, now time.Time) {
	f := b.feed
	m.timers.stop(&f.timer)
	if f.row.FailSince.IsZero() {
		f.row.FailSince = now
	}
	f.row.State, f.row.Reason, f.row.NextAt, f.probeDue, f.stale = Disabled, reason, time.Time{}, false, true
	m.notices = append(m.notices, Notice{
		Org: f.row.Org, Source: string(f.row.Org), Endpoint: f.row.Endpoint, Reason: reason, Since: f.row.FailSince, At: now, Hook: f.hook,
	})
	m.stopFeed(b)
}

// FeedHook returns the hook of an endpoint that delivers; nil if it does not.
func (m *Machine) FeedHook(number int) *Hook {
	b := m.buckets[number]
	if b == nil || !b.isRunning() || m.IsHeld(b.feed.row.Org) {
		return nil
	}
	return b.feed.hook
}

func (m *Machine) wakeFeeds() {
	for _, b := range m.buckets {
		if b.feed != nil {
			b.feed.wake()
		}
	}
}

// resetSuspendedFeeds forgets the failures of endpoints of organisations that have just been suspended.
func (m *Machine) resetSuspendedFeeds(before map[id.Org]struct{}) {
	for _, b := range m.buckets {
		if b.feed == nil || b.feed.row.State != Backoff {
			continue
		}
		f := b.feed
		if _, was := before[f.row.Org]; !was && m.isSuspended(f.row.Org) {
			m.timers.stop(&f.timer)
			f.row.State, f.row.FailSince, f.row.FailCount, f.row.NextAt = Live, time.Time{}, 0, time.Time{}
			f.probeDue, f.stale = false, true
			clear(f.suspects)
		}
	}
}

// feedFlush collects what a flush writes of each endpoint.
type feedFlush map[*bucket]*feedChanges

type feedChanges struct {
	// low is the position that the endpoint's must not pass; held means that there is one.
	low     event.Position
	held    bool
	rows    []Row
	removed []string
}

func (f feedFlush) of(b *bucket) *feedChanges {
	if f[b] == nil {
		f[b] = &feedChanges{}
	}
	return f[b]
}

// flushFeedLane adds the row of a lane of an endpoint to a batch. A lane that has pending events and no row holds up the
// endpoint's position. A lane gets a row if it does not keep up, if it fails although the endpoint works for others, or if
// the endpoint stops: what was delivered after a position that is held up would be delivered again.
func (m *Machine) flushFeedLane(l *Lane, batch *Batch, feeds feedFlush, now time.Time) {
	f := l.bucket.feed
	pending := l.hasPending()
	keepsRow := l.stored != rowAbsent
	mayStart := f.row.State == Live && !m.IsHeld(l.org)
	behind := pending && l.hasCursor() && (l.bucket.stopping || now.Sub(l.oldestPendingAt()) >= m.HoldFor ||
		len(l.items) >= m.InMemory && (l.head > l.tail || l.headStale))
	if behind && mayStart {
		m.fire(l, phase.FellBehind, occasion{now: now})
	}
	wanted := l.phase != phase.Live && (keepsRow || mayStart && (behind || m.isFaultOfLane(l)))
	changes := feeds.of(l.bucket)
	switch {
	case wanted && l.stored != rowSaved:
		row := l.row
		row.Org, row.Source, row.Cursor, row.State = l.org, l.source, l.cursor, storedState(l.phase)
		changes.rows = append(changes.rows, row)
		batch.saved = append(batch.saved, l)
		l.stored = rowSaved
	case !wanted && keepsRow:
		changes.removed = append(changes.removed, l.source)
		batch.removed = append(batch.removed, l)
	}
	if pending && !wanted {
		if before := l.firstPending(); !changes.held || isBefore(before, changes.low) {
			changes.low, changes.held = before, true
		}
	}
	if !pending && (wanted && l.stored == rowSaved || !wanted && l.stored == rowAbsent) {
		delete(m.changed, l)
	}
}

// isFaultOfLane reports whether a lane fails although the endpoint works: it answers this lane, or has accepted something of
// another one since.
func (m *Machine) isFaultOfLane(l *Lane) bool {
	if l.phase == phase.Paused || l.phase == phase.Disabled {
		return true
	}
	return l.fault == faultEndpoint && (l.atFault || l.bucket.feed.lastSuccess.After(l.row.FailSince))
}

func (m *Machine) flushFeed(b *bucket, batch *Batch, feeds feedFlush) {
	f := b.feed
	changes := feeds.of(b)
	at := f.reached
	if changes.held && isBefore(changes.low, at) {
		at = changes.low
	}
	if at == f.row.After && !f.stale && len(changes.rows) == 0 && len(changes.removed) == 0 {
		return
	}
	f.stale = false
	row := f.row
	row.After = at
	batch.Feeds = append(batch.Feeds, FeedSave{
		FeedRow: row, Bucket: f.lease, Epoch: b.epoch, Rows: changes.rows, Removed: changes.removed, number: b.number,
	})
}

func (m *Machine) feedsFlushed(batch *Batch) {
	for i := range batch.Feeds {
		if b := m.buckets[batch.Feeds[i].number]; b != nil && b.feed != nil {
			b.feed.row.After = batch.Feeds[i].After
		}
	}
}
