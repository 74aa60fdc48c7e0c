package driver_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
)

// feedRow is a row of a platform's feed. It is selected by its second at, but appears only at the tick visible.
type feedRow struct {
	key     string
	at      int64
	visible int64
	broken  bool // its item has no event
}

// ticks is the number of ticks in a second. Rows appear and polls happen at any tick.
const ticks = 4

// feedPlatform is a platform with one feed. It is a model: it has no HTTP.
type feedPlatform struct {
	feed        *catalog.Feed
	newestFirst bool
	now         int64 // in ticks
	rows        []feedRow
	added       int
}

// next numbers the rows.
func (p *feedPlatform) next() int {
	p.added++
	return p.added
}

func (p *feedPlatform) second() int64 { return p.now / ticks }

// ask returns the rows of a window, cut at the limit.
func (p *feedPlatform) ask(since, until int64) (items []catalog.Item, now int64) {
	var found []feedRow
	for _, r := range p.rows {
		if r.visible <= p.now && r.at >= since && (until == 0 || r.at < until) {
			found = append(found, r)
		}
	}
	slices.SortStableFunc(found, func(a, b feedRow) int { return cmp.Compare(a.at, b.at) })
	if p.newestFirst {
		slices.Reverse(found)
	}
	for _, r := range found[:min(len(found), p.feed.Limit)] {
		item := catalog.Item{Key: r.key, At: time.Unix(r.at, 0), Event: catalog.Event{UpstreamID: r.key, At: time.Unix(r.at, 0)}}
		if r.broken {
			item.Event, item.Err = catalog.Event{}, catalog.ErrChanged
		}
		items = append(items, item)
	}
	return items, p.second()
}

// inSecond counts the rows of a second.
func (p *feedPlatform) inSecond(at int64) (n int) {
	for _, r := range p.rows {
		if r.at == at {
			n++
		}
	}
	return n
}

// add adds some rows that appear now: most in this second, some dated back within the overlap, a few dated ahead. No
// second gets as many as a response can hold.
func (p *feedPlatform) add(random *rand.Rand) {
	overlap := int64(p.feed.Overlap / time.Second)
	at := p.second()
	switch random.IntN(20) {
	case 0, 1, 2:
		at -= random.Int64N(overlap + 1)
	case 3:
		at += random.Int64N(100)
	}
	for range 1 + random.IntN(p.feed.Limit) {
		if p.inSecond(at) < p.feed.Limit-1 {
			p.rows = append(p.rows, feedRow{key: fmt.Sprintf("row %06d", p.next()), at: at, visible: p.now, broken: random.IntN(50) == 0})
		}
	}
}

// thin removes rows until a response can hold those of the overlap.
func (p *feedPlatform) thin() {
	since, kept := p.second()-int64(p.feed.Overlap/time.Second)-100, 0
	p.rows = slices.DeleteFunc(p.rows, func(r feedRow) bool {
		if r.at >= since {
			kept++
		}
		return r.at >= since && kept >= p.feed.Limit
	})
}

// Whatever the schedule, every row becomes an event exactly once: rows of one second, rows that appear late, full
// responses, long outages, polls whose result was lost, and restarts from any stored position.
func TestEveryRowOfAFeedIsOneEvent(t *testing.T) {
	t.Parallel()
	for seed := range uint64(proof.Scale(100, 20_000)) {
		random := rand.New(rand.NewPCG(seed, 1))
		p := &feedPlatform{
			feed:        &catalog.Feed{Name: "activity", Overlap: time.Duration(1+random.IntN(60)) * time.Second, Limit: 3 + random.IntN(8)},
			newestFirst: random.IntN(2) == 0, now: 1_700_000_000 * ticks,
		}
		for range random.IntN(30) {
			p.add(random)
			p.now += random.Int64N(5 * ticks)
		}
		p.thin()
		skew := random.Int64N(200) - 100
		start, err := driver.PollOnce(p.feed, "", p.second()+skew, p.ask)
		must.OK(t, err)
		before, position := len(p.rows), start.Position
		stored := map[string]int{}
		skipped := 0
		poll := func() (more bool) {
			got, err := driver.PollOnce(p.feed, position, p.second(), p.ask)
			must.OK(t, err)
			if got.Gap {
				t.Fatalf("seed %d: a gap", seed)
			}
			if len(got.Events) > p.feed.Limit {
				t.Fatalf("seed %d: %d events in one batch", seed, len(got.Events))
			}
			if !slices.IsSortedFunc(got.Events, func(a, b catalog.Event) int {
				return cmp.Or(a.At.Compare(b.At), strings.Compare(a.UpstreamID, b.UpstreamID))
			}) {
				t.Fatalf("seed %d: the events are not in order", seed)
			}
			if random.IntN(10) == 0 { // the node ends before it has stored the result
				return got.More
			}
			position = got.Position
			skipped += got.Skipped
			for _, e := range got.Events {
				stored[e.UpstreamID]++
			}
			return got.More
		}
		for range 50 {
			switch random.IntN(8) {
			case 0: // an outage
				for range random.IntN(20) {
					p.add(random)
					p.now += random.Int64N(10 * ticks)
				}
			case 1, 2, 3:
				p.add(random)
			default:
				poll()
			}
			p.now += random.Int64N(3 * ticks)
		}
		p.now += 2000 * ticks
		for rounds := 0; rounds < 5; { // more than one, because some results are lost
			if !poll() {
				rounds++
			}
		}
		broken := 0
		for i, r := range p.rows {
			want := 1
			if i < before || r.broken {
				want = 0
			}
			if i >= before && r.broken {
				broken++
			}
			if stored[r.key] != want {
				t.Fatalf("seed %d: %+v of %d became %d events, want %d", seed, r, len(p.rows), stored[r.key], want)
			}
		}
		if skipped != broken {
			t.Fatalf("seed %d: %d items were skipped, want %d", seed, skipped, broken)
		}
	}
}

// drain polls until there is nothing more, and returns the keys in order, the number of gaps and the position.
func (p *feedPlatform) drain(t *testing.T, position string) (keys []string, gaps int, next string) {
	t.Helper()
	for range 10_000 {
		got, err := driver.PollOnce(p.feed, position, p.second(), p.ask)
		must.OK(t, err)
		for _, e := range got.Events {
			keys = append(keys, e.UpstreamID)
		}
		if got.Gap {
			gaps++
		}
		if position = got.Position; !got.More {
			return keys, gaps, position
		}
	}
	t.Fatal("the polls do not end")
	return nil, 0, ""
}

func newFeedPlatform(t *testing.T) (p *feedPlatform, position string) {
	t.Helper()
	p = &feedPlatform{feed: &catalog.Feed{Name: "activity", Overlap: 2 * time.Minute, Limit: 10}, newestFirst: true, now: 1_700_000_000 * ticks}
	got, err := driver.PollOnce(p.feed, "", p.second(), p.ask)
	must.OK(t, err)
	return p, got.Position
}

// If the overlap has more rows at the start than a response can hold, none of them becomes an event, and all that come
// later do.
func TestAFeedStartsInTheMiddleOfABurst(t *testing.T) {
	t.Parallel()
	for _, before := range []int64{9, 10, 11, 500} {
		p := &feedPlatform{feed: &catalog.Feed{Name: "activity", Overlap: 2 * time.Minute, Limit: 10}, newestFirst: true, now: 1_700_000_000 * ticks}
		for i := range before {
			p.rows = append(p.rows, feedRow{key: fmt.Sprintf("before %d", i), at: p.second() - i/9, visible: p.now})
		}
		got, err := driver.PollOnce(p.feed, "", p.second(), p.ask)
		must.OK(t, err)
		var want []string
		for i := range int64(100) {
			p.now += ticks
			p.rows = append(p.rows, feedRow{key: fmt.Sprint(i), at: p.second(), visible: p.now})
			want = append(want, fmt.Sprint(i))
		}
		if keys, gaps, _ := p.drain(t, got.Position); !slices.Equal(keys, want) || gaps != 0 {
			t.Errorf("%d before: %v, %d gaps", before, keys, gaps)
		}
	}
}

// A second with more rows than a response can hold is reported once as a gap, and what is around it is complete.
func TestAFullSecondIsAGap(t *testing.T) {
	t.Parallel()
	p, position := newFeedPlatform(t)
	var around []string
	for i := range int64(60) {
		if i != 30 {
			around = append(around, fmt.Sprintf("row %d", i))
			p.rows = append(p.rows, feedRow{key: fmt.Sprintf("row %d", i), at: p.second() + i})
		}
	}
	for i := range int64(25) {
		p.rows = append(p.rows, feedRow{key: fmt.Sprintf("flood %d", i), at: p.second() + 30})
	}
	p.now += 3600 * ticks
	keys, gaps, position := p.drain(t, position)
	if gaps != 1 {
		t.Errorf("%d gaps", gaps)
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return strings.HasPrefix(key, "flood") })
	if !slices.Equal(keys, around) {
		t.Errorf("%v", keys)
	}
	if again, gaps, _ := p.drain(t, position); gaps != 0 || len(again) != 0 {
		t.Errorf("again: %v, %d gaps", again, gaps)
	}
}

// A row that is dated far ahead does not hide those that come after it.
func TestARowOfTheFutureHidesNothing(t *testing.T) {
	t.Parallel()
	p, position := newFeedPlatform(t)
	p.rows = append(p.rows, feedRow{key: "future", at: p.second() + 365*24*3600})
	keys, _, position := p.drain(t, position)
	for i := range 5 {
		p.now += 600 * ticks
		p.rows = append(p.rows, feedRow{key: fmt.Sprint(i), at: p.second(), visible: p.now})
		var more []string
		more, _, position = p.drain(t, position)
		keys = append(keys, more...)
	}
	if !slices.Equal(keys, []string{"future", "0", "1", "2", "3", "4"}) {
		t.Errorf("%v", keys)
	}
}

// However much a platform lists within the overlap, the position stays bounded, and nothing is listed twice.
func TestPositionsAreBounded(t *testing.T) {
	t.Parallel()
	p, position := newFeedPlatform(t)
	p.feed.Overlap, p.feed.Limit = 24*time.Hour, 1000
	seen := map[string]int{}
	for i := range 12_000 {
		p.now++
		p.rows = append(p.rows, feedRow{key: fmt.Sprint(i), at: p.second(), visible: p.now})
		if i%3000 != 2999 {
			continue
		}
		var keys []string
		keys, _, position = p.drain(t, position)
		for _, key := range keys {
			seen[key]++
		}
		if len(position) > 150_000 {
			t.Fatalf("the position has %d bytes", len(position))
		}
	}
	for key, times := range seen {
		if times != 1 {
			t.Errorf("%s was listed %d times", key, times)
		}
	}
	if len(seen) != len(p.rows) {
		t.Errorf("%d of %d rows were listed", len(seen), len(p.rows))
	}
}

// A platform that ignores the times in the request is reported as changed, instead of being asked again and again.
func TestAFeedThatIgnoresTimesHasChanged(t *testing.T) {
	t.Parallel()
	p, position := newFeedPlatform(t)
	old := make([]catalog.Item, p.feed.Limit)
	for i := range old {
		old[i] = catalog.Item{Key: fmt.Sprint(i), At: time.Unix(1_600_000_000, 0)}
	}
	_, err := driver.PollOnce(p.feed, position, p.second(), func(int64, int64) ([]catalog.Item, int64) { return old, p.second() })
	if !errors.Is(err, catalog.ErrChanged) {
		t.Error(err)
	}
}
