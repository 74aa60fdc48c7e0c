package lane

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Floor is up to when everything of a bucket is done with, but for lanes that have a row.
type Floor struct {
	Bucket int
	Epoch  int64
	At     time.Time
	// Clean means that nothing is under way any more: the next owner repeats nothing.
	Clean bool
}

// Save is a row to be written. If it cannot be, the bucket's floor must stay at Hold, unless nothing is pending.
type Save struct {
	Row
	Pending bool
	Hold    time.Time
}

// Errand is an event that its lane has left behind.
type Errand struct {
	Org     id.Org
	Source  string
	Seq     int64
	Attempt int
	Since   time.Time
	NextAt  time.Time
}

// Told is what the owner of a webhook is told: that it was disabled, or that it works again.
type Told struct {
	Org       id.Org
	Source    string
	Recovered bool
	Reason    string
	Since, At time.Time
	Hook      *Hook
}

// Batch is what must be written together.
type Batch struct {
	Floors  []Floor
	Save    []Save
	Remove  []Row
	Errands []Errand
	Told    []Told

	saved, removed []*Lane
}

// Empty says whether there is nothing to write.
func (b *Batch) Empty() bool {
	return len(b.Floors)+len(b.Save)+len(b.Remove)+len(b.Errands)+len(b.Told) == 0
}

// Flush gathers what has changed since the last time. It must be answered by Flushed or Unflushed before the next.
func (m *Machine) Flush(now time.Time) *Batch {
	batch := &Batch{}
	floors, fences := map[*bucket]time.Time{}, map[*bucket]bool{}
	for l := range m.changed {
		if l.bucket.held && l.bucket.loaded {
			if m.flush(l, batch, floors, now) {
				fences[l.bucket] = true
			}
		}
	}
	for _, b := range m.buckets {
		if !b.held || !b.loaded {
			continue
		}
		at, held := floors[b]
		if !held {
			at = b.lastAt
		}
		clean := b.stopping && b.flying == 0
		if at.IsZero() && clean {
			at = b.floor
		}
		if !at.IsZero() && (!at.Equal(b.floor) || clean) {
			batch.Floors = append(batch.Floors, Floor{b.number, b.epoch, at, clean})
		} else if fences[b] {
			batch.Floors = append(batch.Floors, Floor{b.number, b.epoch, b.floor, false})
		}
	}
	batch.Errands, m.errands = m.errands, nil
	batch.Told, m.told = m.told, nil
	return batch
}

// flush looks at one lane, and says whether something of it is written.
func (m *Machine) flush(l *Lane, batch *Batch, floors map[*bucket]time.Time, now time.Time) (writes bool) {
	pending := l.pending() && (!l.known || l.hook != nil)
	at := l.pendingAt()
	late := pending && l.placed && (now.Sub(at) >= m.LagAfter || l.bucket.stopping)
	switch state := l.row.State; {
	case late && l.known && state == Live:
		l.row.State, l.wantsRow, l.dirty = Lagging, true, true
	case !late && !l.behind && (state == Lagging || state == Draining):
		l.row.State, l.wantsRow = Live, false
	}
	switch {
	case l.wantsRow && (l.dirty || !l.hasRow) && l.known && l.hook != nil, l.wantsRow && l.dirty && l.hasRow:
		row := l.row
		row.Org, row.Source, row.Bucket, row.Cursor = l.org, l.source, l.bucket.number, l.cursor
		if !l.placed {
			row.Cursor = Unknown
		}
		batch.Save = append(batch.Save, Save{row, pending, at.Add(-time.Microsecond)})
		batch.saved = append(batch.saved, l)
		l.hasRow, l.dirty = true, false
		return true
	case !l.wantsRow && l.hasRow:
		batch.Remove = append(batch.Remove, Row{Org: l.org, Source: l.source, Bucket: l.bucket.number, Gen: l.row.Gen})
		batch.removed = append(batch.removed, l)
		writes = true
	}
	if pending && (!l.wantsRow || !l.hasRow) {
		before := at.Add(-time.Microsecond)
		if floor, ok := floors[l.bucket]; !ok || before.Before(floor) {
			floors[l.bucket] = before
		}
	}
	if !pending && !l.dirty && l.wantsRow == l.hasRow {
		delete(m.changed, l)
	}
	return writes
}

// Flushed means that a batch was written, but for the rows of sources that are in unsaved: their owners have changed something meanwhile.
func (m *Machine) Flushed(batch *Batch, unsaved map[string]bool) {
	for _, f := range batch.Floors {
		if b := m.buckets[f.Bucket]; b != nil && b.epoch == f.Epoch {
			b.floor = f.At
		}
	}
	for _, l := range batch.removed {
		if !l.wantsRow {
			l.hasRow = false
		}
	}
	for _, l := range batch.saved {
		if unsaved[l.source] && m.lanes[l.source] == l {
			l.dirty = true
			m.Invalidate(l.org, l.source)
			m.look(l)
		}
	}
}

// Unflushed means that nothing of a batch is known to be written.
func (m *Machine) Unflushed(batch *Batch) {
	for _, l := range batch.saved {
		l.dirty = true
		m.look(l)
	}
	for _, l := range batch.removed {
		m.look(l)
	}
	m.errands = append(batch.Errands, m.errands...)
	m.told = append(batch.Told, m.told...)
}

// Stop lets a bucket begin nothing new; Flying says how much is still under way.
func (m *Machine) Stop(number int) {
	if b := m.buckets[number]; b != nil {
		b.stopping = true
		for _, l := range b.lanes {
			m.look(l)
		}
	}
}

// Flying is how many deliveries of a bucket are under way.
func (m *Machine) Flying(number int) int {
	if b := m.buckets[number]; b != nil {
		return b.flying
	}
	return 0
}

// Drop forgets a bucket and its lanes.
func (m *Machine) Drop(number int) {
	b := m.buckets[number]
	if b == nil {
		return
	}
	b.held = false
	for _, l := range b.lanes {
		m.remove(l)
	}
	delete(m.buckets, number)
}

// Holds says whether a bucket is held under an epoch, and runs.
func (m *Machine) Holds(number int, epoch int64) bool {
	b := m.buckets[number]
	return b != nil && b.held && b.epoch == epoch
}

// Stats are numbers for operators.
type Stats struct {
	Lanes, Flying, Waiting, Backoff, Open int
}

// Stats counts.
func (m *Machine) Stats() Stats {
	s := Stats{Lanes: len(m.lanes), Flying: m.gate.flying, Waiting: len(m.changed), Backoff: len(m.timers.list)}
	for _, h := range m.hosts {
		if h.open {
			s.Open++
		}
	}
	return s
}
