package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/delivery/stream"
	"github.com/stagedoor/stagedoor/internal/delivery/stream/streamtest"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// rig is a node on a memory.
type rig struct {
	*testing.T
	h *stream.Streams
	m *streamtest.Memory
}

// bubble runs a test with a node of its own on a memory, in time of its own.
func bubble(t *testing.T, test func(c *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := streamtest.New(time.Now)
		h := stream.New(stream.Deps{Store: m, Wire: m, Redis: streamtest.NoRedis{}, Log: slog.New(slog.DiscardHandler), Now: time.Now})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = h.Run(ctx)
		}()
		test(&rig{t, h, m})
		stop()
		<-done
	})
}

// take reads a number of events, and fails if they do not come.
func take(t *testing.T, r *stream.Reader, n int) (list []stream.Event) {
	t.Helper()
	for end := time.After(time.Hour); len(list) < n; {
		got, more, err := r.Read(t.Context(), nil, n-len(list))
		if err != nil {
			t.Fatal(err)
		}
		if list = append(list, got...); len(got) > 0 || more == nil {
			continue
		}
		select {
		case <-more:
		case <-end:
			t.Fatalf("%d of %d events came", len(list), n)
		}
	}
	return list
}

// nothing fails if there is something to read.
func nothing(t *testing.T, r *stream.Reader) {
	t.Helper()
	synctest.Wait()
	if list, more, err := r.Read(t.Context(), nil, 100); err != nil || len(list) > 0 || more == nil {
		t.Fatalf("%v %v", list, err)
	}
}

func watch(t *testing.T, h *stream.Streams, w stream.Want) (*stream.Reader, stream.Start) {
	t.Helper()
	r, start, err := h.Watch(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return r, start
}

func everything(t *testing.T, names ...string) event.Filter {
	t.Helper()
	f, err := event.NewKinds(nil).Filter("sandbox", names)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var (
	mine = id.New[id.Org]()
	acct = id.New[id.Account]()
)

// idOf is the id of an event that was made at a time.
func idOf(at time.Time) id.Event {
	const digits = "0123456789abcdefghjkmnpqrstvwxyz"
	text := []byte("evt_0000000000" + "0000000000000000")
	for i, ms := 13, at.UnixMilli(); i >= 4; i, ms = i-1, ms/32 {
		text[i] = digits[ms%32]
	}
	return id.Event(text)
}

func messages(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = "account.updated"
	}
	return list
}

// A reader without a cursor gets what comes from now on, at once; one with a cursor gets what is behind it, once, and then the rest.
func TestReadersBeginWhereTheyAreAskedTo(t *testing.T) {
	t.Parallel()
	bubble(t, func(c *rig) {
		t, h, m := c.T, c.h, c.m
		m.Add(mine, string(acct), true, messages(10)...)
		now, start := watch(t, h, stream.Want{Org: mine, Account: acct, Days: 7})
		defer now.Close()
		if start != (stream.Start{Cursor: "00000000000010", Oldest: "00000000000001"}) {
			t.Errorf("%+v", start)
		}
		old, start := watch(t, h, stream.Want{Org: mine, Account: acct, Days: 7, After: "00000000000007"})
		defer old.Close()
		if start != (stream.Start{Cursor: "00000000000007", Resumed: true, Oldest: "00000000000001"}) {
			t.Errorf("%+v", start)
		}
		nothing(t, now)
		m.Add(mine, string(acct), true, messages(1)...)
		if got := take(t, now, 1); got[0].Cursor != "00000000000011" || now.Cursor() != got[0].Cursor {
			t.Errorf("%+v", got)
		}
		for i, e := range take(t, old, 4) {
			if want := fmt.Sprintf("%014d", 8+i); e.Cursor != want {
				t.Errorf("%s, not %s", e.Cursor, want)
			}
		}
		nothing(t, old)
		m.Lock()
		if reads := m.Reads; reads > 20 {
			t.Errorf("%d reads of the store", reads)
		}
		m.Unlock()
	})
}

// A cursor that is older than what is kept begins with the oldest and says that there is a gap; so does one that is yet to come. The
// beginning has none. What is no cursor is refused.
func TestGapsAreTold(t *testing.T) {
	t.Parallel()
	bubble(t, func(c *rig) {
		t, h, m := c.T, c.h, c.m
		m.Add(mine, string(acct), true, messages(5)...)
		for i := range m.Events {
			m.Events[i].At = time.Now().AddDate(0, 0, -8)
		}
		m.Add(mine, string(acct), true, messages(5)...)
		for after, want := range map[string]stream.Start{
			"3":              {Cursor: "00000000000005", Resumed: true, Gap: true, Oldest: "00000000000006"},
			"5":              {Cursor: "00000000000005", Resumed: true, Oldest: "00000000000006"},
			"0":              {Cursor: "00000000000005", Resumed: true, Oldest: "00000000000006"},
			"00000000000011": {Cursor: "00000000000010", Resumed: true, Gap: true, Oldest: "00000000000006"},
		} {
			r, start := watch(t, h, stream.Want{Org: mine, Account: acct, Days: 7, After: after})
			if start != want {
				t.Errorf("behind %s: %+v", after, start)
			}
			r.Close()
		}
		for _, after := range []string{"x", "-1", "0000000000000000001", event.Position{Tx: 1}.String()} {
			if _, _, err := h.Watch(t.Context(), stream.Want{Org: mine, Account: acct, Days: 7, After: after}); !errors.Is(err, problem.InvalidRequest.New("")) {
				t.Errorf("%s: %v", after, err)
			}
		}
		old, young := idOf(time.Now().Add(-8*24*time.Hour)), idOf(time.Now())
		for after, gap := range map[string]bool{
			event.Position{Tx: 1, ID: old}.String(): true, event.Position{Tx: 1, ID: young}.String(): false, "0": false,
			event.Position{Tx: 1 << 40, ID: young}.String(): true,
		} {
			r, start := watch(t, h, stream.Want{Org: mine, Days: 7, After: after})
			if start.Gap != gap || !start.Resumed {
				t.Errorf("org behind %s: %+v", after, start)
			}
			r.Close()
		}
	})
}

// Whatever messages are lost, however a reader dawdles and whenever it comes back: each sees every event once and in order.
func TestNothingIsLostAndNothingComesTwice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(c *rig) {
				t, h, m := c.T, c.h, c.m
				dice := rand.New(rand.NewPCG(seed, 1))
				var readers sync.WaitGroup
				const total = 700
				for i := range 6 {
					dawdle := time.Duration(dice.IntN(40)) * time.Millisecond
					readers.Go(func() { follow(t, h, m, i%2 == 0, dawdle, total) })
				}
				for made := 0; made < total; {
					n := min(1+dice.IntN(30), total-made)
					m.Add(mine, string(acct), dice.IntN(4) > 0, messages(n)...)
					if made += n; dice.IntN(20) == 0 {
						h.Missed()
					}
					time.Sleep(time.Duration(dice.IntN(30)) * time.Millisecond)
				}
				readers.Wait()
			})
		})
	}
}

// follow reads from the beginning to the end, and reconnects every now and then.
func follow(t *testing.T, h *stream.Streams, m *streamtest.Memory, org bool, dawdle time.Duration, total int) {
	t.Helper()
	w := stream.Want{Org: mine, Days: 7, After: "0"}
	if !org {
		w.Account = acct
	}
	var seen []id.Event
	for len(seen) < total {
		r, _ := watch(t, h, w)
		for range 1 + rand.IntN(200) {
			if len(seen) == total {
				break
			}
			for _, e := range take(t, r, 1+rand.IntN(min(20, total-len(seen)))) {
				seen = append(seen, id.Event(e.Body[7:37]))
				w.After = e.Cursor
			}
			time.Sleep(dawdle)
		}
		r.Close()
	}
	m.Lock()
	defer m.Unlock()
	for i, one := range seen {
		if one != m.Events[i].ID {
			t.Errorf("event %d is not the one that was stored (org: %v)", i, org)
			return
		}
	}
}

// An event whose transaction others may still commit before is not shown on an org's stream until they have, and then at once.
func TestAnOrgSeesEventsInTheOrderOfTheStore(t *testing.T) {
	t.Parallel()
	bubble(t, func(c *rig) {
		t, h, m := c.T, c.h, c.m
		r, _ := watch(t, h, stream.Want{Org: mine, Days: 7})
		defer r.Close()
		other := string(id.New[id.Account]())
		m.Lock()
		m.Horizon = m.Tx + 1
		m.Unlock()
		m.Add(mine, string(acct), true, messages(1)...)
		m.Add(mine, other, true, messages(2)...)
		m.Add(id.New[id.Org](), "x", true, messages(2)...)
		nothing(t, r)
		m.Lock()
		m.Horizon = 0
		m.Unlock()
		began := time.Now()
		if got := take(t, r, 3); got[2].Cursor != m.Events[2].Position().String() || time.Since(began) > time.Second {
			t.Errorf("%+v after %v", got, time.Since(began))
		}
		nothing(t, r)
	})
}

// A reader of an org that is limited to accounts sees theirs only, and nothing of the org's own.
func TestAReaderSeesOnlyItsAccounts(t *testing.T) {
	t.Parallel()
	bubble(t, func(c *rig) {
		t, h, m := c.T, c.h, c.m
		r, _ := watch(t, h, stream.Want{Org: mine, Days: 7, Among: []id.Account{acct}})
		defer r.Close()
		m.Add(mine, string(mine), true, "key.created")
		m.Add(mine, string(id.New[id.Account]()), true, messages(3)...)
		m.Add(mine, string(acct), true, messages(1)...)
		if got := take(t, r, 1); got[0].Cursor != m.Events[4].Position().String() {
			t.Errorf("%+v", got)
		}
		nothing(t, r)
	})
}

// A filter leaves out what is not wanted. The end of an account ends its stream whatever the filter.
func TestFiltersAndTheEnd(t *testing.T) {
	t.Parallel()
	bubble(t, func(c *rig) {
		t, h, m := c.T, c.h, c.m
		r, _ := watch(t, h, stream.Want{Org: mine, Account: acct, Days: 7, Filter: everything(t, "account.paused")})
		defer r.Close()
		m.Add(mine, string(acct), true, "account.updated", "account.paused", "account.updated")
		if got := take(t, r, 1); got[0].Kind != "account.paused" || got[0].Cursor != "00000000000002" || got[0].Last {
			t.Errorf("%+v", got)
		}
		m.Add(mine, string(acct), true, "account.disconnected")
		if got := take(t, r, 1); !got[0].Last || got[0].Body != nil {
			t.Errorf("%+v", got)
		}
	})
}

// Ephemeral events come without a cursor, to those who are there, and are not kept for those who are behind.
func TestEphemeralEventsAreForWhoIsThere(t *testing.T) {
	t.Parallel()
	bubble(t, func(c *rig) {
		t, h, m := c.T, c.h, c.m
		m.Add(mine, string(acct), true, messages(200)...)
		for _, account := range []id.Account{acct, ""} {
			live, _ := watch(t, h, stream.Want{Org: mine, Account: account, Days: 7})
			behind, _ := watch(t, h, stream.Want{Org: mine, Account: account, Days: 7, After: "0"})
			synctest.Wait() // until the feed listens
			m.Tell(event.Stored{Org: mine, Source: string(acct), Kind: "typing", ID: id.New[id.Event](), Body: []byte(`{}`)})
			if got := take(t, live, 1); got[0].Kind != "typing" || got[0].Cursor != "" {
				t.Errorf("%+v", got)
			}
			nothing(t, live)
			for _, e := range take(t, behind, 200) {
				if e.Cursor == "" {
					t.Error("an old reader was sent an ephemeral event")
				}
			}
			nothing(t, behind)
			m.Tell(event.Stored{Org: mine, Source: string(acct), Kind: "typing", ID: id.New[id.Event](), Body: []byte(`{}`)})
			take(t, behind, 1)
			live.Close()
			behind.Close()
		}
	})
}

// While live messages do not come, feeds ask the store every two seconds; when they come again, at once. A message that was lost without
// anybody's notice is found within half a minute.
func TestFeedsDoNotRelyOnMessages(t *testing.T) {
	t.Parallel()
	bubble(t, func(c *rig) {
		t, h, m := c.T, c.h, c.m
		for _, account := range []id.Account{acct, ""} {
			r, _ := watch(t, h, stream.Want{Org: mine, Account: account, Days: 7})
			set := func(mute bool) {
				m.Lock()
				m.Mute = mute
				m.Unlock()
			}
			within := func(limit time.Duration) {
				t.Helper()
				began := time.Now()
				if take(t, r, 1); time.Since(began) > limit {
					t.Errorf("it took %v, not %v", time.Since(began), limit)
				}
			}
			time.Sleep(time.Minute)
			m.Add(mine, string(acct), false, messages(1)...)
			within(31 * time.Second)
			set(true)
			time.Sleep(3 * time.Second)
			m.Add(mine, string(acct), true, messages(1)...)
			within(3 * time.Second)
			m.Add(mine, string(acct), true, messages(1)...)
			set(false)
			within(1100 * time.Millisecond)
			m.Add(mine, string(acct), false, messages(1)...)
			h.Missed()
			within(0)
			r.Close()
		}
	})
}

// A store that is away delays events and loses none. A stream that is to begin meanwhile fails, and the next one works.
func TestFeedsOutliveTheStore(t *testing.T) {
	t.Parallel()
	bubble(t, func(c *rig) {
		t, h, m := c.T, c.h, c.m
		r, _ := watch(t, h, stream.Want{Org: mine, Account: acct, Days: 7})
		defer r.Close()
		set := func(down bool) {
			m.Lock()
			m.Down = down
			m.Unlock()
		}
		set(true)
		if _, _, err := h.Watch(t.Context(), stream.Want{Org: mine, Days: 7}); !errors.Is(err, streamtest.ErrAway) {
			t.Errorf("%v", err)
		}
		m.Add(mine, string(acct), false, messages(150)...)
		m.Add(mine, string(acct), true, messages(1)...)
		time.Sleep(time.Minute)
		set(false)
		took := len(take(t, r, 151))
		whole, _ := watch(t, h, stream.Want{Org: mine, Days: 7, After: "0"})
		defer whole.Close()
		if took != 151 || len(take(t, whole, 151)) != 151 {
			t.Error(took)
		}
	})
}

// A reader that is far behind reads the store itself and holds nothing; the feed does not read for it.
func TestSlowReadersCostNobodyElse(t *testing.T) {
	t.Parallel()
	bubble(t, func(c *rig) {
		t, h, m := c.T, c.h, c.m
		slow, _ := watch(t, h, stream.Want{Org: mine, Account: acct, Days: 7})
		defer slow.Close()
		fast, _ := watch(t, h, stream.Want{Org: mine, Account: acct, Days: 7})
		defer fast.Close()
		synctest.Wait()
		m.Lock()
		before := m.Reads
		m.Unlock()
		for range 1000 {
			m.Add(mine, string(acct), true, messages(1)...)
			take(t, fast, 1)
		}
		m.Lock()
		if m.Reads != before {
			t.Errorf("%d reads of the store for a reader that keeps up", m.Reads-before)
		}
		m.Unlock()
		for i, e := range take(t, slow, 1000) {
			if want := event.FormatCursor(int64(i + 1)); e.Cursor != want {
				t.Fatalf("%s, not %s", e.Cursor, want)
			}
		}
	})
}

// Pages hold what is asked for, go on where the last one ended, and are complete; a filter that matches nothing still moves on.
func TestPages(t *testing.T) {
	t.Parallel()
	bubble(t, func(c *rig) {
		t, h, m := c.T, c.h, c.m
		m.Add(mine, string(acct), true, messages(250)...)
		m.Add(mine, string(acct), true, "account.paused")
		for _, w := range []stream.Want{{Org: mine, Account: acct, Days: 7}, {Org: mine, Days: 7}} {
			var sizes []int
			for n := 0; n < 251; {
				page, err := h.Pull(t.Context(), w, 100)
				if err != nil || page.Gap {
					t.Fatal(page.Gap, err)
				}
				n += len(page.Events)
				sizes = append(sizes, len(page.Events))
				w.After = page.Next
			}
			if fmt.Sprint(sizes) != "[100 100 51]" {
				t.Error(sizes)
			}
			w.After, w.Filter = "", everything(t, "account.paused")
			if page, err := h.Pull(t.Context(), w, 100); err != nil || len(page.Events) != 1 {
				t.Errorf("%+v %v", page, err)
			}
			w.Filter = everything(t, "account.resumed")
			page, err := h.Pull(t.Context(), w, 100)
			if last := m.Events[250]; err != nil || len(page.Events) != 0 || (page.Next != event.FormatCursor(251) && page.Next != last.Position().String()) {
				t.Errorf("%+v %v", page, err)
			}
		}
	})
}

// A wait ends when there is something that can be pulled, when its time is over, and when the node is about to stop.
func TestWaits(t *testing.T) {
	t.Parallel()
	bubble(t, func(c *rig) {
		t, h, m := c.T, c.h, c.m
		w := stream.Want{Org: mine, Account: acct, Days: 7, After: "0", Filter: everything(t, "account.paused")}
		go func() {
			time.Sleep(3 * time.Second)
			m.Tell(event.Stored{Org: mine, Source: string(acct), Kind: "account.paused", ID: id.New[id.Event](), Body: []byte(`{}`)})
			m.Add(mine, string(acct), true, "account.updated")
			time.Sleep(time.Second)
			m.Add(mine, string(acct), true, "account.paused")
		}()
		began := time.Now()
		never := func() bool { return false }
		if err := h.Await(t.Context(), w, 20*time.Second, never); err != nil || time.Since(began) != 4*time.Second {
			t.Errorf("%v %v", err, time.Since(began))
		}
		w.After = "2"
		began = time.Now()
		if err := h.Await(t.Context(), w, 20*time.Second, never); err != nil || time.Since(began) != 20*time.Second {
			t.Errorf("%v %v", err, time.Since(began))
		}
		began = time.Now()
		if err := h.Await(t.Context(), w, 20*time.Second, func() bool { return time.Since(began) > 4*time.Second }); err != nil || time.Since(began) > 6*time.Second {
			t.Errorf("%v %v", err, time.Since(began))
		}
	})
}
