package seal

import (
	"context"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal/internal/db"
)

// rewrapLock is the key of the advisory lock of lockRewrap.
const rewrapLock = 7_264_002

// lockRewrap makes this the only process that rewraps, until release is called or the connection breaks. It does not
// wait: it fails with ErrBusy if another process holds the lock.
func (s *Sealer) lockRewrap(ctx context.Context) (release func(), err error) {
	release, ok, err := s.deps.DB.TryLock(ctx, rewrapLock)
	switch {
	case err != nil:
		return nil, unavailable("lock the keys", err)
	case !ok:
		return nil, ErrBusy
	}
	return release, nil
}

// moveRoot and moveOrgKey store a rewrapped key, unless the stored one has changed since it was read. They return the
// number of changed rows.

func (s *Sealer) moveRoot(ctx context.Context, old []byte, wrapped kms.Wrapped) (int, error) {
	stored, err := wrapped.Encode()
	if err != nil {
		return 0, err
	}
	moved, err := s.queries().RewrapRootKey(ctx, db.RewrapRootKeyParams{
		KmsID: wrapped.Key.ID, KmsVersion: int64(wrapped.Key.Version), Wrapped: stored, Old: old,
	})
	if err != nil {
		return 0, unavailable("store the root", err)
	}
	return int(moved), nil
}

func (s *Sealer) moveOrgKey(ctx context.Context, row db.OrgKeysToRewrapRow, wrapped kms.Wrapped) (int, error) {
	stored, err := wrapped.Encode()
	if err != nil {
		return 0, err
	}
	moved, err := s.queries().RewrapOrgKey(ctx, db.RewrapOrgKeyParams{
		KmsID: wrapped.Key.ID, KmsVersion: int64(wrapped.Key.Version), Wrapped: stored, OrgID: row.OrgID, Version: row.Version, Old: row.Wrapped,
	})
	if err != nil {
		return 0, unavailable("store an org key", err)
	}
	return int(moved), nil
}

// dropOldOrgKeys deletes org keys that wrap nothing any more. It deletes none if a data key is being added with one
// of them at the same time; the next Rewrap retries.
func (s *Sealer) dropOldOrgKeys(ctx context.Context, org id.Org, newest int32) (int, error) {
	dropped, err := s.queries().DropOldOrgKeys(ctx, db.DropOldOrgKeysParams{OrgID: org, Newest: newest})
	switch {
	case isForeignKey(err):
		return 0, nil
	case err != nil:
		return 0, unavailable("drop old org keys", err)
	}
	return int(dropped), nil
}
