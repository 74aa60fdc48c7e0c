package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/lease/internal/db"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Work is one kind of work as operators see it.
type Work struct {
	Kind  string
	Nodes []Holder
	Slots []Slot
}

// Holder is a node that takes part in it.
type Holder struct {
	Node string
	// Until is how long it holds its slots unless it renews them, by the database's clock; Live whether that is over.
	Until   time.Time
	Live    bool
	Leaving bool
}

// Slot is a share of it.
type Slot struct {
	Slot int
	// Node is empty if nobody has it.
	Node  string
	Epoch int64
}

// Overview reads who does what.
func Overview(ctx context.Context, pool *postgres.DB) ([]Work, error) {
	q := db.New(pool.Pool())
	nodes, err := q.AllNodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("read lease nodes: %w", err)
	}
	slots, err := q.AllSlots(ctx)
	if err != nil {
		return nil, fmt.Errorf("read lease slots: %w", err)
	}
	var list []Work
	at := map[string]int{}
	of := func(kind string) *Work {
		if _, ok := at[kind]; !ok {
			at[kind] = len(list)
			list = append(list, Work{Kind: kind})
		}
		return &list[at[kind]]
	}
	for _, s := range slots {
		w := of(s.Kind)
		w.Slots = append(w.Slots, Slot{int(s.Slot), s.Holder, s.Epoch})
	}
	for _, n := range nodes {
		w := of(n.Kind)
		w.Nodes = append(w.Nodes, Holder{n.Holder, n.Until.UTC(), n.Live, n.Leaving})
	}
	return list, nil
}
