package lane_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
)

// During a halt nothing is sent, each lane has a row, and no endpoint fails, however long the halt lasts. Afterwards
// every event is delivered once and in order.
func TestHaltedLanesLoseNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 3)
	busy, failing, quiet := w.sources()[0], w.sources()[1], w.sources()[2]
	w.answer = trouble
	w.commit(busy, 3)
	w.broken[failing] = true
	w.answer = func(w *world, source string, _ int64) lane.Result {
		if w.broken[source] {
			return lane.Result{Status: 503, Took: time.Millisecond}
		}
		return lane.Result{Status: 200, Took: time.Millisecond}
	}
	w.commit(failing, 2)
	for w.step() || len(w.inFlight) > 0 {
	}
	w.flush(false)
	before := w.sends

	w.machine.Halt()
	for range 40 {
		w.commit(busy, 100)
		w.commit(failing, 1)
		w.commit(quiet, 1)
		w.now = w.now.Add(3 * time.Hour)
		for w.step() || len(w.inFlight) > 0 {
		}
		w.flush(false)
	}
	if w.sends != before {
		t.Errorf("%d deliveries during the halt", w.sends-before)
	}
	if _, due := w.machine.NextDue(); due {
		t.Error("a timer is due during the halt")
	}
	for _, source := range []string{busy, failing, quiet} {
		if row, ok := w.rows[source]; !ok || row.State == lane.Disabled {
			t.Errorf("%s has no row or is disabled: %t %+v", source, ok, row)
		}
	}
	if len(w.notices) != 0 {
		t.Errorf("notices during the halt: %+v", w.notices)
	}

	clear(w.broken)
	w.machine.Resume(w.now)
	w.settle(time.Hour)
	w.check(3)
	for source, n := range map[string]int{busy: 4003, failing: 42, quiet: 40} {
		if got := w.got[source]; len(got) != n || !slices.IsSorted(got) {
			t.Errorf("%s got %d events of %d", source, len(got), n)
		}
	}
	if len(w.rows) != 0 {
		t.Errorf("rows are left: %v", w.rows)
	}
}

// A node that takes over during a halt sends nothing, and resumes from what the database has.
func TestHaltSurvivesTakeover(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, 1)
	source := w.sources()[0]
	w.machine.Halt()
	w.commit(source, 10)
	for w.step() {
	}
	w.now = w.now.Add(5 * time.Second)
	w.flush(false)
	w.boot()
	w.machine.Halt()
	w.commit(source, 10)
	for w.step() {
	}
	w.now = w.now.Add(5 * time.Second)
	w.flush(false)
	if w.sends != 0 || len(w.inFlight) != 0 {
		t.Errorf("%d deliveries during the halt", w.sends)
	}
	w.machine.Resume(w.now)
	w.settle(time.Hour)
	if got := w.got[source]; len(got) != 20 || !slices.IsSorted(got) {
		t.Errorf("got %v, want 20 events in order", got)
	}
}

// While an organisation is suspended nothing is sent for it, and none of its endpoints is disabled, not even one that
// failed before. Lanes of other organisations continue. Afterwards every event is delivered once and in order.
func TestSuspendedLanesLoseNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 2)
	busy, failing := w.sources()[0], w.sources()[1]
	w.answer = func(w *world, source string, _ int64) lane.Result {
		if w.broken[source] {
			return lane.Result{Status: 503, Took: time.Millisecond}
		}
		return lane.Result{Status: 200, Took: time.Millisecond}
	}
	w.machine.Suspend(map[id.Org]struct{}{"org_2": {}}, w.now)
	w.commit(busy, 3)
	w.broken[failing] = true
	w.commit(failing, 2)
	for w.step() || len(w.inFlight) > 0 {
	}
	w.flush(false)
	if before := w.sends; before < 4 {
		t.Fatalf("%d deliveries before the suspension", before)
	}

	before := w.sends
	w.machine.Suspend(map[id.Org]struct{}{"org_1": {}}, w.now)
	for i := range 40 {
		w.commit(busy, 10)
		w.commit(failing, 1)
		w.now = w.now.Add(3 * time.Hour)
		for w.step() || len(w.inFlight) > 0 {
		}
		w.flush(false)
		if i == 20 { // another node takes over
			w.boot()
			w.machine.Suspend(map[id.Org]struct{}{"org_1": {}}, w.now)
		}
	}
	if w.sends != before {
		t.Errorf("%d deliveries for a suspended organisation", w.sends-before)
	}
	for source, row := range w.rows {
		if row.State == lane.Disabled || row.State == lane.Backoff || row.FailCount != 0 || !row.FailSince.IsZero() {
			t.Errorf("%s failed during the suspension: %+v", source, row)
		}
	}

	// The endpoint still fails at first. The time of the suspension does not count towards disabling it.
	w.machine.Suspend(nil, w.now)
	for w.step() || len(w.inFlight) > 0 {
	}
	w.flush(false)
	if row := w.rows[failing]; row.State != lane.Backoff {
		t.Errorf("the failing lane is not in backoff: %+v", row)
	}
	clear(w.broken)
	w.settle(time.Hour)
	w.check(3)
	for source, n := range map[string]int{busy: 403, failing: 42} {
		if got := w.got[source]; len(got) != n || !slices.IsSorted(got) {
			t.Errorf("%s got %d events of %d", source, len(got), n)
		}
	}
}

// The backlog counts the lanes that more nodes would deliver sooner: not those that wait for a retry, a halt or a
// suspension, and none whose events are delivered.
func TestBacklogCountsLanesThatMaySend(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 11, 2)
	working, failing := w.sources()[0], w.sources()[1]
	w.broken[failing] = true
	w.answer = func(w *world, source string, _ int64) lane.Result {
		if w.broken[source] {
			return lane.Result{Status: 503, Took: time.Millisecond}
		}
		return lane.Result{Status: 200, Took: time.Millisecond}
	}
	backlog := func(when string, want int) {
		t.Helper()
		if got := w.machine.Stats().Backlog; got != want {
			t.Errorf("%s: a backlog of %d lanes; want %d", when, got, want)
		}
	}
	backlog("without events", 0)
	w.commit(working, 3)
	w.commit(failing, 3)
	backlog("before the first delivery", 2)
	w.pump()
	backlog("one endpoint works, the other fails", 0)
	if pending := w.machine.Stats().Pending; pending != 1 {
		t.Errorf("%d lanes are pending; want 1", pending)
	}
	w.commit(working, 1)
	w.commit(failing, 1)
	backlog("new events of both", 1)
	w.machine.Halt()
	backlog("during a halt", 0)
	w.machine.Resume(w.now)
	backlog("after a halt", 1)
	w.machine.Suspend(map[id.Org]struct{}{"org_1": {}}, w.now)
	backlog("while the organisation is suspended", 0)
}
