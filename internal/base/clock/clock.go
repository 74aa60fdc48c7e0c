// Package clock is where time comes from: the only package that reads the machine's clock, so that
// everything else can be given another one.
package clock

import (
	"context"
	"time"
)

// Now returns the time in UTC, with the monotonic reading that durations need.
func Now() time.Time { return time.Now().UTC() }

// Ticker ticks every d until it is stopped.
func Ticker(d time.Duration) (tick <-chan time.Time, stop func()) {
	t := time.NewTicker(d)
	return t.C, t.Stop
}

// Pause waits; false if the context ends first.
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
