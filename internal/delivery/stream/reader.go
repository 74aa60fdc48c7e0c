package stream

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Want selects what a reader reads.
type Want struct {
	Org id.Org
	// Account is empty for all events of the org, including those that concern no account.
	Account id.Account
	Filter  event.Filter
	// Among restricts a reader of an org to these accounts; nil for everything.
	Among []id.Account
	// Days is how many days back the org's plan allows reading.
	Days int
	// After is the cursor to start after; empty for events from now on.
	After string
}

// Start describes where a reader starts.
type Start struct {
	Cursor string
	// Resumed means that a cursor was given, Gap that events after it can no longer be read.
	Resumed, Gap bool
	// Oldest is the cursor of the oldest event of an account that can be read.
	Oldest string
}

// Event is an event as a reader returns it.
type Event struct {
	Kind string
	// Cursor is the cursor after the event; empty for an ephemeral event.
	Cursor string
	Body   []byte
	// Last means that no event follows, because the account was disconnected.
	Last bool
	// Trace is the context of its trace; nil if it is not traced, or was read from the store.
	Trace *trace.SpanContext
}

// Reader is a cursor over the events of an account or an org. It is not safe for concurrent use.
type Reader struct {
	feed *feed
	want Want
	// at is the offset up to which everything was read, next the number of the next element in the feed's ring.
	at   offset
	next uint64
	// live means that the reader has reached the end of the ring. Only live readers get ephemeral events.
	live bool
}

// Watch opens a reader; the caller must close it. An invalid cursor is a problem for the API caller.
func (h *Streams) Watch(ctx context.Context, w Want) (*Reader, Start, error) {
	f, err := h.watch(ctx, topic{w.Org, string(w.Account)})
	if err != nil {
		return nil, Start{}, err
	}
	r := &Reader{feed: f, want: w}
	start, err := r.findStart(ctx)
	if err != nil {
		r.Close()
		return nil, Start{}, err
	}
	return r, start, nil
}

// findStart determines the offset to read from.
func (r *Reader) findStart(ctx context.Context) (Start, error) {
	f := r.feed
	f.mu.Lock()
	if r.at = f.reached; r.want.After == "" {
		r.next, r.live = f.first+uint64(len(f.ring)), true
	}
	f.mu.Unlock()
	start := Start{Resumed: r.want.After != ""}
	var err error
	if !f.isOrg() {
		var oldest int64
		if oldest, err = f.hub.deps.Store.Oldest(ctx, r.want.Org, string(r.want.Account), r.since()); err != nil {
			return start, err
		}
		start.Oldest = event.FormatCursor(oldest)
	}
	if r.want.After != "" {
		if r.at, start.Gap, err = r.resume(ctx); err != nil {
			return start, err
		}
	}
	start.Cursor = r.Cursor()
	return start, nil
}

func (r *Reader) Close() { r.feed.hub.leave(r.feed) }

// Cursor returns the cursor up to which everything was read.
func (r *Reader) Cursor() string { return r.feed.cursor(r.at) }

func (r *Reader) since() time.Time { return org.ReadableSince(r.feed.hub.deps.Now(), r.want.Days) }

// Read appends up to most matching events to into. If there are none, it returns a channel that is closed when there
// may be more.
func (r *Reader) Read(ctx context.Context, into []Event, most int) ([]Event, <-chan struct{}, error) {
	for {
		list, more, base := r.fromRing(into, most)
		if more != nil || len(list) > len(into) {
			return list, more, nil
		}
		list, err := r.fromStore(ctx, into, most, base)
		if err != nil || len(list) > len(into) {
			return list, nil, err
		}
	}
}

// fromRing reads from the feed's ring. If it returns neither an event nor a channel, the reader is behind the ring,
// which starts after base, and must read the store.
func (r *Reader) fromRing(into []Event, most int) (list []Event, more <-chan struct{}, base offset) {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.at.before(f.base) {
		r.live = false
		return into, nil, f.base
	}
	list = into
	r.next = max(r.next, f.first)
	for ; r.next < f.first+uint64(len(f.ring)); r.next++ {
		if len(list)-len(into) == most {
			return list, nil, f.base
		}
		e := &f.ring[r.next-f.first]
		if e.Seq == 0 && !r.live || e.Seq != 0 && !r.at.before(e.at) {
			continue
		}
		if r.at = later(r.at, e.at); r.matches(e) {
			list = append(list, r.event(e))
		}
	}
	r.at, r.live = later(r.at, f.reached), true
	if len(list) > len(into) {
		return list, nil, f.base
	}
	return list, f.changed, f.base
}

// fromStore reads a page after the reader's offset. The store has all events up to base that are still kept.
func (r *Reader) fromStore(ctx context.Context, into []Event, most int, base offset) ([]Event, error) {
	f := r.feed
	found, err := f.readStore(ctx, r.at, r.since(), pageRows)
	if err != nil {
		return into, err
	}
	list := into
	for i := range found {
		if len(list)-len(into) == most {
			return list, nil
		}
		r.at = found[i].at
		if r.matches(&found[i]) {
			list = append(list, r.event(&found[i]))
		}
	}
	if len(found) < pageRows {
		r.at = later(r.at, base) // events missing up to there have expired
	}
	return list, nil
}

// matches reports whether an event is for this reader. The last event of an account always is, whatever the filter,
// because the stream ends with it.
func (r *Reader) matches(e *entry) bool {
	return r.wants(e) || r.isLast(e)
}

// wants reports whether the caller has asked for an event.
func (r *Reader) wants(e *entry) bool {
	if r.feed.isOrg() && r.want.Among != nil && !slices.Contains(r.want.Among, id.Account(e.Source)) {
		return false
	}
	return r.want.Filter.Match(e.Kind)
}

func (r *Reader) isLast(e *entry) bool {
	return !r.feed.isOrg() && e.Kind == contract.KindAccountDisconnected
}

func (r *Reader) event(e *entry) Event {
	out := Event{Kind: e.Kind, Cursor: e.cursor, Body: e.Body, Last: r.isLast(e), Trace: e.Trace}
	if out.Last && !r.want.Filter.Match(e.Kind) {
		out.Body = nil // it only ends the stream
	}
	return out
}
