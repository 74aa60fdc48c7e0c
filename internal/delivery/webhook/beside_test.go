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
)

// Events that are not stored come at most once a second and kind, the newest of them last, and are not tried again.
func TestEphemeralEventsAreCoalesced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.account()
	rec := newReceiver(t, func(w http.ResponseWriter, _ string, _ int, g got) {
		if g.kind == "online" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	n := r.node(all(a)...)
	r.put(n, a, webhook.Change{URL: rec.URL + "/a", Events: []string{"typing", "online", "message"}})
	r.fire(n, a, "message", 1)
	rec.wait(t, "/a", 1)
	tell := func(kind, text string) {
		e := event.Stored{Org: a.Org, Source: string(a.ID), At: time.Now(), ID: id.New[id.Event](), Kind: kind}
		e.Body = event.AppendEnvelope(nil, &event.Envelope{ID: e.ID, Kind: kind, Account: e.Source, At: e.At, Data: []byte(`"` + text + `"`)})
		must(t, r.Bus.Publish(event.EphemeralSubject(e.Source), event.AppendLive(nil, &e)))
	}
	of := func(kind string) (list []got) {
		for _, g := range rec.on("/a") {
			if g.kind == kind {
				list = append(list, g)
			}
		}
		return list
	}
	// A subscription takes a moment, and what is told in it is gone.
	until(t, "the node hears", func() bool { tell("online", "x"); return len(of("online")) > 0 })
	for i := range 20 {
		tell("typing", string(rune('a'+i)))
	}
	tell("counts", "not wanted")
	until(t, "the first and the last", func() bool { return len(of("typing")) >= 2 })
	typing := of("typing")
	if len(typing) != 2 || !strings.Contains(string(typing[0].body), `"a"`) || !strings.Contains(string(typing[1].body), `"t"`) || typing[0].header["X-Webhook-Sequence"] != nil {
		t.Errorf("%v", typing)
	}
	// Those that failed were neither tried again nor did they stop the lane.
	r.fire(n, a, "message", 1)
	until(t, "the next message", func() bool { return len(of("message")) == 2 })
	tried := map[string]bool{}
	for _, g := range of("online") {
		if tried[g.id] {
			t.Errorf("%s was tried again", g.id)
		}
		tried[g.id] = true
	}
	if last := of("message")[1]; last.seq != 2 || last.header["X-Webhook-Sequence"] == nil || len(of("counts")) != 0 {
		t.Errorf("%v", last)
	}
}

// Without ordering several deliveries of an account are under way, and all arrive.
func TestUnorderedWebhooksOverlap(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.account()
	arrived, release := make(chan struct{}, 8), make(chan struct{})
	rec := newReceiver(t, func(http.ResponseWriter, string, int, got) {
		arrived <- struct{}{}
		<-release
	})
	n := r.node(all(a)...)
	r.put(n, a, webhook.Change{URL: rec.URL + "/a", Ordering: webhook.Unordered, MaxInFlight: 4})
	r.fire(n, a, "message", 8)
	for range 4 { // all four are there before the first is answered
		<-arrived
	}
	close(release)
	for range 4 {
		<-arrived
	}
	list := seqs(rec.wait(t, "/a", 8))
	slices.Sort(list)
	if !slices.Equal(list, upTo(8)) {
		t.Errorf("%v", list)
	}
}

// An account that is disconnected leaves no webhook, no lane and no errand.
func TestLeavingTakesEverythingAlong(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.account()
	n := r.node(all(a)...)
	r.put(n, a, webhook.Change{URL: "http://127.0.0.1:1/"})
	r.fire(n, a, "message", 3)
	until(t, "it fails", func() bool { return r.rows("SELECT count(*) FROM webhook_lane WHERE state = 'backoff'") == 1 })
	tx, err := r.DB.Pool().Begin(t.Context())
	must(t, err)
	must(t, n.Leave(t.Context(), tx, a.Org, a.ID))
	must(t, tx.Commit(t.Context()))
	if _, err := n.Get(t.Context(), a.Org, a.ID); err == nil {
		t.Error("it is still there")
	}
	until(t, "the node has noticed", func() bool {
		return r.rows("SELECT count(*) FROM webhook_lane")+r.rows("SELECT count(*) FROM webhook_errand")+r.rows("SELECT count(*) FROM webhook WHERE secret IS NOT NULL") == 0
	})
}

// Whatever is sent as a position, it is refused or means the same when it is written again.
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

// A list of errands that was read while one of them ended still has it; it is not done twice.
func TestAnErrandThatEndsWhileTheListIsReadIsNotDoneAgain(t *testing.T) {
	t.Parallel()
	r := webhook.NewRunning()
	if !r.Begin("a") {
		t.Fatal("it does not begin")
	}
	r.Ask()
	r.End("a")
	if r.Begin("a") {
		t.Error("it is done again by a list from before its end")
	}
	r.Ask()
	if !r.Begin("a") {
		t.Error("one that is due again does not begin")
	}
}
