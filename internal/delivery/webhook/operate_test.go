package webhook_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// During a halt events wait in the store, and they are delivered in order afterwards. A node that shuts down during a
// halt does so immediately.
func TestHaltStopsDeliveries(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	rec := newReceiver(t, nil)
	a := r.account()
	n := r.node(bucketsOf(a)...)
	r.put(n, a, webhook.Change{URL: rec.URL + "/a"})
	r.fire(n, a, "message", 2)
	rec.wait(t, "/a", 2)
	n.Halt(true)
	r.fire(n, a, "message", 200)
	until(t, "the lane has a row", func() bool {
		return r.rows("SELECT count(*) FROM webhook_lane WHERE account_id = $1 AND state = 'lagging'", a.ID) == 1
	})
	if got := rec.requests("/a"); len(got) != 2 {
		t.Fatalf("%d deliveries, want 2", len(got))
	}
	n.Halt(false)
	if got := seqs(rec.wait(t, "/a", 202)); !slices.Equal(got, seqsUpTo(202)) {
		t.Errorf("%v", got)
	}
	n.Halt(true)
	r.fire(n, a, "message", 3)
	n.shutdown()
	if got := rec.requests("/a"); len(got) != 202 {
		t.Errorf("%d deliveries, want 202", len(got))
	}
	next := r.node(bucketsOf(a)...)
	if got := seqs(rec.wait(t, "/a", 205)); !slices.Equal(got, seqsUpTo(205)) {
		t.Errorf("%v", got)
	}
	next.shutdown()
}

func (r *fixture) state(a account.Account) (state, reason string) {
	r.t.Helper()
	err := r.DB.Pool().QueryRow(r.t.Context(), "SELECT state, reason FROM webhook_lane WHERE account_id = $1", a.ID).Scan(&state, &reason)
	if err != nil {
		return string(lane.Live), ""
	}
	return state, reason
}

// An order of an operator changes the lanes that it selects and no others, up to its limit, and changes nothing the
// second time. The audit log of each organisation names its accounts. What an owner has paused stays paused.
func TestOperatorOrdersChangeSelectedLanes(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	var works atomic.Bool
	rec := newReceiver(t, func(w http.ResponseWriter, path string, _ int, _ got) {
		if !works.Load() && strings.HasPrefix(path, "/fails") {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	// The delay is long enough that nothing is retried automatically.
	r.config.Lane.Delays = slices.Repeat(r.config.Lane.Delays[:1], 1)
	r.config.Lane.Delays[0] = 1 << 40
	r.config.Lane.OpenAfter = 1000
	failing := []account.Account{r.account(), r.account(), r.account()}
	other := r.Org()
	elsewhere := r.Connect(r.Connected(other, "77001"))
	owners := r.account()
	list := append(slices.Clone(failing), elsewhere, owners)
	n := r.node(bucketsOf(list...)...)
	for _, a := range append(slices.Clone(failing), elsewhere) {
		r.put(n, a, webhook.Change{URL: rec.URL + "/fails?token=canary-in-an-address"})
		r.fire(n, a, "message", 3)
	}
	r.put(n, owners, webhook.Change{URL: rec.URL + "/works"})
	_, err := n.Pause(t.Context(), by("webhook.pause"), owners.Org, owners.ID)
	must.OK(t, err)
	for _, a := range append(slices.Clone(failing), elsewhere) {
		until(t, "the lane backs off", func() bool { state, _ := r.state(a); return state == "backoff" })
	}

	lanes, err := n.ListLanes(t.Context(), webhook.LaneFilter{}, 100)
	must.OK(t, err)
	if text, _ := json.Marshal(lanes); len(lanes) != 5 || strings.Contains(string(text), "canary") || strings.Contains(string(text), "token") {
		t.Errorf("%d lanes, want 5 without their URLs: %s", len(lanes), text)
	}
	counts, err := n.CountLanes(t.Context(), "")
	must.OK(t, err)
	if counts[lane.Backoff] != 4 || counts[lane.Paused] != 1 || counts[lane.Live] != 0 {
		t.Errorf("%v", counts)
	}

	operate := func(o webhook.LaneOrder) webhook.LaneResult {
		t.Helper()
		done, err := n.OrderLanes(t.Context(), audit.By{Kind: audit.ActorOperator, ID: "admin", Label: "ana", Action: "webhook." + string(o.Do)}, o)
		must.OK(t, err)
		return done
	}
	// The limit applies: two of three, then the last, then none.
	for i, want := range []webhook.LaneResult{{Changed: 2, Orgs: 1, More: true}, {Changed: 1, Orgs: 1}, {}} {
		if done := operate(webhook.LaneOrder{Do: webhook.PauseLanes, Org: r.org, Limit: 2}); done != want {
			t.Errorf("pause %d: %+v", i, done)
		}
	}
	if state, reason := r.state(failing[0]); state != "paused" || reason != lane.ReasonOperator {
		t.Errorf("%s %s", state, reason)
	}
	if state, _ := r.state(elsewhere); state != "backoff" {
		t.Errorf("the lane of another organisation is %s", state)
	}
	works.Store(true)
	if done := operate(webhook.LaneOrder{Do: webhook.ResumeLanes, Accounts: []id.Account{failing[0].ID, owners.ID}, Limit: 100}); done != (webhook.LaneResult{Changed: 1, Orgs: 1}) {
		t.Errorf("resume one: %+v", done)
	}
	if done := operate(webhook.LaneOrder{Do: webhook.ResumeLanes, Limit: 100}); done.Changed != 2 {
		t.Errorf("resume the others: %+v", done)
	}
	if state, _ := r.state(owners); state != "paused" {
		t.Errorf("the lane that its owner paused is %s", state)
	}
	if done := operate(webhook.LaneOrder{Do: webhook.RetryLanes, State: lane.Backoff, Limit: 100}); done != (webhook.LaneResult{Changed: 1, Orgs: 1}) {
		t.Errorf("retry: %+v", done)
	}
	for _, a := range append(slices.Clone(failing), elsewhere) {
		until(t, "the lane is live again", func() bool { state, _ := r.state(a); return state == "live" })
	}

	entries, err := audit.New(r.DB, r.Seal, clock.Now).Choose(t.Context(), other, audit.Filter{}, 0, 100)
	must.OK(t, err)
	if e := entries[0]; e.By.Action != "webhook.retry" || e.By.Label != "ana" || !strings.Contains(string(e.Changes), string(elsewhere.ID)) ||
		strings.Contains(string(e.Changes), string(failing[0].ID)) {
		t.Errorf("%+v %s", e, e.Changes)
	}
	if slices.ContainsFunc(entries, func(e audit.Entry) bool { return e.By.Action == "webhook.pause" }) {
		t.Error("the other organisation has an audit entry for a change that did not affect it")
	}
}

// An owner may pause a lane that an operator has paused. It then stays paused when the operator resumes lanes.
func TestOwnerPausesLaneThatOperatorPaused(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := r.account()
	rec := newReceiver(t, func(w http.ResponseWriter, _ string, _ int, _ got) { w.WriteHeader(http.StatusInternalServerError) })
	n := r.node(bucketsOf(a)...)
	r.put(n, a, webhook.Change{URL: rec.URL + "/x"})
	r.fire(n, a, "message", 1)
	until(t, "the lane backs off", func() bool { state, _ := r.state(a); return state == "backoff" })
	operate := func(do webhook.LaneAction) int {
		done, err := n.OrderLanes(t.Context(), audit.By{Kind: audit.ActorOperator, ID: "admin", Action: "webhook." + string(do)},
			webhook.LaneOrder{Do: do, Limit: 10})
		must.OK(t, err)
		return done.Changed
	}
	if changed := operate(webhook.PauseLanes); changed != 1 {
		t.Fatalf("the operator paused %d lanes, want 1", changed)
	}
	_, err := n.Pause(t.Context(), by("webhook.pause"), a.Org, a.ID)
	must.OK(t, err)
	changed := operate(webhook.ResumeLanes)
	if state, reason := r.state(a); changed != 0 || state != "paused" || reason != "" {
		t.Errorf("the operator resumed %d lanes; the lane is %s %q", changed, state, reason)
	}
}
