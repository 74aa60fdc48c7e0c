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
	s.mu.Lock()
	defer s.mu.Unlock()
	schema := s.compiled[place]
	if schema == nil {
		var err error
		if schema, err = s.compiler.Compile(documentURL + place); err != nil {
			return fmt.Errorf("compile the schema at %s: %w", place, err)
		}
		s.compiled[place] = schema
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return schema.Validate(value)
}
