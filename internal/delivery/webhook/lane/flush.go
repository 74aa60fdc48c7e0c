package lane

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane/phase"
)

// Checkpoint says up to when a bucket is delivered: every event stored by then is done, except events of lanes that
// have a row.
type Checkpoint struct {
	Bucket int
	Epoch  int64
	At     time.Time
	// Clean means that the bucket is stopped and nothing is in flight, so the next owner delivers nothing twice.
	Clean bool
}

// Save is a row to write. If it cannot be written while events are Pending, the checkpoint of its bucket must not move
// past Hold.
type Save struct {
	Row
	Pending bool
	Hold    time.Time
}

// SideDelivery is an event that its lane gave up on. It is retried separately, out of order.
type SideDelivery struct {
	Org    id.Org
	Source string
	// Endpoint is empty for the webhook of an account.
	Endpoint id.Endpoint
	Seq      int64
	Attempt  int
	Since    time.Time
	NextAt   time.Time
}

// Notice informs the owner of a webhook that it was disabled, or that it works again (Recovered).
type Notice struct {
	Org id.Org
	// Source is the account, or the organisation if the notice is about an endpoint as a whole.
	Source string
	// Endpoint is empty for the webhook of an account.
	Endpoint  id.Endpoint
	Recovered bool
	Reason    string
	Since, At time.Time
	Hook      *Hook
}

// Batch holds what must be written in one transaction.
type Batch struct {
	Checkpoints    []Checkpoint
	Save           []Save
	Remove         []Row
	SideDeliveries []SideDelivery
	Notices        []Notice
	// Feeds are the endpoints of which anything is written, and rows of their lanes.
	Feeds []FeedSave

	saved, removed []*Lane
}

// Empty reports whether there is nothing to write.
func (b *Batch) Empty() bool {
	return len(b.Checkpoints)+len(b.Save)+len(b.Remove)+len(b.SideDeliveries)+len(b.Notices)+len(b.Feeds) == 0
}

// Flush returns what has changed since the last flush. The caller must call Flushed or FlushFailed before the next one.
func (m *Machine) Flush(now time.Time) *Batch {
	batch := &Batch{}
	// checkpoints holds back the checkpoint of buckets with pending events. fences are buckets of which a row is
	// written: they need a checkpoint in the batch, because its epoch guards the row.
	checkpoints, fences := map[*bucket]time.Time{}, map[*bucket]bool{}
	feeds := feedFlush{}
	for l := range m.changed {
		if l.bucket.feed != nil {
			m.flushFeedLane(l, batch, feeds, now)
		} else if l.bucket.held && l.bucket.loaded {
			if m.flushLane(l, batch, checkpoints, now) {
				fences[l.bucket] = true
			}
		}
	}
	for _, b := range m.buckets {
		if !b.held || !b.loaded {
			continue
		}
		if b.feed != nil {
			m.flushFeed(b, batch, feeds)
			continue
		}
		at, held := checkpoints[b]
		if !held {
			at = b.lastAt
		}
		clean := b.stopping && b.inFlight == 0
		if at.IsZero() && clean {
			at = b.checkpoint
		}
		if !at.IsZero() && (!at.Equal(b.checkpoint) || clean) {
			batch.Checkpoints = append(batch.Checkpoints, Checkpoint{b.number, b.epoch, at, clean})
		} else if fences[b] {
			batch.Checkpoints = append(batch.Checkpoints, Checkpoint{b.number, b.epoch, b.checkpoint, false})
		}
	}
	batch.SideDeliveries, m.sideDeliveries = m.sideDeliveries, nil
	batch.Notices, m.notices = m.notices, nil
	return batch
}

// flushLane adds a lane to a batch and reports whether its row is written or removed. A lane with pending events and no
// row holds back the checkpoint of its bucket.
func (m *Machine) flushLane(l *Lane, batch *Batch, checkpoints map[*bucket]time.Time, now time.Time) (writes bool) {
	pending := l.hasPending() && l.hookState != hookNone
	at := l.oldestPendingAt()
	late := pending && l.hasCursor() && (now.Sub(at) >= m.LagAfter || l.bucket.stopping)
	switch {
	case late && l.hookState == hookReady:
		m.fire(l, phase.FellBehind, occasion{now: now})
	case !late && !l.headStale && l.phase.Sends():
		m.fire(l, phase.CaughtUp, occasion{now: now})
	}
	wanted := l.phase != phase.Live
	switch {
	case wanted && (l.stored == rowStale || l.stored == rowAbsent && l.hookState == hookReady):
		row := l.row
		row.Org, row.Source, row.Bucket, row.Cursor = l.org, l.source, l.bucket.number, l.cursor
		row.State = storedState(l.phase)
		batch.Save = append(batch.Save, Save{row, pending, at.Add(-time.Microsecond)})
		batch.saved = append(batch.saved, l)
		l.stored = rowSaved
		return true
	case !wanted && l.stored != rowAbsent:
		batch.Remove = append(batch.Remove, Row{Org: l.org, Source: l.source, Bucket: l.bucket.number, Gen: l.row.Gen})
		batch.removed = append(batch.removed, l)
		writes = true
	}
	if pending && (!wanted || l.stored == rowAbsent) {
		before := at.Add(-time.Microsecond)
		if checkpoint, ok := checkpoints[l.bucket]; !ok || before.Before(checkpoint) {
			checkpoints[l.bucket] = before
		}
	}
	if !pending && (wanted && l.stored == rowSaved || !wanted && l.stored == rowAbsent) {
		delete(m.changed, l)
	}
	return writes
}

// Flushed reports that a batch was written, except the rows of the sources in unsaved, whose webhooks were changed in
// the meantime.
func (m *Machine) Flushed(batch *Batch, unsaved map[string]bool) {
	for _, f := range batch.Checkpoints {
		if b := m.buckets[f.Bucket]; b != nil && b.epoch == f.Epoch {
			b.checkpoint = f.At
		}
	}
	for _, l := range batch.removed {
		if l.phase == phase.Live {
			l.stored = rowAbsent
		}
	}
	m.feedsFlushed(batch)
	for _, l := range batch.saved {
		if l.bucket.feed == nil && unsaved[l.source] && m.lanes[l.key] == l {
			l.markRowStale()
			m.Invalidate(l.org, l.source)
			m.markChanged(l)
		}
	}
}

// FlushFailed reports that a batch may not have been written. The next flush contains it again.
func (m *Machine) FlushFailed(batch *Batch) {
	for _, l := range batch.saved {
		l.markRowStale()
		m.markChanged(l)
	}
	for _, l := range batch.removed {
		m.markChanged(l)
	}
	for i := range batch.Feeds {
		if b := m.buckets[batch.Feeds[i].number]; b != nil && b.feed != nil {
			b.feed.stale = true
		}
	}
	m.sideDeliveries = append(batch.SideDeliveries, m.sideDeliveries...)
	m.notices = append(batch.Notices, m.notices...)
}

// StopBucket starts no more deliveries of a bucket. InFlight counts those that have not ended.
func (m *Machine) StopBucket(number int) {
	if b := m.buckets[number]; b != nil {
		b.stopping = true
		for _, l := range b.lanes {
			m.markChanged(l)
		}
	}
}

// InFlight returns how many deliveries of a bucket have not ended.
func (m *Machine) InFlight(number int) int {
	if b := m.buckets[number]; b != nil {
		return b.inFlight
	}
	return 0
}

// DropBucket removes a bucket and its lanes from memory.
func (m *Machine) DropBucket(number int) {
	b := m.buckets[number]
	if b == nil {
		return
	}
	b.held = false
	if b.feed != nil {
		m.timers.stop(&b.feed.timer)
	}
	for _, l := range b.lanes {
		m.removeLane(l)
	}
	delete(m.buckets, number)
}

// HoldsBucket reports whether a bucket is held under an epoch.
func (m *Machine) HoldsBucket(number int, epoch int64) bool {
	b := m.buckets[number]
	return b != nil && b.held && b.epoch == epoch
}

// Stats are numbers for operators: Pending counts lanes with something to deliver or to write, Backlog those that have
// events and may send them now, Timers the lanes and hosts that wait for their next attempt.
type Stats struct {
	Lanes, InFlight, Pending, Backlog, Timers, HostsDown int
}

// Stats returns the current numbers.
func (m *Machine) Stats() Stats {
	s := Stats{Lanes: len(m.lanes), InFlight: m.gate.inFlight, Pending: len(m.changed), Timers: len(m.timers.list)}
	for l := range m.changed {
		if l.phase.Sends() && l.hookState != hookNone && l.hasPending() && l.bucket.isRunning() && !m.IsHeld(l.org) {
			s.Backlog++
		}
	}
	for _, h := range m.hosts {
		if h.breaker == breakerOpen {
			s.HostsDown++
		}
	}
	return s
}
