package bench

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// boardVariable names the file of the board to the processes of a benchmark.
const boardVariable = "BENCH_BOARD"

const (
	tickLength = 100 * time.Microsecond
	ticks      = 1 << 17 // 13 s; the last one is for all that is longer
	boardPaths = 1 << 18
)

// histogram counts durations.
type histogram [ticks]atomic.Int64

func (h *histogram) add(d time.Duration) {
	h[min(max(int(d/tickLength), 0), ticks-1)].Add(1)
}

func (h *histogram) reset() {
	for i := range h {
		h[i].Store(0)
	}
}

// quantile is in milliseconds.
func (h *histogram) quantile(q float64) float64 {
	var total, sum int64
	for i := range h {
		total += h[i].Load()
	}
	for i := range h {
		if sum += h[i].Load(); sum > int64(q*float64(total)) {
			return (time.Duration(i+1) * tickLength).Seconds() * 1000
		}
	}
	return 0
}

// board is memory that the processes of a benchmark share: who publishes knows what was received without asking.
type board struct {
	// received counts requests that were answered, healthy those of paths that are timed.
	received, healthy atomic.Int64
	// repeated and skipped are by the sequence numbers of paths that are in order.
	repeated, skipped atomic.Int64
	// beganAt is when the source began, lastAt when the last request came, in nanoseconds.
	beganAt, lastAt atomic.Int64
	// hold keeps the bare loop from taking anything.
	hold atomic.Int64
	// stored is from an event's ts, published from when its source had it.
	stored, published histogram
	// seqs is the last sequence number of each path.
	seqs [boardPaths]atomic.Int64
}

// openBoard maps the board of a file, which is made if it is not there.
func openBoard(tb testing.TB, file string) *board {
	tb.Helper()
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	size := int(unsafe.Sizeof(board{}))
	if err := f.Truncate(int64(size)); err != nil {
		tb.Fatal(err)
	}
	memory, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		tb.Fatal(err)
	}
	return (*board)(unsafe.Pointer(&memory[0])) // it is aligned to a page
}

func newBoard(b *testing.B) (shown *board, file string) {
	b.Helper()
	file = filepath.Join(b.TempDir(), "board")
	return openBoard(b, file), file
}
