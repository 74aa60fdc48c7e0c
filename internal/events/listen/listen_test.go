package listen_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/health"
	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/events/listen"
	"github.com/stagedoor/stagedoor/internal/test/metric"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
)

func TestFramesAreStoredInOrder(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	r.node("a")
	a, login := r.connect()
	if a = r.waitUp(a); a.State != account.Active || a.Listener.Since == nil {
		t.Fatalf("%s %+v", a.State, a.Listener)
	}
	r.sendMessages(login, 30)
	r.wantAllStored(a, login, true)
	r.waitFor("our own event is among them", func() bool {
		kinds,
			_ := r.stored(a)
		return slices.Contains(kinds, "account.connected")
	})
	list, err := r.store.After(t.Context(), a.Org, string(a.ID), 0, time.Time{}, 100)
	must.OK(t, err)
	var body struct {
		Event, AccountID string
		Meta             struct{ OfUserID string }
	}
	if err := json.Unmarshal(list[len(list)-1].Body, &body); err != nil || body.AccountID != string(a.ID) || body.Meta.OfUserID != a.UpstreamID {
		t.Fatalf("%s, %v", list[len(list)-1].Body, err)
	}
}

// Frames from before an account was connected are not reported.
func TestNewAccountStartsAtThePlatformsNewestFrame(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	r.sendMessages("ok+past@sandbox.test", 20)
	past := r.sentFrames("ok+past@sandbox.test")
	r.node("a")
	a := r.connectAs("ok+past@sandbox.test")
	r.waitUp(a)
	r.sendMessages("ok+past@sandbox.test", 5)
	r.waitFor("the new ones are stored", func() bool { _, ids := r.stored(a); return len(ids) >= 5 })
	_, ids := r.stored(a)
	if want := r.sentFrames("ok+past@sandbox.test")[len(past):]; !slices.Equal(ids, want) {
		t.Fatalf("%v, want %v", ids, want)
	}
}

func TestFramesMissedWithoutAListenerAreFetched(t *testing.T) {
	t.Parallel()
	r, first, a, login := startListening(t)
	r.sendMessages(login, 5)
	r.wantAllStored(a, login, true)
	first.stop()
	r.sendMessages(login, 40)
	r.node("b")
	r.wantAllStored(a, login, true)
	if kinds, _ := r.stored(a); slices.Contains(kinds, "listener.gap") {
		t.Fatal("a gap was reported although nothing is missing")
	}
}

// Sockets are cut at any point while frames arrive.
func TestCutSocketsLoseNothing(t *testing.T) {
	t.Parallel()
	r, n, a, login := startListening(t)
	r.generate(200, login)
	for cuts := range 10 {
		r.addFault(login, "drop_socket", 1)
		r.waitFor("a socket is cut", func() bool {
			return metric.Value(t, n.registry, "stagedoor_listener_reconnects_total") > float64(cuts)
		})
	}
	r.waitForFrames(500, login)
	r.wantAllStored(a, login, true)
}

func TestRepeatedAndSwappedFramesAreStoredOnce(t *testing.T) {
	t.Parallel()
	r, _, a, login := startListening(t)
	r.addFault(login, "duplicate", 0)
	r.addFault(login, "reorder", 0)
	r.generate(200, login)
	r.waitForFrames(340, login)
	r.control(http.MethodDelete, "faults", nil)
	r.sendMessages(login, 2)
	r.wantAllStored(a, login, false)
}

func TestFloodIsStoredInOrder(t *testing.T) {
	t.Parallel()
	r, _, a, login := startListening(t)
	r.generate(2000, login)
	r.waitForFrames(proof.Scale(1200, 3600), login)
	r.wantAllStored(a, login, true)
}

// Two nodes share the accounts. When one stops, the other one takes over all of them.
func TestAnotherNodeTakesOver(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	first := r.node("a")
	second := r.node("b")
	type one struct {
		account.Account
		login string
	}
	var all []one
	var logins []string
	for range 12 {
		a, login := r.connect()
		all, logins = append(all, one{a, login}), append(logins, login)
	}
	for _, o := range all {
		r.waitUp(o.Account)
	}
	up := func(n *node) float64 { return socketCount(t, n, "up") }
	r.waitFor("both listen", func() bool { return up(first) > 0 && up(second) > 0 && up(first)+up(second) == 12 })
	r.generate(20, logins...)
	r.waitFor("events come", func() bool { _, ids := r.stored(all[0].Account); return len(ids) > 10 })
	first.stop()
	r.waitFor("one listens to all", func() bool { return up(second) == 12 })
	r.waitForFrames(60, logins...)
	for _, o := range all {
		r.wantAllStored(o.Account, o.login, true)
		if r.sockets(o.login) != 1 {
			t.Errorf("%d sockets", r.sockets(o.login))
		}
	}
}

// If the platform cannot list missed frames, an event reports from when on events may be missing.
func TestGapIsReportedIfThePlatformCannotListFrames(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{noSince: true})
	first := r.node("a")
	a, login := r.connect()
	r.waitUp(a)
	r.sendMessages(login, 3)
	r.waitFor("they are stored", func() bool { _, ids := r.stored(a); return len(ids) == 3 })
	if kinds, _ := r.stored(a); slices.Contains(kinds, "listener.gap") {
		t.Fatal("a new account has no gap")
	}
	first.stop()
	r.sendMessages(login, 2)
	r.node("b")
	r.waitFor("the gap is reported", func() bool { kinds, _ := r.stored(a); return slices.Contains(kinds, "listener.gap") })
	r.sendMessages(login, 1)
	r.waitFor("the next event is stored", func() bool { _, ids := r.stored(a); return len(ids) == 4 })
	list, err := r.store.After(t.Context(), a.Org, string(a.ID), 0, time.Time{}, 100)
	must.OK(t, err)
	list = slices.DeleteFunc(list, func(s event.Stored) bool { return strings.HasPrefix(s.Kind, "account.") })
	at := slices.IndexFunc(list, func(s event.Stored) bool { return s.Kind == "listener.gap" })
	var body struct {
		Data struct {
			From, To   *time.Time
			FromSeq    *int64
			Backfilled bool
		}
	}
	testenv.CheckEvent(t, list[at].Body)
	must.OK(t, json.Unmarshal(list[at].Body, &body))
	if d := body.Data; d.From == nil || d.To == nil || d.From.After(*d.To) || d.Backfilled || d.FromSeq != nil || at != len(list)-2 {
		t.Fatalf("%s", list[at].Body)
	}
}

// The platform has dropped some of the missed frames.
func TestGapInListedFramesIsReportedOnce(t *testing.T) {
	t.Parallel()
	r, first, a, login := startListening(t)
	r.generate(2000, login)
	r.waitForFrames(600, login) // enough that some have settled
	r.wantAllStored(a, login, true)
	_, before := r.stored(a)
	first.stop()
	r.control(http.MethodPost, "seed", nil) // the platform loses everything
	session := r.connectAs(login, func(c *account.Connected) { c.Org = a.Org })
	if session.ID != a.ID {
		t.Fatal("another account")
	}
	second := r.node("b")
	r.waitUp(a)
	gaps := func() (n int) {
		kinds, _ := r.stored(a)
		for _, k := range kinds {
			if k == "listener.gap" {
				n++
			}
		}
		return n
	}
	r.waitFor("the gap is reported", func() bool { return gaps() == 1 })
	second.stop()
	r.node("c")
	r.waitFor("it is up again", func() bool { return r.sockets(login) == 1 })
	r.sendMessages(login, 3)
	r.waitFor("the new ones are stored", func() bool { _, ids := r.stored(a); return len(ids) == len(before)+3 })
	if gaps() != 1 {
		t.Fatalf("%d gaps", gaps())
	}
}

func TestDeadSessionIsConfirmedAndItsListenerStops(t *testing.T) {
	t.Parallel()
	r, n, a, login := startListening(t)
	r.control(http.MethodPost, "sessions/end", map[string]any{"login": login})
	r.waitFor("a person is needed", func() bool { return r.Get(a).State == account.ReconnectRequired })
	r.waitFor("no listener runs", func() bool {
		return socketCount(t, n, "up")+socketCount(t, n, "down")+socketCount(t, n, "connecting") == 0
	})
	if got := r.Get(a); got.Listener.State != account.ListenerOff || got.Reason != account.ReasonSessionExpired {
		t.Fatalf("%+v", got.Listener)
	}
	// After a reconnect it continues where it stopped.
	r.sendMessages(login, 4)
	r.connectAs(login, func(c *account.Connected) { c.Org = a.Org })
	r.waitUp(a)
	r.wantAllStored(a, login, true)
}

func TestPausedAccountHasNoListenerAndMissesNothing(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	r.node("a", slowSweep)
	a, login := r.connect()
	r.waitUp(a)
	r.sendMessages(login, 2)
	r.wantAllStored(a, login, true)
	if _, err := r.Accounts.Pause(t.Context(), accounttest.By("account.pause"), a.Org, a.ID, account.ReasonPausedByCaller); err != nil {
		t.Fatal(err)
	}
	r.waitFor("the socket is closed", func() bool { return r.sockets(login) == 0 })
	r.sendMessages(login, 7)
	if _, err := r.Accounts.Resume(t.Context(), accounttest.By("account.resume"), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	r.wantAllStored(a, login, true)
	must.OK(t, r.Accounts.Disconnect(t.Context(), accounttest.By("account.disconnect"), a.Org, a.ID))
	r.waitFor("the socket is closed for good", func() bool { return r.sockets(login) == 0 })
}

func TestSocketIsReopenedFromTheNewRegion(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	r.node("a", slowSweep)
	a, login := r.connect()
	r.waitUp(a)
	r.sendMessages(login, 2)
	region := "uk"
	if _, err := r.Accounts.Update(t.Context(), accounttest.By("account.update"), a.Org, a.ID, account.Change{Region: &region}); err != nil {
		t.Fatal(err)
	}
	r.waitFor("it listens from there", func() bool {
		return slices.Contains(r.dialRegions(login), "uk")
	})
	r.sendMessages(login, 2)
	r.wantAllStored(a, login, true)
}

func TestAccountsOfASuspendedOrgHaveNoListener(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	a, login := r.connect()
	if _, err := r.DB.Pool().Exec(t.Context(), `UPDATE org SET suspended_at = now() WHERE id = $1`, a.Org); err != nil {
		t.Fatal(err)
	}
	r.node("a")
	b, _ := r.connect()
	r.waitUp(b) // by now the node has listed all accounts
	if r.sockets(login) != 0 || r.Get(a).Listener.State != account.ListenerOff {
		t.Fatal("a suspended org's session is used")
	}
}

// oblivious is a health service that does not learn from failures. Three refused sockets within a minute degrade an
// account too, so a test of the listener's own patience has to exclude that.
type oblivious struct{ *health.Health }

func (oblivious) Learn(context.Context, account.Account, error) {}

// The platform refuses sockets for more than a minute.
func TestAccountWithoutAListenerIsDegraded(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	r.node("a", func(d *listen.Deps) { d.Health = oblivious{r.health} })
	a, login := r.connect()
	a = r.waitUp(a)
	r.control(http.MethodPost, "faults", map[string]any{"scope": login, "kind": "error", "value": 404})
	r.addFault(login, "drop_socket", 1)
	r.waitFor("the listener is down", func() bool { return r.Get(a).Listener.State == account.ListenerDown })
	if got := r.Get(a); got.State != account.Active {
		t.Fatal(got.State, got.Reason)
	}
	r.ahead.Store(int64(account.ListenerPatience))
	r.waitFor("it is degraded", func() bool { return r.Get(a).State == account.Degraded })
	if got := r.Get(a); got.Reason != account.ReasonListenerDown {
		t.Fatal(got.State, got.Reason)
	}
	r.control(http.MethodDelete, "faults", nil)
	r.waitFor("the listener is up", func() bool { return r.Get(a).Listener.State == account.ListenerUp })
}

// The log takes frames without an answer until some of them have settled, and then refuses all of them. The next session
// asks the platform for them.
func TestFramesThatTheLogRefusesAreFetchedAgain(t *testing.T) {
	t.Parallel()
	r, n, a, login := startListening(t)
	r.sendMessages(login, 5)
	r.wantAllStored(a, login, true)
	n.log.refuseAfter(400) // a frame settles when 256 more were sent
	r.generate(500, login)
	r.waitFor("the session ends", func() bool { return metric.Value(t, n.registry, "stagedoor_listener_reconnects_total") > 0 })
	n.log.refuseAfter(0)
	r.waitForFrames(405, login)
	r.wantAllStored(a, login, true)
}

// The log has frames, but reports that it refused them. They are fetched again and stored once.
func TestFramesThatTheLogHasDespiteAnErrorAreStoredOnce(t *testing.T) {
	t.Parallel()
	r, n, a, login := startListening(t)
	r.generate(100, login)
	for range 3 {
		r.waitFor("something is stored", func() bool { _, ids := r.stored(a); return len(ids) > 10 })
		n.log.fails.Store(true)
		r.waitFor("it fails", func() bool { return r.Get(a).Listener.State == account.ListenerDown })
		n.log.fails.Store(false)
		r.waitUp(a)
	}
	r.waitForFrames(260, login)
	r.wantAllStored(a, login, true)
}

// While NATS is unavailable, sockets are not read, and nothing is lost.
func TestNothingIsLostWhileTheLogIsUnavailable(t *testing.T) {
	t.Parallel()
	r, _, a, login := startListening(t)
	r.generate(300, login)
	r.waitFor("events come", func() bool { _, ids := r.stored(a); return len(ids) > 50 })
	r.nats.Kill()
	before := len(r.sentFrames(login))
	r.waitFor("much happens", func() bool { return len(r.sentFrames(login)) > before+800 })
	r.nats.Start()
	r.waitForFrames(1600, login)
	r.wantAllStored(a, login, true)
}

// Ephemeral events are published immediately, at a limited rate, and never stored.
func TestEphemeralEventsArePublishedAndNotStored(t *testing.T) {
	t.Parallel()
	r, _, a, login := startListening(t)
	var (
		mu       sync.Mutex
		received []event.Stored
	)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready := make(chan struct{})
	go func() {
		close(ready)
		_ = r.Bus.Subscribe(ctx, event.EphemeralPattern(event.Bucket(string(a.ID))), func(_ string, payload []byte) {
			mu.Lock()
			defer mu.Unlock()
			for s, err := range event.ReadLive(payload) {
				if err != nil {
					t.Error(err)
				}
				s.Body = slices.Clone(s.Body)
				received = append(received, s)
			}
		})
	}()
	<-ready
	limited, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	must.OK(t, r.Bus.Ping(limited))
	for range 60 {
		r.control(http.MethodPost, "happen", map[string]any{"login": login, "what": "chat.typing"})
	}
	r.sendMessages(login, 1)
	r.wantAllStored(a, login, true)
	mu.Lock()
	defer mu.Unlock()
	typing := slices.DeleteFunc(slices.Clone(received), func(s event.Stored) bool { return s.Kind != "typing" })
	if len(typing) == 0 || len(typing) > 20 {
		t.Fatalf("%d of 60 were published", len(typing))
	}
	for _, s := range received {
		if s.Seq != 0 || s.Org != a.Org || !strings.Contains(string(s.Body), `"class":"ephemeral"`) {
			t.Fatalf("%s %d %s", s.Kind, s.Seq, s.Body)
		}
	}
	if kinds, _ := r.stored(a); slices.Contains(kinds, "typing") {
		t.Fatal("it was stored")
	}
}

// silentBus is a bus that delivers no messages.
type silentBus struct{ *pubsub.Bus }

func (silentBus) Subscribe(ctx context.Context, _ string, _ func(string, []byte)) error {
	<-ctx.Done()
	return nil
}

func TestSweepFindsChangesWithoutMessages(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	r.node("a", func(d *listen.Deps) { d.Bus, d.Config.Sweep = silentBus{r.Bus}, 50*time.Millisecond })
	a, login := r.connect()
	r.waitUp(a)
	if _, err := r.Accounts.Pause(t.Context(), accounttest.By("account.pause"), a.Org, a.ID, account.ReasonPausedByCaller); err != nil {
		t.Fatal(err)
	}
	r.waitFor("the socket is closed", func() bool { return r.sockets(login) == 0 })
	if _, err := r.Accounts.Resume(t.Context(), accounttest.By("account.resume"), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	r.waitUp(a)
	if _, err := r.DB.Pool().Exec(t.Context(), `UPDATE org SET suspended_at = now() WHERE id = $1`, a.Org); err != nil {
		t.Fatal(err)
	}
	b, other := r.connect()
	r.waitUp(b)
	if r.sockets(other) != 1 {
		t.Fatal("the other org is not listened to")
	}
}

// The platform changes a cookie in every response, also when a socket is opened or missed frames are fetched.
func TestCookiesFromTheSocketAreStored(t *testing.T) {
	t.Parallel()
	r, _, a, login := startListening(t)
	r.control(http.MethodPost, "faults", map[string]any{"scope": login, "kind": "rotate", "value": 1})
	for range 4 {
		sockets := len(r.dialRegions(login))
		r.addFault(login, "drop_socket", 1)
		r.waitFor("it is opened again", func() bool { return len(r.dialRegions(login)) > sockets && r.sockets(login) == 1 })
		r.sendMessages(login, 1)
		r.wantAllStored(a, login, true)
	}
	r.control(http.MethodDelete, "faults", nil)
	r.control(http.MethodPost, "clock", map[string]any{"advance_sec": 120}) // replaced tokens have expired by now
	a, session, err := r.Accounts.Session(t.Context(), a.Org, a.ID)
	must.OK(t, err)
	if who, _, err := r.driver.Probe(t.Context(), a.Via(), session); err != nil || who.ID != a.UpstreamID {
		t.Fatalf("the stored session is dead: %v", err)
	}
}

// frozenLeases keeps leases although they are not renewed, like a process that was suspended and continues later.
type frozenLeases struct {
	real interface {
		Run(ctx context.Context, hold func(ctx context.Context, h lease.Held)) error
	}
	// frozen is closed when the node is cut off: afterwards it does not notice that it loses its leases.
	frozen chan struct{}
}

func (c *frozenLeases) Run(ctx context.Context, hold func(ctx context.Context, h lease.Held)) error {
	leasing, stop := context.WithCancel(ctx)
	go func() {
		select {
		case <-c.frozen:
		case <-ctx.Done():
		}
		stop()
	}()
	return c.real.Run(leasing, func(held context.Context, h lease.Held) {
		working, end := context.WithCancel(context.WithoutCancel(held))
		done := make(chan struct{})
		go func() {
			defer close(done)
			hold(working, h)
		}()
		<-held.Done()
		select {
		case <-c.frozen:
			context.AfterFunc(ctx, end) // the slot is released, but the work continues
		default:
			end()
			<-done
		}
	})
}
