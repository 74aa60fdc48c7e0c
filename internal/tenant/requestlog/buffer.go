package requestlog

import (
	"sync"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

const (
	// blockSize is the number of entries of a block, the unit in which entries are taken, kept and dropped.
	blockSize = 1024
	// maxBlocks bounds the memory while the database is away: the blocks in the buffer, and also those in
	// Journal.unsent.
	maxBlocks = 128
	// maxSpare is how many empty blocks are kept for reuse.
	maxSpare = 16
	// maxRefused is how many calls over a limit are logged per org between two flushes. A client that ignores 429 calls
	// as fast as it can and would fill the log.
	maxRefused = 100
)

// block holds up to blockSize entries. It never grows beyond its capacity, so adding does not copy entries.
type block []Entry

// buffer collects entries until takeAll.
type buffer struct {
	mu      sync.Mutex
	full    []block
	current block
	spare   []block
	// refused counts the calls over a limit since the last takeAll.
	refused map[id.Org]int
}

// add adds an entry. It reports refused if the org has too many entries of calls over a limit, and how many old entries
// it dropped to make room.
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
		dropped = b.startBlock()
	}
	b.current = append(b.current, *e)
	return false, dropped
}

// startBlock starts a new block and drops the oldest if there are too many. The caller holds b.mu.
func (b *buffer) startBlock() (dropped int) {
	if len(b.current) > 0 {
		b.full = append(b.full, b.current)
	}
	if len(b.full) >= maxBlocks {
		dropped = len(b.full[0])
		b.keepSpare(b.full[0])
		b.full = append(b.full[:0], b.full[1:]...)
	}
	if n := len(b.spare); n > 0 {
		b.current, b.spare = b.spare[n-1], b.spare[:n-1]
	} else {
		b.current = make(block, 0, blockSize)
	}
	return dropped
}

// takeAll empties the buffer and returns its blocks, oldest first.
func (b *buffer) takeAll() []block {
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

// recycle takes back blocks whose entries are no longer needed.
func (b *buffer) recycle(blocks []block) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, used := range blocks {
		b.keepSpare(used)
	}
}

// keepSpare keeps a block for reuse if there is room. The caller holds b.mu.
func (b *buffer) keepSpare(used block) {
	if len(b.spare) < maxSpare {
		clear(used) // release the strings of its entries
		b.spare = append(b.spare, used[:0])
	}
}
