package apikey

import (
	"context"
	"errors"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey/internal/db"
)

// errUnchanged means that the row already had the wanted state.
var errUnchanged = errors.New("unchanged")

func insert(ctx context.Context, tx postgres.Tx, org id.Org, k Key, h hash) error {
	return db.New(tx).Insert(ctx, db.InsertParams{
		OrgID: org, ID: k.ID, Hash: h[:], Hint: k.Hint, Label: k.Label, Scopes: k.Scopes.Names(),
		Methods: postgres.Convert(k.Allow.Methods, Patterns.Strings), AccountIds: id.Texts(k.Allow.Accounts),
		AllowedIps: networkTexts(k.Allow.Networks), CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, MintedBy: k.MintedBy,
	})
}

// lock reads a secret key and locks it until the transaction ends. It returns the problem key-not-found if the org has
// no such key.
func lock(ctx context.Context, tx postgres.Tx, org id.Org, key id.Key) (Key, error) {
	row, err := db.New(tx).Lock(ctx, db.LockParams{OrgID: org, ID: key})
	if errors.Is(err, postgres.ErrNoRows) {
		return Key{}, notFound()
	}
	return fromRow(row), err
}

// update writes what Update can change.
func update(ctx context.Context, tx postgres.Tx, org id.Org, k Key) error {
	return db.New(tx).Update(ctx, db.UpdateParams{
		OrgID: org, ID: k.ID, Label: k.Label, Scopes: k.Scopes.Names(), Methods: postgres.Convert(k.Allow.Methods, Patterns.Strings),
		AccountIds: id.Texts(k.Allow.Accounts), AllowedIps: networkTexts(k.Allow.Networks), ExpiresAt: k.ExpiresAt,
	})
}

// setLastUsed records that a key is in use, unless another node did within lastUsedInterval or holds a lock on the row.
func setLastUsed(ctx context.Context, q db.DBTX, org id.Org, key id.Key, now time.Time) error {
	before := now.Add(-lastUsedInterval)
	return db.New(q).Used(ctx, db.UsedParams{OrgID: org, ID: key, Now: &now, Before: &before})
}

// revoke marks a key as revoked and returns its label. It returns errUnchanged if the key already was revoked, and the
// problem key-not-found if the org has no such key.
func revoke(ctx context.Context, tx postgres.Tx, org id.Org, key id.Key, now time.Time) (string, error) {
	q := db.New(tx)
	label, err := q.Revoke(ctx, db.RevokeParams{OrgID: org, ID: key, Now: &now})
	if !errors.Is(err, postgres.ErrNoRows) {
		return label, err
	}
	exists, err := q.Exists(ctx, db.ExistsParams{OrgID: org, ID: key})
	switch {
	case err != nil:
		return "", err
	case !exists:
		return "", notFound()
	}
	return "", errUnchanged
}

func fromRow(row db.ApiKey) Key {
	key := Key{
		ID: row.ID, Kind: Kind(row.Kind), Session: row.SessionID, Person: row.PersonID, Label: row.Label, Hint: row.Hint,
		Scopes: scope.FromNames(row.Scopes), Allow: Allow{Methods: parseStored(row.Methods)},
		CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, RevokedAt: row.RevokedAt, LastUsedAt: row.LastUsedAt,
		ReplacedBy: row.ReplacedBy, MintedBy: row.MintedBy,
	}
	key.Allow.Networks = parseStoredNetworks(row.AllowedIps)
	if row.AccountIds != nil {
		key.Allow.Accounts = postgres.Convert(row.AccountIds, func(one string) id.Account { return id.Account(one) })
	}
	return key
}
