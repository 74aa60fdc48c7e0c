// Package golang generates the Go library. Start at Files.
package golang

import (
	"bytes"
	"fmt"
	"go/format"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
)

// Files returns the Go library: a file for each resource and each group, and some shared ones.
func Files(m *model.Model) (map[string][]byte, error) {
	g := &writer{model: m, files: map[string][]byte{}, written: map[string]bool{}}
	for _, r := range m.Resources {
		g.resource(r)
	}
	for _, group := range m.Groups {
		if group.HasJSON() {
			g.group(group)
		}
	}
	g.client()
	g.events()
	g.problems()
	g.types()
	return g.files, g.err
}

type writer struct {
	model *model.Model
	files map[string][]byte
	// written holds the types that are in the file of the method that takes them.
	written map[string]bool
	// err is the first error.
	err error
	// b is the file that is being written.
	b bytes.Buffer
}

func (g *writer) printf(format string, args ...any) { fmt.Fprintf(&g.b, format, args...) }

// file finishes a file with what was printed so far. It adds the imports that the code uses.
func (g *writer) file(name string) {
	body := g.b.String()
	g.b.Reset()
	var imports []string
	for _, use := range [][2]string{
		{"context", "context.Context"}, {"encoding/json", "json.RawMessage"}, {"iter", "iter.Seq2"}, {"net/http", "http.Method"}, {"time", "time.Time"},
	} {
		if strings.Contains(body, use[1]) {
			imports = append(imports, fmt.Sprintf("%q", use[0]))
		}
	}
	head := "// " + model.Header + "\n\npackage stagedoor\n\n"
	if len(imports) > 0 {
		head += "import (\n" + strings.Join(imports, "\n") + "\n)\n\n"
	}
	source, err := format.Source([]byte(head + body))
	if err != nil && g.err == nil {
		g.err = fmt.Errorf("%s: %w", name, err)
	}
	g.files[name] = source
}

// maxComment is the maximum length of the text in a line of a comment.
const maxComment = 117

// comment writes a comment, wrapped at 120 columns. Empty lines separate paragraphs.
func (g *writer) comment(indent, text string) {
	if text == "" {
		return
	}
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			g.printf("%s//\n", indent)
		}
		for _, line := range model.Wrap(paragraph, maxComment) {
			g.printf("%s// %s\n", indent, line)
		}
	}
}

func (g *writer) resource(r *model.Resource) {
	service := model.Title(r.Name) + "Service"
	g.comment("", fmt.Sprintf("%s calls the platform's %s methods: %s.", service, r.Name, lower(r.Doc)))
	g.printf("type %s struct{ account *AccountClient }\n\n", service)
	for _, m := range r.Methods {
		if m.Params != nil {
			g.params(m.Params, isUpdate(m.Name), true)
		}
		g.method(service, m)
	}
	g.file(fileName(r.Name))
}

func (g *writer) method(service string, m *model.Method) {
	name := goName(m.Name)
	doc := fmt.Sprintf("%s calls %s: %s", name, m.ID(), lower(m.Doc))
	if m.Destructive {
		doc += " It cannot be undone."
	}
	if m.Async {
		doc += " Asynchronous: the result arrives as an event."
	}
	if len(m.Emits) > 0 {
		doc += " Normally causes the event " + strings.Join(m.Emits, ", ") + "."
	}
	g.comment("", doc)
	result := g.typ(m.Result, false)
	takes, gives := "", "nil"
	if m.Params != nil {
		takes, gives = "params "+m.Params.Name+", ", "params"
	}
	spec := fmt.Sprintf("method{name: %q", m.Resource+"/"+m.Name)
	if m.HTTP == "GET" {
		spec += ", get: true"
	}
	if m.Read || m.Idempotent {
		spec += ", repeatable: true"
	}
	g.printf("func (s *%s) %s(ctx context.Context, %soptions ...CallOption) (*%s, error) {\n", service, name, takes, result)
	g.printf("return invoke[%s](ctx, s.account, %s}, %s, options)\n}\n\n", result, spec, gives)
	if m.Page != nil {
		g.pages(service, name, m.Page, m.Result, "", takes)
	}
}

// pages writes the iterator over a paginated list. A paginated call always has parameters.
func (g *writer) pages(service, name string, p *model.Paging, result model.Ref, path, takes string) {
	item := g.typ(p.Item, false)
	next := "page." + goName(p.Out)
	if g.model.Type(result.Name).Field(p.Out).Type.Nullable {
		next = "text(" + next + ")"
	}
	in := goName(p.In)
	g.comment("", fmt.Sprintf("%sAll iterates over the items of all pages of %s.", name, name))
	g.printf("func (s *%s) %sAll(ctx context.Context, %s%soptions ...CallOption) iter.Seq2[%s, error] {\n", service, name,
		declareStrings(path), takes, item)
	g.printf("return pages(params.%s, func(cursor string) ([]%s, string, error) {\n", in, item)
	if p.InLatest == "" {
		g.printf("params.%s = cursor\n", in)
	} else {
		g.printf("if params.Latest > 0 {\nparams.%s = cursor\n} else {\nparams.%s = cursor\n}\n", goName(p.InLatest), in)
	}
	g.printf("page, err := s.%s(ctx, %sparams, options...)\nif err != nil {\nreturn nil, \"\", err\n}\n", name, path)
	g.printf("return page.%s, %s, nil\n})\n}\n\n", goName(p.Items), next)
}

// declareStrings turns a list of names into the declaration of string parameters.
func declareStrings(names string) string {
	if names == "" {
		return ""
	}
	return strings.TrimSuffix(names, ", ") + " string, "
}

func (g *writer) group(group *model.Group) {
	service := group.Title + "Service"
	g.comment("", fmt.Sprintf("%s %s", service, lower(group.Doc)))
	g.printf("type %s struct{ client *Client }\n\n", service)
	for _, o := range group.Operations {
		if o.Form != model.JSON {
			continue // written by hand
		}
		if o.Params != nil && o.Params.Params {
			g.params(o.Params, o.HTTP == "PATCH", false)
		}
		g.operation(service, o)
	}
	g.file(fileName(group.Title))
}

func (g *writer) operation(service string, o *model.Operation) {
	name := goName(o.Name)
	g.comment("", fmt.Sprintf("%s calls %s %s: %s.\n\n%s", name, o.HTTP, o.Path, lower(o.Title), o.Doc))
	var names []string
	where := o.Path
	for _, p := range o.PathParams {
		names = append(names, goParam(p.JSON))
		where = strings.Replace(where, "{"+p.JSON+"}", "%s", 1)
	}
	request := fmt.Sprintf("Path: %q", where)
	path := ""
	if len(names) > 0 {
		path = strings.Join(names, ", ") + ", "
		request = fmt.Sprintf("Path: path(%q, %s)", where, strings.Join(names, ", "))
	}
	if o.HTTP != "GET" {
		request = "Method: http.Method" + model.Title(strings.ToLower(o.HTTP)) + ", " + request
	}
	takes := ""
	if o.Params != nil {
		takes = "params " + o.Params.Name + ", "
		if o.InQuery {
			request += ", Query: query(params)"
		} else {
			request += ", Body: params"
		}
	}
	c := "request: Request{" + request + "}"
	if o.Unwrap != "" {
		c = fmt.Sprintf("unwrap: %q, ", o.Unwrap) + c
	}
	result, call := "*"+g.typ(o.Result, false), "do["+g.typ(o.Result, false)+"]"
	if o.Result.Kind == model.Any {
		result, call = "json.RawMessage", "doRaw"
	}
	g.printf("func (s *%s) %s(ctx context.Context, %s%soptions ...CallOption) (%s, error) {\n", service, name,
		declareStrings(path), takes, result)
	g.printf("c := call{%s}\nreturn %s(ctx, s.client, c, %t, options)\n}\n\n", c, call, o.IdempotencyKey && o.HTTP != "GET")
	if o.Page != nil {
		g.pages(service, name, o.Page, o.Result, path, takes)
	}
}

// client writes the types that Client and AccountClient embed.
func (g *writer) client() {
	var fields, made []string
	for _, group := range g.model.Groups {
		if group.HasJSON() {
			fields = append(fields, fmt.Sprintf("// %s\n%s *%sService", group.Doc, goName(group.Name), group.Title))
			made = append(made, fmt.Sprintf("%s: &%sService{c},", goName(group.Name), group.Title))
		}
	}
	g.printf("// Groups are the operations of the API. A Client embeds them.\ntype Groups struct {\n%s\n}\n\n",
		strings.Join(fields, "\n"))
	g.printf("func newGroups(c *Client) Groups {\nreturn Groups{\n%s\n}\n}\n\n", strings.Join(made, "\n"))
	fields, made = nil, nil
	for _, r := range g.model.Resources {
		fields = append(fields, fmt.Sprintf("// %s.\n%s *%sService", r.Doc, goName(r.Name), model.Title(r.Name)))
		made = append(made, fmt.Sprintf("%s: &%sService{a},", goName(r.Name), model.Title(r.Name)))
	}
	g.printf("// Resources are the platform's methods. An AccountClient embeds them.\ntype Resources struct {\n%s\n}\n\n",
		strings.Join(fields, "\n"))
	g.printf("func newResources(a *AccountClient) Resources {\nreturn Resources{\n%s\n}\n}\n", strings.Join(made, "\n"))
	g.file(fileName("client"))
}

func (g *writer) events() {
	g.printf("// EventKind is a kind of event.\ntype EventKind string\n\n")
	g.printf("// Kinds of events. A newer server may send others.\nconst (\n")
	for _, e := range g.model.Events {
		g.comment("", e.Doc)
		g.printf("%s EventKind = %q\n", "Kind"+goName(e.Kind), e.Kind)
	}
	g.printf(")\n\n// newEventData returns a pointer to the data type of a kind, or nil for an unknown kind.\n")
	g.printf("func newEventData(kind EventKind) any {\nswitch kind {\n")
	for _, e := range g.model.Events {
		if e.Data.Kind == model.Named {
			g.printf("case Kind%s:\nreturn &%s{}\n", goName(e.Kind), e.Data.Name)
		}
	}
	g.printf("}\nreturn nil\n}\n")
	g.file(fileName("events_kinds"))
}

func (g *writer) problems() {
	g.printf("// ProblemCode identifies a kind of problem.\ntype ProblemCode string\n\n")
	g.printf("// Codes of problems. A newer server may send others.\nconst (\n")
	for _, p := range g.model.Problems {
		retryable := ""
		if p.Retryable {
			retryable = " Retryable."
		}
		g.comment("", fmt.Sprintf("Code%s: %s (%d). %s%s", goName(p.Code), p.Title, p.Status, p.Fix, retryable))
		g.printf("Code%s ProblemCode = %q\n", goName(p.Code), p.Code)
	}
	g.printf(")\n\n// Scopes of API keys.\nconst (\n")
	for _, s := range g.model.Scopes {
		g.printf("Scope%s = %q\n", goName(strings.ReplaceAll(s, ":", "_")), s)
	}
	g.printf(")\n")
	g.file(fileName("problem_codes"))
}

// embeds lists response types that have all members of another type. They embed it, so that the same code can use both.
var embeds = map[string]string{"CurlAttempt": "Attempt", "ListedAccount": "Account"}

// types writes the types that are in no other file.
func (g *writer) types() {
	for _, t := range g.model.Types {
		if t.Name == model.EventType || g.written[t.Name] || strings.HasPrefix(t.Name, "Media") && t.Params {
			continue
		}
		if t.Params {
			g.params(t, false, true)
			continue
		}
		g.comment("", typeDoc(t))
		g.printf("type %s struct {\n", t.Name)
		fields := t.Fields
		if base := g.model.Type(embeds[t.Name]); base != nil {
			g.printf("%s\n", base.Name)
			fields = g.without(t, base)
		}
		for _, f := range fields {
			g.comment("", fieldDoc(f))
			g.printf("%s %s `json:\"%s\"`\n", goName(f.JSON), g.field(f), f.JSON)
		}
		g.printf("}\n\n")
	}
	g.file(fileName("types"))
}

// without returns the fields of a type that the type it embeds does not have.
func (g *writer) without(t, base *model.Type) []model.Field {
	var own []model.Field
	for _, f := range t.Fields {
		if inherited := base.Field(f.JSON); inherited == nil || g.field(*inherited) != g.field(f) {
			own = append(own, f)
		}
	}
	if len(own) != len(t.Fields)-len(base.Fields) && g.err == nil {
		g.err = fmt.Errorf("%s does not have all members of %s", t.Name, base.Name)
	}
	return own
}

// typeDoc returns the doc comment of a type.
func typeDoc(t *model.Type) string {
	switch article, _, _ := strings.Cut(t.Doc, " "); {
	case strings.HasPrefix(t.Doc, model.ParamsDoc):
		return t.Name + " holds " + lower(t.Doc)
	case article == "A", article == "An", article == "The":
		return t.Name + " is " + lower(t.Doc)
	}
	return t.Name + ": " + lower(t.Doc)
}

// fieldDoc returns the doc comment of a field, with its possible values.
func fieldDoc(f model.Field) string {
	doc := f.Doc
	if len(f.Type.Enum) > 0 {
		list := strings.Join(f.Type.Enum, ", ")
		if f.Type.EnumOpen {
			list += "; others may follow"
		}
		doc = strings.TrimSpace(doc + " One of " + list + ".")
	}
	if f.Type.Elem != nil && len(f.Type.Elem.Enum) > 0 {
		doc = strings.TrimSpace(doc + " Values: " + strings.Join(f.Type.Elem.Enum, ", ") + ".")
	}
	return doc
}

// field returns the Go type of a member of a response: a pointer if it can be null or is an optional object.
func (g *writer) field(f model.Field) string {
	typ := g.typ(f.Type, false)
	if f.Type.Kind == model.Array || f.Type.Kind == model.Map || f.Type.Kind == model.Any || f.Type.Kind == model.Null {
		return typ
	}
	if f.Type.Nullable || f.Type.Kind == model.Named && !f.Required {
		return "*" + typ
	}
	return typ
}

// params writes a type that is sent. An optional member is a pointer if its zero value means something
// else than its absence.
func (g *writer) params(t *model.Type, update, tristate bool) {
	if g.written[t.Name] {
		return
	}
	g.written[t.Name] = true
	g.comment("", typeDoc(t))
	g.printf("type %s struct {\n", t.Name)
	for _, f := range t.Fields {
		doc := fieldDoc(f)
		if f.Default != nil {
			doc = strings.TrimSpace(doc + " Default: " + strings.Trim(string(f.Default), `"`) + ".")
		}
		g.comment("", doc)
		typ, tag := g.typ(f.Type, true), f.JSON
		if !f.Required {
			tag += ",omitzero"
			if needsPointer(t, f, update, tristate) {
				typ = "*" + typ
			}
		}
		g.printf("%s %s `json:\"%s\"`\n", goName(f.JSON), typ, tag)
	}
	g.printf("}\n\n")
}

// zeroCounts lists optional members whose zero value is not their default, although the document declares no default.
var zeroCounts = map[string]bool{"KeysRotateParams.overlapSec": true, "WebhooksRotateSecretParams.overlapSec": true, "WebhookEndpointsRotateSecretParams.overlapSec": true}

// needsPointer reports whether the absence of an optional member differs from its zero value. update is set for calls
// that change something, where an empty value is a value to set; tristate distinguishes false from absent.
func needsPointer(t *model.Type, f model.Field, update, tristate bool) bool {
	preset := string(f.Default)
	switch f.Type.Kind {
	case model.Boolean:
		return preset == "true" || preset == "" && (tristate || update)
	case model.Integer, model.Number:
		return update || zeroCounts[t.Name+"."+f.JSON] ||
			preset != "" && preset != "0" && (f.Minimum == nil || *f.Minimum <= 0)
	case model.String:
		return update && len(f.Type.Enum) == 0 && f.Type.Format != "date-time"
	case model.Named:
		return true
	case model.Array, model.Map, model.Any, model.Null:
	}
	return false
}

// typ returns the Go type of a value. In responses, arbitrary JSON stays encoded; in requests any value may be sent.
func (g *writer) typ(r model.Ref, sent bool) string {
	switch r.Kind {
	case model.String:
		if r.Format == "date-time" {
			return "time.Time"
		}
		return "string"
	case model.Integer:
		return "int64"
	case model.Number:
		return "float64"
	case model.Boolean:
		return "bool"
	case model.Array:
		return "[]" + g.typ(*r.Elem, sent)
	case model.Map:
		return "map[string]" + g.typ(*r.Elem, sent)
	case model.Named:
		return r.Name
	case model.Any, model.Null:
	}
	if sent {
		return "any"
	}
	return "json.RawMessage"
}

// isUpdate reports whether a method changes something that exists, so that an empty value is a value to set.
func isUpdate(name string) bool {
	return slices.ContainsFunc([]string{"update", "set"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
