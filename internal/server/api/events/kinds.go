package events

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

type kindBody struct {
	_         struct{}        `schema:"EventKindInfo" doc:"A kind of event."`
	Name      string          `json:"name" doc:"The name of the kind, such as message."`
	Class     string          `json:"class" enum:"durable,ephemeral" doc:"durable events are stored and can be read again; ephemeral ones are only streamed."`
	Platforms []string        `json:"platforms" doc:"The platforms that have it; empty for an event of the service itself, which accounts of all platforms have."`
	Summary   string          `json:"summary" doc:"When it happens."`
	Since     string          `json:"since" doc:"The version of the API, or of the platform's manifest, that added it."`
	Schema    json.RawMessage `json:"schema" doc:"The JSON Schema of the event's data."`
	Example   json.RawMessage `json:"example" doc:"A recorded event; null if there is none."`
}

type kindsOutput struct {
	Body struct {
		_     struct{}   `schema:"EventKindList" doc:"The kinds of events."`
		Kinds []kindBody `json:"kinds" doc:"The kinds of events."`
	}
}

func (e *events) listKinds(ctx context.Context, _ *struct{}) (*kindsOutput, error) {
	described, err := e.described()
	if err != nil {
		return nil, err
	}
	out := &kindsOutput{}
	for _, k := range e.Kinds.List(endpoint.Caller(ctx).Org.Environment) {
		one := kindBody{
			Name: k.Name, Class: string(k.Class), Platforms: append([]string{}, k.Platforms...), Summary: k.Summary, Since: k.Since,
			Schema: k.Data, Example: json.RawMessage("null"),
		}
		// The document describes the events of one platform. Another can have an event with the same name and other data.
		if d, ok := described[k.Name]; ok && (k.Data == nil || slices.Contains(k.Platforms, e.Documented)) {
			one.Schema = d.Data
			if d.Example != nil {
				one.Example = d.Example
			}
		}
		out.Body.Kinds = append(out.Body.Kinds, one)
	}
	return out, nil
}
