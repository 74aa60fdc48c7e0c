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
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/org/internal/db"
)

const (
	// suspensionInterval is the pause between reads of the suspended orgs when nothing calls Wake.
	suspensionInterval = time.Second
	// suspensionTrust is how long a process acts on what it has read. When it expires, the process sends nothing for
	// any org, so a suspension never waits longer than this for a process that hangs.
	suspensionTrust = 5 * time.Second
	// suspensionReadTimeout bounds one read, and suspensionRetry is the pause after one that failed.
	suspensionReadTimeout = 2 * time.Second
	suspensionRetry       = 250 * time.Millisecond
	// awaitInterval is the pause between Await's checks whether all processes obey.
	awaitInterval = 20 * time.Millisecond
)

// SuspensionDeps are the dependencies of Suspensions.
type SuspensionDeps struct {
	DB *postgres.DB
	// Process identifies this process and must be unique.
	Process string
	Log     *slog.Logger
	Now     func() time.Time
}

// Suspensions holds one process's knowledge of the suspended orgs. Code that sends something for an org calls Permit
// right before it does.
//
// It guarantees: after Await has returned nil, no process starts to send anything for an org whose suspension was
// committed before Await was called. To this end each process writes into the database how long it will trust its
// knowledge, reads the suspended orgs, obeys, and then confirms. Await waits until every process has confirmed a later
// read or lost its trust. A process that cannot reach the database stops sending when its trust expires.
//
// A nil Suspensions permits everything. All methods are safe for concurrent use, except Watch.
type Suspensions struct {
	deps SuspensionDeps
	// state holds the last read. Permit loads it without a lock.
	state    atomic.Pointer[suspendedOrgs]
	watchers []func(suspended map[id.Org]struct{})
	wake     chan struct{}

	// reading serialises reads, so that watchers are never called concurrently.
	reading sync.Mutex
	mu      sync.Mutex
	// renewed, guarded by mu, is closed and replaced after every read.
	renewed chan struct{}
}

// suspendedOrgs is the result of one read. It is immutable.
type suspendedOrgs struct {
	orgs  map[id.Org]struct{}
	until time.Time // when trust in orgs expires
}

// NewSuspensions returns a Suspensions that permits nothing before its first Read.
func NewSuspensions(d SuspensionDeps) *Suspensions {
	s := &Suspensions{deps: d, wake: make(chan struct{}, 1), renewed: make(chan struct{})}
	s.state.Store(&suspendedOrgs{})
	return s
}

// Watch registers a function that is called with all suspended orgs whenever they change. The process confirms that it
// obeys only after do has returned, so do must not block. Watch must not be called after Run or Read.
func (s *Suspensions) Watch(do func(suspended map[id.Org]struct{})) {
	s.watchers = append(s.watchers, do)
}

// Suspended reports whether the org was suspended at the last read. Unlike Permit it does not wait for fresh knowledge.
func (s *Suspensions) Suspended(org id.Org) bool {
	if s == nil {
		return false
	}
	_, is := s.state.Load().orgs[org]
	return is
}

// Permit returns nil if the caller may send something for the org, and the problem org-suspended if not. Once the
// knowledge of this process has expired, Permit waits for the next read or for ctx.
func (s *Suspensions) Permit(ctx context.Context, org id.Org) error {
	if s == nil {
		return nil
	}
	for {
		// Take the channel before the state: a read in between closes this channel, so it cannot be missed.
		s.mu.Lock()
		renewed := s.renewed
		s.mu.Unlock()
		now := s.state.Load()
		if _, is := now.orgs[org]; is {
			return suspendedProblem()
		}
		if s.deps.Now().Before(now.until) {
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

// Wake makes Run read the suspended orgs immediately. It does not block.
func (s *Suspensions) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run reads the suspended orgs regularly until ctx ends. After it has returned, Permit permits nothing.
func (s *Suspensions) Run(ctx context.Context) error {
	for {
		wait := suspensionInterval
		if err := s.Read(ctx); err != nil && ctx.Err() == nil {
			s.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot read suspended organisations", slog.Any(logkey.Error, err))
			wait = suspensionRetry
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			s.endTrust(context.WithoutCancel(ctx))
			return nil
		case <-timer.C:
		case <-s.wake:
			timer.Stop()
		}
	}
}

// endTrust makes Permit stop permitting and then removes this process from the database, so that Await in other
// processes does not wait for its trust to expire.
func (s *Suspensions) endTrust(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, suspensionReadTimeout)
	defer cancel()
	s.reading.Lock()
	defer s.reading.Unlock()
	s.state.Store(&suspendedOrgs{orgs: s.state.Load().orgs})
	if err := db.New(s.deps.DB).RemoveReader(ctx, s.deps.Process); err != nil {
		s.deps.Log.LogAttrs(ctx, slog.LevelDebug, "cannot remove suspension reader", slog.Any(logkey.Error, err))
	}
}

// Read reads the suspended orgs, obeys them and confirms that in the database. Run calls it regularly.
func (s *Suspensions) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, suspensionReadTimeout)
	defer cancel()
	s.reading.Lock()
	defer s.reading.Unlock()
	// Computed before the database computes its own limit, so this process stops no later than Await assumes.
	until := s.deps.Now().Add(suspensionTrust)
	err := db.New(s.deps.DB).AnnounceReader(ctx, db.AnnounceReaderParams{Process: s.deps.Process, Trusted: suspensionTrust})
	if err != nil {
		return err
	}
	orgs, at, err := readSuspended(ctx, s.deps.DB)
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
	return db.New(s.deps.DB).ConfirmReader(ctx, db.ConfirmReaderParams{Process: s.deps.Process, ObeyedAt: at})
}

// Await waits until every process obeys the suspensions that were committed before the call.
func (s *Suspensions) Await(ctx context.Context) error {
	if s == nil {
		return nil
	}
	since, err := db.New(s.deps.DB).StatementTime(ctx)
	if err != nil {
		return err
	}
	s.Wake()
	for {
		obeyed, err := db.New(s.deps.DB).AllObey(ctx, since)
		if err != nil || obeyed {
			return err
		}
		if !clock.Pause(ctx, awaitInterval) {
			return fmt.Errorf("wait until all processes obey a suspension: %w", context.Cause(ctx))
		}
	}
}
