package admission

import (
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Discard forgets what a limiter has not settled, as a process that is killed does.
func (l *Limiter) Discard() { l.collect() }

// Doubt makes an org doubtful, as a call that timed out does.
func (l *Limiter) Doubt(org id.Org) { l.state(org).doubted() }

// LiftHalfway does the part of a lift that Redis sees, as a lift does whose transaction is rolled back.
func (l *Limiter) LiftHalfway(t *testing.T, org id.Org) {
	t.Helper()
	at := l.state(org).currentIncarnation()
	if _, err := l.tell(t.Context(), l.scripts.lift, org, at, at+1); err != nil {
		t.Fatal(err)
	}
}

// Share is one node's part of a limit while it decides alone.
func Share(limit, nodes int) int { return share(limit, nodes) }
