package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// A database that hangs costs a caller a few seconds and an honest response, never an endless wait. Keys in memory keep
// working.
func TestADatabaseThatHangsIsNotWaitedForForever(t *testing.T) {
	t.Parallel()
	database, err := url.Parse(testenv.DatabaseURL(t).Reveal())
	must.OK(t, err)
	link := testenv.NewSlowLink(t, database.Host)
	database.Host = link.Address
	node := testnode.Nodes(t, 1, testnode.Setup{Database: secret.New(database.String())})[0]
	known := node.NewOrg(t, unlimited)
	cold := node.Mint(t, known.Key)
	if r := node.Call(t, http.MethodGet, "/v1/me", known.Key, nil); r.Status != http.StatusOK {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	link.SetDelay(12 * time.Second)
	defer link.SetDelay(0)
	for key, want := range map[string]int{known.Key: http.StatusOK, cold.Key: http.StatusServiceUnavailable} {
		start := time.Now()
		r := node.Call(t, http.MethodGet, "/v1/me", key, nil)
		if took := time.Since(start); r.Status != want || proof.Running() && took > 6*time.Second {
			t.Errorf("%d %s after %s", r.Status, r.Body, took)
		}
	}
}

// The first callers of a new node all query the database at the same time, more than its few connections can serve
// concurrently. They wait for their turn; none is refused.
func TestFirstBurstOnAFreshNodeIsServed(t *testing.T) {
	t.Parallel()
	clients := proof.Scale(16, 64) // In CI, twice as many as are looked up concurrently.
	database, err := url.Parse(testenv.DatabaseURL(t).Reveal())
	must.OK(t, err)
	setup := testnode.Setup{Database: secret.New(database.String())}
	old := testnode.Nodes(t, 1, setup)[0]
	var keys []string
	for range clients {
		keys = append(keys, old.NewOrg(t, unlimited).Key)
	}
	link := testenv.NewSlowLink(t, database.Host)
	database.Host = link.Address
	setup.Database = secret.New(database.String())
	fresh := testnode.Nodes(t, 1, setup)[0]
	// In a proof, the look-ups in sequence take longer than the timeout for a hanging database.
	link.SetDelay(proof.Scale(0, 70*time.Millisecond))
	var wait sync.WaitGroup
	for _, key := range keys {
		wait.Go(func() {
			if r := fresh.Call(t, http.MethodGet, "/v1/me", key, nil); r.Status != http.StatusOK {
				t.Errorf("%d %s", r.Status, r.Body)
			}
		})
	}
	wait.Wait()
	link.SetDelay(0)
}

// An anonymous caller cannot stop the counting of others by sending unknown keys.
func TestUnknownKeysDoNotDisturbUsage(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, testnode.Setup{})[0]
	owner := node.NewOrg(t, unlimited)
	narrow := node.Mint(t, owner.Key, "me:read")
	node.Call(t, http.MethodGet, "/v1/me", "sd_live_0000000000000000000000000000000000000000000"+"000000", nil)
	other := testnode.Nodes(t, 1, testnode.Setup{})[0].NewOrg(t, nil) // Well-formed, but unknown to this node's database.
	if r := node.Call(t, http.MethodGet, "/v1/me", other.Key, nil); r.Code() != "key-invalid" {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	node.Call(t, http.MethodPatch, "/v1/me", narrow.Key, map[string]any{"name": "x"})
	testenv.Await(t, "the breakdown counts the failed call", func() bool {
		usage := node.Call(t, http.MethodGet, "/v1/me/usage", owner.Key, nil)
		return strings.Contains(string(usage.Body), `"failed":1`)
	})
}

// Every metered response has the rate limit headers, including refusals from memory, for every combination of limits.
func TestRateLimitHeaders(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, testnode.Setup{})[0]
	for _, c := range []struct {
		limits  map[string]int
		policy  string
		refused bool
	}{
		{map[string]int{"callsPerMinute": 2, "callsPerMonth": 50}, `"org_rpm";q=2;w=60, "org_monthly";q=50`, true},
		{map[string]int{"callsPerMinute": -1, "callsPerMonth": 2}, `"org_monthly";q=2`, true},
		{map[string]int{"callsPerMinute": 9, "callsPerMonth": -1}, `"org_rpm";q=9;w=60`, false},
		{map[string]int{"callsPerMinute": -1, "callsPerMonth": -1}, "", false},
	} {
		owner := node.NewOrg(t, c.limits)
		for i := range 5 {
			r := node.Call(t, http.MethodGet, "/v1/me", owner.Key, nil)
			if got := r.Header.Get("RateLimit-Policy"); got != c.policy {
				t.Errorf("%v, call %d (%d): policy %q", c.limits, i, r.Status, got)
			}
			if (r.Header.Get("RateLimit") == "") != (c.policy == "") {
				t.Errorf("%v, call %d: RateLimit %q", c.limits, i, r.Header.Get("RateLimit"))
			}
			if refused := r.Status == http.StatusTooManyRequests; refused != (c.refused && i >= 2) {
				t.Errorf("%v, call %d: %d %s", c.limits, i, r.Status, r.Body)
			}
		}
	}
}
