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

func consents(ctx context.Context, q db.DBTX, org id.Org, account id.Account) ([]Consent, error) {
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

// markDisconnecting takes an account out of everybody's sight.
func markDisconnecting(ctx context.Context, tx postgres.Tx, ref Ref, by json.RawMessage, now time.Time) error {
	_, err := db.New(tx).MarkDisconnecting(ctx, db.MarkDisconnectingParams{OrgID: ref.Org, ID: ref.Account, Now: &now, By: by})
	if err != nil {
		return fmt.Errorf("disconnect %s: %w", ref.Account, orNotFound(err))
	}
	return nil
}

// leaving reads an account whose disconnect has begun and not ended.
func leaving(ctx context.Context, q db.DBTX, ref Ref) (Account, error) {
	row, err := db.New(q).Leaving(ctx, db.LeavingParams{OrgID: ref.Org, ID: ref.Account})
	if err != nil {
		return Account{}, fmt.Errorf("read leaving account %s: %w", ref.Account, err)
	}
	return fromRow(row, db.AccountHealth{})
}

func unfinished(ctx context.Context, q db.DBTX, before time.Time, most int) ([]Ref, error) {
	rows, err := db.New(q).Unfinished(ctx, db.UnfinishedParams{Before: &before, MaxRows: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("find unfinished disconnects: %w", err)
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
		return 0, fmt.Errorf("count what is sealed of %s: %w", a.ID, err)
	}
	return int(n), nil
}

// buryRows removes an account's data, leaves the tombstone and the receipt, and says who disconnected it.
func buryRows(ctx context.Context, tx postgres.Tx, a Account, receipt json.RawMessage, now time.Time) (by audit.By, err error) {
	q := db.New(tx)
	row, err := q.LockLeaving(ctx, db.LockLeavingParams{OrgID: a.Org, ID: a.ID})
	if err != nil {
		return by, fmt.Errorf("lock leaving account %s: %w", a.ID, err)
	}
	if err := json.Unmarshal(row.DisconnectingBy, &by); err != nil {
		return by, fmt.Errorf("read who disconnects %s: %w", a.ID, err)
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
			return by, fmt.Errorf("bury account %s: %w", a.ID, err)
		}
	}
	return by, nil
}

func receipt(ctx context.Context, q db.DBTX, org id.Org, account id.Account) (json.RawMessage, error) {
	text, err := db.New(q).Receipt(ctx, db.ReceiptParams{OrgID: org, AccountID: account})
	if err != nil {
		return nil, fmt.Errorf("read the receipt of %s: %w", account, orNotFound(err))
	}
	return text, nil
}

func lockWarnings(ctx context.Context, tx postgres.Tx, now time.Time, most int) ([]Ref, error) {
	rows, err := db.New(tx).LockWarnings(ctx, db.LockWarningsParams{Now: &now, MaxRows: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("find sessions that end soon: %w", err)
	}
	list := make([]Ref, len(rows))
	for i, row := range rows {
		list[i] = Ref{row.OrgID, row.ID}
	}
	return list, nil
}
