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

// A node may leave if another one with the role api is alive and healthy. A node that cannot write knows it only after
// the others count as dead, so that they do not all leave if none can write.
func TestNodesLeaveOnlyIfAnotherTakesOver(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	now := time.Now().UTC()
	healthy := map[string]bool{"a": true, "b": true, "w": true}
	node := func(name string, roles ...string) *fleet.Fleet {
		return fleet.New(fleet.Deps{
			DB: db, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
			Self: fleet.Node{ID: name, Name: name, Roles: roles}, Healthy: func() bool { return healthy[name] },
		})
	}
	a, b, w := node("a", "api"), node("b", "api"), node("w", "worker")
	beat := func() {
		for _, f := range []*fleet.Fleet{w, a, b, a} {
			must.OK(t, f.Beat(t.Context()))
		}
	}
	want := func(when string, aMay, bMay bool) {
		t.Helper()
		if a.CanLeave() != aMay || b.CanLeave() != bMay {
			t.Errorf("%s: a may leave: %v, b: %v", when, a.CanLeave(), b.CanLeave())
		}
	}
	beat()
	want("both healthy", true, true)
	healthy["b"] = false
	beat()
	want("b has a fault", false, true)
	healthy["a"] = false
	beat()
	want("both have it", false, false)
	healthy["a"], healthy["b"] = true, true
	beat()
	refuse := func(which string) {
		_, err := db.Pool().Exec(t.Context(), `CREATE OR REPLACE FUNCTION refuse() RETURNS trigger AS $$ BEGIN
			IF NEW.id ~ '`+which+`' THEN RAISE EXCEPTION 'no space left on device'; END IF; RETURN NEW; END $$ LANGUAGE plpgsql`)
		must.OK(t, err)
	}
	refuse("[ab]")
	_, err := db.Pool().Exec(t.Context(), `CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON node FOR EACH ROW EXECUTE FUNCTION refuse()`)
	must.OK(t, err)
	for range 10 {
		now = now.Add(3 * time.Second)
		for _, f := range []*fleet.Fleet{a, b} {
			if err := f.Beat(t.Context()); err == nil {
				t.Fatal("a refused heartbeat is no error")
			}
			if !f.Writing() && f.CanLeave() {
				t.Error("a node leaves although no other can write")
			}
		}
	}
	if a.Writing() || b.Writing() {
		t.Error("a node does not notice that it cannot write")
	}
	refuse("b")
	must.OK(t, a.Beat(t.Context()))
	if err := b.Beat(t.Context()); err == nil || b.Writing() || !b.CanLeave() || !a.Writing() {
		t.Error("b stays although only b cannot write")
	}
}

// A format is written only once all live nodes can read it. Nodes of earlier versions do not record theirs.
func TestAFormatIsWrittenOnceAllNodesCanReadIt(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	now := time.Now().UTC()
	a := fleet.New(fleet.Deps{
		DB: db, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
		Self: fleet.Node{ID: "a", Name: "a", Roles: []string{"api"}, Format: fleet.FormatSealed},
	})
	want := func(when string, can bool) {
		t.Helper()
		must.OK(t, a.Beat(t.Context()))
		if a.CanRead(fleet.FormatSealed) != can {
			t.Errorf("%s: %v", when, !can)
		}
	}
	want("alone", true)
	_, err := db.Pool().Exec(t.Context(), `INSERT INTO node (id, name, roles, version, started_at, seen_at) VALUES ('old', 'old', '{worker}', 'v1', $1, $1)`, now)
	must.OK(t, err)
	want("with a node of an earlier version", false)
	now = now.Add(16 * time.Second)
	want("after that node ended", true)
}
