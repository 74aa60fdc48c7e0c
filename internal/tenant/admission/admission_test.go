package admission_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// nodes are limiters that share the engines and nothing else, like the nodes of a fleet.
type nodes struct {
	db       *postgres.DB
	redis    secret.String
	limiters []*admission.Limiter
	orgs     *org.Orgs
	died     atomic.Int64
	// patience is Config.Patience of new nodes.
	patience time.Duration
}

var errRollback = errors.New("roll back")

// fakeFleet is a fleet of three live nodes. died is when another one died, in Unix nanoseconds; 0 for never.
type fakeFleet struct{ died *atomic.Int64 }

func (fakeFleet) LiveAPI() int { return 3 }

func (f fakeFleet) LastDeath() time.Time {
	if at := f.died.Load(); at > 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

type noAnnounce struct{}

func (noAnnounce) Announce(context.Context, id.Org, int64) error { return nil }

func newNodes(t testing.TB, redisURL secret.String, now func() time.Time, ownClock bool) *nodes {
	t.Helper()
	// A generous timeout, so that a busy machine does not make a node decide alone in tests of something else.
	return newNodesWith(t, redisURL, now, ownClock, 5*time.Second)
}

func newNodesWith(t testing.TB, redisURL secret.String, now func() time.Time, ownClock bool, timeout time.Duration) *nodes {
	t.Helper()
	return newPatientNodes(t, redisURL, now, ownClock, timeout, 0)
}

func newPatientNodes(t testing.TB, redisURL secret.String, now func() time.Time, ownClock bool, timeout, patience time.Duration) *nodes {
	t.Helper()
	n := &nodes{db: testenv.Postgres(t), redis: redisURL, patience: patience}
	n.orgs = org.New(org.Deps{DB: n.db, Audit: audit.New(n.db, sealtest.NewMemory(), now), Jobs: nil, Announce: noAnnounce{}, Now: now})
	for range 3 {
		n.add(t, redisURL, now, ownClock, timeout)
	}
	return n
}

func (n *nodes) add(t testing.TB, redisURL secret.String, now func() time.Time, ownClock bool, timeout time.Duration) *admission.Limiter {
	t.Helper()
	client, err := redis.Open(redis.Config{URL: redisURL, Name: "test"})
	must.OK(t, err)
	t.Cleanup(client.Close)
	bus, err := pubsub.Open(pubsub.Config{URL: testenv.NATS(t), Name: "test"})
	must.OK(t, err)
	t.Cleanup(bus.Close)
	l := admission.New(admission.Deps{
		Config: admission.Config{Timeout: timeout, Patience: n.patience, Process: fmt.Sprint("p", len(n.limiters)), OwnClock: ownClock},
		Redis:  client, DB: n.db, Bus: bus, Fleet: fakeFleet{&n.died}, Log: slog.New(slog.DiscardHandler), Now: now,
	})
	l.SetEpochs(n.orgs)
	n.limiters = append(n.limiters, l)
	return l
}

func (n *nodes) newOrg(t testing.TB) id.Org {
	t.Helper()
	var made org.Org
	err := n.db.Tx(t.Context(), func(tx postgres.Tx) (err error) {
		made, err = n.orgs.Create(t.Context(), tx, audit.By{Kind: audit.ActorSystem, Action: "org.create"}, org.Draft{
			Name: "Test", Plan: "scale", Environment: environment.Sandbox, ContactEmail: "ops@example.com",
		})
		return err
	})
	must.OK(t, err)
	return made.ID
}

// model is a straightforward implementation of the limits: one set of buckets, no nodes, no script.
type model struct {
	limits  org.Limits
	level   map[string]float64
	at      map[string]time.Time
	used    int
	coolAll map[id.Account]time.Time
}

func (m *model) drained(key string, now time.Time, per int) float64 {
	gone := now.Sub(m.at[key]).Seconds() / 60 * float64(per)
	return max(m.level[key]-gone, 0)
}

// fits reports whether a call must be admitted (yes) or must be denied (no). Neither is true if the call is too close
// to a limit for floating point to decide.
func (m *model) fits(now time.Time, q admission.Quota, a id.Account) (yes, no bool) {
	const edge = 1e-6
	yes = true
	check := func(room float64) {
		yes = yes && room >= edge
		no = no || room <= -edge
	}
	check(float64(m.limits.CallsPerMinute) - m.drained("org", now, m.limits.CallsPerMinute) - 1 + edge)
	if m.used+1 > m.limits.CallsPerMonth {
		yes, no = false, true
	}
	if per := m.per(q); per > 0 {
		check(float64(per) - m.drained(m.key(q, a), now, per) - 1 + edge)
		if now.Before(m.coolAll[a]) {
			yes, no = false, true
		}
	}
	return yes, no
}

func (m *model) per(q admission.Quota) int {
	switch q {
	case admission.Read:
		return m.limits.AccountReadPerMinute
	case admission.Write:
		return m.limits.AccountWritePerMinute
	case admission.Free, admission.Plain, admission.Safety, admission.Jobs:
	}
	return 0
}

func (m *model) key(q admission.Quota, a id.Account) string { return fmt.Sprint(q, a) }

func (m *model) take(now time.Time, q admission.Quota, a id.Account) {
	m.level["org"] = m.drained("org", now, m.limits.CallsPerMinute) + 1
	m.at["org"] = now
	m.used++
	if per := m.per(q); per > 0 {
		k := m.key(q, a)
		m.level[k] = m.drained(k, now, per) + 1
		m.at[k] = now
	}
}

// For random calls on three nodes, every decision is the one that the model makes: no call is admitted beyond a limit,
// a denied call consumes nothing, and a caller that waits as long as it is asked to is admitted.
func TestAdmitDecidesAsOnePlaceWould(t *testing.T) {
	t.Parallel()
	const calls = 12_000
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	// The middle of a month, so that the test does not run into the next one. In the future, because the clock of
	// Redis, by which the other scripts write, must not be ahead.
	time0 := testenv.NewClock(nextMonth(time.Now()).AddDate(0, 0, 10))
	n := newNodes(t, testenv.Redis(t), time0.Now, true)
	var (
		admitted, refused, waits int
		reasons                  = map[admission.Reason]int{}
	)
	for done := 0; done < calls; {
		m := &model{level: map[string]float64{}, at: map[string]time.Time{}, coolAll: map[id.Account]time.Time{}, limits: org.Limits{
			CallsPerMinute: 1 + random.IntN(40), CallsPerMonth: 20 + random.IntN(400),
			AccountReadPerMinute: 1 + random.IntN(20), AccountWritePerMinute: 1 + random.IntN(10),
		}}
		owner := n.newOrg(t)
		accounts := []id.Account{id.New[id.Account](), id.New[id.Account](), id.New[id.Account]()}
		for range 300 {
			done++
			if random.IntN(4) == 0 {
				time0.Advance(time.Duration(random.IntN(8000)) * time.Millisecond)
			}
			q := []admission.Quota{admission.Plain, admission.Read, admission.Write}[random.IntN(3)]
			account := accounts[random.IntN(len(accounts))]
			c := admission.Call{Org: owner, Account: account, Quota: q, Epoch: 1, Limits: &m.limits}
			l := n.limiters[random.IntN(3)]
			if random.IntN(60) == 0 {
				pause := time.Duration(1+random.IntN(20)) * time.Second
				must.OK(t, l.Cool(t.Context(), owner, account, pause))
				for _, other := range n.limiters {
					other.ForgetAccount(account) // as the message between nodes does
				}
				m.coolAll[account] = later(m.coolAll[account], time0.Now().Add(pause))
			}
			yes, no := m.fits(time0.Now(), q, account)
			d, err := l.Admit(t.Context(), c)
			if err != nil || d.Stale || d.Degraded {
				t.Fatalf("seed %d: %+v, %v", seed, d, err)
			}
			if d.Denied == nil {
				admitted++
				if no {
					t.Fatalf("seed %d: over-admission of %v after %d calls: %+v", seed, q, done, m)
				}
				m.take(time0.Now(), q, account)
				continue
			}
			refused++
			reasons[d.Denied.Reason]++
			if yes {
				t.Fatalf("seed %d: refused with %+v although it fits: %+v", seed, d.Denied, m)
			}
			if d.Denied.Reason == admission.OrgPerMonth {
				if want := nextMonth(time0.Now()).Sub(time0.Now()); (d.Denied.Wait - want).Abs() > time.Second {
					t.Fatalf("seed %d: the wait for the next month is %s, want %s", seed, d.Denied.Wait, want)
				}
				break // continue with a new org instead of waiting for the next month
			}
			if random.IntN(3) == 0 {
				waits++
				p := d.Denied.Problem()
				time0.Advance(time.Duration(p.RetryAfter) * time.Second)
				if d, err = n.limiters[random.IntN(3)].Admit(t.Context(), c); err != nil || d.Denied != nil && d.Denied.Reason != admission.OrgPerMonth {
					t.Fatalf("seed %d: denied after the wait of %d s: %+v %v", seed, p.RetryAfter, d.Denied, err)
				}
				if d.Denied == nil {
					m.take(time0.Now(), q, account)
				}
			}
		}
	}
	t.Logf("seed %d: %d admitted, %d refused (%v), %d waited and admitted", seed, admitted, refused, reasons, waits)
	for _, r := range []admission.Reason{admission.OrgPerMinute, admission.OrgPerMonth, admission.AccountRead, admission.AccountWrite, ""} {
		if reasons[r] == 0 {
			t.Errorf("seed %d: the reason %q never came up", seed, r)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func nextMonth(t time.Time) time.Time { return admission.MonthStart(t).AddDate(0, 1, 0) }

// Concurrent calls on three nodes share one limit exactly.
func TestAdmitIsExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	time0 := testenv.NewClock(time.Now().UTC().Add(time.Hour)) // stands still, so nothing drains
	n := newNodes(t, testenv.Redis(t), time0.Now, true)
	owner := n.newOrg(t)
	limits := org.Limits{CallsPerMinute: 500, CallsPerMonth: 10_000}
	var (
		wait     sync.WaitGroup
		mu       sync.Mutex
		admitted int
	)
	for i := range 24 {
		wait.Go(func() {
			for range 60 {
				d, err := n.limiters[i%3].Admit(t.Context(), admission.Call{Org: owner, Quota: admission.Plain, Epoch: 1, Limits: &limits})
				if err != nil || d.Degraded {
					t.Errorf("%+v %v", d, err)
				}
				if d.Denied == nil {
					mu.Lock()
					admitted++
					mu.Unlock()
				}
			}
		})
	}
	wait.Wait()
	if admitted != limits.CallsPerMinute {
		t.Fatalf("%d of 1440 calls admitted, want exactly %d", admitted, limits.CallsPerMinute)
	}
}

// A call with an older epoch than an announced one is stale and not counted. A call with a newer epoch updates the
// counters.
func TestAdmitDetectsOldEpochs(t *testing.T) {
	t.Parallel()
	n := newNodes(t, testenv.Redis(t), time.Now, false)
	owner := n.newOrg(t)
	limits := org.Limits{CallsPerMinute: 100, CallsPerMonth: 1000}
	call := admission.Call{Org: owner, Quota: admission.Plain, Epoch: 1, Limits: &limits}
	admit := func(node int, epoch int64) admission.Decision {
		t.Helper()
		call.Epoch = epoch
		d, err := n.limiters[node].Admit(t.Context(), call)
		must.OK(t, err)
		return d
	}
	if d := admit(0, 1); d.Stale || d.MonthUsed != 1 {
		t.Fatalf("first call: %+v", d)
	}
	must.OK(t, n.limiters[1].Announce(t.Context(), owner, 2))
	if d := admit(2, 1); !d.Stale {
		t.Fatalf("an old epoch passed: %+v", d)
	}
	if d := admit(2, 2); d.Stale || d.MonthUsed != 2 {
		t.Fatalf("the new epoch did not pass, or the stale call was charged: %+v", d)
	}
	if d := admit(0, 3); d.Stale { // read from the database before the announcement arrived
		t.Fatalf("a newer epoch did not pass: %+v", d)
	}
	if d := admit(1, 2); !d.Stale {
		t.Fatalf("the counters did not learn the newer epoch: %+v", d)
	}
	// An identity read after the call began is never stale, however often the org changes.
	call.Started, call.ReadAt = time.Now(), time.Now()
	if d := admit(1, 2); d.Stale {
		t.Fatalf("a fresh identity is stale: %+v", d)
	}
}

// An epoch announced while Redis has no counters survives a rebuild from an older epoch.
func TestAnnouncedEpochSurvivesRebuild(t *testing.T) {
	t.Parallel()
	n := newNodes(t, testenv.Redis(t), time.Now, false)
	owner := n.newOrg(t)
	limits := org.Limits{CallsPerMinute: 100, CallsPerMonth: 1000}
	must.OK(t, n.limiters[0].Announce(t.Context(), owner, 7))
	// The epoch in the database is still 1 and must not win.
	d, err := n.limiters[1].Admit(t.Context(), admission.Call{Org: owner, Quota: admission.Plain, Epoch: 1, Limits: &limits})
	if err != nil || !d.Stale {
		t.Fatalf("the older epoch returned: %+v %v", d, err)
	}
}

// Windows report what is left, a Free call uses nothing, and at Reset the whole limit is available.
func TestWindowsReportWhatIsLeft(t *testing.T) {
	t.Parallel()
	time0 := testenv.NewClock(time.Now().UTC().Add(time.Hour).Truncate(time.Second))
	n := newNodes(t, testenv.Redis(t), time0.Now, true)
	owner := n.newOrg(t)
	limits := org.Limits{CallsPerMinute: 10, CallsPerMonth: 100}
	ask := func(q admission.Quota) admission.Decision {
		t.Helper()
		d, err := n.limiters[0].Admit(t.Context(), admission.Call{Org: owner, Quota: q, Epoch: 1, Limits: &limits})
		if err != nil || d.Denied != nil {
			t.Fatalf("%+v %v", d, err)
		}
		return d
	}
	for range 5 {
		ask(admission.Plain)
	}
	d := ask(admission.Free)
	if d.Org.Remaining != 5 || d.Month.Remaining != 95 || d.MonthUsed != 5 {
		t.Fatalf("after 5 of 10: %+v", d)
	}
	time0.Advance(time.Duration(d.Org.Reset-time0.Now().Unix()) * time.Second)
	if d = ask(admission.Free); d.Org.Remaining != 10 {
		t.Fatalf("at reset %d of 10 remain", d.Org.Remaining)
	}
	limits.CallsPerMinute, limits.CallsPerMonth = org.Unlimited, org.Unlimited
	for range 50 {
		ask(admission.Plain)
	}
	// Calls made without a limit, or under a higher one, do not count against the org under a new limit.
	limits.CallsPerMinute = 10
	for range 10 {
		ask(admission.Plain)
	}
	limits.CallsPerMinute = 2
	time0.Advance(30 * time.Second)
	ask(admission.Plain)
}

// A caller must never see more calls left than the limit, so a share is at most the whole limit.
func TestShareIsAtMostTheLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ limit, nodes, want int }{
		{50, 1, 50}, {6, 1, 6}, {50, 2, 30}, {50, 3, 20}, {1, 3, 1}, {0, 1, 0}, {0, 3, 0}, {-1, 3, -1}, {600, 0, 600}, {7, 10, 1},
	} {
		if got := admission.Share(c.limit, c.nodes); got != c.want {
			t.Errorf("the share of %d over %d nodes is %d, want %d", c.limit, c.nodes, got, c.want)
		}
	}
}

// An org that has used up its minute and its month can still make Safety calls: 60 a minute over all nodes, which use
// no other limit.
func TestSafetyCallsPassWhenQuotasAreUsedUp(t *testing.T) {
	t.Parallel()
	time0 := testenv.NewClock(time.Now().UTC().Add(time.Hour)) // stands still, so nothing drains
	n := newNodes(t, testenv.Redis(t), time0.Now, true)
	owner := n.newOrg(t)
	limits := org.Limits{CallsPerMinute: 2, CallsPerMonth: 2, AccountReadPerMinute: 1, AccountWritePerMinute: 1}
	admit := func(node int, q admission.Quota) admission.Decision {
		t.Helper()
		d, err := n.limiters[node].Admit(t.Context(), admission.Call{Org: owner, Account: id.New[id.Account](), Quota: q, Epoch: 1, Limits: &limits})
		if err != nil || d.Stale || d.Degraded {
			t.Fatalf("%+v %v", d, err)
		}
		return d
	}
	admit(0, admission.Safety)
	for range 2 {
		if d := admit(0, admission.Plain); d.Denied != nil {
			t.Fatalf("a safety call used up the org's quota: %+v", d.Denied)
		}
	}
	if d := admit(1, admission.Plain); d.Denied == nil || d.Denied.Reason != admission.OrgPerMonth {
		t.Fatalf("the quotas are not used up: %+v", d)
	}
	for i := 1; i < admission.SafetyPerMinute; i++ {
		if d := admit(i%3, admission.Safety); d.Denied != nil || d.Safety.Remaining != admission.SafetyPerMinute-i-1 {
			t.Fatalf("safety call %d: %+v, denied %+v", i+1, d.Safety, d.Denied)
		}
	}
	d := admit(2, admission.Safety)
	if d.Denied == nil || d.Denied.Reason != admission.SafetyReason || d.Denied.Limit != 60 || d.Denied.Current != 60 || d.Denied.Wait != time.Second {
		t.Fatalf("the 61st safety call of a minute: %+v", d.Denied)
	}
	time0.Advance(d.Denied.Wait)
	if d := admit(1, admission.Safety); d.Denied != nil || d.MonthUsed != 2 {
		t.Fatalf("after the wait: %+v, denied %+v", d, d.Denied)
	}
}
