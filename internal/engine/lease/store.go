package lease

import (
	"context"
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/lease/internal/db"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

func (l *Leases) queries() *db.Queries { return db.New(l.deps.DB) }

// snapshot is the state that the database returned at a renewal.
type snapshot struct {
	// nodes are the live nodes that are not leaving. This node is always one of them.
	nodes []string
	// mine has the epoch of each slot that is assigned to this node.
	mine map[int]int64
	// firstEpoch is the first epoch of the database's current generation.
	firstEpoch int64
}

// renew extends this node's lease by the TTL and returns the live nodes and this node's slots. Nodes whose lease expired
// less than lenience ago count as live. It also deletes the rows of nodes whose lease expired more than an hour ago.
func (l *Leases) renew(ctx context.Context, lenience time.Duration, leaving bool) (snapshot, error) {
	row, err := l.queries().Beat(ctx, db.BeatParams{
		Kind: l.deps.Kind, Holder: l.deps.Node, Ttl: l.deps.Config.TTL, Lenience: lenience, Leaving: leaving,
	})
	if err != nil {
		return snapshot{}, err
	}
	s := snapshot{nodes: append(row.Others, l.deps.Node), mine: make(map[int]int64, len(row.Slots)), firstEpoch: row.FirstEpoch}
	for i, slot := range row.Slots {
		s.mine[int(slot)] = row.Epochs[i]
	}
	return s, nil
}

// takeSlots assigns to this node those of the slots that no live node holds, and returns them with their new epochs.
func (l *Leases) takeSlots(ctx context.Context, slots []int32) ([]Held, error) {
	rows, err := l.queries().Take(ctx, db.TakeParams{Kind: l.deps.Kind, Holder: l.deps.Node, Slots: slots})
	return postgres.Convert(rows, func(r db.TakeRow) Held { return Held(r) }), err
}

// releaseSlots makes slots free. It skips slots whose epoch has changed: they belong to a later holder.
func (l *Leases) releaseSlots(ctx context.Context, list []Held) error {
	p := db.ReleaseParams{Kind: l.deps.Kind, Holder: l.deps.Node}
	for _, h := range list {
		p.Slots, p.Epochs = append(p.Slots, int32(h.Slot)), append(p.Epochs, h.Epoch)
	}
	return l.queries().Release(ctx, p)
}
