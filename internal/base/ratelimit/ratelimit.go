// Package ratelimit limits how often each key, such as a network address or a connect attempt, may do something on this
// node. Nodes do not share their counts: package admission holds the limits that all nodes enforce together.
package ratelimit

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/stagedoor/stagedoor/internal/base/cache"
)

// maxKeys limits how many keys are tracked. An evicted key starts with a full bucket.
const maxKeys = 100_000

// Pace holds a token bucket per key. It is safe for concurrent use; copies share their buckets.
type Pace struct {
	burst   int
	refill  time.Duration // time until one token is added
	buckets cache.Cache[string, *rate.Limiter]
	now     func() time.Time
}

// New allows each key a burst of times actions. An empty bucket is full again after within.
func New(times int, within time.Duration, now func() time.Time) Pace {
	// After that time without use a bucket is full anyway, so it can be forgotten.
	return Pace{times, within / time.Duration(times), cache.NewUsed[string, *rate.Limiter](maxKeys, within), now}
}

// Take takes a token from the key's bucket and reports whether there was one.
func (p Pace) Take(key string) bool {
	newBucket := func() *rate.Limiter { return rate.NewLimiter(rate.Every(p.refill), p.burst) }
	return p.buckets.GetOrMake(key, newBucket).AllowN(p.now(), 1)
}

// Unused reports whether the key's bucket is full: the key has used nothing lately.
func (p Pace) Unused(key string) bool {
	l, ok := p.buckets.Get(key)
	return !ok || l.TokensAt(p.now()) >= float64(p.burst)
}

// Spent reports whether the key's bucket is empty, without taking a token.
func (p Pace) Spent(key string) bool {
	l, ok := p.buckets.Get(key)
	return ok && l.TokensAt(p.now()) < 1
}
