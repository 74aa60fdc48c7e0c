package invoke

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// Concurrent identical reads share one call to the platform, a flight. Each of them is admitted and billed.
//
// A read must show everything that was written before it, on any node. So a read must not join a flight that may have
// been sent before a write was complete: the account's last write must have been admitted at least writeSettleTime
// before the flight began. Every admission returns the time of the account's last write.
//
// A read must also see every change of the account itself: it must not get the result of a flight that was admitted
// before the account was paused or disconnected. So it joins only a flight with at least its own session version.

// flightKey identifies identical reads.
type flightKey struct {
	account id.Account
	method  *catalog.Method
	args    string
}

// flight is a call that others can join.
type flight struct {
	key flightKey
	// done is closed when the flight has ended. It is nil until a call joins.
	done   chan struct{}
	answer Answer
	err    error
	// began is the time of its admission, by the clock of Redis, and version the session version of that admission.
	began   time.Time
	version uint32
}

type flights struct {
	mu  sync.Mutex
	all map[flightKey]*flight
}

func newFlights() flights { return flights{all: map[flightKey]*flight{}} }

// writeSettleTime is the time after its admission when a write has certainly ended.
const writeSettleTime = callTimeout + 5*time.Second

// sharable reports whether an admission has the time of the account's last write, without which no call may be shared.
func sharable(d admission.Decision) bool { return !d.Degraded && !d.At.IsZero() }

// joinable reports whether a call with this admission may use the flight's result.
func (f *flight) joinable(d admission.Decision) bool {
	return d.SessionVersion > 0 && f.version >= d.SessionVersion &&
		(d.LastWrite.IsZero() || d.LastWrite.Add(writeSettleTime).Before(f.began))
}

func (f *flights) hasFlight(key flightKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[key] != nil
}

// doShared joins an identical call in progress, or starts one that others can join. If the caller that started a
// flight goes away, the flight is cancelled, and the calls that joined it start over, which is harmless for reads.
func (i *Invoker) doShared(ctx context.Context, c Call) (Answer, error) {
	for {
		i.flights.mu.Lock()
		f := i.flights.all[c.key]
		// A flight that this call must not join is replaced: later calls join the newer one.
		if f == nil || !f.joinable(c.Admission) {
			f = &flight{key: c.key, began: c.Admission.At, version: c.Admission.SessionVersion, err: errBrokenOff}
			i.flights.all[c.key] = f
			i.flights.mu.Unlock()
			return i.runShared(ctx, c, f)
		}
		if f.done == nil {
			f.done = make(chan struct{})
		}
		i.flights.mu.Unlock()
		i.metrics.joined.Inc()
		if c.hasPlace() {
			// The call needs it no longer. The flight may wait for a place, which it would not get if the calls that
			// joined it had them all.
			c.place.release()
		}
		back := c.away()
		select {
		case <-f.done:
			back()
		case <-ctx.Done():
			back()
			return Answer{}, context.Cause(ctx)
		}
		// Cancelled means that the first caller went away; start over.
		if !errors.Is(f.err, context.Canceled) {
			return f.answer, f.err
		}
	}
}

// errBrokenOff is the error of a flight until it has a result. Joined calls get it only after a panic.
var errBrokenOff = errors.New("the shared call did not finish")

func (i *Invoker) runShared(ctx context.Context, c Call, f *flight) (Answer, error) {
	// Deferred, so that a panic does not leave joined calls waiting.
	defer i.flights.finish(f)
	f.answer, f.err = i.run(ctx, c)
	return f.answer, f.err
}

// finish ends a flight: no call can join any more, and the joined calls get its result.
func (f *flights) finish(one *flight) {
	f.mu.Lock()
	if f.all[one.key] == one { // a newer flight may have replaced it
		delete(f.all, one.key)
	}
	done := one.done
	f.mu.Unlock()
	if done != nil {
		close(done)
	}
}
