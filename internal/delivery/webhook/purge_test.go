package webhook_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// A deleted account leaves no webhook, no URL and no response of its receiver, not even of a delivery that was in
// flight. Only the log entries of its deliveries remain. Nothing more is sent, even by a node that missed the message.
func TestPurgedWebhookLeavesNoResponsesAndNoRow(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, other := r.account(), r.account()
	arrived, release := make(chan struct{}), make(chan struct{})
	rec := newReceiver(t, func(w http.ResponseWriter, path string, n int, _ got) {
		if path == "/hangs" && n == 3 {
			close(arrived)
			<-release
		}
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte("secret answer"))
	})
	n := r.node(bucketsOf(a, other)...)
	r.put(n, a, webhook.Change{URL: rec.URL + "/hangs"})
	r.put(n, other, webhook.Change{URL: rec.URL + "/other"})
	r.fire(n, a, "message", 2)
	r.fire(n, other, "message", 1)
	<-arrived
	rec.wait(t, "/other", 1)
	responses := func(of string) int {
		return r.rows("SELECT count(*) FROM webhook_delivery WHERE account_id = $1 AND snippet <> ''", of)
	}
	until(t, "responses are in the log", func() bool { return responses(string(a.ID)) == 3 && responses(string(other.ID)) > 0 })

	must.OK(t, r.DB.Tx(t.Context(), func(tx postgres.Tx) error { return n.Leave(t.Context(), tx, a.Org, a.ID) }))
	for done := false; !done; {
		var err error
		done, err = n.Purge(t.Context(), a.Org, a.ID, 1)
		must.OK(t, err)
	}
	close(release)
	until(t, "the last delivery is in the log", func() bool {
		return r.rows("SELECT count(*) FROM webhook_delivery WHERE account_id = $1", string(a.ID)) == 4
	})
	if left := responses(string(a.ID)); left != 0 {
		t.Errorf("%d responses are left", left)
	}
	if rows := r.rows("SELECT (SELECT count(*) FROM webhook WHERE account_id = $1) + (SELECT count(*) FROM webhook_lane WHERE account_id = $1) + (SELECT count(*) FROM webhook_errand WHERE account_id = $1)", string(a.ID)); rows != 0 {
		t.Errorf("%d rows are left", rows)
	}
	r.fire(n, a, contract.KindAccountDisconnected, 1)
	rec.wait(t, "/other", len(rec.requests("/other"))+1)
	for _, g := range rec.requests("/hangs") {
		if strings.Contains(string(g.body), contract.KindAccountDisconnected) {
			t.Errorf("%s was sent to a deleted webhook", g.body)
		}
	}
	if responses(string(other.ID)) == 0 {
		t.Error("responses of another account were purged")
	}
}
