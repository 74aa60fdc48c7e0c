package audit

import (
	"context"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Filter chooses entries. What is empty does not matter.
type Filter struct {
	Action, ActorID, Target string
	// Since is the first moment, Until the first after the last.
	Since, Until time.Time
}

// slack is how many entries may be out of the order of time: nodes whose clocks differ write to the same chain.
const slack = 1000

// Choose is Page for the entries that a filter chooses.
func (l *Log) Choose(ctx context.Context, org id.Org, f Filter, before int64, limit int) ([]Entry, error) {
	r, some, err := bounds(ctx, l.db.Pool(), org, f)
	if err != nil || !some {
		return nil, err
	}
	if before > 0 && before < r.before {
		r.before = before
	}
	return choose(ctx, l.db.Pool(), org, f, r, limit)
}
