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

// rebuildInTx takes a new incarnation and writes the org's epoch and total to Redis, in one transaction. It locks the
// ledger before it reads the total: every batch added before is in the total, and every later batch finds the new
// incarnation. It holds the epoch until Redis has it. Otherwise the epoch could advance in between, its announcement
// could be lost in a flush of Redis, and the older epoch would return. answer is that of prime.lua.
func (l *Limiter) rebuildInTx(ctx context.Context, org id.Org, month int) (incarnation int64, answer string, err error) {
	err = l.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
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
		answer, err = l.runOrgScript(ctx, l.scripts.prime, org, epoch, incarnation, int64(month), used)
		return err
	})
	return incarnation, answer, err
}

// ledgerRow is an org's ledger as a batch found it.
type ledgerRow struct {
	// lifted is the newest incarnation whose total was taken over, for liftedMonth.
	incarnation, lifted int64
	liftedMonth         int
	liftedAt            time.Time
	// owed is how many calls the shared counters lacked before this batch. doubted means that some node is in doubt.
	owed    int64
	doubted bool
}

// isIncluded reports whether the database already has these calls, because the shared total that includes them was
// taken over.
func (r ledgerRow) isIncluded(s monthCount) bool {
	return s.incarnation > 0 && s.incarnation <= r.lifted && s.month == r.liftedMonth
}

// isLacking reports whether the shared counters do not have these calls.
func (r ledgerRow) isLacking(s monthCount) bool {
	return s.incarnation < r.incarnation && !r.isIncluded(s)
}

// addToMonths adds a batch to the totals, records what it finds to be owed, and returns the ledgers of the batch's
// orgs. applied is false if an earlier attempt had committed the batch; then nothing is added or returned.
func (l *Limiter) addToMonths(ctx context.Context, number int64, batch []monthCount) (ledgers map[id.Org]ledgerRow, applied bool, err error) {
	orgs := make([]string, len(batch))
	for i, b := range batch {
		orgs[i] = string(b.org)
	}
	orgs = slices.Compact(orgs)
	err = l.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		q := db.New(tx)
		rows, err := q.TakeBatch(ctx, db.TakeBatchParams{Process: l.deps.Config.Process, Batch: number, Now: l.deps.Now()})
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
		missing := slices.DeleteFunc(slices.Clone(batch), func(s monthCount) bool { return ledgers[s.org].isIncluded(s) })
		if err := q.AddToMonths(ctx, sumByMonth(missing)); err != nil {
			return fmt.Errorf("add to months: %w", err)
		}
		owed := sumByMonth(slices.DeleteFunc(missing, func(s monthCount) bool { return !ledgers[s.org].isLacking(s) }))
		return q.Owe(ctx, db.OweParams{Orgs: owed.OrgIds, Months: owed.Months, Calls: owed.Counts})
	})
	return ledgers, applied, err
}

// creditOwed adds the calls that the shared counters lack to them. It locks the ledger, so that the counters cannot be
// rebuilt in between and two nodes cannot credit the same calls.
func (l *Limiter) creditOwed(ctx context.Context, org id.Org) error {
	return l.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		q := db.New(tx)
		ledger, err := q.LockLedger(ctx, org)
		if err != nil {
			return fmt.Errorf("lock ledger of %s: %w", org, err)
		}
		if ledger.Owed == 0 || ledger.Doubted {
			return nil
		}
		result, err := l.runOrgScript(ctx, l.scripts.credit, org, ledger.Owed, ledger.Incarnation, int64(ledger.OwedMonth))
		if err != nil {
			return err
		}
		if result != "done" {
			return nil // lost, or of another incarnation: the next rebuild includes these calls
		}
		return q.Paid(ctx, org)
	})
}

// liftTotal writes the shared counters' total to the database, because a node has died that may not have added all its
// calls. It locks the ledger: a batch is either added before, and is in the total, or finds its calls included.
func (l *Limiter) liftTotal(ctx context.Context, org id.Org, died time.Time) error {
	return l.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		q := db.New(tx)
		ledger, err := q.LockLedger(ctx, org)
		if err != nil {
			return fmt.Errorf("lock ledger of %s: %w", org, err)
		}
		if ledger.Doubted || ledger.LiftedAt.After(died) {
			return nil // a rebuild is due, or another node was faster
		}
		next := ledger.Incarnation + 1
		answer, err := l.runOrgScript(ctx, l.scripts.lift, org, ledger.Incarnation, next)
		if err != nil {
			return err
		}
		var month int
		var used int64
		if n, _ := fmt.Sscanf(answer, "%d %d", &month, &used); n != 2 {
			return nil // lost, or of another incarnation: they will be rebuilt, so their total is of no use
		}
		if int(ledger.OwedMonth) == month {
			used += ledger.Owed // in the database, but not yet in the counters
		}
		err = q.SetLifted(ctx, db.SetLiftedParams{OrgID: org, Incarnation: next, Lifted: ledger.Incarnation, Month: int32(month), Now: l.deps.Now()})
		if err != nil {
			return fmt.Errorf("mark ledger of %s: %w", org, err)
		}
		return q.SetMonth(ctx, db.SetMonthParams{OrgID: org, Month: int32(month), Used: used})
	})
}

// markInDoubt records in the ledgers that the shared counters of these orgs cannot be trusted until they are rebuilt.
func (l *Limiter) markInDoubt(ctx context.Context, orgs []string) error {
	q := db.New(l.deps.DB)
	if err := q.OpenLedgers(ctx, orgs); err != nil {
		return fmt.Errorf("open ledgers: %w", err)
	}
	return q.Doubt(ctx, orgs)
}

// raiseIncarnation raises the ledger's incarnation to that of shared counters that are ahead of it (see errAhead), and
// marks the org as in doubt.
func (l *Limiter) raiseIncarnation(ctx context.Context, org id.Org, incarnation int64) error {
	return db.New(l.deps.DB).RaiseIncarnation(ctx, db.RaiseIncarnationParams{OrgID: org, Incarnation: incarnation})
}

// sumByMonth adds up a sorted batch by org and month, because one statement can change a row only once.
func sumByMonth(batch []monthCount) (sums db.AddToMonthsParams) {
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

func lockConnect(ctx context.Context, tx postgres.Tx, org id.Org, now time.Time) (bucket, error) {
	row, err := db.New(tx).LockConnect(ctx, db.LockConnectParams{OrgID: org, Now: now})
	return bucket{row.Level, row.At}, err
}

func (l *Limiter) getConnect(ctx context.Context, org id.Org) (bucket, error) {
	row, err := db.New(l.deps.DB).GetConnect(ctx, org)
	if errors.Is(err, postgres.ErrNoRows) {
		err = nil
	}
	return bucket{row.Level, row.At}, err
}
