// Package ratelimit bounds how often each of many does something, as far as one node sees it: networks that try, attempts that are polled.
// What is counted over all nodes is in package limit.
package ratelimit

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/stagedoor/stagedoor/internal/base/cache"
)

// known is of how many it is remembered what they did. Beyond it those that were not seen for long begin anew.
const known = 100_000

// Pace is a bound that each has for itself. It may be used by many at once.
type Pace struct {
	times int
	every time.Duration
	by    cache.Cache[string, *rate.Limiter]
	now   func() time.Time
}

// New lets each do something so many times within a time, all at once if it likes.
func New(times int, within time.Duration, now func() time.Time) Pace {
	// Whoever has done nothing for that time has all of it again, and need not be remembered.
	return Pace{times, within / time.Duration(times), cache.NewUsed[string, *rate.Limiter](known, within), now}
}

// Take says whether one may go on, and counts it.
func (p Pace) Take(one string) bool {
	return p.by.GetOrMake(one, func() *rate.Limiter { return rate.NewLimiter(rate.Every(p.every), p.times) }).AllowN(p.now(), 1)
}

// Unused reports whether a key has used nothing lately: its bucket is full.
func (p Pace) Unused(one string) bool {
	l, ok := p.by.Get(one)
	return !ok || l.TokensAt(p.now()) >= float64(p.times)
}

// Spent says whether one has nothing left, without counting.
func (p Pace) Spent(one string) bool {
	l, ok := p.by.Get(one)
	return ok && l.TokensAt(p.now()) < 1
}
