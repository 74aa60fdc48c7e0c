package admission

import (
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Discard drops what the limiter has not settled, like a process that is killed.
func (l *Limiter) Discard() { l.collectPending() }

// Doubt puts an org in doubt, like a call that timed out.
func (l *Limiter) Doubt(org id.Org) { l.state(org).addDoubt() }

// LiftHalfway does only the part of a lift that changes Redis, like a lift whose transaction is rolled back.
func (l *Limiter) LiftHalfway(t *testing.T, org id.Org) {
	t.Helper()
	at := l.state(org).currentIncarnation()
	if _, err := l.runOrgScript(t.Context(), l.scripts.lift, org, at, at+1); err != nil {
		t.Fatal(err)
	}
}

// Share returns one node's share of a limit while it decides alone.
func Share(limit, nodes int) int { return nodeShare(limit, nodes) }
