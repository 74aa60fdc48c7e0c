package switches_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

var ana = audit.By{Kind: audit.ActorOperator, ID: "admin", Label: "ana", Action: "switches.set", Request: "req_1"}

// noBus is a bus that is not connected.
type noBus struct{}

func (noBus) Publish(string, []byte) error { return errors.New("not connected") }

func (noBus) Subscribe(ctx context.Context, _ string, _ func(string, []byte)) error {
	<-ctx.Done()
	return nil
}

type messageBus interface {
	Publish(subject string, payload []byte) error
	Subscribe(ctx context.Context, pattern string, heard func(last string, payload []byte)) error
}

// startNode runs a node until the test ends.
func startNode(t *testing.T, db *postgres.DB, on messageBus) *switches.Control {
	t.Helper()
	c := switches.New(switches.Deps{DB: db, Audit: audit.New(db, sealtest.NewMemory(), clock.Now), Bus: on, Log: slog.New(slog.DiscardHandler), Now: clock.Now})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

func openBus(t *testing.T) *pubsub.Bus {
	t.Helper()
	b, err := pubsub.Open(pubsub.Config{URL: testenv.NATS(t), Name: "test"})
	must.OK(t, err)
	t.Cleanup(b.Close)
	return b
}

// A change takes effect on the node that made it before the call returns, and on the others soon, with and without a
// bus. The same holds for reverting it.
func TestDecisionReachesEveryNode(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	here, there, alone := startNode(t, db, openBus(t)), startNode(t, db, openBus(t)), startNode(t, db, noBus{})
	must.OK(t, here.Refuse(switches.Writes))
	if _, err := here.Turn(t.Context(), ana, []switches.Turn{{Switch: switches.Writes, Reason: "flood"}, {Switch: switches.Region("us"), Reason: "flood"}}); err != nil {
		t.Fatal(err)
	}
	err := here.Refuse(switches.Writes)
	p := problem.Of(err)
	if p.Kind.Code != problem.ServiceUnavailable.Code || p.RetryAfter == 0 || strings.Contains(err.Error(), "flood") {
		t.Errorf("%v", err)
	}
	if here.Refuse(switches.Connects) != nil || here.Refuse(switches.Region("uk")) != nil || here.Refuse(switches.Region("us")) == nil {
		t.Error("another switch is off, or the region is not")
	}
	for name, c := range map[string]*switches.Control{"with a bus": there, "without one": alone} {
		testenv.Await(t, name, func() bool { return c.Refuse(switches.Writes) != nil && c.Refuse(switches.Region("us")) != nil })
	}
	if _, err := there.Turn(t.Context(), ana, []switches.Turn{{Switch: switches.Writes, On: true}}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*switches.Control{"with a bus": here, "without one": alone} {
		testenv.Await(t, name, func() bool { return c.Refuse(switches.Writes) == nil && c.Refuse(switches.Region("us")) != nil })
	}
	if (*switches.Control)(nil).Refuse(switches.Writes) != nil || (*switches.Control)(nil).Banner() != nil {
		t.Error("a nil Control refuses something or has a banner")
	}
}

// Watchers are called once for every change, including the first read of a new process, and not otherwise.
func TestWatch(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	first := startNode(t, db, noBus{})
	if _, err := first.Turn(t.Context(), ana, []switches.Turn{{Switch: switches.Webhooks, Reason: "x"}}); err != nil {
		t.Fatal(err)
	}
	c := switches.New(switches.Deps{DB: db, Audit: audit.New(db, sealtest.NewMemory(), clock.Now), Bus: noBus{}, Log: slog.New(slog.DiscardHandler), Now: clock.Now})
	var mu sync.Mutex
	var seen []bool
	c.Watch(func(s switches.State) {
		mu.Lock()
		defer mu.Unlock()
		_, off := s.Off[switches.Webhooks]
		seen = append(seen, off)
	})
	for range 3 {
		must.OK(t, c.Read(t.Context()))
	}
	if _, err := c.Turn(t.Context(), ana, []switches.Turn{{Switch: switches.Webhooks, On: true}}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 2 || !seen[0] || seen[1] {
		t.Errorf("%v", seen)
	}
}

// The operators' audit log has every change with its author and reason. A request that changes nothing leaves no entry.
func TestDecisionsAreAudited(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	c := startNode(t, db, noBus{})
	log := audit.New(db, sealtest.NewMemory(), clock.Now)
	do := func(_ switches.State, err error) {
		t.Helper()
		must.OK(t, err)
	}
	for range 2 {
		do(c.Turn(t.Context(), ana, []switches.Turn{{Switch: switches.Connects, Reason: "platform changed"}}))
		do(c.Drain(t.Context(), ana, "us/0123", "us/0", "maintenance", true))
	}
	do(c.SetBanner(t.Context(), ana, switches.Banner{Text: "Slow", Level: "warning"}))
	do(c.Drain(t.Context(), ana, "us/0123", "us/0", "", false))
	do(c.SetBanner(t.Context(), ana, switches.Banner{}))
	do(c.SetBanner(t.Context(), ana, switches.Banner{}))
	entries, err := log.All(t.Context(), audit.Choice{Org: audit.Operators}, 100)
	must.OK(t, err)
	var targets []string
	for _, e := range entries {
		targets = append(targets, e.Target)
		if e.Org != audit.Operators || e.By.Label != "ana" {
			t.Errorf("%+v", e)
		}
	}
	if got := strings.Join(targets, " "); got != "banner egress/us/0 banner egress/us/0 switches" {
		t.Errorf("%s", got)
	}
	if !strings.Contains(string(entries[4].Changes), "platform changed") || !strings.Contains(string(entries[3].Changes), "maintenance") {
		t.Errorf("%s %s", entries[4].Changes, entries[3].Changes)
	}
	if n, err := log.Verify(t.Context(), audit.Operators); err != nil || n != 5 {
		t.Errorf("%d %v", n, err)
	}
}

// A banner is read back with all fields and disappears when it expires.
func TestBanner(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	now := clock.Now()
	c := switches.New(switches.Deps{DB: db, Audit: audit.New(db, sealtest.NewMemory(), clock.Now), Bus: noBus{}, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	end := now.Add(time.Hour)
	if _, err := c.SetBanner(t.Context(), ana, switches.Banner{Text: "Slow", Level: "info", URL: "https://status.example", Until: &end}); err != nil {
		t.Fatal(err)
	}
	if b := c.Banner(); b == nil || b.Text != "Slow" || b.Level != "info" || b.URL != "https://status.example" || b.By != "ana" {
		t.Errorf("%+v", b)
	}
	now = end
	if b := c.Banner(); b != nil {
		t.Errorf("%+v", b)
	}
}
