package event

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event/internal/db"
)

// purgeBatch is the number of events that one transaction purges.
const purgeBatch = 500

// Purge deletes the data of a deleted account's events, oldest first; their ids, kinds, times and sequence numbers
// stay. It purges about most events and reports whether all are purged; the next call continues. After the first
// call, records of the account that are still in the log are dropped when they are read.
func (s *Store) Purge(ctx context.Context, org id.Org, account id.Account, sandbox bool, most int) (done bool, err error) {
	source := string(account)
	began, err := db.New(s.deps.DB).BeginPurge(ctx, db.BeginPurgeParams{OrgID: org, Source: source, Bucket: int16(Bucket(source)), At: s.deps.Now()})
	if err != nil {
		return false, fmt.Errorf("begin the purge of %s: %w", account, err)
	}
	if err := db.New(s.deps.DB).DeleteLettersOf(ctx, db.DeleteLettersOfParams{OrgID: string(org), Source: source}); err != nil {
		return false, fmt.Errorf("delete the dead letters of %s: %w", account, err)
	}
	after := began.Int64
	for purged := 0; ; {
		rows, err := db.New(s.deps.DB).ToPurge(ctx, db.ToPurgeParams{OrgID: org, Source: source, After: after, MaxRows: purgeBatch})
		if err != nil {
			return false, fmt.Errorf("read the events of %s to purge: %w", account, err)
		}
		if len(rows) == 0 {
			return true, nil
		}
		if purged >= most {
			return false, nil
		}
		after = rows[len(rows)-1].Seq
		if err := s.purgeBatchRows(ctx, org, source, sandbox, rows, after); err != nil {
			return false, err
		}
		purged += len(rows)
	}
}

func (s *Store) purgeBatchRows(ctx context.Context, org id.Org, source string, sandbox bool, rows []db.ToPurgeRow,
	upTo int64) error {
	p := db.PurgeEventsParams{OrgID: org, Source: source}
	for _, row := range rows {
		p.Seqs, p.Ats = append(p.Seqs, row.Seq), append(p.Ats, row.At)
		one := Stored{Source: source, Seq: row.Seq, At: row.At, ID: row.ID, Kind: row.Kind}
		p.Bodies = append(p.Bodies, one.purgedBody(sandbox))
	}
	return s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		q := db.New(tx)
		if err := q.PurgeEvents(ctx, p); err != nil {
			return fmt.Errorf("purge events of %s: %w", source, err)
		}
		return q.MovePurge(ctx, db.MovePurgeParams{OrgID: org, Source: source, PurgedSeq: pgtype.Int8{Int64: upTo, Valid: true}})
	})
}
