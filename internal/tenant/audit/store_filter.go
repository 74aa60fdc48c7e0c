package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit/internal/db"
)

// numbers are the first number, and the one behind the last, that entries can have.
type numbers struct{ first, before int64 }

// bounds are the numbers that entries of a time can have; some is false if there is none. Entries are numbered about in the order of
// time, so that one of long ago is not looked for among all that followed.
func bounds(ctx context.Context, q db.DBTX, org id.Org, f Filter) (r numbers, some bool, err error) {
	r.before = math.MaxInt64
	if !f.Since.IsZero() {
		seq, err := db.New(q).FirstSince(ctx, db.FirstSinceParams{OrgID: org, At: f.Since})
		if errors.Is(err, postgres.ErrNoRows) {
			return r, false, nil
		}
		if err != nil {
			return r, false, fmt.Errorf("find the first entry of %s: %w", org, err)
		}
		r.first = seq - slack
	}
	if !f.Until.IsZero() {
		seq, err := db.New(q).LastBefore(ctx, db.LastBeforeParams{OrgID: org, At: f.Until})
		if errors.Is(err, postgres.ErrNoRows) {
			return r, false, nil
		}
		if err != nil {
			return r, false, fmt.Errorf("find the last entry of %s: %w", org, err)
		}
		r.before = seq + slack
	}
	return r, true, nil
}

// endOfTime is after everything that happens.
var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// choose reads by the index that has the fewest entries to offer.
func choose(ctx context.Context, q db.DBTX, org id.Org, f Filter, r numbers, limit int) ([]Entry, error) {
	p := db.ChosenParams{
		OrgID: org, Before: r.before, FromSeq: r.first, Since: f.Since, Until: f.Until, Action: f.Action, ActorID: f.ActorID, Target: f.Target, MaxRows: int32(limit),
	}
	if p.Until.IsZero() {
		p.Until = endOfTime
	}
	var (
		rows []db.AuditEntry
		err  error
	)
	switch {
	case f.Target != "":
		rows, err = db.New(q).ChosenByTarget(ctx, db.ChosenByTargetParams{
			OrgID: org, Target: p.Target, Before: p.Before, FromSeq: p.FromSeq, Since: p.Since, Until: p.Until, Action: p.Action, ActorID: p.ActorID, MaxRows: p.MaxRows,
		})
	case f.ActorID != "":
		rows, err = db.New(q).ChosenByActor(ctx, db.ChosenByActorParams{
			OrgID: org, ActorID: p.ActorID, Before: p.Before, FromSeq: p.FromSeq, Since: p.Since, Until: p.Until, Action: p.Action, Target: p.Target, MaxRows: p.MaxRows,
		})
	case f.Action != "":
		rows, err = db.New(q).ChosenByAction(ctx, db.ChosenByActionParams{
			OrgID: org, Action: p.Action, Before: p.Before, FromSeq: p.FromSeq, Since: p.Since, Until: p.Until, ActorID: p.ActorID, Target: p.Target, MaxRows: p.MaxRows,
		})
	default:
		rows, err = db.New(q).Chosen(ctx, p)
	}
	if err != nil {
		return nil, fmt.Errorf("choose audit entries of %s: %w", org, err)
	}
	return fromRows(rows), nil
}
