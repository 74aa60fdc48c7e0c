package bench

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stagedoor/stagedoor/internal/test/must"
)

// boardVariable is the environment variable with the board's file name, for the processes of a benchmark.
const boardVariable = "BENCH_BOARD"

const (
	tickLength = 100 * time.Microsecond
	ticks      = 1 << 17 // 13 s; the last tick holds all longer durations
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

// quantile returns a quantile in milliseconds.
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

// board is memory that the processes of a benchmark share, so that a source sees what was received without requests.
type board struct {
	// received counts all answered requests, healthy those to timed paths.
	received, healthy atomic.Int64
	// repeated and skipped count violations of the sequence numbers of ordered paths.
	repeated, skipped atomic.Int64
	// beganAt is when the source started, lastAt when the last request arrived, in Unix nanoseconds.
	beganAt, lastAt atomic.Int64
	// hold pauses the bare loop.
	hold atomic.Int64
	// stored holds the latencies since an event's ts, published those since its source created it.
	stored, published histogram
	// seqs holds the last sequence number of each path.
	seqs [boardPaths]atomic.Int64
}

// openBoard maps the board of a file, which it creates if necessary.
func openBoard(tb testing.TB, file string) *board {
	tb.Helper()
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	must.OK(tb, err)
	defer f.Close()
	size := int(unsafe.Sizeof(board{}))
	must.OK(tb, f.Truncate(int64(size)))
	memory, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	must.OK(tb, err)
	return (*board)(unsafe.Pointer(&memory[0])) // page-aligned
}

func newBoard(b *testing.B) (shown *board, file string) {
	b.Helper()
	file = filepath.Join(b.TempDir(), "board")
	return openBoard(b, file), file
}
