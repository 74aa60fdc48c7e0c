package listen_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/events/listen"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

func TestFirstEphemeralEventIsPublishedImmediatelyAndThenTheLastOfEachInterval(t *testing.T) {
	t.Parallel()
	var c listen.Coalescer
	typing := func(n int) *catalog.Event { return &catalog.Event{Kind: "typing", UpstreamID: strconv.Itoa(n)} }
	var published []string
	record := func(now time.Time, list ...catalog.Event) {
		for i := range list {
			published = append(published, fmt.Sprintf("%s@%d", list[i].UpstreamID, now.Sub(noon).Milliseconds()))
		}
	}
	for ms := 0; ms < 1000; ms += 10 {
		now := noon.Add(time.Duration(ms) * time.Millisecond)
		if list, _ := c.Due(now); len(list) > 0 {
			record(now, list...)
		}
		if e := typing(ms); ms <= 600 && c.Add(e, now) {
			record(now, *e)
		}
	}
	if want := []string{"0@0", "240@250", "490@500", "600@750"}; !slices.Equal(published, want) {
		t.Fatalf("%v, want %v", published, want)
	}
	if !c.Add(&catalog.Event{Kind: "online"}, noon.Add(time.Millisecond)) {
		t.Fatal("another kind waits")
	}
	if list, next := c.Due(noon.Add(2 * time.Second)); len(list) != 0 || !next.IsZero() {
		t.Fatalf("%v %s", list, next)
	}
}

func TestKindWithALongerIntervalIsPublishedLessOften(t *testing.T) {
	t.Parallel()
	var c listen.Coalescer
	clicked := &catalog.Event{Kind: "linkClicked", Every: 10 * time.Second}
	if !c.Add(clicked, noon) || c.Add(clicked, noon.Add(time.Second)) {
		t.Fatal("the first event must be published immediately and the next must wait")
	}
	if list, next := c.Due(noon.Add(9 * time.Second)); len(list) != 0 || !next.Equal(noon.Add(10*time.Second)) {
		t.Fatalf("%v, next at %s", list, next)
	}
	if list, _ := c.Due(noon.Add(10 * time.Second)); len(list) != 1 {
		t.Fatalf("%v", list)
	}
	if c.Add(clicked, noon.Add(19*time.Second)) {
		t.Fatal("a published event that had waited must start a new interval")
	}
}

func TestRetriesAreRandomAndGrowUpToAMinute(t *testing.T) {
	t.Parallel()
	for n := range 100 {
		most := min(time.Second<<min(n, 10), time.Minute)
		for range 50 {
			if d := (listen.Config{}).Backoff(n); d < 0 || d >= most {
				t.Fatalf("try %d waits %s, want less than %s", n, d, most)
			}
		}
	}
}
