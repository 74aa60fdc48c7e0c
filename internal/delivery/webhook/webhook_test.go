package webhook_test

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/test/metric"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
)

// Every event arrives once, in order, with the stored bytes and both signatures. All that is left is a line in the log.
func TestEventsArriveInOrderAndSigned(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := r.account()
	rec := newReceiver(t, nil)
	r.fire(nil, a, "message", 3) // before the webhook exists
	n := r.node(bucketsOf(a)...)
	hook := r.put(n, a, webhook.Change{URL: rec.URL + "/a?x=1"})
	if hook.Secret.Empty() || hook.Last4 != hook.Secret.Reveal()[len(hook.Secret.Reveal())-4:] || hook.Ordering != webhook.Strict {
		t.Fatalf("%+v", hook)
	}
	var stored []event.Stored
	for range 5 {
		stored = append(stored, r.fire(n, a, "message", 10)...)
	}
	list := rec.wait(t, "/a", 50)
	for i, g := range list {
		want := stored[i]
		if g.seq != want.Seq || string(g.body) != string(want.Body) {
			t.Fatalf("delivery %d has sequence %d or other bytes than the store", i, g.seq)
		}
		h := g.header
		if !g.isSigned(hook.Secret) {
			t.Fatal("a signature is wrong")
		}
		if h.Get("X-Webhook-Id") != g.id || h.Get("X-Webhook-Event") != "message" || h.Get("X-Webhook-Attempt") != "1" ||
			h.Get("X-Webhook-Sequence") != strconv.FormatInt(g.seq, 10) || h.Get("X-Webhook-Previous-Sequence") != strconv.FormatInt(g.seq-1, 10) ||
			h.Get("Content-Type") != "application/json" || h.Get("X-Webhook-Timestamp") == "" || h["X-Webhook-Signature-Previous"] != nil || h["Idempotency-Key"] != nil {
			t.Fatalf("%v", h)
		}
	}
	until(t, "all deliveries are in the log and the lane has no row", func() bool {
		return r.rows("SELECT count(*) FROM webhook_delivery WHERE delivered") == 50 && r.rows("SELECT count(*) FROM webhook_lane") == 0
	})
	if got := n.count.good.Load(); got != 50 {
		t.Errorf("%d deliveries counted, want 50", got)
	}
	if got := metric.Value(t, n.metrics, "stagedoor_webhook_event_seconds"); got != 50 {
		t.Errorf("the arrival of %v events was measured, want 50", got)
	}
	shown, err := n.Get(t.Context(), a.Org, a.ID)
	must.OK(t, err)
	if !shown.Secret.Empty() || shown.Health.State != lane.Live || shown.Health.LastStatus != 200 || shown.Health.LastSuccess.IsZero() || shown.Health.Backlog != 0 || shown.Health.Cursor != 53 {
		t.Errorf("%+v", shown)
	}
}

// A webhook gets the kinds that it wants, and a header has the sequence of the wanted event before.
func TestFilterSelectsEvents(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := r.account()
	rec := newReceiver(t, nil)
	n := r.node(bucketsOf(a)...)
	r.put(n, a, webhook.Change{URL: rec.URL + "/f", Events: []string{"tips"}})
	r.fire(n, a, "tips", 1)
	rec.wait(t, "/f", 1)
	r.fire(n, a, "message", 3)
	r.fire(n, a, "tips", 1)
	list := rec.wait(t, "/f", 2)
	if list[1].seq != 5 || list[1].header.Get("X-Webhook-Previous-Sequence") != "1" {
		t.Errorf("got %d after %s, want 5 after 1", list[1].seq, list[1].header.Get("X-Webhook-Previous-Sequence"))
	}
	// Replacing the webhook keeps its secret, and the new filter applies.
	before := r.put(n, a, webhook.Change{URL: rec.URL + "/g", Events: []string{"message*", "!messageRead"}})
	r.fire(n, a, "messageRead", 1)
	r.fire(n, a, "tips", 1)
	r.fire(n, a, "message", 1)
	if got := rec.wait(t, "/g", 1); got[0].kind != "message" || !got[0].isSigned(before.Secret) {
		t.Errorf("got %v, or it is not signed with the same secret", got[0].kind)
	}
	if _, err := n.Put(t.Context(), accounttest.By("webhook.put"), a.Org, a.ID, webhook.Change{URL: rec.URL, Events: []string{"cows"}}); err == nil {
		t.Error("an unknown kind is accepted")
	}
}

// Failed deliveries are retried with the same bytes, and are in the log. When the endpoint works again, events arrive
// in order.
func TestFailuresAreRetriedInOrder(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := r.account()
	rec := newReceiver(t, func(w http.ResponseWriter, _ string, n int, _ got) {
		if n < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte("out of order\x00\x07"))
		}
	})
	n := r.node(bucketsOf(a)...)
	r.put(n, a, webhook.Change{URL: rec.URL + "/r"})
	r.fire(n, a, "message", 5)
	list := rec.wait(t, "/r", 8)
	if !slices.Equal(seqs(list), []int64{1, 1, 1, 1, 2, 3, 4, 5}) || string(list[0].body) != string(list[3].body) || list[3].header.Get("X-Webhook-Attempt") != "4" {
		t.Errorf("%v, attempt %s", seqs(list), list[3].header.Get("X-Webhook-Attempt"))
	}
	until(t, "the lane has no row", func() bool { return r.rows("SELECT count(*) FROM webhook_lane") == 0 })
	until(t, "all deliveries are in the log", func() bool { return r.rows("SELECT count(*) FROM webhook_delivery") == 8 })
	no := false
	failed, _, err := n.Deliveries(t.Context(), a.Org, a.ID, webhook.LogFilter{Delivered: &no}, 30, 10)
	must.OK(t, err)
	if len(failed) != 3 || failed[0].Status != 503 || failed[0].Attempt != 3 || failed[0].Snippet != "out of order" {
		t.Errorf("%+v", failed)
	}
	if n := r.rows("SELECT count(*) FROM webhook_delivery WHERE snippet LIKE '%order%'"); n != 0 {
		t.Errorf("%d responses of receivers are in the clear", n)
	}
	one := failed[0].ID
	_, err = r.Seal.Shred(t.Context(), a.Org, string(a.ID))
	must.OK(t, err)
	if d, err := n.Delivery(t.Context(), a.Org, a.ID, one, 30); err != nil || d.Snippet != "" || d.Status != 503 {
		t.Errorf("after the account's key was destroyed: %+v, %v", d, err)
	}
}

// A machine without file descriptors is no fault of the receiver: its retries are not used up, nothing is logged as
// failed, and the event follows as soon as there is a connection.
func TestLackOfDescriptorsIsNotTheReceiversFault(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := r.account()
	rec := newReceiver(t, nil)
	n := r.node(bucketsOf(a)...)
	r.put(n, a, webhook.Change{URL: rec.URL + "/r"})
	r.exhausted.Store(1)
	_, err := n.Test(t.Context(), accounttest.By("webhook.test"), a.Org, a.ID)
	if p, ok := errors.AsType[*problem.Error](err); !ok || p.Kind.Code != problem.ServiceUnavailable.Code {
		t.Errorf("a test: %v", err)
	}
	r.exhausted.Store(2)
	r.fire(n, a, "message", 2)
	list := rec.wait(t, "/r", 2)
	if !slices.Equal(seqs(list), []int64{1, 2}) || list[0].header.Get("X-Webhook-Attempt") != "1" || r.exhausted.Load() > 0 {
		t.Errorf("%v, attempt %s, %d left", seqs(list), list[0].header.Get("X-Webhook-Attempt"), r.exhausted.Load())
	}
	until(t, "both deliveries are in the log", func() bool { return r.rows("SELECT count(*) FROM webhook_delivery") == 2 })
	if failed := r.rows("SELECT count(*) FROM webhook_delivery WHERE NOT delivered"); failed != 0 {
		t.Errorf("%d deliveries failed", failed)
	}
}

// A receiver may hang, fail, redirect, close connections or send huge responses. Healthy receivers on the same host do
// not wait for it.
func TestBadReceiversDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	hang := make(chan struct{})
	rec := newReceiver(t, func(w http.ResponseWriter, path string, _ int, _ got) {
		switch {
		case strings.HasPrefix(path, "/hang"):
			<-hang
		case strings.HasPrefix(path, "/dead"):
			w.WriteHeader(http.StatusInternalServerError)
		case strings.HasPrefix(path, "/away"):
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusFound)
		case strings.HasPrefix(path, "/cut"):
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		case strings.HasPrefix(path, "/flood"):
			for range 1024 {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}
	})
	defer close(hang)
	kinds := []string{"/ok", "/hang", "/dead", "/away", "/cut", "/flood"}
	n := r.node(slices.Collect(func(yield func(int) bool) {
		for i := range event.Buckets {
			if !yield(i) {
				return
			}
		}
	})...)
	paths := map[string]account.Account{}
	for i := range 24 {
		a := r.account()
		path := kinds[i%len(kinds)] + strconv.Itoa(i)
		r.put(n, a, webhook.Change{URL: rec.URL + path})
		paths[path] = a
	}
	arrive := func(path string, from int) {
		if list := rec.wait(t, path, from+5); !slices.Equal(seqs(list)[:from+5], seqsUpTo(int64(from+5))) {
			t.Errorf("%s: %v", path, seqs(list))
		}
	}
	// The first round runs while the bad receivers start to fail, the second when they are known to fail.
	for round := range 2 {
		for path, a := range paths {
			if !strings.HasPrefix(path, "/ok") {
				r.fire(n, a, "message", 5)
			}
		}
		began := time.Now()
		for path, a := range paths {
			if strings.HasPrefix(path, "/ok") {
				r.fire(n, a, "message", 5)
			}
		}
		for path := range paths {
			if strings.HasPrefix(path, "/ok") {
				arrive(path, 5*round)
			}
		}
		if took := time.Since(began); proof.Running() && took > 8*time.Second { // a hanging delivery takes 10 s
			t.Errorf("healthy receivers waited for bad ones: %s", took)
		}
		t.Log("healthy receivers took", time.Since(began))
	}
	for path := range paths {
		if strings.HasPrefix(path, "/flood") {
			arrive(path, 0)
		}
	}
	until(t, "each failing webhook has one row", func() bool { return r.rows("SELECT count(*) FROM webhook_lane") == 16 })
}

// Changes by the owner apply immediately: pause, resume from where delivery stopped or from another event, a new URL,
// deletion.
func TestOwnerChangesApplyImmediately(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := r.account()
	rec := newReceiver(t, nil)
	n := r.node(bucketsOf(a)...)
	by := accounttest.By("webhook.pause")
	r.put(n, a, webhook.Change{URL: rec.URL + "/a"})
	r.fire(n, a, "message", 2)
	rec.wait(t, "/a", 2)
	paused, err := n.Pause(t.Context(), by, a.Org, a.ID)
	must.OK(t, err)
	if paused.Health.State != lane.Paused {
		t.Fatalf("%+v", paused.Health)
	}
	until(t, "the cursor is stored", func() bool { return r.rows("SELECT count(*) FROM webhook_lane WHERE cursor = 2") == 1 })
	r.fire(n, a, "message", 3)
	shown, err := n.Get(t.Context(), a.Org, a.ID)
	must.OK(t, err)
	if shown.Health.Backlog != 3 || len(rec.requests("/a")) != 2 {
		t.Errorf("%+v, %d requests", shown.Health, len(rec.requests("/a")))
	}
	_, err = n.Resume(t.Context(), by, a.Org, a.ID, webhook.Resume{})
	must.OK(t, err)
	if list := rec.wait(t, "/a", 5); !slices.Equal(seqs(list), seqsUpTo(5)) {
		t.Errorf("%v", seqs(list))
	}
	// Resume after the first event.
	_, err = n.Resume(t.Context(), by, a.Org, a.ID, webhook.Resume{Moved: true, After: 1})
	must.OK(t, err)
	if list := rec.wait(t, "/a", 9); !slices.Equal(seqs(list)[5:], []int64{2, 3, 4, 5}) {
		t.Errorf("%v", seqs(list))
	}
	_, err = n.Pause(t.Context(), by, a.Org, a.ID)
	must.OK(t, err)
	until(t, "paused", func() bool {
		return r.rows("SELECT count(*) FROM webhook_lane WHERE cursor = 5 AND state = 'paused'") == 1
	})
	r.fire(n, a, "message", 2)
	_, err = n.Resume(t.Context(), by, a.Org, a.ID, webhook.Resume{Now: true})
	must.OK(t, err)
	until(t, "live again", func() bool { return r.rows("SELECT count(*) FROM webhook_lane") == 0 })
	r.fire(n, a, "message", 1)
	if list := rec.wait(t, "/a", 10); list[9].seq != 8 {
		t.Errorf("%v", seqs(list))
	}
	must.OK(t, n.Delete(t.Context(), by, a.Org, a.ID))
	if err := n.Delete(t.Context(), by, a.Org, a.ID); err == nil {
		t.Error("a webhook was deleted twice")
	}
	r.fire(n, a, "message", 1)
	r.put(n, a, webhook.Change{URL: rec.URL + "/b"})
	r.fire(n, a, "message", 1)
	if list := rec.wait(t, "/b", 1); list[0].seq != 10 || len(rec.requests("/a")) != 10 {
		t.Errorf("%v and %d", seqs(list), len(rec.requests("/a")))
	}
}

// After a rotation the new secret signs, and the old one signs as well during the overlap.
func TestSecretsRotateWithAnOverlap(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := r.account()
	rec := newReceiver(t, nil)
	n := r.node(bucketsOf(a)...)
	old := r.put(n, a, webhook.Change{URL: rec.URL + "/a", Secret: secret.New("a-secret-of-my-own-choice")})
	fresh, err := n.Rotate(t.Context(), accounttest.By("webhook.rotate"), a.Org, a.ID, time.Hour)
	must.OK(t, err)
	// The node that delivers applies a rotation a moment after the response.
	delivered := 0
	signedWith := func(key secret.String) (g got) {
		until(t, "deliveries are signed with the new secret", func() bool {
			r.fire(n, a, "message", 1)
			delivered++
			g = rec.wait(t, "/a", delivered)[delivered-1]
			return g.isSigned(key)
		})
		return g
	}
	g := signedWith(fresh.Secret)
	both := strings.Split(g.header.Get("webhook-signature"), " ")
	previous := got{header: g.header.Clone(), body: g.body}
	previous.header.Set("X-Webhook-Signature", g.header.Get("X-Webhook-Signature-Previous"))
	if !previous.isSigned(old.Secret) || len(both) != 2 {
		t.Errorf("%v", g.header)
	}
	last, err := n.Rotate(t.Context(), accounttest.By("webhook.rotate"), a.Org, a.ID, 0)
	must.OK(t, err)
	g = signedWith(last.Secret)
	if g.header["X-Webhook-Signature-Previous"] != nil || strings.Contains(g.header.Get("webhook-signature"), " ") {
		t.Errorf("%v", g.header)
	}
}

// Events from before the webhook can be replayed, single deliveries can be repeated, and refused events are retried out
// of order.
func TestSideDeliveriesAreOutOfOrder(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := r.account()
	bad := true
	rec := newReceiver(t, func(w http.ResponseWriter, path string, n int, g got) {
		if g.seq == 13 && n < 20 && bad {
			w.WriteHeader(http.StatusUnprocessableEntity)
			if g.header.Get("X-Webhook-Attempt") == "3" {
				bad = false
			}
		}
	})
	early := r.fire(nil, a, "message", 10)
	n := r.node(bucketsOf(a)...)
	r.put(n, a, webhook.Change{URL: rec.URL + "/a"})
	by := accounttest.By("webhook.replay")
	replay, err := n.Replay(t.Context(), by, a.Org, a.ID, webhook.Range{FromTime: early[2].At, ToTime: early[7].At, Events: []string{"message"}})
	must.OK(t, err)
	list := rec.wait(t, "/a", 6)
	if !slices.Equal(seqs(list), []int64{3, 4, 5, 6, 7, 8}) || list[0].header.Get("X-Webhook-Replay") != replay.ID || string(list[0].body) != string(early[2].Body) {
		t.Errorf("%v %v", seqs(list), list[0].header)
	}
	until(t, "the replay is over", func() bool { return r.rows("SELECT count(*) FROM webhook_errand") == 0 })
	until(t, "the replay is in the log", func() bool { return r.rows("SELECT count(*) FROM webhook_delivery WHERE cause = 'replay'") == 6 })
	log, next, err := n.Deliveries(t.Context(), a.Org, a.ID, webhook.LogFilter{}, 30, 4)
	must.OK(t, err)
	rest, end, err := n.Deliveries(t.Context(), a.Org, a.ID, webhook.LogFilter{Behind: next}, 30, 4)
	must.OK(t, err)
	if len(log) != 4 || len(rest) != 2 || !end.At.IsZero() || log[3].ID == rest[0].ID {
		t.Errorf("pages of %d and %d deliveries, want 4 and 2", len(log), len(rest))
	}
	_, err = n.Redeliver(t.Context(), by, a.Org, a.ID, log[0].ID, 30)
	must.OK(t, err)
	if list = rec.wait(t, "/a", 7); list[6].seq != 8 || list[6].header.Get("X-Webhook-Replay") == "" {
		t.Errorf("%v", seqs(list))
	}
	// OnlyFailed skips what was delivered.
	_, err = n.Replay(t.Context(), by, a.Org, a.ID, webhook.Range{FromID: early[0].ID, OnlyFailed: true})
	must.OK(t, err)
	if list = rec.wait(t, "/a", 11); !slices.Equal(seqs(list)[7:], []int64{1, 2, 9, 10}) {
		t.Errorf("%v", seqs(list))
	}
	// 13 is refused three times, becomes a side delivery, and is then accepted.
	r.fire(n, a, "message", 5)
	list = rec.wait(t, "/a", 11+8)[11:]
	late := list[len(list)-1]
	if !slices.Equal(seqs(list), []int64{11, 12, 13, 13, 13, 14, 15, 13}) || late.header.Get("X-Webhook-Out-Of-Order") != "1" || late.header.Get("X-Webhook-Attempt") != "4" {
		t.Errorf("%v %v", seqs(list), late.header)
	}
	until(t, "no side delivery and no lane is left", func() bool {
		return r.rows("SELECT count(*) FROM webhook_errand") == 0 && r.rows("SELECT count(*) FROM webhook_lane") == 0
	})
}

// A 410 disables the webhook, with an event. Replacing the webhook resumes delivery where it stopped.
func TestGoneDisablesAndPutResumes(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := r.account()
	rec := newReceiver(t, func(w http.ResponseWriter, path string, _ int, _ got) {
		if path == "/gone" {
			w.WriteHeader(http.StatusGone)
		}
	})
	n := r.node(bucketsOf(a)...)
	r.put(n, a, webhook.Change{URL: rec.URL + "/gone"})
	r.fire(n, a, "message", 3)
	rec.wait(t, "/gone", 1)
	until(t, "webhook.disabled is in the outbox", func() bool { return r.rows("SELECT count(*) FROM outbox WHERE kind = 'webhook.disabled'") == 1 })
	shown, err := n.Get(t.Context(), a.Org, a.ID)
	must.OK(t, err)
	if shown.Health.State != lane.Disabled || shown.Health.Reason != lane.ReasonGone || shown.Health.Backlog != 3 {
		t.Errorf("%+v", shown.Health)
	}
	r.put(n, a, webhook.Change{URL: rec.URL + "/new"})
	if list := rec.wait(t, "/new", 3); !slices.Equal(seqs(list), seqsUpTo(3)) || len(rec.requests("/gone")) != 1 {
		t.Errorf("%v", seqs(list))
	}
	until(t, "webhook.recovered is in the outbox", func() bool { return r.rows("SELECT count(*) FROM outbox WHERE kind = 'webhook.recovered'") == 1 })
}

// A webhook that was disabled and is resumed by its owner reports its recovery, as one that is replaced does.
func TestResumedWebhookReportsRecovery(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := r.account()
	rec := newReceiver(t, func(w http.ResponseWriter, _ string, n int, _ got) {
		if n == 0 {
			w.WriteHeader(http.StatusGone)
		}
	})
	n := r.node(bucketsOf(a)...)
	r.put(n, a, webhook.Change{URL: rec.URL + "/x"})
	r.fire(n, a, "message", 1)
	until(t, "the webhook is disabled", func() bool {
		shown, err := n.Get(t.Context(), a.Org, a.ID)
		must.OK(t, err)
		return shown.Health.State == lane.Disabled
	})
	_, err := n.Resume(t.Context(), by("webhook.resume"), a.Org, a.ID, webhook.Resume{})
	must.OK(t, err)
	until(t, "webhook.recovered is in the outbox", func() bool {
		return r.rows("SELECT count(*) FROM outbox WHERE kind = 'webhook.recovered'") == 1
	})
}

// The lag of a webhook is the age of its oldest undelivered event, however many newer ones wait.
func TestLagIsTheAgeOfTheOldestUndeliveredEvent(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := r.account()
	rec := newReceiver(t, func(w http.ResponseWriter, _ string, n int, _ got) {
		if n > 0 { // the first event is delivered
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	n := r.node(bucketsOf(a)...)
	r.put(n, a, webhook.Change{URL: rec.URL + "/x"})
	r.ago.Store(int64(3 * time.Hour))
	r.fire(n, a, "message", 1)
	rec.wait(t, "/x", 1)
	r.ago.Store(int64(time.Hour))
	r.fire(n, a, "message", 1)
	r.ago.Store(0)
	r.fire(n, a, "message", 2)
	var shown webhook.Webhook
	until(t, "three events wait", func() bool {
		var err error
		shown, err = n.Get(t.Context(), a.Org, a.ID)
		must.OK(t, err)
		return shown.Health.Backlog == 3
	})
	if lag := time.Duration(shown.Health.Lag) * time.Second; lag < time.Hour || lag >= 3*time.Hour {
		t.Errorf("the lag is %s, want about an hour: %+v", lag, shown.Health)
	}
}

// A test is signed like other events and its result is returned. The eleventh within a minute is refused.
func TestTestsAreReportedAndLimited(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := r.account()
	rec := newReceiver(t, func(w http.ResponseWriter, path string, _ int, _ got) {
		if path == "/bad" {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = w.Write([]byte("thanks"))
	})
	n := r.node()
	by := accounttest.By("webhook.test")
	if _, err := n.Test(t.Context(), by, a.Org, a.ID); err == nil {
		t.Error("a test without a webhook succeeds")
	}
	hook := r.put(n, a, webhook.Change{URL: rec.URL + "/a"})
	tested, err := n.Test(t.Context(), by, a.Org, a.ID)
	must.OK(t, err)
	if g := rec.requests("/a")[0]; !tested.Delivered || tested.Status != 200 || tested.Snippet != "thanks" || g.kind != "test" || !g.isSigned(hook.Secret) {
		t.Errorf("%+v", tested)
	}
	testenv.CheckEvent(t, rec.requests("/a")[0].body)
	r.put(n, a, webhook.Change{URL: rec.URL + "/bad"})
	if tested, err = n.Test(t.Context(), by, a.Org, a.ID); err != nil || tested.Delivered || tested.Status != 418 {
		t.Errorf("%+v %v", tested, err)
	}
	r.put(n, a, webhook.Change{URL: "http://127.0.0.1:1/"})
	if tested, err = n.Test(t.Context(), by, a.Org, a.ID); err != nil || tested.Delivered || tested.Status != 0 {
		t.Errorf("%+v %v", tested, err)
	}
	for range 8 {
		_, err = n.Test(t.Context(), by, a.Org, a.ID)
	}
	if err == nil || !strings.Contains(err.Error(), "webhook_test_rpm") {
		t.Errorf("%v", err)
	}
}
