package audit

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit/internal/db"
)

// appendEntry numbers an entry, links it to the chain and makes it the new head. The lock on the head serialises the
// writers of one org.
func appendEntry(ctx context.Context, tx postgres.Tx, org id.Org, e Entry) error {
	q := db.New(tx)
	if err := q.OpenChain(ctx, org); err != nil {
		return fmt.Errorf("open audit chain of %s: %w", org, err)
	}
	head, err := q.LockHead(ctx, org)
	if err != nil {
		return fmt.Errorf("lock audit chain of %s: %w", org, err)
	}
	e.Seq = head.Seq + 1
	e.hash = hashEntry(head.Hash, org, e)
	err = q.Insert(ctx, db.InsertParams{
		OrgID: org, Seq: e.Seq, ID: e.ID, At: e.At, ActorKind: string(e.By.Kind), ActorID: e.By.ID,
		ActorLabel: e.By.Label, Action: e.By.Action, Target: e.Target, RequestID: string(e.By.Request),
		IpHash: e.By.IPHash, Changes: e.Changes, Hash: e.hash,
	})
	if err != nil {
		return fmt.Errorf("insert audit entry of %s: %w", org, err)
	}
	if err := q.MoveHead(ctx, db.MoveHeadParams{OrgID: org, Seq: e.Seq, Hash: e.hash}); err != nil {
		return fmt.Errorf("move audit chain of %s: %w", org, err)
	}
	return nil
}

func readPage(ctx context.Context, q db.DBTX, org id.Org, before int64, limit int) ([]Entry, error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	rows, err := db.New(q).Page(ctx, db.PageParams{OrgID: org, Before: before, MaxRows: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("read audit log of %s: %w", org, err)
	}
	return fromRows(rows), nil
}

func readPageOf(ctx context.Context, q db.DBTX, org id.Org, target string, before int64, limit int) ([]Entry, error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	rows, err := db.New(q).PageOf(ctx, db.PageOfParams{OrgID: org, Target: target, Before: before, MaxRows: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("read audit log of %s: %w", target, err)
	}
	return fromRows(rows), nil
}

func readChain(ctx context.Context, q db.DBTX, org id.Org, after int64, limit int) ([]Entry, error) {
	rows, err := db.New(q).Chain(ctx, db.ChainParams{OrgID: org, After: after, MaxRows: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("read audit chain of %s: %w", org, err)
	}
	return fromRows(rows), nil
}

// readHead returns zeros for an org without entries.
func readHead(ctx context.Context, q db.DBTX, org id.Org) (int64, []byte, error) {
	row, err := db.New(q).Head(ctx, org)
	if err != nil && !errors.Is(err, postgres.ErrNoRows) {
		return 0, nil, fmt.Errorf("read head of audit chain of %s: %w", org, err)
	}
	return row.Seq, row.Hash, nil
}

func fromRows(rows []db.AuditEntry) []Entry {
	entries := make([]Entry, len(rows))
	for i, r := range rows {
		entries[i] = Entry{
			ID: r.ID, Seq: r.Seq, At: r.At.UTC(), Target: r.Target, Changes: r.Changes, hash: r.Hash,
			By: By{
				Kind: ActorKind(r.ActorKind), ID: r.ActorID, Label: r.ActorLabel, Action: r.Action,
				Request: id.Request(r.RequestID), IPHash: r.IpHash,
			},
		}
	}
	return entries
}
