package org

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

const (
	// suspensionEvery is how often a process reads which orgs are suspended when nothing tells it to.
	suspensionEvery = time.Second
	// suspensionTrusted is how long a process acts on what it has read. After that it sends nothing for any org, so a suspension never
	// has to wait longer for a process that hangs.
	suspensionTrusted = 5 * time.Second
	// suspensionReadAtMost bounds one read, and suspensionRetry is the pause after one that failed.
	suspensionReadAtMost = 2 * time.Second
	suspensionRetry      = 250 * time.Millisecond
	// obeyedEvery is how often a suspension asks whether all processes obey it.
	obeyedEvery = 20 * time.Millisecond
)

// SuspensionDeps is what Suspensions needs.
type SuspensionDeps struct {
	DB *postgres.DB
	// Process names this process; no two may share it.
	Process string
	Log     *slog.Logger
	Now     func() time.Time
}

// Suspensions is what a process knows of suspended orgs. Whatever sends something for an org asks Permit right before it does.
//
// The guarantee: when Await returns nil, nothing begins to leave for an org whose suspension was committed before Await was called, from
// any process. Each process announces in the database until when it trusts its knowledge, reads the suspended orgs, obeys, and then
// says so. Await waits until every process has either read since or lost its trust. A process whose database is away stops by itself.
//
// A nil Suspensions permits everything.
type Suspensions struct {
	SuspensionDeps
	state    atomic.Pointer[suspendedOrgs]
	watchers []func(suspended map[id.Org]struct{})
	wake     chan struct{}

	// reading serializes reads, so that watchers are called one after the other.
	reading sync.Mutex
	mu      sync.Mutex
	// renewed is closed and replaced after every read.
	renewed chan struct{}
}

// suspendedOrgs is what was read at one moment.
type suspendedOrgs struct {
	orgs  map[id.Org]struct{}
	until time.Time
}

// NewSuspensions makes the service. It trusts nothing, and so permits nothing, before the first Read.
func NewSuspensions(d SuspensionDeps) *Suspensions {
	s := &Suspensions{SuspensionDeps: d, wake: make(chan struct{}, 1), renewed: make(chan struct{})}
	s.state.Store(&suspendedOrgs{})
	return s
}

// Watch adds what is called with all suspended orgs whenever they change. It is called before the process says that it obeys, and must
// not block. Watch is for wiring, before Run.
func (s *Suspensions) Watch(do func(suspended map[id.Org]struct{})) {
	s.watchers = append(s.watchers, do)
}

// Suspended reports whether an org is known to be suspended.
func (s *Suspensions) Suspended(org id.Org) bool {
	if s == nil {
		return false
	}
	_, is := s.state.Load().orgs[org]
	return is
}

// Permit returns nil if something may leave for an org, and the problem org-suspended if not. While the process does not know which
// orgs are suspended, it waits.
func (s *Suspensions) Permit(ctx context.Context, org id.Org) error {
	if s == nil {
		return nil
	}
	for {
		s.mu.Lock()
		renewed := s.renewed
		s.mu.Unlock()
		now := s.state.Load()
		if _, is := now.orgs[org]; is {
			return suspendedProblem()
		}
		if s.Now().Before(now.until) {
			return nil
		}
		select {
		case <-renewed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func suspendedProblem() error {
	return problem.OrgSuspended.New("The organisation is suspended. Its keys and sessions are kept and not used.")
}

// Wake has the suspended orgs read at once.
func (s *Suspensions) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run keeps the knowledge current until the context ends. Afterwards the process permits nothing.
func (s *Suspensions) Run(ctx context.Context) error {
	for {
		wait := suspensionEvery
		if err := s.Read(ctx); err != nil && ctx.Err() == nil {
			s.Log.LogAttrs(ctx, slog.LevelWarn, "suspended organisations not read", slog.Any("error", err))
			wait = suspensionRetry
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			s.leave(context.WithoutCancel(ctx))
			return nil
		case <-timer.C:
		case <-s.wake:
			timer.Stop()
		}
	}
}

// leave ends the trust, so that nobody waits for this process.
func (s *Suspensions) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, suspensionReadAtMost)
	defer cancel()
	s.reading.Lock()
	defer s.reading.Unlock()
	s.state.Store(&suspendedOrgs{orgs: s.state.Load().orgs})
	if err := removeReader(ctx, s.DB.Pool(), s.Process); err != nil {
		s.Log.LogAttrs(ctx, slog.LevelDebug, "suspension reader not removed", slog.Any("error", err))
	}
}

// Read reads which orgs are suspended, obeys, and says so. Run does this all the time.
func (s *Suspensions) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, suspensionReadAtMost)
	defer cancel()
	s.reading.Lock()
	defer s.reading.Unlock()
	until := s.Now().Add(suspensionTrusted) // before the database's own, which begins later
	if err := announceReader(ctx, s.DB.Pool(), s.Process, suspensionTrusted); err != nil {
		return err
	}
	orgs, at, err := readSuspended(ctx, s.DB.Pool())
	if err != nil {
		return err
	}
	before := s.state.Swap(&suspendedOrgs{orgs, until})
	if !maps.Equal(before.orgs, orgs) {
		for _, do := range s.watchers {
			do(orgs)
		}
	}
	s.mu.Lock()
	close(s.renewed)
	s.renewed = make(chan struct{})
	s.mu.Unlock()
	return confirmReader(ctx, s.DB.Pool(), s.Process, at)
}

// Await returns when every process obeys the suspensions that were committed before it was called.
func (s *Suspensions) Await(ctx context.Context) error {
	if s == nil {
		return nil
	}
	since, err := databaseTime(ctx, s.DB.Pool())
	if err != nil {
		return err
	}
	s.Wake()
	for {
		obeyed, err := allObey(ctx, s.DB.Pool(), since)
		if err != nil || obeyed {
			return err
		}
		if !clock.Pause(ctx, obeyedEvery) {
			return fmt.Errorf("wait until all processes obey a suspension: %w", context.Cause(ctx))
		}
	}
}
