package endpoint

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
)

// markSensitive marks fields with the tag sensitive in the document, so that tools that record bodies can mask them.
func markSensitive(registry huma.Registry, typ reflect.Type) {
	body, ok := typ.FieldByName("Body")
	if !ok || body.Type.Kind() != reflect.Struct {
		return
	}
	schema := registry.Schema(body.Type, true, typ.Name()+"Body")
	if schema.Ref != "" {
		schema = registry.SchemaFromRef(schema.Ref)
	}
	for i := range body.Type.NumField() {
		field := body.Type.Field(i)
		if field.Tag.Get("sensitive") != "true" {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		extend(schema.Properties[name], "x-sensitive", true)
	}
}

// schemaPrefix starts references to schemas.
const schemaPrefix = "#/components/schemas/"

// extend adds an extension to a schema.
func extend(schema *huma.Schema, name string, value any) {
	if schema.Extensions == nil {
		schema.Extensions = map[string]any{}
	}
	schema.Extensions[name] = value
}

// isSensitive reports whether a type has a field with the tag sensitive, at any depth.
func isSensitive(typ reflect.Type) bool { return hasSensitive(typ, map[reflect.Type]bool{}) }

func hasSensitive(typ reflect.Type, seen map[reflect.Type]bool) bool {
	switch typ.Kind() { //nolint:exhaustive // all others hold no fields
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return hasSensitive(typ.Elem(), seen)
	case reflect.Struct:
	default:
		return false
	}
	if seen[typ] {
		return false
	}
	seen[typ] = true
	for field := range typ.Fields() {
		if field.Tag.Get("sensitive") == "true" || hasSensitive(field.Type, seen) {
			return true
		}
	}
	return false
}

// completeSchemas adds what Huma does not derive from the Go types:
//   - the description of a type, the tag doc of its blank first field;
//   - that a member is nullable if it is always present and a pointer to an object or a time;
//   - the values of members with the tag extensible, to which more may be added, and with the tag choices;
//   - the tone of each value of a state.
func (t *Table) completeSchemas() {
	registry := t.schemas()
	for name, schema := range registry.Map() {
		if typ := registry.TypeFromRef(schemaPrefix + name); typ != nil && schema.Properties != nil {
			schema.Description = cmp.Or(blankTag(typ, "doc"), schema.Description)
			t.completeSchema(typ, schema)
		}
	}
}

// blankTag returns a tag of a type's first field, if that field is blank.
func blankTag(typ reflect.Type, tag string) string {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ.NumField() == 0 || typ.Field(0).Name != "_" {
		return ""
	}
	return typ.Field(0).Tag.Get(tag)
}

func (t *Table) completeSchema(typ reflect.Type, schema *huma.Schema) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct {
		return
	}
	for field := range typ.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := schema.Properties[name]
		if values := field.Tag.Get("extensible"); values != "" {
			extend(property, "x-extensible-enum", strings.Split(values, ","))
		}
		if tones := tonesOf(cmp.Or(field.Tag.Get("enum"), field.Tag.Get("extensible"))); tones != nil && property != nil {
			extend(property, "x-tone", tones)
		}
		if list := field.Tag.Get("choices"); list != "" {
			property.Enum = nil
			if t.deps.Config.ChoicesGrow {
				extend(property, "x-extensible-enum", t.deps.Config.Choices[list])
			} else {
				for _, value := range t.deps.Config.Choices[list] {
					property.Enum = append(property.Enum, value)
				}
			}
			property.PrecomputeMessages()
		}
		switch {
		case field.Anonymous && name == "":
			t.completeSchema(field.Type, schema)
		case property != nil && property.Ref != "" && field.Type.Kind() == reflect.Pointer && !strings.Contains(options, "omit"):
			schema.Properties[name] = &huma.Schema{Description: property.Description, AnyOf: []*huma.Schema{{Ref: property.Ref}, {Type: "null"}}}
		case property != nil && property.Nullable && len(property.Enum) > 0 && !slices.Contains(property.Enum, nil) && !strings.Contains(options, "omit"):
			property.Enum = append(property.Enum, nil)
		case property != nil && field.Type == reflect.TypeFor[*stamp.Time]() && !strings.Contains(options, "omit"):
			property.Nullable = true // The schema is that of time.Time, which is not a pointer.
		}
	}
}

// tonesOf returns the tones of a list of states; nil if a value is not a state.
func tonesOf(values string) map[string]contract.Tone {
	tones := map[string]contract.Tone{}
	for value := range strings.SplitSeq(values, ",") {
		tone := contract.ToneOf(value)
		if tone == "" {
			return nil
		}
		tones[value] = tone
	}
	return tones
}

// findBareTime returns the path to a time.Time in a type that is encoded as JSON; empty if there is none.
func findBareTime(typ reflect.Type) string { return bareTime(typ, nil) }

func bareTime(typ reflect.Type, above []reflect.Type) string {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ == reflect.TypeFor[time.Time]() {
		return typ.String()
	}
	if typ.Implements(reflect.TypeFor[json.Marshaler]()) || slices.Contains(above, typ) {
		return ""
	}
	above = append(above, typ)
	if kind := typ.Kind(); kind == reflect.Slice || kind == reflect.Array || kind == reflect.Map {
		return bareTime(typ.Elem(), above)
	} else if kind != reflect.Struct {
		return ""
	}
	for field := range typ.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name == "-" || !field.IsExported() && !field.Anonymous {
			continue
		}
		if path := bareTime(field.Type, above); path != "" {
			return typ.String() + "." + field.Name
		}
	}
	return ""
}

// schemaName names a type in the document: by the tag schema of its blank first field, or as in Go. The body of a request
// is named after its operation, and the payload of an event has Data after its name.
func (t *Table) schemaName(typ reflect.Type, hint string) string {
	if name := blankTag(typ, "schema"); name != "" {
		return name
	}
	if typ.Name() == "" && strings.HasSuffix(hint, "InputBody") {
		return strings.ToUpper(t.adding[:1]) + t.adding[1:] + "Request"
	}
	name := huma.DefaultSchemaNamer(typ, hint)
	if isEvent(typ) {
		name += "Data"
	}
	return name
}

// published is the registry as the document shows it. Responses may get new members, so the document does not say that
// they have no others; the validation of requests keeps that rule.
type published struct {
	huma.Registry
	api *huma.OpenAPI
}

// MarshalJSON encodes the schemas.
func (p published) MarshalJSON() ([]byte, error) {
	requests, responses := map[string]bool{}, map[string]bool{}
	for _, item := range p.api.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			if op.RequestBody != nil {
				p.reachAll(op.RequestBody.Content, requests)
			}
			for _, response := range op.Responses {
				p.reachAll(response.Content, responses)
			}
		}
	}
	all := map[string]*huma.Schema{}
	for name, schema := range p.Map() {
		if schema.AdditionalProperties == false && (responses[name] || !requests[name]) {
			open := *schema
			open.AdditionalProperties = nil
			schema = &open
		}
		all[name] = schema
	}
	return json.Marshal(all)
}

func (p published) reachAll(content map[string]*huma.MediaType, names map[string]bool) {
	for _, media := range content {
		p.reach(media.Schema, names)
	}
}

// reach adds the components that a schema refers to.
func (p published) reach(s *huma.Schema, names map[string]bool) {
	if s == nil {
		return
	}
	if name := strings.TrimPrefix(s.Ref, schemaPrefix); s.Ref != "" && !names[name] {
		names[name] = true
		p.reach(p.Map()[name], names)
	}
	p.reach(s.Items, names)
	for _, list := range [][]*huma.Schema{s.OneOf, s.AnyOf, s.AllOf} {
		for _, one := range list {
			p.reach(one, names)
		}
	}
	for _, property := range s.Properties {
		p.reach(property, names)
	}
	if values, ok := s.AdditionalProperties.(*huma.Schema); ok {
		p.reach(values, names)
	}
}
