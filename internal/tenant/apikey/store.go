package apikey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey/internal/db"
)

// errUnchanged means that the row already had the wanted state.
var errUnchanged = errors.New("unchanged")

func insert(ctx context.Context, tx postgres.Tx, org id.Org, k Key, h hash) error {
	lists := make([][]string, len(k.Allow.Methods))
	for i, list := range k.Allow.Methods {
		lists[i] = list.Strings()
	}
	methods, err := json.Marshal(lists)
	if err != nil {
		return fmt.Errorf("encode methods of %s: %w", k.ID, err)
	}
	err = db.New(tx).Insert(ctx, db.InsertParams{
		OrgID: org, ID: k.ID, Hash: h[:], Hint: k.Hint, Label: k.Label, Scopes: k.Scopes.Names(), Methods: methods, AccountIds: id.Texts(k.Allow.Accounts),
		CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt,
	})
	if err != nil {
		return fmt.Errorf("insert key of %s: %w", org, err)
	}
	return nil
}

func keyByHash(ctx context.Context, tx postgres.Tx, h hash) (id.Org, Key, error) {
	row, err := db.New(tx).ByHash(ctx, h[:])
	if err != nil {
		return "", Key{}, fmt.Errorf("read key: %w", err)
	}
	key, err := fromRow(row)
	return row.OrgID, key, err
}

func listKeys(ctx context.Context, q db.DBTX, org id.Org) ([]Key, error) {
	rows, err := db.New(q).List(ctx, org)
	if err != nil {
		return nil, fmt.Errorf("list keys of %s: %w", org, err)
	}
	keys := make([]Key, len(rows))
	for i, row := range rows {
		if keys[i], err = fromRow(row); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

func countLive(ctx context.Context, tx postgres.Tx, org id.Org, now time.Time) (int, error) {
	n, err := db.New(tx).CountLive(ctx, db.CountLiveParams{OrgID: org, Now: &now})
	if err != nil {
		return 0, fmt.Errorf("count keys of %s: %w", org, err)
	}
	return int(n), nil
}

// setLastUsed records that a key is in use, unless another node did within lastUsedInterval or holds a lock on the row.
func setLastUsed(ctx context.Context, q db.DBTX, org id.Org, key id.Key, now time.Time) error {
	before := now.Add(-lastUsedInterval)
	err := db.New(q).Used(ctx, db.UsedParams{OrgID: org, ID: key, Now: &now, Before: &before})
	if err != nil {
		return fmt.Errorf("record the use of key %s: %w", key, err)
	}
	return nil
}

// revoke marks a key as revoked and returns its label. It returns errUnchanged if the key already was revoked, and the
// problem key-not-found if the org has no such key.
func revoke(ctx context.Context, tx postgres.Tx, org id.Org, key id.Key, now time.Time) (string, error) {
	q := db.New(tx)
	label, err := q.Revoke(ctx, db.RevokeParams{OrgID: org, ID: key, Now: &now})
	if err == nil {
		return label, nil
	}
	if !errors.Is(err, postgres.ErrNoRows) {
		return "", fmt.Errorf("revoke key %s: %w", key, err)
	}
	exists, err := q.Exists(ctx, db.ExistsParams{OrgID: org, ID: key})
	if err != nil {
		return "", fmt.Errorf("look for key %s: %w", key, err)
	}
	if !exists {
		return "", notFound()
	}
	return "", errUnchanged
}

func fromRow(row db.ApiKey) (Key, error) {
	key := Key{
		ID: row.ID, Kind: Kind(row.Kind), Session: id.BrowserSession(row.SessionID), Person: id.Person(row.PersonID), Label: row.Label, Hint: row.Hint, Scopes: scope.FromNames(row.Scopes),
		CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, RevokedAt: row.RevokedAt, LastUsedAt: row.LastUsedAt,
	}
	var lists [][]string
	if err := json.Unmarshal(row.Methods, &lists); err != nil {
		return Key{}, fmt.Errorf("decode methods of %s: %w", row.ID, err)
	}
	key.Allow.Methods = parseStored(lists)
	if row.AccountIds != nil {
		key.Allow.Accounts = make([]id.Account, len(row.AccountIds))
		for i, one := range row.AccountIds {
			key.Allow.Accounts[i] = id.Account(one)
		}
	}
	return key, nil
}
