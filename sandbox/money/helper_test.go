package money_test

import (
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

const login = "ok@sandbox.test"

var (
	cents  = sandboxtest.Cents
	number = sandboxtest.Number
)

// platform starts a platform whose clock begins at noon, so that no test runs past midnight.
func platform(t *testing.T) *sandboxtest.Platform {
	t.Helper()
	start := time.Now()
	shift := start.Truncate(24 * time.Hour).Add(12 * time.Hour).Sub(start)
	return sandboxtest.New(t, func(cfg *sandbox.Config) { cfg.Now = func() time.Time { return time.Now().Add(shift) } })
}

// dates returns a query for a span of whole days, given as numbers of days before today.
func dates(p *sandboxtest.Platform, from, to int) string {
	now := p.World.Now()
	return "from=" + now.AddDate(0, 0, -from).Format(time.DateOnly) + "&to=" + now.AddDate(0, 0, -to).Format(time.DateOnly)
}
