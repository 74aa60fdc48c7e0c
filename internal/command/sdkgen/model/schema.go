package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// loader builds a model from the document and keeps the first error.
type loader struct {
	doc   *Node
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
func (l *loader) ref(s *Node, place string) Ref {
	if target := s.at("$ref").text(); target != "" {
		return l.named(target)
	}
	if options := s.at("anyOf").Items; len(options) > 0 {
		return l.anyOf(options, place)
	}
	if s.has("const") {
		return constant(s.at("const"))
	}
	r := Ref{Format: s.at("format").text()}
	for _, kind := range s.at("type").texts() {
		if kind == "null" {
			r.Nullable = true
		} else {
			r.Kind = Kind(kind)
		}
	}
	r.Enum = slices.DeleteFunc(s.at("enum").texts(), func(value string) bool { return value == "null" && r.Nullable })
	if open := s.at("x-extensible-enum").texts(); open != nil {
		r.Enum, r.EnumOpen = open, true
	}
	switch r.Kind {
	case "":
		r.Kind = Any
	case Array:
		elem := l.ref(s.at("items"), singular(place))
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

func (l *loader) object(s *Node, place string, nullable bool) Ref {
	if !s.has("properties") {
		elem := Ref{Kind: Any}
		if more := s.at("additionalProperties"); len(more.Keys) > 0 {
			elem = l.ref(more, place+"Value")
		}
		return Ref{Kind: Map, Elem: &elem, Nullable: nullable}
	}
	if title := s.at("title").text(); title != "" {
		place = title
	}
	t := &Type{Name: place, Doc: s.at("description").text(), Open: s.at("additionalProperties").truth()}
	t.Fields = l.fields(s, place)
	return Ref{Kind: Named, Name: l.add(t).Name, Nullable: nullable}
}

func (l *loader) fields(s *Node, place string) []Field {
	required := s.at("required").texts()
	var list []Field
	for _, name := range s.at("properties").Keys {
		p := s.at("properties", name)
		f := Field{JSON: name, Doc: p.at("description").text(), Required: slices.Contains(required, name), Default: p.at("default").Raw}
		if p.has("minimum") {
			least := p.at("minimum").number()
			f.Minimum = &least
		}
		f.Type = l.ref(p, place+Title(name))
		list = append(list, f)
	}
	return list
}

func (l *loader) anyOf(options []*Node, place string) Ref {
	r := Ref{Kind: Any}
	for _, o := range options {
		if o.at("type").text() == "null" {
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

func constant(value *Node) Ref {
	switch text := string(value.Raw); text {
	case "null":
		return Ref{Kind: Null, Nullable: true}
	case "true", "false":
		return Ref{Kind: Boolean, Const: text}
	default:
		return Ref{Kind: String, Enum: value.texts()}
	}
}

// named returns the type of a reference to a schema of the document.
func (l *loader) named(target string) Ref {
	schema, ok := strings.CutPrefix(target, schemaPrefix)
	s := l.doc.at("components", "schemas", schema)
	if !ok || s.Member == nil {
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
	s := l.doc.at("components", "schemas", schema)
	t := &Type{Name: name, Doc: s.at("description").text(), Open: s.at("additionalProperties").truth()}
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

// parse reads JSON into a node.
func parse(data []byte) (*Node, error) {
	n := &Node{}
	if err := json.Unmarshal(data, n); err != nil {
		return nil, err
	}
	return n, nil
}
