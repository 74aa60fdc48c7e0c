package test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// overloadFixture is one node with two orgs, each with an account in the same region.
type overloadFixture struct {
	node           *testnode.Node
	greedy, modest testnode.Org
	// greedyAccount and modestAccount are the ids of their accounts.
	greedyAccount, modestAccount string
}

func newOverloadFixture(t *testing.T) *overloadFixture {
	t.Helper()
	proxy := testenv.NewProxy(t, "127.0.1.1")
	platform := sandboxtest.New(t, func(cfg *sandbox.Config) { cfg.Regions = map[string]string{"127.0.1.1": "us"} })
	f := &overloadFixture{node: testnode.Processes(t, 1, testnode.Setup{
		Sandbox: platform.URL, Egress: secret.New("us=" + proxy.URL()),
	})[0]}
	limits := map[string]int{
		"callsPerMinute": -1, "callsPerMonth": -1, "connectAttemptsPerHour": -1, "maxAccounts": -1,
		"accountReadPerMinute": -1, "accountWritePerMinute": -1,
	}
	f.greedy, f.modest = f.node.NewOrg(t, limits), f.node.NewOrg(t, limits)
	f.greedyAccount = f.node.ConnectLogin(t, f.greedy.Key, "ok+greedy@sandbox.test", "us")
	f.modestAccount = f.node.ConnectLogin(t, f.modest.Key, "ok+modest@sandbox.test", "us")
	return f
}

// answers counts responses by status and keeps the times of the successful ones.
type answers struct {
	mu     sync.Mutex
	status map[int]int
	took   []time.Duration
	total  atomic.Int64
}

func newAnswers() *answers { return &answers{status: map[int]int{}} }

func (a *answers) add(status int, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status[status]++
	if status == http.StatusOK {
		a.took = append(a.took, took)
	}
	a.total.Add(1)
}

// count returns how many responses had a status.
func (a *answers) count(status int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status[status]
}

// quantile returns the time within which this share of the successful responses came.
func (a *answers) quantile(share float64) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(a.took))
	return sorted[int(float64(len(sorted)-1)*share)]
}

func (a *answers) summary(lasting time.Duration) string {
	p50, p99 := a.quantile(0.5), a.quantile(0.99)
	a.mu.Lock()
	defer a.mu.Unlock()
	return fmt.Sprintf("%.0f/s in all, 200: %.0f/s, p50 %s, p99 %s, by status %v", float64(a.total.Load())/lasting.Seconds(),
		float64(len(a.took))/lasting.Seconds(), p50.Round(time.Millisecond), p99.Round(time.Millisecond), a.status)
}

// call calls a method once with a client.
func (f *overloadFixture) call(ctx context.Context, client *http.Transport, key, account, method, args string) (int, time.Duration, error) {
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.node.URL+"/v1/accounts/"+account+"/"+method, bytes.NewReader([]byte(args)))
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	res, err := client.RoundTrip(req)
	if err != nil {
		return 0, 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, time.Since(began), err
}

// flood opens connections of the greedy org on its account. Each calls again as soon as it has its response, whatever
// that is. different is the number of different arguments; identical reads share a result.
func (f *overloadFixture) flood(ctx context.Context, connections, different int, into *answers) (wait func()) {
	client := &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, DisableCompression: true}
	var work sync.WaitGroup
	for range connections {
		work.Go(func() {
			for ctx.Err() == nil {
				args := fmt.Sprintf(`{"limit":%d}`, 1+rand.IntN(different))
				if status, took, err := f.call(ctx, client, f.greedy.Key, f.greedyAccount, "fans/list", args); err == nil {
					into.add(status, took)
				} else if ctx.Err() == nil {
					into.add(0, 0)
				}
			}
		})
	}
	return func() { work.Wait(); client.CloseIdleConnections() }
}

// trickle makes calls of the modest org, one after the other, with a pause between them.
func (f *overloadFixture) trickle(ctx context.Context, into *answers) (wait func()) {
	client := &http.Transport{DisableCompression: true}
	var work sync.WaitGroup
	work.Go(func() {
		defer client.CloseIdleConnections()
		for ctx.Err() == nil {
			status, took, err := f.call(context.WithoutCancel(ctx), client, f.modest.Key, f.modestAccount, "me/get", `{}`)
			if err != nil {
				status = 0
			}
			into.add(status, took)
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return work.Wait
}

// metric reads a metric of the node; -1 if there is none.
func (f *overloadFixture) metric(t *testing.T, name string) float64 {
	t.Helper()
	for line := range strings.SplitSeq(string(f.node.Operate(t, http.MethodGet, "/metrics", nil).Body), "\n") {
		if series, value, ok := strings.Cut(line, " "); ok && series == name {
			n, err := strconv.ParseFloat(value, 64)
			must.OK(t, err)
			return n
		}
	}
	return -1
}

// trickleFor makes a number of calls of the modest org.
func (f *overloadFixture) trickleFor(t *testing.T, calls int64) *answers {
	t.Helper()
	got := newAnswers()
	ctx, stop := context.WithCancel(t.Context())
	wait := f.trickle(ctx, got)
	await(t, "calls of the modest org", 2*time.Minute, func() bool { return got.total.Load() >= calls })
	stop()
	wait()
	return got
}

// One org opens thousands of connections and calls one account as fast as it can. The calls of another org, through the
// same region, all succeed.
func TestOneOrgCannotStarveAnother(t *testing.T) {
	// Not parallel: its load would slow down other tests.
	for name, different := range map[string]int{"identical reads": 1, "different reads": 50} {
		t.Run(name, func(t *testing.T) {
			f := newOverloadFixture(t)
			before := f.trickleFor(t, 20)
			greedy, modest := newAnswers(), newAnswers()
			ctx, stop := context.WithCancel(t.Context())
			began := time.Now()
			waitGreedy, waitModest := f.flood(ctx, proof.Scale(300, 2000), different, greedy), f.trickle(ctx, modest)
			if proof.Running() {
				<-time.After(time.Duration(setting("STAGEDOOR_TEST_SECONDS", 20)) * time.Second)
			} else {
				await(t, "responses during the flood", 5*time.Minute, func() bool { return greedy.total.Load() >= 2000 && modest.total.Load() >= 20 })
			}
			lasted := time.Since(began)
			stop()
			waitGreedy()
			waitModest()
			ended := time.Now()
			if proof.Running() {
				await(t, "the limit is back", time.Minute, func() bool {
					return f.metric(t, `stagedoor_http_concurrency_limit{face="public"}`) == 2000
				})
			}
			back := time.Since(ended)
			after := f.trickleFor(t, 20)
			t.Logf("greedy: %s", greedy.summary(lasted))
			t.Logf("modest: %s", modest.summary(lasted))
			t.Logf("modest before and after: p99 %s, %s; the limit was back after %s; shed %.0f", before.quantile(0.99), after.quantile(0.99),
				back.Round(time.Millisecond), f.metric(t, `stagedoor_http_shed_total{face="public"}`))

			for when, a := range map[string]*answers{"before": before, "during": modest, "after": after} {
				if good := a.count(http.StatusOK); int64(good) != a.total.Load() {
					t.Errorf("%s the flood, %d of %d calls of the other org succeeded: %v", when, good, a.total.Load(), a.status)
				}
			}
			if n := f.metric(t, `stagedoor_egress_proxies_healthy{region="us"}`); n != 1 {
				t.Errorf("%g proxies are healthy", n)
			}
			if proof.Running() && (modest.quantile(0.99) > time.Second || greedy.quantile(0.99) > 3*time.Second || back > 5*time.Second) {
				t.Error("too late")
			}
		})
	}
}
