package stream

import (
	"context"
	"slices"
	"time"
)

const (
	// scanPages bounds how much a pull looks through for a filter that matches little. The caller goes on behind what was seen.
	scanPages = 20
	// pageBytes is about how large a page may get.
	pageBytes = 1 << 20
)

// Page is what a pull gives.
type Page struct {
	Events []Event
	// Next is the place up to which everything was read.
	Next string
	// Gap means that events behind the cursor can no longer be read.
	Gap bool
}

// Pull reads up to a number of events behind a cursor, from the oldest on if there is none.
func (h *Streams) Pull(ctx context.Context, w Want, most int) (Page, error) {
	if w.After == "" {
		w.After = "0"
	}
	r := &Reader{feed: newFeed(h, topic{w.Org, string(w.Account)}), want: w} // a feed that nobody else has, and that holds nothing
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
		if page.Events, err = r.fromStore(ctx, page.Events, most-seen, place{}); err != nil {
			return Page{}, err
		}
		page.Events = slices.DeleteFunc(page.Events, func(e Event) bool { return e.Body == nil }) // it only ends streams
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

// Await waits until there may be events behind a cursor that are wanted, at most for a time, or until stop says so, which is asked every
// second.
func (h *Streams) Await(ctx context.Context, w Want, atMost time.Duration, stop func() bool) error {
	r, _, err := h.Watch(ctx, w)
	if err != nil {
		return err
	}
	defer r.Close()
	end, look := time.NewTimer(atMost), time.NewTicker(lookEvery)
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
			continue // an ephemeral one: nobody can pull it
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
