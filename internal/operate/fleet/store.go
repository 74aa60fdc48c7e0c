package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/operate/fleet/internal/db"
)

func writeBeat(ctx context.Context, q db.DBTX, n Node, now time.Time) error {
	err := db.New(q).Beat(ctx, db.BeatParams{ID: n.ID, Name: n.Name, Roles: n.Roles, Version: n.Version, Now: now})
	if err != nil {
		return fmt.Errorf("write heartbeat: %w", err)
	}
	return nil
}

func listLive(ctx context.Context, q db.DBTX, since time.Time) ([]Node, error) {
	rows, err := db.New(q).Live(ctx, since)
	if err != nil {
		return nil, fmt.Errorf("list live nodes: %w", err)
	}
	nodes := make([]Node, len(rows))
	for i, r := range rows {
		nodes[i] = Node{ID: r.ID, Name: r.Name, Roles: r.Roles, Version: r.Version, StartedAt: r.StartedAt, SeenAt: r.SeenAt}
	}
	return nodes, nil
}

func readLastDeath(ctx context.Context, q db.DBTX, since time.Time) (time.Time, error) {
	at, err := db.New(q).LastDeath(ctx, since)
	if err != nil {
		return time.Time{}, fmt.Errorf("read dead nodes: %w", err)
	}
	return at, nil
}

func deleteNode(ctx context.Context, q db.DBTX, node string) error {
	if err := db.New(q).Leave(ctx, node); err != nil {
		return fmt.Errorf("delete node: %w", err)
	}
	return nil
}

func deleteBefore(ctx context.Context, q db.DBTX, before time.Time) error {
	if err := db.New(q).Forget(ctx, before); err != nil {
		return fmt.Errorf("delete dead nodes: %w", err)
	}
	return nil
}
