package test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

type fault struct {
	name         string
	begin, cease func(redis *testenv.Process, link *testenv.SlowLink)
	// lasting means that nodes decide without Redis during the fault.
	lasting bool
}

// The duration of each phase in a proof, and the number of calls in CI.
const (
	calm     = 3 * time.Second
	trouble  = 6 * time.Second
	settling = 1500 * time.Millisecond // until the breaker of every node has opened

	calmCalls, troubledCalls = 60, 300
)

// Redis may hang, die, slow down or lose everything under load. No call fails, and afterwards the month's total is
// exactly the number of calls. A proof also compares latencies: once the nodes have noticed, calls are hardly slower.
func TestRedisTroubleFailsNoCall(t *testing.T) {
	// Not parallel: its load would slow down other tests.
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
	l.awaitCalls(t, 60) // warm the caches
	last := func(d time.Duration, calls int64) {
		if proof.Running() {
			<-time.After(d)
		} else {
			l.awaitCalls(t, calls)
		}
	}

	began := time.Now()
	last(calm, calmCalls)
	hurt := time.Now()
	f.begin(redis, link)
	stop := func() int { return 0 }
	if !f.lasting {
		stop = flushRepeatedly(t, url)
	}
	last(trouble, troubledCalls)
	stop()
	f.cease(redis, link)
	healed := time.Now()
	last(calm, calmCalls)
	ended, outcomes := time.Now(), l.stopLoad()

	answered := int64(0)
	for _, o := range outcomes {
		if o.err != nil || o.status != http.StatusOK {
			t.Fatalf("a call failed: %d %s, %v", o.status, o.code, o.err)
		}
		answered++
	}
	var total float64
	await(t, "the month's total is the number of calls", 2*time.Minute, func() bool {
		usage := nodes[1].Call(t, http.MethodGet, "/v1/me/usage", owner.Key, nil).JSON()
		total, _ = usage["usage"].(map[string]any)["calls"].(map[string]any)["total"].(float64)
		return int64(total) == answered && storedCalls(t, database, owner.ID) == answered
	})
	t.Logf("%d calls, all with status 200; the month's total is %d", answered, int64(total))
	if !proof.Running() {
		return
	}
	calmly, during := max(lowestP99(outcomes, began, hurt), lowestP99(outcomes, healed, ended)), lowestP99(outcomes, hurt.Add(settling), healed)
	t.Logf("p99 of the quietest second: %s without the fault, %s once it was noticed", calmly, during)
	if during > calmly+15*time.Millisecond { // a call that waits for Redis waits for 25 ms
		t.Errorf("p99 rose from %s to %s", calmly, during)
	}
}

// storedCalls returns the month's total in the database.
func storedCalls(t *testing.T, database secret.String, owner string) (used int64) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database.Reveal())
	must.OK(t, err)
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), "SELECT coalesce(sum(used), 0) FROM month_total WHERE org_id = $1", owner).Scan(&used); err != nil {
		t.Fatal(err)
	}
	return used
}
