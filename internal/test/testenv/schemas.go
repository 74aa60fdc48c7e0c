package testenv

import (
	"bytes"
	"fmt"
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
	s := &Schemas{compiled: map[string]*jsonschema.Schema{}, compiler: jsonschema.NewCompiler()}
	s.compiler.DefaultDraft(jsonschema.Draft2020)
	s.compiler.AssertFormat()
	return s, s.compiler.AddResource(documentURL, root)
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
