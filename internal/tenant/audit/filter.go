package audit

import (
	"context"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Filter selects entries of one log. A zero field does not filter.
type Filter struct {
	Action, ActorID, Target string
	// Since is inclusive, Until exclusive.
	Since, Until time.Time
}

// maxDisorder is how far, in entries, the order of sequence numbers may differ from the order of times. They differ
// because nodes whose clocks disagree write to the same chain.
const maxDisorder = 1000

// Choose returns up to limit entries that match a filter and have a sequence number less than before, newest first. A
// before of 0 starts with the newest.
func (l *Log) Choose(ctx context.Context, org id.Org, f Filter, before int64, limit int) ([]Entry, error) {
	r, found, err := seqBounds(ctx, l.db, org, f)
	if err != nil || !found {
		return nil, err
	}
	if before > 0 && before < r.before {
		r.before = before
	}
	entries, err := readFiltered(ctx, l.db, org, f, r, limit)
	if err != nil {
		return nil, err
	}
	return entries, l.openPersonal(ctx, org, entries)
}
