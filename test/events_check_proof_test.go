package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// honestEvidence returns the evidence of ten events without a fault: eight of the platform and two of the service.
func honestEvidence() *evidence {
	e := &evidence{name: "ok@sandbox.test", account: "acct_1", from: 3, honest: true}
	account, ofOrg := watcher{}, watcher{ofOrg: true}
	for seq := int64(4); seq <= 13; seq++ {
		body := digestOf(fmt.Append(nil, "body ", seq))
		k := loggedEvent{seq: seq, kind: "account.degraded", body: body}
		if seq != 6 && seq != 11 {
			k.kind, k.content = "message", content("message", time.UnixMilli(seq), fmt.Append(nil, "data ", seq))
			e.ledger = append(e.ledger, k.content)
		}
		e.log = append(e.log, k)
		e.arrivals = append(e.arrivals, arrival{seq: seq, body: body, account: e.account, signed: true, late: time.Duration(seq) * time.Millisecond})
		s := sighting{seq: seq, body: body, account: e.account}
		if seq%4 == 0 {
			account.connections = append(account.connections, nil)
		}
		last := len(account.connections) - 1
		account.connections[last] = append(account.connections[last], s)
		ofOrg.connections = append(ofOrg.connections, []sighting{s})
	}
	e.watchers = []watcher{account, ofOrg}
	return e
}

func TestCheckFindsNothingWhenAllWentWell(t *testing.T) {
	var v findings
	e := honestEvidence()
	again := e.arrivals[8]
	again.again = true
	// No faults: a repeated delivery, one from an earlier case, and events that an organisation's stream repeats.
	e.arrivals = append(e.arrivals, again)
	e.arrivals = append(e.arrivals, arrival{seq: 2, account: e.account, signed: true})
	e.watchers[1].connections = append(e.watchers[1].connections, e.watchers[1].connections[5:8]...)
	e.watchers[1].connections = append(e.watchers[1].connections, []sighting{{seq: 3, account: e.account}})
	v.check(e)
	if f := v.faults(false); len(f) > 0 || v.isPending() {
		t.Errorf("found %v: %v", f, v.examples)
	}
	if v.frames != 8 || v.stored != 8 || v.own != 2 || v.delivered != 10 || v.redelivered != 1 || v.streamed != 20 || v.reseen != 3 {
		t.Errorf("counted %+v", v)
	}
	if v.lateness(0.5) != 9*time.Millisecond || v.lateness(1) != 13*time.Millisecond {
		t.Errorf("the median is %s and the longest %s", v.lateness(0.5), v.lateness(1))
	}
}

// Each case spoils one thing, and the check must find exactly that.
func TestCheckFindsEveryFault(t *testing.T) {
	cut := func(list []arrival, i int) []arrival { return slices.Delete(slices.Clone(list), i, i+1) }
	for _, c := range []struct {
		name  string
		spoil func(e *evidence)
		want  string
	}{
		{"a frame that was never stored", func(e *evidence) {
			e.ledger = append(e.ledger, content("message", time.UnixMilli(99), []byte("data 99")))
		}, "1 lost"},
		{"a frame that is stored twice", func(e *evidence) {
			again := loggedEvent{seq: 14, kind: "message", content: e.log[3].content, body: digestOf([]byte("body 14"))}
			e.log = append(e.log, again)
			e.deliverEverywhere(again)
		}, "1 stored twice"},
		{"two frames of the same content of which one is missing", func(e *evidence) { e.ledger = append(e.ledger, e.ledger[7]) }, "1 lost"},
		{"an event that never happened", func(e *evidence) { e.log[9].content = content("message", time.UnixMilli(13), []byte("another")) }, "1 lost, 1 never sent by the platform"},
		{"a hole", func(e *evidence) {
			e.log[9].seq = 14
			e.arrivals[9].seq = 14
			e.watchers[0].connections[2][1].seq, e.watchers[1].connections[9][0].seq = 14, 14
		}, "1 holes in a sequence"},
		{"frames that changed places", func(e *evidence) { e.ledger[4], e.ledger[5] = e.ledger[5], e.ledger[4] }, "1 not in the platform's order"},
		{"a gap that was reported", func(e *evidence) { e.log[2].kind = "listener.gap" }, "1 gaps reported"},
		{"an event that was never delivered", func(e *evidence) { e.arrivals = cut(e.arrivals, 4) }, "1 not delivered"},
		{"an event of the service that was never delivered", func(e *evidence) { e.arrivals = cut(e.arrivals, 2) }, "1 not delivered"},
		{"deliveries that changed places", func(e *evidence) { e.arrivals[4], e.arrivals[5] = e.arrivals[5], e.arrivals[4] }, "1 delivered out of order"},
		{"a delivery with another body", func(e *evidence) { e.arrivals[4].body[0]++ }, "1 with other bytes"},
		{"a delivery of what is not stored", func(e *evidence) {
			e.arrivals = append(e.arrivals, arrival{seq: 99, account: e.account, signed: true})
		}, "1 with other bytes"},
		{"a delivery without a signature", func(e *evidence) { e.arrivals[4].signed = false }, "1 not signed"},
		{"a delivery of another account", func(e *evidence) {
			e.arrivals = append(e.arrivals, arrival{seq: 4, account: "acct_2", signed: true})
		}, "1 of another tenant"},
		{"a delivery with another organisation's canary", func(e *evidence) {
			e.arrivals = append(e.arrivals, arrival{seq: 4, account: e.account, signed: true, foreign: true})
		}, "1 of another tenant"},
		{"an event missing on the account's stream", func(e *evidence) { e.watchers[0].connections[1] = e.watchers[0].connections[1][1:] }, "1 not streamed"},
		{"an event missing on the organisation's stream", func(e *evidence) { e.watchers[1].connections[3] = nil }, "1 not streamed"},
		{"a stream that goes back", func(e *evidence) {
			c := e.watchers[0].connections[1]
			c[0], c[1] = c[1], c[0]
		}, "1 streamed out of order"},
		{"a stream that repeats an event when it is resumed", func(e *evidence) {
			c := e.watchers[0].connections
			c[1] = append([]sighting{c[0][3]}, c[1]...)
		}, "1 streamed out of order"},
		{"a stream with another body", func(e *evidence) { e.watchers[1].connections[3][0].body[5]++ }, "1 with other bytes"},
		{"a stream of another account", func(e *evidence) {
			e.watchers[1].connections[0] = append(e.watchers[1].connections[0], sighting{seq: 9, account: "acct_7"})
		}, "1 of another tenant"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v findings
			e := honestEvidence()
			c.spoil(e)
			v.check(e)
			if got := strings.Join(v.faults(false), ", "); got != c.want {
				t.Errorf("found %q, want %q: %v", got, c.want, v.examples)
			}
		})
	}
}

// deliverEverywhere adds a delivery and sightings of an event.
func (e *evidence) deliverEverywhere(k loggedEvent) {
	e.arrivals = append(e.arrivals, arrival{seq: k.seq, body: k.body, account: e.account, signed: true})
	for i := range e.watchers {
		c := e.watchers[i].connections
		c[len(c)-1] = append(c[len(c)-1], sighting{seq: k.seq, body: k.body, account: e.account})
	}
}

// Deliveries that are marked may be out of order, and so may events if the platform breaks its order.
func TestCheckAcceptsMarkedDeliveries(t *testing.T) {
	var v findings
	e := honestEvidence()
	late := e.arrivals[4]
	late.marked = true
	e.arrivals = append(slices.Delete(e.arrivals, 4, 5), late)
	e.ledger[4], e.ledger[5] = e.ledger[5], e.ledger[4]
	v.check(e)
	if f := v.faults(true); len(f) > 0 || v.marked != 1 || v.swapped != 1 {
		t.Errorf("found %v, %d marked, %d swapped: %v", f, v.marked, v.swapped, v.examples)
	}
}

// What was delivered before the database went back to an earlier state does not count: the events that are stored now
// must have arrived.
func TestCheckKnowsWhatWasUndone(t *testing.T) {
	for _, c := range []struct {
		name      string
		delivered bool
		want      string
	}{{"delivered again", true, ""}, {"not delivered again", false, "1 not delivered, 2 not streamed"}} {
		t.Run(c.name, func(t *testing.T) {
			var v findings
			e := honestEvidence()
			e.log[9].body = digestOf([]byte("stored again"))
			if c.delivered {
				e.deliverEverywhere(e.log[9])
			}
			e.dropUndone()
			v.check(e)
			if got := strings.Join(v.faults(false), ", "); got != c.want {
				t.Errorf("found %q, want %q: %v", got, c.want, v.examples)
			}
		})
	}
}

// A stand-still counts only while something is on its way, and the recovery only what was sent before the fault ended.
func TestCheckMeasuresTheStandstill(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }
	v := findings{trips: []trip{{at(0), at(1)}, {at(10), at(11)}, {at(12), at(18)}, {at(14), at(17)}, {at(19), at(30)}}}
	if got := v.standstill(); got != 11*time.Second {
		t.Errorf("the longest stand-still is %s", got)
	}
	v.trips = v.trips[:4]
	if got := v.standstill(); got != 5*time.Second {
		t.Errorf("without the last one, the longest stand-still is %s", got)
	}
	if got := v.recovery(at(13)); got != 5*time.Second {
		t.Errorf("recovered after %s", got)
	}
}
