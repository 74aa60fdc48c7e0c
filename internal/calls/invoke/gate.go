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

// How much may be under way on one node.
const (
	// perAccount calls of one account run at once; queueAtMost more wait for a place, in the order in which they came, for queueFor.
	perAccount  = 8
	queueAtMost = 16
	queueFor    = time.Second
	// An org may have a tenth of its calls per minute under way, within these bounds.
	orgLeast, orgMost = 64, 512
	// perNode is for all calls; others than these have places of their own. Close to it long lists are turned away first, then all
	// reads: somebody waits for a write, and it may be half of something.
	perNode      = 1800
	listsUpTo    = perNode * 80 / 100
	readsUpTo    = perNode * 90 / 100
	overloadWait = 1
)

// gates keep accounts, orgs, regions and the node from being flooded. All of it is this node's own.
type gates struct {
	node     atomic.Int64
	accounts *lanes[id.Account]
	orgs     *lanes[id.Org]
}

func newGates() gates { return gates{accounts: newLanes[id.Account](), orgs: newLanes[id.Org]()} }

// Enter gives a call its place before it is admitted, so that who is turned away has used nothing up. What it returns gives the place
// back. A read that will probably share another one's answer needs none.
func (i *Invoker) Enter(ctx context.Context, c *Call, limits *org.Limits) (leave func(), err error) {
	if c.Method.Access == catalog.Write {
		if err := i.Switches.Refuse(switches.Writes); err != nil {
			i.metrics.refused.WithLabelValues("switch").Inc()
			return nil, err
		}
	}
	if a, ok := i.Accounts.Remembered(c.Org, c.Account); ok {
		if reason, err := i.ways.of(a).closed(); err != nil {
			i.metrics.refused.WithLabelValues(reason).Inc()
			return nil, err
		}
	}
	if c.Method.Access == catalog.Read && !c.Fresh {
		c.key = flightKey{c.Account, c.Method, string(c.Args.JSON())}
		if i.flights.flying(c.key) {
			return func() {}, nil
		}
	}
	g := &i.gates
	if n := g.node.Add(1); n > nodeLimit(c.Method) {
		g.node.Add(-1)
		i.metrics.refused.WithLabelValues("node").Inc()
		return nil, problem.ServiceUnavailable.New("This server has more calls under way than it can take.").After(overloadWait)
	}
	if most := orgLimit(limits); !g.orgs.try(c.Org, most) {
		g.node.Add(-1)
		i.metrics.refused.WithLabelValues("org").Inc()
		return nil, tooMany("org_concurrency", "the organisation", most)
	}
	if err := g.accounts.enter(ctx, c.Account, perAccount, queueAtMost, queueFor); err != nil {
		g.orgs.leave(c.Org)
		g.node.Add(-1)
		i.metrics.refused.WithLabelValues("account").Inc()
		return nil, err
	}
	c.held = true
	owner, at := c.Org, c.Account
	return func() {
		g.accounts.leave(at)
		g.orgs.leave(owner)
		g.node.Add(-1)
	}, nil
}

// wait gives a call its place among the account's, however long that takes.
func (g *gates) wait(ctx context.Context, at id.Account) (leave func(), err error) {
	if err := g.accounts.enter(ctx, at, perAccount, 1<<30, callAtMost); err != nil {
		return nil, err
	}
	return func() { g.accounts.leave(at) }, nil
}

func nodeLimit(m *catalog.Method) int64 {
	switch {
	case m.Access == catalog.Write:
		return perNode
	case m.Paginated:
		return listsUpTo
	}
	return readsUpTo
}

func orgLimit(l *org.Limits) int {
	if l.CallsPerMinute < 0 {
		return orgMost
	}
	return min(max(l.CallsPerMinute/10, orgLeast), orgMost)
}

// tooMany refuses a call because others of the same caller are under way.
func tooMany(reason, whose string, most int) error {
	return problem.QuotaExceeded.Newf("%d calls of %s are under way at once, as many as there may be. Wait until some have ended; this one was not counted.",
		most, whose).After(1).With("reason", reason).With("limit", most).With("current", most)
}

// lanes count what is under way, by key. A key that nothing is under way for takes no room.
type lanes[K ~string] struct {
	shards [64]shard[K]
}

type shard[K ~string] struct {
	mu sync.Mutex
	// running are those under way, by key; waiting those who wait for a place, which are few.
	running map[K]int
	waiting map[K][]*waiter
}

type waiter struct{ ready chan struct{} }

func newLanes[K ~string]() *lanes[K] {
	l := &lanes[K]{}
	for i := range l.shards {
		l.shards[i].running, l.shards[i].waiting = map[K]int{}, map[K][]*waiter{}
	}
	return l
}

// shard spreads keys by their last characters, which are random in every id.
func (l *lanes[K]) shard(key K) *shard[K] {
	h := uint32(0)
	for i := max(len(key)-4, 0); i < len(key); i++ {
		h = h*31 + uint32(key[i])
	}
	return &l.shards[h%uint32(len(l.shards))]
}

// try takes a place if there is one.
func (l *lanes[K]) try(key K, most int) bool {
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.running[key]
	if n >= most {
		return false
	}
	s.running[key] = n + 1
	return true
}

// enter takes a place, or waits for one behind those who came before.
func (l *lanes[K]) enter(ctx context.Context, key K, most, queue int, patience time.Duration) error {
	s := l.shard(key)
	s.mu.Lock()
	n := s.running[key]
	if n < most {
		s.running[key] = n + 1
		s.mu.Unlock()
		return nil
	}
	if len(s.waiting[key]) >= queue {
		s.mu.Unlock()
		return tooMany("account_concurrency", "the account", most)
	}
	w := &waiter{make(chan struct{})}
	s.waiting[key] = append(s.waiting[key], w)
	s.mu.Unlock()

	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		if s.giveUp(key, w) {
			return context.Cause(ctx)
		}
	case <-timer.C:
		if s.giveUp(key, w) {
			return tooMany("account_concurrency", "the account", most)
		}
	}
	return nil // the place came at the last moment
}

// giveUp takes a waiter off the queue; false if it has been given a place.
func (s *shard[K]) giveUp(key K, w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.waiting[key], w)
	if at < 0 {
		return false
	}
	s.keep(key, slices.Delete(s.waiting[key], at, at+1))
	return true
}

func (s *shard[K]) keep(key K, queue []*waiter) {
	if len(queue) == 0 {
		delete(s.waiting, key)
		return
	}
	s.waiting[key] = queue
}

// leave gives a place back, to who has waited longest.
func (l *lanes[K]) leave(key K) {
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if queue := s.waiting[key]; len(queue) > 0 {
		close(queue[0].ready)
		s.keep(key, queue[1:])
		return
	}
	if n := s.running[key]; n > 1 {
		s.running[key] = n - 1
	} else {
		delete(s.running, key)
	}
}

// valve bounds what is under way through one region, by how it fares: a little more with every success, a third less when calls fail for
// want of an answer.
type valve struct {
	now     func() time.Time
	mu      sync.Mutex
	limit   float64
	running int
	cutAt   time.Time
}

const (
	valveFirst = 256
	valveLeast = 32
	valveMost  = 1024
	// cutEvery is how often a valve is turned down: calls that fail together failed for one reason.
	cutEvery = time.Second
)

func (v *valve) full() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.running >= int(v.limit)
}

// enter lets a call in. One that has come so far is billed, and not turned away any more.
func (v *valve) enter() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.running++
}

// leave takes in how the call ended.
func (v *valve) leave(overloaded bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.running--
	switch {
	case !overloaded:
		v.limit = min(v.limit+1/v.limit, valveMost)
	case v.now().Sub(v.cutAt) >= cutEvery:
		v.limit, v.cutAt = max(v.limit*2/3, valveLeast), v.now()
	}
}
