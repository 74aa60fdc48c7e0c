package lane_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// An event that is not stored and comes while its webhook is being read is sent by what was read.
func TestLiveEventsWaitForTheirWebhook(t *testing.T) {
	t.Parallel()
	m := lane.New(lane.Defaults(), func() float64 { return 0.5 })
	now, source := time.Now(), string(id.New[id.Account]())
	bucket := event.Bucket(source)
	var given []string
	live := func() { m.Live("org_a", source, func(h *lane.Hook) { given = append(given, h.Host) }) }
	configure := func(h *lane.Hook) {
		t.Helper()
		list := m.NextLoads(10)
		if len(list) != 1 {
			t.Fatalf("%d webhooks are to be read", len(list))
		}
		m.Configured(list[0], h, now)
	}
	want := func(hosts ...string) {
		t.Helper()
		if !slices.Equal(given, hosts) {
			t.Fatalf("sent to %q, want %q", given, hosts)
		}
		given = nil
	}

	live() // the bucket is another node's
	m.Take(bucket, 1, nil)
	m.Loaded(bucket, now, nil, nil, now)
	want()
	live()
	want()
	configure(&lane.Hook{Gen: 1, Host: "first", AtOnce: 1})
	want("first")
	live()
	want("first")

	m.Invalidate("org_a", source)
	live()
	live()
	want()
	configure(&lane.Hook{Gen: 2, Host: "second", AtOnce: 1})
	want("second", "second")

	m.Invalidate("org_a", source)
	live()
	configure(nil)
	live()
	want()

	// However many come while it cannot be read, few are kept.
	m.Invalidate("org_a", source)
	for range 1000 {
		live()
	}
	configure(&lane.Hook{Gen: 3, Host: "third", AtOnce: 1})
	if len(given) != 16 {
		t.Errorf("%d were kept", len(given))
	}
}
