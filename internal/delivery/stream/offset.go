package stream

import (
	"cmp"

	"github.com/stagedoor/stagedoor/internal/events/event"
)

// offset is a position in a feed: after an event, or before all of them.
type offset event.Position

// generation returns the generation of the database that the offset belongs to.
func (p offset) generation() int64 { return event.Position(p).Generation() }

// next reports whether an account's event follows directly. The first event of a generation never does: what was
// before it may have been lost.
func (p offset) next(of offset) bool { return of.Tx == p.Tx+1 }

func (p offset) before(other offset) bool {
	return cmp.Or(cmp.Compare(p.Tx, other.Tx), cmp.Compare(p.ID, other.ID)) < 0
}

func later(a, b offset) offset {
	if a.before(b) {
		return b
	}
	return a
}
