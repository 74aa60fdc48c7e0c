package apikey

import (
	"context"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey/internal/db"
)

// upsertSessionKey inserts a browser's key, or makes the existing one valid again, with new scopes and expiry.
func upsertSessionKey(ctx context.Context, tx postgres.Tx, org id.Org, h hash, k SessionKey, now time.Time) (first bool, err error) {
	q, until := db.New(tx), k.ExpiresAt
	renewed, err := q.RenewSession(ctx, db.RenewSessionParams{OrgID: org, Hash: h[:], Label: k.Label, Scopes: k.Scopes.Names(), ExpiresAt: &until})
	if err != nil || renewed > 0 {
		return false, err
	}
	made, err := q.AddSession(ctx, db.AddSessionParams{
		OrgID: org, ID: id.New[id.Key](), Hash: h[:], Label: k.Label, Scopes: k.Scopes.Names(), CreatedAt: now, ExpiresAt: &until,
		SessionID: k.Session, PersonID: k.Person,
	})
	return made > 0, err
}
