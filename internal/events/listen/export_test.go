package listen

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// Flow and Coalescer are the parts without I/O.
type (
	Flow      = flow
	Coalescer = coalescer
)

// NewFlow returns a flow with small bounds.
func NewFlow(wait, unacked int, settle time.Duration, settleFrames uint64) *Flow {
	return &flow{bounds: bounds{
		waitFrames: wait, waitBytes: 1 << 20, unackedFrames: unacked, unackedBytes: 1 << 20, settle: settle, settleFrames: settleFrames,
	}}
}

func (f *flow) BeginFill(after string)               { f.beginFill(after) }
func (f *flow) DiscardWaiting()                      { f.discardWaiting() }
func (f *flow) Buffer(e *catalog.Event) bool         { return f.buffer(e) }
func (f *flow) RecordFetched(id string)              { f.recordFetched(id) }
func (f *flow) TakeWaiting() ([]catalog.Event, bool) { return f.takeWaiting() }
func (f *flow) IsFull() bool                         { return f.isFull() }
func (f *flow) Ack(size int)                         { f.ack(size) }
func (f *flow) UndoSend(size int)                    { f.undoSend(size) }
func (f *flow) Watermark(now time.Time) string       { return f.watermarkAt(now) }
func (f *flow) Candidates() int                      { return len(f.candidates) }
func (f *flow) Send(id string, size int, came, now time.Time) string {
	return f.send(id, size, came, now)
}

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
