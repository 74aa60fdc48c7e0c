// Package retention deletes what organisations have beyond the days of their plan. Tables with days of their own drop
// whole days when no plan keeps them any longer; this package deletes the rows of organisations whose plan keeps them for
// a shorter time.
package retention

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Table is data that is kept for a number of days.
type Table struct {
	Name string
	// Days returns how many days an organisation with these limits may keep; negative for all.
	Days func(org.Limits) int
	// Trim removes what is older than keep days, and returns how many rows that were.
	Trim func(ctx context.Context, orgs []string, keep int) (int64, error)
}

// Deps are the dependencies of Sweeper.
type Deps struct {
	Orgs   *org.Orgs
	Tables []Table
	Log    *slog.Logger
}

// Sweeper trims all tables for all organisations.
type Sweeper struct{ deps Deps }

// New returns a Sweeper.
func New(d Deps) *Sweeper { return &Sweeper{d} }

const (
	// sweepEvery is the pause between two sweeps. Data is kept by the day, so that a few a day are enough.
	sweepEvery = 6 * time.Hour
	// chunk is how many organisations are trimmed with one statement.
	chunk = 500
	// graceDays is added to the days of a plan. Within them, a plan that was changed by mistake can be changed back.
	graceDays = 1
)

// Run sweeps regularly until ctx ends. Several nodes may do so: what one has deleted, the others do not find.
func (s *Sweeper) Run(ctx context.Context) error {
	for range clock.Ticks(ctx, sweepEvery) {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot delete what is older than its plan", slog.Any(logkey.Error, err))
		}
	}
	return nil
}

// Sweep trims every table once.
func (s *Sweeper) Sweep(ctx context.Context) error {
	var failures []error
	for after := id.Org(""); ; {
		page, err := s.deps.Orgs.Search(ctx, org.Search{After: after}, chunk)
		if err != nil {
			return errors.Join(append(failures, err)...)
		}
		for _, table := range s.deps.Tables {
			for keep, orgs := range byDays(page, table) {
				rows, err := table.Trim(ctx, orgs, keep+graceDays)
				if err != nil {
					failures = append(failures, err)
				}
				if rows > 0 {
					s.deps.Log.LogAttrs(ctx, slog.LevelInfo, "deleted what is older than its plan", slog.String(logkey.Table, table.Name),
						slog.Int(logkey.Days, keep), slog.Int64(logkey.Dropped, rows))
				}
			}
		}
		if len(page) < chunk {
			return errors.Join(failures...)
		}
		after = page[len(page)-1].ID
	}
}

// byDays groups organisations by how many days of a table they keep.
func byDays(page []org.Org, t Table) map[int][]string {
	groups := map[int][]string{}
	for _, o := range page {
		if days := t.Days(o.Limits); days >= 0 {
			groups[days] = append(groups[days], string(o.ID))
		}
	}
	return groups
}
