package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Disconnect takes an account out of use, ends its session on the platform if it can, and destroys what we stored of it: first
// its data key, so that anything a crash leaves cannot be read, then the bodies of its events and deliveries. From the first
// step on, the account is not found and no node starts a call with it. FinishDisconnects finishes what this call cannot.
func (s *Accounts) Disconnect(ctx context.Context, by audit.By, owner id.Org, account id.Account) error {
	actor, err := json.Marshal(by)
	if err != nil {
		return fmt.Errorf("encode who disconnects %s: %w", account, err)
	}
	err = s.DB.Tx(ctx, func(tx postgres.Tx) error {
		now, err := s.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		if err := markDisconnecting(ctx, tx, Ref{owner, account}, actor, now); err != nil {
			return err
		}
		return s.left(ctx, tx, owner, account)
	})
	if err != nil {
		return err
	}
	// The account is gone for its callers whatever happens now, so their going away ends nothing.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Config.SignOutTimeout+finishTimeout)
	defer cancel()
	// What is left of a large account is destroyed by the sweeper. The account is not there for anybody, so that is no failure.
	if err := s.finish(ctx, Ref{owner, account}, purgeInline); err != nil && !errors.Is(err, errPurgeGoesOn) {
		return problem.ServiceUnavailable.New("The account is disconnected and cannot be used any more. Destroying its data is not finished; that goes on by itself.").
			Retry(false).Because(err)
	}
	return nil
}

// How many rows of an account's events and deliveries are purged in the call that deletes it, and by one visit of the sweeper.
const (
	purgeInline = 10_000
	purgeSweep  = 200_000
)

// errPurgeGoesOn means that an account has more rows than are purged at once.
var errPurgeGoesOn = errors.New("the account's events and deliveries are not all purged yet")

// finishTimeout is how long the destruction may take besides the signing out.
const finishTimeout = 10 * time.Second

// FinishDisconnects finishes what was begun at least a while ago and is not done, up to so many accounts, and says how many.
func (s *Accounts) FinishDisconnects(ctx context.Context, ago time.Duration, most int) (int, error) {
	now, err := s.Time(ctx)
	if err != nil {
		return 0, err
	}
	list, err := unfinished(ctx, s.DB.Pool(), now.Add(-ago), most)
	if err != nil {
		return 0, err
	}
	done := 0
	var failures []error
	for _, ref := range list {
		err := s.finish(ctx, ref, purgeSweep)
		if errors.Is(err, errPurgeGoesOn) {
			continue // the next visit goes on
		}
		if err != nil {
			failures = append(failures, err)
			continue
		}
		done++
	}
	return done, errors.Join(failures...)
}

// finish does what is left of a disconnect. Each step may be repeated, and any number of nodes may be at it.
func (s *Accounts) finish(ctx context.Context, ref Ref, most int) error {
	a, err := leaving(ctx, s.DB.Pool(), ref)
	if errors.Is(err, postgres.ErrNoRows) {
		return nil // another one has finished
	}
	if err != nil {
		return err
	}
	if a.Environment, err = s.environment(ctx, ref.Org); err != nil {
		return err
	}
	s.tell(ctx, a)
	s.signOut(ctx, a)
	gone, err := s.Seal.Shred(ctx, ref.Org, string(ref.Account))
	if err != nil {
		return fmt.Errorf("shred %s: %w", ref.Account, err)
	}
	done, err := s.purge(ctx, a, most)
	if err != nil {
		return fmt.Errorf("purge %s: %w", ref.Account, err)
	}
	if !done {
		return errPurgeGoesOn
	}
	return s.bury(ctx, a, gone)
}

// signOut ends the session on the platform. That it cannot be done keeps nobody from leaving.
func (s *Accounts) signOut(ctx context.Context, a Account) {
	driver, ok := s.Drivers(a.Environment)
	if !ok || a.sessionDead {
		return
	}
	_, sealed, err := getSecret(ctx, s.DB.Pool(), a, seal.PurposeSession)
	if err == nil {
		session, opened := s.open(ctx, a, sealed)
		if err = opened; err == nil {
			limited, cancel := context.WithTimeout(ctx, s.Config.SignOutTimeout)
			defer cancel()
			err = driver.SignOut(limited, a.Via(), session)
		}
	}
	if err != nil {
		s.Log.LogAttrs(ctx, slog.LevelInfo, "not signed out upstream", slog.String("account", string(a.ID)), slog.Any("error", err))
	}
}

// bury writes the end of an account in one transaction: its data, the receipt, the entry, the event.
func (s *Accounts) bury(ctx context.Context, a Account, gone seal.Shredded) error {
	now, err := s.Time(ctx)
	if err != nil {
		return err
	}
	// Nothing is sealed for an account that is leaving, so the number stands.
	blobs, err := countSecrets(ctx, s.DB.Pool(), a)
	if err != nil {
		return err
	}
	receipt, err := s.Seal.SignReceipt(ctx, seal.Receipt{
		Account: a.ID, Org: a.Org, DataKey: gone.DataKey, Generations: gone.Generations, Blobs: blobs, PurgedAt: now,
		Covers: append([]string{"session", "credentials"}, s.covers...),
	})
	if err != nil {
		return fmt.Errorf("sign the receipt of %s: %w", a.ID, err)
	}
	return s.DB.Tx(ctx, func(tx postgres.Tx) error {
		by, err := buryRows(ctx, tx, a, receipt, now)
		if errors.Is(err, postgres.ErrNoRows) {
			return nil // another one was faster
		}
		if err != nil {
			return err
		}
		step, err := Next(a.State, Leave, Facts{})
		if err != nil {
			return err
		}
		before := a
		a.State, a.Reason = step.To, ""
		data := transition(before.State, a)
		data["id"], data["ofUserId"], data["by"], data["purgedAt"] = a.ID, before.UpstreamID, actor(by), stamp.Time(now)
		if err := s.Outbox.Add(ctx, tx, a.event(step.Event, data)); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, a.Org, by, string(a.ID), audit.Changes{
			"state": {From: before.State, To: a.State}, "dataKeyId": {From: gone.DataKey}, "purgedAt": {To: now},
		})
	})
}

// Receipt is the signed proof that an account was destroyed, as JSON (seal.VerifyReceipt).
func (s *Accounts) Receipt(ctx context.Context, owner id.Org, account id.Account) (json.RawMessage, error) {
	return receipt(ctx, s.DB.Pool(), owner, account)
}
