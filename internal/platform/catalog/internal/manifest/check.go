package manifest

import (
	"bytes"
	"cmp"
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

// schema compiles manifest.schema.json once. The file is part of the binary, so an error in it is a programming error
// and panics.
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

// checkSchema returns all violations of the schema, ordered by file and line.
func checkSchema(root *value) []Fault {
	err := schema().Validate(root.toAny())
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []Fault{{root.pos, err.Error()}}
	}
	var faults []Fault
	collectFaults(root, invalid, &faults)
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line)
	})
	return slices.Compact(faults)
}

// collectFaults turns the leaves of a validation error into faults. Only leaves say what is wrong; the nodes above them
// say which part of the schema they belong to.
func collectFaults(root *value, e *jsonschema.ValidationError, faults *[]Fault) {
	for _, cause := range e.Causes {
		collectFaults(root, cause, faults)
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
			*faults = append(*faults, Fault{root.posOf(append(slices.Clone(e.InstanceLocation), name)), fmt.Sprintf("%s: unknown key %q", where, name)})
		}
	case *kind.Required:
		*faults = append(*faults, Fault{root.posOf(e.InstanceLocation), fmt.Sprintf("%s lacks %s", where, strings.Join(k.Missing, ", "))})
	default:
		// The library writes "at '<location>': <detail>". The location is already in the fault.
		detail := e.Error()
		if _, after, ok := strings.Cut(detail, "': "); ok {
			detail = after
		}
		*faults = append(*faults, Fault{root.posOf(e.InstanceLocation), where + ": " + detail})
	}
}

// posOf returns the position of the value at a path, or of the last step that exists. For a member of a mapping this is
// the position of its key.
func (v *value) posOf(location []string) Pos {
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
