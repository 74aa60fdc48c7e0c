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
