package stream

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/tracing"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

const (
	// Limits of a feed's ring: enough for a reader that was busy for a moment.
	maxRing      = 64
	maxRingBytes = 256 << 10
	ringTTL      = 5 * time.Second
	// pageRows is the number of events in one read of the store.
	pageRows = 100
	// maxFillPages is the number of full pages after which a feed jumps to the end and leaves the rest to its readers.
	maxFillPages = 20
	// A subscription takes a moment to reach every NATS server. Feeds check for events missed in that time after these
	// waits.
	firstCheck, secondCheck = 100 * time.Millisecond, time.Second
	// A live message can arrive before older transactions have ended, which hide its event from the org's stream. Until
	// then the feed reads the store in these intervals.
	retryMin, retryMax = 2 * time.Millisecond, 200 * time.Millisecond
	// fillWindow bounds how far back a feed reads, so that it touches only the newest partitions.
	fillWindow = 24 * time.Hour
)

// entry is an event in a feed's ring.
type entry struct {
	event.Stored
	at offset // zero for an ephemeral event
	// cursor is the offset as readers see it.
	cursor string
	// since is when the entry was added.
	since time.Time
}

// feed holds the newest events of one topic for all readers on this node.
type feed struct {
	hub  *Streams
	at   topic
	stop context.CancelFunc
	// opened is closed when the feed is open or has failed; err is set before.
	opened chan struct{}
	err    error

	// The hub's lock guards these.
	users  int
	leftAt time.Time

	mu sync.Mutex
	// All stored events after base and up to reached are in the ring. Its first element has the number first; numbers
	// count all elements that the ring ever had.
	base, reached offset
	// newest is the newest generation of the database that was seen.
	newest int64
	ring   []entry
	first  uint64
	bytes  int
	// changed is closed and replaced when the ring has something new.
	changed chan struct{}
	// filling means that a goroutine reads the store, refill that it must read once more. wanted is a transaction that
	// must be reached (orgs only).
	filling, refill bool
	wanted          int64
	checkedAt       time.Time
}

func newFeed(h *Streams, at topic) *feed {
	now := h.deps.Now()
	return &feed{hub: h, at: at, stop: func() {}, leftAt: now, opened: make(chan struct{}), changed: make(chan struct{}), filling: true, checkedAt: now}
}

// open subscribes first and then reads the head of the topic, so that no event falls in between.
func (f *feed) open(ctx context.Context) {
	go f.listen(ctx)
	head, err := f.head(ctx)
	if err != nil {
		f.err = err
		f.hub.removeFeed(f)
		f.stop()
		close(f.opened)
		return
	}
	f.mu.Lock()
	f.base, f.reached = head, head
	f.mu.Unlock()
	close(f.opened)
	f.fill(ctx) // newFeed has set filling, so no message was added before
	for _, wait := range [...]time.Duration{firstCheck, secondCheck} {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
			f.check(ctx)
		}
	}
}

func (f *feed) listen(ctx context.Context) {
	pattern := event.LiveSubject(f.at.org, f.at.source)
	if f.isOrg() {
		pattern = event.LivePattern(f.at.org)
	}
	err := f.hub.deps.Wire.SubscribeTraced(ctx, pattern, func(payload []byte, parents []string) { f.onMessage(ctx, payload, parents) })
	if err != nil && ctx.Err() == nil {
		f.hub.deps.Log.WarnContext(ctx, "cannot subscribe feed to events", slog.Any(logkey.Error, err)) // it still polls
	}
}

// isOrg reports whether the feed is that of a whole org.
func (f *feed) isOrg() bool { return f.at.source == "" }

// head returns the offset of the newest event in the store.
func (f *feed) head(ctx context.Context) (offset, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if f.isOrg() {
		p, err := f.hub.deps.Store.OrgHead(ctx, f.at.org)
		return offset(p), err
	}
	p, err := f.hub.deps.Store.SourceHead(ctx, f.at.org, f.at.source)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.newest = max(f.newest, p.Generation())
	return offset(p), err
}

// readStore reads a page of the store after an offset.
func (f *feed) readStore(ctx context.Context, after offset, since time.Time, rows int) ([]entry, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var (
		found []event.Stored
		err   error
	)
	f.hub.metrics.reads.Inc()
	if f.isOrg() {
		found, _, err = f.hub.deps.Store.OrgAfter(ctx, f.at.org, event.Position(after), since, rows)
	} else {
		f.mu.Lock()
		newest := f.newest
		f.mu.Unlock()
		found, err = f.hub.deps.Store.SourceAfter(ctx, f.at.org, f.at.source, event.SourcePage{
			After: event.Position(after), Newest: newest, Since: since, Limit: rows,
		})
	}
	if err != nil {
		return nil, err
	}
	list := make([]entry, len(found))
	for i := range found {
		at := f.offsetOf(&found[i])
		list[i] = entry{Stored: found[i], at: at, cursor: f.cursor(at)}
	}
	return list, nil
}

func (f *feed) offsetOf(s *event.Stored) offset {
	if f.isOrg() {
		return offset(s.Position())
	}
	return offset(s.SourcePosition())
}

func (f *feed) cursor(at offset) string {
	return f.hub.deps.Store.Cursor(event.Position(at), f.isOrg())
}

// onMessage handles a live message: it adds the events that come next, and reads the store if some are missing. parents
// are the contexts of their traces; nil if none is traced.
func (f *feed) onMessage(ctx context.Context, payload []byte, parents []string) {
	now := f.hub.deps.Now()
	f.mu.Lock()
	added, missing := false, false
	for s, err := range event.ReadLive(payload) {
		if err != nil || s.Org != f.at.org || (!f.isOrg() && s.Source != f.at.source) {
			missing = true // unreadable or of another topic: read the store instead
			break
		}
		if len(parents) > 0 {
			s.Trace, parents = tracing.Parse(ctx, parents[0]), parents[1:]
		}
		ok, gap := f.addLive(s, now)
		added, missing = added || ok, missing || gap
	}
	f.trimAndNotify(added)
	fill := missing && f.claimFill()
	f.mu.Unlock()
	if fill {
		go f.fill(ctx)
	}
}

// addLive adds an event to the ring if it is the next one; otherwise missing reports whether the store must be read.
// Events of an org always come from the store, because messages arrive in another order.
func (f *feed) addLive(s event.Stored, now time.Time) (added, missing bool) {
	e := entry{Stored: s, since: now}
	switch {
	case s.Seq == 0:
	case f.isOrg():
		f.wanted = max(f.wanted, s.Tx)
		return false, f.reached.before(f.offsetOf(&s))
	case f.filling:
		f.refill = true // the head is known only after the fill
		return false, false
	default:
		e.at = f.offsetOf(&s)
		f.newest = max(f.newest, e.at.generation())
		if !f.reached.next(e.at) {
			return false, f.reached.before(e.at)
		}
		e.cursor = f.cursor(e.at)
	}
	e.Body = append(make([]byte, 0, len(s.Body)), s.Body...) // a copy, so that the whole message can be freed
	f.add(e)
	return true, false
}

// add appends an event to the ring.
func (f *feed) add(e entry) {
	if e.Kind == contract.KindAccountDisconnected {
		f.trim(len(f.ring)) // the data of the account's events is being purged; readers must use the store
	}
	f.ring = append(f.ring, e)
	f.bytes += len(e.Body)
	if e.Seq != 0 {
		f.reached = e.at
	}
}

// trimAndNotify trims the ring to its limits, and wakes readers if there is something new.
func (f *feed) trimAndNotify(added bool) {
	n := 0
	for size := f.bytes; len(f.ring)-n > maxRing || (size > maxRingBytes && len(f.ring)-n > 1); n++ {
		size -= len(f.ring[n].Body)
	}
	f.trim(n)
	if added {
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// trim drops the n oldest events. Readers that have not seen them read the store.
func (f *feed) trim(n int) {
	for i := range n {
		f.bytes -= len(f.ring[i].Body)
		f.base = later(f.base, f.ring[i].at)
	}
	if n > 0 {
		f.first += uint64(n)
		rest := f.ring[n:]
		if clear(f.ring[:n]); len(rest) == 0 {
			rest = nil
		}
		f.ring = rest
	}
}

// claimFill reports whether the caller may fill. If another goroutine is filling, that one reads once more.
func (f *feed) claimFill() bool {
	if f.filling {
		f.refill = true
		return false
	}
	f.filling = true
	return true
}

// fill reads from the store what the feed does not have, until there is nothing more. The caller must have claimed it.
func (f *feed) fill(ctx context.Context) {
	wait := retryMin
	for pages := 0; ; pages++ {
		rows, err := f.fillPage(ctx, pages)
		f.mu.Lock()
		if err != nil {
			f.filling = false // the next check tries again
			f.mu.Unlock()
			if ctx.Err() == nil {
				f.hub.metrics.faults.Inc()
			}
			return
		}
		early := f.isOrg() && f.reached.Tx < f.wanted
		if rows < pageRows && !f.refill && !early {
			f.filling = false
			f.mu.Unlock()
			return
		}
		f.refill = false
		f.mu.Unlock()
		if rows > 0 {
			wait = retryMin
		}
		if rows < pageRows && early {
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
			if wait == retryMax {
				f.dropLost(ctx)
			}
			wait = min(2*wait, retryMax)
		}
	}
}

// dropLost stops waiting for a transaction that everything up to which can be read: a failover of the database has
// lost it.
func (f *feed) dropLost(ctx context.Context) {
	head, err := f.head(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil && f.wanted < head.Tx {
		f.wanted = 0
	}
}

// fillPage reads one page into the ring and returns its size. A feed that is far behind jumps to the end; its readers
// read the rest at their own pace.
func (f *feed) fillPage(ctx context.Context, pages int) (rows int, err error) {
	if pages == maxFillPages {
		head, err := f.head(ctx)
		if err != nil {
			return 0, err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.trim(len(f.ring))
		f.base, f.reached = later(f.base, head), later(f.reached, head)
		f.trimAndNotify(true)
		return pageRows, nil
	}
	f.mu.Lock()
	after := f.reached
	f.refill = false
	f.checkedAt = f.hub.deps.Now()
	f.mu.Unlock()
	list, err := f.readStore(ctx, after, f.hub.deps.Now().Add(-fillWindow), pageRows)
	if err != nil {
		return 0, err
	}
	now := f.hub.deps.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range list {
		e.since = now
		f.add(e)
	}
	f.trimAndNotify(len(list) > 0)
	return len(list), nil
}

// check compares the feed with the store and fills it if something is missing.
func (f *feed) check(ctx context.Context) {
	if !f.isOrg() {
		head, err := f.head(ctx)
		f.mu.Lock()
		f.checkedAt = f.hub.deps.Now()
		fine := err != nil || !f.reached.before(head)
		f.mu.Unlock()
		if fine {
			return
		}
	}
	f.mu.Lock()
	fill := f.claimFill()
	f.mu.Unlock()
	if fill {
		f.fill(ctx)
	}
}

// feedState is the result of maintain.
type feedState int

const (
	feedFine feedState = iota
	feedDue
	feedIdle
)

// maintain drops old entries and returns what to do with the feed. The caller holds the hub's lock.
func (f *feed) maintain(now time.Time, every, linger time.Duration, all bool) feedState {
	select {
	case <-f.opened:
	default:
		return feedFine
	}
	if f.users == 0 && now.Sub(f.leftAt) >= linger {
		return feedIdle
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for n < len(f.ring) && now.Sub(f.ring[n].since) > ringTTL {
		n++
	}
	f.trim(n)
	if all || now.Sub(f.checkedAt) >= every {
		f.checkedAt = now
		return feedDue
	}
	return feedFine
}
