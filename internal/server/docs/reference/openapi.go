package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/scope"
)

// document is the part of an OpenAPI document that the reference uses.
type document struct {
	Paths      ordered[ordered[operation]] `json:"paths"`
	Webhooks   ordered[webhook]            `json:"webhooks"`
	Tags       []struct{ Name, Description string }
	Components struct {
		Schemas    map[string]*schema   `json:"schemas"`
		Parameters map[string]parameter `json:"parameters"`
		Responses  map[string]response  `json:"responses"`
		// SecuritySchemes describes how callers authenticate, and the scopes that a key can have.
		SecuritySchemes struct {
			APIKey struct {
				Scopes []scope.Definition `json:"x-scopes"`
			} `json:"apiKey"`
		} `json:"securitySchemes"`
	}
}

type operation struct {
	ID          string `json:"operationId"`
	Summary     string
	Description string
	Tags        []string
	Parameters  []parameter
	Body        *struct {
		Required bool
		Content  ordered[media]
	} `json:"requestBody"`
	Responses ordered[response]
	Scope     string   `json:"x-scope"`
	Problems  []string `json:"x-problems"`
	Security  []json.RawMessage
	SDK       *sdkFacts `json:"x-sdk"`
	// Samples are calls of the operation with the client libraries.
	Samples []struct{ Lang, Source string } `json:"x-codeSamples"`

	method, path string
}

// webhook is a kind of event.
type webhook struct {
	Post struct {
		Summary string
		Body    struct{ Content ordered[media] }      `json:"requestBody"`
		Facts   struct{ Class, Scope, Source string } `json:"x-event"`
	}
}

type sdkFacts struct {
	Resource, Method, Access                             string
	Idempotent, Destructive, Async, Sensitive, Paginated bool
	Emits                                                []string
	Positional                                           []string
	Since                                                string
	TimeoutMs                                            int64
}

type parameter struct {
	Ref         string `json:"$ref"`
	Name, In    string
	Required    bool
	Description string
	Schema      *schema
}

type response struct {
	Ref         string `json:"$ref"`
	Description string
	Content     ordered[media]
	Problems    []string `json:"x-problems"`
}

type media struct {
	Schema  *schema
	Example json.RawMessage
}

// schema is a JSON Schema.
type schema struct {
	Ref         string `json:"$ref"`
	Type        types
	Format      string
	Description string
	Enum        []any
	Open        []any `json:"x-extensible-enum"`
	Const       any
	Default     any
	Example     any
	Examples    []any
	Pattern     string
	Minimum     *float64
	Maximum     *float64
	MinLength   *int `json:"minLength"`
	MaxLength   *int `json:"maxLength"`
	MaxItems    *int `json:"maxItems"`
	Items       *schema
	Properties  ordered[*schema]
	Additional  *additional `json:"additionalProperties"`
	Required    []string
	OneOf       []*schema `json:"oneOf"`
	AnyOf       []*schema `json:"anyOf"`
	AllOf       []*schema `json:"allOf"`
	Sensitive   bool      `json:"x-sensitive"`
}

// types is one type or several.
type types []string

// UnmarshalJSON accepts a name or a list of names.
func (t *types) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(t))
	}
	var one string
	if err := json.Unmarshal(text, &one); err != nil {
		return err
	}
	*t = types{one}
	return nil
}

// main returns the type that is not null.
func (t types) main() string {
	for _, name := range t {
		if name != "null" {
			return name
		}
	}
	return ""
}

// additional is a schema or a boolean.
type additional struct {
	Schema  *schema
	Allowed bool
}

// UnmarshalJSON accepts both forms.
func (a *additional) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		return json.Unmarshal(text, &a.Allowed)
	}
	a.Allowed = true
	return json.Unmarshal(text, &a.Schema)
}

// ordered is a JSON object that keeps the order of its members.
type ordered[T any] []member[T]

type member[T any] struct {
	name  string
	value T
}

// UnmarshalJSON reads an object member by member.
func (o *ordered[T]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		next := member[T]{name: fmt.Sprint(name)}
		if err := d.Decode(&next.value); err != nil {
			return err
		}
		*o = append(*o, next)
	}
	return nil
}

// get returns a member.
func (o ordered[T]) get(name string) (value T, ok bool) {
	for _, m := range o {
		if m.name == name {
			return m.value, true
		}
	}
	return value, false
}

func read(text []byte) (*document, error) {
	d := &document{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("read OpenAPI document: %w", err)
	}
	for i := range d.Paths {
		for j := range d.Paths[i].value {
			op := &d.Paths[i].value[j]
			op.value.method, op.value.path = strings.ToUpper(op.name), d.Paths[i].name
			for n, p := range op.value.Parameters {
				if p.Ref != "" {
					op.value.Parameters[n] = d.Components.Parameters[lastSegment(p.Ref)]
				}
			}
		}
	}
	return d, nil
}

// operations returns the operations that match a condition, in the order of the document.
func (d *document) operations(want func(*operation) bool) (list []*operation) {
	for i := range d.Paths {
		for j := range d.Paths[i].value {
			if op := &d.Paths[i].value[j].value; want(op) {
				list = append(list, op)
			}
		}
	}
	return list
}

func (d *document) path(at string) ordered[operation] {
	found, _ := d.Paths.get(at)
	return found
}

// follow resolves the reference of a schema. The name is empty for an inline schema.
func (d *document) follow(s *schema) (*schema, string) {
	if s != nil && s.Ref != "" {
		name := lastSegment(s.Ref)
		return d.Components.Schemas[name], name
	}
	return s, ""
}

// lastSegment returns the last segment of a reference.
func lastSegment(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// body returns the schema and example of an operation's JSON body; nil if it has none.
func (d *document) body(op *operation) (*schema, json.RawMessage) {
	if op.Body == nil {
		return nil, nil
	}
	content, ok := op.Body.Content.get("application/json")
	if !ok {
		return nil, nil
	}
	s, _ := d.follow(content.Schema)
	if s != nil && op.SDK != nil && len(s.OneOf) > 0 {
		s = s.OneOf[0] // The second form has positional arguments.
	}
	return s, content.Example
}

// answer returns the success of an operation: its status, its media types, and its schema if it is JSON.
func (d *document) answer(op *operation) (status string, kinds []string, s *schema) {
	for _, r := range op.Responses {
		if !strings.HasPrefix(r.name, "2") {
			continue
		}
		for _, c := range r.value.Content {
			kinds = append(kinds, c.name)
		}
		if content, ok := r.value.Content.get("application/json"); ok {
			if s = content.Schema; s != nil && s.Ref == "" && len(s.AnyOf) > 0 {
				s = s.AnyOf[0] // The first form is the usual one.
			}
		}
		return r.name, kinds, s
	}
	return "", nil, nil
}

// problems returns the codes of an operation's problems, without repetition.
func (d *document) problems(op *operation) []string {
	list := slices.Clone(op.Problems)
	for _, r := range op.Responses {
		if r.value.Ref != "" {
			list = append(list, d.Components.Responses[lastSegment(r.value.Ref)].Problems...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
