package requestlog

import (
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/effect"
	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Events are the events that a request caused, in the form in which they are stored: id, kind and account of one per
// line.
type Events string

// maxEvents bounds the number of events.
const maxEvents = 16

// EventsOf returns the stored form of events, of which it keeps the first.
func EventsOf(list []effect.Event) Events {
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	for _, e := range list[:min(len(list), maxEvents)] {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(string(e.ID) + " " + e.Kind + " " + string(e.Account))
	}
	return Events(b.String())
}

// All returns the events, an empty list if there are none.
func (e Events) All() []effect.Event {
	list := []effect.Event{}
	if e == "" {
		return list
	}
	for line := range strings.SplitSeq(string(e), "\n") {
		one, rest, _ := strings.Cut(line, " ")
		kind, account, _ := strings.Cut(rest, " ")
		list = append(list, effect.Event{ID: id.Event(one), Kind: kind, Account: id.Account(account)})
	}
	return list
}
