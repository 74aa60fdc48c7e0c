package requestlog

import (
	"sync"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

const (
	// blockSize is how many entries are taken, kept and dropped together.
	blockSize = 1024
	// maxBlocks bounds the memory while the database is away: the entries that wait in the buffer, and again those that left it.
	maxBlocks = 128
	// maxSpare is how many empty blocks are kept for later.
	maxSpare = 16
	// maxRefused is how many calls over a limit are noted of one org between two flushes. Whoever ignores a 429 calls as fast as it
	// can, and would fill the log with nothing else.
	maxRefused = 100
)

// block is a run of entries. Its memory does not move while entries are added.
type block []Entry

// buffer gathers entries until they are taken.
type buffer struct {
	mu      sync.Mutex
	full    []block
	current block
	spare   []block
	// refused are the calls over a limit since the last take.
	refused map[id.Org]int
}

// add keeps an entry, unless it is one refusal too many. Where there is no room it drops the oldest block.
func (b *buffer) add(e *Entry) (refused bool, dropped int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.Problem == problem.QuotaExceeded.Code {
		if b.refused[e.Org] >= maxRefused {
			return true, 0
		}
		b.refused[e.Org]++
	}
	if len(b.current) == cap(b.current) {
		dropped = b.turn()
	}
	b.current = append(b.current, *e)
	return false, dropped
}

// turn begins a new block.
func (b *buffer) turn() (dropped int) {
	if len(b.current) > 0 {
		b.full = append(b.full, b.current)
	}
	if len(b.full) >= maxBlocks {
		dropped = len(b.full[0])
		b.keep(b.full[0])
		b.full = append(b.full[:0], b.full[1:]...)
	}
	if n := len(b.spare); n > 0 {
		b.current, b.spare = b.spare[n-1], b.spare[:n-1]
	} else {
		b.current = make(block, 0, blockSize)
	}
	return dropped
}

// take empties the buffer; the oldest are first.
func (b *buffer) take() []block {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.full
	if len(b.current) > 0 {
		taken = append(taken, b.current)
		b.current = nil
	}
	b.full = nil
	clear(b.refused)
	return taken
}

// give returns blocks whose entries nobody needs any more.
func (b *buffer) give(blocks []block) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, used := range blocks {
		b.keep(used)
	}
}

func (b *buffer) keep(used block) {
	if len(b.spare) < maxSpare {
		clear(used) // the texts of its entries are not held on to
		b.spare = append(b.spare, used[:0])
	}
}
