package stream

import (
	"context"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// Want is what a reader wants to read.
type Want struct {
	Org id.Org
	// Account is empty for all of the org's, and what concerns none of them.
	Account id.Account
	Filter  event.Filter
	// Among are the accounts that an org's reader may see; nil for everything.
	Among []id.Account
	// Days is how long the org's plan lets events be read.
	Days int
	// After is the cursor to read behind; empty for what comes from now on.
	After string
}

// Start is where a reader begins.
type Start struct {
	Cursor string
	// Resumed means that a cursor was given; Gap that events behind it can no longer be read.
	Resumed, Gap bool
	// Oldest is the oldest event of an account that can be read.
	Oldest string
}

// Event is one that was read.
type Event struct {
	Kind string
	// Cursor is the place behind it; empty for an ephemeral event.
	Cursor string
	Body   []byte
	// Last means that nothing follows: the account was disconnected.
	Last bool
}

// Reader is a cursor over the events of an account or an org. It is used by one goroutine.
type Reader struct {
	feed *feed
	want Want
	// at is the place up to which everything was read, next the number in the feed's ring of what comes next.
	at   place
	next uint64
	// live means that the reader has come to the end of the ring: ephemeral events are for those only.
	live bool
}

// Watch opens a reader. Errors are problems where the caller is at fault.
func (h *Streams) Watch(ctx context.Context, w Want) (*Reader, Start, error) {
	f, err := h.watch(ctx, topic{w.Org, string(w.Account)})
	if err != nil {
		return nil, Start{}, err
	}
	r := &Reader{feed: f, want: w}
	start, err := r.begin(ctx)
	if err != nil {
		r.Close()
		return nil, Start{}, err
	}
	return r, start, nil
}

// begin finds the place to read from.
func (r *Reader) begin(ctx context.Context) (Start, error) {
	f := r.feed
	f.mu.Lock()
	if r.at = f.reached; r.want.After == "" {
		r.next, r.live = f.first+uint64(len(f.ring)), true
	}
	f.mu.Unlock()
	start := Start{Resumed: r.want.After != ""}
	var err error
	if !f.whole() {
		var oldest int64
		if oldest, err = f.hub.Store.Oldest(ctx, r.want.Org, string(r.want.Account), r.since()); err != nil {
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

// Close ends the reader.
func (r *Reader) Close() { r.feed.hub.leave(r.feed) }

// Cursor is the place up to which everything was read.
func (r *Reader) Cursor() string { return r.feed.cursor(r.at) }

func (r *Reader) since() time.Time { return event.Since(r.feed.hub.Now(), r.want.Days) }

// Read adds the next events that are wanted, up to a number of them. If there are none, it returns what to wait for before reading again.
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

// fromRing takes what the feed has. Without an event and a channel the reader is behind the base of what the feed has.
func (r *Reader) fromRing(into []Event, most int) (list []Event, more <-chan struct{}, base place) {
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
		if r.at = later(r.at, e.at); r.wants(e) {
			list = append(list, r.event(e))
		}
	}
	r.at, r.live = later(r.at, f.reached), true
	if len(list) > len(into) {
		return list, nil, f.base
	}
	return list, f.changed, f.base
}

// fromStore reads a page behind the reader's place. Up to base everything was stored before.
func (r *Reader) fromStore(ctx context.Context, into []Event, most int, base place) ([]Event, error) {
	f := r.feed
	found, err := f.read(ctx, r.at, r.since(), pageRows)
	if err != nil {
		return into, err
	}
	list := into
	for i := range found {
		if len(list)-len(into) == most {
			return list, nil
		}
		r.at = found[i].at
		if r.wants(&found[i]) {
			list = append(list, r.event(&found[i]))
		}
	}
	if len(found) < pageRows {
		r.at = later(r.at, base) // what is missing up to there is no longer kept
	}
	return list, nil
}

// wants says whether an event is for this reader. The last event of an account is, whatever its filter: the stream ends with it.
func (r *Reader) wants(e *held) bool {
	if r.feed.whole() && r.want.Among != nil && !slices.Contains(r.want.Among, id.Account(e.Source)) {
		return false
	}
	return r.want.Filter.Match(e.Kind) || r.last(e)
}

func (r *Reader) last(e *held) bool { return !r.feed.whole() && e.Kind == event.KindDisconnected }

func (r *Reader) event(e *held) Event {
	out := Event{Kind: e.Kind, Cursor: e.cursor, Body: e.Body, Last: r.last(e)}
	if out.Last && !r.want.Filter.Match(e.Kind) {
		out.Body = nil // it only ends the stream
	}
	return out
}
