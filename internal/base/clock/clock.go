// Package clock is the only package that reads the machine's clock. Everything else gets its time from a dependency
// (usually Deps.Now), so that tests can move it.
package clock

import (
	"context"
	"time"
)

// Now returns the current time in UTC. It keeps the monotonic reading, so that durations are correct if the wall clock
// jumps.
func Now() time.Time { return time.Now().UTC() }

// Ticker sends the time on tick every d until stop is called. Like time.Ticker, it skips ticks for a slow reader.
func Ticker(d time.Duration) (tick <-chan time.Time, stop func()) {
	t := time.NewTicker(d)
	return t.C, t.Stop
}

// Every yields immediately, and then every d until ctx ends. Like time.Ticker, it skips ticks for a slow body.
func Every(ctx context.Context, d time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		if yield() {
			Ticks(ctx, d)(yield)
		}
	}
}

// Ticks is Every without the first time.
func Ticks(ctx context.Context, d time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if !yield() {
				return
			}
		}
	}
}

// Pause waits for d. It returns false if ctx ends first.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
