package lane_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
)

// trouble answers for a broken endpoint with random failures, and with 200 for the others. Some events are never
// accepted: they are refused, or make their endpoint fail.
func trouble(w *world, source string, seq int64) lane.Result {
	switch {
	case isBad(seq):
		return lane.Result{Status: w.badStatus, Took: time.Millisecond}
	case !w.broken[source]:
		return lane.Result{Status: 200, Took: time.Millisecond}
	}
	switch w.random.IntN(4) {
	case 0:
		return lane.Result{Failure: "timeout", Took: 10 * time.Second}
	case 1:
		return lane.Result{Status: 429, RetryAfter: time.Duration(w.random.IntN(20)) * time.Second}
	case 2:
		return lane.Result{Status: 200, Took: time.Millisecond}
	default:
		return lane.Result{Status: 503, Took: time.Millisecond}
	}
}

// isBad reports whether an event is never accepted.
func isBad(seq int64) bool { return seq%45 == 5 }

// commitWanted commits until the last event is one that the webhook wants and its endpoint accepts.
func (w *world) commitWanted(source string) {
	for {
		w.commit(source, 1)
		last := w.log[source][len(w.log[source])-1]
		if last.Kind == "wanted" && !isBad(last.Seq) {
			return
		}
	}
}

// crash kills the node. Deliveries in flight may have arrived, but their results are lost.
func (w *world) crash() {
	w.crashes++
	for _, job := range w.inFlight {
		if w.random.IntN(2) == 0 && !isBad(job.Event.Seq) {
			w.got[job.Lane.Source()] = append(w.got[job.Lane.Source()], job.Event.Seq)
		}
	}
	w.boot()
}

// order changes a webhook as its owner can: pause, resume or replace it.
func (w *world) order(source string) {
	w.gens[source]++
	row, ok := w.rows[source]
	switch w.random.IntN(3) {
	case 0:
		if !ok {
			row = lane.Row{Org: "org_1", Source: source, Bucket: event.Bucket(source), Cursor: lane.Unknown}
		}
		row.State = lane.Paused
	case 1:
		if !ok {
			w.gens[source]--
			return
		}
		row.State, row.FailSince, row.FailCount = lane.Draining, time.Time{}, 0
	default:
		if !ok {
			break
		}
		if row.State != lane.Paused {
			row.State, row.FailSince, row.FailCount = lane.Draining, time.Time{}, 0
		}
	}
	row.Gen = w.gens[source]
	if row.State != "" {
		w.rows[source] = row
	}
	w.machine.Invalidate("org_1", source)
}

func (w *world) resumeAll() {
	for w.step() || len(w.inFlight) > 0 {
	}
	for _, source := range w.sources() {
		w.flush(false)
		if row, ok := w.rows[source]; ok && (row.State == lane.Paused || row.State == lane.Disabled) {
			w.gens[source]++
			row.State, row.Gen, row.FailSince, row.FailCount = lane.Draining, w.gens[source], time.Time{}, 0
			w.rows[source] = row
			w.machine.Invalidate("org_1", source)
		}
	}
}

// A dead endpoint with a million events costs one row and a few attempts, and is disabled after three days.
func TestDeadEndpointCostsOneRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 2)
	dead, alive := w.sources()[0], w.sources()[1]
	w.broken[dead] = true
	w.answer = func(w *world, source string, _ int64) lane.Result {
		if source == dead {
			return lane.Result{Status: 503}
		}
		return lane.Result{Status: 200}
	}
	list := make([]event.Stored, 1000)
	for n := range 1000 {
		for i := range list {
			list[i] = event.Stored{Org: "org_1", Source: dead, Seq: int64(n*1000 + i + 1), At: w.now, Kind: "wanted"}
		}
		w.log[dead] = append(w.log[dead], list...)
		w.machine.Committed(list, w.now)
		if n%100 == 0 {
			w.commit(alive, 1)
			for w.step() || len(w.inFlight) > 0 {
			}
			w.flush(false)
		}
	}
	if len(w.rows) != 1 || w.rows[dead].State != lane.Backoff || len(w.got[alive]) != 10 {
		t.Fatalf("%d rows, want 1: %+v; %d delivered to the other endpoint, want 10", len(w.rows), w.rows[dead], len(w.got[alive]))
	}
	w.settle(80 * time.Hour)
	if row := w.rows[dead]; len(w.rows) != 1 || row.State != lane.Disabled || row.Reason != lane.ReasonFailing || row.Cursor != 0 {
		t.Errorf("the dead endpoint is not disabled at cursor 0: %+v", w.rows)
	}
	if w.sends > 10+60 {
		t.Errorf("%d attempts, want at most 70", w.sends)
	}
	if len(w.notices) != 1 || w.notices[0].Recovered || w.notices[0].Reason != lane.ReasonFailing {
		t.Errorf("notices %+v, want one that it was disabled", w.notices)
	}
}

// An event that its receiver refuses becomes a side delivery after three tries. The events after it are delivered.
func TestRefusedEventBecomesSideDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 1)
	source := w.sources()[0]
	w.answer = func(_ *world, _ string, seq int64) lane.Result {
		if seq == 2 {
			return lane.Result{Status: 422}
		}
		return lane.Result{Status: 200}
	}
	w.commit(source, 5)
	began := w.now
	w.settle(time.Hour)
	w.check(2)
	if took := w.now.Sub(began); took > time.Minute || w.sideDeliveries[source][2] != 1 || w.sends != 7 || len(w.rows) != 0 {
		t.Errorf("after %s: %v, %d sends, rows %v", took, w.sideDeliveries, w.sends, w.rows)
	}
}

// An event that makes its endpoint fail with a 500 blocks the events after it for 15 minutes, not for three days. If
// those fail as well, the cursor does not move.
func TestFailingFirstEventIsMovedAside(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 2)
	poisoned, down := w.sources()[0], w.sources()[1]
	w.answer = func(_ *world, source string, seq int64) lane.Result {
		if source == poisoned && seq == 1 || source == down {
			return lane.Result{Status: 500}
		}
		return lane.Result{Status: 200}
	}
	w.commit(poisoned, 5)
	w.commit(down, 5)
	w.settle(24 * time.Hour)
	if len(w.got[poisoned]) != 4 || w.sideDeliveries[poisoned][1] != 1 {
		t.Errorf("poisoned: got %v, side deliveries %v", w.got[poisoned], w.sideDeliveries[poisoned])
	}
	if row := w.rows[down]; len(w.sideDeliveries[down]) != 0 || row.State != lane.Backoff || row.Cursor != 0 {
		t.Errorf("down: side deliveries %v, row %+v", w.sideDeliveries[down], row)
	}
}

// The failures of an endpoint end when its events have expired: nothing is left to retry. Its next failure, however much
// later, does not disable it.
func TestExpiredEventsEndFailure(t *testing.T) {
	t.Parallel()
	m, source, now := lane.New(lane.Defaults(), func() float64 { return 0.5 }), string(id.New[id.Account]()), time.Now()
	b := event.Bucket(source)
	row := lane.Row{
		Org: "org_a", Source: source, Bucket: b, Gen: 1, State: lane.Backoff, FailSince: now.Add(-71 * time.Hour), FailCount: 12,
	}
	m.HoldBucket(b, 1, nil)
	m.BucketLoaded(b, now, []lane.Row{row}, nil, now)
	m.Tick(now)
	m.HookLoaded(m.NextHookLoads(1)[0], &lane.Hook{Gen: 1, Host: "a", MaxInFlight: 1, Row: &row}, now)
	m.Read(m.NextRead(), nil, true, now)
	if batch := m.Flush(now); len(batch.Remove) != 1 {
		t.Fatalf("the row stays: %+v", batch)
	} else {
		m.Flushed(batch, nil)
	}
	now = now.Add(2 * time.Hour)
	m.Committed([]event.Stored{{Org: "org_a", Source: source, Seq: 1, At: now, Kind: "a"}}, now)
	m.Done(m.Next(now), lane.Result{Status: 503}, now)
	if batch := m.Flush(now); len(batch.Save) != 1 || batch.Save[0].State != lane.Backoff || batch.Save[0].FailCount != 1 {
		t.Errorf("after a failure: %+v", batch.Save)
	}
}

// A receiver that responds with 410 gets no more requests.
func TestGoneDisablesWebhook(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4, 1)
	w.answer = func(*world, string, int64) lane.Result { return lane.Result{Status: 410} }
	w.commit(w.sources()[0], 3)
	w.settle(100 * time.Hour)
	if row := w.rows[w.sources()[0]]; w.sends != 1 || row.State != lane.Disabled || row.Reason != lane.ReasonGone || row.Cursor != 0 {
		t.Errorf("%d sends, %+v", w.sends, row)
	}
}

// Working endpoints do not wait for bad ones on the same host, even if those open the breaker of the host.
func TestWorkingLanesDoNotWaitForBadOnesOnTheSameHost(t *testing.T) {
	t.Parallel()
	for seed := range proof.Scale[uint64](75, 300) {
		w := newWorld(t, seed, 24)
		w.host = "one"
		good := w.sources()[:4]
		takes := func(source string) time.Duration { // good endpoints respond quickly, a third of the others hang
			switch i := slices.Index(w.sources(), source); {
			case i < len(good):
				return time.Duration(w.random.IntN(200)) * time.Millisecond
			case i%3 == 0:
				return 10 * time.Second
			}
			return time.Duration(w.random.IntN(400)) * time.Millisecond
		}
		var took time.Duration
		w.answer = func(_ *world, source string, _ int64) lane.Result {
			if slices.Contains(good, source) {
				return lane.Result{Status: 200, Took: took}
			}
			if took > time.Second {
				return lane.Result{Failure: "timeout", Took: took}
			}
			return lane.Result{Failure: "connect", Took: took}
		}
		for _, source := range w.sources() {
			w.commit(source, 5)
		}
		type delivery struct {
			job        *lane.Job
			since, end time.Time
		}
		var running []delivery
		for end := w.now.Add(3 * time.Second); w.now.Before(end); w.now = w.now.Add(10 * time.Millisecond) {
			for again := true; again; {
				again = false
				w.machine.Tick(w.now)
				for _, load := range w.machine.NextHookLoads(1000) {
					w.machine.HookLoaded(load, w.hook(load.Lane.Source()), w.now)
					again = true
				}
				if p := w.machine.NextRead(); p != nil {
					w.machine.Read(p, w.log[p.Lane.Source()][p.After:], true, w.now)
					again = true
				}
				for job := w.machine.Next(w.now); job != nil; job = w.machine.Next(w.now) {
					running = append(running, delivery{job, w.now, w.now.Add(takes(job.Lane.Source()))})
				}
				running = slices.DeleteFunc(running, func(d delivery) bool {
					if w.now.Before(d.end) {
						return false
					}
					took = w.now.Sub(d.since)
					w.inFlight = append(w.inFlight[:0], d.job)
					w.land(0)
					again = true
					return true
				})
			}
		}
		for _, source := range good {
			if n := len(w.got[source]); n != 5 {
				t.Errorf("seed %d: a working endpoint got %d of 5 events", seed, n)
			}
		}
	}
}

// When a host is down, one lane probes it for all. When it is back, the lanes are released step by step.
func TestOneLaneProbesDownHostForAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, 200)
	w.host = "one"
	up := false
	w.answer = func(*world, string, int64) lane.Result {
		if up {
			return lane.Result{Status: 200}
		}
		return lane.Result{Failure: "connect"}
	}
	for _, source := range w.sources() {
		w.gens[source] = 1
	}
	hooks := w.sources()
	for _, source := range hooks {
		w.commit(source, 1)
	}
	w.pump()
	if w.sends > 16+5 || len(w.rows) != 200 {
		t.Errorf("%d sends, %d rows when the host went down", w.sends, len(w.rows))
	}
	began := w.sends
	for range 6 * 60 {
		w.now = w.now.Add(10 * time.Second)
		w.pump()
	}
	if n := w.sends - began; n > 40 {
		t.Errorf("%d attempts in an hour for 200 accounts", n)
	}
	up = true
	for range 24 * 60 {
		w.now = w.now.Add(time.Minute)
		w.pump()
	}
	w.check(5)
	if len(w.rows) != 0 {
		t.Errorf("%d rows are left", len(w.rows))
	}
}

// One host name may serve many customers. Dead endpoints among them do not delay the retries of the others.
func TestDeadEndpointsDoNotDelayRetriesOnTheSameHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 6, 40)
	w.host = "one"
	dead, once := map[string]bool{}, map[string]bool{}
	for i, source := range w.sources() {
		dead[source], once[source] = i%2 == 0, i%4 == 1
	}
	w.answer = func(_ *world, source string, _ int64) lane.Result {
		if dead[source] || once[source] {
			once[source] = false
			return lane.Result{Status: 500, Took: time.Millisecond}
		}
		return lane.Result{Status: 200, Took: time.Millisecond}
	}
	fire := func(those func(string) bool) {
		for _, source := range w.sources() {
			if those(source) {
				w.commit(source, 1)
			}
		}
		w.pump()
	}
	fire(func(s string) bool { return !dead[s] })
	fire(func(s string) bool { return dead[s] }) // only failures in a row: the breaker opens
	for range 4 * 45 {
		w.now = w.now.Add(250 * time.Millisecond)
		w.pump()
	}
	for _, source := range w.sources() {
		if !dead[source] && len(w.got[source]) == 0 {
			t.Errorf("%s got nothing within 45 s: %+v", source, w.rows[source])
		}
	}
}

// While permits are scarce, healthy lanes still deliver, and an organisation whose endpoints hang does not starve others.
func TestHangingEndpointsDoNotStarveOthers(t *testing.T) {
	t.Parallel()
	c := lane.Defaults()
	c.Permits, c.HostStart, c.HostMax = 100, 64, 64
	m := lane.New(c, func() float64 { return 0.5 })
	now := time.Now()
	source := func() string { return string(id.New[id.Account]()) }
	seen := map[int]bool{}
	commit := func(org id.Org, name, host string) {
		b := event.Bucket(name)
		if !seen[b] {
			seen[b] = true
			m.HoldBucket(b, 1, nil)
			m.BucketLoaded(b, now, nil, nil, now)
		}
		m.Committed([]event.Stored{{Org: org, Source: name, Seq: 1, At: now, Kind: "a"}}, now)
		for _, load := range m.NextHookLoads(10) {
			m.HookLoaded(load, &lane.Hook{Gen: 1, Host: host, MaxInFlight: 1}, now)
		}
	}
	var hanging []*lane.Job
	for i := range 300 {
		commit("org_bad", source(), string(rune('a'+i%20)))
	}
	for job := m.Next(now); job != nil; job = m.Next(now) {
		hanging = append(hanging, job)
	}
	if len(hanging) != 100 {
		t.Fatalf("%d in flight, want 100", len(hanging))
	}
	for range 50 {
		commit("org_good", source(), "good")
	}
	// Of the permits that hanging deliveries free, the other organisation gets nearly half.
	good := 0
	for i := 0; i < 60; i++ {
		job := hanging[i]
		m.Done(job, lane.Result{Failure: "timeout", Took: 10 * time.Second}, now.Add(10*time.Second))
		next := m.Next(now.Add(10 * time.Second))
		if next == nil {
			continue
		}
		if next.Event.Org == "org_good" {
			good++
			m.Done(next, lane.Result{Status: 200, Took: time.Millisecond}, now.Add(10*time.Second))
		} else {
			hanging = append(hanging, next)
		}
	}
	if good < 25 {
		t.Errorf("the healthy organisation got %d of 60 permits, want at least 25", good)
	}
}

// The delays are those of the documentation. Jitter at most halves the first two.
func TestDelays(t *testing.T) {
	t.Parallel()
	c := lane.Defaults()
	for i, want := range []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 12 * time.Hour} {
		least, most := c.Delay(i+1, 0), c.Delay(i+1, math.Nextafter(1, 0))
		if most > want || most < want-time.Microsecond {
			t.Errorf("after %d failures at most %s, want %s", i+1, most, want)
		}
		if low := want / 2; i < 2 && least != low || i >= 2 && least != 5*time.Second {
			t.Errorf("after %d failures at least %s", i+1, least)
		}
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]lane.Outcome{
		200: lane.Delivered, 204: lane.Delivered, 299: lane.Delivered, 0: lane.Down, 301: lane.Down, 302: lane.Down, 304: lane.Down,
		400: lane.Refused, 401: lane.Down, 403: lane.Down, 404: lane.Down, 408: lane.Down, 409: lane.Refused, 410: lane.Gone,
		413: lane.Refused, 422: lane.Refused, 425: lane.Down, 429: lane.Down, 500: lane.Down, 503: lane.Down, 101: lane.Down, 999: lane.Down,
	} {
		if got := lane.Classify(lane.Result{Status: status}); got != want {
			t.Errorf("%d is %d, want %d", status, got, want)
		}
	}
	if lane.Classify(lane.Result{Status: 200, Aborted: true}) != lane.Aborted {
		t.Error("an aborted delivery counts")
	}
}

// The wait is never negative and never longer than an hour, whatever the receiver sends.
func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "0", "5", "3600", "99999999999999999999", "-1", "Wed, 21 Oct 2026 07:28:00 GMT", "soon", " 7 ", "1e9"} {
		f.Add(seed)
	}
	now := time.Date(2026, 10, 21, 7, 27, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		if d := lane.RetryAfter(text, now, time.Hour); d < 0 || d > time.Hour {
			t.Fatalf("%q is %s", text, d)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 10, 21, 7, 27, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"5": 5 * time.Second, " 7 ": 7 * time.Second, "99999999999999999999": time.Hour, "Wed, 21 Oct 2026 07:28:00 GMT": time.Minute,
		"Wed, 21 Oct 2020 07:28:00 GMT": 0, "soon": 0, "-5": 0, "": 0,
	} {
		if got := lane.RetryAfter(text, now, time.Hour); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}
