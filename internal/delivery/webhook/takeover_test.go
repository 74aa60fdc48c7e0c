package webhook_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// After an orderly handover another node continues all lanes, whatever their state, without a gap or a duplicate.
func TestHandoverDeliversNothingTwice(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	rec := newReceiver(t, func(w http.ResponseWriter, path string, n int, _ got) {
		if path == "/fails" && n == 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	fine, fails, paused := r.account(), r.account(), r.account()
	first := r.node(bucketsOf(fine, fails, paused)...)
	r.put(first, fine, webhook.Change{URL: rec.URL + "/fine"})
	r.put(first, fails, webhook.Change{URL: rec.URL + "/fails"})
	r.put(first, paused, webhook.Change{URL: rec.URL + "/paused"})
	_, err := first.Pause(t.Context(), by("webhook.pause"), paused.Org, paused.ID)
	must.OK(t, err)
	r.fire(first, fine, "message", 30)
	r.fire(first, fails, "message", 5)
	r.fire(first, paused, "message", 5)
	rec.wait(t, "/fine", 10)
	rec.wait(t, "/fails", 1)
	first.shutdown()
	r.fire(nil, fine, "message", 10) // while no node holds the bucket
	second := r.node(bucketsOf(fine, fails, paused)...)
	r.fire(second, fine, "message", 5)
	if list := rec.wait(t, "/fine", 45); !slices.Equal(seqs(list), seqsUpTo(45)) {
		t.Errorf("fine: %v", seqs(list))
	}
	if list := rec.wait(t, "/fails", 6); !slices.Equal(seqs(list), []int64{1, 1, 2, 3, 4, 5}) {
		t.Errorf("fails: %v", seqs(list))
	}
	_, err = second.Resume(t.Context(), by("webhook.resume"), paused.Org, paused.ID, webhook.Resume{})
	must.OK(t, err)
	if list := rec.wait(t, "/paused", 5); !slices.Equal(seqs(list), seqsUpTo(5)) {
		t.Errorf("paused: %v", seqs(list))
	}
}

// When a node is cut off, another takes over from the database: nothing is lost, events stay in order, and only the
// last few are delivered twice. The first node notices that it is fenced off and stops.
func TestTakeoverLosesNothing(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.config.Margin = 100 * time.Millisecond
	rec := newReceiver(t, nil)
	a := r.account()
	first := r.node(bucketsOf(a)...)
	r.put(first, a, webhook.Change{URL: rec.URL + "/a"})
	r.ago.Store(int64(time.Second))
	r.fire(first, a, "message", 40)
	r.ago.Store(0)
	rec.wait(t, "/a", 40)
	stored := r.fire(first, a, "message", 5)
	rec.wait(t, "/a", 45)
	until(t, "the checkpoint has passed them", func() bool {
		return r.rows("SELECT count(*) FROM webhook_bucket WHERE floor_at >= $1", stored[0].At) == 1 && r.rows("SELECT count(*) FROM webhook_lane") == 0
	})
	r.fire(nil, a, "message", 5) // committed, but not reported to the first node
	second := r.node(bucketsOf(a)...)
	r.fire(second, a, "message", 5)
	rec.wait(t, "/a", 55)
	until(t, "the last event has arrived", func() bool { l := rec.requests("/a"); return l[len(l)-1].seq == 55 })
	list := rec.requests("/a")
	seen := map[int64]int{}
	var firsts []int64
	for _, g := range list {
		if seen[g.seq]++; seen[g.seq] == 1 {
			firsts = append(firsts, g.seq)
		}
		if seen[g.seq] > 1 && g.seq <= 40 {
			t.Errorf("%d was delivered twice", g.seq)
		}
	}
	if !slices.Equal(firsts, seqsUpTo(55)) {
		t.Errorf("%v", firsts)
	}
	// The first node is fenced off by now, or will be when it next writes. Events reported to it have no effect.
	r.fire(first, a, "message", 1)
	until(t, "the first node releases the bucket", func() bool { return !first.Holding(bucketsOf(a)[0]) })
	r.fire(second, a, "message", 1)
	until(t, "the second node delivers", func() bool { l := rec.requests("/a"); return l[len(l)-1].seq == 57 })
	if n := r.rows("SELECT count(*) FROM webhook_bucket WHERE epoch = 2"); n != 1 {
		t.Error("the second node does not hold the bucket")
	}
}

// A node that holds a bucket again may still be writing under its older lease. When that write is refused, the new
// lease stays valid.
func TestLateWriteOfOldLeaseDoesNotEndNewLease(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	rec := newReceiver(t, nil)
	a := r.account()
	bucket := bucketsOf(a)[0]
	n := r.node(bucket)
	r.put(n, a, webhook.Change{URL: rec.URL + "/a"})
	r.fire(n, a, "message", 1)
	rec.wait(t, "/a", 1)
	until(t, "the lane has no row", func() bool { return r.rows("SELECT count(*) FROM webhook_lane") == 0 })

	other, err := r.DB.Pool().Begin(t.Context())
	must.OK(t, err)
	_, err = other.Exec(t.Context(), "UPDATE webhook_bucket SET epoch = 2 WHERE bucket = $1", bucket)
	must.OK(t, err)
	blocked := func(n int) func() bool {
		return func() bool {
			return r.rows("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") >= n
		}
	}
	r.fire(n, a, "message", 1)
	until(t, "the write of the first lease is blocked", blocked(1))
	again, stop := context.WithCancel(t.Context())
	var holds sync.WaitGroup
	defer holds.Wait()
	defer stop()
	holds.Go(func() { n.Hold(again, bucket, 3) })
	until(t, "the claim of the third lease is blocked", blocked(2))
	must.OK(t, other.Commit(t.Context()))

	until(t, "the third lease holds the bucket", func() bool { return r.rows("SELECT count(*) FROM webhook_bucket WHERE epoch = 3") == 1 })
	r.fire(n, a, "message", 1)
	until(t, "the third lease delivers", func() bool { l := rec.requests("/a"); return l[len(l)-1].seq == 3 })
}

// A node that held a bucket when the database was restored or failed over writes nothing that it remembers, and gives
// the bucket up.
func TestHoldsEndWithTheGeneration(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	rec := newReceiver(t, nil)
	a := r.account()
	bucket := bucketsOf(a)[0]
	n := r.node(bucket)
	r.put(n, a, webhook.Change{URL: rec.URL + "/a"})
	stored := r.fire(n, a, "message", 1)
	rec.wait(t, "/a", 1)
	passed := func(of event.Stored) bool {
		return r.rows("SELECT count(*) FROM webhook_bucket WHERE floor_at >= $1", of.At) == 1
	}
	until(t, "the checkpoint has passed the event", func() bool { return passed(stored[0]) })
	testenv.EndGeneration(t, r.DB)
	lost := stored[0]
	lost.Seq, lost.At, lost.ID = 2, clock.Now().Truncate(time.Microsecond), id.New[id.Event]()
	n.Committed([]event.Stored{lost}) // stored by the database that is gone
	until(t, "the node gives the bucket up", func() bool { return !n.Holding(bucket) })
	if passed(lost) || r.rows("SELECT count(*) FROM webhook_lane") > 0 {
		t.Error("the node has written what it remembered")
	}
	epoch := testenv.BeginGeneration(t, r.DB)
	r.mu.Lock()
	r.epochs[bucket] = epoch
	r.mu.Unlock()
	r.node(bucket)
	until(t, "the next lease holds the bucket", func() bool { return r.rows("SELECT count(*) FROM webhook_bucket WHERE epoch > $1", epoch) == 1 })
}
