package testenv

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schemas validates JSON against the schemas in an OpenAPI document.
type Schemas struct {
	mu sync.Mutex
	// compiled holds the schemas by their place in the document. mu guards it and the compiler, which is not safe for
	// concurrent use.
	compiled map[string]*jsonschema.Schema
	compiler *jsonschema.Compiler
}

const documentURL = "https://stagedoor.test/openapi.json"

// NewSchemas reads an OpenAPI document.
func NewSchemas(document []byte) (*Schemas, error) {
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	refuseUnlisted(root)
	s := &Schemas{compiled: map[string]*jsonschema.Schema{}, compiler: jsonschema.NewCompiler()}
	s.compiler.DefaultDraft(jsonschema.Draft2020)
	s.compiler.AssertFormat()
	return s, s.compiler.AddResource(documentURL, root)
}

// refuseUnlisted makes the service's own types refuse members that are not in the document. The document allows them,
// because callers must expect new members, but a test must not send what it does not describe.
func refuseUnlisted(root any) {
	document, _ := root.(map[string]any)
	components, _ := document["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	for name, one := range schemas {
		schema, _ := one.(map[string]any)
		if schema["properties"] != nil && schema["additionalProperties"] == nil && !strings.Contains(name, ".") {
			schema["additionalProperties"] = false
		}
	}
}

// Validate checks a value against the schema at a place in the document, such as #/components/schemas/Account.
func (s *Schemas) Validate(place string, text []byte) error {
	schema, err := s.compile(place)
	if err != nil {
		return fmt.Errorf("compile the schema at %s: %w", place, err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return schema.Validate(value)
}

func (s *Schemas) compile(place string) (*jsonschema.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if schema := s.compiled[place]; schema != nil {
		return schema, nil
	}
	schema, err := s.compiler.Compile(documentURL + place)
	if err == nil {
		s.compiled[place] = schema
	}
	return schema, err
}

// Pointer escapes a name for a JSON pointer in a URL.
func Pointer(name string) string {
	name = strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	return strings.NewReplacer("{", "%7B", "}", "%7D").Replace(name)
}
