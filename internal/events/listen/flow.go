package listen

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// bounds are what one account may hold in memory, and when a frame counts as settled.
type bounds struct {
	// waitFrames and waitBytes bound the frames that wait while missed ones are fetched.
	waitFrames, waitBytes int
	// unackedFrames and unackedBytes bound what the log has not confirmed yet.
	unackedFrames, unackedBytes int
	// A frame is settled when it is so old, or so many came behind it: one that the platform sent out of order has come by then. The
	// number keeps what is fetched again after a crash within what the store can tell apart (event.MaxMarks).
	settle       time.Duration
	settleFrames uint64
}

// usual are the bounds in earnest.
var usual = bounds{
	waitFrames: 4096, waitBytes: 8 << 20, unackedFrames: 512, unackedBytes: 4 << 20, settle: 2 * time.Second, settleFrames: 256,
}

const (
	// markEvery and markFrames are how far apart frames are remembered for the watermark.
	markEvery  = 100 * time.Millisecond
	markFrames = 32
	// filledMost is how many of the frames that were fetched are remembered, to drop those that came by the socket as well.
	filledMost = 8192
)

// flow is where an account's frames stand between the socket and the log, without I/O: which wait while missed ones are fetched, what
// the log has confirmed, and up to which frame all is there.
type flow struct {
	bounds
	filling, spilled bool
	waiting          []catalog.Event
	waitingBytes     int
	filled           map[string]struct{}

	// base is the frame up to which all was there when the flow began, and later that up to which all is confirmed and settled.
	base        string
	marks       []mark
	sent, acked uint64
	unacked     int
}

// mark is a frame that may become the watermark.
type mark struct {
	id string
	// number is that of the frame among those that were sent, first that of the first frame that the mark stands for.
	number, first uint64
	came, began   time.Time
}

// begin makes frames wait until end. after is the frame behind which missed ones are fetched.
func (f *flow) begin(after string) {
	f.filling, f.base, f.marks = true, after, nil
	f.again()
}

// again forgets what waits: it will be fetched.
func (f *flow) again() {
	f.spilled, f.waiting, f.waitingBytes = false, nil, 0
	f.filled = map[string]struct{}{}
}

// wait keeps a frame for later if missed ones are being fetched; false if it can go on.
func (f *flow) wait(e *catalog.Event) bool {
	if !f.filling {
		return false
	}
	if f.spilled {
		return true
	}
	if len(f.waiting) >= f.waitFrames || f.waitingBytes+len(e.Data) > f.waitBytes {
		// All of it can be fetched again, and has to be.
		f.spilled, f.waiting, f.waitingBytes = true, nil, 0
		return true
	}
	f.waiting, f.waitingBytes = append(f.waiting, *e), f.waitingBytes+len(e.Data)
	return true
}

// fetched notes a frame that was fetched.
func (f *flow) fetched(id string) {
	if id != "" && len(f.filled) < filledMost {
		f.filled[id] = struct{}{}
	}
}

// next are waiting frames that were not fetched. None and not spilled means that nothing waits any more: frames go on as they come.
func (f *flow) next() (list []catalog.Event, spilled bool) {
	for {
		if f.spilled {
			return nil, true
		}
		if len(f.waiting) == 0 {
			f.filling, f.filled = false, nil
			return nil, false
		}
		for i := range f.waiting {
			if _, known := f.filled[f.waiting[i].UpstreamID]; !known {
				list = append(list, f.waiting[i])
			}
		}
		f.waiting, f.waitingBytes = nil, 0
		if len(list) > 0 {
			return list, false
		}
	}
}

// full says whether the log must confirm something before more is sent.
func (f *flow) full() bool {
	return f.sent-f.acked >= uint64(f.unackedFrames) || f.unacked >= f.unackedBytes
}

// send notes a frame that goes to the log, and gives the watermark that goes with it. came is when it came; the zero time for one that
// others follow which are known to be newer.
func (f *flow) send(id string, size int, came, now time.Time) (watermark string) {
	f.settleAt(now)
	f.sent++
	f.unacked += size
	if id == "" {
		return f.base
	}
	if n := len(f.marks); n > 0 && came.Sub(f.marks[n-1].began) < markEvery && f.sent-f.marks[n-1].first < markFrames {
		m := &f.marks[n-1]
		m.id, m.number, m.came = id, f.sent, came
	} else {
		f.marks = append(f.marks, mark{id: id, number: f.sent, first: f.sent, came: came, began: came})
	}
	return f.base
}

// unsend takes back the frame that was noted last: it did not go. Nothing is sent after it.
func (f *flow) unsend(size int) {
	if n := len(f.marks); n > 0 && f.marks[n-1].number == f.sent {
		f.marks = f.marks[:n-1]
	}
	f.sent--
	f.unacked -= size
}

// ack notes that the log has the oldest frame that was not confirmed.
func (f *flow) ack(size int) {
	f.acked++
	f.unacked -= size
}

// settleAt moves the watermark.
func (f *flow) settleAt(now time.Time) {
	n := 0
	for _, m := range f.marks {
		if m.number > f.acked || now.Sub(m.came) < f.settle && f.sent-m.number < f.settleFrames {
			break
		}
		f.base = m.id
		n++
	}
	if n > 0 {
		f.marks = append(f.marks[:0], f.marks[n:]...)
	}
}

// reached is the frame up to which all is in the log; empty if nothing is known.
func (f *flow) reached(now time.Time) string {
	f.settleAt(now)
	return f.base
}
