package seal

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal/internal/db"
)

var (
	// errOrgKeyGone means that the org's key was deleted while a data key was being wrapped with it.
	errOrgKeyGone = errors.New("the key of the organisation was replaced")
	// errGenerationTaken means that another node has added this generation, or that the holder was shredded.
	errGenerationTaken = errors.New("the holder has changed")
)

// holderState is the state of a holder in the keyring. Unknown means that it has no row.
type holderState int

const (
	holderUnknown holderState = iota
	holderLive
	holderShredded
)

func (s *Sealer) queries() *db.Queries { return db.New(s.deps.DB) }

func (s *Sealer) dataKeyRows(ctx context.Context, h holderRef) ([]db.DataKeysRow, error) {
	rows, err := s.queries().DataKeys(ctx, db.DataKeysParams{OrgID: h.org, Holder: h.name})
	if err != nil {
		return nil, unavailable("read data keys", err)
	}
	return rows, nil
}

// holder returns the state of a holder and the number of its generations.
func (s *Sealer) holder(ctx context.Context, h holderRef) (holderState, int32, error) {
	row, err := s.queries().Holder(ctx, db.HolderParams{OrgID: h.org, Holder: h.name})
	switch {
	case errors.Is(err, postgres.ErrNoRows):
		return holderUnknown, 0, nil
	case err != nil:
		return 0, 0, unavailable("read a holder", err)
	case row.ShreddedAt != nil:
		return holderShredded, row.Generations, nil
	}
	return holderLive, row.Generations, nil
}

// addHolder adds a holder with its first data key. It returns false if the holder already has a row.
func (s *Sealer) addHolder(ctx context.Context, h holderRef, keyID string, key unstoredKey) (bool, error) {
	added, err := s.queries().AddHolder(ctx, db.AddHolderParams{
		OrgID: h.org, Holder: h.name, ID: keyID, Now: s.deps.Now(), OrgVersion: key.version, Wrapped: key.wrapped,
	})
	switch {
	case isForeignKey(err):
		return false, errOrgKeyGone
	case err != nil:
		return false, unavailable("add a data key", err)
	}
	return added == 1, nil
}

func isForeignKey(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "23503"
}

// addGeneration adds the next generation of a holder that is not shredded.
func (s *Sealer) addGeneration(ctx context.Context, h holderRef, generation int32, key unstoredKey) error {
	added, err := s.queries().AddGeneration(ctx, db.AddGenerationParams{
		Generation: generation, OrgID: h.org, Holder: h.name, OrgVersion: key.version, Wrapped: key.wrapped,
	})
	switch {
	case isForeignKey(err):
		return errOrgKeyGone
	case err != nil:
		return unavailable("add a generation", err)
	case added == 0:
		return errGenerationTaken
	}
	return nil
}

// shredIn marks the holder first. That blocks concurrent calls of Prepare and Renew, so that the delete sees all keys.
func (s *Sealer) shredIn(ctx context.Context, tx postgres.Tx, h holderRef) (Shredded, error) {
	q := db.New(tx)
	row, err := q.MarkShredded(ctx, db.MarkShreddedParams{OrgID: h.org, Holder: h.name, Now: s.deps.Now()})
	if err != nil {
		return Shredded{}, fmt.Errorf("mark a holder as shredded: %w", err)
	}
	if _, err := q.DeleteDataKeys(ctx, db.DeleteDataKeysParams{OrgID: h.org, Holder: h.name}); err != nil {
		return Shredded{}, fmt.Errorf("delete data keys: %w", err)
	}
	return Shredded{DataKey: row.ID, Generations: int(row.Generations), At: *row.ShreddedAt}, nil
}

func (s *Sealer) newestOrgKey(ctx context.Context, org id.Org) (int32, []byte, error) {
	row, err := s.queries().NewestOrgKey(ctx, org)
	return row.Version, row.Wrapped, err
}

// addOrgKey adds an org key. It returns false if this version already exists.
func (s *Sealer) addOrgKey(ctx context.Context, org id.Org, version int32, wrapped kms.Wrapped) (bool, error) {
	stored, err := wrapped.Encode()
	if err != nil {
		return false, err
	}
	added, err := s.queries().AddOrgKey(ctx, db.AddOrgKeyParams{
		OrgID: org, Version: version, KmsID: wrapped.Key.ID, KmsVersion: int64(wrapped.Key.Version), Wrapped: stored, Now: s.deps.Now(),
	})
	if err != nil {
		return false, unavailable("add an org key", err)
	}
	return added == 1, nil
}

func (s *Sealer) rootKey(ctx context.Context) ([]byte, error) {
	row, err := s.queries().RootKey(ctx)
	return row.Wrapped, err
}

func (s *Sealer) addRoot(ctx context.Context, wrapped kms.Wrapped) error {
	stored, err := wrapped.Encode()
	if err != nil {
		return err
	}
	err = s.queries().AddRootKey(ctx, db.AddRootKeyParams{
		KmsID: wrapped.Key.ID, KmsVersion: int64(wrapped.Key.Version), Wrapped: stored, Now: s.deps.Now(),
	})
	if err != nil {
		return unavailable("add the root", err)
	}
	return nil
}
