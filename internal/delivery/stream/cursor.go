package stream

import (
	"context"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// badCursor returns the problem for an invalid cursor.
func badCursor() error {
	return problem.InvalidRequest.New(
		"The cursor does not belong to this stream. Use the id of an event of the same stream, or 0 for the oldest.")
}

// Check fails with a problem if a string cannot be a cursor of an account's stream, or of an org's.
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

// resume returns the offset of the given cursor, or the nearest one that can be read. gap reports whether events in
// between can no longer be read.
func (r *Reader) resume(ctx context.Context) (at offset, gap bool, err error) {
	if err := Check(r.want.After, r.feed.isOrg()); err != nil {
		return offset{}, false, err
	}
	if r.feed.isOrg() {
		return r.resumeOrg(ctx)
	}
	return r.resumeAccount(ctx)
}

func (r *Reader) resumeAccount(ctx context.Context) (at offset, gap bool, err error) {
	seq, err := event.ParseCursor(r.want.After)
	if err != nil {
		return offset{}, false, badCursor()
	}
	oldest, err := r.feed.hub.deps.Store.Oldest(ctx, r.want.Org, string(r.want.Account), r.since())
	if err != nil {
		return offset{}, false, err
	}
	if seq < oldest-1 {
		return seqOffset(oldest - 1), seq > 0, nil
	}
	return r.clampToHead(ctx, seqOffset(seq))
}

func (r *Reader) resumeOrg(ctx context.Context) (at offset, gap bool, err error) {
	p, err := event.ParsePosition(r.want.After)
	if err != nil {
		return offset{}, false, badCursor()
	}
	if p.ID != "" && id.MadeAt(p.ID).Before(r.since()) {
		return offset(p), true, nil
	}
	return r.clampToHead(ctx, offset(p))
}

// clampToHead replaces an offset after the head of the store by the head. Such a cursor exists after the store was
// restored from an older backup; a reader after it would see nothing for a long time.
func (r *Reader) clampToHead(ctx context.Context, at offset) (offset, bool, error) {
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
