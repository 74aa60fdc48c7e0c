package invoke

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Limits of concurrent calls on one node.
const (
	// perAccount calls of one account run concurrently. maxQueue more wait for a place, in order of arrival, for at
	// most queueTimeout.
	perAccount   = 8
	maxQueue     = 16
	queueTimeout = time.Second
	// An org may have a tenth of its calls per minute in progress, within these bounds.
	orgMin, orgMax = 64, 512
	// perNode bounds the method calls of the node; other requests have limits of their own. Near this limit, lists are
	// refused first and then all reads. Writes come last, because a write may be one step of a larger change.
	perNode      = 4096
	maxLists     = perNode * 80 / 100
	maxReads     = perNode * 90 / 100
	overloadWait = 1
)

// gates counts the calls in progress of the node, of orgs and of accounts. The counts are local to this node.
type gates struct {
	node     atomic.Int64
	accounts *callQueues[id.Account]
	orgs     *callQueues[id.Org]
}

func newGates() gates {
	return gates{accounts: newCallQueues[id.Account](), orgs: newCallQueues[id.Org]()}
}

// Enter reserves a place for a call before admission, so that a refused call uses no quota. The caller must call
// leave when the call has ended. A read that will probably join a flight needs no place. Enter also refuses calls
// whose route is known to be down, and writes that operators have switched off.
func (i *Invoker) Enter(ctx context.Context, c *Call, limits *org.Limits) (leave func(), err error) {
	if c.Method.Access == catalog.Write {
		if err := i.deps.Switches.Refuse(switches.Writes); err != nil {
			i.metrics.refused.WithLabelValues("switch").Inc()
			return nil, err
		}
	}
	// Only an account in the cache has a known route here; for others, sendOnce asks the breakers.
	if a, ok := i.deps.Accounts.Remembered(c.Org, c.Account); ok {
		if reason, err := i.routes.of(a).refusal(); err != nil {
			i.metrics.refused.WithLabelValues(reason).Inc()
			return nil, err
		}
	}
	if c.Method.Access == catalog.Read && !c.Fresh {
		c.key = flightKey{c.Account, c.Method, string(c.Args.JSON())}
		if i.flights.hasFlight(c.key) {
			return func() {}, nil
		}
	}
	// Reserve from the widest limit to the narrowest, and undo in reverse. Only the account has a queue.
	g := &i.gates
	if n := g.node.Add(1); n > nodeLimit(c.Method) {
		g.node.Add(-1)
		i.metrics.refused.WithLabelValues("node").Inc()
		return nil, problem.ServiceUnavailable.New("This server has too many calls in progress.").After(overloadWait)
	}
	if most := orgLimit(limits); !g.orgs.tryAcquire(c.Org, most) {
		g.node.Add(-1)
		i.metrics.refused.WithLabelValues("org").Inc()
		return nil, tooMany("org_concurrency", "the organisation", most)
	}
	if err := g.accounts.acquire(ctx, c.Account, perAccount, queueRules{maxQueue, queueTimeout, c.away}); err != nil {
		g.orgs.release(c.Org)
		g.node.Add(-1)
		i.metrics.refused.WithLabelValues("account").Inc()
		return nil, err
	}
	c.place = &place{queues: g.accounts, account: c.Account}
	owner, held := c.Org, c.place
	return func() {
		held.release()
		g.orgs.release(owner)
		g.node.Add(-1)
	}, nil
}

// place is the place of a call among those of its account. Copies of the call share it.
type place struct {
	queues  *callQueues[id.Account]
	account id.Account
	free    bool
}

// release frees the place, unless it was freed before.
func (p *place) release() {
	if !p.free {
		p.free = true
		p.queues.release(p.account)
	}
}

// hasPlace reports whether the call has a place of its account.
func (c *Call) hasPlace() bool { return c.place != nil && !c.place.free }

// acquireAccount waits for a place of the account, up to callTimeout and regardless of the length of the queue.
func (g *gates) acquireAccount(ctx context.Context, c *Call) (leave func(), err error) {
	at := c.Account
	if err := g.accounts.acquire(ctx, at, perAccount, queueRules{1 << 30, callTimeout, c.away}); err != nil {
		return nil, err
	}
	return func() { g.accounts.release(at) }, nil
}

func nodeLimit(m *catalog.Method) int64 {
	switch {
	case m.Access == catalog.Write:
		return perNode
	case m.Paginated:
		return maxLists
	}
	return maxReads
}

func orgLimit(l *org.Limits) int {
	if l.CallsPerMinute < 0 {
		return orgMax
	}
	return min(max(l.CallsPerMinute/10, orgMin), orgMax)
}

// tooMany returns the problem for a call that exceeds a limit of concurrent calls.
func tooMany(reason, whose string, most int) error {
	return problem.QuotaExceeded.Newf("%d calls of %s are in progress, which is the limit. Wait until some have ended; this call was not counted.",
		most, whose).After(1).With("reason", reason).With("limit", most).With("current", most)
}

// callQueues counts the calls in progress by key and queues calls that wait for a place. Keys without calls use no
// memory. The map is split into stripes to reduce lock contention.
type callQueues[K ~string] struct {
	stripes [64]stripe[K]
}

type stripe[K ~string] struct {
	mu sync.Mutex
	// running counts the calls in progress. waiting holds the waiting calls, the longest waiting first.
	running map[K]int
	waiting map[K][]*waiter
}

// waiter is a waiting call. ready is closed when it gets a place.
type waiter struct{ ready chan struct{} }

func newCallQueues[K ~string]() *callQueues[K] {
	l := &callQueues[K]{}
	for i := range l.stripes {
		l.stripes[i].running, l.stripes[i].waiting = map[K]int{}, map[K][]*waiter{}
	}
	return l
}

// stripe returns the stripe of a key, by its last characters, which are random in every id.
func (l *callQueues[K]) stripe(key K) *stripe[K] {
	h := uint32(0)
	for i := max(len(key)-4, 0); i < len(key); i++ {
		h = h*31 + uint32(key[i])
	}
	return &l.stripes[h%uint32(len(l.stripes))]
}

// tryAcquire takes a place if one is free.
func (l *callQueues[K]) tryAcquire(key K, most int) bool {
	s := l.stripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.running[key]
	if n >= most {
		return false
	}
	s.running[key] = n + 1
	return true
}

// queueRules say how a call waits for a place: in a queue of at most length, for at most patience. It calls away before it
// waits, and back afterwards.
type queueRules struct {
	length   int
	patience time.Duration
	away     func() (back func())
}

// acquire takes a place, or waits for one in order of arrival. It fails if the queue is full, patience runs out or the
// context ends.
func (l *callQueues[K]) acquire(ctx context.Context, key K, most int, rules queueRules) error {
	s := l.stripe(key)
	s.mu.Lock()
	n := s.running[key]
	if n < most {
		s.running[key] = n + 1
		s.mu.Unlock()
		return nil
	}
	if len(s.waiting[key]) >= rules.length {
		s.mu.Unlock()
		return tooMany("account_concurrency", "the account", most)
	}
	w := &waiter{make(chan struct{})}
	s.waiting[key] = append(s.waiting[key], w)
	s.mu.Unlock()

	defer rules.away()()
	timer := time.NewTimer(rules.patience)
	defer timer.Stop()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		if s.abandon(key, w) {
			return context.Cause(ctx)
		}
	case <-timer.C:
		if s.abandon(key, w) {
			return tooMany("account_concurrency", "the account", most)
		}
	}
	return nil // a place became free at the last moment
}

// abandon removes a waiter from the queue. It returns false if the waiter already has a place.
func (s *stripe[K]) abandon(key K, w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.waiting[key], w)
	if at < 0 {
		return false
	}
	s.setQueue(key, slices.Delete(s.waiting[key], at, at+1))
	return true
}

// setQueue stores the queue of a key, or removes the key if the queue is empty.
func (s *stripe[K]) setQueue(key K, queue []*waiter) {
	if len(queue) == 0 {
		delete(s.waiting, key)
		return
	}
	s.waiting[key] = queue
}

// release frees a place. If calls are waiting, the one that has waited longest gets it.
func (l *callQueues[K]) release(key K) {
	s := l.stripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if queue := s.waiting[key]; len(queue) > 0 { // running stays the same: the place changes hands
		close(queue[0].ready)
		s.setQueue(key, queue[1:])
		return
	}
	if n := s.running[key]; n > 1 {
		s.running[key] = n - 1
	} else {
		delete(s.running, key)
	}
}

// adaptiveLimit bounds the calls in progress of one route. It shrinks by a third when calls get no response (AIMD). Until
// it has shrunk, each success makes room for one more call, so that it doubles within the time that a call takes; for
// calmFor after a cut, the same number of successes as the limit makes room for one.
type adaptiveLimit struct {
	now     func() time.Time
	mu      sync.Mutex
	limit   float64
	running int
	cutAt   time.Time
}

const (
	initialLimit = 256
	minLimit     = 32
	maxLimit     = perNode
	// cutEvery is the minimum interval between cuts, because calls that fail together have one cause.
	cutEvery = time.Second
	calmFor  = 10 * time.Second
)

func newAdaptiveLimit(now func() time.Time) adaptiveLimit {
	return adaptiveLimit{now: now, limit: initialLimit}
}

func (v *adaptiveLimit) isFull() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.running >= int(v.limit)
}

// acquire counts a call without checking the limit: a call that has come this far was billed and is not refused any
// more.
func (v *adaptiveLimit) acquire() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.running++
}

// release counts the end of a call and adapts the limit to its result. A limit that is less than half used does not grow,
// because the successes do not show that the route could take more.
func (v *adaptiveLimit) release(overloaded bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	used := float64(v.running)
	v.running--
	now := v.now()
	switch {
	case overloaded && now.Sub(v.cutAt) >= cutEvery:
		v.limit, v.cutAt = max(v.limit*2/3, minLimit), now
	case overloaded || used < v.limit/2:
	case now.Sub(v.cutAt) < calmFor:
		v.limit = min(v.limit+1/v.limit, maxLimit)
	default:
		v.limit = min(v.limit+1, maxLimit)
	}
}
