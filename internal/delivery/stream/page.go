package stream

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/events/event"
)

const (
	// scanPages bounds how many pages a pull scans for a filter that matches little. The caller continues after them.
	scanPages = 20
	// pageBytes is the approximate maximum size of a page, in bytes.
	pageBytes = 1 << 20
	// searchRows bounds how many events a search looks at, searchSkew how far events are out of the order of their times.
	searchRows, searchSkew = 10_000, time.Minute
)

// Search selects events for Streams.Search, in addition to what is wanted.
type Search struct {
	// From and To are the period in which the events were stored.
	From, To time.Time
	Text     event.Text
}

// Page is the result of Pull.
type Page struct {
	Events []Event
	// Next is the cursor up to which everything was read.
	Next string
	// Gap means that events after the cursor can no longer be read.
	Gap bool
	// Scanned is how many events of its period a search has looked at.
	Scanned int
}

// Pull reads up to most events after a cursor, or from the oldest if there is none. It always reads the store.
func (h *Streams) Pull(ctx context.Context, w Want, most int) (Page, error) {
	w.After = cmp.Or(w.After, "0")
	r := &Reader{feed: newFeed(h, topic{w.Org, string(w.Account)}), want: w} // a private, empty feed
	var (
		page Page
		err  error
	)
	if r.at, page.Gap, err = r.resume(ctx); err != nil {
		return Page{}, err
	}
	size := 0
	for range scanPages {
		from, seen := r.at, len(page.Events)
		if page.Events, err = r.fromStore(ctx, page.Events, most-seen, offset{}); err != nil {
			return Page{}, err
		}
		// An event without a body only ends streams.
		page.Events = slices.DeleteFunc(page.Events, func(e Event) bool { return e.Body == nil })
		for _, e := range page.Events[seen:] {
			size += len(e.Body)
		}
		if r.at == from || len(page.Events) >= most || size >= pageBytes {
			break
		}
	}
	page.Next = r.Cursor()
	return page, nil
}

// Search reads up to most events of a period after a cursor, or from its start if there is none. It looks at searchRows events;
// the caller continues after them. The period is over when nothing was scanned.
func (h *Streams) Search(ctx context.Context, w Want, s Search, most int) (Page, error) {
	w.After = cmp.Or(w.After, "0")
	r := &Reader{feed: newFeed(h, topic{w.Org, string(w.Account)}), want: w}
	var (
		page Page
		err  error
	)
	if r.at, page.Gap, err = r.resume(ctx); err != nil {
		return Page{}, err
	}
	since := r.since()
	if s.From.After(since) {
		since = s.From
	}
	for size, more := 0, true; more && page.Scanned < searchRows; {
		found, err := r.feed.readStore(ctx, r.at, since, pageRows)
		if err != nil {
			return Page{}, err
		}
		for i := range found {
			e := &found[i]
			if len(page.Events) >= most || size >= pageBytes || e.At.After(s.To.Add(searchSkew)) {
				more = false
				break
			}
			r.at = e.at
			if e.At.After(s.To) {
				continue
			}
			page.Scanned++
			if r.wants(e) && s.Text.In(e.Body) {
				page.Events, size = append(page.Events, Event{Kind: e.Kind, Cursor: e.cursor, Body: e.Body}), size+len(e.Body)
			}
		}
		more = more && len(found) == pageRows
	}
	page.Next = r.Cursor()
	return page, nil
}

// Await waits at most atMost until there are matching events after a cursor, or until stop returns true. It calls stop
// about every second.
func (h *Streams) Await(ctx context.Context, w Want, atMost time.Duration, stop func() bool) error {
	r, _, err := h.Watch(ctx, w)
	if err != nil {
		return err
	}
	defer r.Close()
	end, look := time.NewTimer(atMost), time.NewTicker(maintainEvery)
	defer end.Stop()
	defer look.Stop()
	for !stop() {
		list, more, err := r.Read(ctx, nil, 1)
		if err != nil {
			return err
		}
		if len(list) > 0 && list[0].Cursor != "" {
			return nil
		}
		if len(list) > 0 {
			continue // ephemeral events cannot be pulled
		}
		select {
		case <-more:
		case <-look.C:
		case <-end.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
