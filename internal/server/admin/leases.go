package admin

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/events/listen"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

type leasesOutput struct {
	Body struct {
		Work []workBody `json:"work"`
	}
}

type workBody struct {
	Kind  string       `json:"kind" doc:"listen: live connections of accounts. ingest: storing events and delivering webhooks."`
	Slots []slotBody   `json:"slots"`
	Free  int          `json:"free" doc:"Slots without a node. They should be taken within seconds."`
	Nodes []holderBody `json:"nodes"`
}

type slotBody struct {
	Slot      int            `json:"slot"`
	Node      *string        `json:"node" doc:"The id of the node that holds the slot; null if it is free."`
	Epoch     int64          `json:"epoch" doc:"How often the slot was taken."`
	Listeners map[string]int `json:"listeners,omitempty" doc:"For kind listen: the number of accounts by the state of their live connection."`
}

type holderBody struct {
	ID      string     `json:"id"`
	Name    string     `json:"name" doc:"Empty for a node that is not alive."`
	Slots   int        `json:"slots"`
	Until   stamp.Time `json:"until" doc:"When its leases expire unless it renews them."`
	Live    bool       `json:"live"`
	Leaving bool       `json:"leaving" doc:"Whether it is stopping and releasing its slots."`
}

func (a *Admin) leaseRoutes() {
	endpoint.Typed(a.table, endpoint.Operation{
		ID: "listLeases", Method: http.MethodGet, Path: "/admin/v1/leases", Tag: "Fleet", Status: http.StatusOK, Scope: scope.AdminViewer,
		Summary: "List leases", Description: "The slots of each kind of work and the nodes that hold them.",
	}, a.listLeases)
}

func (a *Admin) listLeases(ctx context.Context, _ *struct{}) (*leasesOutput, error) {
	work, err := lease.Overview(ctx, a.deps.DB)
	if err != nil {
		return nil, err
	}
	shards, err := a.deps.Accounts.ListenersByShard(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := a.deps.Fleet.Live(ctx)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, n := range nodes {
		names[n.ID] = n.Name
	}
	out := &leasesOutput{}
	out.Body.Work = []workBody{}
	for _, w := range work {
		b := workBody{Kind: w.Kind, Slots: make([]slotBody, len(w.Slots)), Nodes: []holderBody{}}
		has := map[string]int{}
		for i, s := range w.Slots {
			b.Slots[i] = slotBody{Slot: s.Slot, Node: endpoint.NilIfEmpty(s.Node), Epoch: s.Epoch}
			if has[s.Node]++; s.Node == "" {
				b.Free++
			}
			if w.Kind == listen.Kind {
				counts := map[string]int{}
				for state, n := range shards[s.Slot] {
					counts[string(state)] = n
				}
				b.Slots[i].Listeners = counts
			}
		}
		for _, n := range w.Nodes {
			b.Nodes = append(b.Nodes, holderBody{n.Node, names[n.Node], has[n.Node], stamp.Time(n.Until), n.Live, n.Leaving})
		}
		out.Body.Work = append(out.Body.Work, b)
	}
	return out, nil
}
