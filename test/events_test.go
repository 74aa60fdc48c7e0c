package test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// trial is a fault, and what it may cause.
type trial struct {
	name string
	// hurt does it until the context ends, and says how often.
	hurt func(ctx context.Context, s *stage) int
	// lasting is how long it takes in CI.
	lasting time.Duration
	// reordered means that the platform itself breaks its order.
	reordered bool
	// calm means that nothing may come twice.
	calm bool
}

var trials = []trial{
	{name: "calm", hurt: nothing, lasting: 2 * time.Second, calm: true},
	{name: "sockets", hurt: cutSockets, lasting: 3 * time.Second, reordered: true},
	{name: "redis", hurt: stopRedis, lasting: 3 * time.Second},
	{name: "restart", hurt: restartNodes, lasting: 2 * time.Second},
	{name: "leader", hurt: killLeaders, lasting: 2 * time.Second},
	{name: "log", hurt: loseLog, lasting: 3 * time.Second},
	{name: "postgres", hurt: restartPostgres, lasting: 2 * time.Second},
	{name: "kill", hurt: killNodes, lasting: 2 * time.Second},
	{name: "pause", hurt: pauseNodes},
	{name: "both", hurt: loseBoth},
}

// Whatever fails, every durable frame of the platform is in its account's log once, in order and without holes, comes to its receiver and
// to streams, signed and with the same bytes, and to nobody else's. In CI each fault comes once; make chaos does it at length.
func TestEventsSurviveTrouble(t *testing.T) {
	// Not parallel: it loads the machine, and others would be measured with it.
	sc := scaleOf()
	s := newStage(t, sc)
	var table []string
	for _, c := range trials {
		if sc.long || c.lasting > 0 {
			t.Run(c.name, func(t *testing.T) { table = append(table, s.try(t, c)) })
		}
	}
	report(t, table)
}

// report prints the figures, and adds them to a file if one is named.
func report(t *testing.T, table []string) {
	t.Helper()
	text := tableHead + strings.Join(table, "\n") + "\n"
	t.Log("\n" + text)
	if path := os.Getenv("STAGEDOOR_CHAOS_REPORT"); path != "" {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// try runs a case and judges it.
func (s *stage) try(t *testing.T, c trial) string {
	t.Helper()
	before := s.t
	defer func() { s.t = before }()
	s.t = t
	s.clear()
	lasting := c.lasting
	if s.scale.long {
		lasting = s.scale.lasting
	}
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	began := time.Now()
	load := s.load(ctx, s.scale.events)
	times := c.hurt(ctx, s)
	healed := time.Now()
	load.Wait()
	ended := time.Now()
	v, caughtUp := s.verdict(ended)
	if faults := v.faults(c.reordered); len(faults) > 0 {
		t.Errorf("%s\n%s", strings.Join(faults, ", "), strings.Join(v.examples, "\n"))
		s.tellWaiting(v)
	}
	if c.calm && v.redelivered > 0 {
		t.Errorf("%d events were delivered twice although nothing had happened", v.redelivered)
	}
	if n := s.farm.trapped.Load(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
	s.egress()
	f := figures{trial: c.name, times: times, v: v, took: ended.Sub(began), healed: healed.Sub(began), caughtUp: caughtUp}
	t.Log(f.text(s))
	return f.row()
}

// tellWaiting says what the service knows of webhooks that did not get everything.
func (s *stage) tellWaiting(v *verdict) {
	for _, c := range s.creators {
		if n := v.waiting[c.account]; n > 0 {
			hook := s.call(c.org, http.MethodGet, "/v1/accounts/"+c.account+"/webhook", nil)
			s.t.Logf("%s (%s) waits for %d events: %v", c.account, c.box.manner, n, hook)
		}
	}
}

// clear begins a case: it is about what is behind what there is now.
func (s *stage) clear() {
	from := map[string]int64{}
	for _, c := range s.creators {
		list, err := s.pull(c, c.from)
		if err != nil {
			s.t.Fatal(err)
		}
		if len(list) > 0 {
			c.from = list[len(list)-1].Meta.Seq
		}
		from[c.account] = c.from
		s.noteFrame(c)
		c.box.begin(c.from)
		c.reader.begin(from)
	}
	for _, o := range s.orgs {
		o.reader.begin(from)
	}
}

// verdict waits until all has come, or for as long as it may take, and judges. caughtUp is how long it took.
func (s *stage) verdict(ended time.Time) (v *verdict, caughtUp time.Duration) {
	deadline := ended.Add(s.scale.catchUp)
	for _, c := range s.creators {
		c.ledger = s.ledgerOf(c)
	}
	for !s.arrived() && time.Now().Before(deadline) {
		<-time.After(50 * time.Millisecond)
	}
	caughtUp = time.Since(ended)
	for {
		v = s.judge()
		if !v.pending() || time.Now().After(deadline) {
			return v, caughtUp
		}
		<-time.After(500 * time.Millisecond)
		caughtUp = time.Since(ended)
	}
}

// arrived says whether as much has come everywhere as has happened.
func (s *stage) arrived() bool {
	for _, c := range s.creators {
		want := len(c.ledger)
		if c.reader.distinct(c.account) < want || c.org.reader.distinct(c.account) < want || c.box.manner.takes() && c.box.distinct() < want {
			return false
		}
	}
	return true
}

// judge collects the evidence of all accounts.
func (s *stage) judge() *verdict {
	var (
		mu   sync.Mutex
		v    verdict
		work sync.WaitGroup
		next atomic.Int64
	)
	ofOrgs := map[*tenant]map[string]watcher{}
	for _, o := range s.orgs {
		ofOrgs[o] = byAccount(o.reader.take(), o.accounts)
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
				v.judge(e)
				mu.Unlock()
			}
		})
	}
	work.Wait()
	return &v
}

// evidence is what is known of an account. The log is read last but for what has come meanwhile: only what is in it can have come.
func (s *stage) evidence(c *creator, ofOrg watcher) (*evidence, error) {
	e := &evidence{
		name: c.login, account: c.account, from: c.from, ledger: c.ledger, honest: c.box.manner.takes(), arrivals: c.box.take(),
		watchers: []watcher{{connections: c.reader.take()}, ofOrg},
	}
	list, err := s.pull(c, c.from)
	if err != nil {
		return nil, err
	}
	for i := range list {
		one := &list[i]
		if one.Owner != c.account || strange(one.body, c.org.canary) {
			return nil, fmt.Errorf("the log of %s has an event of %q", c.account, one.Owner)
		}
		e.log = append(e.log, kept{seq: one.Meta.Seq, kind: one.Kind, content: one.content(), body: digestOf(one.body)})
	}
	return e, nil
}

// egress makes sure that nothing has left by a wrong region.
func (s *stage) egress() {
	for _, c := range s.creators {
		for _, e := range s.platform.Gate.Entries(c.login) {
			if strings.HasPrefix(e.Path, "/api/") && e.Egress != c.region {
				s.t.Errorf("%s of %s left by %s, not %s", e.Path, c.login, e.Egress, c.region)
			}
		}
	}
}

// figures are what is told of a case.
type figures struct {
	trial                  string
	times                  int
	v                      *verdict
	took, healed, caughtUp time.Duration
}

const tableHead = "| case | faults | frames | lost | 95 % bound | stored twice | delivered | again | out of order | streamed | again | to others | late p50 / p99 / max | caught up |\n" +
	"|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"

// row is a line of the table.
func (f *figures) row() string {
	v := f.v
	return fmt.Sprintf("| %s | %d | %d | %d | %.1e | %d | %d | %d (%.2f %%) | %d | %d | %d | %d | %s / %s / %s | %s |",
		f.trial, f.times, v.frames, v.lost, bound(v.lost, v.frames), v.doubled, v.delivered, v.redelivered, percent(v.redelivered, v.delivered),
		v.disordered, v.streamed, v.reseen, v.foreign, v.share(0.5), v.share(0.99), v.share(1), f.caughtUp.Round(100*time.Millisecond))
}

// text tells of a case at more length.
func (f *figures) text(s *stage) string {
	v := f.v
	gaps, refusals, ends := 0, map[int]int{}, map[string]int{}
	look := func(r *reader) {
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
		look(c.reader)
	}
	for _, o := range s.orgs {
		look(o.reader)
	}
	return fmt.Sprintf("%s: %d faults in %s; %d accounts, %d frames in %s (%.0f/s), %d events of our own; lost %d (p < %.1e at 95 %%), stored twice %d, not in the platform's order %d; "+
		"%d delivered, %d again, %d aside; %d streamed on %d connections, %d again, %d gaps, refusals %v, ends %v; late p50 %s p99 %s max %s; caught up after %s",
		f.trial, f.times, f.healed.Round(100*time.Millisecond), v.accounts, v.frames, f.took.Round(100*time.Millisecond), float64(v.frames)/f.took.Seconds(), v.own,
		v.lost, bound(v.lost, v.frames), v.doubled, v.swapped, v.delivered, v.redelivered, v.aside, v.streamed, v.connections, v.reseen, gaps, refusals, ends,
		v.share(0.5), v.share(0.99), v.share(1), f.caughtUp.Round(10*time.Millisecond))
}

// bound is the share that may be lost at most, with 95 % confidence, when none of n was: 3/n.
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
