package usagehook_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/base/billing"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/usagehook"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
	"github.com/stagedoor/stagedoor/internal/test/metric"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

const key = "0123456789abcdef0123456789abcdef"

// receiver is a billing system. It answers with the statuses of answers, one for each request, and then with 204.
type receiver struct {
	mu      sync.Mutex
	answers []int
	// got are the events that it has confirmed, and bad is what is wrong with requests.
	got []billing.CloudEvent
	bad []string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		r.bad = append(r.bad, err.Error())
	}
	// The check of the time is for receivers; the test moves the sender's clock.
	verifier := stagedoor.Verifier{Secrets: []string{key}, Tolerance: 100 * 365 * 24 * time.Hour}
	if err := verifier.Check(req.Header, body); err != nil {
		r.bad = append(r.bad, err.Error())
	}
	var e billing.CloudEvent
	if err := json.Unmarshal(body, &e); err != nil || req.Header.Get("Content-Type") != "application/cloudevents+json" || req.Header.Get("Webhook-Id") != e.ID {
		r.bad = append(r.bad, fmt.Sprintf("%v %v %s", err, req.Header, body))
	}
	status := http.StatusNoContent
	if len(r.answers) > 0 {
		status, r.answers = r.answers[0], r.answers[1:]
	}
	w.WriteHeader(status)
	if status/100 == 2 {
		r.got = append(r.got, e)
	}
}

// take returns what was confirmed since the last call, as organisation, day and calls.
func (r *receiver) take(t *testing.T) []string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, bad := range r.bad {
		t.Error(bad)
	}
	out := make([]string, len(r.got))
	for i, e := range r.got {
		out[i] = fmt.Sprintf("%s %d", e.ID, e.Data.Calls)
		if e.ID != e.Data.OrgID+"/"+e.Data.Day || e.Subject != e.Data.OrgID || e.Data.Plan == "" || e.Data.Environment == "" {
			t.Errorf("an event does not fit together: %+v", e)
		}
	}
	r.got = nil
	return out
}

// Every day of every organisation arrives once it is over, in order, also if the receiver fails in between and another
// process goes on. Days without usage and today are not sent.
func TestUsageIsSentByDay(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	orgs := []id.Org{testenv.AddOrg(t, db), testenv.AddOrg(t, db), testenv.AddOrg(t, db)}
	slices.Sort(orgs)
	now := time.Date(2026, 3, 20, 0, 14, 0, 0, time.UTC)
	db = db.WithClock(func() time.Time { return now })
	at := now
	counts := usage.New(usage.Deps{DB: db, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return at }})
	count := func(org id.Org, when time.Time, calls int) {
		t.Helper()
		at = when
		for range calls {
			counts.Count(usage.Call{Org: org, Account: "acct_1", Operation: "messages.list", Access: usage.Read, Outcome: usage.OK, Status: 200, Took: time.Millisecond})
		}
		must.OK(t, counts.Flush(t.Context()))
	}
	day := func(d int) time.Time { return time.Date(2026, 3, d, 0, 0, 0, 0, time.UTC) }
	count(orgs[0], time.Date(2026, 2, 12, 23, 59, 0, 0, time.UTC), 1) // too old
	count(orgs[0], time.Date(2026, 2, 13, 0, 0, 0, 0, time.UTC), 2)   // 35 days ago
	for i, org := range orgs {
		count(org, day(18).Add(time.Hour), 3+i)
	}
	count(orgs[1], day(19).Add(23*time.Hour+59*time.Minute), 7)
	count(orgs[1], day(20), 8) // today

	billing := &receiver{}
	server := httptest.NewServer(billing)
	defer server.Close()
	sender := func() (*usagehook.Sender, *prometheus.Registry) {
		registry := prometheus.NewRegistry()
		return usagehook.New(usagehook.Deps{
			DB: db, Orgs: org.New(org.Deps{DB: db}), Usage: counts, URL: server.URL, Secret: secret.New(key), Client: egress.NewDirect(true),
			Registry: registry, Log: slog.New(slog.DiscardHandler),
		}), registry
	}
	id := func(org int, day string, calls int) string { return fmt.Sprintf("%s/%s %d", orgs[org], day, calls) }
	expect := func(when string, want ...string) {
		t.Helper()
		if got := billing.take(t); !slices.Equal(got, want) {
			t.Errorf("%s: got %q; want %q", when, got, want)
		}
	}

	// The receiver fails at the second organisation of the 18th.
	billing.answers = []int{204, 200, 503}
	first, _ := sender()
	if err := first.Round(t.Context()); err == nil {
		t.Error("a round whose receiver failed succeeded")
	}
	expect("first", id(0, "2026-02-13", 2), id(0, "2026-03-18", 3))
	second, registry := sender()
	must.OK(t, second.Round(t.Context()))
	expect("the other process", id(1, "2026-03-18", 4), id(2, "2026-03-18", 5)) // the 19th is not settled
	must.OK(t, second.Round(t.Context()))
	expect("again")
	if lag := metric.Value(t, registry, "stagedoor_usage_webhook_lag_seconds"); lag != 14*60 {
		t.Errorf("the lag is %v s; want that of the 19th, 840 s", lag)
	}
	now = now.Add(time.Minute)
	must.OK(t, first.Round(t.Context()))
	expect("after the day has settled", id(1, "2026-03-19", 7))
	now = day(21).Add(time.Hour)
	must.OK(t, second.Round(t.Context()))
	expect("the next day", id(1, "2026-03-20", 8))
	if lag := metric.Value(t, registry, "stagedoor_usage_webhook_lag_seconds"); lag != 0 {
		t.Errorf("the lag is %v s after everything was sent", lag)
	}

	// While another process sends, a round does nothing.
	release, ok, err := db.TryLock(t.Context(), 7_264_053)
	if must.OK(t, err); !ok {
		t.Fatal("the lock is taken")
	}
	now = day(23)
	count(orgs[2], day(21), 1)
	must.OK(t, first.Round(t.Context()))
	expect("while another process sends")
	release()
	must.OK(t, first.Round(t.Context()))
	expect("afterwards", id(2, "2026-03-21", 1))
}
