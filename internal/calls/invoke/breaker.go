package invoke

import (
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// A breaker opens if at least half of the calls in a window fail. It then rejects calls for breakFor and lets
// breakProbes calls try.
const (
	breakWindow = 10 * time.Second
	breakFrom   = 20 // calls in the window; with fewer the breaker stays closed
	breakFor    = 5 * time.Second
	breakProbes = 3
	// breakAccounts is how many accounts must have failed calls. Failures of one or two accounts say nothing about
	// the others.
	breakAccounts = 3
)

// routes holds one route per origin and region, created on first use. An origin is a platform, or a creator's site, so
// that one dead site does not stop the others. The routes to sites that were not used for longest are forgotten.
type routes struct {
	now     func() time.Time
	all     cache.Cache[routeKey, *route]
	origins cache.Cache[origin, *breaker]
}

// origin is a platform, or a creator's site on it.
type origin struct{ platform, site string }

type routeKey struct {
	origin
	region string
}

// maxRoutes bounds the routes that are kept, and the origins.
const maxRoutes = 20_000

// route leads from a region to a platform. It has a breaker of its own, the breaker that it shares with all routes to
// the platform, and a limit of concurrent calls.
type route struct {
	name             string
	platform, region *breaker
	limit            adaptiveLimit
}

func newRoutes(now func() time.Time) *routes {
	return &routes{now: now, all: cache.New[routeKey, *route](maxRoutes), origins: cache.New[origin, *breaker](maxRoutes)}
}

func (w *routes) of(a account.Account) *route {
	key := routeKey{origin{a.Place.Platform, a.Place.Root}, a.Region}
	if one, ok := w.all.Get(key); ok {
		return one
	}
	shared := w.origins.GetOrMake(key.origin, func() *breaker { return newBreaker(w.now) })
	return w.all.GetOrMake(key, func() *route {
		return &route{name: a.Region, platform: shared, region: newBreaker(w.now), limit: newAdaptiveLimit(w.now)}
	})
}

// refusal returns the problem for a new call if the route is down or full, and a label for metrics. It returns nil if a
// call can be sent.
func (w *route) refusal() (reason string, err error) {
	switch {
	case w.platform.State() == gobreaker.StateOpen:
		return "platform", w.brokenProblem(w.platform)
	case w.region.State() == gobreaker.StateOpen:
		return "region", w.brokenProblem(w.region)
	case w.limit.isFull():
		return "full", problem.ServiceUnavailable.Newf("The region %s has as many calls in progress as it can take.", w.name).After(overloadWait)
	}
	return "", nil
}

func (w *route) brokenProblem(which *breaker) error {
	what := "Most calls to the platform are failing, so calls are paused for a moment. Nothing was sent."
	if which == w.region {
		what = "Most calls through the region " + w.name + " are failing, so calls are paused for a moment. Nothing was sent."
	}
	return problem.UpstreamUnavailable.New(what).After(int(breakFor.Seconds()))
}

// permit allows one call on a route. It must be released.
type permit struct {
	route            *route
	platform, region func(error)
}

// acquire returns a permit, unless a breaker is open.
func (w *route) acquire() (permit, error) {
	p := permit{route: w}
	var err error
	if p.platform, err = w.platform.Allow(); err != nil {
		return p, w.brokenProblem(w.platform)
	}
	if p.region, err = w.region.Allow(); err != nil {
		p.platform(errInconclusive) // every allowed call must be reported
		return p, w.brokenProblem(w.region)
	}
	w.limit.acquire()
	return p, nil
}

// release records the result of the call. inconclusive means that it says nothing about the route.
func (p permit) release(at id.Account, err error, inconclusive bool) {
	p.route.limit.release(!inconclusive && isOverload(err))
	var outcome error
	switch {
	case inconclusive:
		outcome = errInconclusive
	case isPlatformFailure(err):
		outcome = errFailed
		p.route.platform.recordFailure(at)
		p.route.region.recordFailure(at)
	}
	p.platform(outcome)
	p.region(outcome)
}

// Results of a call for a breaker. Inconclusive ones are not counted.
var (
	errFailed       = errors.New("failed")
	errInconclusive = errors.New("inconclusive")
)

// breaker is a circuit breaker that opens only if calls of several accounts fail.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	now func() time.Time

	mu      sync.Mutex
	since   time.Time
	failing [breakAccounts]id.Account
}

func newBreaker(now func() time.Time) *breaker {
	b := &breaker{now: now}
	b.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: breakProbes, Interval: breakWindow, Timeout: breakFor,
		IsExcluded: func(err error) bool { return errors.Is(err, errInconclusive) },
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.Requests >= breakFrom && c.TotalFailures*2 >= c.Requests && b.affectsSeveral()
		},
	})
	return b
}

func (b *breaker) recordFailure(at id.Account) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.now(); now.Sub(b.since) > breakWindow {
		b.since, b.failing = now, [breakAccounts]id.Account{}
	}
	// Keep the first accounts that failed. Further ones do not matter.
	for i := range b.failing {
		if b.failing[i] == at || b.failing[i] == "" {
			b.failing[i] = at
			return
		}
	}
}

// affectsSeveral reports whether calls of at least breakAccounts accounts failed in the window.
func (b *breaker) affectsSeveral() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failing[breakAccounts-1] != ""
}
