package invoke

import "sync/atomic"

// budget limits retries to a tenth of the calls, so that a failing platform does not get twice the load. It counts in
// tenths of a retry.
type budget struct{ tenths atomic.Int64 }

const (
	// perCall is what a call deposits, perRetry what a retry costs.
	perCall, perRetry = 1, 10
	// maxSaved bounds the balance.
	maxSaved = 100 * perRetry
	// initialCredit is how far the balance may go below zero, so that the first calls can be retried too.
	initialCredit = 10 * perRetry
)

// deposit counts a call.
func (b *budget) deposit() {
	if b.tenths.Load() < maxSaved {
		b.tenths.Add(perCall)
	}
}

// withdraw reports whether a retry is allowed, and deducts its cost if so.
func (b *budget) withdraw() bool {
	for {
		have := b.tenths.Load()
		if have+initialCredit < perRetry {
			return false
		}
		if b.tenths.CompareAndSwap(have, have-perRetry) {
			return true
		}
	}
}
