package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
)

// loader builds a model from the document and keeps the first error.
type loader struct {
	doc   *apimodel.Document
	model *Model
	// done maps schemas that were read to the names of their types.
	done map[string]string
	err  error
}

func (l *loader) fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf(format, args...)
	}
}

// add adds a type to the model. Types with the same name must have the same fields.
func (l *loader) add(t *Type) *Type {
	if have := l.model.byName[t.Name]; have != nil {
		if !reflect.DeepEqual(have.Fields, t.Fields) {
			l.fail("two types have the name %s; rename one in names.go", t.Name)
		}
		return have
	}
	l.model.byName[t.Name] = t
	l.model.Types = append(l.model.Types, t)
	return t
}

const schemaPrefix = "#/components/schemas/"

// ref returns the type of a schema. place is the name of the new type if the schema is an inline object.
func (l *loader) ref(s *apimodel.Schema, place string) Ref {
	switch {
	case s == nil:
		return Ref{Kind: Any}
	case s.Ref != "":
		return l.named(s.Ref)
	case len(s.AnyOf) > 0:
		return l.anyOf(s.AnyOf, place)
	case s.Const != nil:
		return constant(s.Const)
	}
	r := Ref{Kind: Kind(s.Type.Main()), Format: s.Format, Nullable: slices.Contains(s.Type, "null")}
	r.Enum = slices.DeleteFunc(texts(s.Enum), func(value string) bool { return value == "null" && r.Nullable })
	if s.Open != nil {
		r.Enum, r.EnumOpen = texts(s.Open), true
	}
	switch r.Kind {
	case "":
		r.Kind = Any
	case Array:
		elem := l.ref(s.Items, singular(place))
		r.Elem = &elem
	case "object":
		r = l.object(s, place, r.Nullable)
	case String, Integer, Number, Boolean, Null, Any, Named, Map:
	}
	if r.Format != "date-time" && r.Format != "date" && r.Format != "uri" {
		r.Format = ""
	}
	return r
}

// texts returns the values of an enumeration.
func texts(values []any) []string {
	var list []string
	for _, value := range values {
		list = append(list, apimodel.Text(value))
	}
	return list
}

func (l *loader) object(s *apimodel.Schema, place string, nullable bool) Ref {
	if s.Properties == nil {
		elem := Ref{Kind: Any}
		if s.Additional != nil {
			elem = l.ref(s.Additional.Schema, place+"Value")
		}
		return Ref{Kind: Map, Elem: &elem, Nullable: nullable}
	}
	if s.Title != "" {
		place = s.Title
	}
	t := &Type{Name: place, Doc: s.Description, Open: isOpen(s)}
	t.Fields = l.fields(s, place)
	return Ref{Kind: Named, Name: l.add(t).Name, Nullable: nullable}
}

// isOpen reports whether an object can have members of any type that are not among its properties.
func isOpen(s *apimodel.Schema) bool {
	return s.Additional != nil && s.Additional.Allowed && s.Additional.Schema == nil
}

func (l *loader) fields(s *apimodel.Schema, place string) []Field {
	var list []Field
	for _, p := range s.Properties {
		list = append(list, l.field(p.Name, p.Value.Description, slices.Contains(s.Required, p.Name), p.Value, place))
	}
	return list
}

// field returns a member of an object, or a parameter. place is the name of the object's type.
func (l *loader) field(name, doc string, required bool, s *apimodel.Schema, place string) Field {
	f := Field{JSON: name, Doc: doc, Required: required, Default: s.Default, Type: l.ref(s, place+Title(name))}
	if s.Minimum != nil {
		least := int64(*s.Minimum)
		f.Minimum = &least
	}
	return f
}

func (l *loader) anyOf(options []*apimodel.Schema, place string) Ref {
	r := Ref{Kind: Any}
	for _, o := range options {
		if slices.Equal(o.Type, apimodel.Types{"null"}) {
			r.Nullable = true
			continue
		}
		if r.Kind != Any {
			l.fail("%s has several possible types, which the libraries do not support", place)
		}
		nullable := r.Nullable
		r = l.ref(o, place)
		r.Nullable = r.Nullable || nullable
	}
	return r
}

func constant(value json.RawMessage) Ref {
	switch text := string(value); text {
	case "null":
		return Ref{Kind: Null, Nullable: true}
	case "true", "false":
		return Ref{Kind: Boolean, Const: text}
	default:
		return Ref{Kind: String, Enum: []string{strings.Trim(text, `"`)}}
	}
}

// named returns the type of a reference to a schema of the document.
func (l *loader) named(target string) Ref {
	schema, ok := strings.CutPrefix(target, schemaPrefix)
	if !ok || l.doc.Components.Schemas[schema] == nil {
		l.fail("unknown schema %s", target)
		return Ref{Kind: Any}
	}
	if name, ok := l.done[schema]; ok {
		return Ref{Kind: Named, Name: name}
	}
	return Ref{Kind: Named, Name: l.define(schema, typeName(schema)).Name}
}

// define creates the type of a schema of the document.
func (l *loader) define(schema, name string) *Type {
	l.done[schema] = name
	s := l.doc.Components.Schemas[schema]
	t := &Type{Name: name, Doc: s.Description, Open: isOpen(s)}
	// Add the type before its fields, since they may refer to it.
	if l.model.byName[name] != nil {
		l.fail("two types have the name %s; rename one in names.go", name)
	}
	l.add(t)
	t.Fields = l.fields(s, name)
	for i := range t.Fields {
		if known := resultTypes[schema+"."+t.Fields[i].JSON]; known != "" {
			t.Fields[i].Type = l.named(schemaPrefix + "Sdk." + known)
		}
	}
	return t
}

// describeAndSort adds missing docs and sorts all lists by name.
func (l *loader) describeAndSort() {
	for _, t := range l.model.Types {
		if t.Doc == "" {
			t.Doc = typeDocs[t.Name]
		}
		if of, page := strings.CutSuffix(t.Name, "Page"); page && t.Doc == "" {
			t.Doc = "A page of " + of + " items."
		}
	}
	slices.SortFunc(l.model.Types, func(a, b *Type) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(l.model.Resources, func(a, b *Resource) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(l.model.Groups, func(a, b *Group) int { return cmp.Compare(a.Name, b.Name) })
}
