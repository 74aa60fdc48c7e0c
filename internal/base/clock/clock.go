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
