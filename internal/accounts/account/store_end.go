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
	return db.New(tx).InsertConsent(ctx, db.InsertConsentParams{
		OrgID: a.Org, AccountID: a.ID, AttemptID: attempt, Flow: c.Kind, TextHash: c.TextHash, TextVersion: c.TextVersion,
		Who: c.Who, IpHash: c.IPHash, At: c.At,
	})
}

func listConsents(ctx context.Context, q db.DBTX, org id.Org, account id.Account) ([]Consent, error) {
	rows, err := db.New(q).Consents(ctx, db.ConsentsParams{OrgID: org, AccountID: account})
	return postgres.Convert(rows, func(row db.AccountConsent) Consent {
		return Consent{
			Kind: row.Flow, TextHash: row.TextHash, TextVersion: row.TextVersion, Who: row.Who, IPHash: row.IpHash, At: row.At,
			Attempt: row.AttemptID,
		}
	}), err
}

// markDisconnecting hides an account from every lookup by callers. It is not found if it is marked already.
func markDisconnecting(ctx context.Context, tx postgres.Tx, ref Ref, by json.RawMessage, now time.Time) error {
	_, err := db.New(tx).MarkDisconnecting(ctx, db.MarkDisconnectingParams{OrgID: ref.Org, ID: ref.Account, Now: &now, By: by})
	return orNotFound(err)
}

// getDisconnecting reads an account whose disconnect has begun and not finished.
func getDisconnecting(ctx context.Context, q db.DBTX, ref Ref) (Account, error) {
	row, err := db.New(q).Leaving(ctx, db.LeavingParams{OrgID: ref.Org, ID: ref.Account})
	return fromRow(row, db.AccountHealth{}), err
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
	if err := q.DropSecrets(ctx, db.DropSecretsParams{OrgID: a.Org, AccountID: a.ID}); err != nil {
		return by, err
	}
	if err := q.DropHealth(ctx, db.DropHealthParams{OrgID: a.Org, AccountID: a.ID}); err != nil {
		return by, err
	}
	if err := q.Bury(ctx, db.BuryParams{OrgID: a.Org, ID: a.ID, Now: now}); err != nil {
		return by, err
	}
	return by, q.InsertReceipt(ctx, db.InsertReceiptParams{OrgID: a.Org, AccountID: a.ID, At: now, Receipt: receipt})
}
