package webhook_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
)

// storeMany stores one event of each account in one transaction.
func (r *fixture) storeMany(accounts []account.Account) {
	r.t.Helper()
	buckets := map[int]event.Progress{}
	b := event.Batch{}
	at := clock.Now().Truncate(time.Microsecond)
	for _, a := range accounts {
		source := string(a.ID)
		bucket := event.Bucket(source)
		if _, known := buckets[bucket]; !known {
			progress, err := r.events.Claim(r.t.Context(), bucket, 1)
			must.OK(r.t, err)
			buckets[bucket] = progress
			b.Buckets = append(b.Buckets, progress)
		}
		head := r.heads[source]
		head.Org, head.Source = a.Org, source
		head.LastSeq++
		head.LastAt = at
		r.heads[source] = head
		s := event.Stored{Org: a.Org, Source: source, Seq: head.LastSeq, At: at, ID: id.New[id.Event](), Kind: "message"}
		s.Body = event.AppendEnvelope(nil, &event.Envelope{ID: s.ID, Kind: s.Kind, Account: source, At: at, Seq: s.Seq, Data: json.RawMessage(`{"text":"hi"}`)})
		b.Events = append(b.Events, event.NewEvent{Stored: s})
		b.Heads = append(b.Heads, head)
	}
	_, err := r.events.Commit(r.t.Context(), &b)
	must.OK(r.t, err)
	last := event.Stored{Org: r.org, Source: string(r.org), Seq: 1, Tx: 1, Kind: "message", Body: []byte("{}")}
	must.OK(r.t, r.Bus.Publish(event.LiveSubject(r.org, last.Source), event.AppendLive(nil, &last))) // wakes the endpoint
}

// arrivals is what an endpoint has got: the last sequence of each account, and how long events took.
type arrivals struct {
	mu       sync.Mutex
	last     map[id.Account]int64
	took     []time.Duration
	accepted int
	faults   int
}

func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.accepted
}

// One endpoint for many accounts, while the deliveries of one in a hundred fail: the others get their events as fast as without
// failures, a failing account costs one row and a dead endpoint one row, every account is in order, and nothing is lost.
func TestOneEndpointForManyAccounts(t *testing.T) {
	t.Parallel()
	accounts, rounds := proof.Scale(200, 10_000), proof.Scale(5, 50)
	measure := func(failing int) time.Duration {
		r := newFixture(t)
		// As in production, a failing account is tried far less often than healthy ones have events.
		r.config.Lane.Delays = []time.Duration{time.Second, 5 * time.Second}
		list := make([]account.Account, accounts)
		bad := map[id.Account]bool{}
		for i := range list {
			list[i] = account.Account{Org: r.org, ID: id.New[id.Account]()}
			if i < failing {
				bad[list[i].ID] = true
			}
		}
		var broken, dead atomic.Bool
		broken.Store(true)
		seen := &arrivals{last: map[id.Account]int64{}}
		rec := newReceiver(t, func(w http.ResponseWriter, _ string, _ int, g got) {
			of := accountOf(g)
			if dead.Load() || broken.Load() && bad[of] {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			var e struct{ TS time.Time }
			_ = json.Unmarshal(g.body, &e)
			seen.mu.Lock()
			defer seen.mu.Unlock()
			switch last := seen.last[of]; {
			case g.seq == last+1:
				seen.last[of] = g.seq
				seen.accepted++
				if !bad[of] {
					seen.took = append(seen.took, time.Since(e.TS))
				}
			case g.seq > last+1:
				seen.faults++
			}
		})
		rec.forgets = true
		_, _ = r.endpointNode(webhook.NewEndpoint{URL: rec.URL + "/e"})
		healthy := accounts - failing
		for round := range rounds {
			for part := range slices.Chunk(list, 500) {
				r.storeMany(part)
			}
			until(t, "the healthy accounts got their events", func() bool { return seen.count() >= healthy*(round+1) })
		}
		if failing > 0 {
			until(t, "each failing account has one row", func() bool { return r.rows("SELECT count(*) FROM webhook_endpoint_lane") == failing })
			if rows := r.rows(endpointRows); rows != failing {
				t.Errorf("%d rows, want one for each of %d failing accounts", rows, failing)
			}
		}
		broken.Store(false)
		until(t, "every account got everything", func() bool { return seen.count() == accounts*rounds })
		until(t, "no row is left", func() bool { return r.rows(endpointRows) == 0 })
		dead.Store(true)
		for part := range slices.Chunk(list, 500) {
			r.storeMany(part)
		}
		until(t, "the endpoint is down", func() bool {
			return r.rows("SELECT count(*) FROM webhook_endpoint_progress WHERE state = 'backoff'") == 1
		})
		if rows := r.rows(endpointRows); rows != 0 {
			t.Errorf("%d rows of accounts while the endpoint is down", rows)
		}
		dead.Store(false)
		until(t, "every account got everything after the outage", func() bool { return seen.count() == accounts*(rounds+1) })
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if seen.faults > 0 {
			t.Errorf("%d events arrived before an earlier one of their account", seen.faults)
		}
		took := slices.Sorted(slices.Values(seen.took[:healthy*rounds]))
		p99 := took[len(took)*99/100]
		t.Logf("%d accounts, %d failing, %d events: p50 %v, p99 %v, 0 lost, 0 out of order", accounts, failing, accounts*(rounds+1), took[len(took)/2], p99)
		return p99
	}
	without, with := measure(0), measure(accounts/100)
	t.Logf("p99 of the healthy with failures is %.2f of that without", float64(with)/float64(without))
	if proof.Running() && float64(with) > 1.2*float64(without) {
		t.Errorf("p99 is %v with failures and %v without", with, without)
	}
}
