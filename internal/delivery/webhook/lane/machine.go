package lane

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane/phase"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// bucket is a partition of the event sources whose lease this node holds.
type bucket struct {
	number int
	epoch  int64
	// held means that the node holds the lease, loaded that the stored state is in memory. A stopping bucket starts no
	// more deliveries.
	held, loaded, stopping bool
	// checkpoint is the one in the database; lastAt is the time of the newest committed event.
	checkpoint, lastAt time.Time
	inFlight           int
	lanes              map[string]*Lane
	// holder belongs to the caller, see Job.
	holder any
	// feed is set if the lanes are those of an endpoint, see feed.go.
	feed *feed
}

func (b *bucket) isRunning() bool {
	return b.held && b.loaded && !b.stopping && (b.feed == nil || b.feed.row.State == Live)
}

// Machine holds all lanes of a node. It is not safe for concurrent use.
//
// Callers feed it with BucketLoaded, Committed, HookLoaded, Read, Done and Tick, and carry out what NextHookLoads,
// NextRead, Next and Flush return.
type Machine struct {
	Config
	// chance returns a random number in [0,1).
	chance  func() float64
	buckets map[int]*bucket
	lanes   map[string]*Lane
	hosts   map[hostKey]*host
	gate    gate
	timers  timers
	// readQueue holds the reads of events that lanes have requested, loadQueue those of webhooks.
	readQueue    fifo[*Page]
	readsRunning int
	loadQueue    fifo[HookLoad]
	// changed holds the lanes that the next flush must look at: they have pending events, or their row differs.
	changed        map[*Lane]struct{}
	sideDeliveries []SideDelivery
	notices        []Notice
	// newest and oldest are the ends of the list of lanes, ordered by last use.
	newest, oldest *Lane
	// lastPruned is when idle hosts were last dropped, lastDue what NextDue returned last.
	lastPruned time.Time
	lastDue    time.Time
	// halted means that nothing is sent; events wait in the store.
	halted bool
	// feeds counts the endpoints that were ever held, so that each has a number of its own.
	feeds int
	// suspended are the organisations for which nothing is sent.
	suspended map[id.Org]struct{}
}

// New returns a machine without buckets. chance returns random numbers in [0,1).
func New(c Config, chance func() float64) *Machine {
	return &Machine{
		Config: c, chance: chance, buckets: map[int]*bucket{}, lanes: map[string]*Lane{}, hosts: map[hostKey]*host{},
		gate: gate{permits: c.Permits, byOrg: map[id.Org]*tenant{}}, changed: map[*Lane]struct{}{},
	}
}

// HoldBucket adds a bucket under a lease. Its lanes send nothing until BucketLoaded. holder is passed on in its jobs.
func (m *Machine) HoldBucket(number int, epoch int64, holder any) {
	b := m.ensureBucket(number)
	b.holder = holder
	b.epoch, b.held, b.loaded, b.stopping = epoch, true, false, false
}

func (m *Machine) ensureBucket(number int) *bucket {
	b := m.buckets[number]
	if b == nil {
		b = &bucket{number: number, lanes: map[string]*Lane{}}
		m.buckets[number] = b
	}
	return b
}

// Backlog is a source that may have events to deliver and has no stored cursor. Its events up to Cursor are done.
type Backlog struct {
	Org          id.Org
	Source       string
	Cursor, Head int64
}

// BucketLoaded sets the stored state of a bucket and starts its lanes. Sources in neither list are done up to
// checkpoint and have no later events.
func (m *Machine) BucketLoaded(number int, checkpoint time.Time, rows []Row, backlogs []Backlog, now time.Time) {
	b := m.ensureBucket(number)
	b.checkpoint = checkpoint
	b.loaded = true
	for i := range rows {
		m.restoreLane(b, &rows[i])
	}
	for _, one := range backlogs {
		l := m.ensureLane(one.Org, one.Source, b)
		if l.stored != rowAbsent && l.row.Cursor >= 0 {
			continue
		}
		l.markRowStale() // the row must get its cursor before the checkpoint moves on
		head := max(l.head, one.Head)
		l.setCursor(one.Cursor)
		l.head, l.missedAt = head, checkpoint
	}
	for _, name := range slices.Sorted(maps.Keys(b.lanes)) { // in a fixed order, so that tests can be repeated
		l := b.lanes[name]
		if !l.hasCursor() && l.head > 0 { // nothing contradicts what addCommitted assumed
			l.cursor = l.tail
			l.markRowStale()
		}
		m.goLiveIfNothingPending(l)
		m.markChanged(l)
		m.advance(l, now)
	}
}

func (m *Machine) restoreLane(b *bucket, row *Row) {
	l := m.ensureLane(row.Org, row.Source, b)
	head := l.head
	l.setRow(*row)
	m.restorePhase(l)
	l.stored = rowSaved
	if row.Cursor >= 0 {
		l.setCursor(row.Cursor)
	}
	l.head = max(l.head, head)
	l.headStale, l.missedAt = true, b.checkpoint
	if m.isSuspended(l.org) {
		m.fire(l, phase.OrgSuspended, occasion{})
	}
}

// restorePhase puts a lane into the phase of its stored row.
func (m *Machine) restorePhase(l *Lane) {
	m.setPhase(l, restoredPhase(l.row.State))
	if l.phase == phase.Waiting {
		m.timers.set(&l.timer, l.row.NextAt)
	}
	if !l.phase.Tries() {
		l.unload()
	}
}

// ensureLane returns the lane of a source and adds it if there is none.
func (m *Machine) ensureLane(org id.Org, source string, b *bucket) *Lane {
	key := b.laneKey(source)
	l := m.lanes[key]
	if l == nil {
		l = &Lane{org: org, source: source, key: key, bucket: b, phase: phase.Live, cursor: Unknown}
		if b.feed != nil {
			l.hook, l.hookState, l.row.Gen = b.feed.hook, hookReady, b.feed.hook.Gen
		}
		l.timer.lane = l
		m.lanes[key], b.lanes[key] = l, l
		m.touch(l)
		m.evictIdle()
	}
	return l
}

// touch makes a lane the most recently used.
func (m *Machine) touch(l *Lane) {
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

// evictIdle removes the least recently used lanes while there are too many. It looks at a few lanes only, to bound the
// cost of adding one.
func (m *Machine) evictIdle() {
	for range 4 {
		l := m.oldest
		if len(m.lanes) <= m.Lanes || l == nil {
			return
		}
		if l.isIdle() && l.bucket.loaded && l.bucket.feed.allowsEviction(l) {
			m.removeLane(l)
		} else {
			m.touch(l)
		}
	}
}

func (m *Machine) removeLane(l *Lane) {
	m.unlink(l)
	m.timers.stop(&l.timer)
	l.leaveHost()
	delete(m.lanes, l.key)
	delete(l.bucket.lanes, l.key)
	delete(m.changed, l)
}

// Committed reports events that were stored, in order within each source. Lanes keep the events that fit in memory and
// read the others later.
func (m *Machine) Committed(list []event.Stored, now time.Time) {
	for i := range list {
		m.addCommitted(&list[i], now)
	}
}

func (m *Machine) addCommitted(e *event.Stored, now time.Time) {
	l := m.lanes[e.Source]
	if l == nil {
		b := m.ensureBucket(event.Bucket(e.Source))
		b.recordCommit(e.At)
		if !strings.HasPrefix(e.Source, accountPrefix) {
			return // only accounts have webhooks
		}
		l = m.ensureLane(e.Org, e.Source, b)
	} else {
		l.bucket.recordCommit(e.At)
		m.touch(l)
	}
	if l.head == 0 && !l.hasCursor() {
		// The lane is new, so everything before this event is done. Until the bucket is loaded, that is a guess.
		l.tail, l.head = e.Seq-1, e.Seq-1
		if l.bucket.loaded {
			l.cursor = l.tail
		}
		l.markRowStale()
	}
	if e.Seq <= l.head {
		return
	}
	if l.hookState == hookNone {
		l.head = e.Seq
		l.skipToHead()
		return
	}
	missed := l.head > l.tail || l.headStale
	l.head = e.Seq
	if !missed && !m.IsHeld(l.org) && l.hasCursor() && e.Seq == l.tail+1 && l.phase.Sends() &&
		len(l.items) < m.InMemory && l.bytes < m.InMemoryBytes {
		l.appendEvent(e, e.At)
	} else if !missed {
		l.missedAt = e.At
	}
	if l.hasPending() {
		m.markChanged(l)
		m.advance(l, now)
	}
}

const accountPrefix = "acct_"

func (b *bucket) recordCommit(at time.Time) {
	if at.After(b.lastAt) {
		b.lastAt = at
	}
}

// markChanged makes the next flush look at a lane.
func (m *Machine) markChanged(l *Lane) { m.changed[l] = struct{}{} }

// advance starts what a lane needs next: loading its webhook, reading events, or queueing a delivery at the gate. It is
// called after every change of a lane.
func (m *Machine) advance(l *Lane, now time.Time) {
	switch {
	case !l.phase.Tries() || !l.bucket.isRunning() || !l.hasCursor() || l.strays > 0:
		return
	case l.hookState == hookUnknown:
		m.requestHook(l) // even while the organisation is held: the lane's row needs it
		return
	case m.IsHeld(l.org) || l.hookState != hookReady:
		return
	}
	one := l.nextEvent()
	more := l.head > l.tail || l.headStale
	if more && l.page == nil && len(l.items) < m.InMemory/4 {
		l.page = &Page{Lane: l}
		m.readQueue.push(l.page)
	}
	if one == nil {
		if !more && l.inFlight == 0 {
			m.fire(l, phase.CaughtUp, occasion{now: now})
		}
		return
	}
	if l.queuedAt != nil || l.inFlight >= l.maxInFlight() {
		return
	}
	h := m.laneHost(l)
	if !h.admits(l) && !m.claimHostTry(l, h, now) {
		m.fire(l, phase.HostWentDown, occasion{now: now})
		return
	}
	l.queuedAt = h
	c := healthy
	if !l.isHealthy() {
		c = troubled
	}
	m.gate.enqueue(h, waiter{lane: l}, c)
}

func (l *Lane) maxInFlight() int {
	if l.phase.Probes() {
		return 1
	}
	return max(l.hook.MaxInFlight, 1)
}

func (m *Machine) laneHost(l *Lane) *host { return m.ensureHost(l.org, l.hook.Host) }

func (m *Machine) ensureHost(org id.Org, name string) *host {
	key := hostKey{org, name}
	h := m.hosts[key]
	if h == nil {
		o := m.gate.byOrg[org]
		if o == nil {
			o = &tenant{}
			m.gate.byOrg[org] = o
		}
		h = &host{key: key, tenant: o, limit: float64(m.HostStart)}
		h.timer.host = h
		m.hosts[key] = h
	}
	return h
}

// goLiveIfNothingPending makes a lane live whose row has no cursor. If loading the bucket did not set one either,
// everything up to the checkpoint is done and nothing was stored since.
func (m *Machine) goLiveIfNothingPending(l *Lane) {
	if !l.hasCursor() && l.bucket.loaded && l.phase.Sends() {
		m.fire(l, phase.CaughtUp, occasion{})
		l.headStale = false
	}
}

// Page is a read of a lane's events after After. Head was its last known event when the read started.
type Page struct {
	Lane        *Lane
	Hook        *Hook
	After, Head int64
	// Holder is the value that HoldBucket or HoldFeed was called with.
	Holder any
}

// NextRead returns a page to read; nil if there is none or enough reads are running. The caller must call Read or
// ReadFailed for it.
func (m *Machine) NextRead() *Page {
	for m.readsRunning < m.Reads && !m.readQueue.empty() {
		p := m.readQueue.pop()
		l := p.Lane
		if m.lanes[l.key] != l || !l.bucket.isRunning() || l.hook == nil {
			l.page = nil
			continue
		}
		m.readsRunning++
		p.Hook, p.After, p.Head, p.Holder = l.hook, l.tail, l.head, l.bucket.holder
		return p
	}
	return nil
}

// Read delivers the events of a page. short means that the store had no more.
func (m *Machine) Read(p *Page, list []event.Stored, short bool, now time.Time) {
	l := p.Lane
	m.readsRunning--
	l.page = nil
	if m.lanes[l.key] != l || l.tail != p.After || !l.hasCursor() || l.hookState == hookNone {
		m.advance(l, now)
		return
	}
	full := false
	for i := range list {
		if full = len(l.items) > 0 && l.bytes >= m.InMemoryBytes; full {
			l.missedAt = l.pendingSince(&list[i], now)
			break
		}
		l.appendEvent(&list[i], l.pendingSince(&list[i], now))
	}
	if short && !full {
		l.headStale = false
		l.tail = max(l.tail, p.Head)
		l.head = max(l.head, l.tail)
		l.advanceCursor()
	} else if !full && len(list) > 0 {
		l.missedAt = l.pendingSince(&list[len(list)-1], now)
	}
	m.markChanged(l)
	m.advance(l, now)
	if !l.phase.Tries() {
		l.unload()
	}
}

// ReadFailed reports that a page could not be read. The lane requests it again.
func (m *Machine) ReadFailed(p *Page, now time.Time) {
	m.readsRunning--
	p.Lane.page = nil
	m.advance(p.Lane, now)
}

// HasHookLoads reports whether NextHookLoads would return a lane.
func (m *Machine) HasHookLoads() bool { return !m.loadQueue.empty() }

// Tick handles the timers that are due: it retries lanes, probes hosts and disables lanes that failed for too long. It
// does nothing while the machine is halted.
func (m *Machine) Tick(now time.Time) {
	if m.halted {
		return // an endpoint must not be disabled while nothing is sent to it
	}
	for t := m.timers.due(now); t != nil; t = m.timers.due(now) {
		switch {
		case t.host != nil:
			m.probeHost(t.host, now)
			continue
		case t.feed != nil:
			t.feed.feed.probeDue = true
			t.feed.feed.wake()
			continue
		}
		m.fire(t.lane, phase.RetryDue, occasion{now: now})
		m.advance(t.lane, now)
	}
	if now.Sub(m.lastPruned) > time.Minute {
		m.lastPruned = now
		for key, h := range m.hosts {
			if h.isIdle(now.Add(-10 * time.Minute)) {
				delete(m.hosts, key)
			}
		}
	}
}

// NextDue returns when Tick is next needed; ok is false if no timer is set. Sooner reports when that becomes earlier.
func (m *Machine) NextDue() (at time.Time, ok bool) {
	if m.halted {
		m.lastDue = time.Time{}
		return m.lastDue, false
	}
	m.lastDue, ok = m.timers.next()
	return m.lastDue, ok
}

// Sooner reports whether Tick is needed before the time that NextDue returned last.
func (m *Machine) Sooner() bool {
	if m.halted {
		return false
	}
	at, ok := m.timers.next()
	return ok && (m.lastDue.IsZero() || at.Before(m.lastDue))
}
