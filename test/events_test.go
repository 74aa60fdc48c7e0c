package test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// faultCase is a fault and what it may cause.
type faultCase struct {
	name string
	// inject causes the fault until the context ends, and returns how often.
	inject func(ctx context.Context, s *eventsFixture) int
	// lasting is the duration in CI; cases without one only run in make chaos.
	lasting time.Duration
	// reordered means that the platform itself breaks its order.
	reordered bool
	// calm means that nothing may be delivered twice.
	calm bool
	// need returns why the case cannot run on this machine. prepare runs before the load starts, and returns what undoes
	// it. Both may be nil.
	need    func() error
	prepare func(s *eventsFixture) (restore func())
	// undoes means that the database goes back to an earlier state, and that the fixture cannot be used afterwards.
	undoes bool
	// touches lists the processes that the fault stops or starts. Only faults that touch different ones form a pair.
	touches []string
}

var faultCases = []faultCase{
	{name: "calm", inject: noFault, lasting: 2 * time.Second, calm: true},
	{name: "sockets", inject: cutSockets, lasting: 3 * time.Second, reordered: true},
	{name: "redis", inject: stopRedis, lasting: 3 * time.Second, touches: []string{"redis"}},
	{name: "restart", inject: restartNodes, lasting: 2 * time.Second, touches: []string{"nodes"}},
	{name: "leader", inject: killLeaders, lasting: 2 * time.Second, touches: []string{"nats"}},
	{name: "log", inject: loseLog, lasting: 3 * time.Second, touches: []string{"nats"}},
	{name: "postgres", inject: restartPostgres, lasting: 2 * time.Second, touches: []string{"postgres"}},
	{name: "kill", inject: killNodes, lasting: 2 * time.Second, touches: []string{"nodes"}},
	{name: "pause", inject: pauseNodes, touches: []string{"nodes"}},
	{name: "both", inject: loseBoth, touches: []string{"postgres", "nats"}},
	{name: "skew", inject: skewClocks, prepare: buildSkewed, touches: []string{"nodes"}},
	{name: "silent", inject: silenceLinks, need: testenv.CanDropPackets, prepare: linkNodes},
	{name: "loss", inject: losePackets, need: testenv.CanDropPackets, prepare: linkNodes},
	{name: "slow", inject: slowLinks, lasting: 4 * time.Second, prepare: linkNodes},
	{name: "quorum", inject: loseQuorum, lasting: time.Second, touches: []string{"nats"}},
	{name: "disk", inject: fillDisks, need: testenv.CanMount, touches: []string{"postgres", "nats"}},
	{name: "power", inject: cutPower, need: testenv.CanMount, touches: []string{"postgres", "nats"}},
	{name: "starve", inject: starveNodes, need: testenv.CanLimit, prepare: groupNodes, touches: []string{"nodes"}},
	{name: "fd", inject: takeDescriptors, lasting: 2 * time.Second, touches: []string{"nodes"}},
	{name: "upgrade", inject: mixVersions, prepare: buildPrevious, touches: []string{"nodes"}},
	{name: "overload", inject: overloadAccount, lasting: 2 * time.Second},
}

// failoverCase comes last, because the fixture has another database afterwards.
var failoverCase = faultCase{name: "failover", inject: failOver, prepare: addReplica, undoes: true}

// Under every fault, each durable frame of the platform is in its account's log once, in order and without holes. It
// reaches the account's receiver and streams, signed and with the same bytes, and no one else. CI injects each fault
// once; make chaos runs each case for longer.
func TestEventsSurviveTrouble(t *testing.T) {
	// Not parallel: its load would slow down other tests.
	sc := readScale()
	s := newEventsFixture(t, sc)
	var table []string
	cases := faultCases
	if sc.long {
		cases = append(slices.Concat(cases, randomPairs(t)), failoverCase)
	}
	for _, c := range cases {
		if sc.long || c.lasting > 0 {
			t.Run(c.name, func(t *testing.T) { table = append(table, s.runCase(t, c)) })
			saveReport(t, table)
		}
	}
	t.Log("\n" + tableOf(table))
}

func tableOf(rows []string) string { return tableHead + strings.Join(rows, "\n") + "\n" }

// saveReport writes the table to the file STAGEDOOR_CHAOS_REPORT if that is set.
func saveReport(t *testing.T, rows []string) {
	t.Helper()
	if path := os.Getenv("STAGEDOOR_CHAOS_REPORT"); path != "" {
		must.OK(t, os.WriteFile(path, []byte(tableOf(rows)), 0o600))
	}
}

// runCase runs a case, checks the result, and returns its row of the table.
func (s *eventsFixture) runCase(t *testing.T, c faultCase) string {
	t.Helper()
	before := s.t
	defer func() { s.t = before }()
	s.t, s.undoes = t, c.undoes
	if c.need != nil {
		if err := c.need(); err != nil {
			t.Skipf("this machine cannot run the case: %v", err)
		}
	}
	if c.prepare != nil {
		defer c.prepare(s)()
	}
	s.startCase()
	lasting := c.lasting
	if s.scale.long {
		lasting = s.scale.lasting
	}
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	began := time.Now()
	load := s.generate(ctx, s.scale.events)
	calls := s.startCalls(ctx)
	times := c.inject(ctx, s)
	healed := time.Now()
	load.Wait()
	calls.Wait()
	ended := time.Now()
	v, caughtUp := s.awaitFindings(ended)
	if faults := v.faults(c.reordered); len(faults) > 0 {
		t.Errorf("%s\n%s", strings.Join(faults, ", "), strings.Join(v.examples, "\n"))
		s.logWaiting(v)
	}
	if c.calm && v.redelivered > 0 {
		t.Errorf("%d events were delivered twice without a fault", v.redelivered)
	}
	if n := s.farm.trapped.Load(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
	s.checkEgress()
	f := figures{
		name: c.name, times: times, v: v, took: ended.Sub(began), healed: healed.Sub(began), caughtUp: caughtUp,
		standstill: v.standstill(), recovered: v.recovery(healed),
	}
	f.calls, f.failed = s.checkCalls()
	t.Log(f.text(s))
	return f.row()
}

// logWaiting logs the webhooks that did not get everything, as the API shows them.
func (s *eventsFixture) logWaiting(v *findings) {
	for _, c := range s.creators {
		if n := v.waiting[c.account]; n > 0 {
			hook := s.call(c.org, http.MethodGet, "/v1/accounts/"+c.account+"/webhook", nil)
			s.t.Logf("%s (%s) waits for %d events: %v", c.account, c.inbox.manner, n, hook)
		}
	}
}

// startCase starts a case: only later events count.
func (s *eventsFixture) startCase() {
	from := map[string]int64{}
	for _, c := range s.creators {
		list, err := s.pull(c, c.from)
		must.OK(s.t, err)
		if len(list) > 0 {
			c.from = list[len(list)-1].Meta.Seq
		}
		from[c.account] = c.from
		s.markFrame(c)
		c.inbox.reset(c.from)
		c.reader.reset(from)
	}
	for _, o := range s.orgs {
		o.reader.reset(from)
	}
}

// awaitFindings waits until everything has arrived, or until the deadline, and checks. caughtUp is how long that took.
func (s *eventsFixture) awaitFindings(ended time.Time) (v *findings, caughtUp time.Duration) {
	deadline := ended.Add(s.scale.catchUp)
	for _, c := range s.creators {
		c.ledger = s.readLedger(c)
	}
	for !s.arrived() && time.Now().Before(deadline) {
		<-time.After(50 * time.Millisecond)
	}
	caughtUp = time.Since(ended)
	for {
		v = s.checkAll()
		if !v.isPending() || time.Now().After(deadline) {
			return v, caughtUp
		}
		<-time.After(500 * time.Millisecond)
		caughtUp = time.Since(ended)
	}
}

// arrived reports whether as many events have arrived everywhere as there are frames.
func (s *eventsFixture) arrived() bool {
	for _, c := range s.creators {
		want := len(c.ledger)
		if c.reader.distinct(c.account) < want || c.org.reader.distinct(c.account) < want || c.inbox.manner.acceptsAll() && c.inbox.distinct() < want {
			return false
		}
	}
	return true
}

// checkAll checks the evidence of all accounts.
func (s *eventsFixture) checkAll() *findings {
	var (
		mu   sync.Mutex
		v    findings
		work sync.WaitGroup
		next atomic.Int64
	)
	ofOrgs := map[*tenant]map[string]watcher{}
	for _, o := range s.orgs {
		ofOrgs[o] = byAccount(o.reader.snapshot(), o.accounts)
	}
	for range 8 {
		work.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(s.creators); n = int(next.Add(1)) - 1 {
				c := s.creators[n]
				e, err := s.evidence(c, ofOrgs[c.org][c.account])
				if err != nil {
					s.t.Error(err)
					return
				}
				mu.Lock()
				v.check(e)
				mu.Unlock()
			}
		})
	}
	work.Wait()
	return &v
}

// evidence collects what is known about an account. It reads the log last, so that the log contains every event that
// has arrived.
func (s *eventsFixture) evidence(c *creator, ofOrg watcher) (*evidence, error) {
	e := &evidence{
		name: c.login, account: c.account, from: c.from, ledger: c.ledger, honest: c.inbox.manner.acceptsAll(), arrivals: c.inbox.received(),
		watchers: []watcher{{connections: c.reader.snapshot()}, ofOrg},
	}
	list, err := s.pull(c, c.from)
	if err != nil {
		return nil, err
	}
	for i := range list {
		one := &list[i]
		if one.Owner != c.account || hasForeignCanary(one.body, c.org.canary) {
			return nil, fmt.Errorf("the log of %s has an event of %q", c.account, one.Owner)
		}
		e.log = append(e.log, loggedEvent{seq: one.Meta.Seq, kind: one.Kind, content: one.content(), body: digestOf(one.body)})
	}
	if s.undoes {
		e.dropUndone()
	}
	return e, nil
}

// checkEgress checks that no call left through a wrong region.
func (s *eventsFixture) checkEgress() {
	for _, c := range s.creators {
		for _, e := range s.platform.Gate.Entries(c.login) {
			if strings.HasPrefix(e.Path, "/api/") && e.Egress != c.region {
				s.t.Errorf("%s of %s left through %s, want %s", e.Path, c.login, e.Egress, c.region)
			}
		}
	}
}

// figures are the results of a case.
type figures struct {
	name                   string
	times                  int
	v                      *findings
	took, healed, caughtUp time.Duration
	standstill, recovered  time.Duration
	// calls counts all calls, failed those without the status 200.
	calls, failed int64
}

const tableHead = "| case | faults | frames | calls | failed | duration | lost | 95 % bound | stored twice | delivered | again | out of order | streamed | again | to others | late p50 / p99 / max | stand-still | recovered | caught up |\n" +
	"|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"

func (f *figures) row() string {
	v := f.v
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %s | %d | %.1e | %d | %d | %d (%.2f %%) | %d | %d | %d | %d | %s / %s / %s | %s | %s | %s |",
		f.name, f.times, v.frames, f.calls, f.failed, f.took.Round(100*time.Millisecond), v.lost, bound(v.lost, v.frames), v.duplicated,
		v.delivered, v.redelivered, percent(v.redelivered, v.delivered), v.outOfOrder+v.streamedOutOfOrder, v.streamed, v.reseen, v.foreign,
		v.lateness(0.5), v.lateness(0.99), v.lateness(1), f.standstill.Round(100*time.Millisecond), f.recovered.Round(100*time.Millisecond), f.caughtUp.Round(100*time.Millisecond))
}

// text describes a case in more detail.
func (f *figures) text(s *eventsFixture) string {
	v := f.v
	gaps, refusals, ends := 0, map[int]int{}, map[string]int{}
	add := func(r *reader) {
		r.mu.Lock()
		defer r.mu.Unlock()
		gaps += r.gaps
		for status, n := range r.refusals {
			refusals[status] += n
		}
		for why, n := range r.ends {
			ends[why] += n
		}
	}
	for _, c := range s.creators {
		add(c.reader)
	}
	for _, o := range s.orgs {
		add(o.reader)
	}
	return fmt.Sprintf("%s: %d faults in %s; %d accounts, %d frames in %s (%.0f/s), %d events of the service; lost %d (p < %.1e at 95 %%), stored twice %d, not in the platform's order %d; "+
		"%d delivered, %d again, %d marked out of order; %d streamed on %d connections, %d again, %d gaps, refusals %v, ends %v; late p50 %s p99 %s max %s; caught up after %s",
		f.name, f.times, f.healed.Round(100*time.Millisecond), v.accounts, v.frames, f.took.Round(100*time.Millisecond), float64(v.frames)/f.took.Seconds(), v.own,
		v.lost, bound(v.lost, v.frames), v.duplicated, v.swapped, v.delivered, v.redelivered, v.marked, v.streamed, v.connections, v.reseen, gaps, refusals, ends,
		v.lateness(0.5), v.lateness(0.99), v.lateness(1), f.caughtUp.Round(10*time.Millisecond))
}

// bound returns the highest share that may be lost, with 95 % confidence, if none of n was: 3/n.
func bound(lost, n int) float64 {
	if n == 0 || lost > 0 {
		return 1
	}
	return 3 / float64(n)
}

func percent(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}
