package webhook_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

type noAnnouncements struct{}

func (noAnnouncements) Announce(context.Context, id.Org, int64) error { return nil }

// Once a suspension is confirmed, no node starts a delivery for the organisation: neither new events, nor retries, nor
// redeliveries. No endpoint counts as failing because of it. After the suspension every event is delivered in order.
// Other organisations are not affected.
func TestSuspendedOrgGetsNoDeliveryFromAnyNode(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
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
	nodes := map[id.Account]*node{a.ID: r.node(bucketsOf(a)...)}
	for _, one := range []account.Account{b, failing, other} {
		nodes[one.ID] = nodes[a.ID]
		if bucket := bucketsOf(one); !slices.Equal(bucket, bucketsOf(a)) {
			nodes[one.ID] = r.node(bucket...)
		}
	}
	for path, one := range map[string]account.Account{"/a": a, "/b": b, "/fails": failing, "/other": other} {
		r.put(nodes[one.ID], one, webhook.Change{URL: rec.URL + path})
	}
	orgs := org.New(org.Deps{DB: r.DB, Audit: r.Audit, Jobs: testenv.NoJobs{}, Announce: noAnnouncements{}, Suspensions: nodes[a.ID].suspensions, Now: clock.Now})
	suspend := func(is bool) {
		t.Helper()
		_, err := orgs.Update(t.Context(), mine, by("org.update"), org.Change{Suspended: &is})
		must.OK(t, err)
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
		before[path] = len(rec.requests(path))
	}
	_, err := nodes[a.ID].Redeliver(t.Context(), by("webhook.redeliver"), a.Org, a.ID, lastDeliveryOf(t, r, nodes[a.ID], a), 30)
	must.OK(t, err)
	for i := range 20 {
		r.fire(nodes[a.ID], a, "message", 1)
		r.fire(nodes[b.ID], b, "message", 1)
		r.fire(nodes[failing.ID], failing, "message", 1)
		for _, n := range nodes { // a forbidden delivery would be sent before the next one to /other
			n.PublishChange(t.Context(), other.Org, other.ID)
		}
		r.fire(nodes[other.ID], other, "message", 1)
		rec.wait(t, "/other", i+1)
	}
	for path, n := range before {
		if got := len(rec.requests(path)); got != n {
			t.Errorf("%s: %d deliveries after the suspension was confirmed", path, got-n)
		}
	}
	until(t, "the events wait", func() bool {
		return r.rows("SELECT count(*) FROM webhook_lane WHERE org_id = $1 AND state IN ('lagging', 'draining') AND fail_count = 0 AND fail_since IS NULL", string(mine)) == 3
	})

	suspend(false)
	for path, want := range map[string]int64{"/a": 23, "/b": 23, "/fails": 21} {
		until(t, fmt.Sprint(path, " got all events"), func() bool {
			return slices.Equal(slices.Compact(onlyLive(rec.requests(path))), seqsUpTo(want))
		})
	}
}

// onlyLive returns the sequences of deliveries that were not requested by the owner.
func onlyLive(list []got) []int64 {
	return seqs(slices.DeleteFunc(list, func(g got) bool { return g.header.Get("X-Webhook-Replay") != "" }))
}

func lastDeliveryOf(t *testing.T, r *fixture, n *node, a account.Account) id.Delivery {
	t.Helper()
	n.FlushLog(t.Context())
	var one string
	until(t, "a delivery is in the log", func() bool {
		return r.DB.Pool().QueryRow(t.Context(), "SELECT id FROM webhook_delivery WHERE account_id = $1 LIMIT 1", string(a.ID)).Scan(&one) == nil
	})
	return id.Delivery(one)
}
