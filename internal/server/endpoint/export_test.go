package endpoint

import (
	"context"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// CheckJSON is checkJSON, for fuzzing.
var CheckJSON = checkJSON

// Reason returns the code of the problem that ended the stream.
func (s *Events) Reason() string { return s.reason }

// InFlight returns the sums of the counters of bodies and of working requests.
func (t *Table) InFlight() (bodies, working int) {
	t.inFlight.mu.Lock()
	defer t.inFlight.mu.Unlock()
	for _, n := range t.inFlight.bySource {
		bodies += n
	}
	for _, of := range t.inFlight.byOrg {
		bodies += of.bodies
		working += of.working
	}
	return bodies, working + t.inFlight.working
}

// Door is a door without a table.
type Door struct{ door door }

// NewDoor returns a door.
func NewDoor(now func() time.Time) *Door { return &Door{door{now: now}} }

// Enter, Back, Leave and Adapt are those of the door.
func (d *Door) Enter(ctx context.Context, org id.Org) bool { return d.door.enter(ctx, org) }
func (d *Door) Back(org id.Org)                            { d.door.back(org) }
func (d *Door) Leave(org id.Org)                           { d.door.leave(org) }
func (d *Door) Adapt(delay time.Duration) (limit, inside, waiting int) {
	return d.door.adapt(delay)
}

// State returns the number of requests inside and of those that wait.
func (d *Door) State() (inside, waiting int) {
	d.door.mu.Lock()
	defer d.door.mu.Unlock()
	return d.door.inside, d.door.waiting
}

// Known returns the number of orgs that the door remembers.
func (d *Door) Known() int { return len(d.door.orgs) }

// Inside returns the number of calls with a place at the door.
func (t *Table) Inside() int {
	t.door.mu.Lock()
	defer t.door.mu.Unlock()
	return t.door.inside
}
