package python

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
)

// resource writes the module of a resource.
func (p *generator) resource(r *model.Resource) {
	f := newFile()
	f.use(".._core", "Resource")
	f.check(".._core", "RequestOptions")
	class := model.Title(r.Name, "Resource")
	f.printf("\n\nclass %s(Resource):\n%s\n    _resource = %q\n", class, docstring(asSentence(r.Doc, r.Name), 4), r.Name)
	for _, m := range r.Methods {
		verb := "_write"
		if m.Read {
			verb = "_read"
		}
		call := pythonCall{owner: r.Name, name: m.Name, params: m.Params, result: m.Result}
		given := "{}"
		if m.Params != nil {
			given = "params"
			p.camelOnly(r.Name, m)
		}
		p.def(f, call, Snake(m.Name), nil, p.resultType(f, m.Result), methodDoc(m))
		f.printf("        return self.%s(%q, %s, options)\n", verb, m.Name, given)
		if m.Page != nil {
			p.def(f, call, Snake(m.Name)+"_all", nil, p.iterator(f, m.Page), allDoc(Snake(m.Name)))
			f.printf("        return self._iterate(%q, %s, options, %s)\n", m.Name, given, paging(m.Page))
		}
	}
	p.save("stagedoor/resources/"+Snake(r.Name)+".py", "client.account(id)."+Snake(r.Name), f)
}

// camelOnly checks that the library's runtime can derive the names on the wire from the Python names.
func (p *generator) camelOnly(resource string, m *model.Method) {
	for _, field := range m.Params.Fields {
		if camel(Snake(field.JSON)) != field.JSON {
			p.fail("%s.%s: the runtime cannot derive %s from %s", resource, m.Name, field.JSON, Snake(field.JSON))
		}
	}
}

// account writes the class with all resources. Each is imported when it is first used.
func (p *generator) account() {
	f := newFile()
	f.use("functools", "cached_property")
	f.check(".._core", "Core")
	f.printf("\n\nclass AccountResources:\n%s\n", docstring("The platform's methods on one account.", 4))
	f.printf("    def __init__(self, core: Core, account_id: str) -> None:\n        self._core = core\n")
	f.printf("        #: The account's id.\n        self.id = account_id\n")
	for _, r := range p.model.Resources {
		p.property(f, r.Name, model.Title(r.Name, "Resource"), r.Doc, "self._core, self.id")
	}
	p.save("stagedoor/resources/__init__.py", "client.account(id): the platform's methods, by resource.", f)
}

// client writes the class with all groups of operations.
func (p *generator) client(groups []*model.Group) {
	f := newFile()
	f.use("functools", "cached_property")
	f.check(".._core", "Core")
	f.printf("\n\nclass ClientGroups:\n%s\n", docstring("The operations of the API, by group.", 4))
	f.printf("    def __init__(self, core: Core) -> None:\n        self._core = core\n")
	for _, g := range groups {
		p.property(f, g.Name, model.Title(g.Name, "Group"), g.Doc, "self._core")
	}
	p.save("stagedoor/groups/__init__.py", "The operations of the API, by group.", f)
}

func (p *generator) property(f *file, name, class, doc, arguments string) {
	module := "." + Snake(name)
	f.check(module, class)
	f.printf("\n    @cached_property\n    def %s(self) -> %s:\n%s", Snake(name), class,
		docstring(asSentence(doc, name), 8))
	f.printf("        from %s import %s\n\n        return %s(%s)\n", module, class, class, arguments)
}

// group writes the module of a group.
func (p *generator) group(g *model.Group) {
	f := newFile()
	f.use(".._core", "Group")
	f.check(".._core", "RequestOptions")
	class := model.Title(g.Name, "Group")
	f.printf("\n\nclass %s(Group):\n%s", class, docstring(asSentence(g.Doc, g.Name), 4))
	for _, o := range g.Operations {
		if o.Form == model.JSON {
			p.operation(f, o)
		}
	}
	p.save("stagedoor/groups/"+Snake(g.Name)+".py", "client."+Snake(g.Name), f)
}

func (p *generator) operation(f *file, o *model.Operation) {
	call := pythonCall{owner: o.Group, name: o.Name, params: o.Params, result: o.Result}
	var positional []string
	for _, field := range o.PathParams {
		positional = append(positional, Snake(field.JSON))
	}
	arguments := []string{p.path(f, o)}
	if o.Params != nil {
		arguments = append(arguments, "params")
	}
	arguments = append(arguments, p.names(o)...)
	if o.Page != nil {
		p.def(f, call, Snake(o.Name)+"_all", positional, p.iterator(f, o.Page), allDoc(Snake(o.Name)))
		all := slices.Insert(slices.Clone(arguments), 2, paging(o.Page))
		f.printf("%s", fold("        return self._iterate(", append(all, "options=options"), ")", "        "))
	}
	p.def(f, call, Snake(o.Name), positional, p.resultType(f, o.Result), operationDoc(o))
	verb := "self._get("
	if o.HTTP != "GET" {
		verb = "self._change("
		arguments = slices.Insert(arguments, 0, fmt.Sprintf("%q", o.HTTP))
		if o.InQuery {
			arguments = append(arguments, "in_query=True")
		}
		if o.IdempotencyKey && o.HTTP == "POST" {
			arguments = append(arguments, "key=True")
		}
	}
	if o.Unwrap != "" {
		arguments = append(arguments, fmt.Sprintf("unwrap=%q", o.Unwrap))
	}
	arguments = append(arguments, "options=options")
	f.printf("%s", fold("        return "+verb, arguments, ")", "        "))
}

// path returns the operation's path as a Python expression.
func (p *generator) path(f *file, o *model.Operation) string {
	path := o.Path
	for _, field := range o.PathParams {
		f.use(".._core", "path_segment")
		path = strings.Replace(path, "{"+field.JSON+"}", "{path_segment("+Snake(field.JSON)+")}", 1)
	}
	if len(o.PathParams) > 0 {
		return `f"` + path + `"`
	}
	return `"` + path + `"`
}

// names returns the argument that tells the runtime how names on the wire are written, unless they are in camelCase.
func (p *generator) names(o *model.Operation) []string {
	if o.Params == nil {
		return nil
	}
	isCamel, isSnake := true, true
	for _, field := range o.Params.Fields {
		isCamel = isCamel && camel(Snake(field.JSON)) == field.JSON
		isSnake = isSnake && strings.TrimRight(Snake(field.JSON), "_") == field.JSON
	}
	switch {
	case isCamel:
		return nil
	case isSnake:
		return []string{`case="snake"`}
	}
	p.fail("%s: its arguments mix camelCase and snake_case", o.ID)
	return nil
}

// def writes the signature and the docstring of a method.
func (p *generator) def(f *file, c pythonCall, name string, positional []string, result, doc string) {
	items := []string{"self"}
	for _, argument := range positional {
		items = append(items, argument+": str")
	}
	items = append(items, "*", "options: RequestOptions | None = None")
	if c.params != nil {
		f.check("typing", "Unpack")
		f.check("..params", c.paramsName())
		items = append(items, "**params: Unpack["+c.paramsName()+"]")
		for _, field := range c.params.Fields {
			if slices.Contains(append(positional, "self", "options"), Snake(field.JSON)) {
				p.fail("%s.%s has two arguments with the name %s", c.owner, c.name, Snake(field.JSON))
			}
		}
	}
	f.printf("\n%s%s", defLine(name, items, result), docstring(doc, 8))
}

// defLine formats a signature like black: all arguments on the next line if they fit, otherwise one per line.
func defLine(name string, items []string, result string) string {
	start, end := "    def "+name+"(", ") -> "+result+":"
	if line := start + strings.Join(items, ", ") + end; len(line) <= maxWidth {
		return line + "\n"
	}
	if line := "        " + strings.Join(items, ", "); len(line) <= maxWidth {
		return start + "\n" + line + "\n    " + end + "\n"
	}
	return start + "\n        " + strings.Join(items, ",\n        ") + ",\n    " + end + "\n"
}

// resultType returns the annotation of a call's result. It uses typing.List because in a class with a method list,
// list[…] would refer to the method.
func (p *generator) resultType(f *file, r model.Ref) string {
	inner := newFile()
	kind := p.ref(inner, r)
	for _, name := range inner.always["typing"] {
		f.check("typing", name)
	}
	for _, name := range refNames(r) {
		if name == model.EventType {
			f.check("..events", name)
			continue
		}
		f.check("..types", name)
	}
	if strings.Contains(kind, "list[") {
		f.check("typing", "List")
		kind = strings.ReplaceAll(kind, "list[", "List[")
	}
	return kind
}

func (p *generator) iterator(f *file, page *model.Paging) string {
	f.check("collections.abc", "Iterator")
	return "Iterator[" + p.resultType(f, page.Item) + "]"
}

func paging(page *model.Paging) string {
	return fmt.Sprintf("(%q, %q, %q)", page.In, page.Out, page.Items)
}

func allDoc(name string) string {
	return "Iterate over the items of all pages of " + name + ". Pages are fetched on demand."
}

// methodDoc returns the docstring of a method.
func methodDoc(m *model.Method) string {
	doc := asSentence(m.Doc, m.Name)
	switch {
	case m.Destructive:
		doc += " It cannot be undone."
	case m.Async:
		doc += " Asynchronous: the result arrives as an event."
	}
	if len(m.Emits) > 0 {
		doc += "\n\nEvents: " + strings.Join(m.Emits, ", ") + "."
	}
	return doc + arguments(m.Params)
}

func operationDoc(o *model.Operation) string {
	doc := asSentence(o.Title, o.Name)
	if o.Doc != "" {
		doc += "\n\n" + strings.TrimSpace(o.Doc)
	}
	return doc + arguments(o.Params)
}

// arguments lists the arguments of a call for help(), which shows only **params in the signature.
func arguments(params *model.Type) string {
	if params == nil || len(params.Fields) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n\nArguments:")
	for _, field := range params.Fields {
		b.WriteString("\n    " + Snake(field.JSON))
		if field.Required {
			b.WriteString(" (required)")
		}
		if doc := strings.Join(strings.Fields(field.Doc), " "); doc != "" {
			b.WriteString(": " + doc)
		}
	}
	return b.String()
}

// asSentence ends a text with a full stop if it has no punctuation at its end. Without a text it derives
// one from the name.
func asSentence(text, name string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return sentenceFromName(model.Title(name))
	}
	if strings.ContainsAny(text[len(text)-1:], ".!?)") {
		return text
	}
	return text + "."
}
