package invoke

import "sync/atomic"

// budget keeps repetitions to a tenth of the calls, so that a platform in trouble does not get twice the load. It is counted in tenths.
type budget struct{ tenths atomic.Int64 }

const (
	// perCall is what a call puts in, perRetry what a repetition takes out.
	perCall, perRetry = 1, 10
	// mostSaved bounds what quiet times save up.
	mostSaved = 100 * perRetry
	// lent is what there is at first, so that the first calls may be repeated too.
	lent = 10 * perRetry
)

// put counts a call.
func (b *budget) put() {
	if b.tenths.Load() < mostSaved {
		b.tenths.Add(perCall)
	}
}

// take says whether a call may be repeated, and takes from the budget if so.
func (b *budget) take() bool {
	for {
		have := b.tenths.Load()
		if have+lent < perRetry {
			return false
		}
		if b.tenths.CompareAndSwap(have, have-perRetry) {
			return true
		}
	}
}
