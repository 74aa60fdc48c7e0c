package endpoint

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// The door bounds the requests that a node works on itself, as opposed to those that wait for a platform. It adapts the
// bound to the node's own delay, ten times a second, see load.Meter.
const (
	// maxInside is the limit of a node that is not overloaded. The limit does not shrink below minPerCPU for each processor.
	maxInside = 2000
	minPerCPU = 8
	// maxDelay is the delay above which a node is overloaded. A request waits for a processor several times.
	maxDelay = 5 * time.Millisecond
	// The limit shrinks to shrink of the requests inside while the node is overloaded, and otherwise grows by a factor and
	// a step. It is back at its maximum within 4 s.
	shrink, grow, growStep = 0.7, 1.15, 1
	// patience is how long a request waits for a place. It also keeps callers that do not pause after a refusal from
	// using up the node with refusals.
	patience = time.Second
	// While one has waited for longer than standing, the newest is served first: if a node cannot keep up, serving the
	// oldest first makes all of them late.
	standing = patience / 4
)

// door admits the requests of a node and shares its places fairly among orgs. An org that has less than its share gets a
// place immediately. The others wait while all places are taken, and are shed if they wait for too long. The zero value has
// no limit.
type door struct {
	now func() time.Time
	mu  sync.Mutex
	// limit is 0 until the first sample.
	limit float64
	// inside counts the requests with a place, most their highest number since the last sample, waiting those without.
	inside, most, waiting int
	orgs                  map[id.Org]*doorOrg
}

// doorOrg is what the requests of an org have: places, and a queue with the newest last.
type doorOrg struct {
	inside int
	queue  []*arrival
}

// arrival is a request that waits. turn is closed when it gets a place.
type arrival struct {
	at   time.Time
	turn chan struct{}
}

// next removes the request from the queue that gets the next place.
func (of *doorOrg) next(now time.Time) *arrival {
	at := 0
	if now.Sub(of.queue[0].at) > standing {
		at = len(of.queue) - 1
	}
	one := of.queue[at]
	of.queue = slices.Delete(of.queue, at, at+1)
	return one
}

// full reports whether all places are taken. The caller holds d.mu.
func (d *door) full() bool { return d.limit > 0 && d.inside >= int(d.limit) }

// enter takes a place, or waits for one. It returns false if there is none within patience or until the context ends.
func (d *door) enter(ctx context.Context, org id.Org) bool {
	d.mu.Lock()
	of := d.of(org)
	// An org may have more than its share only while there are free places, so there are less than twice the limit.
	if !d.full() || of.inside*len(d.orgs) < int(d.limit) {
		d.take(of)
		d.mu.Unlock()
		return true
	}
	one := &arrival{d.now(), make(chan struct{})}
	of.queue = append(of.queue, one)
	d.waiting++
	d.mu.Unlock()

	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-one.turn:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	at := slices.Index(of.queue, one)
	if at < 0 {
		return true // It got a place at the last moment.
	}
	of.queue = slices.Delete(of.queue, at, at+1)
	d.waiting--
	d.forget(org, of)
	return false
}

// back takes a place for a request that had one before and is not refused any more.
func (d *door) back(org id.Org) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.take(d.of(org))
}

// leave frees a place.
func (d *door) leave(org id.Org) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.of(org)
	of.inside--
	d.inside--
	d.forget(org, of)
	d.call()
}

// of returns the state of an org. The caller holds d.mu.
func (d *door) of(org id.Org) *doorOrg {
	of := d.orgs[org]
	if of == nil {
		if of = new(doorOrg); d.orgs == nil {
			d.orgs = map[id.Org]*doorOrg{}
		}
		d.orgs[org] = of
	}
	return of
}

// forget deletes the state of an org without requests. The caller holds d.mu.
func (d *door) forget(org id.Org, of *doorOrg) {
	if of.inside == 0 && len(of.queue) == 0 {
		delete(d.orgs, org)
	}
}

func (d *door) take(of *doorOrg) {
	of.inside++
	d.inside++
	d.most = max(d.most, d.inside)
}

// call gives free places to waiting requests, of the org that has the fewest places first. The caller holds d.mu.
func (d *door) call() {
	for d.waiting > 0 && !d.full() {
		var next *doorOrg
		for _, of := range d.orgs {
			if len(of.queue) > 0 && (next == nil || of.inside < next.inside) {
				next = of
			}
		}
		close(next.next(d.now()).turn)
		d.waiting--
		d.take(next)
	}
}

// adapt sets the limit after a sample of the node's delay.
func (d *door) adapt(delay time.Duration) (limit, inside, waiting int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.limit == 0 {
		d.limit = maxInside
	}
	if delay > maxDelay {
		d.limit = max(float64(minPerCPU*runtime.GOMAXPROCS(0)), min(d.limit, float64(d.most))*shrink)
	} else {
		d.limit = min(maxInside, d.limit*grow+growStep)
	}
	d.most = d.inside
	d.call()
	return int(d.limit), d.inside, d.waiting
}

// Adapt changes how many requests the node works on concurrently, by how long it delayed its own work in the last
// load.Every. It also records the state of the door and the requests in flight.
func (t *Table) Adapt(delay time.Duration) {
	t.deps.Metrics.observeDoor(t.door.adapt(delay))
	t.deps.Metrics.working.Set(float64(t.inFlight.total()))
}

// enter lets a call in, or sheds it if the node is overloaded. It comes before all work whose amount the caller decides.
func (t *Table) enter(w http.ResponseWriter, r *http.Request, call *Call) error {
	if !t.door.enter(r.Context(), call.org()) {
		t.limitRest(w)
		if err := r.Context().Err(); err != nil {
			return err
		}
		t.deps.Metrics.shed.Inc()
		return problem.ServiceUnavailable.New("This server is overloaded and cannot take more calls of this organisation right now.").After(1)
	}
	call.inside, call.entered = true, call.org()
	return nil
}

// isLong reports whether the operation may run for long, most of which it waits: for a platform, a file, a slow reader. A
// resolved operation calls Away instead.
func (op *Operation) isLong() bool {
	return !op.resolved && (op.Streams || op.Timeout > typedTimeout)
}

// Away frees the call's place at the door while it waits for a platform. back takes it again.
func (c *Call) Away() (back func()) {
	if !c.inside {
		return func() {}
	}
	c.goOut()
	return c.comeBack
}

func (c *Call) comeBack() {
	c.table.door.back(c.entered)
	c.inside = true
}

// goOut frees the call's place at the door. It does nothing if the call has none.
func (c *Call) goOut() {
	if c.inside {
		c.table.door.leave(c.entered)
		c.inside = false
	}
}
