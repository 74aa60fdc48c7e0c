package endpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

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
}

// DescribeEvents adds the webhooks section to the document: the events of its parts, then those of the service. Envelope
// is a value of the type that describes an event of any kind.
func (t *Table) DescribeEvents(envelope any) {
	section := &eventSection{envelope: t.schema(envelope).Ref}
	for _, d := range contract.Events {
		refuseBareTimes(d.Data)
		section.own = append(section.own, Event{
			Kind: d.Kind, Summary: d.Summary, Class: "durable", Source: "service", Scope: d.Scope,
			Data: json.RawMessage(fmt.Sprintf(`{"$ref":%q}`, t.schemas().Schema(d.Data, true, "").Ref)),
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
func (s *eventSection) write(platform []Event) (json.RawMessage, error) {
	var out bytes.Buffer
	for _, e := range append(platform, s.own...) {
		text, err := json.Marshal(map[string]any{"post": s.operation(e)})
		if err != nil {
			return nil, fmt.Errorf("describe the event %s: %w", e.Kind, err)
		}
		fmt.Fprintf(&out, ",%q:%s", e.Kind, text)
	}
	text := out.Bytes()
	text[0] = '{'
	return append(text, '}'), nil
}

type object = map[string]any

func (s *eventSection) operation(e Event) object {
	schema := object{"allOf": []object{
		{"$ref": s.envelope},
		{
			"type": "object", "required": []string{"event", "data"},
			"properties": object{"event": object{"const": e.Kind}, "data": e.Data},
		},
	}}
	return object{
		"summary":     e.Summary,
		"requestBody": object{"required": true, "content": object{"application/json": object{"schema": schema}}},
		"responses":   object{"2XX": object{"description": "The event was received."}},
		"x-event":     object{"class": e.Class, "scope": e.Scope, "source": e.Source},
	}
}

func isEvent(t reflect.Type) bool { return t.Implements(reflect.TypeFor[contract.Event]()) }
