package stream

import (
	"cmp"

	"github.com/stagedoor/stagedoor/internal/events/event"
)

// offset is a position in a feed: after an event, or before all of them. In an account's feed only Tx counts, and it
// holds the account's sequence number.
type offset event.Position

func seqOffset(seq int64) offset { return offset{Tx: seq} }

func (p offset) before(other offset) bool {
	return cmp.Or(cmp.Compare(p.Tx, other.Tx), cmp.Compare(p.ID, other.ID)) < 0
}

func later(a, b offset) offset {
	if a.before(b) {
		return b
	}
	return a
}
