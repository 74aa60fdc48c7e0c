package stream

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/events/event"
)

const (
	// What a feed holds for its readers: enough for one that was busy for a moment.
	maxHeld      = 64
	maxHeldBytes = 256 << 10
	heldFor      = 5 * time.Second
	// pageRows is how much is read from the store at a time.
	pageRows = 100
	// fullPages is after how many full pages a feed leaves the rest to its readers.
	fullPages = 20
	// A subscription takes a moment to be known to every server of the bus. What was missed in it is looked for after these times.
	firstCheck, secondCheck = 100 * time.Millisecond, time.Second
	// An event can be told before older transactions have ended, which it must wait for. Meanwhile it is asked for this often.
	askAgainMin, askAgainMax = 2 * time.Millisecond, 200 * time.Millisecond
	// recent is how far back a feed reads, which keeps it to the newest partitions of the store.
	recent = 24 * time.Hour
)

// held is an event that a feed has ready.
type held struct {
	event.Stored
	at place // zero for an ephemeral event
	// cursor is the place as readers see it, since when the feed has the event.
	cursor string
	since  time.Time
}

// feed is what a node knows of the newest events of one topic.
type feed struct {
	hub  *Streams
	at   topic
	stop context.CancelFunc
	// opened is closed when the feed hears, or has a fault.
	opened chan struct{}
	fault  error

	// The hub's lock guards who uses the feed.
	users  int
	leftAt time.Time

	mu sync.Mutex
	// Everything behind base and up to reached is in the ring. Its first element has the number first.
	base, reached place
	ring          []held
	first         uint64
	bytes         int
	// changed is closed when there is something new.
	changed chan struct{}
	// filling means that the store is being read; again that it must be read once more. wanted is a transaction that must be reached.
	filling, again bool
	wanted         int64
	checkedAt      time.Time
}

func newFeed(h *Streams, at topic) *feed {
	now := h.Now()
	return &feed{hub: h, at: at, stop: func() {}, leftAt: now, opened: make(chan struct{}), changed: make(chan struct{}), filling: true, checkedAt: now}
}

// open listens, and then finds out where the topic stands: what is stored in between is heard of.
func (f *feed) open(ctx context.Context) {
	go f.listen(ctx)
	head, err := f.head(ctx)
	if err != nil {
		f.fault = err
		f.hub.drop(f)
		f.stop()
		close(f.opened)
		return
	}
	f.mu.Lock()
	f.base, f.reached = head, head
	f.mu.Unlock()
	close(f.opened)
	f.fill(ctx) // filling is set: nothing was taken from messages yet
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
	if f.whole() {
		pattern = event.LivePattern(f.at.org)
	}
	err := f.hub.Wire.Listen(ctx, pattern, func(_ string, payload []byte) { f.hear(ctx, payload) })
	if err != nil && ctx.Err() == nil {
		f.hub.Log.WarnContext(ctx, "a feed does not hear of events", slog.Any("error", err)) // it still looks
	}
}

// whole says whether the feed is that of an org.
func (f *feed) whole() bool { return f.at.source == "" }

func (f *feed) head(ctx context.Context) (place, error) {
	ctx, cancel := context.WithTimeout(ctx, readAtMost)
	defer cancel()
	if f.whole() {
		p, err := f.hub.Store.OrgHead(ctx, f.at.org)
		return place(p), err
	}
	head, err := f.hub.Store.Head(ctx, f.at.org, f.at.source)
	return numbered(head.LastSeq), err
}

// read reads a page of the store behind a place.
func (f *feed) read(ctx context.Context, behind place, since time.Time, rows int) ([]held, error) {
	ctx, cancel := context.WithTimeout(ctx, readAtMost)
	defer cancel()
	var (
		found []event.Stored
		err   error
	)
	f.hub.metrics.reads.Inc()
	if f.whole() {
		found, _, err = f.hub.Store.OrgAfter(ctx, f.at.org, event.Position(behind), since, rows)
	} else {
		found, err = f.hub.Store.After(ctx, f.at.org, f.at.source, behind.Tx, since, rows)
	}
	if err != nil {
		return nil, err
	}
	list := make([]held, len(found))
	for i := range found {
		at := f.placeOf(&found[i])
		list[i] = held{Stored: found[i], at: at, cursor: f.cursor(at)}
	}
	return list, nil
}

func (f *feed) placeOf(s *event.Stored) place {
	if f.whole() {
		return place(s.Position())
	}
	return numbered(s.Seq)
}

func (f *feed) cursor(at place) string {
	if f.whole() {
		return event.Position(at).String()
	}
	return event.FormatCursor(at.Tx)
}

// hear takes a live message.
func (f *feed) hear(ctx context.Context, payload []byte) {
	now := f.hub.Now()
	f.mu.Lock()
	news, missing := false, false
	for s, err := range event.ReadLive(payload) {
		if err != nil || s.Org != f.at.org || (!f.whole() && s.Source != f.at.source) {
			missing = true // whatever it was, the store knows
			break
		}
		took, behind := f.take(s, now)
		news, missing = news || took, missing || behind
	}
	f.settle(news)
	fill := missing && f.claim()
	f.mu.Unlock()
	if fill {
		go f.fill(ctx)
	}
}

// take adds an event to the ring if it is the next one; otherwise missing says whether the store must be asked.
func (f *feed) take(s event.Stored, now time.Time) (took, missing bool) {
	e := held{Stored: s, since: now}
	switch {
	case s.Seq == 0:
	case f.whole(): // told in the order of sources, wanted in that of the store
		f.wanted = max(f.wanted, s.Tx)
		return false, f.reached.before(f.placeOf(&s))
	case f.filling:
		f.again = true // where the feed stands is known when the store was read
		return false, false
	case s.Seq <= f.reached.Tx:
		return false, false
	case s.Seq != f.reached.Tx+1:
		return false, true
	default:
		e.at = numbered(s.Seq)
		e.cursor = f.cursor(e.at)
	}
	e.Body = append(make([]byte, 0, len(s.Body)), s.Body...) // the message is not kept for it
	f.add(e)
	return true, false
}

// add puts an event into the ring.
func (f *feed) add(e held) {
	if e.Kind == event.KindDisconnected {
		f.trim(len(f.ring)) // what the account's events said is deleted; the store knows what is left
	}
	f.ring = append(f.ring, e)
	f.bytes += len(e.Body)
	if e.Seq != 0 {
		f.reached = e.at
	}
}

// settle trims the ring, and tells readers if there is something new.
func (f *feed) settle(news bool) {
	n := 0
	for size := f.bytes; len(f.ring)-n > maxHeld || (size > maxHeldBytes && len(f.ring)-n > 1); n++ {
		size -= len(f.ring[n].Body)
	}
	f.trim(n)
	if news {
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// trim forgets the oldest events. Readers that have not seen them find them in the store.
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

// claim reserves the reading of the store for one goroutine; whoever is at it already reads once more.
func (f *feed) claim() bool {
	if f.filling {
		f.again = true
		return false
	}
	f.filling = true
	return true
}

// fill reads from the store what the feed does not have, until there is nothing more. It must have been claimed.
func (f *feed) fill(ctx context.Context) {
	wait := askAgainMin
	for pages := 0; ; pages++ {
		rows, err := f.next(ctx, pages)
		f.mu.Lock()
		if err != nil {
			f.filling = false // the next look tries again
			f.mu.Unlock()
			if ctx.Err() == nil {
				f.hub.metrics.faults.Inc()
			}
			return
		}
		early := f.whole() && f.reached.Tx < f.wanted
		if rows < pageRows && !f.again && !early {
			f.filling = false
			f.mu.Unlock()
			return
		}
		f.again = false
		f.mu.Unlock()
		if rows > 0 {
			wait = askAgainMin
		}
		if rows < pageRows && early {
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
			wait = min(2*wait, askAgainMax)
		}
	}
}

// next reads one page into the ring. A feed that is far behind jumps to the end: its readers read the rest, each at its pace.
func (f *feed) next(ctx context.Context, pages int) (rows int, err error) {
	if pages == fullPages {
		head, err := f.head(ctx)
		if err != nil {
			return 0, err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.trim(len(f.ring))
		f.base, f.reached = later(f.base, head), later(f.reached, head)
		f.settle(true)
		return pageRows, nil
	}
	f.mu.Lock()
	behind := f.reached
	f.again = false
	f.checkedAt = f.hub.Now()
	f.mu.Unlock()
	list, err := f.read(ctx, behind, f.hub.Now().Add(-recent), pageRows)
	if err != nil {
		return 0, err
	}
	now := f.hub.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range list {
		e.since = now
		f.add(e)
	}
	f.settle(len(list) > 0)
	return len(list), nil
}

// check looks whether something was missed.
func (f *feed) check(ctx context.Context) {
	if !f.whole() {
		head, err := f.head(ctx)
		f.mu.Lock()
		f.checkedAt = f.hub.Now()
		fine := err != nil || !f.reached.before(head)
		f.mu.Unlock()
		if fine {
			return
		}
	}
	f.mu.Lock()
	fill := f.claim()
	f.mu.Unlock()
	if fill {
		f.fill(ctx)
	}
}

// what a look at a feed finds.
type finding int

const (
	feedFine finding = iota
	feedDue
	feedIdle
)

// look trims a feed and says what is to be done with it. The hub is locked.
func (f *feed) look(now time.Time, every, linger time.Duration, all bool) finding {
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
	for n < len(f.ring) && now.Sub(f.ring[n].since) > heldFor {
		n++
	}
	f.trim(n)
	if all || now.Sub(f.checkedAt) >= every {
		f.checkedAt = now
		return feedDue
	}
	return feedFine
}
