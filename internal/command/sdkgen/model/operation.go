package model

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
)

// operations reads the API's own operations: all that are not methods of the platform.
func (l *loader) operations() {
	groups := map[string]*Group{}
	for _, o := range l.doc.Operations(func(o *apimodel.Operation) bool { return o.SDK == nil && !excluded[o.ID] }) {
		group, name, ok := strings.Cut(operationNames[o.ID], ".")
		if !ok {
			l.fail("operation %s has no name in the libraries; add it to operationNames in names.go", o.ID)
			continue
		}
		g := groups[group]
		if g == nil {
			g = &Group{Name: group, Title: groupTitle(group), Doc: groupDocs[group]}
			groups[group] = g
			l.model.Groups = append(l.model.Groups, g)
		}
		op := &Operation{
			ID: o.ID, Group: group, Name: name, HTTP: o.Method, Path: o.Path, Title: o.Summary, Doc: o.Description,
			Scope: o.Scope,
		}
		l.operation(op, o)
		g.Operations = append(g.Operations, op)
	}
	for _, g := range groups {
		slices.SortFunc(g.Operations, func(a, b *Operation) int { return cmp.Compare(a.Name, b.Name) })
	}
}

func (l *loader) operation(op *Operation, o *apimodel.Operation) {
	place := Title(groupTitle(op.Group), op.Name)
	var query []Field
	for _, p := range o.Parameters {
		f := l.field(p.Name, p.Description, p.Required, p.Schema, place)
		switch p.In {
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
func (l *loader) input(op *Operation, o *apimodel.Operation, query []Field) {
	name := Title(groupTitle(op.Group), op.Name, "Params")
	schema := ""
	if o.Body != nil {
		body, _ := o.Body.Content.Get(apimodel.JSON)
		_, schema = l.doc.Follow(body.Schema)
		op.BodyRequired, op.Example = o.Body.Required, body.Example
	}
	switch {
	case strings.HasSuffix(schema, "Request"):
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
func (l *loader) response(op *Operation, o *apimodel.Operation) {
	op.Form, op.Result = Binary, Ref{Kind: Any}
	for _, status := range []string{"200", "201", "202"} { // the last one in the document decides
		response, _ := o.Responses.Get(status)
		if len(response.Content) == 0 {
			continue
		}
		body, isJSON := response.Content.Get(apimodel.JSON)
		_, streams := response.Content.Get("text/event-stream")
		switch {
		case isJSON:
			op.Form = JSON
			if len(response.Content) > 1 {
				op.Accept = apimodel.JSON
			}
			if streams {
				l.describePages(op)
			}
		case streams:
			op.Form = Stream
		}
		if body.Schema != nil {
			l.unwrap(op, apimodel.Usual(body.Schema))
		}
	}
	if o.Body != nil {
		if _, isJSON := o.Body.Content.Get(apimodel.JSON); !isJSON {
			op.Form = Upload
		}
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
func (l *loader) unwrap(op *Operation, s *apimodel.Schema) {
	op.Unwrap = "" // an earlier response may have set it
	target, schema := l.doc.Follow(s)
	if schema != "" && target != nil && len(target.Properties) == 1 {
		member := target.Properties[0]
		if known := resultTypes[schema+"."+member.Name]; known != "" {
			op.Unwrap, op.Result = member.Name, l.named(schemaPrefix+"Sdk."+known)
			return
		}
		if member.Value.Ref != "" {
			op.Unwrap, op.Result = member.Name, l.ref(member.Value, "")
			return
		}
	}
	op.Result = l.ref(s, Title(groupTitle(op.Group), op.Name, "Result"))
}
