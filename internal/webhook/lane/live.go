package lane

import (
	"github.com/stagedoor/stagedoor/internal/event"
	"github.com/stagedoor/stagedoor/internal/id"
)

// maxAsking bounds how many events that are not stored wait for a lane's webhook to be read: about one of each kind.
const maxAsking = 16

// Live gives the webhook by which events of a source that are not stored can be sent: at once, or when it was read. Without one nothing
// is called. give must not block.
func (m *Machine) Live(org id.Org, source string, give func(*Hook)) {
	l := m.lanes[source]
	if l == nil {
		b := m.buckets[event.Bucket(source)]
		if b == nil || !b.runs() {
			return
		}
		l = m.lane(org, source, b)
	}
	if l.known {
		l.live(give)
		return
	}
	if m.load(l); len(l.asking) < maxAsking {
		l.asking = append(l.asking, give)
	}
}

func (l *Lane) live(give func(*Hook)) {
	if l.hook != nil && l.row.State.sends() {
		give(l.hook)
	}
}

// answer tells those that asked while the webhook was not known.
func (l *Lane) answer() {
	for _, give := range l.asking {
		l.live(give)
	}
	l.asking = nil
}
