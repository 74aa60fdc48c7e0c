package model

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// Load reads the OpenAPI document. Problem codes, which are not in it, come from the same package that the service uses.
func Load(openapi []byte) (*Model, error) {
	doc, err := parse(openapi)
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	m := &Model{byName: map[string]*Type{}}
	l := &loader{doc: doc, model: m, done: map[string]string{}}
	l.operations()
	l.methods()
	l.events()
	for _, k := range problem.All() {
		m.Problems = append(m.Problems, Problem{Code: k.Code, Status: k.Status, Title: k.Title, Retryable: k.Retryable, Fix: k.Fix})
	}
	slices.SortFunc(m.Problems, func(a, b Problem) int { return cmp.Compare(a.Code, b.Code) })
	for _, s := range doc.at("components", "securitySchemes", "apiKey", "x-scopes").Items {
		m.Scopes = append(m.Scopes, s.at("name").text())
	}
	l.describeAndSort()
	return m, l.err
}

// methods reads the platform's methods. Each is a POST operation in the document, and a read is also a GET.
func (l *loader) methods() {
	docs := map[string]string{}
	for _, tag := range l.doc.at("tags").Items {
		docs[tag.at("name").text()] = tag.at("description").text()
	}
	resources := map[string]*Resource{}
	for _, path := range l.doc.at("paths").Keys {
		o := l.doc.at("paths", path, "post")
		x := o.at("x-sdk")
		name := x.at("resource").text()
		if name == "" {
			continue
		}
		r := resources[name]
		if r == nil {
			r = &Resource{Name: name, Doc: docs[name]}
			resources[name] = r
			l.model.Resources = append(l.model.Resources, r)
		}
		r.Methods = append(r.Methods, l.method(o, x))
	}
	for _, r := range resources {
		slices.SortFunc(r.Methods, func(a, b *Method) int { return cmp.Compare(a.Name, b.Name) })
	}
}

func (l *loader) method(o, x *Node) *Method {
	m := &Method{
		Resource: x.at("resource").text(), Name: x.at("method").text(), Doc: o.at("summary").text(),
		Read: x.at("access").text() == "read", Idempotent: x.at("idempotent").truth(),
		Destructive: x.at("destructive").truth(), Async: x.at("async").truth(),
		Positional: x.at("positional").texts(), Emits: x.at("emits").texts(),
		Scope: o.at("x-scope").text(), TimeoutMs: x.at("timeoutMs").number(),
	}
	body := o.at("requestBody", "content", "application/json")
	m.Example = body.at("example").Raw
	if forms := body.at("schema", "oneOf").Items; len(forms) > 0 && len(forms[0].at("properties").Keys) > 0 {
		m.Params = l.params(forms[0], Title(m.Resource, m.Name, "Params"), ParamsDoc+m.ID()+".")
		m.Required = slices.ContainsFunc(m.Params.Fields, func(f Field) bool { return f.Required })
	}
	m.HTTP = m.httpMethod()
	result := usualSchema(o.at("responses", "200", "content", "application/json", "schema")).at("properties", "result")
	m.Result = l.result(result, m)
	if x.at("paginated").truth() {
		m.Page = l.paging(m.Params, m.Result)
	}
	return m
}

// httpMethod returns GET for a read, unless it takes lists or objects, which may be too long for a URL.
func (m *Method) httpMethod() string {
	if !m.Read || m.Params != nil && slices.ContainsFunc(m.Params.Fields, func(f Field) bool { return f.Type.Elem != nil || f.Type.Kind == Named }) {
		return "POST"
	}
	return "GET"
}

// usualSchema returns the schema of the usual response. Others are only for special requests, such as dry runs.
func usualSchema(s *Node) *Node {
	if options := s.at("anyOf").Items; len(options) > 0 {
		return options[0]
	}
	return s
}

// params adds the type of a method's parameters, and marks the types of its members as sent.
func (l *loader) params(s *Node, name, doc string) *Type {
	t := &Type{Name: name, Doc: doc, Params: true}
	t.Fields = l.fields(s, strings.TrimSuffix(name, "Params"))
	for i := range t.Fields {
		if f := &t.Fields[i]; f.Type.Kind == Named {
			l.model.byName[f.Type.Name].Params = true
		}
	}
	return l.add(t)
}

// result returns the type of a method's result and names it if it is inline. Many results only confirm the call, such
// as {"deleted": true}; those with the same member share a type.
func (l *loader) result(s *Node, m *Method) Ref {
	own := Title(m.Resource, m.Name, "Result")
	properties := s.at("properties")
	if len(properties.Keys) != 1 {
		return l.ref(s, own)
	}
	name := properties.Keys[0]
	value := properties.at(name)
	if !value.has("const") || string(value.at("const").Raw) == "null" {
		return l.ref(s, own)
	}
	t := &Type{Name: Title(name, "Result"), Doc: "The confirmation of a call.", Fields: []Field{{
		JSON: name, Type: Ref{Kind: Boolean}, Required: true,
	}}}
	if have := l.model.byName[t.Name]; have != nil && !reflect.DeepEqual(have.Fields, t.Fields) {
		t.Name = own
	}
	return Ref{Kind: Named, Name: l.add(t).Name}
}

// paging derives the paging of a list from its parameters and result. It returns nil if the list is not paginated.
func (l *loader) paging(params *Type, result Ref) *Paging {
	t := l.model.byName[result.Name]
	if params == nil || t == nil || t.Field("nextCursor") == nil {
		return nil
	}
	p := &Paging{Out: "nextCursor"}
	for _, name := range []string{"cursor", "after"} {
		if params.Field(name) != nil {
			p.In = name
			break
		}
	}
	if params.Field("latest") != nil {
		p.InLatest = "before"
	}
	for _, f := range t.Fields {
		if f.Type.Kind == Array {
			p.Items, p.Item = f.JSON, *f.Type.Elem
		}
	}
	if p.In == "" || p.Items == "" {
		return nil
	}
	return p
}
