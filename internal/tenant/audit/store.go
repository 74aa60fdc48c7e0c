package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit/internal/db"
)

// appendEntry numbers an entry, links it to the chain and makes it the new head. The lock on the head serialises the
// writers of one org.
func appendEntry(ctx context.Context, tx postgres.Tx, key *chainKey, org id.Org, e Entry) error {
	q := db.New(tx)
	if err := q.OpenChain(ctx, org); err != nil {
		return fmt.Errorf("open audit chain of %s: %w", org, err)
	}
	head, err := q.LockHead(ctx, org)
	if err != nil {
		return fmt.Errorf("lock audit chain of %s: %w", org, err)
	}
	e.Seq = head.Seq + 1
	e.hash, e.keyID = key.sumEntry(head.Hash, org, e), key.id
	err = q.Insert(ctx, db.InsertParams{
		OrgID: org, Seq: e.Seq, ID: e.ID, At: e.At, ActorKind: string(e.By.Kind), ActorID: e.By.ID,
		ActorLabel: e.By.Label, Action: e.By.Action, Target: e.Target, RequestID: e.By.Request,
		IpHash: e.By.IPHash, Changes: e.Changes, Hash: e.hash, KeyID: e.keyID,
	})
	if err != nil {
		return fmt.Errorf("insert audit entry of %s: %w", org, err)
	}
	return q.MoveHead(ctx, db.MoveHeadParams{OrgID: org, Seq: e.Seq, Hash: e.hash})
}

func readChain(ctx context.Context, q db.DBTX, org id.Org, after int64, limit int) ([]Entry, error) {
	rows, err := db.New(q).Chain(ctx, db.ChainParams{OrgID: org, After: after, MaxRows: int32(limit)})
	return postgres.Convert(rows, fromRow), err
}

// readHead returns zeros for an org without entries.
func readHead(ctx context.Context, q db.DBTX, org id.Org) (db.HeadRow, error) {
	row, err := db.New(q).Head(ctx, org)
	if err != nil && !errors.Is(err, postgres.ErrNoRows) {
		return db.HeadRow{}, err
	}
	return row, nil
}

func fromRow(r db.AuditEntry) Entry {
	return Entry{
		ID: r.ID, Seq: r.Seq, At: r.At.UTC(), Target: r.Target, Changes: r.Changes, hash: r.Hash, keyID: r.KeyID,
		By: By{
			Kind: ActorKind(r.ActorKind), ID: r.ActorID, Label: r.ActorLabel, Action: r.Action,
			Request: r.RequestID, IPHash: r.IpHash,
		},
	}
}
