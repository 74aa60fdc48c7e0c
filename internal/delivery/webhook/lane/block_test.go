package lane_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// These tests are about a first event that blocks its lane; see docs/adr/0018-lane-phases.md.

// A host that was down for hours gets the events of each lane in order when it is back. None is set aside because of
// the outage.
func TestOutageOfHostKeepsOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 7, 3)
	w.host = "one"
	up := false
	w.answer = func(*world, string, int64) lane.Result {
		if up {
			return lane.Result{Status: 200, Took: time.Millisecond}
		}
		return lane.Result{Status: 503, Took: time.Millisecond}
	}
	for _, source := range w.sources() {
		w.commit(source, 3)
	}
	for range 12 * 360 {
		w.now = w.now.Add(10 * time.Second)
		w.pump()
	}
	up = true
	w.settle(24 * time.Hour)
	w.check(7)
	for _, source := range w.sources() {
		if len(w.sideDeliveries[source]) != 0 || !slices.Equal(w.got[source], []int64{1, 2, 3}) {
			t.Errorf("%s got %v, side deliveries %v", source, w.got[source], w.sideDeliveries[source])
		}
	}
}

// An event that breaks its receiver may be the first of every lane of a host. The breaker of the host opens, and the
// lanes still get to their second events.
func TestFirstEventsBlockWholeHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 8, 8)
	w.host = "one"
	w.answer = func(_ *world, _ string, seq int64) lane.Result {
		if seq == 1 {
			return lane.Result{Status: 500, Took: time.Millisecond}
		}
		return lane.Result{Status: 200, Took: time.Millisecond}
	}
	for _, source := range w.sources() {
		w.commit(source, 3)
	}
	w.settle(12 * time.Hour)
	w.check(8)
	for _, source := range w.sources() {
		if w.sideDeliveries[source][1] != 1 || !slices.Equal(w.got[source], []int64{2, 3}) {
			t.Errorf("%s got %v, side deliveries %v; row %+v", source, w.got[source], w.sideDeliveries[source], w.rows[source])
		}
	}
}

// blocked returns a machine whose lane drains, and whose first event has just failed again after 20 minutes.
func blocked(t *testing.T) (m *lane.Machine, source string, now time.Time) {
	t.Helper()
	m, source, now = lane.New(lane.Defaults(), func() float64 { return 0.5 }), string(id.New[id.Account]()), time.Now()
	b := event.Bucket(source)
	row := lane.Row{
		Org: "org_a", Source: source, Bucket: b, Gen: 1, State: lane.Draining,
		HeadTries: 3, HeadSince: now.Add(-20 * time.Minute),
	}
	m.HoldBucket(b, 1, nil)
	m.BucketLoaded(b, now, []lane.Row{row}, nil, now)
	m.HookLoaded(m.NextHookLoads(1)[0], &lane.Hook{Gen: 1, Host: "a", MaxInFlight: 1, Row: &row}, now)
	var list []event.Stored
	for seq := range int64(2) {
		list = append(list, event.Stored{Org: "org_a", Source: source, Seq: seq + 1, At: now, Kind: "a"})
	}
	m.Read(m.NextRead(), list, true, now)
	m.Done(m.Next(now), lane.Result{Status: 500}, now)
	return m, source, now
}

// A lane that probes the event after its first one is stored as failing, from every phase that sends.
func TestBlockedLaneIsStoredAsFailing(t *testing.T) {
	t.Parallel()
	m, _, now := blocked(t)
	if batch := m.Flush(now); len(batch.Save) != 1 || batch.Save[0].State != lane.Backoff || batch.Save[0].HeadTries != 4 {
		t.Errorf("saved %+v", batch.Save)
	}
	job := m.Next(now)
	if job == nil || job.Event.Seq != 2 {
		t.Fatalf("the next delivery is %+v, want event 2", job)
	}
	m.Done(job, lane.Result{Status: 200}, now)
	if batch := m.Flush(now); len(batch.SideDeliveries) != 1 || batch.SideDeliveries[0].Seq != 1 {
		t.Errorf("side deliveries %+v, want event 1", batch.SideDeliveries)
	}
}

// When the event after the first is accepted, the first is set aside even if its owner has paused the webhook in the
// meantime: after the pause it would follow out of order, and not be marked.
func TestPauseDoesNotReorder(t *testing.T) {
	t.Parallel()
	m, source, now := blocked(t)
	job := m.Next(now)
	m.Invalidate("org_a", source)
	row := lane.Row{Org: "org_a", Source: source, Bucket: event.Bucket(source), Gen: 2, State: lane.Paused}
	m.HookLoaded(m.NextHookLoads(1)[0], &lane.Hook{Gen: 2, Host: "a", MaxInFlight: 1, Row: &row}, now)
	m.Done(job, lane.Result{Status: 200}, now)
	batch := m.Flush(now)
	if len(batch.SideDeliveries) != 1 || batch.Save[0].State != lane.Paused || batch.Save[0].Cursor != 2 {
		t.Errorf("side deliveries %+v, saved %+v", batch.SideDeliveries, batch.Save)
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
}
