package seal

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tink-crypto/tink-go/v2/tink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal/internal/db"
)

const (
	roundEvery = time.Minute
	// alarmAfter is how long the key management service may fail before that is an error.
	alarmAfter = 5 * time.Minute
	// kmsRate is how many org keys are re-wrapped per second; each takes two calls of the service.
	kmsRate = 50
	// page is how many keys are read, and how many data keys are written, at once.
	page = 100
	// keepShredded is longer than backups of the main database are kept: an account that is restored from one stays shredded.
	keepShredded = 40 * 24 * time.Hour
)

// ErrBusy means that another process is re-wrapping.
var ErrBusy = errors.New("another process is re-wrapping keys")

// Run listens for shreddings, checks the key management service, and re-wraps what was wrapped by older keys, until the
// context ends. It goes on when any of them fails.
func (s *Sealer) Run(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	if s.Bus != nil {
		work.Go(func() error { return s.Bus.Listen(ctx, shredPattern, s.heardShred) })
	}
	work.Go(func() error {
		failing := time.Time{}
		tick := time.NewTicker(roundEvery)
		defer tick.Stop()
		for {
			failing = s.round(ctx, failing)
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	})
	return work.Wait()
}

// round does what is due. It takes and gives since when the key management service fails; zero if it does not.
func (s *Sealer) round(ctx context.Context, failing time.Time) time.Time {
	if err := s.Check(ctx); err != nil {
		if ctx.Err() != nil {
			return failing
		}
		if failing.IsZero() {
			failing = s.Now()
		}
		level := slog.LevelWarn
		if s.Now().Sub(failing) >= alarmAfter {
			level = slog.LevelError
		}
		s.Log.LogAttrs(ctx, level, "the key management service fails", slog.Any("error", err), slog.Time("since", failing))
		return failing
	}
	if _, err := s.Rewrap(ctx); err != nil && !errors.Is(err, ErrBusy) && ctx.Err() == nil {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "keys not re-wrapped", slog.Any("error", err))
	}
	if rotating, err := s.queries().CountRotating(ctx); err == nil { // if not, the next warning says so
		s.metrics.rotating.Set(float64(rotating))
	}
	before := s.Now().Add(-keepShredded)
	if _, err := s.queries().ForgetShredded(ctx, db.ForgetShreddedParams{Before: &before, Count: 10 * page}); err != nil && ctx.Err() == nil {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "shredded holders not forgotten", slog.Any("error", err))
	}
	return time.Time{}
}

// Check asks the key management service to prove that it works.
func (s *Sealer) Check(ctx context.Context) error {
	_, err := s.checkKMS(ctx)
	return err
}

func (s *Sealer) checkKMS(ctx context.Context) (kms.Ref, error) {
	ref, err := s.KMS.Check(ctx)
	if err != nil {
		s.metrics.kmsUp.Set(0)
		return kms.Ref{}, unavailable("check the key management service", err)
	}
	s.metrics.kmsUp.Set(1)
	return ref, nil
}

// Rotate gives an org a new key, or every org if it is empty, and says how many got one. New data keys are wrapped by it
// from now on, older ones when they are re-wrapped, which the nodes do by themselves; see Rewrap.
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

// Rewrapped says what one Rewrap did.
type Rewrapped struct {
	// OrgKeys, with the root, were moved to the newest key of the key management service, DataKeys to the newest of their org.
	OrgKeys, DataKeys int
	// Dropped is how many org keys were deleted because nothing needs them any more.
	Dropped int
	// Corrupt keys were left as they are; Verify lists them.
	Corrupt int
}

// Rewrap wraps everything again that was wrapped by an older key, at a bounded rate, while it is in use. One process does
// it at a time; the others get ErrBusy.
func (s *Sealer) Rewrap(ctx context.Context) (Rewrapped, error) {
	var done Rewrapped
	release, err := s.exclusive(ctx)
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
		s.Log.LogAttrs(ctx, slog.LevelInfo, "keys re-wrapped", slog.Int("org_keys", done.OrgKeys), slog.Int("data_keys", done.DataKeys),
			slog.Int("dropped", done.Dropped), slog.Int("corrupt", done.Corrupt))
	}
	return done, err
}

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
	wrapped, err := s.again(ctx, stored, rootAAD())
	if err != nil {
		return tolerate(err, done)
	}
	moved, err := s.moveRoot(ctx, stored, wrapped)
	done.OrgKeys += moved
	return err
}

// again wraps something with the newest key of the key management service.
func (s *Sealer) again(ctx context.Context, stored, aad []byte) (kms.Wrapped, error) {
	key, err := s.askKMS(ctx, aad, stored)
	if err != nil {
		return kms.Wrapped{}, err
	}
	return s.wrap(ctx, key, aad)
}

// tolerate counts what is corrupt, so that one bad key does not stop all others from being re-wrapped.
func tolerate(err error, done *Rewrapped) error {
	if errors.Is(err, ErrCorrupt) {
		done.Corrupt++
		return nil
	}
	return err
}

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
				return unavailable("re-wrap", err)
			}
			wrapped, err := s.again(ctx, row.Wrapped, orgAAD(row.OrgID, row.Version))
			if err == nil {
				var moved int
				moved, err = s.moveOrgKey(ctx, row, wrapped)
				done.OrgKeys += moved
			}
			if err := tolerate(err, done); err != nil {
				return err
			}
			after = row
		}
		if len(rows) < page {
			return nil
		}
	}
}

func (s *Sealer) rewrapDataKeys(ctx context.Context, done *Rewrapped) error {
	after, pace := id.Org(""), rate.NewLimiter(rate.Limit(s.Config.RewrapRate), page)
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

// rewrapOrg moves the data keys of one org to its newest key, and drops the org's keys that are not needed any more.
func (s *Sealer) rewrapOrg(ctx context.Context, org id.Org, pace *rate.Limiter, done *Rewrapped) error {
	newest, wrapped, err := s.newestOrgKey(ctx, org)
	if err != nil {
		return unavailable("read an org key", err)
	}
	to, err := s.unwrap(ctx, orgAAD(org, newest), wrapped, cipherOf)
	if err != nil {
		return tolerate(err, done)
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
			return unavailable("re-wrap", err)
		}
		moved, err := s.moveDataKeys(ctx, org, newest, to.cipher, rows, done)
		if err != nil {
			return err
		}
		done.DataKeys += moved
		after = rows[len(rows)-1]
	}
	dropped, err := s.dropOldOrgKeys(ctx, org, newest)
	done.Dropped += dropped
	return err
}

func (s *Sealer) moveDataKeys(ctx context.Context, org id.Org, newest int32, to tink.AEAD, rows []db.DataKeysToRewrapRow, done *Rewrapped) (int, error) {
	move := db.RewrapDataKeysParams{OrgID: org, Newest: newest}
	for _, row := range rows {
		h := holderRef{org, row.Holder}
		wrapped, err := s.rewrapOne(ctx, h, row, to)
		if err := tolerate(err, done); err != nil {
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

func (s *Sealer) rewrapOne(ctx context.Context, h holderRef, row db.DataKeysToRewrapRow, to tink.AEAD) ([]byte, error) {
	from, err := s.unwrap(ctx, orgAAD(h.org, row.OrgVersion), row.OrgWrapped, cipherOf)
	if err != nil {
		return nil, err
	}
	var key secret.String
	if key, err = unwrapKey(from.cipher, row.Wrapped, dataAAD(h, row.Generation)); err != nil {
		return nil, err
	}
	return wrapKey(to, key, dataAAD(h, row.Generation))
}
