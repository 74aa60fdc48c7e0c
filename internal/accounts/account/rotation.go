package account

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

const (
	// rotationPause is short, because the stored session is used again as soon as the database is back.
	rotationPause = 250 * time.Millisecond
	// rotationPatience bounds how long cookies that could not be stored stay in memory.
	rotationPatience = time.Hour
)

// rotation is a change of cookies that could not be stored.
type rotation struct {
	account Account
	names   []string
	session driver.Session
}

// rotations holds the newest change of each account that is still to be stored.
type rotations struct {
	mu     sync.Mutex
	queued map[id.Account]*rotation
}

// add queues a change, together with what only an earlier one changed, and reports whether none was queued for the account.
func (q *rotations) add(r rotation) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	before, found := q.queued[r.account.ID]
	if found {
		older := slices.DeleteFunc(slices.Clone(before.names), func(name string) bool { return slices.Contains(r.names, name) })
		r = rotation{before.account, slices.Concat(r.names, older), r.session.Merge(before.session, older)}
	}
	if q.queued == nil {
		q.queued = map[id.Account]*rotation{}
	}
	q.queued[r.account.ID] = &r
	return !found
}

// get returns the queued change of an account; nil if there is none.
func (q *rotations) get(account id.Account) *rotation {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queued[account]
}

// end removes a change, unless a newer one has been queued since. It reports whether the queue of the account is empty.
func (q *rotations) end(r *rotation) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queued[r.account.ID] == r {
		delete(q.queued, r.account.ID)
	}
	return q.queued[r.account.ID] == nil
}

func (q *rotations) drop(account id.Account) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.queued, account)
}

// isOutage reports whether cookies could not be stored only because the database or the keys cannot be reached.
func isOutage(err error) bool {
	return err != nil && (postgres.Unavailable(err) || errors.Is(err, seal.ErrUnavailable))
}

// storeLater stores cookies as soon as the database can be reached again. By then the platform may no longer accept the
// old ones, so the account would need a new sign-in without these.
func (s *Accounts) storeLater(ctx context.Context, r rotation) {
	if !s.rotations.add(r) {
		return
	}
	ctx, cancel := context.WithTimeout(postgres.WithOrg(context.WithoutCancel(ctx), r.account.Org), rotationPatience)
	go func() {
		defer cancel()
		for range clock.Every(ctx, rotationPause) {
			newest := s.rotations.get(r.account.ID)
			if newest == nil {
				return // a later change has been stored
			}
			_, err := s.rotate(ctx, newest.account, newest.names, newest.session)
			if isOutage(err) {
				continue
			}
			if err != nil {
				s.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot store rotated cookies", slog.String(logkey.Account, string(r.account.ID)), slog.Any(logkey.Error, err))
			}
			if s.rotations.end(newest) {
				return
			}
		}
		s.rotations.drop(r.account.ID) // it has waited too long
	}()
}
