package test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// digest stands for bytes that must be the same in two places.
type digest [16]byte

func digestOf(parts ...[]byte) digest {
	h := sha256.New()
	for _, part := range parts {
		h.Write(part)
		h.Write([]byte{0})
	}
	return digest(h.Sum(nil)[:16])
}

// told is an event as somebody was told of it: a receiver, a stream or a page.
type told struct {
	ID    string `json:"id"`
	Kind  string `json:"event"`
	Owner string `json:"accountId"`
	Data  json.RawMessage
	Meta  struct {
		Seq        int64
		UpstreamAt *time.Time
	}
	// body is what all of it was.
	body []byte
}

func readTold(body []byte) (told, error) {
	e := told{body: body}
	err := json.Unmarshal(body, &e)
	return e, err
}

// content is what tells an event of the platform from all others of its account: its kind, its time and all of its data.
func content(kind string, at time.Time, data []byte) digest {
	return digestOf([]byte(kind), []byte(at.UTC().Format(time.RFC3339Nano)), data)
}

// content is zero for an event that is not the platform's.
func (e *told) content() digest {
	if e.Meta.UpstreamAt == nil {
		return digest{}
	}
	return content(e.Kind, *e.Meta.UpstreamAt, e.Data)
}

// kept is an event in the log of an account, as the pull API shows it.
type kept struct {
	seq  int64
	kind string
	// content is zero for an event of the service's own.
	content, body digest
}

// arrival is a delivery to a receiver.
type arrival struct {
	seq  int64
	body digest
	// account is whose it says it is; foreign means that another org's canary is in it.
	account string
	foreign bool
	signed  bool
	// aside means that it is flagged as out of order, or is a replay.
	aside bool
	// again means that it had come before, in this case or an earlier one.
	again bool
	// late is how long it took from the platform to an honest receiver; 0 if that is not known.
	late time.Duration
}

// sighting is an event on a stream.
type sighting struct {
	seq     int64
	body    digest
	account string
	foreign bool
}

// watcher is a stream and its connections, one after the other.
type watcher struct {
	connections [][]sighting
	// ofOrg streams may tell an event again after they were cut off.
	ofOrg bool
}

// evidence is all that is known of an account's events in a case.
type evidence struct {
	name, account string
	// from is the last event before the case.
	from int64
	// ledger are the durable frames of the platform, in its order.
	ledger []digest
	log    []kept
	// arrivals are those at its receiver, which must have come if it is honest.
	honest   bool
	arrivals []arrival
	watchers []watcher
}

// verdict counts what was found.
type verdict struct {
	accounts, frames, stored, own int
	// lost frames are not in the log; doubled are there more than once; invented were never sent.
	lost, doubled, invented int
	// holes are places where the sequence is not contiguous; swapped, events that are not in the platform's order; gaps, events that say
	// that others may be missing.
	holes, swapped, gaps int

	delivered, undelivered, redelivered, disordered, aside, unsigned int
	streamed, unseen, reseen, outOfTurn                              int
	connections                                                      int
	// altered bytes are not those of the log.
	altered int
	// foreign events are another org's or another account's.
	foreign  int
	late     []time.Duration
	examples []string
	// waiting counts what has not come to honest receivers, by account.
	waiting map[string]int
}

const mostExamples = 12

func (v *verdict) note(counter *int, e *evidence, format string, args ...any) {
	*counter++
	if len(v.examples) < mostExamples {
		v.examples = append(v.examples, e.name+" "+e.account+": "+fmt.Sprintf(format, args...))
	}
}

// judge adds what an account's evidence shows.
func (v *verdict) judge(e *evidence) {
	v.accounts++
	v.frames += len(e.ledger)
	bodies := v.judgeLog(e)
	v.judgeArrivals(e, bodies)
	for i := range e.watchers {
		v.judgeWatcher(e, &e.watchers[i], bodies)
	}
}

// judgeLog compares the log with the platform's ledger, and gives the bodies by sequence.
func (v *verdict) judgeLog(e *evidence) map[int64]digest {
	bodies := make(map[int64]digest, len(e.log))
	next := e.from + 1
	found := map[digest][]int64{}
	for _, k := range e.log {
		if k.seq != next {
			v.note(&v.holes, e, "sequence %d follows %d", k.seq, next-1)
		}
		next = k.seq + 1
		bodies[k.seq] = k.body
		if k.kind == "listener.gap" {
			v.note(&v.gaps, e, "a gap was told at %d", k.seq)
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
			v.note(&v.lost, e, "frame %d of %d is not in the log", i+1, len(e.ledger))
			continue
		}
		found[frame] = seqs[1:] // frames with the same content are as many events
		if seqs[0] < last {
			v.note(&v.swapped, e, "frame %d came before one that happened earlier, at %d", i+1, seqs[0])
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
				v.note(&v.doubled, e, "event %d is in the log a second time", seq)
			} else {
				v.note(&v.invented, e, "event %d was never sent by the platform", seq)
			}
		}
	}
	return bodies
}

// judgeArrivals compares what came to the receiver with the log.
func (v *verdict) judgeArrivals(e *evidence, bodies map[int64]digest) {
	seen := make(map[int64]bool, len(bodies))
	last := int64(0)
	for i := range e.arrivals {
		a := &e.arrivals[i]
		if a.foreign || a.account != e.account {
			v.note(&v.foreign, e, "its receiver was sent an event of %q", a.account)
			continue
		}
		if !a.signed {
			v.note(&v.unsigned, e, "delivery of %d is not signed", a.seq)
		}
		if a.aside {
			v.aside++
		}
		if a.again && e.honest { // others are tried again for good reason
			v.redelivered++
		}
		if a.seq <= e.from {
			continue // of an earlier case
		}
		if body, ok := bodies[a.seq]; !ok || body != a.body {
			v.note(&v.altered, e, "delivery of %d has other bytes than the log, or is not in it", a.seq)
		}
		if seen[a.seq] {
			continue
		}
		seen[a.seq] = true
		v.delivered++
		if a.late > 0 {
			v.late = append(v.late, a.late)
		}
		if a.seq < last && !a.aside {
			v.note(&v.disordered, e, "delivery of %d came first after %d", a.seq, last)
		}
		last = max(last, a.seq)
	}
	if !e.honest {
		return
	}
	for _, seq := range missing(bodies, seen) {
		v.note(&v.undelivered, e, "event %d did not come to its receiver", seq)
		if v.waiting == nil {
			v.waiting = map[string]int{}
		}
		v.waiting[e.account]++
	}
}

// judgeWatcher compares what a stream has told with the log.
func (v *verdict) judgeWatcher(e *evidence, w *watcher, bodies map[int64]digest) {
	seen := make(map[int64]bool, len(bodies))
	for _, connection := range w.connections {
		v.connections++
		last := int64(0)
		for _, s := range connection {
			if s.foreign || s.account != e.account {
				v.note(&v.foreign, e, "its stream told an event of %q", s.account)
				continue
			}
			if s.seq <= last {
				v.note(&v.outOfTurn, e, "a stream told %d after %d", s.seq, last)
			}
			last = s.seq
			if s.seq <= e.from {
				continue // of an earlier case
			}
			if body, ok := bodies[s.seq]; !ok || body != s.body {
				v.note(&v.altered, e, "a stream's %d has other bytes than the log, or is not in it", s.seq)
			}
			switch {
			case !seen[s.seq]:
				seen[s.seq] = true
				v.streamed++
			case w.ofOrg:
				v.reseen++
			default:
				v.note(&v.outOfTurn, e, "an account's stream that was resumed told %d again", s.seq)
			}
		}
	}
	for _, seq := range missing(bodies, seen) {
		v.note(&v.unseen, e, "event %d was not on a stream (of the org: %v)", seq, w.ofOrg)
	}
}

// missing are the sequences of a log that were not seen, in order.
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

// faults are what must never be; reordered allows that the platform's order is not kept, which it was told to break.
func (v *verdict) faults(reordered bool) []string {
	var list []string
	for _, one := range []struct {
		what string
		n    int
	}{
		{"lost", v.lost}, {"stored twice", v.doubled}, {"never sent by the platform", v.invented}, {"holes in a sequence", v.holes},
		{"gaps told", v.gaps}, {"not delivered", v.undelivered}, {"delivered out of order", v.disordered}, {"not signed", v.unsigned},
		{"not streamed", v.unseen}, {"streamed out of turn", v.outOfTurn}, {"with other bytes", v.altered}, {"of another tenant", v.foreign},
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

// pending says whether more time could help: something has not arrived, and nothing else is wrong.
func (v *verdict) pending() bool { return v.lost+v.undelivered+v.unseen > 0 }

// share is how late the given part of the deliveries was.
func (v *verdict) share(p float64) time.Duration {
	if len(v.late) == 0 {
		return 0
	}
	slices.Sort(v.late)
	return v.late[min(int(float64(len(v.late))*p), len(v.late)-1)].Round(time.Millisecond)
}
