package lane

import (
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// bucket is a share of all sources that this node has by a lease.
type bucket struct {
	number int
	epoch  int64
	// held means that the lease is there, loaded that all its lanes are; while it is stopping nothing new is begun.
	held, loaded, stopping bool
	// floor is up to when everything is done with, as the database knows it; lastAt is the time of the last commit.
	floor, lastAt time.Time
	flying        int
	lanes         map[string]*Lane
	by            any
}

func (b *bucket) runs() bool { return b.held && b.loaded && !b.stopping }

// Machine has all lanes of a node. It is not safe for concurrent use.
type Machine struct {
	Config
	// chance gives a number in [0,1).
	chance  func() float64
	buckets map[int]*bucket
	lanes   map[string]*Lane
	hosts   map[hostKey]*host
	gate    gate
	timers  timers
	reads   fifo[*Lane]
	reading int
	loads   fifo[*Lane]
	// changed are lanes that a flush must look at: something is pending, or their row differs.
	changed map[*Lane]struct{}
	errands []Errand
	told    []Told
	// newest and oldest are the ends of the list of lanes in the order of use.
	newest, oldest *Lane
	pruned         time.Time
	awaited        time.Time
	// halted means that nothing is to be sent: events wait in the store.
	halted bool
	// suspended are orgs for which nothing is to be sent.
	suspended map[id.Org]struct{}
}

// New makes a machine. chance gives numbers in [0,1).
func New(c Config, chance func() float64) *Machine {
	return &Machine{
		Config: c, chance: chance, buckets: map[int]*bucket{}, lanes: map[string]*Lane{}, hosts: map[hostKey]*host{},
		gate: gate{slots: c.Slots, byOrg: map[id.Org]*tenant{}}, changed: map[*Lane]struct{}{},
	}
}

// Take begins to hold a bucket. Its lanes wait until it is loaded. by goes with its jobs.
func (m *Machine) Take(number int, epoch int64, by any) {
	b := m.bucket(number)
	b.by = by
	b.epoch, b.held, b.loaded, b.stopping = epoch, true, false, false
}

func (m *Machine) bucket(number int) *bucket {
	b := m.buckets[number]
	if b == nil {
		b = &bucket{number: number, lanes: map[string]*Lane{}}
		m.buckets[number] = b
	}
	return b
}

// Behind is a source without a row, or with one that has no cursor, that may have events to be delivered: all up to Cursor are done.
type Behind struct {
	Org          id.Org
	Source       string
	Cursor, Head int64
}

// Loaded gives a bucket what the database has of it. floor is up to when everything is done of the sources that are in neither list.
func (m *Machine) Loaded(number int, floor time.Time, rows []Row, behind []Behind, now time.Time) {
	b := m.bucket(number)
	b.floor = floor
	b.loaded = true
	for i := range rows {
		m.restore(b, &rows[i])
	}
	for _, one := range behind {
		l := m.lane(one.Org, one.Source, b)
		if l.hasRow && l.row.Cursor >= 0 {
			continue
		}
		l.dirty = l.hasRow // the row must get its cursor before the floor moves on
		head := max(l.head, one.Head)
		l.place(one.Cursor)
		l.head, l.missedAt = head, floor
	}
	for _, l := range b.lanes {
		if !l.placed && l.head > 0 {
			l.placed, l.dirty = true, l.hasRow
		}
		l.unplaced()
		m.look(l)
		m.act(l, now)
	}
}

// restore makes a lane of a row.
func (m *Machine) restore(b *bucket, row *Row) {
	l := m.lane(row.Org, row.Source, b)
	head := l.head
	l.row, l.hasRow, l.wantsRow = *row, true, true
	if row.Cursor >= 0 {
		l.place(row.Cursor)
	}
	l.head = max(l.head, head)
	l.behind, l.missedAt = true, b.floor
	if row.State == Backoff {
		m.timers.set(&l.timer, row.NextAt)
	}
	if m.isSuspended(l.org) {
		m.calm(l)
	}
}

// lane finds or makes the lane of a source.
func (m *Machine) lane(org id.Org, source string, b *bucket) *Lane {
	l := m.lanes[source]
	if l == nil {
		l = &Lane{org: org, source: source, bucket: b, row: Row{State: Live}}
		l.timer.lane = l
		m.lanes[source], b.lanes[source] = l, l
		m.use(l)
		m.evict()
	}
	return l
}

// use makes a lane the newest.
func (m *Machine) use(l *Lane) {
	if m.newest == l {
		return
	}
	m.unlink(l)
	if l.older = m.newest; l.older != nil {
		l.older.newer = l
	}
	if m.newest = l; m.oldest == nil {
		m.oldest = l
	}
}

func (m *Machine) unlink(l *Lane) {
	if l.newer != nil {
		l.newer.older = l.older
	} else if m.newest == l {
		m.newest = l.older
	}
	if l.older != nil {
		l.older.newer = l.newer
	} else if m.oldest == l {
		m.oldest = l.newer
	}
	l.newer, l.older = nil, nil
}

// evict forgets lanes that were not used for long.
func (m *Machine) evict() {
	for range 4 {
		l := m.oldest
		if len(m.lanes) <= m.Lanes || l == nil {
			return
		}
		if l.idle() && l.bucket.loaded {
			m.remove(l)
		} else {
			m.use(l)
		}
	}
}

func (m *Machine) remove(l *Lane) {
	m.unlink(l)
	m.timers.stop(&l.timer)
	l.parked = false
	delete(m.lanes, l.source)
	delete(l.bucket.lanes, l.source)
	delete(m.changed, l)
}

// Committed tells of events that were stored: those of one source in their order. It takes what fits and remembers that there is more.
func (m *Machine) Committed(list []event.Stored, now time.Time) {
	for i := range list {
		m.committed(&list[i], now)
	}
}

func (m *Machine) committed(e *event.Stored, now time.Time) {
	l := m.lanes[e.Source]
	if l == nil {
		b := m.bucket(event.Bucket(e.Source))
		b.note(e.At)
		if !strings.HasPrefix(e.Source, accountPrefix) {
			return // what concerns no account has no webhook
		}
		l = m.lane(e.Org, e.Source, b)
	} else {
		l.bucket.note(e.At)
		m.use(l)
	}
	if l.head == 0 && !l.placed {
		// Nothing is known of it, so all before is done; while its bucket is not loaded that is a guess.
		l.cursor, l.tail, l.head, l.placed = e.Seq-1, e.Seq-1, e.Seq-1, l.bucket.loaded
		l.dirty = l.dirty || l.hasRow
	}
	if e.Seq <= l.head {
		return
	}
	if l.known && l.hook == nil {
		l.cursor, l.tail, l.head = e.Seq, e.Seq, e.Seq
		return
	}
	missed := l.head > l.tail || l.behind
	l.head = e.Seq
	if !missed && !m.Held(l.org) && l.placed && e.Seq == l.tail+1 && l.row.State.sends() && len(l.items) < m.InMemory && l.bytes < m.InMemoryBytes {
		l.add(e)
	} else if !missed {
		l.missedAt = e.At
	}
	if l.pending() {
		m.look(l)
		m.act(l, now)
	}
}

const accountPrefix = "acct_"

func (b *bucket) note(at time.Time) {
	if at.After(b.lastAt) {
		b.lastAt = at
	}
}

// look has the next flush look at a lane.
func (m *Machine) look(l *Lane) { m.changed[l] = struct{}{} }

// act begins whatever a lane needs next.
func (m *Machine) act(l *Lane, now time.Time) {
	switch {
	case !l.bucket.runs() || !l.placed || l.strays > 0:
		return
	case !l.row.State.sends() && (l.row.State != Backoff || !l.probing):
		return
	case m.Held(l.org) && l.known && l.hook != nil:
		return
	case !l.known:
		m.load(l)
		return
	case l.hook == nil:
		return
	}
	one := l.next()
	more := l.head > l.tail || l.behind
	if more && !l.reading && len(l.items) < m.InMemory/4 {
		l.reading = true
		m.reads.push(l)
	}
	if one == nil {
		if !more && l.flying == 0 {
			m.caughtUp(l)
		}
		return
	}
	if l.queued || l.flying >= l.atOnce() {
		return
	}
	h := m.host(l)
	if h.open && h.probe != l && !l.volunteer && !m.volunteers(l, h, now) {
		m.park(l, h, now)
		return
	}
	l.queued = true
	c := healthy
	if !l.works() {
		c = troubled
	}
	m.gate.enqueue(h, waiter{lane: l}, c)
}

func (l *Lane) atOnce() int {
	if l.probing {
		return 1
	}
	return max(l.hook.AtOnce, 1)
}

// caughtUp makes a lane live that has delivered everything.
func (m *Machine) caughtUp(l *Lane) {
	l.probing = false
	if l.row.State != Live || l.wantsRow {
		l.row.State, l.row.NextAt = Live, time.Time{}
		l.wantsRow = false
		m.look(l)
	}
}

func (m *Machine) host(l *Lane) *host { return m.hostOf(l.org, l.hook.Host) }

func (m *Machine) hostOf(org id.Org, name string) *host {
	key := hostKey{org, name}
	h := m.hosts[key]
	if h == nil {
		o := m.gate.byOrg[org]
		if o == nil {
			o = &tenant{}
			m.gate.byOrg[org] = o
		}
		h = &host{key: key, org: o, limit: float64(m.HostStart)}
		h.timer.host = h
		m.hosts[key] = h
	}
	return h
}

// unplaced makes a lane live of which only the owner's order to deliver is known: up to the floor all is done, and nothing came since.
func (l *Lane) unplaced() {
	if !l.placed && l.bucket.loaded && l.row.State.sends() {
		l.row.State, l.wantsRow, l.behind = Live, false, false
	}
}

// Page asks for the events of a lane behind After; Head was the last that was known.
type Page struct {
	Lane        *Lane
	Hook        *Hook
	After, Head int64
}

// NextRead is a page to be read; ok is false if there is none, or enough read already. It must be answered by Read or ReadFailed.
func (m *Machine) NextRead() (p Page, ok bool) {
	for m.reading < m.Reads && !m.reads.empty() {
		l := m.reads.pop()
		if m.lanes[l.source] != l || !l.bucket.runs() {
			l.reading = false
			continue
		}
		m.reading++
		return Page{l, l.hook, l.tail, l.head}, true
	}
	return Page{}, false
}

// Read gives a lane the events of a page. short means that there were no more.
func (m *Machine) Read(p Page, list []event.Stored, short bool, now time.Time) {
	l := p.Lane
	m.reading--
	l.reading = false
	if m.lanes[l.source] != l || l.tail != p.After || !l.placed {
		m.act(l, now)
		return
	}
	full := false
	for i := range list {
		if full = len(l.items) > 0 && l.bytes >= m.InMemoryBytes; full {
			l.missedAt = list[i].At
			break
		}
		l.add(&list[i])
	}
	if short && !full {
		l.behind = false
		l.tail = max(l.tail, p.Head)
		l.head = max(l.head, l.tail)
		l.settle()
	} else if !full && len(list) > 0 {
		l.missedAt = list[len(list)-1].At
	}
	m.look(l)
	m.act(l, now)
	if !l.row.State.sends() && !l.probing {
		l.forget()
	}
}

// ReadFailed means that events could not be read.
func (m *Machine) ReadFailed(p Page, now time.Time) {
	m.reading--
	p.Lane.reading = false
	m.act(p.Lane, now)
}

// Loading says whether webhooks are to be read.
func (m *Machine) Loading() bool { return !m.loads.empty() }

// Tick begins what is due.
func (m *Machine) Tick(now time.Time) {
	if m.halted {
		return // nobody fails for what was not sent
	}
	for t := m.timers.due(now); t != nil; t = m.timers.due(now) {
		if t.host != nil {
			m.tryHost(t.host, now)
			continue
		}
		switch l := t.lane; {
		case l.row.State != Backoff:
		case l.parked:
			m.disable(l, ReasonFailing, now)
			l.parked = false
			m.look(l)
		default:
			l.probing = true
			m.act(l, now)
		}
	}
	if now.Sub(m.pruned) > time.Minute {
		m.pruned = now
		for key, h := range m.hosts {
			if h.quiet(now.Add(-10 * time.Minute)) {
				delete(m.hosts, key)
			}
		}
	}
}

// NextDue is when Tick has something to do. Sooner says that this has become earlier since.
func (m *Machine) NextDue() (at time.Time, ok bool) {
	if m.halted {
		m.awaited = time.Time{}
		return m.awaited, false
	}
	m.awaited, ok = m.timers.next()
	return m.awaited, ok
}

// Sooner says whether Tick has something to do before the time that NextDue gave last.
func (m *Machine) Sooner() bool {
	if m.halted {
		return false
	}
	at, ok := m.timers.next()
	return ok && (m.awaited.IsZero() || at.Before(m.awaited))
}
