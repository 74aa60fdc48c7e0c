package stream

import (
	"cmp"

	"github.com/stagedoor/stagedoor/internal/events/event"
)

// place is a place in a feed: behind an event, or before all of them. In an account's feed only the number counts, which is then the
// account's sequence.
type place event.Position

func numbered(seq int64) place { return place{Tx: seq} }

func (p place) before(other place) bool {
	return cmp.Or(cmp.Compare(p.Tx, other.Tx), cmp.Compare(p.ID, other.ID)) < 0
}

func later(a, b place) place {
	if a.before(b) {
		return b
	}
	return a
}
