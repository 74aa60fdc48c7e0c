package sdkgen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
)

// Hand-written files, as generated files import them.
const (
	tsTransport = "../transport"
	tsCalls     = "../calls"
	tsPages     = "../pages"
)

// resource writes a class with the methods of a resource.
func (ts *typescript) resource(r *model.Resource) {
	f := ts.file(tsResourceFile(r))
	f.exports = true
	f.importType("AccountCalls", tsCalls)
	f.printf("%sexport class %s {\n", tsDoc("", tsSentence(r.Doc)), tsResourceClass(r))
	f.printf("  readonly #account: AccountCalls;\n\n  constructor(account: AccountCalls) {\n    this.#account = account;\n  }\n")
	for _, m := range r.Methods {
		ts.method(f, m)
		if m.Page != nil {
			ts.methodPages(f, m)
		}
	}
	f.printf("}\n")
}

func (ts *typescript) method(f *tsFile, m *model.Method) {
	f.importType("Answer", tsCalls)
	f.importType("MethodOptions", tsTransport)
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
	f.printf("\n%s", tsDoc("  ", tsMethodDoc(m)...))
	f.printf("%s", tsSignature("  "+m.Name+"<Options extends MethodOptions>", append(params, "options?: Options"), "Promise<Answer<"+result+", Options>>"))
	f.printf("    return this.#account.call<%s, Options>(%s, %s, %s, %s, options);\n  }\n",
		result, tsQuote(m.Resource), tsQuote(m.Name), tsQuote(access), given)
}

// methodPages writes the iterator over all pages of a paginated method.
func (ts *typescript) methodPages(f *tsFile, m *model.Method) {
	f.importType("CallOptions", tsTransport)
	params, _ := ts.params(f, m.Params, m.Required)
	f.printf("\n%s", tsDoc("  ", tsSentence(m.Doc)+" Iterates over all pages."))
	f.printf("%s", tsSignature("  "+m.Name+"All", append(params, "options?: CallOptions"), tsWalk(ts.ref(f, m.Page.Item))))
	f.printf("%s", tsPaginate(f, m.Name, nil, m.Page, m.Required))
}

// params returns the declaration of a call's parameters, and the expression that passes them on.
func (ts *typescript) params(f *tsFile, t *model.Type, required bool) (declared []string, given string) {
	if t == nil {
		return nil, ""
	}
	mark := "?"
	if required {
		mark = ""
	}
	return []string{"params" + mark + ": " + ts.name(f, t.Name)}, "params"
}

// tsOperationDoc drops what the API's description says about streams, because this method returns pages. It depends on
// the wording of streamEvents and streamAccountEvents in the OpenAPI document.
func tsOperationDoc(o *model.Operation) string {
	var kept []string
	for part := range strings.SplitSeq(o.Doc, "\n\n") {
		if o.Accept != "" && (strings.HasPrefix(part, "Server-sent events.") || strings.Contains(part, "opens the stream")) {
			continue
		}
		kept = append(kept, strings.ReplaceAll(part, "With `Accept: application/json` the same events come", "They come"))
	}
	return strings.Join(kept, "\n\n")
}

func tsWalk(item string) string { return "AsyncGenerator<" + item + ", void, undefined>" }

// tsPaginate returns the body of an iterator over pages.
func tsPaginate(f *tsFile, method string, path []string, page *model.Paging, required bool) string {
	f.importValue("paginate", tsPages)
	dot := "?."
	if required {
		dot = "."
	}
	args := append(path, fmt.Sprintf("{ ...params, %[1]s: cursor ?? params%[2]s%[1]s }", page.In, dot), "options")
	return fmt.Sprintf("    return paginate(\n      (cursor) => this.%s(%s),\n      (page) => page.%s,\n      (page) => page.%s,\n    );\n  }\n",
		method, strings.Join(args, ", "), page.Items, page.Out)
}

func tsMethodDoc(m *model.Method) []string {
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
	docs := []string{tsSentence(m.Doc), strings.Join(notes, " ")}
	if example := tsLiteral(m.Example); example != "" && len(example) < tsWidth-len(m.ID())-40 {
		docs = append(docs, fmt.Sprintf("@example await client.account(id).%s(%s)", m.ID(), example))
	}
	return docs
}

// tsSignature writes the signature of a method up to its opening brace, on one line if it fits.
func tsSignature(name string, params []string, result string) string {
	if line := name + "(" + strings.Join(params, ", ") + "): " + result + " {"; len(line) <= tsWidth {
		return line + "\n"
	}
	return name + "(\n    " + strings.Join(params, ",\n    ") + ",\n  ): " + result + " {\n"
}

// group writes a class with the JSON operations of a group. The others are written by hand.
func (ts *typescript) group(g *model.Group) error {
	if !tsPlainGroup(g) {
		return tsCheckByHand(g)
	}
	f := ts.file(tsGroupFile(g))
	f.exports = true
	f.importType("Transport", tsTransport)
	f.printf("%sexport class %s {\n", tsDoc("", g.Doc), tsGroupClass(g))
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
	return tsCheckByHand(g)
}

// tsPlainGroup reports whether any operation of a group is generated. None is in the group media.
func tsPlainGroup(g *model.Group) bool {
	return slices.ContainsFunc(g.Operations, func(o *model.Operation) bool { return o.Form == model.JSON })
}

// tsCheckByHand returns an error for an operation that is neither generated nor written by hand.
func tsCheckByHand(g *model.Group) error {
	for _, o := range g.Operations {
		if o.Form != model.JSON && typescriptByHand[o.ID] == "" {
			return fmt.Errorf("%s is not a JSON operation and not in typescriptByHand", o.ID)
		}
	}
	return nil
}

func (ts *typescript) operation(f *tsFile, o *model.Operation) {
	options := "CallOptions"
	if o.Wait && !o.InQuery {
		options = "WaitOptions"
	}
	f.importType(options, tsTransport)
	declared, _ := ts.pathParams(o)
	params, given := ts.params(f, o.Params, o.Required)
	declared = append(append(declared, params...), "options?: "+options)
	result := ts.ref(f, o.Result)
	f.printf("\n%s", tsDoc("  ", tsSentence(o.Title), tsOperationDoc(o)))
	f.printf("%s", tsSignature("  "+o.Name, declared, "Promise<"+result+">"))
	request := ts.request(f, o, given)
	if o.Unwrap == "" {
		f.printf("%s  }\n", tsCall("    return this.transport.json<"+result+">(", request, ", options);"))
		return
	}
	f.printf("    return this.transport\n%s      .then((answer) => answer.%s);\n  }\n",
		tsCall("      .json<{ "+o.Unwrap+": "+result+" }>(", request, ", options)"), o.Unwrap)
}

// tsCall writes a call with a request object, on one line if it fits.
func tsCall(before string, request []string, after string) string {
	if line := before + "{ " + strings.Join(request, ", ") + " }" + after; len(line) <= tsWidth {
		return line + "\n"
	}
	indent := before[:len(before)-len(strings.TrimLeft(before, " "))]
	inner := "\n" + indent + "    "
	return before + "\n" + indent + "  {" + inner + strings.Join(request, ","+inner) + ",\n" + indent + "  },\n" +
		indent + "  " + strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(after, ";"), ", "), ")") + ",\n" +
		indent + ")" + strings.Repeat(";", strings.Count(after, ";")) + "\n"
}

// request returns the members of the request object for the transport.
func (ts *typescript) request(f *tsFile, o *model.Operation, given string) []string {
	path := tsQuote(o.Path)
	for _, p := range o.PathParams {
		f.importValue("segment", tsTransport)
		path = strings.Replace(path, "{"+p.JSON+"}", "${segment("+p.JSON+")}", 1)
	}
	if len(o.PathParams) > 0 {
		path = "`" + strings.Trim(path, `"`) + "`"
	}
	list := []string{"method: " + tsQuote(o.HTTP), "path: " + path}
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
		list = append(list, "headers: { accept: "+tsQuote(o.Accept)+" }")
	}
	switch {
	case o.HTTP == "POST" && o.IdempotencyKey:
		list = append(list, "keyed: true")
	case o.HTTP == "PUT":
		list = append(list, "safe: true")
	}
	return list
}

func (ts *typescript) operationPages(f *tsFile, o *model.Operation) {
	f.importType("CallOptions", tsTransport)
	declared, names := ts.pathParams(o)
	params, _ := ts.params(f, o.Params, o.Required)
	declared = append(append(declared, params...), "options?: CallOptions")
	f.printf("\n%s", tsDoc("  ", tsSentence(o.Title)+" Iterates over all pages."))
	f.printf("%s", tsSignature("  "+o.Name+"All", declared, tsWalk(ts.ref(f, o.Page.Item))))
	f.printf("%s", tsPaginate(f, o.Name, names, o.Page, o.Required))
}

func (ts *typescript) pathParams(o *model.Operation) (declared, names []string) {
	for _, p := range o.PathParams {
		kind := "string"
		if p.Type.Kind == model.Integer {
			kind = "number"
		}
		declared, names = append(declared, p.JSON+": "+kind), append(names, p.JSON)
	}
	return declared, names
}

func tsResourceClass(r *model.Resource) string { return model.Title(r.Name, "Resource") }

func tsGroupClass(g *model.Group) string { return model.Title(g.Name, "Group") }
