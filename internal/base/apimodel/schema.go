package apimodel

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Schema is a JSON Schema.
type Schema struct {
	Ref         string `json:"$ref"`
	Type        Types
	Title       string
	Format      string
	Description string
	Enum        []any
	// Open holds known values, to which more may be added.
	Open []any `json:"x-extensible-enum"`
	// Const and Default are nil if they are absent, which differs from null.
	Const, Default json.RawMessage
	Example        any
	Examples       []any
	Pattern        string
	Minimum        *float64
	Maximum        *float64
	MaxLength      *int
	MaxItems       *int
	Items          *Schema
	Properties     Object[*Schema]
	Additional     *Additional `json:"additionalProperties"`
	Required       []string
	OneOf          []*Schema
	AnyOf          []*Schema
	AllOf          []*Schema
}

// Types is one type or several.
type Types []string

// UnmarshalJSON accepts a name or a list of names.
func (t *Types) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(t))
	}
	var one string
	if err := json.Unmarshal(text, &one); err != nil {
		return err
	}
	*t = Types{one}
	return nil
}

// Main returns the type that is not null.
func (t Types) Main() string {
	for _, name := range t {
		if name != "null" {
			return name
		}
	}
	return ""
}

// Additional describes the members of an object that are not among its properties: a schema, or whether there are any.
type Additional struct {
	Schema  *Schema
	Allowed bool
}

// UnmarshalJSON accepts a schema or a boolean.
func (a *Additional) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		return json.Unmarshal(text, &a.Allowed)
	}
	a.Allowed = true
	return json.Unmarshal(text, &a.Schema)
}

// Object is a JSON object that keeps the order of its members.
type Object[T any] []Member[T]

// Member is a member of an object.
type Member[T any] struct {
	Name  string
	Value T
}

// UnmarshalJSON reads an object member by member.
func (o *Object[T]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return err
	}
	*o = Object[T]{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		next := Member[T]{Name: fmt.Sprint(name)}
		if err := d.Decode(&next.Value); err != nil {
			return err
		}
		*o = append(*o, next)
	}
	return nil
}

// MarshalJSON writes the members in their order.
func (o Object[T]) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := json.Marshal(m.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.Value)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	return append(out, '}'), nil
}

// Get returns a member.
func (o Object[T]) Get(name string) (value T, ok bool) {
	for _, m := range o {
		if m.Name == name {
			return m.Value, true
		}
	}
	return value, false
}

// Text returns a string as it is, and any other value as JSON.
func Text(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}
