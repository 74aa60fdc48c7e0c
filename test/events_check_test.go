package test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// digest identifies bytes that must be the same in two places.
type digest [16]byte

func digestOf(parts ...[]byte) digest {
	h := sha256.New()
	for _, part := range parts {
		h.Write(part)
		h.Write([]byte{0})
	}
	return digest(h.Sum(nil)[:16])
}

// gotEvent is an event as a receiver, a stream or a page of the log got it.
type gotEvent struct {
	ID    string `json:"id"`
	Kind  string `json:"event"`
	Owner string `json:"accountId"`
	Data  json.RawMessage
	Meta  struct {
		Seq        int64
		UpstreamAt *time.Time
	}
	// body is the whole event.
	body []byte
}

func parseEvent(body []byte) (gotEvent, error) {
	e := gotEvent{body: body}
	err := json.Unmarshal(body, &e)
	return e, err
}

// content identifies an event of the platform among all events of its account: by its kind, its time and its data.
func content(kind string, at time.Time, data []byte) digest {
	return digestOf([]byte(kind), []byte(at.UTC().Format(time.RFC3339Nano)), data)
}

// content returns zero for an event of the service itself.
func (e *gotEvent) content() digest {
	if e.Meta.UpstreamAt == nil {
		return digest{}
	}
	return content(e.Kind, *e.Meta.UpstreamAt, e.Data)
}

// kept is an event in the log of an account, as the pull API shows it.
type loggedEvent struct {
	seq  int64
	kind string
	// content is zero for an event of the service itself.
	content, body digest
}

// arrival is a delivery to a receiver.
type arrival struct {
	seq  int64
	body digest
	// account is the account that the event names; foreign means that it contains the canary of another organisation.
	account string
	foreign bool
	signed  bool
	// marked means that the delivery is marked as out of order or as a replay.
	marked bool
	// again means that the event arrived before, in this case or an earlier one.
	again bool
	// late is the time from the platform to an honest receiver, which got it at the time at; 0 if unknown.
	late time.Duration
	at   time.Time
}

// sighting is an event on a stream.
type sighting struct {
	seq     int64
	body    digest
	account string
	foreign bool
}

// watcher is a client of a stream. It has one connection after the other.
type watcher struct {
	connections [][]sighting
	// ofOrg means that it is the stream of an organisation, which may repeat events after it was cut off.
	ofOrg bool
}

// evidence is everything known about an account's events in a case.
type evidence struct {
	name, account string
	// from is the last event before the case.
	from int64
	// ledger holds the durable frames of the platform, in its order.
	ledger []digest
	log    []loggedEvent
	// arrivals are the deliveries to its receiver. If it is honest, it must have got every event.
	honest   bool
	arrivals []arrival
	watchers []watcher
}

// dropUndone removes what receivers and streams got before the database went back to an earlier state, and what was stored
// again in another form. Everything in the log must have reached them as it is there now.
func (e *evidence) dropUndone() {
	bodies := make(map[int64]digest, len(e.log))
	for _, k := range e.log {
		bodies[k.seq] = k.body
	}
	undone := func(seq int64, body digest) bool { return seq > e.from && bodies[seq] != body }
	e.arrivals = slices.DeleteFunc(slices.Clone(e.arrivals), func(a arrival) bool { return undone(a.seq, a.body) })
	for _, w := range e.watchers {
		for i, c := range w.connections {
			w.connections[i] = slices.DeleteFunc(slices.Clone(c), func(s sighting) bool { return undone(s.seq, s.body) })
		}
	}
}

// findings counts events and faults.
type findings struct {
	accounts, frames, stored, own int
	// lost counts frames that are not in the log, duplicated those that are in it more than once, invented events that
	// the platform never sent.
	lost, duplicated, invented int
	// holes counts missing sequences, swapped events that are not in the platform's order, gaps events which say that
	// others may be missing.
	holes, swapped, gaps int

	delivered, undelivered, redelivered, outOfOrder, marked, unsigned int
	streamed, unseen, reseen, streamedOutOfOrder                      int
	connections                                                       int
	// altered counts events with other bytes than in the log.
	altered int
	// foreign counts events of another organisation or account.
	foreign  int
	late     []time.Duration
	trips    []trip
	examples []string
	// waiting counts the events that honest receivers did not get, by account.
	waiting map[string]int
}

const mostExamples = 12

func (v *findings) addFault(counter *int, e *evidence, format string, args ...any) {
	*counter++
	if len(v.examples) < mostExamples {
		v.examples = append(v.examples, e.name+" "+e.account+": "+fmt.Sprintf(format, args...))
	}
}

func (v *findings) check(e *evidence) {
	v.accounts++
	v.frames += len(e.ledger)
	bodies := v.checkLog(e)
	v.checkArrivals(e, bodies)
	for i := range e.watchers {
		v.checkWatcher(e, &e.watchers[i], bodies)
	}
}

// checkLog compares the log with the platform's ledger. It returns the digests of the bodies by sequence.
func (v *findings) checkLog(e *evidence) map[int64]digest {
	bodies := make(map[int64]digest, len(e.log))
	next := e.from + 1
	found := map[digest][]int64{}
	for _, k := range e.log {
		if k.seq != next {
			v.addFault(&v.holes, e, "sequence %d follows %d", k.seq, next-1)
		}
		next = k.seq + 1
		bodies[k.seq] = k.body
		if k.kind == "listener.gap" {
			v.addFault(&v.gaps, e, "event %d reports a gap", k.seq)
		}
		if k.content == (digest{}) {
			v.own++
			continue
		}
		v.stored++
		found[k.content] = append(found[k.content], k.seq)
	}
	last := int64(0)
	for i, frame := range e.ledger {
		seqs := found[frame]
		if len(seqs) == 0 {
			v.addFault(&v.lost, e, "frame %d of %d is not in the log", i+1, len(e.ledger))
			continue
		}
		found[frame] = seqs[1:] // each of several frames with the same content needs its own event
		if seqs[0] < last {
			v.addFault(&v.swapped, e, "frame %d is in the log before an earlier one, at %d", i+1, seqs[0])
		}
		last = max(last, seqs[0])
	}
	known := map[digest]bool{}
	for _, frame := range e.ledger {
		known[frame] = true
	}
	for frame, seqs := range found {
		for _, seq := range seqs {
			if known[frame] {
				v.addFault(&v.duplicated, e, "event %d is in the log a second time", seq)
			} else {
				v.addFault(&v.invented, e, "event %d was never sent by the platform", seq)
			}
		}
	}
	return bodies
}

// checkArrivals compares the deliveries to the receiver with the log.
func (v *findings) checkArrivals(e *evidence, bodies map[int64]digest) {
	seen := make(map[int64]bool, len(bodies))
	last := int64(0)
	for i := range e.arrivals {
		a := &e.arrivals[i]
		if a.foreign || a.account != e.account {
			v.addFault(&v.foreign, e, "its receiver got an event of %q", a.account)
			continue
		}
		if !a.signed {
			v.addFault(&v.unsigned, e, "delivery of %d has a wrong signature", a.seq)
		}
		if a.marked {
			v.marked++
		}
		if a.again && e.honest { // bad receivers get retries
			v.redelivered++
		}
		if a.seq <= e.from {
			continue // from an earlier case
		}
		if body, ok := bodies[a.seq]; !ok || body != a.body {
			v.addFault(&v.altered, e, "delivery of %d has other bytes than the log, or is not in it", a.seq)
		}
		if seen[a.seq] {
			continue
		}
		seen[a.seq] = true
		v.delivered++
		if a.late > 0 {
			v.late = append(v.late, a.late)
			v.trips = append(v.trips, trip{a.at.Add(-a.late), a.at})
		}
		if a.seq < last && !a.marked {
			v.addFault(&v.outOfOrder, e, "%d was first delivered after %d", a.seq, last)
		}
		last = max(last, a.seq)
	}
	if !e.honest {
		return
	}
	for _, seq := range missing(bodies, seen) {
		v.addFault(&v.undelivered, e, "event %d did not reach its receiver", seq)
		if v.waiting == nil {
			v.waiting = map[string]int{}
		}
		v.waiting[e.account]++
	}
}

// checkWatcher compares the events on a stream with the log.
func (v *findings) checkWatcher(e *evidence, w *watcher, bodies map[int64]digest) {
	seen := make(map[int64]bool, len(bodies))
	for _, connection := range w.connections {
		v.connections++
		last := int64(0)
		for _, s := range connection {
			if s.foreign || s.account != e.account {
				v.addFault(&v.foreign, e, "its stream has an event of %q", s.account)
				continue
			}
			if s.seq <= last {
				v.addFault(&v.streamedOutOfOrder, e, "a stream has %d after %d", s.seq, last)
			}
			last = s.seq
			if s.seq <= e.from {
				continue // from an earlier case
			}
			if body, ok := bodies[s.seq]; !ok || body != s.body {
				v.addFault(&v.altered, e, "a stream's %d has other bytes than the log, or is not in it", s.seq)
			}
			switch {
			case !seen[s.seq]:
				seen[s.seq] = true
				v.streamed++
			case w.ofOrg:
				v.reseen++
			default:
				v.addFault(&v.streamedOutOfOrder, e, "the stream of an account repeated %d after it was resumed", s.seq)
			}
		}
	}
	for _, seq := range missing(bodies, seen) {
		v.addFault(&v.unseen, e, "event %d is missing on a stream (of the organisation: %v)", seq, w.ofOrg)
	}
}

// missing returns the sequences of a log that were not seen, in order.
func missing(bodies map[int64]digest, seen map[int64]bool) []int64 {
	var list []int64
	for seq := range bodies {
		if !seen[seq] {
			list = append(list, seq)
		}
	}
	slices.Sort(list)
	return list
}

// faults describes what must never happen. reordered accepts events that are not in the platform's order, for a case in
// which the platform itself breaks it.
func (v *findings) faults(reordered bool) []string {
	var list []string
	for _, one := range []struct {
		what string
		n    int
	}{
		{"lost", v.lost}, {"stored twice", v.duplicated}, {"never sent by the platform", v.invented}, {"holes in a sequence", v.holes},
		{"gaps reported", v.gaps}, {"not delivered", v.undelivered}, {"delivered out of order", v.outOfOrder}, {"not signed", v.unsigned},
		{"not streamed", v.unseen}, {"streamed out of order", v.streamedOutOfOrder}, {"with other bytes", v.altered}, {"of another tenant", v.foreign},
	} {
		if one.n > 0 {
			list = append(list, fmt.Sprintf("%d %s", one.n, one.what))
		}
	}
	if v.swapped > 0 && !reordered {
		list = append(list, fmt.Sprintf("%d not in the platform's order", v.swapped))
	}
	return list
}

// isPending reports whether more time could help: something has not arrived yet.
func (v *findings) isPending() bool { return v.lost+v.undelivered+v.unseen > 0 }

// lateness returns a quantile of how late deliveries were.
func (v *findings) lateness(p float64) time.Duration {
	if len(v.late) == 0 {
		return 0
	}
	slices.Sort(v.late)
	return v.late[min(int(float64(len(v.late))*p), len(v.late)-1)].Round(time.Millisecond)
}

// trip is when a frame left the platform, and when an honest receiver got it.
type trip struct{ sent, arrived time.Time }

// standstill returns the longest time in which nothing arrived at any honest receiver although something was on its way.
func (v *findings) standstill() (longest time.Duration) {
	slices.SortFunc(v.trips, func(a, b trip) int { return a.arrived.Compare(b.arrived) })
	var oldest time.Time
	for i, here := range slices.Backward(v.trips) {
		if oldest.IsZero() || here.sent.Before(oldest) {
			oldest = here.sent // of those that arrived now or later
		}
		since := oldest
		if i > 0 && v.trips[i-1].arrived.After(since) {
			since = v.trips[i-1].arrived
		}
		longest = max(longest, here.arrived.Sub(since))
	}
	return longest
}

// recovery returns how long after a time everything had arrived at honest receivers that was sent before it.
func (v *findings) recovery(healed time.Time) (last time.Duration) {
	for _, one := range v.trips {
		if !one.sent.After(healed) {
			last = max(last, one.arrived.Sub(healed))
		}
	}
	return last
}
