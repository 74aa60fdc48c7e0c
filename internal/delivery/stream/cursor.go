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
	if _, _, err := (event.Generations{}).Position(cursor, ofOrg); err != nil {
		return badCursor()
	}
	return nil
}

// resume returns the offset of the given cursor, or the nearest one that can be read. gap reports whether events in
// between can no longer be read. A cursor from a history that the database does not have starts with the oldest event.
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
	p, known, err := r.feed.hub.deps.Store.Position(ctx, r.want.After, false)
	if err != nil || !known {
		return offset{}, true, err
	}
	oldest, err := r.feed.hub.deps.Store.Oldest(ctx, r.want.Org, string(r.want.Account), r.since())
	if err != nil {
		return offset{}, false, err
	}
	if p.Number() < oldest-1 {
		gap = p.Number() > 0
		p.Tx += oldest - 1 - p.Number()
		return offset(p), gap, nil
	}
	return r.clampToHead(ctx, offset(p))
}

func (r *Reader) resumeOrg(ctx context.Context) (at offset, gap bool, err error) {
	p, known, err := r.feed.hub.deps.Store.Position(ctx, r.want.After, true)
	if err != nil || !known {
		return offset{}, true, err
	}
	if p.ID != "" && id.MadeAt(p.ID).Before(r.since()) {
		return offset(p), true, nil
	}
	return r.clampToHead(ctx, offset(p))
}

// clampToHead replaces an offset after the head of the store by the head. A reader after it would see nothing for a long
// time. Such a cursor exists if the database was restored in a way that it does not notice, such as from a snapshot of
// its disk.
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
