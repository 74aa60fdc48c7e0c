// Package flow decides, without I/O, what a listener does with the frames of its account between the socket and the event
// log. A Flow tracks which frames wait, what the log has confirmed, and the watermark. A Fill (fill.go) decides how
// missed frames are fetched. Package listen does what they decide.
package flow

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// Bounds limits what one account may hold in memory, and defines when a frame counts as settled.
type Bounds struct {
	// WaitFrames and WaitBytes bound the frames that wait during a fill.
	WaitFrames, WaitBytes int
	// UnackedFrames and UnackedBytes bound what the log has not confirmed.
	UnackedFrames, UnackedBytes int
	// A frame is settled when it is Settle old, or when SettleFrames frames were sent after it: by then frames that the
	// platform sent out of order have arrived. The number keeps what is fetched again after a crash within what ingest
	// recognises as repeats without a query (event.MaxDedupKeys).
	Settle       time.Duration
	SettleFrames uint64
}

// Defaults returns the bounds in production; tests use smaller ones.
func Defaults() Bounds {
	return Bounds{
		WaitFrames: 4096, WaitBytes: 8 << 20, UnackedFrames: 512, UnackedBytes: 4 << 20, Settle: 2 * time.Second, SettleFrames: 256,
	}
}

const (
	// candidateEvery and candidateFrames are the distance between watermark candidates, in time and in frames. Not every
	// frame needs to be one.
	candidateEvery  = 100 * time.Millisecond
	candidateFrames = 32
	// maxFetched bounds the ids of fetched frames that are kept, to drop frames that the socket received as well.
	maxFetched = 8192
)

// Flow tracks an account's frames between the socket and the log: which frames wait during a fill, what the log has
// confirmed, and the watermark. It is not safe for concurrent use.
type Flow struct {
	bounds Bounds
	// filling means that frames must wait. spilled means that too many arrived, so that all of them must be fetched.
	filling, spilled bool
	waiting          []catalog.Event
	waitingBytes     int
	fetched          map[string]struct{}

	// watermark is the frame up to which everything is confirmed and settled; at first, the frame that the fill started
	// from.
	watermark  string
	candidates []candidate
	// sent and acked count frames; unacked is in bytes.
	sent, acked uint64
	unacked     int
	// newest is the newest time of a frame that was sent, by the platform's clock; zero if frames have none.
	newest time.Time
}

// New returns a flow without frames.
func New(b Bounds) Flow { return Flow{bounds: b} }

// candidate is a frame that may become the watermark.
type candidate struct {
	id string
	// number is the number of the frame among those sent, first that of the first frame that the candidate stands for.
	number, first uint64
	came, began   time.Time
	// newest is Flow.newest when the frame was sent.
	newest time.Time
	// through is the number of the last frame that was sent before the candidate had settled; 0 if it has not. Those that
	// the platform sent before the candidate are among them, so all must be confirmed.
	through uint64
}

// BeginFill makes frames wait until TakeWaiting finds none. after is the frame after which missed ones are fetched.
func (f *Flow) BeginFill(after string) {
	f.filling, f.watermark, f.candidates = true, after, nil
	f.DiscardWaiting()
}

// DiscardWaiting drops the waiting frames, because they will be fetched.
func (f *Flow) DiscardWaiting() {
	f.spilled, f.waiting, f.waitingBytes = false, nil, 0
	f.fetched = map[string]struct{}{}
}

// Buffer keeps a frame for later during a fill; false means that the frame can be published.
func (f *Flow) Buffer(e *catalog.Event) bool {
	if !f.filling {
		return false
	}
	if f.spilled {
		return true
	}
	if len(f.waiting) >= f.bounds.WaitFrames || f.waitingBytes+len(e.Data) > f.bounds.WaitBytes {
		// The platform lists all of them, so fetch them instead.
		f.spilled, f.waiting, f.waitingBytes = true, nil, 0
		return true
	}
	f.waiting, f.waitingBytes = append(f.waiting, *e), f.waitingBytes+len(e.Data)
	return true
}

// RecordFetched remembers a frame that was fetched, so that TakeWaiting does not return it as well.
func (f *Flow) RecordFetched(id string) {
	if id != "" && len(f.fetched) < maxFetched {
		f.fetched[id] = struct{}{}
	}
}

// TakeWaiting returns and removes the waiting frames that were not fetched. If it returns none and not spilled, the
// fill has ended and frames no longer wait.
func (f *Flow) TakeWaiting() (list []catalog.Event, spilled bool) {
	for {
		if f.spilled {
			return nil, true
		}
		if len(f.waiting) == 0 {
			f.filling, f.fetched = false, nil
			return nil, false
		}
		for i := range f.waiting {
			if _, known := f.fetched[f.waiting[i].UpstreamID]; !known {
				list = append(list, f.waiting[i])
			}
		}
		f.waiting, f.waitingBytes = nil, 0
		if len(list) > 0 {
			return list, false
		}
	}
}

// IsFull reports whether the log must confirm something before more is sent.
func (f *Flow) IsFull() bool {
	return f.sent-f.acked >= uint64(f.bounds.UnackedFrames) || f.unacked >= f.bounds.UnackedBytes
}

// Send records a frame that is sent to the log, and returns the watermark for its record. at is its time by the platform's
// clock; zero if it has none. came is when it arrived; zero for a listed frame that newer frames follow, which is settled
// immediately.
func (f *Flow) Send(id string, size int, at, came, now time.Time) (watermark string) {
	if at.After(f.newest) {
		f.newest = at
	}
	f.advanceWatermark(now)
	f.sent++
	f.unacked += size
	if id == "" {
		return f.watermark
	}
	if n := len(f.candidates); n > 0 && came.Sub(f.candidates[n-1].began) < candidateEvery &&
		f.sent-f.candidates[n-1].first < candidateFrames {
		m := &f.candidates[n-1]
		m.id, m.number, m.came, m.newest, m.through = id, f.sent, came, f.newest, 0
	} else {
		f.candidates = append(f.candidates, candidate{id: id, number: f.sent, first: f.sent, came: came, began: came, newest: f.newest})
	}
	return f.watermark
}

// UndoSend undoes the last Send, because the frame could not be appended. Nothing is sent after it.
func (f *Flow) UndoSend(size int) {
	if n := len(f.candidates); n > 0 && f.candidates[n-1].number == f.sent {
		f.candidates = f.candidates[:n-1]
	}
	f.sent--
	f.unacked -= size
}

// Ack records that the log has confirmed the oldest unconfirmed frame.
func (f *Flow) Ack(size int) {
	f.acked++
	f.unacked -= size
}

// IsConfirmed reports whether the log has confirmed everything that was sent.
func (f *Flow) IsConfirmed() bool { return f.sent == f.acked }

// SetWatermark sets the watermark: everything up to there is confirmed, or cannot be fetched.
func (f *Flow) SetWatermark(watermark string) { f.watermark = watermark }

// advanceWatermark moves the watermark to the newest candidate that has settled at now, if everything that was sent until
// then is confirmed.
func (f *Flow) advanceWatermark(now time.Time) {
	n := 0
	for i := range f.candidates {
		m := &f.candidates[i]
		if m.through == 0 && f.isSettled(m, now) {
			if m.through = f.sent; m.came.IsZero() {
				m.through = m.number
			}
		}
		if m.through == 0 || m.through > f.acked {
			break
		}
		f.watermark = m.id
		n++
	}
	if n > 0 {
		f.candidates = append(f.candidates[:0], f.candidates[n:]...)
	}
}

// isSettled reports whether the frames that the platform sent out of order before a candidate have arrived. That the
// candidate is old enough does not suffice: if the node was paused, or waited for the log, they may still be unread in
// the socket. So a frame must have been read that the platform sent late enough after it.
func (f *Flow) isSettled(m *candidate, now time.Time) bool {
	if f.sent-m.number >= f.bounds.SettleFrames || m.came.IsZero() {
		return true
	}
	return now.Sub(m.came) >= f.bounds.Settle && (f.newest.IsZero() || f.newest.Sub(m.newest) >= f.bounds.Settle)
}

// WatermarkAt returns the watermark at a time; empty if unknown.
func (f *Flow) WatermarkAt(now time.Time) string {
	f.advanceWatermark(now)
	return f.watermark
}
