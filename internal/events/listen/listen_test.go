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
	"github.com/stagedoor/stagedoor/internal/accounts/account/accounttest"
	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/events/listen"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
)

func TestWhatHappensIsStoredInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.node("a")
	a, login := r.connect()
	if a = r.up(a); a.State != account.Active || a.Listener.Since == nil {
		t.Fatalf("%s %+v", a.State, a.Listener)
	}
	r.happen(login, 30)
	r.same(a, login, true)
	r.until("our own event is among them", func() bool { kinds, _ := r.stored(a); return slices.Contains(kinds, "account.connected") })
	list, err := r.store.After(t.Context(), a.Org, string(a.ID), 0, time.Time{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	var body struct {
		Event, AccountID string
		Meta             struct{ OfUserID string }
	}
	if err := json.Unmarshal(list[len(list)-1].Body, &body); err != nil || body.AccountID != string(a.ID) || body.Meta.OfUserID != a.UpstreamID {
		t.Fatalf("%s, %v", list[len(list)-1].Body, err)
	}
}

// What happened before an account was connected is its past, and not told.
func TestANewAccountBeginsWhereThePlatformStands(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.happen("ok+past@sandbox.test", 20)
	past := r.sent("ok+past@sandbox.test")
	r.node("a")
	a := r.connectAs("ok+past@sandbox.test")
	r.up(a)
	r.happen("ok+past@sandbox.test", 5)
	r.until("the new ones are stored", func() bool { _, ids := r.stored(a); return len(ids) >= 5 })
	_, ids := r.stored(a)
	if want := r.sent("ok+past@sandbox.test")[len(past):]; !slices.Equal(ids, want) {
		t.Fatalf("%v, want %v", ids, want)
	}
}

func TestWhatHappensWhileNobodyListensIsFetched(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	first := r.node("a")
	a, login := r.connect()
	r.up(a)
	r.happen(login, 5)
	r.same(a, login, true)
	first.stop()
	r.happen(login, 40)
	r.node("b")
	r.same(a, login, true)
	if kinds, _ := r.stored(a); slices.Contains(kinds, "listener.gap") {
		t.Fatal("nothing is missing")
	}
}

// Sockets are cut at any frame, while frames come.
func TestSocketsThatAreCutLoseNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	n := r.node("a")
	a, login := r.connect()
	r.up(a)
	r.generate(200, login)
	for cuts := range 10 {
		r.fault(login, "drop_socket", 1)
		r.until("a socket is cut", func() bool { return count(t, n, "stagedoor_listener_reconnects_total") > float64(cuts) })
	}
	r.happened(500, login)
	r.same(a, login, true)
}

func TestRepeatedAndSwappedFramesAreStoredOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.node("a")
	a, login := r.connect()
	r.up(a)
	r.fault(login, "duplicate", 0)
	r.fault(login, "reorder", 0)
	r.generate(200, login)
	r.happened(340, login)
	r.control(http.MethodDelete, "faults", nil)
	r.happen(login, 2)
	r.same(a, login, false)
}

func TestAFloodIsStoredInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.node("a")
	a, login := r.connect()
	r.up(a)
	r.generate(2000, login)
	r.happened(proof.Scale(1200, 3600), login)
	r.same(a, login, true)
}

// Two nodes share the accounts; one stops, then the other one listens to all.
func TestAnotherNodeGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
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
		r.up(o.Account)
	}
	up := func(n *node) float64 { return gauge(t, n, "up") }
	r.until("both listen", func() bool { return up(first) > 0 && up(second) > 0 && up(first)+up(second) == 12 })
	r.generate(20, logins...)
	r.until("events come", func() bool { _, ids := r.stored(all[0].Account); return len(ids) > 10 })
	first.stop()
	r.until("one listens to all", func() bool { return up(second) == 12 })
	r.happened(60, logins...)
	for _, o := range all {
		r.same(o.Account, o.login, true)
		if r.sockets(o.login) != 1 {
			t.Errorf("%d sockets", r.sockets(o.login))
		}
	}
}

// A platform that cannot list what was missed: the account says that something may be missing, and from when on.
func TestAGapThatCannotBeFilledIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{noSince: true})
	first := r.node("a")
	a, login := r.connect()
	r.up(a)
	r.happen(login, 3)
	r.until("they are stored", func() bool { _, ids := r.stored(a); return len(ids) == 3 })
	if kinds, _ := r.stored(a); slices.Contains(kinds, "listener.gap") {
		t.Fatal("a new account has no gap")
	}
	first.stop()
	r.happen(login, 2)
	r.node("b")
	r.until("the gap is told", func() bool { kinds, _ := r.stored(a); return slices.Contains(kinds, "listener.gap") })
	r.happen(login, 1)
	r.until("it goes on", func() bool { _, ids := r.stored(a); return len(ids) == 4 })
	list, err := r.store.After(t.Context(), a.Org, string(a.ID), 0, time.Time{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	list = slices.DeleteFunc(list, func(s event.Stored) bool { return strings.HasPrefix(s.Kind, "account.") })
	at := slices.IndexFunc(list, func(s event.Stored) bool { return s.Kind == "listener.gap" })
	var body struct {
		Data struct {
			From, To   *time.Time
			FromSeq    *int64
			Backfilled bool
		}
	}
	if err := json.Unmarshal(list[at].Body, &body); err != nil {
		t.Fatal(err)
	}
	if d := body.Data; d.From == nil || d.To == nil || d.From.After(*d.To) || d.Backfilled || d.FromSeq != nil || at != len(list)-2 {
		t.Fatalf("%s", list[at].Body)
	}
}

// The platform has forgotten some of what was missed.
func TestAGapInWhatIsListedIsToldOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	first := r.node("a")
	a, login := r.connect()
	r.up(a)
	r.generate(2000, login)
	r.happened(600, login) // so many that some have settled
	r.same(a, login, true)
	_, before := r.stored(a)
	first.stop()
	r.control(http.MethodPost, "seed", nil) // a platform that lost everything
	session := r.connectAs(login, func(c *account.Connected) { c.Org = a.Org })
	if session.ID != a.ID {
		t.Fatal("another account")
	}
	second := r.node("b")
	r.up(a)
	gaps := func() (n int) {
		kinds, _ := r.stored(a)
		for _, k := range kinds {
			if k == "listener.gap" {
				n++
			}
		}
		return n
	}
	r.until("the gap is told", func() bool { return gaps() == 1 })
	second.stop()
	r.node("c")
	r.until("it is up again", func() bool { return r.sockets(login) == 1 })
	r.happen(login, 3)
	r.until("the new ones are stored", func() bool { _, ids := r.stored(a); return len(ids) == len(before)+3 })
	if gaps() != 1 {
		t.Fatalf("%d gaps", gaps())
	}
}

func TestASessionThatEndsIsConfirmedAndNobodyListensOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	n := r.node("a")
	a, login := r.connect()
	r.up(a)
	r.control(http.MethodPost, "sessions/end", map[string]any{"login": login})
	r.until("a person is needed", func() bool { return r.Get(a).State == account.ReconnectRequired })
	r.until("nobody listens", func() bool { return gauge(t, n, "up")+gauge(t, n, "down")+gauge(t, n, "connecting") == 0 })
	if got := r.Get(a); got.Listener.State != account.ListenerOff || got.Reason != account.ReasonSessionExpired {
		t.Fatalf("%+v", got.Listener)
	}
	// Connected again, it goes on where it was.
	r.happen(login, 4)
	r.connectAs(login, func(c *account.Connected) { c.Org = a.Org })
	r.up(a)
	r.same(a, login, true)
}

func TestAPausedAccountIsNotListenedToAndMissesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.node("a", slowSweep)
	a, login := r.connect()
	r.up(a)
	r.happen(login, 2)
	r.same(a, login, true)
	if _, err := r.Accounts.Pause(t.Context(), accounttest.By("account.pause"), a.Org, a.ID, account.ReasonPausedByCaller); err != nil {
		t.Fatal(err)
	}
	r.until("the socket is closed", func() bool { return r.sockets(login) == 0 })
	r.happen(login, 7)
	if _, err := r.Accounts.Resume(t.Context(), accounttest.By("account.resume"), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	r.same(a, login, true)
	if err := r.Accounts.Disconnect(t.Context(), accounttest.By("account.disconnect"), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	r.until("the socket is closed for good", func() bool { return r.sockets(login) == 0 })
}

func TestAnAccountThatMovesIsListenedToFromThere(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.node("a", slowSweep)
	a, login := r.connect()
	r.up(a)
	r.happen(login, 2)
	region := "uk"
	if _, err := r.Accounts.Update(t.Context(), accounttest.By("account.update"), a.Org, a.ID, account.Change{Region: &region}); err != nil {
		t.Fatal(err)
	}
	r.until("it listens from there", func() bool {
		return slices.Contains(r.dials(login), "uk")
	})
	r.happen(login, 2)
	r.same(a, login, true)
}

func TestTheAccountsOfASuspendedOrgAreNotListenedTo(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	a, login := r.connect()
	if _, err := r.DB.Pool().Exec(t.Context(), `UPDATE org SET suspended_at = now() WHERE id = $1`, a.Org); err != nil {
		t.Fatal(err)
	}
	r.node("a")
	b, _ := r.connect()
	r.up(b) // the node has looked at all of them
	if r.sockets(login) != 0 || r.Get(a).Listener.State != account.ListenerOff {
		t.Fatal("a suspended org's session is used")
	}
}

// The platform does not take sockets for more than a minute.
func TestAnAccountWithoutAListenerIsDegraded(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.node("a")
	a, login := r.connect()
	a = r.up(a)
	r.control(http.MethodPost, "faults", map[string]any{"scope": login, "kind": "error", "value": 404})
	r.fault(login, "drop_socket", 1)
	r.until("the listener is down", func() bool { return r.Get(a).Listener.State == account.ListenerDown })
	if got := r.Get(a); got.State != account.Active {
		t.Fatal(got.State)
	}
	r.ahead.Store(int64(account.ListenerPatience))
	r.until("it is degraded", func() bool { return r.Get(a).State == account.Degraded })
	r.control(http.MethodDelete, "faults", nil)
	r.until("the listener is up", func() bool { return r.Get(a).Listener.State == account.ListenerUp })
}

// The log refuses: what it has not taken is fetched again.
func TestWhatTheLogRefusesComesAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	n := r.node("a")
	a, login := r.connect()
	r.up(a)
	r.generate(100, login)
	for range 3 {
		r.until("something is stored", func() bool { _, ids := r.stored(a); return len(ids) > 10 })
		n.log.fails.Store(true)
		r.until("it fails", func() bool { return r.Get(a).Listener.State == account.ListenerDown })
		n.log.fails.Store(false)
		r.up(a)
	}
	r.happened(260, login)
	r.same(a, login, true)
}

// NATS is away for a while: sockets are not read, and nothing is lost.
func TestNothingIsLostWhileTheLogIsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.node("a")
	a, login := r.connect()
	r.up(a)
	r.generate(300, login)
	r.until("events come", func() bool { _, ids := r.stored(a); return len(ids) > 50 })
	r.nats.Kill()
	before := len(r.sent(login))
	r.until("much happens", func() bool { return len(r.sent(login)) > before+800 })
	r.nats.Start()
	r.happened(1600, login)
	r.same(a, login, true)
}

// Ephemeral events are told at once and thinned out, and never stored.
func TestEphemeralEventsAreToldAndNotStored(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.node("a")
	a, login := r.connect()
	r.up(a)
	var (
		mu   sync.Mutex
		told []event.Stored
	)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready := make(chan struct{})
	go func() {
		close(ready)
		_ = r.Bus.Listen(ctx, event.EphemeralPattern(event.Bucket(string(a.ID))), func(_ string, payload []byte) {
			mu.Lock()
			defer mu.Unlock()
			for s, err := range event.ReadLive(payload) {
				if err != nil {
					t.Error(err)
				}
				s.Body = slices.Clone(s.Body)
				told = append(told, s)
			}
		})
	}()
	<-ready
	limited, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := r.Bus.Ping(limited); err != nil {
		t.Fatal(err)
	}
	for range 60 {
		r.control(http.MethodPost, "happen", map[string]any{"login": login, "what": "chat.typing"})
	}
	r.happen(login, 1)
	r.same(a, login, true)
	mu.Lock()
	defer mu.Unlock()
	typing := slices.DeleteFunc(slices.Clone(told), func(s event.Stored) bool { return s.Kind != "typing" })
	if len(typing) == 0 || len(typing) > 20 {
		t.Fatalf("%d of 60 were told", len(typing))
	}
	for _, s := range told {
		if s.Seq != 0 || s.Org != a.Org || !strings.Contains(string(s.Body), `"class":"ephemeral"`) {
			t.Fatalf("%s %d %s", s.Kind, s.Seq, s.Body)
		}
	}
	if kinds, _ := r.stored(a); slices.Contains(kinds, "typing") {
		t.Fatal("it was stored")
	}
}

// deaf is a bus that brings no pokes.
type deaf struct{ *pubsub.Bus }

func (deaf) Listen(ctx context.Context, _ string, _ func(string, []byte)) error {
	<-ctx.Done()
	return nil
}

func TestASweepFindsWhatNoPokeTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.node("a", func(d *listen.Deps) { d.Bus, d.Config.Sweep = deaf{r.Bus}, 50*time.Millisecond })
	a, login := r.connect()
	r.up(a)
	if _, err := r.Accounts.Pause(t.Context(), accounttest.By("account.pause"), a.Org, a.ID, account.ReasonPausedByCaller); err != nil {
		t.Fatal(err)
	}
	r.until("the socket is closed", func() bool { return r.sockets(login) == 0 })
	if _, err := r.Accounts.Resume(t.Context(), accounttest.By("account.resume"), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	r.up(a)
	if _, err := r.DB.Pool().Exec(t.Context(), `UPDATE org SET suspended_at = now() WHERE id = $1`, a.Org); err != nil {
		t.Fatal(err)
	}
	b, other := r.connect()
	r.up(b)
	if r.sockets(other) != 1 {
		t.Fatal("the other org is not listened to")
	}
}

// The platform gives another cookie with every answer, also when a socket is opened or missed frames are asked for.
func TestCookiesThatComeWithTheSocketAreKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.node("a")
	a, login := r.connect()
	r.up(a)
	r.control(http.MethodPost, "faults", map[string]any{"scope": login, "kind": "rotate", "value": 1})
	for range 4 {
		sockets := len(r.dials(login))
		r.fault(login, "drop_socket", 1)
		r.until("it is opened again", func() bool { return len(r.dials(login)) > sockets && r.sockets(login) == 1 })
		r.happen(login, 1)
		r.same(a, login, true)
	}
	r.control(http.MethodDelete, "faults", nil)
	r.control(http.MethodPost, "clock", map[string]any{"advance_sec": 120}) // tokens that were replaced are dead by now
	a, session, err := r.Accounts.Session(t.Context(), a.Org, a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if who, _, err := r.driver.Probe(t.Context(), a.Via(), session); err != nil || who.ID != a.UpstreamID {
		t.Fatalf("the session that is stored is dead: %v", err)
	}
}

// cutOff are leases that are held on to although nobody renews them, like those of a process that was stopped and goes on later.
type cutOff struct {
	real interface {
		Run(ctx context.Context, hold func(ctx context.Context, h lease.Held)) error
	}
	// frozen is closed when the node is cut off: it notices nothing of what becomes of its leases.
	frozen chan struct{}
}

func (c *cutOff) Run(ctx context.Context, hold func(ctx context.Context, h lease.Held)) error {
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
			context.AfterFunc(ctx, end) // the slot is given back, and the work goes on
		default:
			end()
			<-done
		}
	})
}
