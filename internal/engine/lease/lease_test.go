package lease_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
)

// In all of these tests, the fixture fails if two nodes hold a slot concurrently or if an epoch does not grow.

// Nodes that join get a share of the slots. When a node stops cleanly, the others get its slots immediately. Only the
// database's clock matters: the clocks of the nodes are hours apart.
func TestSlotsFollowTheNodes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.bus = true
	one := f.start(name(1), time.Hour)
	f.await("one node has all slots", time.Minute, f.spread(one))
	two := f.start(name(2), -time.Hour)
	f.await("two nodes share", time.Minute, f.spread(one, two))
	three := f.start(name(3), 24*time.Hour)
	f.await("three nodes share", time.Minute, f.spread(one, two, three))
	two.stop()
	took := f.await("the two remaining nodes share", time.Minute, f.spread(one, three))
	t.Logf("handed over in %v", took)
	if proof.Running() && took > quick.TTL/2 {
		t.Errorf("the handover took %v", took)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.lapsed) > 0 {
		t.Errorf("leases expired: %v", f.lapsed)
	}
}

// Without the bus, the others notice at their next beat that a node has stopped.
func TestSlotsAreHandedOverWithoutTheBus(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, two := f.start(name(1), 0), f.start(name(2), 0)
	f.await("two nodes share", time.Minute, f.spread(one, two))
	one.stop()
	if took := f.await("the other has all slots", time.Minute, f.spread(two)); proof.Running() && took > quick.TTL-quick.Beat {
		t.Errorf("the handover took %v", took)
	}
}

// The slots of a killed node are taken after its lease has expired, and not before.
func TestSlotsOfADeadNodeAreTaken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, two := f.start(name(1), 0), f.start(name(2), 0)
	f.await("two nodes share", time.Minute, f.spread(one, two))
	one.kill()
	took := f.await("the other has all slots", time.Minute, f.spread(two))
	t.Logf("taken after %v", took)
	if took < quick.TTL-2*quick.Beat || proof.Running() && took > quick.TTL+2*quick.Beat+3*time.Second {
		t.Errorf("the takeover took %v", took)
	}
}

// An outage of the database that is shorter than the TTL costs no node its slots.
func TestAShortOutageChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, two := f.start(name(1), 0), f.start(name(2), 0)
	f.await("two nodes share", time.Minute, f.spread(one, two))
	f.mu.Lock()
	before := make(map[int]int64)
	for slot, h := range f.now {
		before[slot] = h.epoch
	}
	f.mu.Unlock()
	for _, n := range []*node{one, two} {
		n.link.setCut(true)
		<-n.failing
		n.link.setCut(false)
	}
	three := f.start(name(3), 0) // shows that the others still work
	f.await("three nodes share", time.Minute, f.spread(one, two, three))
	f.mu.Lock()
	defer f.mu.Unlock()
	for slot, h := range f.now {
		if h.node != three.name && h.epoch != before[slot] {
			t.Errorf("slot %d has changed hands", slot)
		}
	}
	if len(f.lapsed) > 0 {
		t.Errorf("leases expired: %v", f.lapsed)
	}
}

// A node that loses the database for longer than the TTL stops before another node takes its slots. It joins again
// when the database is back.
func TestANodeThatIsCutOffStopsInTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, two := f.start(name(1), 0), f.start(name(2), 0)
	f.await("two nodes share", time.Minute, f.spread(one, two))
	one.link.setCut(true)
	f.await("the node has stopped", time.Minute, func() bool { return f.lapsed[one.name] > 0 && f.shares()[one.name] == 0 })
	f.await("the other has all slots", time.Minute, f.spread(two))
	one.link.setCut(false)
	f.await("two nodes share", time.Minute, f.spread(one, two))
}

// When the database is restored or failed over, all leases end, and the nodes take their slots again with epochs that
// are higher than all before, also if the database has lost those.
func TestLeasesEndWithTheGeneration(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]string{"epochs are kept": "epoch", "epochs are lost": "0"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			one, two := f.start(name(1), 0), f.start(name(2), 0)
			f.await("two nodes share", time.Minute, f.spread(one, two))
			db, err := postgres.Open(t.Context(), postgres.Config{URL: f.database, MaxConns: 1, Name: "test"})
			must.OK(t, err)
			defer db.Close()
			must.OK(t, db.Tx(t.Context(), func(tx postgres.Tx) error {
				_, err := tx.Exec(t.Context(), "UPDATE lease_slot SET epoch = "+lose)
				if err == nil {
					_, err = tx.Exec(t.Context(), "UPDATE database_generation SET cluster = 'another'")
				}
				return err
			}))
			f.await("all leases have ended", time.Minute, func() bool { return f.lapsed[one.name]+f.lapsed[two.name] >= slots })
			f.await("two nodes share", time.Minute, f.spread(one, two))
		})
	}
}

// When all nodes lose the database, all of them stop, and they continue when it is back.
func TestAllNodesStopAndContinueAfterAnOutage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, two := f.start(name(1), 0), f.start(name(2), 0)
	f.await("two nodes share", time.Minute, f.spread(one, two))
	one.link.setCut(true)
	two.link.setCut(true)
	f.await("both have stopped", time.Minute, func() bool { return len(f.now) == 0 })
	one.link.setCut(false)
	two.link.setCut(false)
	f.await("two nodes share", time.Minute, f.spread(one, two))
}

// awaitExpiry waits until the database counts no node as live.
func (f *fixture) awaitExpiry() {
	f.t.Helper()
	db, err := postgres.Open(f.t.Context(), postgres.Config{URL: f.database, MaxConns: 1, Name: "test"})
	must.OK(f.t, err)
	defer db.Close()
	for live := 1; live > 0; {
		must.OK(f.t, db.Pool().QueryRow(f.t.Context(), "SELECT count(*) FROM lease_node WHERE until > now()").Scan(&live))
	}
}

// With a grace, an outage of the database that is longer than the TTL ends no hold, and no node takes the slots of
// another that comes back a moment later.
func TestHoldsWithGraceSurviveAnOutage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.grace = time.Hour
	one, two := f.start(name(1), 0), f.start(name(2), 0)
	f.await("two nodes share", time.Minute, f.spread(one, two))
	f.mu.Lock()
	before := maps.Clone(f.now)
	f.mu.Unlock()
	one.link.setCut(true)
	two.link.setCut(true)
	f.awaitExpiry()
	for _, n := range []*node{one, two} {
		n.link.setCut(false)
		<-n.renewed
	}
	three := f.start(name(3), 0) // shows that the others still work
	f.await("three nodes share", time.Minute, f.spread(one, two, three))
	f.mu.Lock()
	defer f.mu.Unlock()
	for slot, h := range f.now {
		if h.node != three.name && h != before[slot] {
			t.Errorf("slot %d has changed hands: %+v, before %+v", slot, h, before[slot])
		}
	}
	if len(f.lapsed) > 0 {
		t.Errorf("leases expired: %v", f.lapsed)
	}
}

// A node that is cut off keeps its holds for the grace, while another takes over its slots. It ends them when it is
// back.
func TestHoldsWithGraceEndWhenTheirSlotsWereTaken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.grace = time.Hour
	one, two := f.start(name(1), 0), f.start(name(2), 0)
	f.await("two nodes share", time.Minute, f.spread(one, two))
	f.mu.Lock()
	held := f.shares()[one.name]
	f.mu.Unlock()
	one.link.setCut(true)
	f.await("the other has all slots", time.Minute, f.spread(two))
	f.mu.Lock()
	if f.lapsed[one.name] != 0 {
		t.Errorf("%d of %d holds ended within the grace", f.lapsed[one.name], held)
	}
	f.mu.Unlock()
	one.link.setCut(false)
	f.await("the first has ended its old holds", time.Minute, func() bool { return f.lapsed[one.name] == held })
	f.await("two nodes share", time.Minute, f.spread(one, two))
}

// Slots whose work does not end are given away after a while. When it ends, the node works as before.
func TestSlotsOfStuckWorkAreGivenAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.patience, f.stuck, f.unstuck = time.Second, name(1), make(chan struct{})
	one := f.start(name(1), 0)
	f.await("the first node has all slots", time.Minute, f.spread(one))
	two := f.start(name(2), 0)
	f.await("the second has its share", time.Minute, f.spread(one, two))
	f.mu.Lock()
	moved := f.shares()[two.name]
	f.mu.Unlock()
	close(f.unstuck)
	f.await("the work has ended", time.Minute, func() bool { return f.moved[one.name] >= moved })
	f.await("two nodes share", time.Minute, f.spread(one, two))
}

// Nodes are cut off, killed, stopped and started at random. Two nodes never hold the same slot, and in the end all
// slots are held.
func TestChaos(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.bus = true
	dice := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	var nodes []*node
	for i := range 3 {
		nodes = append(nodes, f.start(name(i), time.Duration(i)*time.Minute))
	}
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for i := 3; i < 33; i++ {
		<-tick.C
		at := dice.IntN(len(nodes))
		n := nodes[at]
		switch dice.IntN(5) {
		case 0:
			n.link.setCut(true)
		case 1, 2:
			n.link.setCut(false)
		case 3:
			n.stop()
			nodes[at] = f.start(name(i), 0)
		case 4:
			n.kill()
			nodes[at] = f.start(name(i), 0)
		}
	}
	for _, n := range nodes {
		n.link.setCut(false)
	}
	f.await("all slots are held", time.Minute, f.spread(nodes...))
}

// The response to a take can be lost: the database then assigns slots to a node that does not know of them. The node
// takes those that should be its own again, and releases the others.
func TestSlotsOfALostResponseAreTakenAgainOrReleased(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, two := f.start(name(1), 0), f.start(name(2), 0)
	f.await("two nodes share", time.Minute, f.spread(one, two))
	one.stop()
	two.stop()
	f.await("all slots are free", time.Minute, func() bool { return len(f.now) == 0 })
	<-one.ended
	<-two.ended
	link := newLink(t, f.database)
	exec(t, link, "UPDATE lease_slot SET holder = 'node-3', epoch = epoch + 1")
	f.change(func() {
		for slot := range f.epochs {
			f.epochs[slot]++
		}
	})
	three := f.start(name(3), 0)
	four := f.start(name(4), 0)
	f.await("the new nodes share", time.Minute, f.spread(three, four))
	var slot int
	var had holder
	f.mu.Lock()
	for at, h := range f.now {
		if h.node == four.name {
			slot, had = at, h
		}
	}
	f.mu.Unlock()
	exec(t, link, fmt.Sprintf("UPDATE lease_slot SET holder = 'node-3', epoch = epoch + 1 WHERE slot = %d", slot))
	f.await("the slot is back", time.Minute, func() bool { return f.now[slot].node == four.name && f.now[slot].epoch > had.epoch+1 })
}

// When a hold returns early, the node acquires the slot again, with a higher epoch.
func TestAHoldThatReturnsEarlyIsStartedAgain(t *testing.T) {
	t.Parallel()
	var epochs [3]int64
	var calls atomic.Int32
	ctx, stop := context.WithCancel(t.Context())
	l := lease.New(lease.Deps{
		DB: testenv.Postgres(t), Kind: "once", Slots: 1, Node: "n", Config: quick, Bus: nil, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	if err := l.Run(ctx, func(_ context.Context, h lease.Held) {
		n := calls.Add(1)
		epochs[n-1] = h.Epoch
		if int(n) == len(epochs) {
			stop()
		}
	}); err != nil {
		t.Fatal(err)
	}
	// On a slow machine, the response to a release may be lost, and an epoch with it.
	if epochs[0] < 1 || epochs[1] <= epochs[0] || epochs[2] <= epochs[1] {
		t.Errorf("epochs %v, want growing ones", epochs)
	}
}
