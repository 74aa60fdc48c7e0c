package apikey

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey/internal/db"
)

// Holder returns the identity of a key that the caller knows by its id, for example because a stream token names it. It
// always reads the database. The result can be passed to Refresh.
func (s *Keys) Holder(ctx context.Context, owner id.Org, key id.Key) (*Principal, error) {
	p := &Principal{loadedAt: s.deps.Now()}
	err := s.deps.DB.Snapshot(ctx, func(tx postgres.Tx) error {
		row, err := db.New(tx).ByID(ctx, db.ByIDParams{OrgID: owner, ID: key})
		if errors.Is(err, postgres.ErrNoRows) {
			p.unknown = true
			return nil
		}
		if err != nil {
			return fmt.Errorf("read key %s: %w", key, err)
		}
		p.Key = fromRow(row)
		copy(p.hash[:], row.Hash)
		p.Scopes = p.Key.Scopes
		p.Org, err = s.deps.Orgs.GetIn(ctx, tx, owner)
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, s.checkUsable(p)
}
