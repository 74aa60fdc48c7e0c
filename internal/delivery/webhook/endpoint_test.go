package webhook_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// endpointNode returns a node that runs an endpoint and the webhooks of accounts.
func (r *fixture) endpointNode(in webhook.NewEndpoint, accounts ...account.Account) (*node, webhook.Endpoint) {
	r.t.Helper()
	maker := r.node()
	e, err := maker.AddEndpoint(r.t.Context(), by("webhook_endpoint.add"), webhook.EndpointReader{Org: r.org, Days: 30}, in)
	must.OK(r.t, err)
	maker.shutdown()
	return r.holder(e.ID, accounts...), e
}

// holder returns a node that holds the bucket of an endpoint and those of accounts.
func (r *fixture) holder(endpoint id.Endpoint, accounts ...account.Account) *node {
	r.t.Helper()
	buckets := append(bucketsOf(accounts...), id.Bucket(string(endpoint)))
	slices.Sort(buckets)
	return r.node(slices.Compact(buckets)...)
}

func (r *fixture) reader() webhook.EndpointReader {
	return webhook.EndpointReader{Org: r.org, Days: 30}
}

// publish tells the nodes of stored events, as ingest does.
func (r *fixture) publish(list []event.Stored) {
	r.t.Helper()
	for i := range list {
		must.OK(r.t, r.Bus.Publish(event.LiveSubject(list[i].Org, list[i].Source), event.AppendLive(nil, &list[i])))
	}
}

func (r *fixture) post(a account.Account, kind string, count int) []event.Stored {
	r.t.Helper()
	list := r.store(a, kind, count)
	r.publish(list)
	return list
}

// accountOf returns the account in the body of a delivery.
func accountOf(g got) id.Account {
	var e struct{ AccountID id.Account }
	_ = json.Unmarshal(g.body, &e)
	return e.AccountID
}

func seqsOf(list []got, a account.Account) []int64 {
	var all []int64
	for _, g := range list {
		if accountOf(g) == a.ID {
			all = append(all, g.seq)
		}
	}
	return all
}

func distinct(list []int64) []int64 {
	var all []int64
	for _, n := range list {
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

const endpointRows = "SELECT (SELECT count(*) FROM webhook_endpoint_lane) + (SELECT count(*) FROM webhook_endpoint_errand)"

// The events of all accounts go to one endpoint: signed, in order per account, and without a row of an account.
func TestAnEndpointGetsTheEventsOfAllAccounts(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, b := r.account(), r.account()
	rec := newReceiver(t, nil)
	n, e := r.endpointNode(webhook.NewEndpoint{URL: rec.URL + "/e"}, a, b)
	for range 5 {
		r.post(a, "message", 4)
		r.post(b, "message", 4)
	}
	list := rec.wait(t, "/e", 40)
	for _, one := range []account.Account{a, b} {
		if got := seqsOf(list, one); !slices.Equal(got, seqsUpTo(20)) {
			t.Errorf("%s: %v", one.ID, got)
		}
	}
	for _, g := range list {
		if !g.isSigned(e.Secret) || g.header.Get("X-Webhook-Id") != g.id {
			t.Fatalf("%v", g.header)
		}
	}
	until(t, "the position is after all events", func() bool {
		shown, err := n.Endpoint(t.Context(), r.reader(), e.ID)
		must.OK(t, err)
		return shown.Health.Backlog == 0 && shown.Health.State == webhook.Healthy && shown.Health.LastStatus == 200 && *shown.Health.SuccessRate == 1
	})
	if rows := r.rows(endpointRows); rows != 0 {
		t.Errorf("%d rows of accounts", rows)
	}
	// Another node continues where this one stopped.
	n.shutdown()
	r.store(a, "message", 3)
	next := r.holder(e.ID, a, b)
	list = rec.wait(t, "/e", 43)
	if got := seqsOf(list, a); !slices.Equal(got, seqsUpTo(23)) || len(list) != 43 {
		t.Errorf("%v of %d", got, len(list))
	}
	until(t, "all deliveries are in the log", func() bool {
		deliveries, _, err := next.EndpointDeliveries(t.Context(), r.reader(), e.ID, webhook.LogFilter{}, 100)
		must.OK(t, err)
		return len(deliveries) == 43 && deliveries[0].Endpoint == e.ID && deliveries[0].Account == a.ID
	})
}

// A node that stops in good order repeats no delivery of an account that was further than another one.
func TestAnEndpointThatStopsRepeatsNothing(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.config.Patience = 50 * time.Millisecond
	slow, quick := r.account(), r.account()
	var blocked atomic.Bool
	blocked.Store(true)
	release := make(chan struct{})
	rec := newReceiver(t, func(_ http.ResponseWriter, _ string, _ int, g got) {
		if blocked.Load() && accountOf(g) == slow.ID {
			<-release
		}
	})
	n, e := r.endpointNode(webhook.NewEndpoint{URL: rec.URL + "/e"}, slow, quick)
	r.post(slow, "message", 3)
	r.post(quick, "message", 3)
	until(t, "one account got everything, the other one waits", func() bool {
		list := rec.requests("/e")
		return len(seqsOf(list, quick)) == 3 && len(seqsOf(list, slow)) == 1
	})
	n.shutdown()
	blocked.Store(false)
	close(release)
	r.holder(e.ID, slow, quick)
	r.post(quick, "message", 1)
	until(t, "both accounts got everything", func() bool {
		list := rec.requests("/e")
		return slices.Equal(distinct(seqsOf(list, slow)), seqsUpTo(3)) && slices.Contains(seqsOf(list, quick), 4)
	})
	if got := seqsOf(rec.requests("/e"), quick); !slices.Equal(got, seqsUpTo(4)) {
		t.Errorf("the account that was ahead got %v", got)
	}
	until(t, "no row is left", func() bool { return r.rows(endpointRows) == 0 })
}

// Kinds, accounts and platforms select events.
func TestAnEndpointSelectsEvents(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, b := r.account(), r.account()
	rec := newReceiver(t, nil)
	maker := r.node()
	var endpoints []id.Endpoint
	for path, in := range map[string]webhook.NewEndpoint{
		"/kinds": {Events: []string{"message*"}}, "/one": {Accounts: []id.Account{b.ID}}, "/here": {Platforms: []string{a.Place.Platform}}, "/there": {Platforms: []string{"ghost"}},
	} {
		in.URL = rec.URL + path
		e, err := maker.AddEndpoint(t.Context(), by("webhook_endpoint.add"), r.reader(), in)
		must.OK(t, err)
		endpoints = append(endpoints, e.ID)
	}
	var buckets []int
	for _, one := range endpoints {
		buckets = append(buckets, id.Bucket(string(one)))
	}
	slices.Sort(buckets)
	r.node(slices.Compact(buckets)...)
	r.post(a, "message", 2)
	r.post(a, "tips", 1)
	r.post(b, "tips", 2)
	rec.wait(t, "/kinds", 2)
	rec.wait(t, "/one", 2)
	rec.wait(t, "/here", 5)
	if n := len(rec.requests("/there")); n != 0 {
		t.Errorf("the endpoint of another platform got %d", n)
	}
	for _, g := range rec.requests("/one") {
		if accountOf(g) != b.ID {
			t.Errorf("the endpoint of an account got an event of %s", accountOf(g))
		}
	}
	for _, g := range rec.requests("/kinds") {
		if g.kind != "message" {
			t.Errorf("got %s", g.kind)
		}
	}
}

// An account whose deliveries fail does not hold up the others, and costs one row. When its receiver works again, it gets
// everything in order.
func TestOneFailingAccountHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.config.Lane.Delays = []time.Duration{50 * time.Millisecond}
	accounts := []account.Account{r.account(), r.account(), r.account(), r.account()}
	bad := accounts[0]
	var broken atomic.Bool
	broken.Store(true)
	rec := newReceiver(t, func(w http.ResponseWriter, _ string, _ int, g got) {
		if broken.Load() && accountOf(g) == bad.ID {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	n, e := r.endpointNode(webhook.NewEndpoint{URL: rec.URL + "/e"}, accounts...)
	for range 10 {
		for _, a := range accounts {
			r.post(a, "message", 1)
		}
	}
	until(t, "the other accounts got everything", func() bool {
		list := rec.requests("/e")
		return !slices.ContainsFunc(accounts[1:], func(a account.Account) bool { return !slices.Equal(seqsOf(list, a), seqsUpTo(10)) })
	})
	until(t, "the failing account has its row", func() bool { return r.rows("SELECT count(*) FROM webhook_endpoint_lane") == 1 })
	until(t, "its events wait", func() bool {
		shown, err := n.Endpoint(t.Context(), r.reader(), e.ID)
		must.OK(t, err)
		return shown.Health.Backlog == 10 && shown.Health.Late == 1 && shown.Health.State == webhook.Healthy
	})
	broken.Store(false)
	until(t, "the account got everything", func() bool { return slices.Equal(distinct(seqsOf(rec.requests("/e"), bad)), seqsUpTo(10)) })
	until(t, "no row is left", func() bool { return r.rows(endpointRows) == 0 })
}

// Events whose message was lost are found although deliveries of another account fail all the time.
func TestAnEndpointPollsWhileAnAccountFails(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.config.Lane.Delays = []time.Duration{10 * time.Millisecond}
	bad, good := r.account(), r.account()
	rec := newReceiver(t, func(w http.ResponseWriter, _ string, _ int, g got) {
		if accountOf(g) == bad.ID {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	r.endpointNode(webhook.NewEndpoint{URL: rec.URL + "/e"}, bad, good)
	r.post(bad, "message", 1)
	rec.wait(t, "/e", 5)
	r.store(good, "message", 1)
	until(t, "the event was found", func() bool { return len(seqsOf(rec.requests("/e"), good)) == 1 })
}

// Many accounts whose deliveries fail come first in the log. The endpoint is thought to be down, but not for long: it is probed
// with events of accounts anywhere in the log, and the accounts that fail although it works get rows of their own.
func TestAnEndpointWorksAlthoughManyAccountsFail(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.config.Lane.Delays = []time.Duration{100 * time.Millisecond}
	list, bad := make([]account.Account, 100), map[id.Account]bool{}
	for i := range list {
		list[i] = account.Account{Org: r.org, ID: id.New[id.Account]()}
		bad[list[i].ID] = i < 60
	}
	var broken atomic.Bool
	broken.Store(true)
	rec := newReceiver(t, func(w http.ResponseWriter, _ string, _ int, g got) {
		if broken.Load() && bad[accountOf(g)] {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	r.endpointNode(webhook.NewEndpoint{URL: rec.URL + "/e"})
	r.storeMany(list)
	served := func() (good, all int) {
		seen := map[id.Account]bool{}
		for _, g := range rec.requests("/e") {
			of := accountOf(g)
			if !seen[of] && !bad[of] {
				good++
			}
			seen[of] = true
		}
		return good, len(seen)
	}
	until(t, "the other accounts got their events", func() bool {
		good, _ := served()
		return good == 40
	})
	until(t, "each failing account has a row", func() bool { return r.rows("SELECT count(*) FROM webhook_endpoint_lane") == 60 })
	until(t, "the endpoint works", func() bool {
		return r.rows("SELECT count(*) FROM webhook_endpoint_progress WHERE state = 'live'") == 1
	})
	broken.Store(false)
	until(t, "no row is left", func() bool { return r.rows(endpointRows) == 0 })
}

// An endpoint that is down is one row and is sent little, however many accounts have events. When it works again, every account
// gets everything in order.
func TestADeadEndpointIsOneRow(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	accounts := make([]account.Account, 12)
	for i := range accounts {
		accounts[i] = r.account()
	}
	var dead atomic.Bool
	dead.Store(true)
	rec := newReceiver(t, func(w http.ResponseWriter, _ string, _ int, _ got) {
		if dead.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	n, e := r.endpointNode(webhook.NewEndpoint{URL: rec.URL + "/e"}, accounts...)
	for _, a := range accounts {
		r.post(a, "message", 5)
	}
	until(t, "the endpoint is failing", func() bool {
		return r.rows("SELECT count(*) FROM webhook_endpoint_progress WHERE state = 'backoff' AND fail_count > 2") == 1
	})
	for _, a := range accounts {
		r.post(a, "message", 5)
	}
	shown, err := n.Endpoint(t.Context(), r.reader(), e.ID)
	must.OK(t, err)
	if shown.Health.State != webhook.Failing || shown.Health.Backlog != 120 || shown.Health.FailingSince.IsZero() || shown.Health.LastStatus != 502 {
		t.Errorf("%+v", shown.Health)
	}
	if b, err := n.Backlog(t.Context(), r.reader().Org); err != nil || b.Events != 120 {
		t.Errorf("%d deliveries of the organisation are due, %v", b.Events, err)
	}
	if b, err := n.Backlog(t.Context(), id.New[id.Org]()); err != nil || b.Events != 0 {
		t.Errorf("%d deliveries of another organisation are due, %v", b.Events, err)
	}
	if rows := r.rows(endpointRows); rows != 0 {
		t.Errorf("%d rows of accounts", rows)
	}
	// A node that takes over knows that the endpoint is down.
	n.shutdown()
	r.holder(e.ID, accounts...)
	if rows := r.rows(endpointRows); rows != 0 {
		t.Errorf("%d rows of accounts", rows)
	}
	dead.Store(false)
	until(t, "every account got everything in order", func() bool {
		list := rec.requests("/e")
		return !slices.ContainsFunc(accounts, func(a account.Account) bool { return !slices.Equal(distinct(seqsOf(list, a)), seqsUpTo(10)) })
	})
	until(t, "the endpoint works", func() bool {
		return r.rows("SELECT count(*) FROM webhook_endpoint_progress WHERE state = 'live' AND fail_since IS NULL") == 1
	})
}

// An endpoint that nothing listens at is disabled after Lane.GiveUp, and its owner is told; enabling it continues.
func TestAnEndpointIsDisabledAfterALongFailure(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.config.Lane.GiveUp = 300 * time.Millisecond
	accounts := []account.Account{r.account(), r.account(), r.account()}
	rec := newReceiver(t, nil)
	unused := httptest.NewServer(nil)
	unused.Close()
	n, e := r.endpointNode(webhook.NewEndpoint{URL: unused.URL}, accounts...)
	for _, a := range accounts {
		r.post(a, "message", 2)
	}
	until(t, "the endpoint is disabled", func() bool {
		shown, err := n.Endpoint(t.Context(), r.reader(), e.ID)
		must.OK(t, err)
		return shown.DisabledReason == "failing" && !shown.Enabled
	})
	until(t, "the organisation is told", func() bool {
		return r.rows("SELECT count(*) FROM outbox WHERE kind = 'webhook.disabled' AND account_id IS NULL OR account_id = ''") >= 1
	})
	enabled, url := true, rec.URL+"/e"
	if _, err := n.ChangeEndpoint(t.Context(), by("webhook_endpoint.update"), r.reader(), e.ID, webhook.EndpointChange{Enabled: &enabled, URL: &url}); err != nil {
		t.Fatal(err)
	}
	rec.wait(t, "/e", 6)
}

// Disabling holds the events back and enabling continues, each event once.
func TestAnEndpointIsHeldAndContinues(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := r.account()
	rec := newReceiver(t, nil)
	n, e := r.endpointNode(webhook.NewEndpoint{URL: rec.URL + "/e"}, a)
	r.post(a, "message", 3)
	rec.wait(t, "/e", 3)
	set := func(enabled bool) webhook.Endpoint {
		t.Helper()
		changed, err := n.ChangeEndpoint(t.Context(), by("webhook_endpoint.update"), r.reader(), e.ID, webhook.EndpointChange{Enabled: &enabled})
		must.OK(t, err)
		return changed
	}
	if held := set(false); held.Enabled || held.DisabledReason != "paused" || held.Health.State != webhook.Paused {
		t.Errorf("%+v", held)
	}
	r.post(a, "message", 3)
	until(t, "the events wait", func() bool {
		shown, err := n.Endpoint(t.Context(), r.reader(), e.ID)
		must.OK(t, err)
		return shown.Health.Backlog == 3
	})
	set(true)
	rec.wait(t, "/e", 6)
	r.post(a, "message", 1)
	if got := seqs(rec.wait(t, "/e", 7)); !slices.Equal(got, seqsUpTo(7)) {
		t.Errorf("%v", got)
	}
}

// A refused event is retried apart from the others; a redelivery and a replay send events again.
func TestAnEndpointGetsEventsAgain(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, b := r.account(), r.account()
	rec := newReceiver(t, func(w http.ResponseWriter, _ string, n int, g got) {
		if accountOf(g) == a.ID && g.seq == 1 && g.header.Get("X-Webhook-Out-Of-Order") == "" {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	})
	n, e := r.endpointNode(webhook.NewEndpoint{URL: rec.URL + "/e"}, a, b)
	r.post(a, "message", 2)
	r.post(b, "tips", 2)
	until(t, "the refused event arrives late", func() bool {
		return slices.ContainsFunc(rec.requests("/e"), func(g got) bool { return g.header.Get("X-Webhook-Out-Of-Order") == "1" && g.seq == 1 })
	})
	until(t, "nothing waits", func() bool { return r.rows(endpointRows) == 0 })
	before := len(rec.requests("/e"))
	again := webhook.EndpointRange{FromTime: time.Now().Add(-time.Hour), Accounts: []id.Account{b.ID}, Events: []string{"tips"}, DryRun: true}
	counted, err := n.ReplayEndpoint(t.Context(), by("webhook_endpoint.replay"), r.reader(), e.ID, again)
	must.OK(t, err)
	if counted.Events != 2 || counted.ID != "" || r.rows(endpointRows) != 0 {
		t.Errorf("a dry run returned %+v", counted)
	}
	again.ToTime = time.Now().Add(-30 * time.Minute)
	if counted, err = n.ReplayEndpoint(t.Context(), by("webhook_endpoint.replay"), r.reader(), e.ID, again); err != nil || counted.Events != 0 {
		t.Errorf("a dry run of a period without events returned %+v %v", counted, err)
	}
	again.ToTime, again.DryRun = time.Time{}, false
	started, err := n.ReplayEndpoint(t.Context(), by("webhook_endpoint.replay"), r.reader(), e.ID, again)
	must.OK(t, err)
	if started.Events != 2 {
		t.Errorf("the replay sends %d events, want 2", started.Events)
	}
	list := rec.wait(t, "/e", before+2)[before:]
	for i, g := range list {
		if accountOf(g) != b.ID || g.seq != int64(i+1) || !strings.HasPrefix(g.header.Get("X-Webhook-Replay"), "whr_") {
			t.Errorf("%d: %s %d %v", i, accountOf(g), g.seq, g.header)
		}
	}
	until(t, "the replay is over", func() bool { return r.rows(endpointRows) == 0 })
	deliveries, _, err := n.EndpointDeliveries(t.Context(), r.reader(), e.ID, webhook.LogFilter{}, 100)
	must.OK(t, err)
	sent, err := n.Request(t.Context(), r.reader(), &deliveries[0])
	must.OK(t, err)
	ofEvent, _, err := n.DeliveriesOf(t.Context(), webhook.Reader(r.reader()), []id.Event{deliveries[0].Event}, webhook.Position{}, 10)
	must.OK(t, err)
	if len(ofEvent) == 0 || ofEvent[0].Endpoint != e.ID {
		t.Errorf("the deliveries of the event are %+v", ofEvent)
	}
	limited := webhook.Reader{Org: a.Org, Accounts: []id.Account{a.ID, b.ID}, Days: 30}
	if hidden, _, err := n.DeliveriesOf(t.Context(), limited, []id.Event{deliveries[0].Event}, webhook.Position{}, 10); err != nil || len(hidden) != 0 {
		t.Errorf("a limited key sees deliveries to an endpoint for all accounts: %+v %v", hidden, err)
	}
	if _, err := n.FindDelivery(t.Context(), limited, deliveries[0].ID); err == nil {
		t.Error("a limited key finds a delivery to an endpoint for all accounts")
	}
	if sent.URL != rec.URL+"/e" || sent.Header.Get("X-Webhook-Id") != string(deliveries[0].Event) || len(sent.Body) == 0 || sent.Header.Get("X-Webhook-Signature") != "" {
		t.Errorf("%+v", sent)
	}
	if _, err := n.RedeliverToEndpoint(t.Context(), by("webhook_endpoint.redeliver"), r.reader(), e.ID, deliveries[0].ID); err != nil {
		t.Fatal(err)
	}
	rec.wait(t, "/e", before+3)
}

// Nothing of a deleted account waits for an endpoint, and the other accounts continue.
func TestADeletedAccountLeavesEndpoints(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, b := r.account(), r.account()
	rec := newReceiver(t, func(w http.ResponseWriter, _ string, _ int, g got) {
		if accountOf(g) == a.ID && g.kind == "message" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	n, _ := r.endpointNode(webhook.NewEndpoint{URL: rec.URL + "/e"}, a, b)
	r.post(a, "message", 2)
	r.post(b, "message", 1)
	until(t, "the failing account has its row", func() bool { return r.rows("SELECT count(*) FROM webhook_endpoint_lane") == 1 })
	if _, err := n.Purge(t.Context(), a.Org, a.ID, 1000); err != nil {
		t.Fatal(err)
	}
	r.post(a, "account.disconnected", 1)
	r.post(b, "message", 1)
	until(t, "the last event of the account arrives, and nothing waits", func() bool {
		list := rec.requests("/e")
		return len(seqsOf(list, b)) == 2 && slices.ContainsFunc(list, func(g got) bool { return g.kind == "account.disconnected" }) && r.rows(endpointRows) == 0
	})
}

// An endpoint takes over the webhooks that have its URL: nothing is lost, the order stays, and paused webhooks stay.
func TestAnEndpointReplacesWebhooks(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	works, fails, paused := r.account(), r.account(), r.account()
	var moved atomic.Bool
	rec := newReceiver(t, func(w http.ResponseWriter, _ string, _ int, g got) {
		if !moved.Load() && accountOf(g) == fails.ID {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	n := r.node(bucketsOf(works, fails, paused)...)
	for _, a := range []account.Account{works, fails, paused} {
		r.put(n, a, webhook.Change{URL: rec.URL + "/e"})
	}
	if _, err := n.Pause(t.Context(), by("webhook.pause"), r.org, paused.ID); err != nil {
		t.Fatal(err)
	}
	for _, a := range []account.Account{works, fails, paused} {
		r.fire(n, a, "message", 5)
	}
	until(t, "one webhook has delivered and one fails", func() bool {
		return len(seqsOf(rec.requests("/e"), works)) == 5 && r.rows("SELECT count(*) FROM webhook_lane WHERE state = 'backoff'") == 1
	})
	n.shutdown()
	moved.Store(true)
	maker := r.node()
	e, err := maker.AddEndpoint(t.Context(), by("webhook_endpoint.create"), r.reader(), webhook.NewEndpoint{URL: rec.URL + "/e", Replace: true})
	must.OK(t, err)
	if e.Replaced != 2 {
		t.Errorf("%d webhooks were replaced, want 2", e.Replaced)
	}
	before := len(rec.requests("/e"))
	r.holder(e.ID, works, fails, paused)
	r.post(works, "message", 2)
	r.post(fails, "message", 2)
	until(t, "every event arrived", func() bool {
		list := rec.requests("/e")[before:]
		return slices.Equal(distinct(seqsOf(list, fails)), seqsUpTo(7)) && slices.Contains(seqsOf(list, works), 7)
	})
	if got := distinct(seqsOf(rec.requests("/e"), works)); !slices.Equal(got, seqsUpTo(7)) {
		t.Errorf("%v", got)
	}
	if left := r.rows("SELECT count(*) FROM webhook WHERE deleted_at IS NULL"); left != 1 {
		t.Errorf("%d webhooks are left, want the paused one", left)
	}
}

// An organisation has at most 20 endpoints, sees only its own, and a key that is limited to accounts uses only endpoints of these.
func TestEndpointsAreLimited(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, b := r.account(), r.account()
	n := r.node()
	add := func(reader webhook.EndpointReader, in webhook.NewEndpoint) (webhook.Endpoint, error) {
		in.URL = "http://127.0.0.1:9/x"
		return n.AddEndpoint(t.Context(), by("webhook_endpoint.add"), reader, in)
	}
	limited := webhook.EndpointReader{Org: r.org, Accounts: []id.Account{a.ID}, Days: 30}
	if _, err := add(limited, webhook.NewEndpoint{}); !isProblem(err, problem.AccountNotAllowedForKey) {
		t.Errorf("a limited key makes an endpoint of all accounts: %v", err)
	}
	if _, err := add(limited, webhook.NewEndpoint{Accounts: []id.Account{a.ID, b.ID}}); !isProblem(err, problem.AccountNotAllowedForKey) {
		t.Errorf("a limited key makes an endpoint of another account: %v", err)
	}
	mine, err := add(limited, webhook.NewEndpoint{Accounts: []id.Account{a.ID}})
	must.OK(t, err)
	for i := 1; i < webhook.MaxEndpoints; i++ {
		if _, err := add(r.reader(), webhook.NewEndpoint{Description: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := add(r.reader(), webhook.NewEndpoint{}); !isProblem(err, problem.LimitReached) {
		t.Errorf("one more endpoint: %v", err)
	}
	list, err := n.Endpoints(t.Context(), limited)
	must.OK(t, err)
	if len(list) != 1 || list[0].ID != mine.ID {
		t.Errorf("a limited key sees %d endpoints", len(list))
	}
	if list, err = n.Endpoints(t.Context(), webhook.EndpointReader{Org: r.Org(), Days: 30}); err != nil || len(list) != 0 {
		t.Errorf("another organisation sees %d endpoints: %v", len(list), err)
	}
}

func isProblem(err error, kind problem.Kind) bool {
	p, ok := errors.AsType[*problem.Error](err)
	return ok && p.Kind.Code == kind.Code
}
