package webhook_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Failing lists the webhooks and endpoints that do not work, since when they do not, and no others.
func TestFailingListsWhatDoesNotWork(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	began := clock.Now()
	rec, dead := newReceiver(t, nil), newReceiver(t, nil)
	dead.Close()
	bad, good, third := r.account(), r.account(), r.account()
	n, e := r.endpointNode(webhook.NewEndpoint{URL: dead.URL + "/endpoint"}, bad, good, third)
	r.put(n, bad, webhook.Change{URL: dead.URL + "/bad"})
	r.put(n, good, webhook.Change{URL: rec.URL + "/good"})
	list := func(before time.Time) (found []webhook.FailingHook) {
		must.OK(t, n.Failing(t.Context(), before, func(f webhook.FailingHook) error {
			found = append(found, f)
			return nil
		}))
		return found
	}
	for _, a := range []account.Account{bad, good, third} {
		stored := r.post(a, "message", 1)
		n.Committed(stored)
		r.publish(stored) // wakes the endpoint, which fails once three accounts do
	}
	var found []webhook.FailingHook
	until(t, "the webhook and the endpoint are failing", func() bool {
		found = list(clock.Now())
		return len(found) == 2
	})
	if w := found[0]; w.Org != r.org || w.Account != bad.ID || w.Endpoint != "" || w.URL != dead.URL+"/bad" || w.Since.Before(began) {
		t.Errorf("the webhook is %+v", w)
	}
	if w := found[1]; w.Org != r.org || w.Endpoint != e.ID || w.Account != "" || w.URL != dead.URL+"/endpoint" || w.Since.Before(began) {
		t.Errorf("the endpoint is %+v", w)
	}
	if early := list(began); len(early) != 0 {
		t.Errorf("failing before it began: %+v", early)
	}
}

// An endpoint of few accounts fails if nothing is accepted since one of them failed, and works again once anything is.
func TestAnEndpointOfFewAccountsFails(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.config.Lane.HoldFor = 100 * time.Millisecond
	bad, good := r.account(), r.account()
	var mended atomic.Bool
	rec := newReceiver(t, func(w http.ResponseWriter, _ string, _ int, g got) {
		if accountOf(g) == bad.ID && !mended.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	n, e := r.endpointNode(webhook.NewEndpoint{URL: rec.URL + "/e"}, bad, good)
	health := func() webhook.EndpointHealth {
		shown, err := n.Endpoint(t.Context(), r.reader(), e.ID)
		must.OK(t, err)
		return shown.Health
	}
	reported := func() (count int) {
		must.OK(t, n.Failing(t.Context(), clock.Now(), func(f webhook.FailingHook) error {
			if f.Org != r.org || f.Endpoint != e.ID || f.URL != rec.URL+"/e" || f.Since.IsZero() {
				t.Errorf("%+v", f)
			}
			count++
			return nil
		}))
		return count
	}
	r.post(bad, "message", 1)
	until(t, "the only account that has events makes the endpoint fail", func() bool { return health().State == webhook.Failing })
	if h := health(); h.FailingSince.IsZero() || h.Late != 1 || reported() != 1 {
		t.Errorf("%+v, reported %d times", h, reported())
	}
	r.post(good, "message", 1)
	until(t, "the endpoint works for another account", func() bool { return health().State == webhook.Healthy })
	if h := health(); !h.FailingSince.IsZero() || h.Late != 1 || reported() != 0 {
		t.Errorf("%+v, reported %d times", h, reported())
	}
	mended.Store(true)
	until(t, "no account is late", func() bool { return health().Late == 0 })
	if h := health(); h.State != webhook.Healthy {
		t.Errorf("%+v", h)
	}
}
