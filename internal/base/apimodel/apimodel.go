// Package apimodel reads the OpenAPI document of the service: the part of it from which the reference and the client
// libraries are generated. Objects keep the order of their members. Start reading at Read.
package apimodel

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/scope"
)

// Document is an OpenAPI document.
type Document struct {
	// Paths holds operations by path and method, such as get.
	Paths Object[Object[Operation]]
	// Webhooks holds the kinds of events.
	Webhooks   Object[Webhook]
	Tags       []struct{ Name, Description string }
	Components struct {
		Schemas    map[string]*Schema
		Parameters map[string]Parameter
		Responses  map[string]Response
		// SecuritySchemes describes how callers authenticate, and the scopes that a key can have.
		SecuritySchemes struct {
			APIKey struct {
				Scopes []scope.Definition `json:"x-scopes"`
			}
		}
	}
}

// Operation is an operation of the API, or a method of the platform.
type Operation struct {
	// Method is the HTTP method in capitals.
	Method, Path string `json:"-"`

	ID                   string `json:"operationId"`
	Summary, Description string
	Tags                 []string
	// Parameters are never references.
	Parameters []Parameter
	Body       *struct {
		Required bool
		Content  Object[Media]
	} `json:"requestBody"`
	Responses Object[Response]
	Scope     string   `json:"x-scope"`
	Problems  []string `json:"x-problems"`
	Security  []json.RawMessage
	// SDK is nil for an operation of the API itself.
	SDK *Method `json:"x-sdk"`
	// Samples are calls of the operation with the client libraries.
	Samples []struct{ Lang, Source string } `json:"x-codeSamples"`
}

// Method is what the document says about a method of the platform.
type Method struct {
	Resource, Method, Access                             string
	Idempotent, Destructive, Async, Sensitive, Paginated bool
	Emits                                                []string
	Positional                                           []string
	TimeoutMs                                            int64
}

// Webhook is a kind of event.
type Webhook struct {
	Post struct {
		Summary string
		Body    struct{ Content Object[Media] }       `json:"requestBody"`
		Facts   struct{ Class, Scope, Source string } `json:"x-event"`
	}
}

// Parameter is a parameter of an operation.
type Parameter struct {
	Ref         string `json:"$ref"`
	Name, In    string
	Required    bool
	Description string
	Schema      *Schema
}

// Response is a response of an operation.
type Response struct {
	Ref      string `json:"$ref"`
	Content  Object[Media]
	Problems []string `json:"x-problems"`
}

// Media is one form of a body.
type Media struct {
	Schema  *Schema
	Example json.RawMessage
}

// JSON is the media type of most bodies.
const JSON = "application/json"

// Read reads a document.
func Read(text []byte) (*Document, error) {
	d := &Document{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("read OpenAPI document: %w", err)
	}
	for i := range d.Paths {
		for j := range d.Paths[i].Value {
			op := &d.Paths[i].Value[j]
			op.Value.Method, op.Value.Path = strings.ToUpper(op.Name), d.Paths[i].Name
			for n, p := range op.Value.Parameters {
				if p.Ref != "" {
					op.Value.Parameters[n] = d.Components.Parameters[lastSegment(p.Ref)]
				}
			}
		}
	}
	return d, nil
}

// Operations returns the operations that match a condition, in the order of the document.
func (d *Document) Operations(want func(*Operation) bool) (list []*Operation) {
	for i := range d.Paths {
		for j := range d.Paths[i].Value {
			if op := &d.Paths[i].Value[j].Value; want(op) {
				list = append(list, op)
			}
		}
	}
	return list
}

// Follow resolves the reference of a schema. The name is empty for an inline schema.
func (d *Document) Follow(s *Schema) (target *Schema, name string) {
	if s != nil && s.Ref != "" {
		name = lastSegment(s.Ref)
		return d.Components.Schemas[name], name
	}
	return s, ""
}

// lastSegment returns the last segment of a reference.
func lastSegment(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// JSONBody returns the schema and the example of an operation's JSON body. The schema is nil if the operation takes no
// JSON.
func (d *Document) JSONBody(op *Operation) (*Schema, json.RawMessage) {
	if op.Body == nil {
		return nil, nil
	}
	content, ok := op.Body.Content.Get(JSON)
	if !ok {
		return nil, nil
	}
	s, _ := d.Follow(content.Schema)
	if s != nil && op.SDK != nil && len(s.OneOf) > 0 {
		s = s.OneOf[0] // The second form has positional arguments.
	}
	return s, content.Example
}

// Usual returns the schema of the usual response. Its other forms are for special requests, such as dry runs.
func Usual(s *Schema) *Schema {
	if s != nil && len(s.AnyOf) > 0 {
		return s.AnyOf[0]
	}
	return s
}

// Success returns the first successful response of an operation: its status, its media types, and its usual schema if
// it is JSON.
func (op *Operation) Success() (status string, media []string, s *Schema) {
	for _, r := range op.Responses {
		if !strings.HasPrefix(r.Name, "2") {
			continue
		}
		for _, c := range r.Value.Content {
			media = append(media, c.Name)
		}
		content, _ := r.Value.Content.Get(JSON)
		return r.Name, media, Usual(content.Schema)
	}
	return "", nil, nil
}

// Problems returns the codes of an operation's problems, without repetition.
func (d *Document) Problems(op *Operation) []string {
	list := slices.Clone(op.Problems)
	for _, r := range op.Responses {
		if r.Value.Ref != "" {
			list = append(list, d.Components.Responses[lastSegment(r.Value.Ref)].Problems...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Data returns the schema of the event's data; nil if there is none.
func (w *Webhook) Data() *Schema {
	content, _ := w.Post.Body.Content.Get(JSON)
	if content.Schema == nil {
		return nil
	}
	for _, part := range content.Schema.AllOf {
		if data, ok := part.Properties.Get("data"); ok {
			return data
		}
	}
	return nil
}
