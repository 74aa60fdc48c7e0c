package stagedoor

import (
	"context"
	"time"
)

// SkipWaits makes a client report its waits to slept instead of sleeping, without jitter.
func SkipWaits(c *Client, slept func(time.Duration)) {
	c.timing = timing{
		sleep: func(ctx context.Context, d time.Duration) error {
			slept(d)
			return ctx.Err()
		},
		jitter:  func() float64 { return 1 },
		silence: realTiming.silence,
	}
}

// SetSilence sets how long a stream may be silent.
func SetSilence(c *Client, silence time.Duration) { c.timing.silence = silence }
