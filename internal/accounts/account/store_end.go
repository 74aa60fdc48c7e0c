package account

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

func insertConsent(ctx context.Context, tx postgres.Tx, a Account, attempt id.Attempt, c Consent) error {
	err := db.New(tx).InsertConsent(ctx, db.InsertConsentParams{
		OrgID: a.Org, AccountID: a.ID, AttemptID: string(attempt), Flow: c.Kind, TextHash: c.TextHash, TextVersion: c.TextVersion,
		Who: c.Who, IpHash: c.IPHash, At: c.At,
	})
	if err != nil {
		return fmt.Errorf("record the consent to %s: %w", a.ID, err)
	}
	return nil
}

func listConsents(ctx context.Context, q db.DBTX, org id.Org, account id.Account) ([]Consent, error) {
	rows, err := db.New(q).Consents(ctx, db.ConsentsParams{OrgID: org, AccountID: account})
	if err != nil {
		return nil, fmt.Errorf("read the consents to %s: %w", account, err)
	}
	list := make([]Consent, len(rows))
	for i, row := range rows {
		list[i] = Consent{
			Kind: row.Flow, TextHash: row.TextHash, TextVersion: row.TextVersion, Who: row.Who, IPHash: row.IpHash, At: row.At,
			Attempt: id.Attempt(row.AttemptID),
		}
	}
	return list, nil
}

// markDisconnecting hides an account from every lookup by callers. It is not found if it is marked already.
func markDisconnecting(ctx context.Context, tx postgres.Tx, ref Ref, by json.RawMessage, now time.Time) error {
	_, err := db.New(tx).MarkDisconnecting(ctx, db.MarkDisconnectingParams{OrgID: ref.Org, ID: ref.Account, Now: &now, By: by})
	if err != nil {
		return fmt.Errorf("disconnect %s: %w", ref.Account, orNotFound(err))
	}
	return nil
}

// getDisconnecting reads an account whose disconnect has begun and not finished.
func getDisconnecting(ctx context.Context, q db.DBTX, ref Ref) (Account, error) {
	row, err := db.New(q).Leaving(ctx, db.LeavingParams{OrgID: ref.Org, ID: ref.Account})
	if err != nil {
		return Account{}, fmt.Errorf("read disconnecting account %s: %w", ref.Account, err)
	}
	return fromRow(row, db.AccountHealth{})
}

func listUnfinished(ctx context.Context, q db.DBTX, before time.Time, most int) ([]Ref, error) {
	rows, err := db.New(q).Unfinished(ctx, db.UnfinishedParams{Before: &before, MaxRows: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("list unfinished disconnects: %w", err)
	}
	list := make([]Ref, len(rows))
	for i, row := range rows {
		list[i] = Ref{row.OrgID, row.ID}
	}
	return list, nil
}

func countSecrets(ctx context.Context, q db.DBTX, a Account) (int, error) {
	n, err := db.New(q).CountSecrets(ctx, db.CountSecretsParams{OrgID: a.Org, AccountID: a.ID})
	if err != nil {
		return 0, fmt.Errorf("count the secrets of %s: %w", a.ID, err)
	}
	return int(n), nil
}

// writeTombstoneRows deletes an account's rows except for the tombstone, writes the receipt, and returns who
// disconnected the account. It fails with postgres.ErrNoRows if another node has done so.
func writeTombstoneRows(ctx context.Context, tx postgres.Tx, a Account, receipt json.RawMessage,
	now time.Time) (by audit.By, err error) {
	q := db.New(tx)
	row, err := q.LockLeaving(ctx, db.LockLeavingParams{OrgID: a.Org, ID: a.ID})
	if err != nil {
		return by, fmt.Errorf("lock disconnecting account %s: %w", a.ID, err)
	}
	if err := json.Unmarshal(row.DisconnectingBy, &by); err != nil {
		return by, fmt.Errorf("decode the actor of the disconnect of %s: %w", a.ID, err)
	}
	for _, step := range []func() error{
		func() error { return q.DropSecrets(ctx, db.DropSecretsParams{OrgID: a.Org, AccountID: a.ID}) },
		func() error { return q.DropHealth(ctx, db.DropHealthParams{OrgID: a.Org, AccountID: a.ID}) },
		func() error { return q.Bury(ctx, db.BuryParams{OrgID: a.Org, ID: a.ID, Now: now}) },
		func() error {
			return q.InsertReceipt(ctx, db.InsertReceiptParams{OrgID: a.Org, AccountID: a.ID, At: now, Receipt: receipt})
		},
	} {
		if err := step(); err != nil {
			return by, fmt.Errorf("write the tombstone of %s: %w", a.ID, err)
		}
	}
	return by, nil
}

func getReceipt(ctx context.Context, q db.DBTX, org id.Org, account id.Account) (json.RawMessage, error) {
	text, err := db.New(q).Receipt(ctx, db.ReceiptParams{OrgID: org, AccountID: account})
	if err != nil {
		return nil, fmt.Errorf("read the receipt of %s: %w", account, orNotFound(err))
	}
	return text, nil
}

// lockWarnings locks accounts whose warning is due and skips those that another worker has locked.
func lockWarnings(ctx context.Context, tx postgres.Tx, now time.Time, most int) ([]Ref, error) {
	rows, err := db.New(tx).LockWarnings(ctx, db.LockWarningsParams{Now: &now, MaxRows: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("list sessions that end soon: %w", err)
	}
	list := make([]Ref, len(rows))
	for i, row := range rows {
		list[i] = Ref{row.OrgID, row.ID}
	}
	return list, nil
}
