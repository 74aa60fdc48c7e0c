package test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// dress is what a node starts with, if it differs from the others.
type dress struct {
	program string
	// links has the addresses of the engines if the node reaches them through links, clock those of a wrong clock.
	links, clock []string
	group        *testenv.Cgroup
	// knows lists the settings that the program knows; empty for all.
	knows string
	// database is the address of the database for a program that needs another role than the others; empty for theirs.
	database string
}

func (d *dress) put(cmd *exec.Cmd) {
	if d.program != "" {
		cmd.Path, cmd.Args[0] = d.program, d.program
	}
	cmd.Env = slices.Concat(cmd.Env, d.links, d.clock) // the last value counts
	if d.database != "" {
		cmd.Env = append(cmd.Env, "DATABASE_URL="+d.database)
	}
	cmd.Env = slices.DeleteFunc(cmd.Env, func(setting string) bool {
		name, _, _ := strings.Cut(setting, "=")
		return d.knows != "" && strings.HasPrefix(name, "STAGEDOOR_") && !strings.Contains(d.knows, name)
	})
	if d.group != nil {
		d.group.Wrap(cmd)
	}
}

// fault returns how long a fault lasts: a moment in CI.
func (s *eventsFixture) fault(d time.Duration) time.Duration {
	if s.scale.long {
		return d
	}
	return time.Second
}

// change stops a node in good order and starts it in another dress.
func (s *eventsFixture) change(i int, put func(*dress)) {
	p := s.nodes[i].Process
	p.Signal(syscall.SIGTERM)
	<-p.Exited()
	put(&s.dresses[i])
	p.Start()
}

// changeAll changes one node after the other, and waits until each is ready.
func (s *eventsFixture) changeAll(put func(i int, d *dress)) {
	for i, n := range s.nodes {
		s.change(i, func(d *dress) { put(i, d) })
		n.AwaitReady(s.t)
	}
}

// The links of a node, in this order: PostgreSQL, Redis, and each NATS server.
const (
	postgresLink = iota
	redisLink
	natsLinks
)

// linkNodes makes every node reach every engine through a link of its own.
func linkNodes(s *eventsFixture) func() {
	if s.dresses[0].links != nil {
		return func() {} // the other fault of a pair has done it, and will undo it
	}
	engines := []string{addressOf(s.t, s.postgres.URL.Reveal()), addressOf(s.t, s.redisURL.Reveal())}
	for _, n := range s.nats.Nodes {
		engines = append(engines, addressOf(s.t, n.URL.Reveal()))
	}
	s.links = make([][]*testenv.SlowLink, len(s.nodes))
	s.changeAll(func(i int, d *dress) {
		urls := []string{s.databaseURL.Reveal(), s.redisURL.Reveal(), s.nats.URL.Reveal()}
		for k, engine := range engines {
			link := testenv.NewSlowLink(s.t, engine)
			s.links[i] = append(s.links[i], link)
			urls[min(k, natsLinks)] = strings.Replace(urls[min(k, natsLinks)], engine, link.Address, 1)
		}
		d.links = []string{"DATABASE_URL=" + urls[0], "REDIS_URL=" + urls[1], "NATS_URL=" + urls[2]}
	})
	return func() { s.changeAll(func(_ int, d *dress) { d.links = nil }) }
}

func addressOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	must.OK(t, err)
	return u.Host
}

// silenceLinks drops all packets between a node and an engine, or all engines, for longer than leases last.
func silenceLinks(ctx context.Context, s *eventsFixture) (times int) {
	for times == 0 || sleepUnlessOver(ctx, 5*time.Second) {
		links := s.links[times%len(s.links)]
		silent := [][]*testenv.SlowLink{
			links[postgresLink:redisLink], links[natsLinks:], links[redisLink:natsLinks], links,
		}[times%4]
		restore := testenv.DropPackets(s.t, 1, silent...)
		<-time.After(9 * time.Second)
		restore()
		times++
	}
	return times
}

// losePackets drops 1 %, then 5 %, then 20 % of all packets between all nodes and all engines.
func losePackets(ctx context.Context, s *eventsFixture) (times int) {
	for times == 0 || sleepUnlessOver(ctx, 2*time.Second) {
		restore := testenv.DropPackets(s.t, []float64{0.01, 0.05, 0.2}[times%3], slices.Concat(s.links...)...)
		sleepUnlessOver(ctx, 8*time.Second)
		restore()
		times++
	}
	return times
}

// slowLinks delays every engine by 25 ms, and then each of them alone by 500 ms.
func slowLinks(ctx context.Context, s *eventsFixture) (times int) {
	delay := func(d time.Duration, first, last int) {
		for _, links := range s.links {
			for _, l := range links[first:last] {
				l.SetDelay(d)
			}
		}
	}
	all := natsLinks + len(s.nats.Nodes)
	for times == 0 || ctx.Err() == nil {
		switch times % 4 {
		case 0:
			delay(25*time.Millisecond, 0, all)
		case 1:
			delay(500*time.Millisecond, postgresLink, redisLink)
		case 2:
			delay(500*time.Millisecond, natsLinks, all)
		case 3:
			delay(500*time.Millisecond, redisLink, natsLinks)
		}
		sleepUnlessOver(ctx, s.fault(8*time.Second))
		delay(0, 0, all)
		times++
	}
	return times
}

// buildSkewed compiles a server whose clock can be wrong.
func buildSkewed(s *eventsFixture) func() {
	s.skewed = testnode.BuildSkewed(s.t)
	return func() {}
}

// skewClocks restarts a node with a wrong clock, and later with the right one, one node after the other. A node whose
// clock is wrong says that it is not ready, and does no harm.
func skewClocks(ctx context.Context, s *eventsFixture) (times int) {
	const day = 24 * 60 * 60
	for times == 0 || ctx.Err() == nil {
		i, ahead := times%len(s.nodes), []int{34 * day, -3600, 20, -34 * day, 3600}[times%5]
		s.change(i, func(d *dress) {
			d.program, d.clock = s.skewed, []string{fmt.Sprintf("%s=%d", testnode.ClockVariable, ahead)}
		})
		<-time.After(8 * time.Second)
		r, err := testnode.Do(s.t.Context(), http.MethodGet, s.nodes[i].Internal+"/readyz", "", nil)
		// If another fault takes the other nodes away, a node with a wrong clock stays.
		if err == nil && r.Status == http.StatusOK && !strings.Contains(s.t.Name(), "/pair-") {
			s.t.Errorf("a node whose clock is ahead by %d s is ready: %s", ahead, r.Body)
		}
		s.change(i, func(d *dress) { d.program, d.clock = "", nil })
		times++
		sleepUnlessOver(ctx, 2*time.Second)
	}
	return times
}

// loseQuorum loses a NATS server for good and replaces it by an empty one. Then it loses two: the log has no quorum and
// accepts nothing. What an operator does then is in docs/runbooks/nats-down.md.
func loseQuorum(ctx context.Context, s *eventsFixture) (times int) {
	lose := func(i int) {
		s.nats.Nodes[i].Kill()
		must.OK(s.t, os.RemoveAll(filepath.Join(s.nats.Nodes[i].Dir, "jetstream")))
	}
	for times == 0 || sleepUnlessOver(ctx, 10*time.Second) {
		first := rand.IntN(len(s.nats.Nodes))
		lose(first)
		<-time.After(s.fault(5 * time.Second))
		s.nats.Nodes[first].Start()
		s.nats.Ready(first)
		sleepUnlessOver(ctx, 5*time.Second)

		lose(first)
		lose((first + 1) % len(s.nats.Nodes))
		<-time.After(s.fault(5 * time.Second))
		// The runbook: stop the last server, move its data away, start all servers empty.
		s.wipeLog()
		times++
	}
	return times
}

// fillDisks fills the disk of PostgreSQL, then that of one NATS server, then those of all. After it has freed them, it
// restarts what stopped, and the NATS servers: they do not write again before.
func fillDisks(ctx context.Context, s *eventsFixture) (times int) {
	for times == 0 || sleepUnlessOver(ctx, 10*time.Second) {
		full := [][]*testenv.Volume{s.volumes[:1], s.volumes[1:2], s.volumes[1:]}[times%3]
		for _, v := range full {
			v.Fill()
		}
		<-time.After(8 * time.Second)
		for _, v := range full {
			v.Free()
		}
		switch times % 3 {
		case 0:
			select {
			case <-s.postgres.Exited():
				s.t.Log("PostgreSQL stopped while its disk was full")
				s.postgres.Start()
			default:
			}
		default:
			for _, n := range s.nats.Nodes[:len(full)] { // one alone does not become ready if the others do not write
				n.Kill()
				n.Start()
			}
			for i := range full {
				s.nats.Ready(i)
			}
		}
		times++
	}
	return times
}

// cutPower cuts the power of PostgreSQL, of one NATS server, of all NATS servers, and of all of them: what they had not
// synced to disk is lost.
func cutPower(ctx context.Context, s *eventsFixture) (times int) {
	for times == 0 || sleepUnlessOver(ctx, 8*time.Second) {
		off := [][]int{{0}, {1}, {1, 2, 3}, {0, 1, 2, 3}}[times%4]
		for _, i := range off {
			s.volumes[i].CutPower()
		}
		for _, i := range off {
			if i == 0 {
				s.killPostgres()
			} else {
				s.nats.Nodes[i-1].Kill()
			}
			s.volumes[i].Remount()
		}
		<-time.After(2 * time.Second)
		for _, i := range off {
			if i == 0 {
				s.postgres.Start()
			} else {
				s.nats.Nodes[i-1].Start()
			}
		}
		for _, i := range off {
			if i > 0 {
				s.nats.Ready(i - 1)
			}
		}
		times++
	}
	return times
}

// groupNodes restarts each node in a cgroup of its own.
func groupNodes(s *eventsFixture) func() {
	s.changeAll(func(_ int, d *dress) { d.group = testenv.NewCgroup(s.t) })
	return func() { s.changeAll(func(_ int, d *dress) { d.group = nil }) }
}

// starveNodes allows a node a twentieth of a core, and then no more memory than it has: the kernel kills it if it needs
// more.
func starveNodes(ctx context.Context, s *eventsFixture) (times int) {
	for times == 0 || sleepUnlessOver(ctx, 2*time.Second) {
		n, group := s.nodes[times%len(s.nodes)], s.dresses[times%len(s.nodes)].group
		group.LimitCPU(5)
		<-time.After(8 * time.Second)
		group.Release()
		sleepUnlessOver(ctx, 2*time.Second)
		group.LimitMemory()
		select {
		case <-n.Process.Exited():
		case <-time.After(8 * time.Second):
		}
		group.Release()
		select {
		case <-n.Process.Exited():
			s.t.Log("the kernel killed a node that needed memory")
			n.Restart(s.t)
		default:
		}
		times++
	}
	return times
}

// takeDescriptors allows a node no new file or connection for a while: those that it has stay open.
func takeDescriptors(ctx context.Context, s *eventsFixture) (times int) {
	limit := func(pid int, files string) {
		cmd := exec.CommandContext(context.WithoutCancel(ctx), "prlimit", "--pid", strconv.Itoa(pid), "--nofile="+files+":")
		if out, err := cmd.CombinedOutput(); err != nil {
			s.t.Errorf("prlimit: %v: %s", err, out)
		}
	}
	for times == 0 || sleepUnlessOver(ctx, 4*time.Second) {
		pid := s.nodes[times%len(s.nodes)].Process.PID()
		limit(pid, "8")
		<-time.After(s.fault(8 * time.Second))
		limit(pid, "1024")
		times++
	}
	return times
}

// buildPrevious compiles the server of the revision STAGEDOOR_CHAOS_PREVIOUS.
func buildPrevious(s *eventsFixture) func() {
	s.previous = testnode.BuildRevision(s.t, cmp.Or(os.Getenv("STAGEDOOR_CHAOS_PREVIOUS"), "HEAD~20"))
	return func() { s.changeAll(func(_ int, d *dress) { d.program, d.knows, d.database = "", "", "" }) }
}

// mixVersions replaces one node after the other by the previous version, and back, so that both run together.
func mixVersions(ctx context.Context, s *eventsFixture) (times int) {
	list := exec.CommandContext(ctx, s.previous, "config")
	list.Env = []string{"PATH=" + os.Getenv("PATH")}
	text, _ := list.CombinedOutput() // it also complains that some are missing
	knows, database := string(text), ""
	if !strings.Contains(knows, "STAGEDOOR_MIGRATION_URL") {
		database = s.ownerURL.Reveal() // a version without row-level security sees no rows in the service's role
	}
	for times == 0 || sleepUnlessOver(ctx, 2*time.Second) {
		i := times % len(s.nodes)
		s.change(i, func(d *dress) {
			if d.program == "" {
				d.program, d.knows, d.database = s.previous, knows, database
			} else {
				d.program, d.knows, d.database = "", "", ""
			}
		})
		s.nodes[i].AwaitReady(s.t)
		times++
	}
	return times
}

// overloadAccount calls one account over many connections at the same time.
func overloadAccount(ctx context.Context, s *eventsFixture) (times int) {
	connections := setting("STAGEDOOR_CHAOS_CONNECTIONS", 2000)
	if !s.scale.long {
		connections = 100
	}
	victim := s.creators[0]
	client := &http.Transport{MaxIdleConnsPerHost: connections}
	defer client.CloseIdleConnections()
	var (
		work sync.WaitGroup
		mu   sync.Mutex
	)
	statuses := map[int]int{}
	for n := range connections {
		work.Go(func() {
			for ctx.Err() == nil {
				node := s.nodes[n%len(s.nodes)]
				path := node.URL + "/v1/accounts/" + victim.account + "/me/get"
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, path, http.NoBody)
				if err != nil {
					s.t.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+victim.org.Key)
				status := 0
				if res, err := client.RoundTrip(req); err == nil {
					status = res.StatusCode
					_ = res.Body.Close()
				}
				mu.Lock()
				statuses[status]++
				mu.Unlock()
			}
		})
	}
	work.Wait()
	for _, n := range statuses {
		times += n
	}
	s.t.Logf("%d connections made %d calls on one account; by status: %v", connections, times, statuses)
	return times
}

// addReplica starts a streaming replica of the database, and makes the nodes reach the database at an address that can
// change to it.
func addReplica(s *eventsFixture) func() {
	s.replica, s.address = testenv.NewReplica(s.whole, s.postgres), testenv.NewSwitch(s.whole, s.postgres)
	from, to := addressOf(s.t, s.postgres.URL.Reveal()), addressOf(s.t, s.address.URL.Reveal())
	database := strings.Replace(s.databaseURL.Reveal(), from, to, 1)
	s.changeAll(func(_ int, d *dress) { d.links = []string{"DATABASE_URL=" + database} })
	return func() {}
}

// failOver promotes a replica that has lagged for seconds, while events flow.
func failOver(ctx context.Context, s *eventsFixture) (times int) {
	sleepUnlessOver(ctx, 3*time.Second)
	s.replica.Lag()
	<-time.After(5 * time.Second)
	s.address.Cut()
	s.killPostgres()
	s.replica.Promote()
	s.address.To(s.replica.Store)
	<-ctx.Done()
	return 1
}

// randomPairs returns cases with two faults at the same time. STAGEDOOR_CHAOS_SEED repeats those of an earlier run.
func randomPairs(t *testing.T) []faultCase {
	t.Helper()
	seed := setting("STAGEDOOR_CHAOS_SEED", int(time.Now().UnixNano()%1_000_000))
	t.Logf("the pairs are those of STAGEDOOR_CHAOS_SEED=%d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	var pairs []faultCase
	for len(pairs) < setting("STAGEDOOR_CHAOS_PAIRS", 6) {
		a, b := faultCases[1+random.IntN(len(faultCases)-1)], faultCases[1+random.IntN(len(faultCases)-1)]
		if pair, ok := pairOf(a, b); ok && !slices.ContainsFunc(pairs, func(c faultCase) bool { return c.name == pair.name }) {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}

// pairOf returns a case with two faults at the same time; false if they touch the same processes.
func pairOf(a, b faultCase) (pair faultCase, ok bool) {
	if a.name == b.name || slices.ContainsFunc(a.touches, func(what string) bool { return slices.Contains(b.touches, what) }) {
		return faultCase{}, false
	}
	return faultCase{
		name: "pair-" + a.name + "-" + b.name, reordered: a.reordered || b.reordered, touches: slices.Concat(a.touches, b.touches),
		need: func() error {
			for _, c := range []faultCase{a, b} {
				if c.need != nil {
					if err := c.need(); err != nil {
						return err
					}
				}
			}
			return nil
		},
		prepare: func(s *eventsFixture) func() {
			var undo []func()
			for _, c := range []faultCase{a, b} {
				if c.prepare != nil {
					undo = append(undo, c.prepare(s))
				}
			}
			return func() {
				for _, one := range slices.Backward(undo) {
					one()
				}
			}
		},
		inject: func(ctx context.Context, s *eventsFixture) int {
			others := 0
			var work sync.WaitGroup
			work.Go(func() { others = b.inject(ctx, s) })
			times := a.inject(ctx, s)
			work.Wait()
			return times + others
		},
	}, true
}

// callers is the number of accounts that are called during a case, and of goroutines that call them.
const callers = 4

// connectCallers connects the accounts that are called during a case. They are not those whose events are checked.
func (s *eventsFixture) connectCallers() {
	if !s.scale.calls {
		return // TestCallsSurviveTrouble checks calls in CI
	}
	s.calls = &callsFixture{t: s.t, nodes: s.nodes, platform: s.platform, problems: map[string]int{}}
	s.calls.connectAll(callers)
}

// startCalls calls accounts until the context ends.
func (s *eventsFixture) startCalls(ctx context.Context) *sync.WaitGroup {
	work := &sync.WaitGroup{}
	if s.calls == nil {
		return work
	}
	s.calls.t = s.t
	s.calls.reset()
	for range callers {
		work.Go(func() {
			for sleepUnlessOver(ctx, 50*time.Millisecond) {
				s.calls.callOnce()
			}
		})
	}
	return work
}

// checkCalls compares the responses with what the platform did, and returns the number of calls and of those that failed.
func (s *eventsFixture) checkCalls() (made, failed int64) {
	if s.calls == nil {
		return 0, 0
	}
	made, failed = s.calls.sent.Load(), s.calls.sent.Load()-s.calls.succeeded.Load()
	answered, harmless, unknown := s.calls.verifyMessages()
	s.t.Logf("%d calls, %d failed; %d writes succeeded, %d failed and are retryable, %d are unknown; problems %v",
		made, failed, answered, harmless, unknown, s.calls.problems)
	return made, failed
}
