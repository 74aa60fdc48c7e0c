package account

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

func (s *Accounts) DueShards(ctx context.Context) ([]int, error) {
	now, err := s.Time(ctx)
	if err != nil {
		return nil, err
	}
	found, err := db.New(s.deps.DB).DueShards(ctx, db.DueShardsParams{Shards: shards(), Now: &now})
	return postgres.Convert(found, func(shard int32) int { return int(shard) }), err
}

// ClaimProbes claims up to most accounts of a shard whose probe is due. It moves their next probe to the end of the
// lease, so they are due again if the caller does not record a result by then (RecordProbe, Trigger, ScheduleProbe).
func (s *Accounts) ClaimProbes(ctx context.Context, shard, most int, lease time.Duration) ([]Ref, error) {
	var list []Ref
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		now, err := s.deps.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		list, err = claimProbes(ctx, tx, shard, most, now, now.Add(lease))
		return err
	})
	return list, err
}

// RecordProbe writes a probe that did not change the state: a.Health, and whether the platform accepted the session.
func (s *Accounts) RecordProbe(ctx context.Context, a Account, good bool) error {
	now, err := s.Time(ctx)
	if err != nil {
		return err
	}
	return recordProbe(ctx, s.deps.DB, a, now, good)
}

// ScheduleProbe sets the time of an account's next probe; nil for none.
func (s *Accounts) ScheduleProbe(ctx context.Context, ref Ref, at *time.Time) error {
	return scheduleProbe(ctx, s.deps.DB, ref, at)
}

// WarnExpiring writes account.session_expiring for up to most sessions that end within a week, and again within a day.
// It returns how many accounts it handled.
func (s *Accounts) WarnExpiring(ctx context.Context, most int) (int, error) {
	handled := 0
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		handled = 0
		now, err := s.deps.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		// Accounts that another worker has locked are skipped.
		list, err := db.New(tx).LockWarnings(ctx, db.LockWarningsParams{Now: &now, MaxRows: int32(most)})
		if err != nil {
			return err
		}
		for _, row := range list {
			if err := s.warnOne(ctx, tx, Ref(row), now); err != nil {
				return err
			}
			handled++
		}
		return nil
	})
	return handled, err
}

func (s *Accounts) warnOne(ctx context.Context, tx postgres.Tx, ref Ref, now time.Time) error {
	a, err := s.lockAccount(ctx, tx, ref)
	if errors.Is(err, problem.AccountNotFound.New("")) {
		return nil // disconnected in the meantime
	}
	if err != nil {
		return err
	}
	a.warnAt = nextWarning(a.SessionExpiresAt, now)
	if err := saveAccount(ctx, tx, a); err != nil {
		return err
	}
	if a.SessionExpiresAt == nil || a.sessionDead {
		return nil // there is no session left that could expire
	}
	return s.deps.Outbox.Add(ctx, tx, a.event(contract.AccountSessionExpiring{
		Transition: a.transitionFrom(a.State), SessionExpiresAt: stamp.Time(*a.SessionExpiresAt),
		DaysLeft: int(math.Ceil(max(a.SessionExpiresAt.Sub(now), 0).Hours() / 24)),
	}))
}
