package stream

import (
	"context"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// badCursor is what a cursor is refused with that this service never gave out.
func badCursor() error {
	return problem.InvalidRequest.New("The cursor is not one that this stream gave out. Use the id of an event of the same stream, or 0 for the oldest.")
}

// Check says whether a text can be a cursor of an account's stream, or of an org's.
func Check(cursor string, ofOrg bool) error {
	var err error
	if ofOrg {
		_, err = event.ParsePosition(cursor)
	} else {
		_, err = event.ParseCursor(cursor)
	}
	if err != nil {
		return badCursor()
	}
	return nil
}

// resume is the place of the cursor that was given, or as near to it as can be read; gap says that there is something in between.
func (r *Reader) resume(ctx context.Context) (at place, gap bool, err error) {
	if err := Check(r.want.After, r.feed.whole()); err != nil {
		return place{}, false, err
	}
	if r.feed.whole() {
		return r.resumeOrg(ctx)
	}
	return r.resumeAccount(ctx)
}

func (r *Reader) resumeAccount(ctx context.Context) (at place, gap bool, err error) {
	seq, err := event.ParseCursor(r.want.After)
	if err != nil {
		return place{}, false, badCursor()
	}
	oldest, err := r.feed.hub.Store.Oldest(ctx, r.want.Org, string(r.want.Account), r.since())
	if err != nil {
		return place{}, false, err
	}
	if seq < oldest-1 {
		return numbered(oldest - 1), seq > 0, nil
	}
	return r.notAhead(ctx, numbered(seq))
}

func (r *Reader) resumeOrg(ctx context.Context) (at place, gap bool, err error) {
	p, err := event.ParsePosition(r.want.After)
	if err != nil {
		return place{}, false, badCursor()
	}
	if p.ID != "" && id.MadeAt(p.ID).Before(r.since()) {
		return place(p), true, nil
	}
	return r.notAhead(ctx, place(p))
}

// notAhead keeps a place from being one that is yet to come, such as after the store was restored from an older copy: whoever reads
// behind it would see nothing for long.
func (r *Reader) notAhead(ctx context.Context, at place) (place, bool, error) {
	r.feed.mu.Lock()
	known := r.feed.reached
	r.feed.mu.Unlock()
	if !known.before(at) {
		return at, false, nil
	}
	head, err := r.feed.head(ctx)
	if err != nil || !head.before(at) {
		return at, false, err
	}
	return head, true, nil
}
