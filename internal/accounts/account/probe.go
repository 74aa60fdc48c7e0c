package account

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// DueShards lists the shards that have accounts which are due for a probe.
func (s *Accounts) DueShards(ctx context.Context) ([]int, error) {
	now, err := s.Time(ctx)
	if err != nil {
		return nil, err
	}
	return dueShards(ctx, s.DB.Pool(), now)
}

// Due takes up to most accounts of a shard that are due for a probe. They are the caller's for the time of the lease; whoever does not
// say by then how it went (Checked, Trigger, Probe) loses them to others.
func (s *Accounts) Due(ctx context.Context, shard, most int, lease time.Duration) ([]Ref, error) {
	var list []Ref
	err := s.DB.Tx(ctx, func(tx postgres.Tx) error {
		now, err := s.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		list, err = claim(ctx, tx, shard, most, now, now.Add(lease))
		return err
	})
	return list, err
}

// Checked writes down a probe that changed no state: what a.Health says now, and whether the platform accepted the session.
func (s *Accounts) Checked(ctx context.Context, a Account, good bool) error {
	now, err := s.Time(ctx)
	if err != nil {
		return err
	}
	return checked(ctx, s.DB.Pool(), a, now, good)
}

// Probe sets when an account is looked at next; nil for never.
func (s *Accounts) Probe(ctx context.Context, ref Ref, at *time.Time) error {
	return scheduleProbe(ctx, s.DB.Pool(), ref, at)
}

// Warn tells orgs of sessions that end within a week, and again within a day, up to so many, and says how many it told.
func (s *Accounts) Warn(ctx context.Context, most int) (int, error) {
	told := 0
	err := s.DB.Tx(ctx, func(tx postgres.Tx) error {
		told = 0
		now, err := s.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		list, err := lockWarnings(ctx, tx, now, most)
		if err != nil {
			return err
		}
		for _, ref := range list {
			if err := s.warn(ctx, tx, ref, now); err != nil {
				return err
			}
			told++
		}
		return nil
	})
	return told, err
}

func (s *Accounts) warn(ctx context.Context, tx postgres.Tx, ref Ref, now time.Time) error {
	a, err := s.locked(ctx, tx, ref)
	if errors.Is(err, problem.AccountNotFound.New("")) {
		return nil // it left between two looks
	}
	if err != nil {
		return err
	}
	a.warnAt = nextWarning(a.SessionExpiresAt, now)
	if err := save(ctx, tx, a); err != nil {
		return err
	}
	if a.SessionExpiresAt == nil || a.sessionDead {
		return nil // there is no session any more that could end
	}
	data := transition(a.State, a)
	data["sessionExpiresAt"] = stamp.Time(*a.SessionExpiresAt)
	data["daysLeft"] = int(math.Ceil(max(a.SessionExpiresAt.Sub(now), 0).Hours() / 24))
	return s.Outbox.Add(ctx, tx, a.event(EventSessionExpiring, data))
}
