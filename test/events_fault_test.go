package test

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/sandbox/gate"
)

// sleepUnlessOver sleeps and returns false if the case ended.
func sleepUnlessOver(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// noFault waits until the case ends.
func noFault(ctx context.Context, _ *eventsFixture) int {
	<-ctx.Done()
	return 0
}

// killNodes kills random nodes. Some restart immediately under their old names, others after their work was taken over.
func killNodes(ctx context.Context, s *eventsFixture) (times int) {
	for sleepUnlessOver(ctx, time.Second) {
		p := s.nodes[rand.IntN(len(s.nodes))].Process
		p.Kill()
		if times%2 == 0 {
			sleepUnlessOver(ctx, rand.N(10*time.Second))
		}
		p.Start()
		times++
		sleepUnlessOver(ctx, 4*time.Second)
	}
	return times
}

// pauseNodes stops nodes for longer than their leases last, and lets them continue.
func pauseNodes(ctx context.Context, s *eventsFixture) (times int) {
	for sleepUnlessOver(ctx, time.Second) {
		p := s.nodes[times%len(s.nodes)].Process
		p.Signal(syscall.SIGSTOP)
		<-time.After(9 * time.Second)
		p.Signal(syscall.SIGCONT)
		times++
		sleepUnlessOver(ctx, 3*time.Second)
	}
	return times
}

// restartNodes restarts nodes in good order, one after the other.
func restartNodes(ctx context.Context, s *eventsFixture) (times int) {
	for sleepUnlessOver(ctx, 500*time.Millisecond) {
		n := s.nodes[times%len(s.nodes)]
		n.Process.Signal(syscall.SIGTERM)
		<-n.Process.Exited()
		n.Restart(s.t)
		times++
	}
	return times
}

// killLeaders kills the leader of a stream every seven seconds.
func killLeaders(ctx context.Context, s *eventsFixture) (times int) {
	for sleepUnlessOver(ctx, time.Second) {
		began := time.Now()
		node, i := s.leader(ctx)
		node.Kill()
		<-time.After(2 * time.Second)
		node.Start()
		s.nats.Ready(i)
		times++
		sleepUnlessOver(ctx, 6*time.Second-time.Since(began))
	}
	return times
}

// leader returns the server that leads the first stream of the log, or any server if the leader is unknown.
func (s *eventsFixture) leader(ctx context.Context) (*testenv.Store, int) {
	for range 50 {
		if name := s.askLeader(ctx); name != "" {
			return s.nats.Node(name)
		}
		sleepUnlessOver(ctx, 100*time.Millisecond)
	}
	s.t.Log("the leader is unknown; killing any server")
	return s.nats.Nodes[0], 0
}

func (s *eventsFixture) askLeader(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	conn, err := nats.Connect(s.nats.URL.Reveal(), nats.Timeout(time.Second))
	if err != nil {
		return ""
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return ""
	}
	for info := range js.ListStreams(ctx).Info() {
		if strings.HasPrefix(info.Config.Name, "EVT") && info.Cluster != nil {
			return info.Cluster.Leader
		}
	}
	return ""
}

// loseLog deletes everything that NATS has, on all replicas at the same time.
func loseLog(ctx context.Context, s *eventsFixture) (times int) {
	for sleepUnlessOver(ctx, 2*time.Second) {
		s.wipeLog()
		times++
		sleepUnlessOver(ctx, 20*time.Second)
	}
	return times
}

func (s *eventsFixture) wipeLog() {
	for _, n := range s.nats.Nodes {
		n.Kill()
	}
	for _, n := range s.nats.Nodes {
		if err := os.RemoveAll(filepath.Join(n.Dir, "jetstream")); err != nil {
			s.t.Error(err)
		}
	}
	for _, n := range s.nats.Nodes {
		n.Start()
	}
	for i := range s.nats.Nodes {
		s.nats.Ready(i)
	}
}

// restartPostgres stops the database in each possible way and starts it again.
func restartPostgres(ctx context.Context, s *eventsFixture) (times int) {
	for times < 3 || ctx.Err() == nil {
		<-time.After(500 * time.Millisecond)
		switch times % 3 {
		case 0:
			s.postgres.Signal(syscall.SIGINT) // fast
		case 1:
			s.postgres.Signal(syscall.SIGQUIT) // immediate
		case 2:
			s.killPostgres()
		}
		<-s.postgres.Exited()
		s.postgres.Start()
		times++
		sleepUnlessOver(ctx, 7*time.Second)
	}
	return times
}

// loseBoth stops the database and deletes the log while it is stopped: events that the log had confirmed and the
// database did not have are only on the platform then. Every other time it takes longer than leases last.
func loseBoth(ctx context.Context, s *eventsFixture) (times int) {
	for times == 0 || ctx.Err() == nil {
		<-time.After(time.Second)
		s.postgres.Signal(syscall.SIGQUIT)
		<-s.postgres.Exited()
		<-time.After(3 * time.Second)
		s.wipeLog()
		if times%2 == 1 {
			<-time.After(5 * time.Second)
		}
		s.postgres.Start()
		times++
		sleepUnlessOver(ctx, 15*time.Second)
	}
	return times
}

func (s *eventsFixture) killPostgres() { killTree(s.t, s.postgres.Process) }

// killTree kills a PostgreSQL with all its processes: the next one needs their shared memory to be free.
func killTree(t *testing.T, postgres *testenv.Process) {
	t.Helper()
	pid := strconv.Itoa(postgres.PID())
	text, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it may have ended by itself, when its disk was gone
		t.Error(err)
	}
	postgres.Kill()
	for _, child := range strings.Fields(string(text)) {
		if n, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
		await(t, "a process of PostgreSQL has ended", 2*time.Minute, func() bool {
			state, err := os.ReadFile(filepath.Join("/proc", child, "stat"))
			return err != nil || strings.Contains(string(state), ") Z ")
		})
	}
}

// stopRedis makes Redis hang, and then lose everything.
func stopRedis(ctx context.Context, s *eventsFixture) (times int) {
	for times == 0 || ctx.Err() == nil {
		s.redis.Signal(syscall.SIGSTOP)
		<-time.After(2 * time.Second)
		s.redis.Signal(syscall.SIGCONT)
		sleepUnlessOver(ctx, 2*time.Second)
		s.redis.Kill()
		<-time.After(time.Second)
		s.redis.Start()
		times++
		sleepUnlessOver(ctx, 5*time.Second)
	}
	return times
}

// cutSockets drops sockets and makes frames arrive twice and out of order. Sometimes the platform refuses requests.
func cutSockets(ctx context.Context, s *eventsFixture) (times int) {
	add := func(f gate.Fault) {
		if _, err := s.platform.Gate.Faults.Add(f, 0); err != nil {
			s.t.Error(err)
		}
	}
	for sleepUnlessOver(ctx, 200*time.Millisecond) {
		add(gate.Fault{Scope: s.creators[rand.IntN(len(s.creators))].login, Kind: gate.DropSocket, Count: 1})
		add(gate.Fault{Scope: "all", Kind: gate.Duplicate, Count: 20})
		add(gate.Fault{Scope: "all", Kind: gate.Reorder, Count: 5})
		if times%5 == 0 {
			add(gate.Fault{Scope: "all", Kind: gate.Error, Value: 503, Count: 1})
		}
		times++
	}
	s.platform.Gate.Faults.Clear("")
	return times
}
