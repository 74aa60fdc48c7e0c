package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagedoor/stagedoor/internal/accounts/account/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Disconnect takes an account out of use, ends its session on the platform if it can, and destroys what is stored of
// it: first its data key, so that anything a crash leaves behind cannot be read, then the bodies of its events and
// deliveries. After the first commit the account is not found and no node starts a call with it. FinishDisconnects
// completes what this call could not.
func (s *Accounts) Disconnect(ctx context.Context, by audit.By, owner id.Org, account id.Account) error {
	if err := s.beginDisconnect(ctx, by, owner, account); err != nil {
		return err
	}
	// For callers the account no longer exists, so the rest runs even if this caller goes away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.deps.Config.SignOutTimeout+finishTimeout)
	defer cancel()
	// The sweeper purges the rest of a large account. The account is out of use, so this is not an error.
	if err := s.finishDisconnect(ctx, Ref{owner, account}, purgeInline); err != nil && !errors.Is(err, errPurgePending) {
		return problem.ServiceUnavailable.New("The account is disconnected and can no longer be used. " +
			"Deleting its data is not finished and will complete automatically.").Retry(false).Because(err)
	}
	return nil
}

// beginDisconnect takes an account out of use. It is not found if that was done before.
func (s *Accounts) beginDisconnect(ctx context.Context, by audit.By, owner id.Org, account id.Account) error {
	actor, err := json.Marshal(by)
	if err != nil {
		return fmt.Errorf("encode who disconnects %s: %w", account, err)
	}
	return s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		now, err := s.deps.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		if err := markDisconnecting(ctx, tx, Ref{owner, account}, actor, now); err != nil {
			return err
		}
		return s.onDisconnect(ctx, tx, owner, account)
	})
}

// leaveBatch is how many accounts one query of DisconnectAll reads, leaveTogether how many it disconnects concurrently:
// platforms may be slow to sign out.
const (
	leaveBatch    = 100
	leaveTogether = 8
)

// DisconnectAll disconnects all accounts of an org, and returns nil when nothing of them is left that a disconnect
// deletes. It can be repeated after a failure, and several nodes may call it concurrently.
func (s *Accounts) DisconnectAll(ctx context.Context, by audit.By, owner id.Org) error {
	for {
		list, err := db.New(s.deps.DB).Remaining(ctx, db.RemainingParams{OrgID: owner, MaxRows: leaveBatch})
		if err != nil || len(list) == 0 {
			return err
		}
		var group errgroup.Group
		group.SetLimit(leaveTogether)
		for _, row := range list {
			group.Go(func() error {
				if !row.Leaving {
					err := s.beginDisconnect(ctx, by, owner, row.ID)
					if err != nil && !errors.Is(err, notFound()) {
						return err
					}
				}
				err := s.finishDisconnect(ctx, Ref{owner, row.ID}, purgeSweep)
				if errors.Is(err, errPurgePending) {
					return nil // the next round continues
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
}

// purgeInline bounds the rows of events and deliveries that Disconnect purges itself, purgeSweep those that one pass of
// FinishDisconnects purges per account.
const (
	purgeInline = 10_000
	purgeSweep  = 200_000
)

// errPurgePending means that an account has more rows than one call may purge.
var errPurgePending = errors.New("the account's events and deliveries are not all purged yet")

// finishTimeout bounds the deletion, without the time for signing out.
const finishTimeout = 10 * time.Second

// FinishDisconnects completes up to most disconnects that began at least ago and did not finish, and returns how many
// it completed. The delay leaves a disconnect to the call that began it.
func (s *Accounts) FinishDisconnects(ctx context.Context, ago time.Duration, most int) (int, error) {
	now, err := s.Time(ctx)
	if err != nil {
		return 0, err
	}
	before := now.Add(-ago)
	list, err := db.New(s.deps.DB).Unfinished(ctx, db.UnfinishedParams{Before: &before, MaxRows: int32(most)})
	if err != nil {
		return 0, err
	}
	done := 0
	var failures []error
	for _, row := range list {
		err := s.finishDisconnect(ctx, Ref(row), purgeSweep)
		if errors.Is(err, errPurgePending) {
			continue // the next pass continues
		}
		if err != nil {
			failures = append(failures, err)
			continue
		}
		done++
	}
	return done, errors.Join(failures...)
}

// finishDisconnect performs the remaining steps of a disconnect and purges at most about most rows. Every step can be
// repeated, and several nodes may do so concurrently.
func (s *Accounts) finishDisconnect(ctx context.Context, ref Ref, most int) error {
	a, err := getDisconnecting(ctx, s.deps.DB, ref)
	if errors.Is(err, postgres.ErrNoRows) {
		return nil // already finished
	}
	if err != nil {
		return err
	}
	if a.Environment, err = s.environment(ctx, ref.Org); err != nil {
		return err
	}
	s.publishVersion(ctx, a)
	s.signOut(ctx, a)
	gone, err := s.deps.Seal.Shred(ctx, ref.Org, string(ref.Account))
	if err != nil {
		return fmt.Errorf("shred %s: %w", ref.Account, err)
	}
	done, err := s.purge(ctx, a, most)
	if err != nil {
		return fmt.Errorf("purge %s: %w", ref.Account, err)
	}
	if !done {
		return errPurgePending
	}
	return s.writeTombstone(ctx, a, gone)
}

// signOut ends the session on the platform. A failure is only logged, because it must not keep an account from being
// disconnected.
func (s *Accounts) signOut(ctx context.Context, a Account) {
	platform, ok := s.deps.Platforms(a.Place.Platform)
	if !ok || a.sessionDead {
		return
	}
	_, sealed, err := getSecret(ctx, s.deps.DB, a, seal.PurposeSession)
	if err == nil {
		session, opened := s.openSession(ctx, a, sealed)
		if err = opened; err == nil {
			limited, cancel := context.WithTimeout(ctx, s.deps.Config.SignOutTimeout)
			defer cancel()
			err = platform.Driver.SignOut(limited, a.Via(), session)
		}
	}
	if err != nil {
		s.deps.Log.LogAttrs(ctx, slog.LevelInfo, "cannot sign out of the platform", slog.String(logkey.Account, string(a.ID)),
			slog.Any(logkey.Error, err))
	}
}

// Sealed lists what is sealed with the data key of an account, as receipts name it. All of it is unreadable once the key
// is shredded.
func Sealed() []string {
	return []string{"session", "credentials", "events", "deliveries", "jobResults"}
}

// writeTombstone ends an account in one transaction: it deletes the sealed secrets, empties the row, and writes the
// receipt, the audit entry and the event.
func (s *Accounts) writeTombstone(ctx context.Context, a Account, gone seal.Shredded) error {
	now, err := s.Time(ctx)
	if err != nil {
		return err
	}
	receipt, err := s.deps.Seal.SignReceipt(ctx, seal.Receipt{
		Account: a.ID, Org: a.Org, DataKey: gone.DataKey, Covers: Sealed(), PurgedAt: now,
	})
	if err != nil {
		return fmt.Errorf("sign the receipt of %s: %w", a.ID, err)
	}
	return s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		by, err := writeTombstoneRows(ctx, tx, a, receipt, now)
		if errors.Is(err, postgres.ErrNoRows) {
			return nil // another node has written it
		}
		if err != nil {
			return err
		}
		step, err := Next(a.State, Disconnect, Facts{})
		if err != nil {
			return err
		}
		before := a
		a.State, a.Reason = step.To, ""
		if err := s.deps.Outbox.Add(ctx, tx, a.event(step.event(change{before: before, after: a, by: by, at: now}))); err != nil {
			return err
		}
		return s.deps.Audit.Record(ctx, tx, a.Org, by, string(a.ID), audit.Changes{
			"state": {From: before.State, To: a.State}, "dataKeyId": {From: gone.DataKey}, "purgedAt": {To: now},
		})
	})
}

// Receipt returns the signed proof that an account was deleted, as JSON (seal.VerifyReceipt).
func (s *Accounts) Receipt(ctx context.Context, owner id.Org, account id.Account) (json.RawMessage, error) {
	text, err := db.New(s.deps.DB).Receipt(ctx, db.ReceiptParams{OrgID: owner, AccountID: account})
	return text, orNotFound(err)
}
