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

// Identical reads that are under way at the same time share one call to the platform. Each of them was admitted and is billed.
//
// A read must show what its caller has written before, on whatever node. So nobody joins a call that may have been sent before a write
// was done: the account must not have been written to for as long as a write can take, before the call that is joined began. The
// admission of every call says when that was.

// flightKey says which reads are identical.
type flightKey struct {
	account id.Account
	method  *catalog.Method
	args    string
}

// flight is a call that others may join.
type flight struct {
	key flightKey
	// done is nil until somebody joins.
	done   chan struct{}
	answer Answer
	err    error
	// began is when it was admitted, by the shared server's clock.
	began time.Time
}

type flights struct {
	mu  sync.Mutex
	all map[flightKey]*flight
}

func newFlights() flights { return flights{all: map[flightKey]*flight{}} }

// settled is how long ago the last write must have been admitted to be surely done.
const settled = callAtMost + 5*time.Second

// sharable says whether an admission says enough of the account's writes.
func sharable(d admission.Decision) bool { return !d.Degraded && !d.At.IsZero() }

// joinable says whether a call may be given the flight's answer.
func (f *flight) joinable(d admission.Decision) bool {
	return d.LastWrite.IsZero() || d.LastWrite.Add(settled).Before(f.began)
}

// flying says whether there is a call that may be joined.
func (f *flights) flying(key flightKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[key] != nil
}

// shared gives the answer of an identical call that is under way, or makes one that others may join. If whoever made it goes away, it is
// broken off, and those who have joined begin again: a read does no harm twice.
func (i *Invoker) shared(ctx context.Context, c Call) (Answer, error) {
	for {
		i.flights.mu.Lock()
		f := i.flights.all[c.key]
		if f == nil || !f.joinable(c.Admission) {
			f = &flight{key: c.key, began: c.Admission.At, err: errBrokenOff}
			i.flights.all[c.key] = f
			i.flights.mu.Unlock()
			return i.lead(ctx, c, f)
		}
		if f.done == nil {
			f.done = make(chan struct{})
		}
		i.flights.mu.Unlock()
		i.metrics.joined.Inc()
		select {
		case <-f.done:
		case <-ctx.Done():
			return Answer{}, context.Cause(ctx)
		}
		if !errors.Is(f.err, context.Canceled) {
			return f.answer, f.err
		}
	}
}

var errBrokenOff = errors.New("the call that was shared broke off")

func (i *Invoker) lead(ctx context.Context, c Call, f *flight) (Answer, error) {
	// Also a panic must not keep those waiting who have joined.
	defer i.flights.land(f)
	f.answer, f.err = i.run(ctx, c)
	return f.answer, f.err
}

// land gives everybody the answer. Nobody joins any more.
func (f *flights) land(one *flight) {
	f.mu.Lock()
	if f.all[one.key] == one {
		delete(f.all, one.key)
	}
	done := one.done
	f.mu.Unlock()
	if done != nil {
		close(done)
	}
}
