package lane_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// world simulates everything around a machine: a store, rows, endpoints that fail, a clock, and nodes that crash.
type world struct {
	t      testing.TB
	seed   uint64
	random *rand.Rand
	now    time.Time
	config lane.Config

	// These survive a crash.
	log            map[string][]event.Stored
	rows           map[string]lane.Row
	checkpoints    map[int]lane.Checkpoint
	gens           map[string]int64
	starts         map[string]int64
	sideDeliveries map[string]map[int64]int
	orders         bool // deliver events in order, one at a time
	filter         bool
	host           string // the host of all webhooks; empty gives each its own
	badStatus      int    // the response to events that are never accepted

	// These do not.
	machine  *lane.Machine
	epoch    int64
	inFlight []*lane.Job
	crashes  int

	// answer is the behaviour of the endpoints, got what they received.
	answer func(w *world, source string, seq int64) lane.Result
	got    map[string][]int64
	broken map[string]bool
	most   map[string]int // most deliveries in flight, by source
	// verified is the number of first events, by source, that recoverable has found delivered.
	verified map[string]int
	notices  []lane.Notice
	sends    int
}

func newWorld(t testing.TB, seed uint64, sources int) *world {
	t.Helper()
	w := &world{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 7)), now: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC), config: lane.Defaults(), orders: true,
		log: map[string][]event.Stored{}, rows: map[string]lane.Row{}, checkpoints: map[int]lane.Checkpoint{}, gens: map[string]int64{}, starts: map[string]int64{},
		sideDeliveries: map[string]map[int64]int{}, got: map[string][]int64{}, broken: map[string]bool{}, most: map[string]int{},
		verified: map[string]int{},
	}
	for i := range sources {
		// The ids depend on the seed alone, so that a seed that fails fails again.
		source := fmt.Sprintf("acct_%08x%d", w.random.Uint32(), i)
		w.gens[source] = 1
		w.sideDeliveries[source] = map[int64]int{}
	}
	w.answer = func(*world, string, int64) lane.Result { return lane.Result{Status: 200, Took: time.Millisecond} }
	w.boot()
	return w
}

func (w *world) sources() []string { return slices.Sorted(maps.Keys(w.gens)) }

// boot starts a node that takes over all buckets from what the database has.
func (w *world) boot() {
	w.epoch++
	w.inFlight = nil
	w.machine = lane.New(w.config, w.random.Float64)
	for _, b := range w.numbers() {
		w.machine.HoldBucket(b, w.epoch, nil)
	}
	for _, b := range w.numbers() {
		checkpoint := w.checkpoints[b]
		at := checkpoint.At
		var rows []lane.Row
		var backlogs []lane.Backlog
		for _, source := range w.sources() {
			if event.Bucket(source) != b {
				continue
			}
			row, ok := w.rows[source]
			if ok {
				rows = append(rows, row)
			}
			if ok && row.Cursor >= 0 {
				continue
			}
			if list := w.log[source]; len(list) > 0 && list[len(list)-1].At.After(at) {
				backlogs = append(backlogs, lane.Backlog{Org: "org_1", Source: source, Cursor: w.seqAt(source, at), Head: int64(len(list))})
			}
		}
		w.machine.BucketLoaded(b, at, rows, backlogs, w.now)
	}
}

func (w *world) numbers() []int {
	var list []int
	for _, s := range w.sources() {
		list = append(list, event.Bucket(s))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (w *world) seqAt(source string, at time.Time) int64 {
	last := int64(0)
	for _, e := range w.log[source] {
		if !e.At.After(at) {
			last = e.Seq
		}
	}
	return last
}

func (w *world) hook(source string) *lane.Hook {
	h := &lane.Hook{Gen: w.gens[source], StartSeq: w.starts[source], Host: "host" + source[len(source)-1:], MaxInFlight: 1}
	if w.host != "" {
		h.Host = w.host
	}
	if !w.orders {
		h.MaxInFlight = 4
	}
	if w.filter {
		h.Match = func(kind string) bool { return kind == "wanted" }
	}
	if row, ok := w.rows[source]; ok {
		h.Row = &row
	}
	return h
}

func (w *world) commit(source string, n int) {
	var list []event.Stored
	for range n {
		w.now = w.now.Add(time.Millisecond)
		e := event.Stored{Org: "org_1", Source: source, Seq: int64(len(w.log[source]) + 1), At: w.now, Kind: "wanted", Body: []byte("{}")}
		if w.filter && w.random.IntN(3) == 0 {
			e.Kind = "other"
		}
		w.log[source] = append(w.log[source], e)
		list = append(list, e)
	}
	w.machine.Committed(list, w.now)
}

// step does one round of what can be done now, in random order where the order is free. It reports whether it did
// anything.
func (w *world) step() bool {
	did := false
	w.machine.Tick(w.now)
	for _, load := range w.machine.NextHookLoads(1000) {
		did = true
		w.machine.HookLoaded(load, w.hook(load.Lane.Source()), w.now)
	}
	if p := w.machine.NextRead(); p != nil {
		did = true
		all := w.log[p.Lane.Source()]
		rest := all[min(int(p.After), len(all)):]
		page := rest[:min(len(rest), w.config.Page)]
		w.machine.Read(p, page, len(page) < w.config.Page, w.now)
	}
	if job := w.machine.Next(w.now); job != nil {
		did = true
		w.inFlight = append(w.inFlight, job)
		running := 0
		for _, one := range w.inFlight {
			if one.Lane.Source() == job.Lane.Source() {
				running++
			}
		}
		w.most[job.Lane.Source()] = max(w.most[job.Lane.Source()], running)
	}
	if len(w.inFlight) > 0 && w.random.IntN(2) == 0 {
		did = true
		w.land(w.random.IntN(len(w.inFlight)))
	}
	if len(w.gens) <= 24 { // it looks at all lanes
		w.checkMachine()
	}
	return did
}

// checkMachine verifies the machine's own invariants.
func (w *world) checkMachine() {
	w.t.Helper()
	if err := w.machine.Check(); err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
}

// pump does everything that can be done now.
func (w *world) pump() {
	for w.step() || len(w.inFlight) > 0 {
	}
	w.flush(false)
}

// land ends a delivery in flight.
func (w *world) land(i int) {
	job := w.inFlight[i]
	w.inFlight = slices.Delete(w.inFlight, i, i+1)
	source, seq := job.Lane.Source(), job.Event.Seq
	w.sends++
	r := w.answer(w, source, seq)
	if lane.Classify(r) == lane.Delivered {
		w.got[source] = append(w.got[source], seq)
	}
	w.machine.Done(job, r, w.now)
}

func (w *world) flush(fails bool) {
	batch := w.machine.Flush(w.now)
	if fails {
		w.machine.FlushFailed(batch)
		return
	}
	unsaved := map[string]bool{}
	hold := map[int]time.Time{}
	for _, s := range batch.Save {
		if s.Gen != w.gens[s.Source] {
			unsaved[s.Source] = true
			if at, ok := hold[s.Bucket]; s.Pending && (!ok || s.Hold.Before(at)) {
				hold[s.Bucket] = s.Hold
			}
			continue
		}
		w.rows[s.Source] = s.Row
	}
	for _, r := range batch.Remove {
		if w.rows[r.Source].Gen == r.Gen {
			delete(w.rows, r.Source)
		}
	}
	for _, e := range batch.SideDeliveries {
		w.sideDeliveries[e.Source][e.Seq]++
	}
	for _, f := range batch.Checkpoints {
		if at, ok := hold[f.Bucket]; ok && at.Before(f.At) {
			f.At = at
		}
		w.checkpoints[f.Bucket] = f
	}
	w.notices = append(w.notices, batch.Notices...)
	w.machine.Flushed(batch, unsaved)
	w.recoverable()
}

// recoverable checks after a flush that a node which takes over from the database alone would skip nothing.
func (w *world) recoverable() {
	w.t.Helper()
	for _, source := range w.sources() {
		cursor := w.seqAt(source, w.checkpoints[event.Bucket(source)].At)
		row, ok := w.rows[source]
		if ok && row.Cursor >= 0 {
			cursor = row.Cursor
		}
		log := w.log[source][:min(int(cursor), len(w.log[source]))]
		for _, e := range log[min(w.verified[source], len(log)):] {
			if e.Kind == "wanted" && !slices.Contains(w.got[source], e.Seq) && w.sideDeliveries[source][e.Seq] == 0 {
				w.t.Fatalf("seed %d: a takeover of %s would start after %d, but %d is not delivered; row %t %+v", w.seed, source, cursor, e.Seq, ok, row)
			}
		}
		w.verified[source] = max(w.verified[source], len(log))
	}
}

// settle runs until nothing is left to do and moves the clock as needed.
func (w *world) settle(within time.Duration) {
	end := w.now.Add(within)
	for w.now.Before(end) {
		for w.step() || len(w.inFlight) > 0 {
		}
		w.flush(false)
		w.now = w.now.Add(500 * time.Millisecond)
		at, ok := w.machine.NextDue()
		if !ok {
			for w.step() || len(w.inFlight) > 0 {
			}
			w.flush(false)
			if _, ok := w.machine.NextDue(); !ok {
				return
			}
			continue
		}
		if at.After(w.now) {
			w.now = at
		}
	}
}

// first returns the first delivery of each event, in order of arrival.
func first(list []int64) []int64 {
	seen := map[int64]bool{}
	var once []int64
	for _, n := range list {
		if !seen[n] {
			seen[n] = true
			once = append(once, n)
		}
	}
	return once
}

// check verifies the final state: every wanted event was delivered or is a side delivery, in order, and events were
// delivered twice only after a crash.
func (w *world) check(seed uint64) {
	w.t.Helper()
	for source, log := range w.log {
		once := first(w.got[source])
		if w.orders && !slices.IsSorted(once) {
			w.t.Errorf("seed %d: %s got events out of order: %.200s", seed, source, fmt.Sprint(once))
		}
		missing := []int64{}
		arrived := map[int64]bool{}
		for _, seq := range once {
			arrived[seq] = true
		}
		for _, e := range log {
			if e.Kind == "wanted" && e.Seq > w.starts[source] && !arrived[e.Seq] && w.sideDeliveries[source][e.Seq] == 0 {
				missing = append(missing, e.Seq)
			}
			if e.Kind == "other" && arrived[e.Seq] {
				w.t.Errorf("seed %d: %s got %d, which it does not want", seed, source, e.Seq)
			}
		}
		if len(missing) > 0 {
			w.t.Errorf("seed %d: %s did not get %.200s of %d; row %+v", seed, source, fmt.Sprint(missing), len(log), w.rows[source])
		}
		if w.crashes == 0 && len(once) != len(w.got[source]) {
			w.t.Errorf("seed %d: %s got %d deliveries of %d events without a crash", seed, source, len(w.got[source]), len(once))
		}
		if most := w.most[source]; w.orders && most > 1 && w.crashes == 0 {
			w.t.Errorf("seed %d: %s had %d deliveries in flight, want 1", seed, source, most)
		}
	}
}

func (w *world) String() string { return fmt.Sprint(w.now, len(w.rows)) }
