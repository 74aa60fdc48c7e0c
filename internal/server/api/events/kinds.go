package events

import (
	"context"

	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

type kindBody struct {
	_         struct{} `doc:"A kind of event."`
	Name      string   `json:"name"`
	Class     string   `json:"class" enum:"durable,ephemeral"`
	Platforms []string `json:"platforms" doc:"The platforms that have it; empty for an event of the service itself, which accounts of all platforms have."`
	Summary   string   `json:"summary"`
}

type kindsOutput struct {
	Body struct {
		_     struct{}   `doc:"The kinds of events."`
		Kinds []kindBody `json:"kinds"`
	}
}

func (e *events) listKinds(ctx context.Context, _ *struct{}) (*kindsOutput, error) {
	out := &kindsOutput{}
	for _, k := range e.Kinds.List(endpoint.Caller(ctx).Org.Environment) {
		out.Body.Kinds = append(out.Body.Kinds, kindBody{
			Name: k.Name, Class: string(k.Class), Platforms: append([]string{}, k.Platforms...), Summary: k.Summary,
		})
	}
	return out, nil
}
