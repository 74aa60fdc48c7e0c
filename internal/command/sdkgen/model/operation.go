package model

import (
	"cmp"
	"slices"
	"strings"
)

// operations reads the API's own operations: all that are not methods of the platform.
func (l *loader) operations() {
	groups := map[string]*Group{}
	for _, path := range l.doc.at("paths").Keys {
		for _, method := range l.doc.at("paths", path).Keys {
			o := l.doc.at("paths", path, method)
			id := o.at("operationId").text()
			if o.has("x-sdk") || excluded[id] {
				continue
			}
			group, name, ok := strings.Cut(operationNames[id], ".")
			if !ok {
				l.fail("operation %s has no name in the libraries; add it to operationNames in names.go", id)
				continue
			}
			g := groups[group]
			if g == nil {
				g = &Group{Name: group, Title: groupTitle(group), Doc: groupDocs[group]}
				groups[group] = g
				l.model.Groups = append(l.model.Groups, g)
			}
			op := &Operation{ID: id, Group: group, Name: name, HTTP: strings.ToUpper(method), Path: path}
			l.operation(op, o)
			g.Operations = append(g.Operations, op)
		}
	}
	for _, g := range groups {
		slices.SortFunc(g.Operations, func(a, b *Operation) int { return cmp.Compare(a.Name, b.Name) })
	}
}

func (l *loader) operation(op *Operation, o *Node) {
	op.Title, op.Doc, op.Scope = o.at("summary").text(), o.at("description").text(), o.at("x-scope").text()
	place := Title(groupTitle(op.Group), op.Name)
	var query []Field
	for _, p := range o.at("parameters").Items {
		f := Field{JSON: p.at("name").text(), Doc: p.at("description").text(), Required: p.at("required").truth(), Default: p.at("schema", "default").Raw}
		f.Type = l.ref(p.at("schema"), place+Title(f.JSON))
		if p.at("schema").has("minimum") {
			least := p.at("schema", "minimum").number()
			f.Minimum = &least
		}
		switch p.at("in").text() {
		case "path":
			f.JSON = pathParamName(op.Path, f.JSON)
			op.PathParams = append(op.PathParams, f)
		case "query":
			query = append(query, f)
		case "header":
			op.IdempotencyKey = op.IdempotencyKey || f.JSON == "Idempotency-Key"
			op.Wait = op.Wait || f.JSON == "Prefer"
		}
	}
	for _, f := range op.PathParams {
		if renamed := pathParamName(op.Path, "id"); f.JSON == renamed {
			op.Path = strings.Replace(op.Path, "{id}", "{"+renamed+"}", 1)
		}
	}
	l.response(op, o)
	l.input(op, o, query)
	if op.Form == JSON {
		op.Page = l.paging(op.Params, op.Result)
	}
}

// input reads the JSON body or the query. No operation has both.
func (l *loader) input(op *Operation, o *Node, query []Field) {
	name := Title(groupTitle(op.Group), op.Name, "Params")
	body := o.at("requestBody", "content", "application/json", "schema")
	schema := strings.TrimPrefix(body.at("$ref").text(), schemaPrefix)
	switch {
	case strings.HasSuffix(schema, "InputBody"):
		op.Params = l.define(schema, name)
		op.Params.Doc = ParamsDoc + op.Group + "." + op.Name + "."
		op.Params.Params = true
		l.markSent(op.Params)
	case schema != "":
		op.Params = l.model.byName[l.named(schemaPrefix+schema).Name]
	case len(query) > 0:
		op.InQuery = true
		// These parameters are only for the streaming form of the operation.
		query = slices.DeleteFunc(query, func(f Field) bool {
			return op.Form == JSON && (f.JSON == "last_event_id" || f.JSON == "token")
		})
		op.Params = l.add(&Type{Name: name, Doc: ParamsDoc + op.Group + "." + op.Name + ".", Fields: query, Params: true})
	}
	op.BodyRequired = o.at("requestBody", "required").truth()
	op.Example = o.at("requestBody", "content", "application/json", "example").Raw
	if op.Params != nil {
		op.Required = slices.ContainsFunc(op.Params.Fields, func(f Field) bool { return f.Required })
	}
}

// markSent marks the types of t's fields as sent, recursively.
func (l *loader) markSent(t *Type) {
	for _, f := range t.Fields {
		r := f.Type
		for r.Elem != nil {
			r = *r.Elem
		}
		if inner := l.model.byName[r.Name]; inner != nil && !inner.Params {
			inner.Params = true
			l.markSent(inner)
		}
	}
}

// response reads the form and the result of a successful response.
func (l *loader) response(op *Operation, o *Node) {
	op.Form, op.Result = Binary, Ref{Kind: Any}
	for _, status := range []string{"200", "201", "202"} { // the last one in the document decides
		content := o.at("responses", status, "content")
		if len(content.Keys) == 0 {
			continue
		}
		if content.has("application/json") {
			op.Form = JSON
			if len(content.Keys) > 1 {
				op.Accept = "application/json"
			}
			if content.has("text/event-stream") {
				l.describePages(op)
			}
		} else if content.has("text/event-stream") {
			op.Form = Stream
		}
		if s := content.at("application/json", "schema"); s.Member != nil {
			l.unwrap(op, usualSchema(s))
		}
	}
	if op.Group == "media" && op.HTTP != "GET" {
		op.Form = Upload
	}
}

// describePages replaces title and description of an operation that streams, or returns pages if the client accepts
// only JSON. The document describes mostly the stream; the generated methods return pages.
func (l *loader) describePages(op *Operation) {
	text, ok := pageTexts[op.ID]
	if !ok {
		l.fail("operation %s streams and returns pages; describe its pages in pageTexts in names.go", op.ID)
	}
	op.Title, op.Doc = text.title, text.doc+"\n\nNeeds the scope `"+op.Scope+"`."
}

// unwrap sets the result. A response with one object as its only member is unwrapped: accounts.get returns an account.
func (l *loader) unwrap(op *Operation, s *Node) {
	op.Unwrap = "" // an earlier response may have set it
	schema := strings.TrimPrefix(s.at("$ref").text(), schemaPrefix)
	properties := l.doc.at("components", "schemas", schema, "properties")
	if len(properties.Keys) == 1 {
		name := properties.Keys[0]
		if known := resultTypes[schema+"."+name]; known != "" {
			op.Unwrap, op.Result = name, l.named(schemaPrefix+"Sdk."+known)
			return
		}
		if p := properties.at(name); p.has("$ref") {
			op.Unwrap, op.Result = name, l.ref(p, "")
			return
		}
	}
	op.Result = l.ref(s, Title(groupTitle(op.Group), op.Name, "Result"))
}
