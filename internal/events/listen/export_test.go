package listen

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// Coalescer is coalescer, for tests.
type Coalescer = coalescer

func (c *coalescer) Add(e *catalog.Event, now time.Time) bool { return c.add(e, now) }
func (c *coalescer) Due(now time.Time) ([]catalog.Event, time.Time) {
	return c.due(now)
}

// Backoff returns the wait before the n-th try.
func (c Config) Backoff(n int) time.Duration { return c.withDefaults().backoff(n) }

// MinPollInterval is the pause after a poll when more items are waiting.
const MinPollInterval = minPollInterval

// NewPollPace returns what decides the wait after each poll.
func NewPollPace(spec *catalog.Poll) func(*driver.Polled) time.Duration {
	p := newPollPace(spec)
	return p.next
}
