// Package erasure destroys everything of an organisation when the grace period of its deletion has ended, and writes the
// receipt. It owns no tables: accounts, keys and people are destroyed by the packages that own them, and all other rows
// are found in the schema, by the column org_id. Package org decides what is due and keeps the tombstone.
//
// Start with Eraser.erase. One process works at a time. Every step can be repeated, so if it dies half-way, any other
// continues.
package erasure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/objects"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// column is the column that marks the rows of an organisation, in every table that has such rows.
const column = "org_id"

const (
	// roundLock is the key of the advisory lock of Round.
	roundLock = 7_264_044
	// roundEvery is the pause between two rounds.
	roundEvery = time.Minute
	// pageOrgs is how many organisations one query returns.
	pageOrgs = 100
	// eraseTimeout bounds the time for one organisation; the next round continues.
	eraseTimeout = 10 * time.Minute
	// sweepFor is how long rows are looked for that were written after the organisation was destroyed, such as usage that
	// a node could not write before.
	sweepFor = time.Hour
)

// sealer destroys keys and signs receipts; *seal.Sealer implements it.
type sealer interface {
	ShredOrg(ctx context.Context, org id.Org) error
	SignReceipt(ctx context.Context, r seal.Receipt) ([]byte, error)
}

// Config holds the settings.
type Config struct {
	// Settle is the least time between the begin and the end of a purge. By its end no node uses an identity of the
	// organisation that it read before, and every node has written what it had in memory, such as usage. Default: 2
	// minutes.
	Settle time.Duration
}

// Deps are the dependencies of an Eraser.
type Deps struct {
	Config   Config
	DB       *postgres.DB
	Orgs     *org.Orgs
	Accounts *account.Accounts
	Members  *member.Members
	Seal     sealer
	// Objects may be nil.
	Objects *objects.Store
	// Ticker returns a channel that receives a value at every interval, and a function that stops it.
	Ticker func(every time.Duration) (tick <-chan time.Time, stop func())
	Log    *slog.Logger
}

// Eraser destroys organisations whose grace period has ended.
type Eraser struct{ deps Deps }

// New returns an Eraser that does nothing until Run.
func New(d Deps) *Eraser {
	d.Config.Settle = cmp.Or(d.Config.Settle, 2*time.Minute)
	return &Eraser{d}
}

// Run destroys what is due, until ctx ends.
func (e *Eraser) Run(ctx context.Context) error {
	tick, stop := e.deps.Ticker(roundEvery)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
			if err := e.Round(ctx); err != nil && ctx.Err() == nil {
				e.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot destroy deleted organisations",
					slog.Any(logkey.Error, err))
			}
		}
	}
}

// Round goes on with organisations whose grace period has ended. An organisation that fails does not hold up the others.
// It does nothing while another process is in a round.
func (e *Eraser) Round(ctx context.Context) error {
	release, ok, err := e.deps.DB.TryLock(ctx, roundLock)
	if err != nil || !ok {
		return err
	}
	defer release()
	buried := func(after id.Org) ([]id.Org, error) { return e.deps.Orgs.Buried(ctx, sweepFor, after, pageOrgs) }
	due := func(after id.Org) ([]id.Org, error) { return e.deps.Orgs.Due(ctx, after, pageOrgs) }
	return errors.Join(eachOrg(buried, func(owner id.Org) error { return e.deleteRows(ctx, owner) }),
		eachOrg(due, func(owner id.Org) error { return e.erase(ctx, owner) }))
}

// eachOrg calls do for each organisation of a list that is read page by page, and returns all errors.
func eachOrg(page func(after id.Org) ([]id.Org, error), do func(owner id.Org) error) error {
	var failures []error
	for last := id.Org(""); ; {
		list, err := page(last)
		if err != nil {
			return errors.Join(append(failures, err)...)
		}
		for _, owner := range list {
			if err := do(owner); err != nil {
				failures = append(failures, fmt.Errorf("destroy %s: %w", owner, err))
			}
			last = owner
		}
		if len(list) < pageOrgs {
			return errors.Join(failures...)
		}
	}
}

// Covers lists what the receipt of an organisation names as destroyed.
func Covers() []string {
	return append(account.Sealed(), "accounts", "keys", "members", "usage", "audit")
}

// erase takes all steps for one organisation, those first that make its data unreadable. It ends with the receipt, or
// leaves the rest to the next round.
func (e *Eraser) erase(ctx context.Context, owner id.Org) error {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	by := audit.By{Kind: audit.ActorSystem, ID: "erasure", Label: "deletion of the organisation", Action: audit.ActionPurge}
	started, ok, err := e.deps.Orgs.StartPurge(ctx, owner)
	if err != nil || !ok {
		return err
	}
	leave := by
	leave.Action = "account.disconnect"
	if err := e.deps.Accounts.DisconnectAll(ctx, leave, owner); err != nil {
		return fmt.Errorf("disconnect accounts: %w", err)
	}
	if err := e.deps.Seal.ShredOrg(ctx, owner); err != nil {
		return err
	}
	if e.deps.Objects != nil {
		if err := e.deps.Objects.Delete(ctx, owner, ""); err != nil {
			return err
		}
	}
	if err := e.deps.Members.Disband(ctx, owner); err != nil {
		return fmt.Errorf("delete members: %w", err)
	}
	if err := e.deleteRows(ctx, owner); err != nil {
		return err
	}
	now, err := e.deps.DB.Now(ctx, e.deps.DB)
	if err != nil || now.Before(started.Add(e.deps.Config.Settle)) {
		return err // the next round deletes what nodes have written in the meantime
	}
	receipt, err := e.deps.Seal.SignReceipt(ctx, seal.Receipt{Org: owner, Covers: Covers(), PurgedAt: now})
	if err != nil {
		return fmt.Errorf("sign the receipt: %w", err)
	}
	if err := e.deps.Orgs.FinishPurge(ctx, owner, by, now, receipt); err != nil {
		return err
	}
	e.deps.Log.LogAttrs(ctx, slog.LevelInfo, "organisation destroyed", slog.String(logkey.OrgID, string(owner)))
	return nil
}

// deleteRows deletes the organisation's rows in all tables, whichever package owns them.
func (e *Eraser) deleteRows(ctx context.Context, owner id.Org) error {
	tables, err := e.deps.DB.TablesWith(ctx, column)
	if err != nil {
		return err
	}
	for _, table := range tables {
		if _, err := e.deps.DB.DeleteRows(ctx, table, column, string(owner)); err != nil {
			return err
		}
	}
	return nil
}
