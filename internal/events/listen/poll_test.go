package listen_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/events/listen"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
)

// polled is a platform that is polled. A position is the number of events before it.
type polled struct {
	driver.Driver
	mu     sync.Mutex
	events []string
	polls  int
	// batches counts polls that found events.
	batches int64
	err     error
}

func (*polled) Since(context.Context, driver.Via, driver.Session, string) (driver.Missed, error) {
	return driver.Missed{}, driver.ErrNoSocket
}

func (p *polled) Poll(_ context.Context, _ driver.Via, s driver.Session, position string) (driver.Polled, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polls++
	m := driver.Polled{Position: position, Wait: time.Millisecond, Answer: driver.Answer{Session: s}}
	if p.err != nil {
		return m, p.err
	}
	from, err := strconv.Atoi(position)
	if err != nil { // a new account starts at the present
		m.Position, m.Moved = strconv.Itoa(len(p.events)), true
		return m, nil
	}
	to := min(from+100, len(p.events))
	for _, id := range p.events[from:to] {
		m.Events = append(m.Events, catalog.Event{Kind: "message", Class: catalog.Durable, UpstreamID: id, Data: []byte(`{}`)})
	}
	if to > from {
		p.batches++
	}
	m.Position, m.More = strconv.Itoa(to), to < len(p.events)
	return m, nil
}

// happen adds events.
func (p *polled) happen(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range n {
		p.events = append(p.events, fmt.Sprint("e", len(p.events)))
	}
}

// fail makes polls fail; nil makes them succeed again.
func (p *polled) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *polled) countBatches() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.batches
}

func (p *polled) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.polls
}

// since returns the events after the first n.
func (p *polled) since(n int) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events[n:])
}

// newPolled returns a fixture whose platform is polled.
func newPolled(t *testing.T) (*fixture, *polled) {
	t.Helper()
	r := newFixture(t, options{})
	p := &polled{Driver: r.driver}
	c := *r.platform.Catalog
	c.Socket, c.Poll = nil, &catalog.Poll{Every: 5 * time.Millisecond, Idle: 20 * time.Millisecond}
	r.platforms = func(string) (registry.Platform, bool) { return registry.Platform{Catalog: &c, Driver: p}, true }
	return r, p
}

func (r *fixture) wantPolled(a account.Account, want func() []string) {
	r.t.Helper()
	r.waitFor("everything is stored", func() bool {
		_, ids := r.stored(a)
		return len(ids) >= len(want())
	})
	if _, ids := r.stored(a); !slices.Equal(ids, want()) {
		r.t.Fatalf("%d events happened and %d are stored; %s", len(want()), len(ids), difference(want(), ids))
	}
}

// Polled events are stored once and in order: when the log refuses some, when the platform fails for a while, and when
// another node continues. Events from before the account was connected are not reported.
func TestPolledEventsAreStoredOnce(t *testing.T) {
	t.Parallel()
	r, p := newPolled(t)
	p.happen(7)
	first := r.node("a")
	a, _ := r.connect()
	if a = r.waitUp(a); a.State != account.Active {
		t.Fatal(a.State)
	}
	want := func() []string { return p.since(7) }
	p.happen(350)
	r.wantPolled(a, want)
	if n, most := first.log.positions.Load(), p.countBatches(); n == 0 || n > most {
		t.Errorf("%d of 350 records carry a position; want one for each of %d batches", n, most)
	}
	first.log.fails.Store(true)
	p.happen(120)
	polls := p.count()
	r.waitFor("sessions end because the log refuses events", func() bool { return p.count() > polls+3 })
	first.log.fails.Store(false)
	r.wantPolled(a, want)
	p.fail(&driver.Refused{Refusal: catalog.Refusal{Kind: catalog.RefusedUnavailable}, Status: 503})
	r.waitFor("the listener is down", func() bool { return r.Get(a).Listener.State == account.ListenerDown })
	p.happen(250)
	p.fail(nil)
	r.wantPolled(a, want)
	p.happen(30)
	first.stop()
	p.happen(230)
	r.node("b")
	r.wantPolled(a, want)
	if kinds, _ := r.stored(a); slices.Contains(kinds, "listener.gap") {
		t.Error("a gap was reported although nothing is missing")
	}
}

// A quiet account is polled less and less often, an active one often. A platform that always has more is not asked
// without a pause.
func TestPollsAreSpacedByWhatTheyFind(t *testing.T) {
	t.Parallel()
	nothing, more := driver.Polled{Wait: time.Second}, driver.Polled{More: true}
	found, due := driver.Polled{Events: make([]catalog.Event, 1), Wait: time.Second}, driver.Polled{}
	late := driver.Polled{Wait: 40 * time.Second}
	next := listen.NewPollPace(&catalog.Poll{Every: 4 * time.Second, Idle: 30 * time.Second})
	for i, c := range []struct {
		m    driver.Polled
		want time.Duration
	}{
		{nothing, 6 * time.Second}, {nothing, 9 * time.Second},
		{found, 4 * time.Second}, {nothing, 6 * time.Second},
		{more, listen.MinPollInterval}, {more, listen.MinPollInterval}, {due, listen.MinPollInterval},
		{nothing, 9 * time.Second}, {nothing, 13500 * time.Millisecond}, {nothing, 20250 * time.Millisecond},
		{nothing, 30 * time.Second}, {nothing, 30 * time.Second}, {late, 40 * time.Second},
	} {
		if got := next(&c.m); got != c.want {
			t.Errorf("poll %d: %v, want %v", i, got, c.want)
		}
	}
}
