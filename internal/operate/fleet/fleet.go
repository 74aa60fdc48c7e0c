// Package fleet knows which nodes are alive: each says so in a row every few seconds.
package fleet

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Node is one process of the service.
type Node struct {
	// ID is unique to one start of one process.
	ID        string
	Name      string
	Roles     []string
	Version   string
	StartedAt time.Time
	SeenAt    time.Time
}

// RoleAPI is the role that answers calls.
const RoleAPI = "api"

const (
	beatEvery = 3 * time.Second
	// deadAfter is several missed beats: a node that is only slow keeps its share.
	deadAfter   = 15 * time.Second
	forgetAfter = 24 * time.Hour
)

// Deps is what the service needs.
type Deps struct {
	DB   *postgres.DB
	Self Node
	Log  *slog.Logger
	Now  func() time.Time
}

// Fleet is the service.
type Fleet struct {
	Deps
	api  atomic.Int64
	died atomic.Int64 // Unix nanoseconds
}

// New makes the service. Until its first beat it counts this node alone.
func New(d Deps) *Fleet {
	f := &Fleet{Deps: d}
	f.api.Store(1)
	return f
}

// LiveAPI is how many nodes answer calls, as of the last time the database could be asked; at least one.
func (f *Fleet) LiveAPI() int { return int(f.api.Load()) }

// LastDeath is when a node was last heard of that ended without saying so; zero if none did lately.
func (f *Fleet) LastDeath() time.Time {
	if at := f.died.Load(); at > 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Live lists the nodes that are alive.
func (f *Fleet) Live(ctx context.Context) ([]Node, error) {
	return live(ctx, f.DB.Pool(), f.Now().Add(-deadAfter))
}

// Run beats until the context ends.
func (f *Fleet) Run(ctx context.Context) error {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		if err := f.Beat(ctx); err != nil && ctx.Err() == nil {
			f.Log.LogAttrs(ctx, slog.LevelWarn, "heartbeat failed", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Leave takes this node off the list. If it cannot, the others notice all the same, a little later.
func (f *Fleet) Leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := leave(ctx, f.DB.Pool(), f.Self.ID); err != nil {
		f.Log.LogAttrs(ctx, slog.LevelWarn, "not taken off the list of nodes", slog.Any("error", err))
	}
}

// Beat says that this node is alive and counts the others.
func (f *Fleet) Beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beatEvery)
	defer cancel()
	now := f.Now()
	if err := beat(ctx, f.DB.Pool(), f.Self, now); err != nil {
		return err
	}
	if err := forget(ctx, f.DB.Pool(), now.Add(-forgetAfter)); err != nil {
		return err
	}
	nodes, err := f.Live(ctx)
	if err != nil {
		return err
	}
	count := 0
	for _, n := range nodes {
		if slices.Contains(n.Roles, RoleAPI) {
			count++
		}
	}
	f.api.Store(int64(max(count, 1)))
	died, err := lastDeath(ctx, f.DB.Pool(), now.Add(-deadAfter))
	if err != nil {
		return err
	}
	f.died.Store(died.UnixNano())
	return nil
}
