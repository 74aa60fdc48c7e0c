package stagedoor

import (
	"context"
	"time"
)

// Hurry makes a client wait for nothing, and tells how long it would have waited. Chance is left out.
func Hurry(c *Client, slept func(time.Duration)) {
	c.pace = pace{
		sleep: func(ctx context.Context, d time.Duration) error {
			slept(d)
			return ctx.Err()
		},
		jitter:  func() float64 { return 1 },
		silence: realPace.silence,
	}
}

// Impatient makes a client take a stream for dead after so long.
func Impatient(c *Client, silence time.Duration) { c.pace.silence = silence }
