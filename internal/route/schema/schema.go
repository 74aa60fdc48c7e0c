// Package schema completes what huma makes of Go types for the OpenAPI document: their names, what is secret, and what can be null.
package schema

import (
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// MarkSensitive marks fields with the tag sensitive in the document, so that whoever captures bodies can mask them.
func MarkSensitive(registry huma.Registry, typ reflect.Type) {
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
		property := schema.Properties[name]
		if property.Extensions == nil {
			property.Extensions = map[string]any{}
		}
		property.Extensions["x-sensitive"] = true
	}
}

// AllowNulls says of members that point to an object and are always there that they can be null. Huma says it of texts and numbers only.
func AllowNulls(registry huma.Registry) {
	for name, schema := range registry.Map() {
		if typ := registry.TypeFromRef("#/components/schemas/" + name); typ != nil && schema.Properties != nil {
			allowNullsOf(typ, schema)
		}
	}
}

func allowNullsOf(typ reflect.Type, schema *huma.Schema) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct {
		return
	}
	for field := range typ.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := schema.Properties[name]
		switch {
		case field.Anonymous && name == "":
			allowNullsOf(field.Type, schema)
		case property != nil && property.Ref != "" && field.Type.Kind() == reflect.Pointer && !strings.Contains(options, "omit"):
			schema.Properties[name] = &huma.Schema{Description: property.Description, AnyOf: []*huma.Schema{{Ref: property.Ref}, {Type: "null"}}}
		case property != nil && property.Nullable && len(property.Enum) > 0 && !slices.Contains(property.Enum, nil) && !strings.Contains(options, "omit"):
			property.Enum = append(property.Enum, nil)
		}
	}
}

// Name names a type in the document. What a package calls its View is known outside by the package's own name: Account, not View.
func Name(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Name() == "View" {
		name := path.Base(t.PkgPath())
		return strings.ToUpper(name[:1]) + name[1:]
	}
	return huma.DefaultSchemaNamer(t, hint)
}
