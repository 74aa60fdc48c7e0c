package test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// fault is something that happens to Redis, and its end.
type fault struct {
	name         string
	begin, cease func(redis *testenv.Process, link *testenv.SlowLink)
	// lasting faults make nodes decide alone.
	lasting bool
}

// How long each part takes in a proof, and how many calls each part has in CI.
const (
	calm     = 3 * time.Second
	trouble  = 6 * time.Second
	settling = 1500 * time.Millisecond // until the breaker of every node has opened

	calmCalls, troubledCalls = 60, 300
)

// Redis may hang, die, slow down or lose everything under load: no call fails, and afterwards the month has exactly the
// calls that were answered. A proof also compares latencies: once the nodes have noticed, calls are hardly slower.
func TestRedisTroubleFailsNoCall(t *testing.T) {
	// Not parallel: it loads the machine, and others would be measured with it.
	nothing := func(*testenv.Process, *testenv.SlowLink) {}
	for _, f := range []fault{
		{"hang", func(p *testenv.Process, _ *testenv.SlowLink) { p.Signal(syscall.SIGSTOP) },
			func(p *testenv.Process, _ *testenv.SlowLink) { p.Signal(syscall.SIGCONT) }, true},
		{"kill", func(p *testenv.Process, _ *testenv.SlowLink) { p.Kill() },
			func(p *testenv.Process, _ *testenv.SlowLink) { p.Start() }, true},
		{"latency of 50 ms", func(_ *testenv.Process, l *testenv.SlowLink) { l.SetDelay(50 * time.Millisecond) },
			func(_ *testenv.Process, l *testenv.SlowLink) { l.SetDelay(0) }, true},
		{"flush", nothing, nothing, false},
	} {
		t.Run(f.name, func(t *testing.T) { redisTrouble(t, f) })
	}
}

func redisTrouble(t *testing.T, f fault) {
	t.Helper()
	redis, url := testenv.PrivateRedis(t)
	link := testenv.NewSlowLink(t, strings.TrimSuffix(strings.TrimPrefix(url.Reveal(), "redis://"), "/0"))
	database := testenv.DatabaseURL(t)
	nodes := testnode.Processes(t, 3, testnode.Setup{
		Database: database, Redis: secret.New("redis://" + link.Address + "/0"), RedisTimeout: 25 * time.Millisecond,
	})
	owner := nodes[0].NewOrg(t, unlimited)
	l := startLoad(t, nodes, owner.Key, 6, 20*time.Millisecond)
	l.passed(t, 60) // caches are warm
	last := func(d time.Duration, calls int64) {
		if proof.Running() {
			<-time.After(d)
		} else {
			l.passed(t, calls)
		}
	}

	began := time.Now()
	last(calm, calmCalls)
	hurt := time.Now()
	f.begin(redis, link)
	stop := func() int { return 0 }
	if !f.lasting {
		stop = flushing(t, url)
	}
	last(trouble, troubledCalls)
	stop()
	f.cease(redis, link)
	healed := time.Now()
	last(calm, calmCalls)
	ended, outcomes := time.Now(), l.end()

	answered := int64(0)
	for _, o := range outcomes {
		if o.err != nil || o.status != http.StatusOK {
			t.Fatalf("a call was answered with %d %s, %v", o.status, o.code, o.err)
		}
		answered++
	}
	var total float64
	await(t, "the month to have every call that was answered", 2*time.Minute, func() bool {
		usage := nodes[1].Call(t, http.MethodGet, "/v1/me/usage", owner.Key, nil).JSON()
		total, _ = usage["usage"].(map[string]any)["calls"].(map[string]any)["total"].(float64)
		return int64(total) == answered && stored(t, database, owner.ID) == answered
	})
	t.Logf("%d calls, all answered with 200; the month says %d", answered, int64(total))
	if !proof.Running() {
		return
	}
	calmly, during := max(quietest(outcomes, began, hurt), quietest(outcomes, healed, ended)), quietest(outcomes, hurt.Add(settling), healed)
	t.Logf("p99 of the quietest second: %s without trouble, %s once noticed", calmly, during)
	if during > calmly+15*time.Millisecond { // every call that waits for Redis waits for 25
		t.Errorf("p99 rose from %s to %s", calmly, during)
	}
}

// stored is the month's total in the database.
func stored(t *testing.T, database secret.String, owner string) (used int64) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), "SELECT coalesce(sum(used), 0) FROM month_total WHERE org_id = $1", owner).Scan(&used); err != nil {
		t.Fatal(err)
	}
	return used
}
