package lane_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
)

// While deliveries are held back nothing is sent, an account costs a row and no memory, and no endpoint is held to have failed, however long
// it takes; afterwards everything comes, in order and once.
func TestHaltedLanesHoldAndLoseNothing(t *testing.T) {
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
	for w.step() || len(w.flying) > 0 {
	}
	w.flush(false)
	before := w.sends

	w.machine.Halt()
	for range 40 {
		w.commit(busy, 100)
		w.commit(failing, 1)
		w.commit(quiet, 1)
		w.now = w.now.Add(3 * time.Hour)
		for w.step() || len(w.flying) > 0 {
		}
		w.flush(false)
	}
	if w.sends != before {
		t.Errorf("%d deliveries while they were held back", w.sends-before)
	}
	if _, due := w.machine.NextDue(); due {
		t.Error("something is due")
	}
	for _, source := range []string{busy, failing, quiet} {
		if row, ok := w.rows[source]; !ok || row.State == lane.Disabled {
			t.Errorf("%s: %t %+v", source, ok, row)
		}
	}
	if len(w.told) != 0 {
		t.Errorf("somebody was told: %+v", w.told)
	}

	clear(w.broken)
	w.machine.Go(w.now)
	w.settle(time.Hour)
	w.check(3)
	for source, n := range map[string]int{busy: 4003, failing: 42, quiet: 40} {
		if got := w.got[source]; len(got) != n || !slices.IsSorted(got) {
			t.Errorf("%s got %d events of %d", source, len(got), n)
		}
	}
	if len(w.rows) != 0 {
		t.Errorf("rows stay: %v", w.rows)
	}
}

// A node that takes over while deliveries are held back holds them as well, from what the database says.
func TestAHaltSurvivesATakeOver(t *testing.T) {
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
	if w.sends != 0 || len(w.flying) != 0 {
		t.Errorf("%d sent", w.sends)
	}
	w.machine.Go(w.now)
	w.settle(time.Hour)
	if got := w.got[source]; len(got) != 20 || !slices.IsSorted(got) {
		t.Errorf("%v", got)
	}
}

// While an org is suspended nothing is sent for it, and its endpoints are not disabled however long that takes, also one that failed
// before; other orgs' lanes go on. Afterwards everything comes, in order and once.
func TestSuspendedLanesHoldAndLoseNothing(t *testing.T) {
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
	for w.step() || len(w.flying) > 0 {
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
		for w.step() || len(w.flying) > 0 {
		}
		w.flush(false)
		if i == 20 { // another node takes over
			w.boot()
			w.machine.Suspend(map[id.Org]struct{}{"org_1": {}}, w.now)
		}
	}
	if w.sends != before {
		t.Errorf("%d deliveries for a suspended org", w.sends-before)
	}
	for source, row := range w.rows {
		if row.State == lane.Disabled || row.State == lane.Backoff || row.FailCount != 0 || !row.FailSince.IsZero() {
			t.Errorf("%s: %+v", source, row)
		}
	}

	// It still fails at first: the time of the suspension does not count.
	w.machine.Suspend(nil, w.now)
	for w.step() || len(w.flying) > 0 {
	}
	w.flush(false)
	if row := w.rows[failing]; row.State != lane.Backoff {
		t.Errorf("%+v", row)
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
