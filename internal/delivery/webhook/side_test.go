package webhook_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// At most one ephemeral event per kind and second is sent, the newest last, and none is retried.
func TestEphemeralEventsAreCoalesced(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := r.account()
	rec := newReceiver(t, func(w http.ResponseWriter, _ string, _ int, g got) {
		if g.kind == "online" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	n := r.node(bucketsOf(a)...)
	r.put(n, a, webhook.Change{URL: rec.URL + "/a", Events: []string{"typing", "online", "message"}})
	r.fire(n, a, "message", 1)
	rec.wait(t, "/a", 1)
	publish := func(kind, text string) {
		e := event.Stored{Org: a.Org, Source: string(a.ID), At: time.Now(), ID: id.New[id.Event](), Kind: kind}
		e.Body = event.AppendEnvelope(nil, &event.Envelope{ID: e.ID, Kind: kind, Account: e.Source, At: e.At, Data: []byte(`"` + text + `"`)})
		must.OK(t, r.Bus.Publish(event.EphemeralSubject(e.Source), event.AppendLive(nil, &e)))
	}
	of := func(kind string) (list []got) {
		for _, g := range rec.requests("/a") {
			if g.kind == kind {
				list = append(list, g)
			}
		}
		return list
	}
	// Messages that are published before the node has subscribed are lost.
	until(t, "the node has subscribed", func() bool { publish("online", "x"); return len(of("online")) > 0 })
	for i := range 20 {
		publish("typing", string(rune('a'+i)))
	}
	publish("counts", "not wanted")
	until(t, "the first and the last event are delivered", func() bool { return len(of("typing")) >= 2 })
	typing := of("typing")
	if len(typing) != 2 || !strings.Contains(string(typing[0].body), `"a"`) || !strings.Contains(string(typing[1].body), `"t"`) || typing[0].header["X-Webhook-Sequence"] != nil {
		t.Errorf("%v", typing)
	}
	// Ephemeral events that failed are not retried and do not stop the lane.
	r.fire(n, a, "message", 1)
	until(t, "the next message is delivered", func() bool { return len(of("message")) == 2 })
	tried := map[string]bool{}
	for _, g := range of("online") {
		if tried[g.id] {
			t.Errorf("%s was retried", g.id)
		}
		tried[g.id] = true
	}
	if last := of("message")[1]; last.seq != 2 || last.header["X-Webhook-Sequence"] == nil || len(of("counts")) != 0 {
		t.Errorf("%v", last)
	}
}

// An unordered webhook gets several deliveries concurrently, and all arrive.
func TestUnorderedWebhookGetsConcurrentDeliveries(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := r.account()
	arrived, release := make(chan struct{}, 8), make(chan struct{})
	rec := newReceiver(t, func(http.ResponseWriter, string, int, got) {
		arrived <- struct{}{}
		<-release
	})
	n := r.node(bucketsOf(a)...)
	r.put(n, a, webhook.Change{URL: rec.URL + "/a", Ordering: webhook.Unordered, MaxInFlight: 4})
	r.fire(n, a, "message", 8)
	for range 4 { // all four arrive before the first gets a response
		<-arrived
	}
	close(release)
	for range 4 {
		<-arrived
	}
	list := seqs(rec.wait(t, "/a", 8))
	slices.Sort(list)
	if !slices.Equal(list, seqsUpTo(8)) {
		t.Errorf("%v", list)
	}
}

// A deleted account leaves no webhook, no lane and no side delivery.
func TestLeaveDeletesLaneAndSideDeliveries(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := r.account()
	n := r.node(bucketsOf(a)...)
	r.put(n, a, webhook.Change{URL: "http://127.0.0.1:1/"})
	r.fire(n, a, "message", 3)
	until(t, "the lane backs off", func() bool { return r.rows("SELECT count(*) FROM webhook_lane WHERE state = 'backoff'") == 1 })
	tx, err := r.DB.Pool().Begin(t.Context())
	must.OK(t, err)
	must.OK(t, n.Leave(t.Context(), tx, a.Org, a.ID))
	must.OK(t, tx.Commit(t.Context()))
	if _, err := n.Get(t.Context(), a.Org, a.ID); err == nil {
		t.Error("the webhook still exists")
	}
	until(t, "no row is left", func() bool {
		return r.rows("SELECT count(*) FROM webhook_lane")+r.rows("SELECT count(*) FROM webhook_errand")+r.rows("SELECT count(*) FROM webhook WHERE secret IS NOT NULL") == 0
	})
}

// A position is refused, or is the same after it was formatted and parsed again.
func FuzzParsePosition(f *testing.F) {
	f.Add(webhook.Position{At: time.UnixMicro(1_763_208_000_000_000), ID: "whd_01k9x5ahzre4bb3069xb2way0g"}.String())
	f.Add("")
	f.Add("MS4x")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := webhook.ParsePosition(text)
		if !ok {
			return
		}
		again, ok := webhook.ParsePosition(p.String())
		if !ok || !again.At.Equal(p.At) || again.ID != p.ID || !utf8.ValidString(p.String()) {
			t.Fatalf("%q is %v and then %v", text, p, again)
		}
	})
}

// A list of side deliveries that is read while one of them ends still contains it. It must not run again.
func TestSideDeliveryThatEndsDuringListingDoesNotRunAgain(t *testing.T) {
	t.Parallel()
	r := webhook.NewRunning()
	if !r.Start("a") {
		t.Fatal("it does not start")
	}
	r.StartListing()
	r.Finish("a")
	if r.Start("a") {
		t.Error("it starts again from a list that was read before its end")
	}
	r.StartListing()
	if !r.Start("a") {
		t.Error("it does not start although it is due again")
	}
}
