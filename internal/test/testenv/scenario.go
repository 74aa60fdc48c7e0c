package testenv

import (
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Clock is a clock that moves only when a test advances it.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows a time.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Await waits until a condition holds that another goroutine or process brings about. It fails the test after minutes,
// so that a slow machine is no reason to fail.
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(3 * time.Minute)
	for !holds() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatalf("timed out while waiting for: %s", what)
		}
	}
}

// AddOrg inserts an organisation of the sandbox with a new id, for tests of tables that refer to one.
func AddOrg(t testing.TB, db *postgres.DB) id.Org {
	t.Helper()
	owner := id.New[id.Org]()
	InsertOrg(t, db, owner)
	return owner
}

// InsertOrg inserts an organisation with a given id.
func InsertOrg(t testing.TB, db *postgres.DB, owner id.Org) {
	t.Helper()
	_, err := db.Pool().Exec(t.Context(), `
		INSERT INTO org (id, name, plan, environment, contact_email, created_at, updated_at)
		VALUES ($1, 'Test', 'scale', 'sandbox', 'ops@example.com', now(), now())`, owner)
	must.OK(t, err)
}
