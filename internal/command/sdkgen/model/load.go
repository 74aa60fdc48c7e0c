package model

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// Load reads the OpenAPI document. Problem codes, which are not in it, come from the same package that the service
// uses.
func Load(openapi []byte) (*Model, error) {
	doc, err := apimodel.Read(openapi)
	if err != nil {
		return nil, err
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
	for _, s := range doc.Components.SecuritySchemes.APIKey.Scopes {
		m.Scopes = append(m.Scopes, s.Name)
	}
	l.describeAndSort()
	return m, l.err
}

// methods reads the platform's methods. Each is a POST operation in the document, and a read is also a GET.
func (l *loader) methods() {
	docs := map[string]string{}
	for _, tag := range l.doc.Tags {
		docs[tag.Name] = tag.Description
	}
	resources := map[string]*Resource{}
	for _, o := range l.doc.Operations(func(o *apimodel.Operation) bool { return o.SDK != nil && o.Method == "POST" }) {
		name := o.SDK.Resource
		r := resources[name]
		if r == nil {
			r = &Resource{Name: name, Doc: docs[name]}
			resources[name] = r
			l.model.Resources = append(l.model.Resources, r)
		}
		r.Methods = append(r.Methods, l.method(o))
	}
	for _, r := range resources {
		slices.SortFunc(r.Methods, func(a, b *Method) int { return cmp.Compare(a.Name, b.Name) })
	}
}

func (l *loader) method(o *apimodel.Operation) *Method {
	x := o.SDK
	m := &Method{
		Resource: x.Resource, Name: x.Method, Doc: o.Summary, Read: x.Access == "read", Idempotent: x.Idempotent,
		Destructive: x.Destructive, Async: x.Async, Positional: x.Positional, Emits: x.Emits, Scope: o.Scope,
		TimeoutMs: x.TimeoutMs,
	}
	args, example := l.doc.JSONBody(o)
	m.Example = example
	if args != nil && len(args.Properties) > 0 {
		m.Params = l.params(args, Title(m.Resource, m.Name, "Params"), ParamsDoc+m.ID()+".")
		m.Required = slices.ContainsFunc(m.Params.Fields, func(f Field) bool { return f.Required })
	}
	m.HTTP = m.httpMethod()
	m.Result = Ref{Kind: Any}
	if _, _, s := o.Success(); s != nil {
		result, _ := s.Properties.Get("result")
		m.Result = l.result(result, m)
	}
	if x.Paginated {
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

// params adds the type of a method's parameters, and marks the types of its members as sent.
func (l *loader) params(s *apimodel.Schema, name, doc string) *Type {
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
func (l *loader) result(s *apimodel.Schema, m *Method) Ref {
	own := Title(m.Resource, m.Name, "Result")
	if s == nil || len(s.Properties) != 1 {
		return l.ref(s, own)
	}
	member := s.Properties[0]
	if member.Value.Const == nil || string(member.Value.Const) == "null" {
		return l.ref(s, own)
	}
	t := &Type{Name: Title(member.Name, "Result"), Doc: "The confirmation of a call.", Fields: []Field{{
		JSON: member.Name, Type: Ref{Kind: Boolean}, Required: true,
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
