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
//   - the description of a type, from typeDoc;
//   - that a member is nullable if it is always present and a pointer to an object or a time;
//   - the values of members with the tag extensible, to which more may be added, and with the tag choices;
//   - the tone of each value of a state.
func (t *Table) completeSchemas() {
	registry := t.schemas()
	for name, schema := range registry.Map() {
		if typ := registry.TypeFromRef("#/components/schemas/" + name); typ != nil && schema.Properties != nil {
			schema.Description = cmp.Or(typeDoc(typ), schema.Description)
			t.completeSchema(typ, schema)
		}
	}
}

// typeDoc returns the description of a type: the tag doc of its first field, if that field is blank.
func typeDoc(typ reflect.Type) string {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ.NumField() == 0 || typ.Field(0).Name != "_" {
		return ""
	}
	return typ.Field(0).Tag.Get("doc")
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

// schemaName names a type in the document. The payload of an event has Data after its name.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if isEvent(t) {
		name += "Data"
	}
	return name
}
