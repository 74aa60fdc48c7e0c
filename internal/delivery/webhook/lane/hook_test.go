package lane_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// An event that is not stored waits while its webhook is being read.
func TestUnstoredEventsWaitForTheirWebhook(t *testing.T) {
	t.Parallel()
	m := lane.New(lane.Defaults(), func() float64 { return 0.5 })
	now, source := time.Now(), string(id.New[id.Account]())
	bucket := event.Bucket(source)
	var given []string
	live := func() { m.WithLiveHook("org_a", source, func(h *lane.Hook) { given = append(given, h.Host) }) }
	configure := func(h *lane.Hook) {
		t.Helper()
		list := m.NextHookLoads(10)
		if len(list) != 1 {
			t.Fatalf("%d webhooks to read, want 1", len(list))
		}
		m.HookLoaded(list[0], h, now)
	}
	want := func(hosts ...string) {
		t.Helper()
		if !slices.Equal(given, hosts) {
			t.Fatalf("sent to %q, want %q", given, hosts)
		}
		given = nil
	}

	live() // another node holds the bucket
	m.HoldBucket(bucket, 1, nil)
	m.BucketLoaded(bucket, now, nil, nil, now)
	want()
	live()
	want()
	configure(&lane.Hook{Gen: 1, Host: "first", MaxInFlight: 1})
	want("first")
	live()
	want("first")

	m.Invalidate("org_a", source)
	live()
	live()
	want()
	configure(&lane.Hook{Gen: 2, Host: "second", MaxInFlight: 1})
	want("second", "second")

	m.Invalidate("org_a", source)
	live()
	configure(nil)
	live()
	want()

	// Only a few events are kept while the webhook cannot be read.
	m.Invalidate("org_a", source)
	for range 1000 {
		live()
	}
	configure(&lane.Hook{Gen: 3, Host: "third", MaxInFlight: 1})
	if len(given) != 16 {
		t.Errorf("%d events were kept, want 16", len(given))
	}
}

// A read of a webhook that began before a change must not undo the change: it may have the old URL or the old secret.
func TestOlderReadOfWebhookIsIgnored(t *testing.T) {
	t.Parallel()
	m, source, now := lane.New(lane.Defaults(), func() float64 { return 0.5 }), string(id.New[id.Account]()), time.Now()
	m.HoldBucket(event.Bucket(source), 1, nil)
	m.BucketLoaded(event.Bucket(source), now, nil, nil, now)
	m.Invalidate("org_a", source)
	before := m.NextHookLoads(10)
	m.Invalidate("org_a", source) // while the read is running
	after := m.NextHookLoads(10)
	m.Committed([]event.Stored{{Org: "org_a", Source: source, Seq: 1, At: now, Kind: "a"}}, now)
	m.HookLoaded(before[0], &lane.Hook{Gen: 1, Host: "old", MaxInFlight: 1}, now)
	if job := m.Next(now); job != nil {
		t.Errorf("sends to %s", job.Hook.Host)
	}
	m.HookLoadFailed(before[0])
	m.HookLoaded(after[0], &lane.Hook{Gen: 1, Host: "new", MaxInFlight: 1}, now)
	m.HookLoaded(before[0], &lane.Hook{Gen: 1, Host: "old", MaxInFlight: 1}, now)
	if job := m.Next(now); job == nil || job.Hook.Host != "new" {
		t.Errorf("sends %+v, want a delivery to the new host", job)
	}
	if list := m.NextHookLoads(10); len(list) != 0 {
		t.Errorf("%d more reads", len(list))
	}
}

// A webhook may be deleted while its events are being read, or wait to be read.
func TestWebhookIsDeletedDuringRead(t *testing.T) {
	t.Parallel()
	for _, started := range []bool{true, false} {
		m, source, now := lane.New(lane.Defaults(), func() float64 { return 0.5 }), string(id.New[id.Account]()), time.Now()
		b := event.Bucket(source)
		m.HoldBucket(b, 1, nil)
		row := lane.Row{Org: "org_a", Source: source, Bucket: b, Gen: 1, State: lane.Draining}
		m.BucketLoaded(b, now, []lane.Row{row}, nil, now)
		m.HookLoaded(m.NextHookLoads(1)[0], &lane.Hook{Gen: 1, Host: "a", MaxInFlight: 1, Row: &row}, now)
		remove := func() {
			m.Invalidate("org_a", source)
			m.HookLoaded(m.NextHookLoads(1)[0], nil, now)
		}
		if !started {
			remove()
		}
		page := m.NextRead()
		if (page != nil) != started {
			t.Fatalf("page to read: %+v", page)
		}
		if started {
			remove()
			m.Read(page, []event.Stored{{Org: "org_a", Source: source, Seq: 1, At: now, Kind: "a"}}, true, now)
		}
		if job := m.Next(now); job != nil {
			t.Errorf("sends %d", job.Event.Seq)
		}
		if err := m.Check(); err != nil {
			t.Error(err)
		}
	}
}
