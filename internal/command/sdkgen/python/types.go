package python

import (
	"slices"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
)

// anyType is the annotation of arbitrary JSON.
const anyType = "Any"

// types writes all objects that are received, or nested in something that is sent. The parameters of calls
// are written by params.
func (p *generator) types() {
	f := newFile()
	var names []string
	for _, t := range p.model.Types {
		if p.reached()[t.Name] {
			names = append(names, t.Name)
		}
	}
	p.aliases(f)
	for _, alias := range p.enums {
		names = append(names, alias)
	}
	for _, name := range names {
		if p.model.Type(name) == nil {
			continue
		}
		if slices.ContainsFunc(p.model.Type(name).Fields, func(f model.Field) bool { return slices.Contains(refNames(f.Type), model.EventType) }) {
			f.check(".events", model.EventType)
		}
		p.object(f, name, p.model.Type(name).Doc, p.model.Type(name).Fields, func(f model.Field) string { return f.JSON })
	}
	p.exports(f, names)
	p.save("stagedoor/types.py", "Arguments and results of calls as typed dictionaries, with the names on the wire.", f)
}

// reached returns the types that results, events and members of parameters use.
func (p *generator) reached() map[string]bool {
	found := map[string]bool{}
	var visit func(r model.Ref)
	fields := func(t *model.Type) {
		for _, field := range t.Fields {
			visit(field.Type)
		}
	}
	visit = func(r model.Ref) {
		if r.Elem != nil {
			visit(*r.Elem)
		}
		if t := p.model.Type(r.Name); r.Kind == model.Named && t != nil && !found[r.Name] && r.Name != model.EventType {
			found[r.Name] = true
			fields(t)
		}
	}
	for _, c := range p.calls() {
		visit(c.result)
		if c.params != nil {
			fields(c.params)
		}
	}
	if envelope := p.model.Type(model.EventType); envelope != nil {
		fields(envelope)
	}
	for _, e := range p.model.Events {
		visit(e.Data)
	}
	return found
}

// pythonCall is the common part of methods and operations.
type pythonCall struct {
	// owner is the resource or group, name the method or operation, both as in the model.
	owner, name string
	params      *model.Type
	result      model.Ref
}

// paramsName returns the name of the parameters' type. It is not the model's name if the same type is also received.
func (c pythonCall) paramsName() string {
	if strings.HasSuffix(c.params.Name, "Params") {
		return c.params.Name
	}
	return model.Title(c.owner, c.name, "Params")
}

func (p *generator) calls() []pythonCall {
	var all []pythonCall
	for _, g := range p.model.Groups {
		for _, o := range g.Operations {
			c := pythonCall{owner: g.Name, name: o.Name, result: o.Result}
			if o.Form == model.JSON {
				c.params = o.Params
			}
			all = append(all, c)
		}
	}
	for _, r := range p.model.Resources {
		for _, m := range r.Methods {
			all = append(all, pythonCall{owner: r.Name, name: m.Name, params: m.Params, result: m.Result})
		}
	}
	return all
}

// params writes the arguments of each call, with their Python names.
func (p *generator) params() {
	f := newFile()
	var names []string
	for _, c := range p.calls() {
		if c.params == nil {
			continue
		}
		if slices.Contains(names, c.paramsName()) {
			p.fail("two calls have parameters with the name %s", c.paramsName())
		}
		names = append(names, c.paramsName())
		doc := "The arguments of " + Snake(c.owner) + "." + Snake(c.name) + "."
		for _, field := range c.params.Fields {
			for _, inner := range p.imported(field.Type) {
				f.check(".types", inner)
			}
		}
		p.object(f, c.paramsName(), doc, c.params.Fields, func(f model.Field) string { return Snake(f.JSON) })
	}
	p.exports(f, names)
	p.save("stagedoor/params.py", "The arguments of every call as typed dictionaries.", f)
}

// exports writes __all__.
func (p *generator) exports(f *file, names []string) {
	f.printf("\n\n__all__ = [\n")
	for _, name := range slices.Sorted(slices.Values(names)) {
		f.printf("    %q,\n", name)
	}
	f.printf("]\n")
}

// object writes a typed dictionary.
func (p *generator) object(f *file, name, doc string, fields []model.Field, key func(model.Field) string) {
	f.use("typing", "TypedDict")
	f.printf("\n\n")
	if slices.ContainsFunc(fields, func(field model.Field) bool { return !identifier(key(field)) }) {
		f.printf("%s = TypedDict(\n    %q,\n    {\n", name, name)
		for _, field := range fields {
			for _, line := range paragraphs(field.Doc, maxWidth-10) {
				if line != "" {
					f.printf("        # %s\n", line)
				}
			}
			f.printf("        %q: %s,\n", key(field), quote(p.fieldType(f, field)))
		}
		f.printf("    },\n)\n")
		if doc != "" {
			f.printf("%s", docstring(doc, 0))
		}
		return
	}
	if doc == "" {
		doc = sentenceFromName(name)
	}
	f.printf("class %s(TypedDict):\n%s", name, docstring(doc, 4))
	if len(fields) > 0 {
		f.printf("\n")
	}
	for _, field := range fields {
		p.field(f, key(field), p.fieldType(f, field), field.Doc)
	}
}

// field writes a member and its docstring.
func (p *generator) field(f *file, key, kind, doc string) {
	line := "    " + key + ": " + kind
	if start, items, ok := strings.Cut(line, "Literal["); ok && len(line) > maxWidth && !strings.Contains(items, "Literal[") {
		items, end, _ := strings.Cut(items, "]")
		f.printf("%s", fold(start+"Literal[", strings.Split(items, ", "), "]"+end, "    "))
	} else {
		f.printf("%s\n", line)
	}
	if doc != "" {
		f.printf("%s", docstring(doc, 4))
	}
}

func (p *generator) fieldType(f *file, field model.Field) string {
	kind := p.ref(f, field.Type)
	if field.Required {
		return kind
	}
	f.use("typing", "NotRequired")
	return "NotRequired[" + kind + "]"
}

// ref returns a type as an annotation and records the imports that it needs.
func (p *generator) ref(f *file, r model.Ref) string {
	kind := p.plain(f, r)
	if r.Nullable && kind != "None" && kind != anyType {
		return kind + " | None"
	}
	return kind
}

func (p *generator) plain(f *file, r model.Ref) string {
	switch r.Kind {
	case model.String:
		if len(r.Enum) == 0 {
			return "str"
		}
		kind := p.enums[strings.Join(r.Enum, ",")]
		if kind == "" {
			f.use("typing", "Literal")
			kind = "Literal[" + quoted(r.Enum) + "]"
		}
		if r.EnumOpen {
			kind += " | str"
		}
		return kind
	case model.Integer:
		if len(r.Enum) > 0 {
			f.use("typing", "Literal")
			return "Literal[" + strings.Join(r.Enum, ", ") + "]"
		}
		return "int"
	case model.Number:
		return "float"
	case model.Boolean:
		if r.Const != "" {
			f.use("typing", "Literal")
			return "Literal[" + model.Title(r.Const) + "]"
		}
		return "bool"
	case model.Null:
		return "None"
	case model.Named:
		return r.Name
	case model.Array:
		return "list[" + p.ref(f, *r.Elem) + "]"
	case model.Map:
		return "dict[str, " + p.ref(f, *r.Elem) + "]"
	case model.Any:
	}
	f.use("typing", anyType)
	return anyType
}

// refNames returns the named types in a type.
func refNames(r model.Ref) []string {
	if r.Elem != nil {
		return refNames(*r.Elem)
	}
	if r.Kind == model.Named {
		return []string{r.Name}
	}
	return nil
}

func quoted(values []string) string {
	list := make([]string, len(values))
	for i, value := range values {
		list[i] = strconv.Quote(value)
	}
	return strings.Join(list, ", ")
}

// sentenceFromName derives a description from a type's name: "A message page." for MessagePage.
func sentenceFromName(name string) string {
	words := strings.ReplaceAll(Snake(name), "_", " ")
	article := "A"
	if strings.ContainsRune("aeio", rune(words[0])) {
		article = "An"
	}
	return article + " " + words + "."
}
