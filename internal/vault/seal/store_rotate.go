package seal

import (
	"context"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal/internal/db"
)

// rewrapLock is the name of the lock, as a number.
const rewrapLock = 7_264_002

// exclusive makes this the only process that re-wraps, until release is called or the connection breaks.
func (s *Sealer) exclusive(ctx context.Context) (release func(), err error) {
	conn, err := s.DB.Pool().Acquire(ctx)
	if err != nil {
		return nil, unavailable("connect to re-wrap", err)
	}
	var mine bool
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", rewrapLock).Scan(&mine); err != nil || !mine {
		conn.Release()
		if err != nil {
			return nil, unavailable("lock the keys", err)
		}
		return nil, ErrBusy
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", rewrapLock); err != nil {
			_ = conn.Conn().Close(ctx) // ends the session, and the lock with it
		}
		conn.Release()
	}, nil
}

// The moves below do nothing if the key is not what it was: somebody else was faster.

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

// dropOldOrgKeys leaves a key that a data key is just being added with; the next round comes back to it.
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
