// Package simulation runs state machines under one seeded scheduler, with virtual time and injected faults. Everything
// runs in one goroutine, and nothing uses the real time or I/O, so a seed always gives the same run.
//
// A test gives Run a function that builds a world: the real code of a core, and small models of what surrounds it. Its
// parts plan what they do with Scheduler.After. A Process is a part that can pause and crash. Where the real code calls a
// model (a database, a log), the model calls Interleave, so that other processes run in the middle of the call, as they
// would between two queries. The world checks its invariants with Fail, which prints the seed and the last steps.
//
// STAGEDOOR_SIMULATION_SEED repeats the run of one seed.
package simulation

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
)

// SeedVariable is the environment variable that selects a single seed.
const SeedVariable = "STAGEDOOR_SIMULATION_SEED"

// In CI the first worlds have the same seeds in every run of a test, and the last one has a random seed. In a proof many
// more have random seeds.
const (
	fixedSeeds  = 3
	ciSeeds     = 4
	proofSeeds  = 200
	repeatsSeed = 42
	// ciShare divides the steps of a world in CI, where the race detector makes them ten times slower.
	ciShare = 5
)

// Run simulates several worlds, each with its own seed, for a number of steps. build makes a world; what it returns is
// called at the end: it ends all faults, calls Settle and checks what must hold then. Run also checks that a seed gives
// the same run twice.
func Run(t *testing.T, steps int, build func(s *Scheduler) (end func())) {
	t.Helper()
	steps = proof.Scale((steps+ciShare-1)/ciShare, steps)
	for _, seed := range seeds(t) {
		t.Run("seed="+strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			s := simulate(t, seed, steps, build)
			t.Logf("%d steps, %s of virtual time, %.1f million steps a minute", s.steps, s.now.Sub(start).Round(time.Second),
				float64(s.steps)/1e6/time.Since(began).Minutes())
		})
	}
	t.Run("repeats", func(t *testing.T) {
		t.Parallel()
		first := simulate(t, repeatsSeed, steps/10, build)
		if second := simulate(t, repeatsSeed, steps/10, build); first.hash != second.hash {
			t.Fatalf("two runs of one seed differ: %d steps with the hash %x, and %d with %x", first.steps, first.hash, second.steps, second.hash)
		}
	})
}

func seeds(t *testing.T) []uint64 {
	t.Helper()
	if text := os.Getenv(SeedVariable); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", SeedVariable, err)
		}
		return []uint64{seed}
	}
	list := make([]uint64, proof.Scale(ciSeeds, proofSeeds))
	for i := range list {
		if list[i] = uint64(i + 1); i >= fixedSeeds {
			list[i] = uint64(rand.Uint32())
		}
	}
	return list
}

// simulate runs one world and returns its scheduler.
func simulate(t testing.TB, seed uint64, steps int, build func(s *Scheduler) (end func())) *Scheduler {
	t.Helper()
	s := &Scheduler{Rand: rand.New(rand.NewPCG(seed, 7)), t: t, seed: seed, now: start}
	end := build(s)
	for s.steps < steps && len(s.queue) > 0 {
		s.step(s.pop())
	}
	end()
	return s
}

// start is the time at which every world begins.
var start = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// Scheduler runs planned events in the order of their times. It is also the world's source of randomness.
type Scheduler struct {
	*rand.Rand
	t     testing.TB
	seed  uint64
	now   time.Time
	queue queue
	// planned numbers the events, so that those of the same time have an order.
	planned uint64
	steps   int
	// running are the events that are running, the outermost first.
	running []*planned
	// hash is equal for equal runs.
	hash  uint64
	trace [64]note
	notes int
}

type note struct {
	at      time.Time
	step    int
	what    string
	numbers [4]int64
}

// Now returns the virtual time.
func (s *Scheduler) Now() time.Time { return s.now }

// T returns the test that runs the world.
func (s *Scheduler) T() testing.TB { return s.t }

// Seed returns the world's seed.
func (s *Scheduler) Seed() uint64 { return s.seed }

// Chance returns true once in n times.
func (s *Scheduler) Chance(n int) bool { return s.IntN(n) == 0 }

// Upto returns a random duration below most.
func (s *Scheduler) Upto(most time.Duration) time.Duration {
	return time.Duration(s.Int64N(int64(most)))
}

// After plans do to run after d.
func (s *Scheduler) After(d time.Duration, do func()) { s.plan(s.now.Add(d), nil, do) }

func (s *Scheduler) plan(at time.Time, p *Process, do func()) {
	s.planned++
	e := &planned{at: at, order: s.planned, process: p, do: do}
	if p != nil {
		e.life = p.life
	}
	heap.Push(&s.queue, e)
}

func (s *Scheduler) pop() *planned {
	e, _ := heap.Pop(&s.queue).(*planned)
	return e
}

// step runs an event, unless its process has crashed since it was planned. If the process is paused, the event waits.
func (s *Scheduler) step(e *planned) {
	s.steps++
	if e.at.After(s.now) {
		s.now = e.at
	}
	p := e.process
	if p == nil {
		s.run(e)
		return
	}
	if e.life != p.life {
		return
	}
	if s.now.Before(p.pausedUntil) {
		e.at = p.pausedUntil
		heap.Push(&s.queue, e)
		return
	}
	s.run(e)
}

func (s *Scheduler) run(e *planned) {
	s.hash = mix(s.hash, e.order)
	s.running = append(s.running, e)
	e.do()
	s.running = s.running[:len(s.running)-1]
}

// Interleave is called where a process waits for something outside. Now and then, events of other processes run there.
func (s *Scheduler) Interleave() {
	for len(s.running) < 4 && s.Chance(6) && len(s.queue) > 0 {
		e := s.pop()
		for _, outer := range s.running {
			if outer.process != nil && outer.process == e.process {
				heap.Push(&s.queue, e)
				return
			}
		}
		s.step(e)
	}
}

// Settle runs events until done returns true. It fails if that takes longer than limit: something stands still.
func (s *Scheduler) Settle(limit time.Duration, what string, done func() bool) {
	s.t.Helper()
	for end := s.now.Add(limit); !done(); {
		if s.now.After(end) || len(s.queue) == 0 {
			s.Fail("%s: not within %s after the last fault", what, limit)
		}
		s.step(s.pop())
	}
}

// Trace records a step for the hash and for the output of a failure.
func (s *Scheduler) Trace(what string, numbers ...int64) {
	one := note{at: s.now, step: s.steps, what: what}
	copy(one.numbers[:], numbers)
	s.trace[s.notes%len(s.trace)] = one
	s.notes++
	s.hash = mix(s.hash, uint64(s.now.UnixNano())^uint64(len(what)))
	for _, n := range numbers {
		s.hash = mix(s.hash, uint64(n))
	}
}

func mix(hash, n uint64) uint64 {
	hash = (hash ^ n) * 0x9e3779b97f4a7c15
	return hash ^ hash>>29
}

// Fail ends the test. It prints what was traced last, and how to repeat the run.
func (s *Scheduler) Fail(format string, args ...any) {
	s.t.Helper()
	var b strings.Builder
	for i := max(0, s.notes-len(s.trace)); i < s.notes; i++ {
		one := &s.trace[i%len(s.trace)]
		fmt.Fprintf(&b, "\n  step %d at %s: %s %d", one.step, one.at.Sub(start), one.what, one.numbers)
	}
	s.t.Fatalf("seed %d, step %d: %s\nrepeat it with %s=%d go test -run '^%s$'; the last steps were:%s", s.seed, s.steps,
		fmt.Sprintf(format, args...), SeedVariable, s.seed, strings.SplitN(s.t.Name(), "/", 2)[0], b.String())
}

// Process is a part of a world that can pause and crash, with all the events that it has planned.
type Process struct {
	s           *Scheduler
	life        int
	pausedUntil time.Time
}

// NewProcess returns a process that runs.
func (s *Scheduler) NewProcess() *Process { return &Process{s: s} }

// After plans do to run in the process after d. It does nothing if the process has crashed in the middle of the event
// that calls it.
func (p *Process) After(d time.Duration, do func()) {
	if n := len(p.s.running); n > 0 {
		if e := p.s.running[n-1]; e.process == p && e.life != p.life {
			return
		}
	}
	p.s.plan(p.s.now.Add(d), p, do)
}

// Crash drops everything that the process has planned.
func (p *Process) Crash() { p.life, p.pausedUntil = p.life+1, time.Time{} }

// Life returns a number that grows with every crash.
func (p *Process) Life() int { return p.life }

// Pause stops the process for d. What it has planned until then runs afterwards.
func (p *Process) Pause(d time.Duration) { p.pausedUntil = p.s.now.Add(d) }

// IsPaused reports whether the process is paused.
func (p *Process) IsPaused() bool { return p.s.now.Before(p.pausedUntil) }

type planned struct {
	at      time.Time
	order   uint64
	process *Process
	life    int
	do      func()
}

// queue is a heap of planned events.
type queue []*planned

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].order < q[j].order
	}
	return q[i].at.Before(q[j].at)
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any) {
	e, _ := x.(*planned)
	*q = append(*q, e)
}

func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return e
}
