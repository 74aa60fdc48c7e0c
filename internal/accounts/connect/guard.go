package connect

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
)

// Values of the field reason of refusals by a guard.
const (
	reasonLogin   = "login_hourly"
	reasonRefused = "connect_refused"
)

// checkGuards refuses a sign-in with a password if the login has had too many, or if too many of the org's were
// refused. It counts the sign-in. The limit per login is a leaky bucket that drains PerLogin sign-ins per hour; the
// row's lock makes it exact.
func (c *Connects) checkGuards(ctx context.Context, tx postgres.Tx, s Start, r record) error {
	if s.Kind != attempt.Credentials {
		return nil
	}
	platform, ok := c.deps.Platforms.Get(r.place.Platform)
	if !ok {
		return registry.Unavailable(r.place.Platform)
	}
	g := platform.Guard
	now, err := c.deps.DB.Now(ctx, tx)
	if err != nil {
		return err
	}
	if g.Refused > 0 {
		row, err := db.New(tx).Outcomes(ctx, db.OutcomesParams{OrgID: s.Org.ID, Since: now.Add(-time.Hour).Truncate(time.Hour)})
		if err != nil {
			return fmt.Errorf("read outcomes of sign-ins: %w", err)
		}
		if row.Refused >= int64(g.Refused) && 2*row.Refused >= row.Tried {
			wait := now.Truncate(time.Hour).Add(2 * time.Hour).Sub(now)
			return problem.QuotaExceeded.New(
				"Too many sign-ins of this organisation were refused for a wrong password. Signing in by phone still works.").
				After(int(wait.Seconds())).With("reason", reasonRefused).With("limit", g.Refused).With("current", row.Refused)
		}
	}
	if g.PerLogin == 0 {
		return nil
	}
	row, err := db.New(tx).LockGuard(ctx, db.LockGuardParams{Login: r.login, Now: now})
	if err != nil {
		return fmt.Errorf("lock a login's guard: %w", err)
	}
	drained := math.Max(0, row.Level-now.Sub(row.At).Hours()*float64(g.PerLogin))
	if drained+1 > float64(g.PerLogin) {
		wait := time.Duration((drained + 1 - float64(g.PerLogin)) / float64(g.PerLogin) * float64(time.Hour))
		return problem.QuotaExceeded.New(
			"Too many sign-ins with this login within an hour. Let the creator sign in on their own phone.").
			After(int(math.Ceil(wait.Seconds()))).With("reason", reasonLogin).With("limit", g.PerLogin).With("current", int(math.Ceil(drained)))
	}
	return db.New(tx).SetGuard(ctx, db.SetGuardParams{Login: r.login, Level: drained + 1, Now: now})
}

// countOutcome counts how a sign-in with a password ended, for the guard per org.
func (c *Connects) countOutcome(ctx context.Context, tx postgres.Tx, r record) error {
	if r.Kind != attempt.Credentials || !r.State.Final() {
		return nil
	}
	refused := int64(0)
	if r.Failure != nil && r.Failure.Code == attempt.CodeCredentials {
		refused = 1
	}
	return db.New(tx).CountOutcome(ctx, db.CountOutcomeParams{OrgID: r.Org, Hour: r.FinishedAt.Truncate(time.Hour), Refused: refused})
}
