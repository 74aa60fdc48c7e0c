// Package fleet tracks which nodes are alive, by the heartbeats that each of them writes to the database every few
// seconds. Package admission uses it to divide limits between nodes and to notice that a node has died; it assigns no
// work to nodes (package lease does).
package fleet

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/operate/fleet/internal/db"
)

// Node is one process of the service.
type Node struct {
	// ID identifies one process and differs after a restart.
	ID        string
	Name      string
	Roles     []string
	Version   string
	StartedAt time.Time
	SeenAt    time.Time
	// Healthy is what the node itself reported with its last heartbeat.
	Healthy bool
	// Format is the newest format of stored content that the node can read.
	Format int16
}

// The formats of stored content.
const (
	// FormatPlain is that of nodes from before formats were recorded: contents of accounts are in the clear.
	FormatPlain = 1
	// FormatSealed means that contents of accounts are sealed.
	FormatSealed = 2
	// FormatKeyed means that audit entries have keyed hashes.
	FormatKeyed = 3
)

// RoleAPI is the role of nodes that answer calls.
const RoleAPI = "api"

const (
	beatInterval = 3 * time.Second
	// deadAfter is several missed heartbeats, so that a node which is only slow does not count as dead.
	deadAfter = 15 * time.Second
	// deleteAfter is how long the row of a dead node is kept.
	deleteAfter = 24 * time.Hour
)

// Deps are the dependencies of a Fleet.
type Deps struct {
	DB   *postgres.DB
	Bus  *pubsub.Bus
	Self Node
	// Healthy reports whether this node could take over the traffic of another one; nil for always.
	Healthy func() bool
	Log     *slog.Logger
	Now     func() time.Time
}

// Fleet writes the heartbeats of this node and knows the state of the others.
type Fleet struct {
	deps      Deps
	liveAPI   atomic.Int64
	lastDeath atomic.Int64 // Unix nanoseconds; 0 for none
	// healthyPeers counts the other live nodes with RoleAPI that are healthy.
	healthyPeers atomic.Int64
	// written is when the last heartbeat was written, and read when those of all nodes were last read.
	written, read atomic.Pointer[time.Time]
	// format is the oldest Format of a live node.
	format atomic.Int64
	// database identifies the database; nil until it has been read.
	database atomic.Pointer[string]
	// questions has a channel for each question to other nodes that is still open; see OthersReachDatabase.
	questions sync.Map
	pings     singleflight.Group
}

// New returns a Fleet that counts only this node until its first Beat.
func New(d Deps) *Fleet {
	f := &Fleet{deps: d}
	f.liveAPI.Store(1)
	f.format.Store(int64(d.Self.Format)) // contents are rather unreadable for a moment than in the clear
	started := d.Now()
	f.written.Store(&started)
	f.read.Store(&started)
	return f
}

// LiveAPI returns the number of live nodes with RoleAPI at the last successful Beat, at least 1.
func (f *Fleet) LiveAPI() int { return int(f.liveAPI.Load()) }

// CanLeave reports whether another node could take over this node's traffic, as of the last Beat that could read. If that
// was too long ago, it is not known whether the others are alive.
func (f *Fleet) CanLeave() bool {
	return f.healthyPeers.Load() > 0 && f.deps.Now().Sub(*f.read.Load()) < deadAfter
}

// CanRead reports whether all live nodes can read a format, as of the last Beat that could read.
func (f *Fleet) CanRead(format int) bool { return f.format.Load() >= int64(format) }

// Writing reports whether heartbeats of this node can be written. It returns false only some seconds after a node
// without heartbeats counts as dead. So if no node can write, each node finds that no peer is alive before it would leave.
func (f *Fleet) Writing() bool { return f.deps.Now().Sub(*f.written.Load()) < deadAfter+2*beatInterval }

// LastDeath returns the newest last heartbeat of the nodes that ended without Leave. It is zero if there was none in
// the last 24 hours.
func (f *Fleet) LastDeath() time.Time {
	if at := f.lastDeath.Load(); at > 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Live returns the nodes that are alive.
func (f *Fleet) Live(ctx context.Context) ([]Node, error) {
	rows, err := db.New(f.deps.DB).Live(ctx, f.deps.Now().Add(-deadAfter))
	return postgres.Convert(rows, func(r db.Node) Node { return Node(r) }), err
}

// Dead returns the nodes that ended without Leave in the last 24 hours, the first to end first.
func (f *Fleet) Dead(ctx context.Context) ([]Node, error) {
	rows, err := db.New(f.deps.DB).Dead(ctx, f.deps.Now().Add(-deadAfter))
	return postgres.Convert(rows, func(r db.Node) Node { return Node(r) }), err
}

// Run calls Beat every beatInterval until ctx ends.
func (f *Fleet) Run(ctx context.Context) error {
	for range clock.Every(ctx, beatInterval) {
		if err := f.Beat(ctx); err != nil && ctx.Err() == nil {
			f.deps.Log.LogAttrs(ctx, slog.LevelWarn, "heartbeat failed", slog.Any(logkey.Error, err))
		}
	}
	return nil
}

// Leave removes this node, so that the others do not count it as dead. If that fails, they do after deadAfter.
func (f *Fleet) Leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := db.New(f.deps.DB).Leave(ctx, f.deps.Self.ID); err != nil {
		f.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot leave the fleet", slog.Any(logkey.Error, err))
	}
}

// Beat writes this node's heartbeat and reads the state of the others, also if it cannot write.
func (f *Fleet) Beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beatInterval)
	defer cancel()
	return errors.Join(f.writeBeat(ctx), f.readNodes(ctx))
}

func (f *Fleet) writeBeat(ctx context.Context) error {
	q, now, self := db.New(f.deps.DB), f.deps.Now(), f.deps.Self
	err := q.Beat(ctx, db.BeatParams{
		ID: self.ID, Name: self.Name, Roles: self.Roles, Version: self.Version, Now: now,
		Healthy: f.deps.Healthy == nil || f.deps.Healthy(), Format: self.Format,
	})
	if err != nil {
		return err
	}
	f.written.Store(&now)
	return q.Forget(ctx, now.Add(-deleteAfter))
}

func (f *Fleet) readNodes(ctx context.Context) error {
	nodes, err := f.Live(ctx)
	if err != nil {
		return err
	}
	count, healthy, format := 0, 0, f.deps.Self.Format
	for _, n := range nodes {
		format = min(format, n.Format)
		if !slices.Contains(n.Roles, RoleAPI) {
			continue
		}
		count++
		if n.Healthy && n.ID != f.deps.Self.ID {
			healthy++
		}
	}
	f.liveAPI.Store(int64(max(count, 1)))
	f.healthyPeers.Store(int64(healthy))
	f.format.Store(int64(format))
	died, err := db.New(f.deps.DB).LastDeath(ctx, f.deps.Now().Add(-deadAfter))
	if err != nil {
		return err
	}
	f.lastDeath.Store(died.UnixNano())
	if f.database.Load() == nil {
		database, err := f.deps.DB.Identity(ctx)
		if err != nil {
			return err
		}
		f.database.Store(&database)
	}
	now := f.deps.Now()
	f.read.Store(&now)
	return nil
}
