package admission

import (
	"context"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/admission/internal/db"
)

// TakeConnect counts a connect attempt in the transaction that creates it, and is rolled back with it. It does not
// depend on Redis, because attempts are rare and exceeding their limit would be harmful. It returns the problem
// quota-exceeded if the hour is used up.
func (l *Limiter) TakeConnect(ctx context.Context, tx postgres.Tx, org id.Org, limit int) error {
	now := l.deps.Now()
	b, err := lockConnect(ctx, tx, org, now)
	if err != nil {
		return err
	}
	if wait := b.take(now, limit, time.Hour); wait > 0 {
		d := Denial{Reason: ConnectPerHour, Wait: wait, Limit: limit, Current: int(ceil(b.levelAt(now, limit, time.Hour)))}
		return d.Problem()
	}
	return db.New(tx).SetConnect(ctx, db.SetConnectParams{OrgID: org, Level: b.level, Now: b.at})
}

// ConnectWindow returns what is left of an org's connect attempts.
func (l *Limiter) ConnectWindow(ctx context.Context, org id.Org, limit int) (Window, error) {
	b, err := l.getConnect(ctx, org)
	if err != nil {
		return Window{}, err
	}
	now := l.deps.Now()
	return window(now, b.levelAt(now, limit, time.Hour), limit, time.Hour), nil
}
