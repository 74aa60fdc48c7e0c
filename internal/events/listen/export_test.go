package listen

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// Flow and Coalescer are the parts without I/O.
type (
	Flow      = flow
	Coalescer = coalescer
)

// NewFlow makes a flow with small bounds.
func NewFlow(wait, unacked int, settle time.Duration, settleFrames uint64) *Flow {
	return &flow{bounds: bounds{
		waitFrames: wait, waitBytes: 1 << 20, unackedFrames: unacked, unackedBytes: 1 << 20, settle: settle, settleFrames: settleFrames,
	}}
}

func (f *flow) Begin(after string)            { f.begin(after) }
func (f *flow) Again()                        { f.again() }
func (f *flow) Wait(e *catalog.Event) bool    { return f.wait(e) }
func (f *flow) Fetched(id string)             { f.fetched(id) }
func (f *flow) Next() ([]catalog.Event, bool) { return f.next() }
func (f *flow) Full() bool                    { return f.full() }
func (f *flow) Ack(size int)                  { f.ack(size) }
func (f *flow) Unsend(size int)               { f.unsend(size) }
func (f *flow) Reached(now time.Time) string  { return f.reached(now) }
func (f *flow) Marks() int                    { return len(f.marks) }
func (f *flow) Send(id string, size int, came, now time.Time) string {
	return f.send(id, size, came, now)
}

func (c *coalescer) Came(e *catalog.Event, now time.Time) bool { return c.came(e, now) }
func (c *coalescer) Due(now time.Time) ([]catalog.Event, time.Time) {
	return c.due(now)
}

// Backoff is how long the n-th try waits.
func (c Config) Backoff(n int) time.Duration { return c.filled().backoff(n) }
