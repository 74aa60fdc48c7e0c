package endpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
	"github.com/stagedoor/stagedoor/internal/base/contract"
)

// Event is a kind of event in the webhooks section of the document.
type Event struct {
	Kind, Summary string
	// Class is durable or ephemeral, Source platform or service.
	Class, Source string
	Scope         contract.Scope
	// Data is the schema of the event's data.
	Data json.RawMessage
	// typ is the Go type of the data of an event of the service.
	typ reflect.Type
}

// DescribeEvents adds the webhooks section to the document: the events of its parts, then those of the service. Envelope
// is a value of the type that describes an event of any kind.
func (t *Table) DescribeEvents(envelope any) {
	section := &eventSection{envelope: t.schema(envelope).Ref}
	for _, d := range contract.Events {
		refuseBareTimes(d.Data)
		section.own = append(section.own, Event{
			Kind: d.Kind, Summary: d.Summary, Class: "durable", Source: "service", Scope: d.Scope,
			Data: json.RawMessage(fmt.Sprintf(`{"$ref":%q,"description":"What happened."}`, t.schemas().Schema(d.Data, true, "").Ref)), typ: d.Data,
		})
	}
	t.completeSchemas()
	t.events = section
}

// eventSection is the webhooks section of the document.
type eventSection struct {
	// envelope refers to the schema that all events have in common.
	envelope string
	own      []Event
}

// write returns the section. Its members are in the order of the events, which JSON encodes only without a map.
func (s *eventSection) write(platform []Event, examples map[string]json.RawMessage) (json.RawMessage, error) {
	var out bytes.Buffer
	for _, e := range append(platform, s.own...) {
		text, err := json.Marshal(map[string]any{"post": s.operation(e, examples[e.Kind])})
		if err != nil {
			return nil, fmt.Errorf("describe the event %s: %w", e.Kind, err)
		}
		fmt.Fprintf(&out, ",%q:%s", e.Kind, text)
	}
	text := out.Bytes()
	text[0] = '{'
	return append(text, '}'), nil
}

// ordered returns an example of the event with the members of its data in the order of the Go type: the database does
// not keep theirs.
func (e *Event) ordered(example json.RawMessage) json.RawMessage {
	var envelope apimodel.Object[json.RawMessage]
	if e.typ == nil || json.Unmarshal(example, &envelope) != nil {
		return example
	}
	for i, m := range envelope {
		if m.Name == "data" {
			envelope[i].Value = inOrder(m.Value, e.typ)
		}
	}
	text, err := json.Marshal(envelope)
	if err != nil {
		return example
	}
	return text
}

// list adds the names of the kinds to the schema of any event. More kinds may be added.
func (s *eventSection) list(schemas huma.Registry, platform []Event) {
	var names []string
	for _, e := range append(platform, s.own...) {
		names = append(names, e.Kind)
	}
	extend(schemas.SchemaFromRef(s.envelope).Properties["event"], "x-extensible-enum", names)
}

type object = map[string]any

func (s *eventSection) operation(e Event, example json.RawMessage) object {
	schema := object{"allOf": []object{
		{"$ref": s.envelope},
		{
			"type": "object", "required": []string{"event", "data"},
			"properties": object{
				"event": object{"const": e.Kind, "description": "The kind of event."},
				"data":  e.Data,
			},
		},
	}}
	media := object{"schema": schema}
	if example != nil {
		media["example"] = e.ordered(example)
	}
	return object{
		"operationId": "webhook." + e.Kind,
		"summary":     e.Summary,
		// The signature of the request authenticates it, which OpenAPI cannot express.
		"security":    []object{},
		"requestBody": object{"required": true, "content": object{"application/json": media}},
		"responses":   object{"2XX": object{"description": "The event was received."}},
		"x-event":     object{"class": e.Class, "scope": e.Scope, "source": e.Source},
	}
}

func isEvent(t reflect.Type) bool { return t.Implements(reflect.TypeFor[contract.Event]()) }
