package typescript

import (
	"fmt"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
)

// Hand-written files, as generated files import them.
const (
	transportFile = "../transport"
	callsFile     = "../calls"
	pagesFile     = "../pages"
)

// resource writes a class with the methods of a resource.
func (ts *generator) resource(r *model.Resource) {
	f := ts.file(resourceFile(r))
	f.exports = true
	f.importType("AccountCalls", callsFile)
	f.printf("%sexport class %s {\n", docComment("", sentence(r.Doc)), resourceClass(r))
	f.printf("  readonly #account: AccountCalls;\n\n  constructor(account: AccountCalls) {\n    this.#account = account;\n  }\n")
	for _, m := range r.Methods {
		ts.method(f, m)
		if m.Page != nil {
			ts.methodPages(f, m)
		}
	}
	f.printf("}\n")
}

func (ts *generator) method(f *file, m *model.Method) {
	f.importType("Answer", callsFile)
	f.importType("MethodOptions", transportFile)
	access := "write"
	switch {
	case m.Read:
		access = "read"
	case m.Idempotent:
		access = "repeatable"
	}
	params, given := ts.params(f, m.Params, m.Required)
	if given == "" {
		given = "undefined"
	}
	result := ts.ref(f, m.Result)
	f.printf("\n%s", docComment("  ", methodDoc(m)...))
	f.printf("%s", signature("  "+m.Name+"<Options extends MethodOptions>", append(params, "options?: Options"), "Promise<Answer<"+result+", Options>>"))
	f.printf("    return this.#account.call<%s, Options>(%s, %s, %s, %s, options);\n  }\n",
		result, quote(m.Resource), quote(m.Name), quote(access), given)
}

// methodPages writes the iterator over all pages of a paginated method.
func (ts *generator) methodPages(f *file, m *model.Method) {
	f.importType("CallOptions", transportFile)
	params, _ := ts.params(f, m.Params, m.Required)
	f.printf("\n%s", docComment("  ", sentence(m.Doc)+" Iterates over all pages."))
	f.printf("%s", signature("  "+m.Name+"All", append(params, "options?: CallOptions"), generatorOf(ts.ref(f, m.Page.Item))))
	f.printf("%s", paginate(f, m.Name, nil, m.Page, m.Required))
}

// params returns the declaration of a call's parameters, and the expression that passes them on.
func (ts *generator) params(f *file, t *model.Type, required bool) (declared []string, given string) {
	if t == nil {
		return nil, ""
	}
	mark := "?"
	if required {
		mark = ""
	}
	return []string{"params" + mark + ": " + ts.name(f, t.Name)}, "params"
}

func generatorOf(item string) string { return "AsyncGenerator<" + item + ", void, undefined>" }

// paginate returns the body of an iterator over pages.
func paginate(f *file, method string, path []string, page *model.Paging, required bool) string {
	f.importValue("paginate", pagesFile)
	dot := "?."
	if required {
		dot = "."
	}
	args := append(path, fmt.Sprintf("{ ...params, %[1]s: cursor ?? params%[2]s%[1]s }", page.In, dot), "options")
	return fmt.Sprintf("    return paginate(\n      (cursor) => this.%s(%s),\n      (page) => page.%s,\n      (page) => page.%s,\n    );\n  }\n",
		method, strings.Join(args, ", "), page.Items, page.Out)
}

func methodDoc(m *model.Method) []string {
	var notes []string
	if m.Destructive {
		notes = append(notes, "It cannot be undone.")
	}
	if m.Async {
		notes = append(notes, "Asynchronous: the result arrives as an event.")
	}
	if len(m.Emits) > 0 {
		notes = append(notes, "Causes `"+strings.Join(m.Emits, "`, `")+"`.")
	}
	docs := []string{sentence(m.Doc), strings.Join(notes, " ")}
	if example := literalOf(m.Example); example != "" && len(example) < maxWidth-len(m.ID())-40 {
		docs = append(docs, fmt.Sprintf("@example await client.account(id).%s(%s)", m.ID(), example))
	}
	return docs
}

// signature writes the signature of a method up to its opening brace, on one line if it fits.
func signature(name string, params []string, result string) string {
	if line := name + "(" + strings.Join(params, ", ") + "): " + result + " {"; len(line) <= maxWidth {
		return line + "\n"
	}
	return name + "(\n    " + strings.Join(params, ",\n    ") + ",\n  ): " + result + " {\n"
}

// group writes a class with the JSON operations of a group. The others are written by hand.
func (ts *generator) group(g *model.Group) error {
	if !g.HasJSON() {
		return checkByHand(g)
	}
	f := ts.file(groupFile(g))
	f.exports = true
	f.importType("Transport", transportFile)
	f.printf("%sexport class %s {\n", docComment("", g.Doc), groupClass(g))
	f.printf("  protected readonly transport: Transport;\n\n  constructor(transport: Transport) {\n    this.transport = transport;\n  }\n")
	for _, o := range g.Operations {
		if o.Form != model.JSON {
			continue
		}
		ts.operation(f, o)
		if o.Page != nil {
			ts.operationPages(f, o)
		}
	}
	f.printf("}\n")
	return checkByHand(g)
}

// checkByHand returns an error for an operation that is neither generated nor written by hand.
func checkByHand(g *model.Group) error {
	for _, o := range g.Operations {
		if o.Form != model.JSON && byHand[o.ID] == "" {
			return fmt.Errorf("%s is not a JSON operation and not in byHand", o.ID)
		}
	}
	return nil
}

func (ts *generator) operation(f *file, o *model.Operation) {
	options := "CallOptions"
	if o.Wait && !o.InQuery {
		options = "WaitOptions"
	}
	f.importType(options, transportFile)
	declared, _ := ts.pathParams(o)
	params, given := ts.params(f, o.Params, o.Required)
	declared = append(append(declared, params...), "options?: "+options)
	result := ts.ref(f, o.Result)
	f.printf("\n%s", docComment("  ", sentence(o.Title), o.Doc))
	f.printf("%s", signature("  "+o.Name, declared, "Promise<"+result+">"))
	request := ts.request(f, o, given)
	if o.Unwrap == "" {
		f.printf("%s  }\n", callLines("    return this.transport.json<"+result+">(", request, ", options);"))
		return
	}
	f.printf("    return this.transport\n%s      .then((answer) => answer.%s);\n  }\n",
		callLines("      .json<{ "+o.Unwrap+": "+result+" }>(", request, ", options)"), o.Unwrap)
}

// callLines writes a call with a request object, on one line if it fits.
func callLines(before string, request []string, after string) string {
	if line := before + "{ " + strings.Join(request, ", ") + " }" + after; len(line) <= maxWidth {
		return line + "\n"
	}
	indent := before[:len(before)-len(strings.TrimLeft(before, " "))]
	inner := "\n" + indent + "    "
	return before + "\n" + indent + "  {" + inner + strings.Join(request, ","+inner) + ",\n" + indent + "  },\n" +
		indent + "  " + strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(after, ";"), ", "), ")") + ",\n" +
		indent + ")" + strings.Repeat(";", strings.Count(after, ";")) + "\n"
}

// request returns the members of the request object for the transport.
func (ts *generator) request(f *file, o *model.Operation, given string) []string {
	path := quote(o.Path)
	for _, p := range o.PathParams {
		f.importValue("segment", transportFile)
		path = strings.Replace(path, "{"+p.JSON+"}", "${segment("+p.JSON+")}", 1)
	}
	if len(o.PathParams) > 0 {
		path = "`" + strings.Trim(path, `"`) + "`"
	}
	list := []string{"method: " + quote(o.HTTP), "path: " + path}
	switch {
	case given != "" && o.InQuery:
		list = append(list, "query: { ...params }")
	case given != "" && !o.Required && o.BodyRequired:
		list = append(list, "json: params ?? {}")
	case given != "":
		list = append(list, "json: params")
	case o.BodyRequired:
		list = append(list, "json: {}")
	}
	if o.Accept != "" {
		list = append(list, "headers: { accept: "+quote(o.Accept)+" }")
	}
	switch {
	case o.HTTP == "POST" && o.IdempotencyKey:
		list = append(list, "keyed: true")
	case o.HTTP == "PUT":
		list = append(list, "safe: true")
	}
	return list
}

func (ts *generator) operationPages(f *file, o *model.Operation) {
	f.importType("CallOptions", transportFile)
	declared, names := ts.pathParams(o)
	params, _ := ts.params(f, o.Params, o.Required)
	declared = append(append(declared, params...), "options?: CallOptions")
	f.printf("\n%s", docComment("  ", sentence(o.Title)+" Iterates over all pages."))
	f.printf("%s", signature("  "+o.Name+"All", declared, generatorOf(ts.ref(f, o.Page.Item))))
	f.printf("%s", paginate(f, o.Name, names, o.Page, o.Required))
}

func (ts *generator) pathParams(o *model.Operation) (declared, names []string) {
	for _, p := range o.PathParams {
		kind := "string"
		if p.Type.Kind == model.Integer {
			kind = "number"
		}
		declared, names = append(declared, p.JSON+": "+kind), append(names, p.JSON)
	}
	return declared, names
}

func resourceClass(r *model.Resource) string { return model.Title(r.Name, "Resource") }

func groupClass(g *model.Group) string { return model.Title(g.Name, "Group") }
