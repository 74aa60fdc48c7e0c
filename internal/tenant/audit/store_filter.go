package audit

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit/internal/db"
)

// seqRange is a range of sequence numbers: first is inclusive, before exclusive.
type seqRange struct{ first, before int64 }

// seqBounds returns the sequence numbers that entries of the filter's period can have; found is false if there are
// none. Entries are numbered roughly in the order of time, so this keeps a query for an old period from scanning all
// later entries.
func seqBounds(ctx context.Context, q db.DBTX, org id.Org, f Filter) (r seqRange, found bool, err error) {
	r.before = math.MaxInt64
	if !f.Since.IsZero() {
		seq, err := db.New(q).FirstSince(ctx, db.FirstSinceParams{OrgID: org, At: f.Since})
		if errors.Is(err, postgres.ErrNoRows) {
			return r, false, nil
		}
		if err != nil {
			return r, false, err
		}
		r.first = seq - maxDisorder
	}
	if !f.Until.IsZero() {
		seq, err := db.New(q).LastBefore(ctx, db.LastBeforeParams{OrgID: org, At: f.Until})
		if errors.Is(err, postgres.ErrNoRows) {
			return r, false, nil
		}
		if err != nil {
			return r, false, err
		}
		r.before = seq + maxDisorder
	}
	return r, true, nil
}

// endOfTime is later than every entry.
var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// readFiltered reads entries by the most selective index for the filter: target, then actor, then action.
func readFiltered(ctx context.Context, querier db.DBTX, org id.Org, f Filter, r seqRange, limit int) ([]Entry, error) {
	p := db.ChosenParams{
		OrgID: org, Before: r.before, FromSeq: r.first, Since: f.Since, Until: f.Until,
		Action: f.Action, ActorID: f.ActorID, Target: f.Target, MaxRows: int32(limit),
	}
	if p.Until.IsZero() {
		p.Until = endOfTime
	}
	q := db.New(querier)
	var (
		rows []db.AuditEntry
		err  error
	)
	switch {
	case f.Target != "":
		rows, err = q.ChosenByTarget(ctx, db.ChosenByTargetParams(p))
	case f.ActorID != "":
		rows, err = q.ChosenByActor(ctx, db.ChosenByActorParams(p))
	case f.Action != "":
		rows, err = q.ChosenByAction(ctx, db.ChosenByActionParams(p))
	default:
		rows, err = q.Chosen(ctx, p)
	}
	return postgres.Convert(rows, fromRow), err
}
