package lease

import (
	"context"
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/lease/internal/db"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Work is one kind of work in the overview for operators.
type Work struct {
	Kind  string
	Nodes []Holder
	Slots []Slot
}

// Holder is a node that takes part in a kind of work.
type Holder struct {
	Node string
	// Until is when its lease expires unless the node renews it, by the database's clock. Live reports whether that
	// time is still ahead.
	Until time.Time
	Live  bool
	// Leaving means that the node is stopping and takes no more slots.
	Leaving bool
}

// Slot is the state of one slot.
type Slot struct {
	Slot int
	// Node is the holder, which may have died; empty if the slot is free.
	Node  string
	Epoch int64
}

// Overview reads the nodes and slots of all kinds, including nodes that died within the last hour.
func Overview(ctx context.Context, pool *postgres.DB) ([]Work, error) {
	q := db.New(pool)
	nodes, err := q.AllNodes(ctx)
	if err != nil {
		return nil, err
	}
	slots, err := q.AllSlots(ctx)
	if err != nil {
		return nil, err
	}
	var list []Work
	at := map[string]int{} // index in list
	workOf := func(kind string) *Work {
		if _, ok := at[kind]; !ok {
			at[kind] = len(list)
			list = append(list, Work{Kind: kind})
		}
		return &list[at[kind]]
	}
	for _, s := range slots {
		w := workOf(s.Kind)
		w.Slots = append(w.Slots, Slot{s.Slot, s.Holder, s.Epoch})
	}
	for _, n := range nodes {
		w := workOf(n.Kind)
		w.Nodes = append(w.Nodes, Holder{n.Holder, n.Until.UTC(), n.Live, n.Leaving})
	}
	return list, nil
}
