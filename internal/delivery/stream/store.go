package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/stream/internal/db"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// token is a stored token without its secret.
type token struct {
	org     id.Org
	account id.Account
	key     id.Key
	expires time.Time
}

func saveToken(ctx context.Context, to *postgres.DB, hash []byte, t token) error {
	err := db.New(to).InsertToken(ctx, db.InsertTokenParams{OrgID: t.org, Hash: hash, AccountID: string(t.account), KeyID: string(t.key), ExpiresAt: t.expires})
	if err != nil {
		return fmt.Errorf("save a token of %s: %w", t.account, err)
	}
	return nil
}

// redeemToken deletes a valid token and returns it. Of concurrent calls only one finds it.
func redeemToken(ctx context.Context, from *postgres.DB, hash []byte, account id.Account, now time.Time) (t token,
	found bool, err error) {
	row, err := db.New(from).TakeToken(ctx, db.TakeTokenParams{Hash: hash, AccountID: string(account), Now: now})
	if errors.Is(err, postgres.ErrNoRows) {
		return token{}, false, nil
	}
	if err != nil {
		return token{}, false, fmt.Errorf("redeem a token: %w", err)
	}
	return token{row.OrgID, id.Account(row.AccountID), id.Key(row.KeyID), row.ExpiresAt}, true, nil
}

func deleteExpiredTokens(ctx context.Context, in *postgres.DB, now time.Time) error {
	if err := db.New(in).ForgetTokens(ctx, now); err != nil {
		return fmt.Errorf("delete expired tokens: %w", err)
	}
	return nil
}
