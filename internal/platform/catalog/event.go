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

// Class says what is promised for an event.
type Class string

// Classes.
const (
	// Durable events are stored, replayed and retried.
	Durable Class = "durable"
	// Ephemeral events are live only.
	Ephemeral Class = "ephemeral"
)

// Unknown is the kind of a frame without a mapping.
const Unknown = "unknown"

// EventKind is one kind of event.
type EventKind struct {
	Kind    string
	Summary string
	Class   Class
	// Every is how far apart ephemeral ones are told at least; 0 if the kind does not say.
	Every time.Duration

	frames []string
	when   []condition
	data   *shape.Shape
}

// condition is what a frame must hold to be of a kind.
type condition struct {
	path []string
	want []byte
}

// Schema is the JSON Schema 2020-12 of the event's data; it refers to types as #/types/Name.
func (k *EventKind) Schema() json.RawMessage {
	if k.data == nil {
		return json.RawMessage(`{"type":"object","required":["name","raw"],"properties":{"name":{"type":"string"},"raw":{}}}`)
	}
	return k.data.Schema()
}

// Event is a frame that was understood.
type Event struct {
	Kind  string
	Class Class
	// Every is the kind's.
	Every time.Duration
	// UpstreamID is the platform's id of the frame, empty if it has none.
	UpstreamID string
	// At is when it happened by the platform's clock, zero if it does not say.
	At   time.Time
	Data json.RawMessage
}

// ErrUnknownFrame means that a frame has no mapping, and the manifest does not want such frames.
var ErrUnknownFrame = errors.New("the frame has no mapping")

// frameLimits bound what a frame may be.
var frameLimits = tape.Limits{Bytes: 1 << 20, Depth: 64, Nodes: 1 << 17}

// Events lists the kinds of events in the order of the manifest; unknown comes last if such frames are passed on.
func (c *Catalog) Events() []*EventKind { return c.events }

// FrameFor is the name of a frame that becomes an event of this kind, empty if there is none.
func (c *Catalog) FrameFor(kind string) string {
	if k := c.byKind[kind]; k != nil && len(k.frames) > 0 {
		return k.frames[0]
	}
	return ""
}

// Decode turns a frame into an event. Errors are ErrInvalid, ErrChanged and ErrUnknownFrame; with ErrChanged the event
// still says what is known of it, without its data.
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
	if e.At, ok = s.when(t); !ok {
		return Event{}, fmt.Errorf("%w: the frame's time is not one", ErrChanged)
	}
	body, ok := t.Get(tape.Root, s.body)
	if !ok {
		return Event{}, fmt.Errorf("%w: the frame has no body", ErrChanged)
	}
	k := c.kindOf(t, name, body)
	if k == nil {
		return c.unknown(e, t, name, body)
	}
	e.Kind, e.Class, e.Every = k.Kind, k.Class, k.Every
	data, err := k.data.Append(make([]byte, 0, len(frame)+len(frame)/4), t, body)
	if err != nil {
		return e, fmt.Errorf("frame for %s: %w", k.Kind, answerError(err))
	}
	e.Data = data
	return e, nil
}

// kindOf finds what a frame is, nil if nothing fits.
func (c *Catalog) kindOf(t *tape.Tape, name, body uint32) *EventKind {
	for _, k := range c.byFrame[t.Text(name)] {
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
	var buf [64]byte
	return bytes.Equal(t.AppendValue(buf[:0], at), w.want)
}

// unknown passes a frame on as it is.
func (c *Catalog) unknown(e Event, t *tape.Tape, name, body uint32) (Event, error) {
	if !c.PassUnknown {
		return Event{}, ErrUnknownFrame
	}
	e.Kind, e.Class = Unknown, Durable
	data := t.AppendString([]byte(`{"name":`), name)
	data = append(data, `,"raw":`...)
	e.Data = append(t.AppendValue(data, body), '}')
	return e, nil
}

// when is the frame's time, zero if it has none.
func (s *Socket) when(t *tape.Tape) (time.Time, bool) {
	if s.at == nil {
		return time.Time{}, true
	}
	at, ok := t.Get(tape.Root, s.at)
	if !ok || t.Kind(at) == tape.Null {
		return time.Time{}, true
	}
	return timeAt(t, at)
}

// timeAt reads a time in either of the forms that platforms use.
func timeAt(t *tape.Tape, at uint32) (time.Time, bool) {
	switch t.Kind(at) {
	case tape.String:
		return convert.ParseTime([]byte(t.Text(at)))
	case tape.Number:
		return convert.ParseUnix(t.Raw(at))
	case tape.Null, tape.True, tape.False, tape.Array, tape.Object:
	}
	return time.Time{}, false
}

// scalarText is a text or a number as text, empty for anything else.
func scalarText(t *tape.Tape, at uint32) string {
	if k := t.Kind(at); k == tape.String || k == tape.Number {
		return t.Text(at)
	}
	return ""
}

// compileEvents compiles the kinds of events.
func (c *compiler) compileEvents() {
	if len(c.doc.Events) > 0 && c.doc.Socket == nil {
		c.upstreamFault("there are events, and no socket that they come from")
	}
	for _, e := range c.doc.Events {
		before := len(c.faults)
		k := c.event(e)
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
		// Those with conditions are asked first; the one without takes the rest.
		slices.SortStableFunc(kinds, func(a, b *EventKind) int { return len(b.when) - len(a.when) })
		if len(kinds) > 1 && len(kinds[len(kinds)-2].when) == 0 {
			c.fault(manifest.Pos{File: "events.yaml"}, "the frame %s serves %s and %s, and nothing tells them apart: use when",
				frame, kinds[len(kinds)-2].Kind, kinds[len(kinds)-1].Kind)
		}
	}
	if c.doc.Upstream.PassUnknown {
		k := &EventKind{Kind: Unknown, Class: Durable, Summary: "A frame of the platform's that has no mapping."}
		c.cat.events = append(c.cat.events, k)
		c.cat.byKind[Unknown] = k
	}
}

func (c *compiler) event(e manifest.Event) *EventKind {
	k := &EventKind{Kind: e.Kind, Summary: e.Summary, Class: Class(e.Class), Every: time.Duration(e.EverySec) * time.Second, frames: e.Frames}
	if k.Class == Durable && k.Every > 0 {
		c.fault(e.Pos, "%s: everySec thins out ephemeral events; durable ones are all told", e.Kind)
	}
	if e.Kind == Unknown {
		c.fault(e.Pos, "the event %s is made by passUnknown; do not write it down", Unknown)
	}
	for _, w := range e.When {
		k.when = append(k.when, condition{shape.Path(w.Path), w.Want})
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
