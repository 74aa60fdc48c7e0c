package admission_test

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/admission/internal/db"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

var flushAll = redis.NewScript("redis.call('FLUSHALL') return 'ok'")

func flush(t *testing.T, redisURL secret.String) {
	t.Helper()
	client, err := redis.Open(redis.Config{URL: redisURL, Name: "test"})
	must.OK(t, err)
	defer client.Close()
	if _, err := client.Run(t.Context(), flushAll, []string{"any"}, nil); err != nil {
		t.Fatal(err)
	}
}

// settleAll settles all nodes until Redis and the database agree, and returns both totals.
func (n *nodes) settleAll(t *testing.T, owner id.Org, epoch int64, limits *org.Limits) (shared, stored int64) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !n.shared(t, owner, epoch, limits, &shared) {
		if time.Now().After(deadline) {
			t.Fatal("the nodes did not reach Redis in time")
		}
		<-time.After(50 * time.Millisecond) // the breaker closes after a while
	}
	for {
		for _, l := range n.limiters {
			if err := l.Settle(t.Context()); err != nil && time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
		stored = n.stored(t, owner)
		if reached := n.shared(t, owner, epoch, limits, &shared); reached && shared == stored || time.Now().After(deadline) {
			return shared, stored
		}
		<-time.After(50 * time.Millisecond)
	}
}

// shared asks every node for the month's total and reports whether all of them reached Redis.
func (n *nodes) shared(t *testing.T, owner id.Org, epoch int64, limits *org.Limits, used *int64) bool {
	t.Helper()
	reached := true
	for _, l := range n.limiters {
		d, err := l.Admit(t.Context(), admission.Call{Org: owner, Quota: admission.Free, Epoch: epoch, Limits: limits})
		must.OK(t, err)
		reached = reached && !d.Degraded
		*used = d.MonthUsed
	}
	return reached
}

func (n *nodes) stored(t *testing.T, owner id.Org) (used int64) {
	t.Helper()
	row := n.db.Pool().QueryRow(t.Context(), "SELECT coalesce(sum(used), 0) FROM month_total WHERE org_id = $1", owner)
	must.OK(t, row.Scan(&used))
	return used
}

// Whatever happens to Redis, and whenever nodes settle, both totals end at the number of admitted calls: none is lost,
// and none is counted twice.
func TestTheMonthIsExactWhateverHappensToRedis(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	process, url := testenv.PrivateRedis(t)
	n := newNodes(t, url, time.Now, false)
	owner := n.newOrg(t)
	limits := org.Limits{CallsPerMinute: org.Unlimited, CallsPerMonth: org.Unlimited}
	var admitted int64
	happened := map[string]int{}
	for range 1500 {
		switch what := random.IntN(200); {
		case what == 0:
			happened["flushed"]++
			flush(t, url)
		case what == 1:
			happened["killed"]++
			process.Kill()
			process.Start()
		case what < 22:
			happened["settled"]++
			// A node that cannot reach Redis settles what it can. settleAll does the rest at the end.
			_ = n.limiters[random.IntN(3)].Settle(t.Context())
		default:
			d, err := n.limiters[random.IntN(3)].Admit(t.Context(), admission.Call{Org: owner, Quota: admission.Plain, Epoch: 1, Limits: &limits})
			if err != nil || d.Denied != nil || d.Stale {
				t.Fatalf("seed %d: %+v %v", seed, d, err)
			}
			admitted++
			if d.Degraded {
				happened["alone"]++
			}
		}
	}
	flush(t, url) // calls that are not settled yet must survive this too
	shared, stored := n.settleAll(t, owner, 1, &limits)
	if shared != admitted || stored != admitted {
		t.Fatalf("seed %d: %d admitted, Redis says %d, the database %d (%v)", seed, admitted, shared, stored, happened)
	}
	t.Logf("seed %d: %d admitted, %v", seed, admitted, happened)
}

// While Redis hangs, no call fails and none is lost: nodes decide alone. Calls that Redis counts late, after the node
// has given up waiting, are not counted twice.
func TestTheMonthIsExactAfterRedisHung(t *testing.T) {
	t.Parallel()
	process, url := testenv.PrivateRedis(t)
	n := newNodesWith(t, url, time.Now, false, 20*time.Millisecond)
	owner := n.newOrg(t)
	limits := org.Limits{CallsPerMinute: org.Unlimited, CallsPerMonth: org.Unlimited}
	call := admission.Call{Org: owner, Quota: admission.Plain, Epoch: 1, Limits: &limits}
	var admitted, alone int64
	burst := func() {
		for i := range 60 {
			d, err := n.limiters[i%3].Admit(t.Context(), call)
			if err != nil || d.Denied != nil {
				t.Fatalf("%+v %v", d, err)
			}
			admitted++
			if d.Degraded {
				alone++
			}
		}
	}
	burst()
	for range 3 {
		process.Signal(syscall.SIGSTOP)
		burst()
		process.Signal(syscall.SIGCONT)
		burst()
	}
	shared, stored := n.settleAll(t, owner, 1, &limits)
	if alone == 0 {
		t.Error("no call was decided alone; the test proves nothing")
	}
	if shared != admitted || stored != admitted {
		t.Fatalf("%d admitted (%d alone), Redis says %d, the database %d", admitted, alone, shared, stored)
	}
}

// Sentinels promote a replica that lacks the last calls and a revocation. No call is lost or counted twice, and the
// revoked identity stays stale.
func TestPromotedReplicaIsNotBelieved(t *testing.T) {
	t.Parallel()
	servers := testenv.SentinelRedis(t)
	n := newNodes(t, servers.URL, time.Now, false)
	owner := n.newOrg(t)
	limits := org.Limits{CallsPerMinute: org.Unlimited, CallsPerMonth: org.Unlimited}
	epoch, admitted := int64(1), int64(0)
	admit := func(node int) {
		t.Helper()
		d, err := n.limiters[node].Admit(t.Context(), admission.Call{Org: owner, Quota: admission.Plain, Epoch: epoch, Limits: &limits})
		must.OK(t, err)
		if d.Denied != nil || d.Stale {
			t.Fatalf("%+v", d)
		}
		admitted++
	}
	burst := func() {
		t.Helper()
		for i := range 30 {
			admit(i % 3)
		}
	}
	burst()
	servers.FailOver(func() {
		_, err := n.db.Pool().Exec(t.Context(), "UPDATE org SET auth_epoch = 2 WHERE id = $1", owner) // a key is revoked
		must.OK(t, err)
		must.OK(t, n.limiters[0].Announce(t.Context(), owner, 2))
		epoch = 2
		burst()
	})
	revoked := admission.Call{Org: owner, Quota: admission.Plain, Epoch: 1, Limits: &limits}
	for _, l := range n.limiters {
		testenv.Await(t, "an answer of the new primary", func() bool {
			d, err := l.Admit(t.Context(), revoked)
			must.OK(t, err)
			if d.Degraded {
				admitted++ // while a node decides alone, identities that were read long ago are stale; this one has no time
				return false
			}
			if !d.Stale {
				t.Errorf("the revoked identity is accepted: %+v", d)
			}
			return true
		})
	}
	burst()
	shared, stored := n.settleAll(t, owner, epoch, &limits)
	if shared != admitted || stored != admitted {
		t.Errorf("%d admitted, Redis says %d, the database %d", admitted, shared, stored)
	}
}

// While Redis is away, all nodes together admit at most a fifth more than the limit (rounded up per node), a cool-down
// still applies on the node that knows of it, and the month's limit holds.
func TestAloneIsNotUnlimited(t *testing.T) {
	t.Parallel()
	process, url := testenv.PrivateRedis(t)
	time0 := testenv.NewClock(time.Now().UTC())
	n := newNodesWith(t, url, time0.Now, true, 20*time.Millisecond)
	owner := n.newOrg(t)
	account := id.New[id.Account]()
	limits := org.Limits{CallsPerMinute: 90, CallsPerMonth: 10_000, AccountReadPerMinute: 30, AccountWritePerMinute: 6}
	process.Kill()
	admit := func(node int, q admission.Quota) *admission.Denial {
		d, err := n.limiters[node].Admit(t.Context(), admission.Call{Org: owner, Account: account, Quota: q, Epoch: 1, Limits: &limits})
		if err != nil || !d.Degraded {
			t.Fatalf("%+v %v", d, err)
		}
		return d.Denied
	}
	count := func(q admission.Quota) (admitted int, last *admission.Denial) {
		for i := range 600 {
			if denied := admit(i%3, q); denied == nil {
				admitted++
			} else {
				last = denied
			}
		}
		return admitted, last
	}
	if got, denied := count(admission.Write); got != 9 || denied.Reason != admission.AccountWrite { // three times ceil(6/3*1.2)
		t.Errorf("%d writes admitted, last refused with %+v", got, denied)
	}
	if got, denied := count(admission.Plain); got != 3*36-9 || denied.Reason != admission.OrgPerMinute { // three times ceil(90/3*1.2)
		t.Errorf("%d calls admitted, last refused with %+v", got, denied)
	}
	if got, denied := count(admission.Safety); got != 3*24 || denied.Reason != admission.SafetyReason { // three times ceil(60/3*1.2), whatever else is used up
		t.Errorf("%d safety calls admitted, last refused with %+v", got, denied)
	}
	time0.Advance(2 * time.Minute)
	if err := n.limiters[0].Cool(t.Context(), owner, account, time.Minute); err == nil {
		t.Error("Cool succeeded without Redis")
	}
	if denied := admit(0, admission.Read); denied == nil || !denied.CoolDown {
		t.Errorf("the cool-down does not apply: %+v", denied)
	}
	limits.CallsPerMonth = 30
	if denied := admit(1, admission.Plain); denied == nil || denied.Reason != admission.OrgPerMonth {
		t.Errorf("the month's limit does not hold: %+v", denied)
	}
}

// A connect attempt is counted in the transaction that creates it, and rolled back with it. The limit is exact under
// concurrency.
func TestTakeConnect(t *testing.T) {
	t.Parallel()
	time0 := testenv.NewClock(time.Now().UTC().Truncate(time.Microsecond))
	n := newNodes(t, testenv.Redis(t), time0.Now, true)
	owner := n.newOrg(t)
	const perHour = 4
	take := func(node int) error {
		return n.db.Tx(t.Context(), func(tx postgres.Tx) error {
			return n.limiters[node].TakeConnect(t.Context(), tx, owner, perHour)
		})
	}
	results := make(chan error, 12)
	for i := range 12 {
		go func() { results <- take(i % 3) }()
	}
	taken := 0
	for range 12 {
		if err := <-results; err == nil {
			taken++
		}
	}
	if taken != perHour {
		t.Fatalf("%d attempts of 12 passed, want %d", taken, perHour)
	}
	time0.Advance(15 * time.Minute)
	err := n.db.Tx(t.Context(), func(tx postgres.Tx) error {
		if err := n.limiters[0].TakeConnect(t.Context(), tx, owner, perHour); err != nil {
			t.Errorf("after a quarter of an hour: %v", err)
		}
		return errRollback
	})
	if err == nil {
		t.Fatal("the transaction was not rolled back")
	}
	if err := take(1); err != nil {
		t.Errorf("a rolled-back attempt was counted: %v", err)
	}
	if w, err := n.limiters[2].ConnectWindow(t.Context(), owner, perHour); err != nil || w.Remaining != 0 || w.Limit != perHour {
		t.Errorf("window %+v %v", w, err)
	}
}

// Calls that a killed node had not added to the database are not lost: the other nodes take them over from Redis, so
// that they survive even if Redis is lost afterwards.
func TestTheMonthSurvivesADeadNode(t *testing.T) {
	t.Parallel()
	_, url := testenv.PrivateRedis(t)
	n := newNodes(t, url, time.Now, false)
	owner := n.newOrg(t)
	limits := org.Limits{CallsPerMinute: org.Unlimited, CallsPerMonth: org.Unlimited}
	call := admission.Call{Org: owner, Quota: admission.Plain, Epoch: 1, Limits: &limits}
	admitted := int64(0)
	burst := func(calls int, on ...*admission.Limiter) {
		for i := range calls {
			if d, err := on[i%len(on)].Admit(t.Context(), call); err != nil || d.Degraded || d.Denied != nil {
				t.Fatalf("%+v %v", d, err)
			}
			admitted++
		}
	}
	settle := func() {
		for _, l := range n.limiters {
			must.OK(t, l.Settle(t.Context()))
		}
	}
	for range 3 {
		burst(30, n.limiters...)
		dead := n.limiters[2]
		n.limiters = n.limiters[:2] // the third node is killed and never settles again
		burst(7, n.limiters...)
		n.died.Store(time.Now().Add(-time.Second).UnixNano())
		// One node has pending calls while the other lifts; both orders happen over the rounds.
		burst(1, n.limiters[0])
		settle()
		burst(5, n.limiters...)
		settle()
		settle()
		if stored := n.stored(t, owner); stored != admitted {
			t.Fatalf("%d admitted, the database has %d", admitted, stored)
		}
		flush(t, url)
		if shared, stored := n.settleAll(t, owner, 1, &limits); shared != admitted || stored != admitted {
			t.Fatalf("%d admitted, Redis says %d, the database %d", admitted, shared, stored)
		}
		n.limiters = append(n.limiters, dead) // stands for a new process
		dead.Discard()
	}
}

// A node that cannot reach Redis, while the others can, admits its share alone. When it dies, its settled calls are in
// both the database and Redis.
func TestTheMonthSurvivesANodeThatDiedAlone(t *testing.T) {
	t.Parallel()
	_, url := testenv.PrivateRedis(t)
	n := newNodes(t, url, time.Now, false)
	owner := n.newOrg(t)
	limits := org.Limits{CallsPerMinute: org.Unlimited, CallsPerMonth: org.Unlimited}
	call := admission.Call{Org: owner, Quota: admission.Plain, Epoch: 1, Limits: &limits}
	cutOff := n.add(t, secret.New("redis://127.0.0.1:1"), time.Now, false, 20*time.Millisecond)
	var admitted, alone int64
	for i := range 80 {
		d, err := n.limiters[i%4].Admit(t.Context(), call)
		if err != nil || d.Denied != nil {
			t.Fatalf("%+v %v", d, err)
		}
		admitted++
		if d.Degraded {
			alone++
		}
	}
	_ = cutOff.Settle(t.Context()) // it reaches the database but not Redis
	n.limiters = n.limiters[:3]
	n.died.Store(time.Now().Add(-time.Second).UnixNano())
	if _, err := n.limiters[0].Admit(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	admitted++
	if shared, stored := n.settleAll(t, owner, 1, &limits); alone != 20 || shared != admitted || stored != admitted {
		t.Fatalf("%d admitted, %d of them alone; Redis says %d, the database %d", admitted, alone, shared, stored)
	}
	flush(t, url)
	if shared, stored := n.settleAll(t, owner, 1, &limits); shared != admitted || stored != admitted {
		t.Fatalf("after a flush: %d admitted, Redis says %d, the database %d", admitted, shared, stored)
	}
}

// A lift that reached Redis and was then rolled back leaves Redis ahead of the ledger. The next rebuild detects that
// and raises the ledger, and the one after it rebuilds.
func TestRebuildCatchesUpWithRedis(t *testing.T) {
	t.Parallel()
	_, url := testenv.PrivateRedis(t)
	n := newNodes(t, url, time.Now, false)
	owner := n.newOrg(t)
	limits := org.Limits{CallsPerMinute: org.Unlimited, CallsPerMonth: org.Unlimited}
	call := admission.Call{Org: owner, Quota: admission.Plain, Epoch: 1, Limits: &limits}
	admitted := int64(0)
	burst := func() {
		for i := range 9 {
			if d, err := n.limiters[i%3].Admit(t.Context(), call); err != nil || d.Degraded {
				t.Fatalf("%+v %v", d, err)
			}
			admitted++
		}
	}
	burst()
	n.limiters[0].LiftHalfway(t, owner)
	burst()
	n.limiters[1].Doubt(owner)
	if shared, stored := n.settleAll(t, owner, 1, &limits); shared != admitted || stored != admitted {
		t.Fatalf("%d admitted, Redis says %d, the database %d", admitted, shared, stored)
	}
	burst()
	if shared, stored := n.settleAll(t, owner, 1, &limits); shared != admitted || stored != admitted {
		t.Fatalf("%d admitted, Redis says %d, the database %d", admitted, shared, stored)
	}
}

// If a node in doubt dies before it has rebuilt the counters, another node rebuilds them.
func TestDoubtOutlivesItsNode(t *testing.T) {
	t.Parallel()
	_, url := testenv.PrivateRedis(t)
	n := newNodes(t, url, time.Now, false)
	owner := n.newOrg(t)
	limits := org.Limits{CallsPerMinute: org.Unlimited, CallsPerMonth: org.Unlimited}
	call := admission.Call{Org: owner, Quota: admission.Plain, Epoch: 1, Limits: &limits}
	admit := func(l *admission.Limiter) {
		if d, err := l.Admit(t.Context(), call); err != nil || d.Degraded {
			t.Fatalf("%+v %v", d, err)
		}
	}
	for _, l := range n.limiters {
		admit(l)
	}
	if shared, stored := n.settleAll(t, owner, 1, &limits); shared != 3 || stored != 3 {
		t.Fatalf("Redis says %d, the database %d", shared, stored)
	}
	// Redis counts a call whose answer is lost. The node records its doubt in the ledger and dies.
	admit(n.limiters[2])
	n.limiters[2].Discard()
	if _, err := n.db.Pool().Exec(t.Context(), "UPDATE ledger SET doubted = true WHERE org_id = $1", owner); err != nil {
		t.Fatal(err)
	}
	n.limiters = n.limiters[:2]
	admit(n.limiters[0])
	if shared, stored := n.settleAll(t, owner, 1, &limits); shared != 4 || stored != 4 {
		t.Fatalf("Redis says %d, the database %d", shared, stored)
	}
}

// A flush around midnight of the last day has calls of two months. Only the newer month can still be owed.
func TestBatchOfTwoMonthsOwesTheNewerOne(t *testing.T) {
	t.Parallel()
	_, url := testenv.PrivateRedis(t)
	n := newNodes(t, url, time.Now, false)
	for _, months := range [][]int32{{202611, 202612}, {202612, 202611}} {
		owner := n.newOrg(t)
		q := db.New(n.db.Pool())
		must.OK(t, q.OpenLedgers(t.Context(), []string{string(owner)}))
		batch := db.OweParams{
			Orgs: []string{string(owner), string(owner)}, Months: months, Calls: []int64{int64(months[0]), int64(months[1])},
		}
		must.OK(t, q.Owe(t.Context(), batch))
		ledger, err := q.LockLedger(t.Context(), owner)
		must.OK(t, err)
		if ledger.OwedMonth != 202612 || ledger.Owed != 202612 {
			t.Errorf("batch %v: %d calls of %d are owed", months, ledger.Owed, ledger.OwedMonth)
		}
	}
}
