package invoke

import (
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// A region, or a platform, that fails most calls is left alone for a moment.
const (
	breakWindow = 10 * time.Second
	breakFrom   = 20
	breakFor    = 5 * time.Second
	breakProbes = 3
	// breakAccounts is how many accounts must have met with failures: the trouble of one or two says nothing about the others.
	breakAccounts = 3
)

// ways are how calls leave. They are made as platforms and regions are met; there are few.
type ways struct {
	now       func() time.Time
	mu        sync.RWMutex
	all       map[wayKey]*way
	platforms map[org.Environment]*breaker
}

type wayKey struct {
	platform org.Environment
	region   string
}

// way is one from a region to a platform, with what keeps it from being overrun and from being tried in vain.
type way struct {
	name             string
	platform, region *breaker
	valve            valve
}

func newWays(now func() time.Time) *ways {
	return &ways{now: now, all: map[wayKey]*way{}, platforms: map[org.Environment]*breaker{}}
}

// of is the way that an account's calls take.
func (w *ways) of(a account.Account) *way {
	key := wayKey{a.Environment, a.Region}
	w.mu.RLock()
	one := w.all[key]
	w.mu.RUnlock()
	if one != nil {
		return one
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if one = w.all[key]; one != nil {
		return one
	}
	if w.platforms[a.Environment] == nil {
		w.platforms[a.Environment] = newBreaker(w.now)
	}
	one = &way{name: a.Region, platform: w.platforms[a.Environment], region: newBreaker(w.now), valve: valve{now: w.now, limit: valveFirst}}
	w.all[key] = one
	return one
}

// closed says why no call can leave now, and what is to blame; nil if one can.
func (w *way) closed() (reason string, err error) {
	switch {
	case w.platform.State() == gobreaker.StateOpen:
		return "platform", w.broken(w.platform)
	case w.region.State() == gobreaker.StateOpen:
		return "region", w.broken(w.region)
	case w.valve.full():
		return "full", problem.ServiceUnavailable.Newf("As many calls as the region %s can take are under way.", w.name).After(overloadWait)
	}
	return "", nil
}

func (w *way) broken(which *breaker) error {
	what := "The platform fails most calls right now, and is left alone for a moment. Nothing was sent."
	if which == w.region {
		what = "Most calls through the region " + w.name + " fail right now, so none is tried for a moment. Nothing was sent."
	}
	return problem.UpstreamUnavailable.New(what).After(int(breakFor.Seconds()))
}

// passage is a call on its way.
type passage struct {
	way              *way
	platform, region func(error)
}

// enter lets a call pass, unless the way is broken.
func (w *way) enter() (passage, error) {
	p := passage{way: w}
	var err error
	if p.platform, err = w.platform.Allow(); err != nil {
		return p, w.broken(w.platform)
	}
	if p.region, err = w.region.Allow(); err != nil {
		p.platform(errNothing)
		return p, w.broken(w.region)
	}
	w.valve.enter()
	return p, nil
}

// leave takes in how the call ended: with or without trouble, or given up, which says nothing.
func (p passage) leave(at id.Account, err error, gone bool) {
	p.way.valve.leave(!gone && unanswered(err))
	var outcome error
	switch {
	case gone:
		outcome = errNothing
	case trouble(err):
		outcome = errTrouble
		p.way.platform.blame(at)
		p.way.region.blame(at)
	}
	p.platform(outcome)
	p.region(outcome)
}

// How a call ended, for a breaker: in trouble, or in a way that says nothing.
var (
	errTrouble = errors.New("trouble")
	errNothing = errors.New("nothing is known")
)

// breaker opens when most calls of several accounts fail.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	now func() time.Time

	mu     sync.Mutex
	since  time.Time
	blamed [breakAccounts]id.Account
}

func newBreaker(now func() time.Time) *breaker {
	b := &breaker{now: now}
	b.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: breakProbes, Interval: breakWindow, Timeout: breakFor,
		IsExcluded: func(err error) bool { return errors.Is(err, errNothing) },
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.Requests >= breakFrom && c.TotalFailures*2 >= c.Requests && b.common()
		},
	})
	return b
}

// blame notes whose call failed.
func (b *breaker) blame(at id.Account) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.now(); now.Sub(b.since) > breakWindow {
		b.since, b.blamed = now, [breakAccounts]id.Account{}
	}
	for i := range b.blamed {
		if b.blamed[i] == at || b.blamed[i] == "" {
			b.blamed[i] = at
			return
		}
	}
}

// common says whether the failures were those of several accounts.
func (b *breaker) common() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.blamed[breakAccounts-1] != ""
}
