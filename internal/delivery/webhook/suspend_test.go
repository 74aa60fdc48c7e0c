package webhook_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

type noJobs struct{}

func (noJobs) InsertTx(context.Context, postgres.Tx, river.JobArgs, *river.InsertOpts) (*rivertype.JobInsertResult, error) {
	return &rivertype.JobInsertResult{}, nil
}

type unheard struct{}

func (unheard) Announce(context.Context, id.Org, int64) error { return nil }

// When a suspension is answered, no node begins a delivery for the org: not of new events, not of ones that wait to be tried again, nor
// what was asked for again. Its endpoints do not fail by that. Lifted, everything is delivered, in order; other orgs notice nothing.
func TestSuspendedOrgGetsNoDeliveryFromAnyNode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.suspendable = true
	rec := newReceiver(t, func(w http.ResponseWriter, path string, n int, _ got) {
		if path == "/fails" && n < 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	a, b, failing := r.account(), r.account(), r.account()
	mine := r.org
	r.org = r.Org()
	other := r.account()
	nodes := map[id.Account]*node{a.ID: r.node(all(a)...)}
	for _, one := range []account.Account{b, failing, other} {
		nodes[one.ID] = nodes[a.ID]
		if bucket := all(one); !slices.Equal(bucket, all(a)) {
			nodes[one.ID] = r.node(bucket...)
		}
	}
	for path, one := range map[string]account.Account{"/a": a, "/b": b, "/fails": failing, "/other": other} {
		r.put(nodes[one.ID], one, webhook.Change{URL: rec.URL + path})
	}
	orgs := org.New(org.Deps{DB: r.DB, Audit: r.Audit, Jobs: noJobs{}, Announce: unheard{}, Suspensions: nodes[a.ID].suspensions, Now: clock.Now})
	suspend := func(is bool) {
		t.Helper()
		_, err := orgs.Update(t.Context(), mine, by("org.update"), org.Change{Suspended: &is})
		must(t, err)
	}
	r.fire(nodes[failing.ID], failing, "message", 1)
	rec.wait(t, "/fails", 1)
	r.fire(nodes[a.ID], a, "message", 3)
	r.fire(nodes[b.ID], b, "message", 3)
	rec.wait(t, "/a", 3)
	rec.wait(t, "/b", 3)

	suspend(true)
	before := map[string]int{}
	for _, path := range []string{"/a", "/b", "/fails"} {
		before[path] = len(rec.on(path))
	}
	_, err := nodes[a.ID].Redeliver(t.Context(), by("webhook.redeliver"), a.Org, a.ID, lastDeliveryOf(t, r, nodes[a.ID], a), 30)
	must(t, err)
	for i := range 20 {
		r.fire(nodes[a.ID], a, "message", 1)
		r.fire(nodes[b.ID], b, "message", 1)
		r.fire(nodes[failing.ID], failing, "message", 1)
		for _, n := range nodes { // whatever would be sent is sent before what follows
			n.Tell(t.Context(), other.Org, other.ID)
		}
		r.fire(nodes[other.ID], other, "message", 1)
		rec.wait(t, "/other", i+1)
	}
	for path, n := range before {
		if got := len(rec.on(path)); got != n {
			t.Errorf("%s: %d deliveries after the suspension was answered", path, got-n)
		}
	}
	until(t, "the events wait", func() bool {
		return r.rows("SELECT count(*) FROM webhook_lane WHERE org_id = $1 AND state IN ('lagging', 'draining') AND fail_count = 0 AND fail_since IS NULL", string(mine)) == 3
	})

	suspend(false)
	for path, want := range map[string]int64{"/a": 23, "/b": 23, "/fails": 21} {
		until(t, fmt.Sprint(path, " has got all"), func() bool {
			return slices.Equal(slices.Compact(onlyLive(rec.on(path))), upTo(want))
		})
	}
}

// onlyLive are the numbers of events that came in their order.
func onlyLive(list []got) []int64 {
	return seqs(slices.DeleteFunc(list, func(g got) bool { return g.header.Get("X-Webhook-Replay") != "" }))
}

func lastDeliveryOf(t *testing.T, r *rig, n *node, a account.Account) id.Delivery {
	t.Helper()
	n.Settle(t.Context())
	var one string
	until(t, "a delivery is in the log", func() bool {
		return r.DB.Pool().QueryRow(t.Context(), "SELECT id FROM webhook_delivery WHERE account_id = $1 LIMIT 1", string(a.ID)).Scan(&one) == nil
	})
	return id.Delivery(one)
}
