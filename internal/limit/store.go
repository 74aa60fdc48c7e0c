package limit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/id"
	"github.com/stagedoor/stagedoor/internal/limit/internal/db"
	"github.com/stagedoor/stagedoor/internal/postgres"
)

func (l *Limiter) monthUsed(ctx context.Context, org id.Org, month int) (int64, error) {
	used, err := db.New(l.DB.Pool()).MonthUsed(ctx, db.MonthUsedParams{OrgID: org, Month: int32(month)})
	if err != nil {
		return 0, fmt.Errorf("read month of %s: %w", org, err)
	}
	return used, nil
}

// nextIncarnation takes the lock first and reads the total second, so that every sum added before is in the reading and
// every sum added after learns of the new incarnation.
func (l *Limiter) nextIncarnation(ctx context.Context, org id.Org, month int) (incarnation, used int64, err error) {
	err = l.DB.Tx(ctx, func(tx postgres.Tx) error {
		q := db.New(tx)
		if incarnation, err = q.NextIncarnation(ctx, org); err != nil {
			return fmt.Errorf("next incarnation of %s: %w", org, err)
		}
		if used, err = q.MonthUsed(ctx, db.MonthUsedParams{OrgID: org, Month: int32(month)}); err != nil {
			return fmt.Errorf("read month of %s: %w", org, err)
		}
		return nil
	})
	return incarnation, used, err
}

// addToMonths adds a batch and returns the incarnations of its orgs. applied is false if an earlier try had added it.
func (l *Limiter) addToMonths(ctx context.Context, number int64, batch []settled) (incarnations map[id.Org]int64, applied bool, err error) {
	orgs, sums := sum(batch)
	err = l.DB.Tx(ctx, func(tx postgres.Tx) error {
		q := db.New(tx)
		rows, err := q.TakeBatch(ctx, db.TakeBatchParams{Process: l.Config.Process, Batch: number, Now: l.Now()})
		if err != nil {
			return fmt.Errorf("take batch %d: %w", number, err)
		}
		if applied = rows == 1; !applied {
			return nil
		}
		if err := q.OpenLedgers(ctx, orgs); err != nil {
			return fmt.Errorf("open ledgers: %w", err)
		}
		held, err := q.HoldIncarnations(ctx, orgs)
		if err != nil {
			return fmt.Errorf("hold incarnations: %w", err)
		}
		incarnations = make(map[id.Org]int64, len(held))
		for _, h := range held {
			incarnations[h.OrgID] = h.Incarnation
		}
		if err := q.AddToMonths(ctx, sums); err != nil {
			return fmt.Errorf("add to months: %w", err)
		}
		return nil
	})
	return incarnations, applied, err
}

// sum adds up a sorted batch by org and month, because one statement may touch a row only once.
func sum(batch []settled) (orgs []string, sums db.AddToMonthsParams) {
	for i, b := range batch {
		same := i > 0 && batch[i-1].org == b.org
		if !same {
			orgs = append(orgs, string(b.org))
		}
		if same && batch[i-1].month == b.month {
			sums.Counts[len(sums.Counts)-1] += b.calls
			continue
		}
		sums.OrgIds = append(sums.OrgIds, string(b.org))
		sums.Months = append(sums.Months, int32(b.month))
		sums.Counts = append(sums.Counts, b.calls)
	}
	return orgs, sums
}

func (l *Limiter) forgetFlushes(ctx context.Context, before time.Time) error {
	if err := db.New(l.DB.Pool()).ForgetFlushes(ctx, before); err != nil {
		return fmt.Errorf("forget flush marks: %w", err)
	}
	return nil
}

func lockConnect(ctx context.Context, tx postgres.Tx, org id.Org, now time.Time) (bucket, error) {
	row, err := db.New(tx).LockConnect(ctx, db.LockConnectParams{OrgID: org, Now: now})
	if err != nil {
		return bucket{}, fmt.Errorf("lock connect attempts of %s: %w", org, err)
	}
	return bucket{row.Level, row.At}, nil
}

func setConnect(ctx context.Context, tx postgres.Tx, org id.Org, b bucket) error {
	if err := db.New(tx).SetConnect(ctx, db.SetConnectParams{OrgID: org, Level: b.level, Now: b.at}); err != nil {
		return fmt.Errorf("count connect attempt of %s: %w", org, err)
	}
	return nil
}

func (l *Limiter) getConnect(ctx context.Context, org id.Org) (bucket, error) {
	row, err := db.New(l.DB.Pool()).GetConnect(ctx, org)
	if errors.Is(err, postgres.ErrNoRows) {
		return bucket{}, nil
	}
	if err != nil {
		return bucket{}, fmt.Errorf("read connect attempts of %s: %w", org, err)
	}
	return bucket{row.Level, row.At}, nil
}
