package manifest

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"go.yaml.in/yaml/v3"
)

//go:embed manifest.schema.json
var schemaText []byte

// schema is compiled once; it is part of the program, so it cannot be wrong at run time.
var schema = sync.OnceValue(func() *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaText))
	if err != nil {
		panic(fmt.Sprintf("manifest.schema.json: %v", err))
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("manifest.schema.json", doc); err != nil {
		panic(fmt.Sprintf("manifest.schema.json: %v", err))
	}
	return c.MustCompile("manifest.schema.json")
})

// checkSchema lists everything in the document that the schema does not allow.
func checkSchema(root *value) []Fault {
	err := schema().Validate(root.any())
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []Fault{{root.pos, err.Error()}}
	}
	var faults []Fault
	collect(root, invalid, &faults)
	slices.SortStableFunc(faults, func(a, b Fault) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	return slices.Compact(faults)
}

// collect turns the leaves of a validation error into faults.
func collect(root *value, e *jsonschema.ValidationError, faults *[]Fault) {
	for _, cause := range e.Causes {
		collect(root, cause, faults)
	}
	if len(e.Causes) > 0 {
		return
	}
	where := strings.Join(e.InstanceLocation, ".")
	if where == "" {
		where = "the manifest"
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			*faults = append(*faults, Fault{root.find(append(slices.Clone(e.InstanceLocation), name)), fmt.Sprintf("%s: unknown key %q", where, name)})
		}
	case *kind.Required:
		*faults = append(*faults, Fault{root.find(e.InstanceLocation), fmt.Sprintf("%s lacks %s", where, strings.Join(k.Missing, ", "))})
	default:
		detail := e.Error()
		if _, after, ok := strings.Cut(detail, "': "); ok {
			detail = after
		}
		*faults = append(*faults, Fault{root.find(e.InstanceLocation), where + ": " + detail})
	}
}

// find is the place of what a path leads to, or of the last step that exists. Of a member it is the line of its name.
func (v *value) find(location []string) Pos {
	pos := v.pos
	for _, step := range location {
		next, at := (*value)(nil), pos
		if v.kind == yaml.SequenceNode {
			if i, err := strconv.Atoi(step); err == nil && i < len(v.items) {
				next, at = v.items[i], v.items[i].pos
			}
		} else {
			for k, item := range v.members() {
				if k.name == step {
					next, at = item, k.pos
				}
			}
		}
		if next == nil {
			return pos
		}
		v, pos = next, at
	}
	return pos
}
