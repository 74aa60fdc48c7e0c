package event

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event/internal/db"
)

// purgeBatch is the number of events that one transaction purges.
const purgeBatch = 500

// Purge deletes the data of a deleted account's events, oldest first; their ids, kinds, times and sequence numbers
// stay. So it does with the organisation's events about connecting the account. It purges about most events and reports whether all are purged; the next call continues. After the first
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
	if err := s.purgeConnecting(ctx, org, account, sandbox); err != nil {
		return false, err
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

// purgeConnecting deletes the data of the organisation's events about connecting an account: those that name it, and
// those of the same attempts and links. They are purged newest last, so that a repeated call still finds their ids.
func (s *Store) purgeConnecting(ctx context.Context, org id.Org, account id.Account, sandbox bool) error {
	names := [][]byte{[]byte(account)}
	q := db.New(s.deps.DB)
	named, err := q.OrgEventsNaming(ctx, db.OrgEventsNamingParams{OrgID: org, Names: names, MaxRows: purgeBatch})
	if err != nil {
		return fmt.Errorf("find events about connecting %s: %w", account, err)
	}
	for _, row := range named {
		var body struct {
			Data struct {
				Attempt  id.Attempt   `json:"attempt_id"`
				Session  id.Session   `json:"sessionId"`
				Attempts []id.Attempt `json:"attempts"`
			} `json:"data"`
		}
		if err := json.Unmarshal(row.Body, &body); err != nil {
			return fmt.Errorf("read event %s: %w", row.ID, err)
		}
		for _, one := range append(body.Data.Attempts, body.Data.Attempt, id.Attempt(body.Data.Session)) {
			if one != "" {
				names = append(names, []byte(one))
			}
		}
	}
	if len(named) == 0 {
		return nil
	}
	for {
		rows, err := q.OrgEventsNaming(ctx, db.OrgEventsNamingParams{OrgID: org, Names: names, MaxRows: purgeBatch})
		if err != nil {
			return fmt.Errorf("find events about connecting %s: %w", account, err)
		}
		p := db.PurgeEventsParams{OrgID: org, Source: string(org)}
		for _, row := range rows {
			p.Seqs, p.Ats = append(p.Seqs, row.Seq), append(p.Ats, row.At)
			p.Bodies = append(p.Bodies, AppendEnvelope(nil, &Envelope{
				ID: row.ID, Kind: row.Kind, At: row.At, Seq: row.Seq, Meta: Meta{Sandbox: sandbox, Purged: true},
			}))
		}
		if err := q.PurgeEvents(ctx, p); err != nil {
			return fmt.Errorf("purge events about connecting %s: %w", account, err)
		}
		if len(rows) < purgeBatch {
			return nil
		}
	}
}
