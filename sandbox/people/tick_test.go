package people_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/people"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// still starts a platform whose clock moves only when the test advances it.
func still(t testing.TB) *sandboxtest.Platform {
	t.Helper()
	return sandboxtest.New(t, func(cfg *sandbox.Config) {
		cfg.Now = func() time.Time { return time.Date(2026, time.November, 15, 12, 0, 0, 0, time.UTC) }
	})
}

// After months without a request, every subscription with renewal was paid month by month, each at its own time, and
// every other one ended once.
func TestSubscriptionsGoOnWhileNobodyLooks(t *testing.T) {
	t.Parallel()
	p := still(t)
	renewing, ending := map[int64]int{}, 0
	var paid int
	p.Visit(login, func(c *world.Creator) {
		paid = c.Txs().Len()
		for _, one := range c.People().All() {
			if !one.Sub.Active(c.Now()) {
				continue
			}
			if one.Sub.AutoRenew {
				renewing[one.ID] = len(one.Sub.Periods)
			} else {
				ending++
			}
		}
	})
	p.Advance(65 * 24 * time.Hour)
	p.Visit(login, func(c *world.Creator) {
		now := c.Now()
		periods := 0
		for id, before := range renewing {
			one := c.People().Get(id)
			if !one.Sub.Active(now) || len(one.Sub.Periods) < before+2 {
				t.Errorf("fan %d: %d periods, had %d, until %s", id, len(one.Sub.Periods), before, one.Sub.Until)
			}
			for n := before; n < len(one.Sub.Periods); n++ {
				if !one.Sub.Periods[n].From.Equal(one.Sub.Periods[n-1].To) {
					t.Errorf("fan %d has a gap before period %d", id, n)
				}
			}
			periods += len(one.Sub.Periods) - before
		}
		if active := wireCount(c, now); active != len(renewing) || c.Profile.Fans != active {
			t.Errorf("%d fans, %d counted, want %d", active, c.Profile.Fans, len(renewing))
		}
		// The seed has no discount of a hundred percent, so every period was paid for.
		fresh := c.Txs().All()[paid:]
		if len(fresh) != periods {
			t.Errorf("%d transactions for %d periods", len(fresh), periods)
		}
		for n, tx := range fresh {
			one := c.People().Get(tx.Person)
			found := false
			for _, period := range one.Sub.Periods {
				found = found || (period.From.Equal(tx.At) && period.Price == tx.Gross)
			}
			if !found || tx.At.After(now) || (n > 0 && tx.At.Before(fresh[n-1].At.Add(-31*24*time.Hour))) {
				t.Fatalf("transaction %+v belongs to no period of %+v", tx, one.Sub)
			}
		}
		if people.Tick(c).Before(now.Add(time.Millisecond)) {
			t.Error("Tick has left something to do")
		}
		if c.Txs().Len() != paid+periods {
			t.Error("a second run renewed something")
		}
	})
	frames := map[string]int{}
	p.Visit(login, func(c *world.Creator) {
		after := int64(0)
		for {
			list, more, _, err := c.Frames(after, 1000)
			sandboxtest.OK(t, err)
			for _, text := range list {
				f := frame(t, text)
				frames[f.Type]++
				after = f.ID
			}
			if !more {
				return
			}
		}
	})
	if frames["fan.left"] != ending || frames["fan.renewed"] < 2*len(renewing) {
		t.Errorf("frames: %v, want %d fan.left and at least %d fan.renewed", frames, ending, 2*len(renewing))
	}
}

func wireCount(c *world.Creator, now time.Time) int {
	n := 0
	for _, one := range c.People().All() {
		if one.Sub.Active(now) {
			n++
		}
	}
	return n
}

// A request that fails rolls back the preceding Tick. The next request runs it again.
func TestARefusedRequestDoesNotStopTime(t *testing.T) {
	t.Parallel()
	p := still(t)
	refused := errors.New("no")
	p.Visit(login, func(*world.Creator) {}) // creates the creator
	p.Advance(20 * 24 * time.Hour)
	if err := p.World.Do(login, func(*world.Creator) error { return refused }); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	p.Visit(login, func(c *world.Creator) {
		for _, one := range c.People().All() {
			if one.Sub != nil && !one.Sub.Ended && !one.Sub.Active(c.Now()) {
				t.Fatalf("the subscription of user %d has ended but was not settled", one.ID)
			}
		}
	})
}

// A trial that starts today ends on time, even if the next end was far away when Tick last ran.
func TestAShortSubscriptionEndsInTime(t *testing.T) {
	t.Parallel()
	p := still(t)
	c := p.SignIn(login)
	p.Advance(10 * 24 * time.Hour)
	var fan *row.Person
	p.Visit(login, func(creator *world.Creator) {
		fan = creator.People().Get(c.Person(2042))
		sandboxtest.OK(t, people.Subscribe(creator, fan, people.Terms{Kind: "trial", Days: 1, SourceKind: "trial", SourceID: 1}))
		fan.Sub.AutoRenew = false
		creator.People().Put(fan)
	})
	p.Advance(25 * time.Hour)
	p.Visit(login, func(creator *world.Creator) {
		if one := creator.People().Get(fan.ID); !one.Sub.Ended {
			t.Fatalf("the trial: %+v", one.Sub)
		}
	})
}

func BenchmarkALookWhenNothingIsDue(b *testing.B) {
	p := still(b)
	p.Visit(login, func(*world.Creator) {}) // creates the creator
	p.Advance(10 * 24 * time.Hour)
	p.Visit(login, func(c *world.Creator) {
		people.Tick(c)
		for b.Loop() {
			people.Tick(c)
		}
	})
}

func BenchmarkAMonthOfRenewals(b *testing.B) {
	p := still(b)
	for b.Loop() {
		p.Advance(30 * 24 * time.Hour)
		p.Visit(login, func(*world.Creator) {})
	}
}

type liveFrame struct {
	ID   int64  `json:"id"`
	Type string `json:"type"`
}

func frame(t testing.TB, text []byte) liveFrame {
	t.Helper()
	var f liveFrame
	sandboxtest.OK(t, json.Unmarshal(text, &f))
	return f
}
