package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/admission/internal/db"
)

func (l *Limiter) monthUsed(ctx context.Context, org id.Org, month int) (int64, error) {
	used, err := db.New(l.DB.Pool()).MonthUsed(ctx, db.MonthUsedParams{OrgID: org, Month: int32(month)})
	if err != nil {
		return 0, fmt.Errorf("read month of %s: %w", org, err)
	}
	return used, nil
}

// rebuild takes the lock first and reads the total second, so that every sum added before is in the reading and every sum
// added after learns of the new incarnation. The epoch is held until Redis has it: were it to advance meanwhile, and the
// news of that be flushed away, the older one would come back.
func (l *Limiter) rebuild(ctx context.Context, org id.Org, month int) (incarnation int64, answer string, err error) {
	err = l.DB.Tx(ctx, func(tx postgres.Tx) error {
		q := db.New(tx)
		epoch, err := l.epochs.HoldEpoch(ctx, tx, org)
		if err != nil {
			return err
		}
		if incarnation, err = q.NextIncarnation(ctx, org); err != nil {
			return fmt.Errorf("next incarnation of %s: %w", org, err)
		}
		used, err := q.MonthUsed(ctx, db.MonthUsedParams{OrgID: org, Month: int32(month)})
		if err != nil {
			return fmt.Errorf("read month of %s: %w", org, err)
		}
		answer, err = l.tell(ctx, l.scripts.prime, org, epoch, incarnation, int64(month), used)
		return err
	})
	return incarnation, answer, err
}

// ledgerRow is an org's ledger as a batch met it.
type ledgerRow struct {
	incarnation, lifted int64
	liftedMonth         int
	liftedAt            time.Time
	// owed is what the shared counters lacked before this batch, whoever admitted it; doubted that a node doubts them.
	owed    int64
	doubted bool
}

// included says that the database has these calls already, by way of the shared counters.
func (r ledgerRow) included(s settled) bool {
	return s.incarnation > 0 && s.incarnation <= r.lifted && s.month == r.liftedMonth
}

// lacks says that the shared counters do not have these calls.
func (r ledgerRow) lacks(s settled) bool { return s.incarnation < r.incarnation && !r.included(s) }

// addToMonths adds a batch and returns the ledgers of its orgs. applied is false if an earlier try had added it.
func (l *Limiter) addToMonths(ctx context.Context, number int64, batch []settled) (ledgers map[id.Org]ledgerRow, applied bool, err error) {
	orgs := make([]string, len(batch))
	for i, b := range batch {
		orgs[i] = string(b.org)
	}
	orgs = slices.Compact(orgs)
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
		held, err := q.HoldLedgers(ctx, orgs)
		if err != nil {
			return fmt.Errorf("hold ledgers: %w", err)
		}
		ledgers = make(map[id.Org]ledgerRow, len(held))
		for _, h := range held {
			ledgers[h.OrgID] = ledgerRow{h.Incarnation, h.Lifted, int(h.LiftedMonth), h.LiftedAt, h.Owed, h.Doubted}
		}
		missing := slices.DeleteFunc(slices.Clone(batch), func(s settled) bool { return ledgers[s.org].included(s) })
		if err := q.AddToMonths(ctx, sum(missing)); err != nil {
			return fmt.Errorf("add to months: %w", err)
		}
		owed := sum(slices.DeleteFunc(missing, func(s settled) bool { return !ledgers[s.org].lacks(s) }))
		if err := q.Owe(ctx, db.OweParams{Orgs: owed.OrgIds, Months: owed.Months, Calls: owed.Counts}); err != nil {
			return fmt.Errorf("note what is owed: %w", err)
		}
		return nil
	})
	return ledgers, applied, err
}

// pay credits the shared counters with what they lack. The ledger is locked meanwhile: they cannot be rebuilt, and two
// nodes cannot pay the same.
func (l *Limiter) pay(ctx context.Context, org id.Org) error {
	return l.DB.Tx(ctx, func(tx postgres.Tx) error {
		q := db.New(tx)
		ledger, err := q.LockLedger(ctx, org)
		if err != nil {
			return fmt.Errorf("lock ledger of %s: %w", org, err)
		}
		if ledger.Owed == 0 || ledger.Doubted {
			return nil
		}
		result, err := l.tell(ctx, l.scripts.credit, org, ledger.Owed, ledger.Incarnation, int64(ledger.OwedMonth))
		if err != nil {
			return err
		}
		if result != "done" {
			return nil // gone or moved: they are about to be rebuilt, from a reading that has these calls
		}
		if err := q.Paid(ctx, org); err != nil {
			return fmt.Errorf("note payment of %s: %w", org, err)
		}
		return nil
	})
}

// lift takes the shared counters' total over, because a node died that may not have added all it admitted. The ledger
// is locked meanwhile: a batch is either in before, or finds its calls included.
func (l *Limiter) lift(ctx context.Context, org id.Org, died time.Time) error {
	return l.DB.Tx(ctx, func(tx postgres.Tx) error {
		q := db.New(tx)
		ledger, err := q.LockLedger(ctx, org)
		if err != nil {
			return fmt.Errorf("lock ledger of %s: %w", org, err)
		}
		if ledger.Doubted || ledger.LiftedAt.After(died) {
			return nil // a rebuild is due, or another node was faster
		}
		next := ledger.Incarnation + 1
		answer, err := l.tell(ctx, l.scripts.lift, org, ledger.Incarnation, next)
		if err != nil {
			return err
		}
		var month int
		var used int64
		if n, _ := fmt.Sscanf(answer, "%d %d", &month, &used); n != 2 {
			return nil // gone or moved: they are about to be rebuilt, so they have nothing to tell
		}
		if int(ledger.OwedMonth) == month {
			used += ledger.Owed // the database has these, the counters do not yet
		}
		err = q.SetLifted(ctx, db.SetLiftedParams{OrgID: org, Incarnation: next, Lifted: ledger.Incarnation, Month: int32(month), Now: l.Now()})
		if err != nil {
			return fmt.Errorf("mark ledger of %s: %w", org, err)
		}
		if err := q.SetMonth(ctx, db.SetMonthParams{OrgID: org, Month: int32(month), Used: used}); err != nil {
			return fmt.Errorf("take over month of %s: %w", org, err)
		}
		return nil
	})
}

// doubt marks orgs whose shared counters may have a call twice.
func (l *Limiter) doubt(ctx context.Context, orgs []string) error {
	q := db.New(l.DB.Pool())
	if err := q.OpenLedgers(ctx, orgs); err != nil {
		return fmt.Errorf("open ledgers: %w", err)
	}
	if err := q.Doubt(ctx, orgs); err != nil {
		return fmt.Errorf("note doubts: %w", err)
	}
	return nil
}

// raiseIncarnation follows shared counters that are ahead: a lift had reached them and not the database.
func (l *Limiter) raiseIncarnation(ctx context.Context, org id.Org, incarnation int64) error {
	err := db.New(l.DB.Pool()).RaiseIncarnation(ctx, db.RaiseIncarnationParams{OrgID: org, Incarnation: incarnation})
	if err != nil {
		return fmt.Errorf("raise incarnation of %s: %w", org, err)
	}
	return nil
}

// sum adds up a sorted batch by org and month, because one statement may touch a row only once.
func sum(batch []settled) (sums db.AddToMonthsParams) {
	for i, b := range batch {
		if i > 0 && batch[i-1].org == b.org && batch[i-1].month == b.month {
			sums.Counts[len(sums.Counts)-1] += b.calls
			continue
		}
		sums.OrgIds = append(sums.OrgIds, string(b.org))
		sums.Months = append(sums.Months, int32(b.month))
		sums.Counts = append(sums.Counts, b.calls)
	}
	return sums
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
