package fleet_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/operate/fleet"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// LiveAPI counts the nodes with the role api and a recent heartbeat. A node without one is dead after 15 seconds.
func TestBeatCountsLiveAPINodes(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	now := time.Now().UTC()
	node := func(name string, roles ...string) *fleet.Fleet {
		return fleet.New(fleet.Deps{
			DB: db, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
			Self: fleet.Node{ID: name, Name: name, Roles: roles, Version: "x"},
		})
	}
	a, b, w := node("a", "api", "worker"), node("b", "api"), node("w", "worker")
	if a.LiveAPI() != 1 {
		t.Errorf("before any heartbeat: %d", a.LiveAPI())
	}
	for _, f := range []*fleet.Fleet{a, b, w, a} {
		must.OK(t, f.Beat(t.Context()))
	}
	if a.LiveAPI() != 2 {
		t.Errorf("two of three nodes answer calls; counted %d", a.LiveAPI())
	}
	now = now.Add(16 * time.Second)
	must.OK(t, a.Beat(t.Context()))
	live, err := a.Live(t.Context())
	if err != nil || a.LiveAPI() != 1 || len(live) != 1 || live[0].ID != "a" {
		t.Errorf("after the others stopped: %d, %v, %v", a.LiveAPI(), live, err)
	}
}
