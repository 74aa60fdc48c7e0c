package flow_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/events/listen/flow"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// newFlow returns a flow with small bounds.
func newFlow(wait, unacked int, settle time.Duration, settleFrames uint64) *flow.Flow {
	f := flow.New(flow.Bounds{
		WaitFrames: wait, WaitBytes: 1 << 20, UnackedFrames: unacked, UnackedBytes: 1 << 20, Settle: settle, SettleFrames: settleFrames,
	})
	return &f
}

func frame(n int) *catalog.Event {
	return &catalog.Event{Kind: "message", Class: catalog.Durable, UpstreamID: strconv.Itoa(n), Data: []byte(`{}`)}
}

func TestFramesWaitWhileMissedOnesAreFetched(t *testing.T) {
	t.Parallel()
	f := newFlow(3, 10, time.Second, 100)
	if f.Buffer(frame(1)) {
		t.Fatal("a frame waits without a fill")
	}
	f.BeginFill("1")
	for n := 2; n <= 4; n++ {
		if !f.Buffer(frame(n)) {
			t.Fatal(n)
		}
	}
	f.RecordFetched("2")
	f.RecordFetched("3")
	list, spilled := f.TakeWaiting()
	if spilled || len(list) != 1 || list[0].UpstreamID != "4" {
		t.Fatalf("%v %t", list, spilled)
	}
	f.Buffer(frame(5))
	if list, _ = f.TakeWaiting(); len(list) != 1 || list[0].UpstreamID != "5" {
		t.Fatalf("%v", list)
	}
	if list, spilled = f.TakeWaiting(); len(list) != 0 || spilled || f.Buffer(frame(6)) {
		t.Fatal("frames wait after the fill")
	}
}

func TestTooManyWaitingFramesAreFetchedInstead(t *testing.T) {
	t.Parallel()
	f := newFlow(3, 10, time.Second, 100)
	f.BeginFill("0")
	for n := 1; n <= 5; n++ {
		f.Buffer(frame(n))
	}
	if list, spilled := f.TakeWaiting(); len(list) != 0 || !spilled {
		t.Fatalf("%v %t", list, spilled)
	}
	f.DiscardWaiting()
	f.Buffer(frame(6))
	if list, spilled := f.TakeWaiting(); len(list) != 1 || spilled {
		t.Fatalf("%v %t", list, spilled)
	}
}

func TestWatermarkIsConfirmedAndSettled(t *testing.T) {
	t.Parallel()
	f := newFlow(10, 1000, 2*time.Second, 100)
	f.BeginFill("0")
	f.TakeWaiting()
	send := func(n int, at time.Time) string { return f.Send(strconv.Itoa(n), 1, time.Time{}, at, at) }
	if w := send(1, noon); w != "0" {
		t.Fatal(w)
	}
	if w := send(2, noon.Add(3*time.Second)); w != "0" {
		t.Fatalf("%s is not confirmed by the log", w)
	}
	f.Ack(1)
	if w := send(3, noon.Add(4*time.Second)); w != "1" {
		t.Fatal(w)
	}
	f.Ack(1)
	f.Ack(1)
	if w := f.WatermarkAt(noon.Add(4 * time.Second)); w != "1" {
		t.Fatalf("%s is not settled", w)
	}
	if w := f.WatermarkAt(noon.Add(5 * time.Second)); w != "2" {
		t.Fatal(w)
	}
	if w := f.WatermarkAt(noon.Add(time.Minute)); w != "3" || f.Candidates() != 0 {
		t.Fatal(w)
	}
}

// A frame that the platform sent out of order may be unread in the socket for as long as the node is paused or waits for
// the log. The watermark passes it only when a frame was read that the platform sent later.
func TestWatermarkWaitsForUnreadFrames(t *testing.T) {
	t.Parallel()
	f := newFlow(10, 1000, 2*time.Second, 100)
	f.BeginFill("0")
	f.TakeWaiting()
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	f.Send("2", 1, at(time.Second), at(time.Second), at(time.Second)) // before frame 1
	f.Ack(1)
	// The node was paused for ten seconds. Frame 1 is still in the socket, after frame 3.
	if w := f.Send("3", 1, at(1500*time.Millisecond), at(11*time.Second), at(11*time.Second)); w != "0" {
		t.Fatalf("the watermark is %s, but frame 1 was not read", w)
	}
	f.Ack(1)
	f.Send("1", 1, at(0), at(11*time.Second), at(11*time.Second))
	f.Ack(1)
	if w := f.Send("4", 1, at(3*time.Second), at(12*time.Second), at(12*time.Second)); w != "2" {
		t.Fatalf("the watermark is %s, want 2", w)
	}
}

// A frame that the platform sent out of order is fetched again if the log did not confirm it.
func TestWatermarkWaitsUntilFramesThatCameLaterAreConfirmed(t *testing.T) {
	t.Parallel()
	f := newFlow(10, 1000, 2*time.Second, 100)
	f.BeginFill("0")
	f.TakeWaiting()
	send := func(id string, at time.Duration) { f.Send(id, 1, noon.Add(at), noon.Add(at), noon.Add(at)) }
	send("2", 0)
	f.Ack(1)
	send("1", time.Second)
	send("3", 5*time.Second)
	if w := f.WatermarkAt(noon.Add(time.Minute)); w != "0" {
		t.Fatalf("the watermark is %s, but frame 1 is not confirmed", w)
	}
	f.Ack(1)
	f.Ack(1)
	if w := f.WatermarkAt(noon.Add(time.Minute)); w != "1" {
		t.Fatalf("the watermark is %s, want 1", w)
	}
}

// Frames that arrive fast settle by their number, so that few are fetched again after a crash, with few candidates in
// memory.
func TestFloodSettlesByNumber(t *testing.T) {
	t.Parallel()
	const settle = 64
	f := newFlow(10, 1<<20, time.Hour, settle)
	f.BeginFill("0")
	f.TakeWaiting()
	for n := 1; n <= 10_000; n++ {
		w, err := strconv.Atoi(f.Send(strconv.Itoa(n), 1, time.Time{}, noon, noon))
		f.Ack(1)
		if err != nil || n-w > settle+34 || n > settle && n-w < settle {
			t.Fatalf("frame %d has the watermark %d", n, w)
		}
		if f.Candidates() > 8 {
			t.Fatalf("%d candidates", f.Candidates())
		}
	}
}

func TestFrameThatWasNotAppendedIsNoWatermark(t *testing.T) {
	t.Parallel()
	f := newFlow(10, 10, time.Second, 100)
	f.BeginFill("0")
	f.TakeWaiting()
	f.Send("1", 1, time.Time{}, noon, noon)
	f.Ack(1)
	f.Send("2", 1, time.Time{}, noon.Add(time.Minute), noon.Add(time.Minute))
	f.UndoSend(1)
	if w := f.WatermarkAt(noon.Add(time.Hour)); w != "1" {
		t.Fatal(w)
	}
}

func TestUnconfirmedFramesAreLimited(t *testing.T) {
	t.Parallel()
	f := newFlow(10, 3, time.Second, 100)
	for n := range 3 {
		if f.IsFull() {
			t.Fatal(n)
		}
		f.Send("", 1, time.Time{}, noon, noon)
	}
	if !f.IsFull() {
		t.Fatal("three unconfirmed frames must be the limit")
	}
	f.Ack(1)
	if f.IsFull() {
		t.Fatal("full although a frame was confirmed")
	}
}

// world simulates a platform, a log and a store: frames are numbered from 1, lists are complete, and sockets may swap
// neighbours, repeat frames and end at any time.
type world struct {
	r      *rand.Rand
	now    time.Time
	newest int
	// log holds the confirmed records that are not stored yet, in order; stored the frames in the store.
	log       []logged
	stored    []int
	known     map[int]bool
	watermark int
	unacked   []logged
	socket    []int
	held      int
}

type logged struct{ id, watermark int }

func (w *world) emit() {
	w.newest++
	w.now = w.now.Add(time.Duration(w.r.IntN(700)) * time.Millisecond)
	switch {
	case w.held > 0:
		w.socket = append(w.socket, w.newest, w.held)
		w.held = 0
	case w.r.IntN(8) == 0:
		w.held = w.newest // arrives after the next one
	default:
		w.socket = append(w.socket, w.newest)
	}
	if w.r.IntN(10) == 0 && len(w.socket) > 0 {
		w.socket = append(w.socket, w.socket[len(w.socket)-1])
	}
}

func (w *world) send(f *flow.Flow, id int, came time.Time) {
	mark, _ := strconv.Atoi(f.Send(strconv.Itoa(id), 1, time.Time{}, came, w.now))
	w.unacked = append(w.unacked, logged{id, mark})
}

// confirm makes the log confirm up to n frames.
func (w *world) confirm(f *flow.Flow, n int) {
	for range min(n, len(w.unacked)) {
		w.log = append(w.log, w.unacked[0])
		w.unacked = w.unacked[1:]
		f.Ack(1)
	}
}

// storeRecords makes the store take up to n records from the log.
func (w *world) storeRecords(n int) {
	for range min(n, len(w.log)) {
		one := w.log[0]
		w.log = w.log[1:]
		if !w.known[one.id] {
			w.known[one.id] = true
			w.stored = append(w.stored, one.id)
		}
		w.watermark = one.watermark
	}
}

// runSocket simulates one socket, from its opening to its end.
func (w *world) runSocket(from int) {
	f := newFlow(1+w.r.IntN(20), 5+w.r.IntN(20), 2*time.Second, 1000)
	w.socket, w.held = nil, 0
	f.BeginFill(strconv.Itoa(from))
	at, filling := from, true
	for steps := w.r.IntN(200); steps > 0; steps-- {
		switch w.r.IntN(6) {
		case 0, 1:
			w.emit()
		case 2:
			w.confirm(f, w.r.IntN(5))
		case 3:
			w.storeRecords(w.r.IntN(8))
		case 4:
			if len(w.socket) > 0 && !f.IsFull() {
				id := w.socket[0]
				w.socket = w.socket[1:]
				if !f.Buffer(frame(id)) {
					w.send(f, id, w.now)
				}
			}
		case 5:
			if filling {
				at, filling = w.fetch(f, at)
			}
		}
	}
	for _, one := range w.unacked { // the log may have received some of them
		if w.r.IntN(2) == 0 {
			break
		}
		w.log = append(w.log, one)
	}
	w.unacked = nil
}

// fetch fetches a page of missed frames, or publishes the waiting ones if there are no more; more is false when the
// fill has ended.
func (w *world) fetch(f *flow.Flow, at int) (reached int, more bool) {
	if f.IsFull() {
		return at, true
	}
	until := min(at+1+w.r.IntN(4), w.newest)
	for id := at + 1; id <= until; id++ {
		came := w.now
		if until < w.newest {
			came = time.Time{}
		}
		f.RecordFetched(strconv.Itoa(id))
		w.send(f, id, came)
	}
	if until < w.newest {
		return until, true
	}
	list, spilled := f.TakeWaiting()
	if spilled {
		f.DiscardWaiting()
	}
	for i := range list {
		id, _ := strconv.Atoi(list[i].UpstreamID)
		w.send(f, id, w.now)
	}
	return until, spilled || len(list) > 0
}

// Whatever happens to sockets, the log and the store, every frame is stored in the end.
func TestNoFrameIsLostWhateverFails(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		w := &world{r: rand.New(rand.NewPCG(seed, 7)), now: noon, known: map[int]bool{}}
		for range 1 + w.r.IntN(6) {
			if w.r.IntN(3) == 0 {
				w.log = nil // the log was lost
			}
			w.runSocket(w.watermark)
		}
		w.log = nil
		// The last socket is not cut.
		f := newFlow(1000, 1<<20, 2*time.Second, 1000)
		f.BeginFill(strconv.Itoa(w.watermark))
		for at, more := w.watermark, true; more; {
			at, more = w.fetch(f, at)
		}
		w.confirm(f, len(w.unacked))
		w.storeRecords(len(w.log))
		slices.Sort(w.stored)
		for i, id := range w.stored {
			if id != i+1 {
				t.Fatalf("seed %d: frame %d is missing", seed, i+1)
			}
		}
		if len(w.stored) != w.newest {
			t.Fatalf("seed %d: %d of %d frames", seed, len(w.stored), w.newest)
		}
	}
}
