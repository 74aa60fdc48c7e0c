package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/convert"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/shape"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

// Class is the delivery guarantee of an event.
type Class string

// The classes.
const (
	// Durable events are stored, can be replayed, and their delivery is retried.
	Durable Class = "durable"
	// Ephemeral events are only delivered live.
	Ephemeral Class = "ephemeral"
)

// Unknown is the kind of an event whose frame has no mapping.
const Unknown = "unknown"

// EventKind is a kind of event and the mapping of its frames.
type EventKind struct {
	Kind    string
	Summary string
	Class   Class
	// Every is the minimum interval between two ephemeral events of an account, or 0 if the manifest does not set it.
	Every time.Duration

	frames []string
	when   []condition
	data   *shape.Shape
}

// condition requires a value at a path of the frame's body. want is compact JSON.
type condition struct {
	path []string
	want []byte
}

// Schema returns the JSON Schema (2020-12) of the event's data. It refers to types as #/types/Name.
func (k *EventKind) Schema() json.RawMessage {
	if k.data == nil {
		return json.RawMessage(`{"type":"object","required":["name","raw"],"properties":{"name":{"type":"string"},"raw":{}}}`)
	}
	return k.data.Schema()
}

// Event is a decoded frame.
type Event struct {
	Kind  string
	Class Class
	Every time.Duration
	// UpstreamID is the platform's id of the frame, or empty if it has none.
	UpstreamID string
	// At is the time of the event by the platform's clock, or zero if the frame has none.
	At   time.Time
	Data json.RawMessage
}

// ErrUnknownFrame means that a frame has no mapping and the manifest does not pass such frames on.
var ErrUnknownFrame = errors.New("the frame has no mapping")

// frameLimits bound a frame, an error response or a response of the sign-in.
var frameLimits = tape.Limits{Bytes: 1 << 20, Depth: 64, Nodes: 1 << 17}

// Events returns the kinds of events in the order of the manifest. Unknown comes last if PassUnknown is set.
func (c *Catalog) Events() []*EventKind { return c.events }

// FrameFor returns the name of a frame that becomes an event of this kind, or an empty string if there is none.
func (c *Catalog) FrameFor(kind string) string {
	if k := c.byKind[kind]; k != nil && len(k.frames) > 0 {
		return k.frames[0]
	}
	return ""
}

// Decode turns a frame into an event. Errors are ErrInvalid, ErrChanged and ErrUnknownFrame. If only the data cannot be
// mapped (ErrChanged), the event has all fields but Data.
func (c *Catalog) Decode(frame []byte) (Event, error) {
	if c.Socket == nil {
		return Event{}, ErrUnknownFrame
	}
	t, err := tape.Read(frame, frameLimits)
	if err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	defer t.Release()
	s := c.Socket
	name, ok := t.Get(tape.Root, s.name)
	if !ok || t.Kind(name) != tape.String {
		return Event{}, fmt.Errorf("%w: the frame has no name", ErrChanged)
	}
	var e Event
	if at, ok := t.Get(tape.Root, s.id); ok && s.id != nil {
		e.UpstreamID = scalarText(t, at)
	}
	if e.At, ok = optionalTime(t, tape.Root, s.at); !ok {
		return Event{}, fmt.Errorf("%w: the frame's time is invalid", ErrChanged)
	}
	// The mapping of an event starts at the frame's body.
	body, ok := t.Get(tape.Root, s.body)
	if !ok {
		return Event{}, fmt.Errorf("%w: the frame has no body", ErrChanged)
	}
	k := kindOf(c.byFrame[t.Text(name)], t, body)
	if k == nil {
		return c.unknownEvent(e, t, t.Text(name), body)
	}
	return k.mapBody(e, t, body, len(frame)+len(frame)/4)
}

// mapBody completes an event from the frame's body. size is the capacity that the data probably needs.
func (k *EventKind) mapBody(e Event, t *tape.Tape, body uint32, size int) (Event, error) {
	e.Kind, e.Class, e.Every = k.Kind, k.Class, k.Every
	data, err := k.data.Append(make([]byte, 0, size), t, body)
	if err != nil {
		return e, fmt.Errorf("frame for %s: %w", k.Kind, mappingError(err))
	}
	e.Data = data
	return e, nil
}

// kindOf returns the kind that a frame becomes, of those with its name. It returns nil if there is none.
func kindOf(kinds []*EventKind, t *tape.Tape, body uint32) *EventKind {
	for _, k := range kinds {
		if !slices.ContainsFunc(k.when, func(w condition) bool { return !w.holds(t, body) }) {
			return k
		}
	}
	return nil
}

func (w condition) holds(t *tape.Tape, body uint32) bool {
	at, ok := t.Get(body, w.path)
	if !ok {
		return false
	}
	// Compare in compact form, so that white space and escapes in the frame do not matter.
	var buf [64]byte
	return bytes.Equal(t.AppendValue(buf[:0], at), w.want)
}

// unknownEvent turns a frame without a mapping into an event that contains the frame's body unchanged.
func (c *Catalog) unknownEvent(e Event, t *tape.Tape, name string, body uint32) (Event, error) {
	if !c.PassUnknown {
		return Event{}, ErrUnknownFrame
	}
	e.Kind, e.Class = Unknown, Durable
	data := tape.AppendQuoted([]byte(`{"name":`), name)
	data = append(data, `,"raw":`...)
	e.Data = append(t.AppendValue(data, body), '}')
	return e, nil
}

// optionalTime returns the time at a path below a node, or zero if there is none. It returns false if the time is
// invalid.
func optionalTime(t *tape.Tape, node uint32, path []string) (time.Time, bool) {
	if path == nil {
		return time.Time{}, true
	}
	at, ok := t.Get(node, path)
	if !ok || t.Kind(at) == tape.Null {
		return time.Time{}, true
	}
	return timeAt(t, at)
}

// timeAt reads a time that is an RFC 3339 string, a string as databases write it (in UTC, without a zone), or
// seconds since 1970.
func timeAt(t *tape.Tape, at uint32) (time.Time, bool) {
	switch t.Kind(at) {
	case tape.String:
		text := t.Text(at)
		if when, ok := convert.ParseTime([]byte(text)); ok {
			return when, true
		}
		when, err := time.Parse(time.DateTime, text)
		return when, err == nil
	case tape.Number:
		return convert.ParseUnix(t.Raw(at))
	case tape.Null, tape.True, tape.False, tape.Array, tape.Object:
	}
	return time.Time{}, false
}

// scalarText returns a string or a number as text, and an empty string for any other value.
func scalarText(t *tape.Tape, at uint32) string {
	if k := t.Kind(at); k == tape.String || k == tape.Number {
		return t.Text(at)
	}
	return ""
}

func (c *compiler) compileEvents() {
	if len(c.doc.Events) > 0 && c.doc.Socket == nil && c.doc.Poll == nil {
		c.upstreamFault("events require socket or poll")
	}
	for _, e := range c.doc.Events {
		before := len(c.faults)
		k := c.compileEvent(e)
		if len(c.faults) > before {
			continue
		}
		c.cat.events = append(c.cat.events, k)
		c.cat.byKind[k.Kind] = k
		for _, frame := range k.frames {
			c.cat.byFrame[frame] = append(c.cat.byFrame[frame], k)
		}
	}
	for frame, kinds := range c.cat.byFrame {
		// Kinds with more conditions are tried first. The kind without any takes the rest, so there can be only one.
		slices.SortStableFunc(kinds, func(a, b *EventKind) int { return len(b.when) - len(a.when) })
		if len(kinds) > 1 && len(kinds[len(kinds)-2].when) == 0 {
			c.fault(manifest.Pos{File: "events.yaml"}, "the frame %s maps to both %s and %s: distinguish them with when",
				frame, kinds[len(kinds)-2].Kind, kinds[len(kinds)-1].Kind)
		}
	}
	if c.doc.Upstream.PassUnknown {
		k := &EventKind{Kind: Unknown, Class: Durable, Summary: "A frame of the platform's that has no mapping."}
		c.cat.events = append(c.cat.events, k)
		c.cat.byKind[Unknown] = k
	}
}

func (c *compiler) compileEvent(e manifest.Event) *EventKind {
	k := &EventKind{Kind: e.Kind, Summary: e.Summary, Class: Class(e.Class), Every: time.Duration(e.EverySec) * time.Second, frames: e.Frames}
	if k.Class == Durable && k.Every > 0 {
		c.fault(e.Pos, "%s: everySec applies to ephemeral events only; durable events are all sent", e.Kind)
	}
	if e.Kind == Unknown {
		c.fault(e.Pos, "the event %s is created by passUnknown; do not declare it", Unknown)
	}
	for _, w := range e.When {
		k.when = append(k.when, condition{shape.SplitPath(w.Path), w.Want})
	}
	if e.Of != "" {
		named, ok := c.cat.types.Named(e.Of)
		if !ok {
			c.fault(e.Pos, "%s: there is no type %s", e.Kind, e.Of)
		}
		k.data = named
		return k
	}
	var faults []manifest.Fault
	k.data, faults = c.cat.types.Record(e.Data, nil)
	for _, f := range faults {
		c.fault(f.Pos, "%s: %s", e.Kind, f.Detail)
	}
	return k
}
