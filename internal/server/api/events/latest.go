package events

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/delivery/stream"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// latest writes a page of the newest events, newest first.
func (e *events) latest(w http.ResponseWriter, r *http.Request, want stream.Want, in *orgInput) error {
	n := event.Newest{Org: want.Org, Since: org.ReadableSince(e.Now(), want.Days), Limit: in.Latest}
	if in.searches() {
		s, err := e.period(&in.Query)
		if err != nil {
			return err
		}
		if s.From.After(n.Since) {
			n.Since = s.From
		}
		n.Until, n.Text = s.To, s.Text
	}
	if in.Before != "" {
		at, known, err := e.Store.Position(r.Context(), in.Before, true)
		if errors.Is(err, event.ErrCursor) {
			return endpoint.InvalidCursor("query/before")
		}
		if err != nil {
			return err
		}
		if known { // otherwise start with the newest event again
			n.Before = at
		}
	}
	if want.Among != nil {
		n.Sources = id.Texts(want.Among)
	}
	if !want.Filter.Everything() {
		n.Kinds = e.kinds(r.Context(), want.Filter)
	}
	page, err := e.Store.Newest(r.Context(), n)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	cursor := ""
	if page.Next.Tx != 0 {
		cursor = e.Store.Cursor(page.Next, true)
	}
	if _, err = w.Write(appendLatest(nil, page.Events, cursor, scannedIf(in.searches(), page.Scanned))); err == nil {
		e.Meter.Streamed(want.Org, int64(len(page.Events)))
	}
	return err
}

// kinds returns the names of events that match a filter.
func (e *events) kinds(ctx context.Context, f event.Filter) []string {
	names := []string{}
	for _, kind := range e.Kinds.List(endpoint.Caller(ctx).Org.Environment) {
		if f.Match(kind.Name) {
			names = append(names, kind.Name)
		}
	}
	return names
}

// appendLatest appends a page. The events are already encoded.
func appendLatest(to []byte, list []event.Stored, next, scanned string) []byte {
	bodies := make([][]byte, len(list))
	for i := range list {
		bodies[i] = list[i].Body
	}
	to = append(to, `{"events":[`...)
	to = append(to, bytes.Join(bodies, []byte(","))...)
	to = append(to, `],"nextCursor":`...)
	if next == "" {
		to = append(to, "null"...)
	} else {
		to = append(to, '"')
		to = append(to, next...) // It has only letters, digits, a dash, a dot and an underscore.
		to = append(to, '"')
	}
	return append(append(append(to, ",\"gap\":false"...), scanned...), "}\n"...)
}

type findInput struct {
	Event string `path:"eventId" maxLength:"64" doc:"The event's id."`
}

func (e *events) findAny(w http.ResponseWriter, r *http.Request, in *findInput) error {
	none := problem.EventNotFound.New("The organisation has no event with this id.")
	wanted, err := id.Parse[id.Event](in.Event)
	if err != nil {
		return none
	}
	caller := endpoint.Caller(r.Context())
	found, err := e.Store.FindOne(r.Context(), caller.Org.ID, wanted)
	if err != nil {
		return err
	}
	// A key that is limited to accounts does not see events of the org itself.
	if among := caller.Key.Allow.Accounts; among != nil && !slices.Contains(among, id.Account(found.Source)) {
		return none
	}
	if found.At.Before(org.ReadableSince(e.Now(), caller.Org.Limits.EventRetentionDays)) {
		return none
	}
	return writeEvent(w, &found)
}

// writeEvent writes one event.
func writeEvent(w http.ResponseWriter, found *event.Stored) error {
	w.Header().Set("Content-Type", "application/json")
	body := append([]byte(`{"event":`), found.Body...)
	_, err := w.Write(append(body, '}', '\n'))
	return err
}
