package seal

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tink-crypto/tink-go/v2/tink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal/internal/db"
)

const (
	maintainEvery = time.Minute
	// alarmAfter is how long the key management service may fail before the failure is logged as an error.
	alarmAfter = 5 * time.Minute
	// kmsRate is how many org keys are rewrapped per second. Each takes two calls of the service.
	kmsRate = 50
	// page is how many keys one query reads, and how many data keys one query writes.
	page = 100
	// keepShredded is how long the rows of shredded holders are kept. It should be longer than backups of the main
	// database are kept, so that an account that is restored from one stays shredded.
	keepShredded = 40 * 24 * time.Hour
)

// ErrBusy means that another process is rewrapping.
var ErrBusy = errors.New("another process is rewrapping keys")

// Run handles notifications of shreddings, looks for those that were missed, and, once a minute, checks the key management service, rewraps what older
// keys have wrapped, and deletes old rows. It runs until ctx ends. It logs failures of the maintenance and continues.
func (s *Sealer) Run(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	if s.deps.Bus != nil {
		work.Go(func() error { return s.deps.Bus.Subscribe(ctx, shredPattern, s.handleShred) })
	}
	work.Go(func() error { return s.watchShreds(ctx) })
	work.Go(func() error {
		failing := time.Time{}
		for range clock.Every(ctx, maintainEvery) {
			failing = s.maintain(ctx, failing)
		}
		return nil
	})
	return work.Wait()
}

// maintain runs the maintenance once. failing is the time since which the key management service fails, zero if it
// works; maintain returns its new value. While the service fails, nothing else is done.
func (s *Sealer) maintain(ctx context.Context, failing time.Time) time.Time {
	if err := s.Check(ctx); err != nil {
		if ctx.Err() != nil {
			return failing
		}
		if failing.IsZero() {
			failing = s.deps.Now()
		}
		level := slog.LevelWarn
		if s.deps.Now().Sub(failing) >= alarmAfter {
			level = slog.LevelError
		}
		s.deps.Log.LogAttrs(ctx, level, "key management service is failing", slog.Any(logkey.Error, err), slog.Time(logkey.Since, failing))
		return failing
	}
	if _, err := s.Rewrap(ctx); err != nil && !errors.Is(err, ErrBusy) && ctx.Err() == nil {
		s.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot rewrap keys", slog.Any(logkey.Error, err))
	}
	if rotating, err := s.queries().CountRotating(ctx); err == nil { // an outage of the keyring is logged below
		s.metrics.rotating.Set(float64(rotating))
	}
	before := s.deps.Now().Add(-keepShredded)
	if _, err := s.queries().ForgetShredded(ctx, db.ForgetShreddedParams{Before: &before, Count: 10 * page}); err != nil && ctx.Err() == nil {
		s.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot delete the rows of shredded holders", slog.Any(logkey.Error, err))
	}
	return time.Time{}
}

// Check verifies that the key management service works.
func (s *Sealer) Check(ctx context.Context) error {
	_, err := s.checkKMS(ctx)
	return err
}

// checkKMS does the same, and returns the key that the service wraps with now.
func (s *Sealer) checkKMS(ctx context.Context) (kms.Ref, error) {
	ref, err := s.deps.KMS.Check(ctx)
	if err != nil {
		s.metrics.kmsUp.Set(0)
		return kms.Ref{}, unavailable("check the key management service", err)
	}
	s.metrics.kmsUp.Set(1)
	return ref, nil
}

// Rotate creates a new key for one organisation, or for all if only is empty, and returns the number of new keys. New
// data keys are wrapped with it from now on, existing ones when Rewrap runs, which the nodes do automatically.
func (s *Sealer) Rotate(ctx context.Context, only id.Org) (int, error) {
	if only != "" {
		newest, _, err := s.newestOrgKey(ctx, only)
		if errors.Is(err, postgres.ErrNoRows) {
			return 0, nil
		}
		if err != nil {
			return 0, unavailable("read an org key", err)
		}
		return 1, s.newOrgKey(ctx, only, newest+1)
	}
	rotated, after, pace := 0, id.Org(""), rate.NewLimiter(kmsRate, 1)
	for {
		orgs, err := s.queries().Orgs(ctx, db.OrgsParams{AfterOrg: string(after), Count: page})
		if err != nil {
			return rotated, unavailable("list orgs", err)
		}
		for _, org := range orgs {
			if err := pace.Wait(ctx); err != nil {
				return rotated, unavailable("rotate", err)
			}
			if err := s.newOrgKey(ctx, org.OrgID, org.Newest+1); err != nil {
				return rotated, err
			}
			rotated, after = rotated+1, org.OrgID
		}
		if len(orgs) < page {
			return rotated, nil
		}
	}
}

// Rewrapped counts what one call of Rewrap did.
type Rewrapped struct {
	// OrgKeys, including the root, were rewrapped with the newest key of the key management service, DataKeys with the
	// newest key of their organisation.
	OrgKeys, DataKeys int
	// Dropped org keys were deleted because they wrap nothing any more.
	Dropped int
	// Corrupt keys were not changed; Verify lists them.
	Corrupt int
}

// Rewrap wraps all keys again that an older key has wrapped, at a limited rate. The keys stay usable during that
// time. Only one process does this at a time; the others get ErrBusy.
func (s *Sealer) Rewrap(ctx context.Context) (Rewrapped, error) {
	var done Rewrapped
	release, err := s.lockRewrap(ctx)
	if err != nil {
		return done, err
	}
	defer release()
	newest, err := s.checkKMS(ctx)
	if err != nil {
		return done, err
	}
	err = s.rewrapRoot(ctx, newest, &done)
	if err == nil {
		err = s.rewrapOrgKeys(ctx, newest, &done)
	}
	if err == nil {
		err = s.rewrapDataKeys(ctx, &done)
	}
	s.metrics.rewrapped.Add(float64(done.OrgKeys + done.DataKeys))
	if done != (Rewrapped{}) {
		s.deps.Log.LogAttrs(ctx, slog.LevelInfo, "keys rewrapped", slog.Int(logkey.OrgKeys, done.OrgKeys), slog.Int(logkey.DataKeys, done.DataKeys),
			slog.Int(logkey.Dropped, done.Dropped), slog.Int(logkey.Corrupt, done.Corrupt))
	}
	return done, err
}

// rewrapRoot rewraps the root unless the newest key of the service has already wrapped it.
func (s *Sealer) rewrapRoot(ctx context.Context, newest kms.Ref, done *Rewrapped) error {
	stored, err := s.rootKey(ctx)
	if errors.Is(err, postgres.ErrNoRows) {
		return nil
	}
	if err != nil {
		return unavailable("read the root", err)
	}
	if old, err := kms.ParseWrapped(stored); err == nil && old.Key == newest {
		return nil
	}
	wrapped, err := s.rewrapWithKMS(ctx, stored, rootAAD())
	if err != nil {
		return countCorruptKey(err, done)
	}
	moved, err := s.moveRoot(ctx, stored, wrapped)
	done.OrgKeys += moved
	return err
}

// rewrapWithKMS unwraps a key and wraps it with the newest key of the key management service.
func (s *Sealer) rewrapWithKMS(ctx context.Context, stored, aad []byte) (kms.Wrapped, error) {
	key, err := s.unwrapWithKMS(ctx, aad, stored)
	if err != nil {
		return kms.Wrapped{}, err
	}
	return s.wrapWithKMS(ctx, key, aad)
}

// countCorruptKey counts and drops ErrCorrupt, so that one corrupt key does not keep the others from being rewrapped.
func countCorruptKey(err error, done *Rewrapped) error {
	if errors.Is(err, ErrCorrupt) {
		done.Corrupt++
		return nil
	}
	return err
}

// rewrapOrgKeys rewraps all org keys that another version than newest has wrapped. The query returns only those, so
// rows that were rewrapped disappear from it; after makes it skip corrupt ones, which stay.
func (s *Sealer) rewrapOrgKeys(ctx context.Context, newest kms.Ref, done *Rewrapped) error {
	after, pace := db.OrgKeysToRewrapRow{}, rate.NewLimiter(kmsRate, 1)
	for {
		rows, err := s.queries().OrgKeysToRewrap(ctx, db.OrgKeysToRewrapParams{
			AfterOrg: string(after.OrgID), AfterVersion: after.Version, KmsID: newest.ID, KmsVersion: int64(newest.Version), Count: page,
		})
		if err != nil {
			return unavailable("list org keys", err)
		}
		for _, row := range rows {
			if err := pace.Wait(ctx); err != nil {
				return unavailable("rewrap", err)
			}
			wrapped, err := s.rewrapWithKMS(ctx, row.Wrapped, orgAAD(row.OrgID, row.Version))
			if err == nil {
				var moved int
				moved, err = s.moveOrgKey(ctx, row, wrapped)
				done.OrgKeys += moved
			}
			if err := countCorruptKey(err, done); err != nil {
				return err
			}
			after = row
		}
		if len(rows) < page {
			return nil
		}
	}
}

// rewrapDataKeys rewraps the data keys of all organisations that have more than one key.
func (s *Sealer) rewrapDataKeys(ctx context.Context, done *Rewrapped) error {
	after, pace := id.Org(""), rate.NewLimiter(rate.Limit(s.deps.Config.RewrapRate), page)
	for {
		orgs, err := s.queries().OrgsInRotation(ctx, db.OrgsInRotationParams{AfterOrg: string(after), Count: page})
		if err != nil {
			return unavailable("list orgs", err)
		}
		for _, org := range orgs {
			if err := s.rewrapOrg(ctx, org, pace, done); err != nil {
				return err
			}
			after = org
		}
		if len(orgs) < page {
			return nil
		}
	}
}

// rewrapOrg wraps the data keys of one organisation with its newest key, and deletes its keys that wrap nothing any
// more.
func (s *Sealer) rewrapOrg(ctx context.Context, org id.Org, pace *rate.Limiter, done *Rewrapped) error {
	newest, wrapped, err := s.newestOrgKey(ctx, org)
	if err != nil {
		return unavailable("read an org key", err)
	}
	to, err := s.unwrapCached(ctx, orgAAD(org, newest), wrapped, cipherOf)
	if err != nil {
		return countCorruptKey(err, done)
	}
	after := db.DataKeysToRewrapRow{}
	for {
		rows, err := s.queries().DataKeysToRewrap(ctx, db.DataKeysToRewrapParams{
			OrgID: org, Newest: newest, AfterHolder: after.Holder, AfterGeneration: after.Generation, Count: page,
		})
		if err != nil {
			return unavailable("list data keys", err)
		}
		if len(rows) == 0 {
			break
		}
		if err := pace.WaitN(ctx, len(rows)); err != nil {
			return unavailable("rewrap", err)
		}
		moved, err := s.moveDataKeys(ctx, org, newest, to.cipher, rows, done)
		if err != nil {
			return err
		}
		done.DataKeys += moved
		after = rows[len(rows)-1]
	}
	// A node may have wrapped a new data key with an older org key in the meantime. That org key then stays until the
	// next Rewrap.
	dropped, err := s.dropOldOrgKeys(ctx, org, newest)
	done.Dropped += dropped
	return err
}

// moveDataKeys rewraps one page of data keys and returns how many were stored. It skips corrupt ones.
func (s *Sealer) moveDataKeys(ctx context.Context, org id.Org, newest int32, to tink.AEAD, rows []db.DataKeysToRewrapRow, done *Rewrapped) (int, error) {
	move := db.RewrapDataKeysParams{OrgID: org, Newest: newest}
	for _, row := range rows {
		h := holderRef{org, row.Holder}
		wrapped, err := s.rewrapDataKey(ctx, h, row, to)
		if err := countCorruptKey(err, done); err != nil {
			return 0, err
		}
		if wrapped != nil {
			move.Holders = append(move.Holders, row.Holder)
			move.Generations = append(move.Generations, row.Generation)
			move.Keys = append(move.Keys, wrapped)
		}
	}
	moved, err := s.queries().RewrapDataKeys(ctx, move)
	if err != nil {
		return 0, unavailable("store data keys", err)
	}
	return int(moved), nil
}

// rewrapDataKey unwraps a data key with the org key of its row, and wraps it with to.
func (s *Sealer) rewrapDataKey(ctx context.Context, h holderRef, row db.DataKeysToRewrapRow, to tink.AEAD) ([]byte, error) {
	from, err := s.unwrapCached(ctx, orgAAD(h.org, row.OrgVersion), row.OrgWrapped, cipherOf)
	if err != nil {
		return nil, err
	}
	var key secret.String
	if key, err = unwrapKey(from.cipher, row.Wrapped, dataAAD(h, row.Generation)); err != nil {
		return nil, err
	}
	return wrapKey(to, key, dataAAD(h, row.Generation))
}
