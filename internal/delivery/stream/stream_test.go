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
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// fixture is a node with a store and a wire in memory.
type fixture struct {
	*testing.T
	h *stream.Streams
	m *streamtest.Memory
}

// withFixture runs a test with its own node and store, and in its own time (package synctest).
func withFixture(t *testing.T, test func(c *fixture)) {
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
		test(&fixture{t, h, m})
		stop()
		<-done
	})
}

// readEvents reads n events, and fails if they do not arrive.
func readEvents(t *testing.T, r *stream.Reader, n int) (list []stream.Event) {
	t.Helper()
	for end := time.After(time.Hour); len(list) < n; {
		got, more, err := r.Read(t.Context(), nil, n-len(list))
		must.OK(t, err)
		if list = append(list, got...); len(got) > 0 || more == nil {
			continue
		}
		select {
		case <-more:
		case <-end:
			t.Fatalf("only %d of %d events arrived", len(list), n)
		}
	}
	return list
}

// wantNothing fails if there is something to read.
func wantNothing(t *testing.T, r *stream.Reader) {
	t.Helper()
	synctest.Wait()
	if list, more, err := r.Read(t.Context(), nil, 100); err != nil || len(list) > 0 || more == nil {
		t.Fatalf("%v %v", list, err)
	}
}

func watch(t *testing.T, h *stream.Streams, w stream.Want) (*stream.Reader, stream.Start) {
	t.Helper()
	r, start, err := h.Watch(t.Context(), w)
	must.OK(t, err)
	return r, start
}

func filter(t *testing.T, names ...string) event.Filter {
	t.Helper()
	f, err := event.NewKinds().Filter("sandbox", names)
	must.OK(t, err)
	return f
}

var (
	mine = id.New[id.Org]()
	acct = id.New[id.Account]()
)

// idOf returns the id of an event that was created at a time.
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

// A reader without a cursor gets new events immediately. A reader with a cursor gets the events after it once, and then
// new ones.
func TestReadersStartAtTheirCursor(t *testing.T) {
	t.Parallel()
	withFixture(t, func(c *fixture) {
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
		wantNothing(t, now)
		m.Add(mine, string(acct), true, messages(1)...)
		if got := readEvents(t, now, 1); got[0].Cursor != "00000000000011" || now.Cursor() != got[0].Cursor {
			t.Errorf("%+v", got)
		}
		for i, e := range readEvents(t, old, 4) {
			if want := fmt.Sprintf("%014d", 8+i); e.Cursor != want {
				t.Errorf("cursor %s, want %s", e.Cursor, want)
			}
		}
		wantNothing(t, old)
		m.Lock()
		if reads := m.Reads; reads > 20 {
			t.Errorf("%d reads of the store", reads)
		}
		m.Unlock()
	})
}

// A cursor that is older than the kept events starts with the oldest and reports a gap. A cursor after the head also
// reports one; the cursor 0 does not. An invalid cursor is refused.
func TestGapsAreReported(t *testing.T) {
	t.Parallel()
	withFixture(t, func(c *fixture) {
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
				t.Errorf("after %s: %+v", after, start)
			}
			r.Close()
		}
		for _, after := range []string{"x", "-1", "0000000000000000001", "000000000001."} {
			if _, _, err := h.Watch(t.Context(), stream.Want{Org: mine, Account: acct, Days: 7, After: after}); !errors.Is(err, problem.InvalidRequest.New("")) {
				t.Errorf("%s: %v", after, err)
			}
		}
		old, young := idOf(time.Now().Add(-8*24*time.Hour)), idOf(time.Now())
		for after, gap := range map[string]bool{
			c.m.Cursor(event.Position{Tx: 1, ID: old}, true): true, c.m.Cursor(event.Position{Tx: 1, ID: young}, true): false, "0": false,
			c.m.Cursor(event.Position{Tx: 1 << 40, ID: young}, true): true,
		} {
			r, start := watch(t, h, stream.Want{Org: mine, Days: 7, After: after})
			if start.Gap != gap || !start.Resumed {
				t.Errorf("org after %s: %+v", after, start)
			}
			r.Close()
		}
	})
}

// Whatever messages are lost, however slow a reader is and however often it reconnects, it sees every event once and in
// order.
func TestReadersSeeEveryEventOnceAndInOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			withFixture(t, func(c *fixture) {
				t, h, m := c.T, c.h, c.m
				dice := rand.New(rand.NewPCG(seed, 1))
				var readers sync.WaitGroup
				const total = 700
				for i := range 6 {
					dawdle := time.Duration(dice.IntN(40)) * time.Millisecond
					readers.Go(func() { readAll(t, h, m, i%2 == 0, dawdle, total) })
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

// readAll reads all events from the beginning, and reconnects from time to time.
func readAll(t *testing.T, h *stream.Streams, m *streamtest.Memory, org bool, dawdle time.Duration, total int) {
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
			for _, e := range readEvents(t, r, 1+rand.IntN(min(20, total-len(seen)))) {
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
			t.Errorf("event %d is not the stored one (org: %v)", i, org)
			return
		}
	}
}

// An event is hidden from an org's stream while older transactions are running, and is delivered immediately
// afterwards.
func TestOrgReaderSeesEventsInTheOrderOfTheStore(t *testing.T) {
	t.Parallel()
	withFixture(t, func(c *fixture) {
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
		wantNothing(t, r)
		m.Lock()
		m.Horizon = 0
		m.Unlock()
		began := time.Now()
		if got := readEvents(t, r, 3); got[2].Cursor != m.Cursor(m.Events[2].Position(), true) || time.Since(began) > time.Second {
			t.Errorf("%+v after %v", got, time.Since(began))
		}
		wantNothing(t, r)
	})
}

// A reader of an org that is restricted to accounts sees only their events, and none of the org itself.
func TestReaderSeesOnlyItsAccounts(t *testing.T) {
	t.Parallel()
	withFixture(t, func(c *fixture) {
		t, h, m := c.T, c.h, c.m
		r, _ := watch(t, h, stream.Want{Org: mine, Days: 7, Among: []id.Account{acct}})
		defer r.Close()
		m.Add(mine, string(mine), true, "key.created")
		m.Add(mine, string(id.New[id.Account]()), true, messages(3)...)
		m.Add(mine, string(acct), true, messages(1)...)
		if got := readEvents(t, r, 1); got[0].Cursor != m.Cursor(m.Events[4].Position(), true) {
			t.Errorf("%+v", got)
		}
		wantNothing(t, r)
	})
}

// A filter drops events that do not match. The last event of an account ends its stream whatever the filter.
func TestFiltersAndTheLastEvent(t *testing.T) {
	t.Parallel()
	withFixture(t, func(c *fixture) {
		t, h, m := c.T, c.h, c.m
		r, _ := watch(t, h, stream.Want{Org: mine, Account: acct, Days: 7, Filter: filter(t, "account.paused")})
		defer r.Close()
		m.Add(mine, string(acct), true, "account.updated", "account.paused", "account.updated")
		if got := readEvents(t, r, 1); got[0].Kind != "account.paused" || got[0].Cursor != "00000000000002" || got[0].Last {
			t.Errorf("%+v", got)
		}
		m.Add(mine, string(acct), true, "account.disconnected")
		if got := readEvents(t, r, 1); !got[0].Last || got[0].Body != nil {
			t.Errorf("%+v", got)
		}
	})
}

// Ephemeral events have no cursor, reach live readers, and are not kept for readers that are behind.
func TestEphemeralEventsAreOnlyForLiveReaders(t *testing.T) {
	t.Parallel()
	withFixture(t, func(c *fixture) {
		t, h, m := c.T, c.h, c.m
		m.Add(mine, string(acct), true, messages(200)...)
		for _, account := range []id.Account{acct, ""} {
			live, _ := watch(t, h, stream.Want{Org: mine, Account: account, Days: 7})
			behind, _ := watch(t, h, stream.Want{Org: mine, Account: account, Days: 7, After: "0"})
			synctest.Wait() // until the feed has subscribed
			m.Tell(event.Stored{Org: mine, Source: string(acct), Kind: "typing", ID: id.New[id.Event](), Body: []byte(`{}`)})
			if got := readEvents(t, live, 1); got[0].Kind != "typing" || got[0].Cursor != "" {
				t.Errorf("%+v", got)
			}
			wantNothing(t, live)
			for _, e := range readEvents(t, behind, 200) {
				if e.Cursor == "" {
					t.Error("a reader that was behind got an ephemeral event")
				}
			}
			wantNothing(t, behind)
			m.Tell(event.Stored{Org: mine, Source: string(acct), Kind: "typing", ID: id.New[id.Event](), Body: []byte(`{}`)})
			readEvents(t, behind, 1)
			live.Close()
			behind.Close()
		}
	})
}

// While live messages do not arrive, feeds read the store every two seconds, and immediately when they arrive again. An
// event whose message was lost unnoticed is found within half a minute.
func TestFeedsDoNotRelyOnMessages(t *testing.T) {
	t.Parallel()
	withFixture(t, func(c *fixture) {
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
				if readEvents(t, r, 1); time.Since(began) > limit {
					t.Errorf("it took %v, want at most %v", time.Since(began), limit)
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

// An outage of the store delays events but loses none. A stream that starts during it fails, and the next one works.
func TestFeedsSurviveAnOutageOfTheStore(t *testing.T) {
	t.Parallel()
	withFixture(t, func(c *fixture) {
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
		took := len(readEvents(t, r, 151))
		whole, _ := watch(t, h, stream.Want{Org: mine, Days: 7, After: "0"})
		defer whole.Close()
		if took != 151 || len(readEvents(t, whole, 151)) != 151 {
			t.Error(took)
		}
	})
}

// A reader that is far behind reads the store itself, and the feed does not read for it.
func TestSlowReadersDoNotAffectOthers(t *testing.T) {
	t.Parallel()
	withFixture(t, func(c *fixture) {
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
			readEvents(t, fast, 1)
		}
		m.Lock()
		if m.Reads != before {
			t.Errorf("%d reads of the store for a reader that keeps up", m.Reads-before)
		}
		m.Unlock()
		for i, e := range readEvents(t, slow, 1000) {
			if want := event.FormatCursor(int64(i + 1)); e.Cursor != want {
				t.Fatalf("cursor %s, want %s", e.Cursor, want)
			}
		}
	})
}

// Pages have the requested size, continue where the last one ended and are complete. A filter that matches nothing
// still advances.
func TestPages(t *testing.T) {
	t.Parallel()
	withFixture(t, func(c *fixture) {
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
			w.After, w.Filter = "", filter(t, "account.paused")
			if page, err := h.Pull(t.Context(), w, 100); err != nil || len(page.Events) != 1 {
				t.Errorf("%+v %v", page, err)
			}
			w.Filter = filter(t, "account.resumed")
			page, err := h.Pull(t.Context(), w, 100)
			if last := m.Events[250]; err != nil || len(page.Events) != 0 || (page.Next != event.FormatCursor(251) && page.Next != m.Cursor(last.Position(), true)) {
				t.Errorf("%+v %v", page, err)
			}
		}
	})
}

// Await ends when there is something to pull, when its time is over, and when the node is about to stop.
func TestWaits(t *testing.T) {
	t.Parallel()
	withFixture(t, func(c *fixture) {
		t, h, m := c.T, c.h, c.m
		w := stream.Want{Org: mine, Account: acct, Days: 7, After: "0", Filter: filter(t, "account.paused")}
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
