package sdkgen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
)

// Files of the hand-written part, as a file of the generated one imports them.
const (
	tsTransport = "../transport"
	tsCalls     = "../calls"
	tsPages     = "../pages"
)

// resource writes the methods of a resource as a class.
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

// methodPages writes the walk through all pages of a method that lists.
func (ts *typescript) methodPages(f *tsFile, m *model.Method) {
	f.importType("CallOptions", tsTransport)
	params, _ := ts.params(f, m.Params, m.Required)
	f.printf("\n%s", tsDoc("  ", tsSentence(m.Doc)+" All of them, however many pages they take."))
	f.printf("%s", tsSignature("  "+m.Name+"All", append(params, "options?: CallOptions"), tsWalk(ts.ref(f, m.Page.Item))))
	f.printf("%s", tsPaginate(f, m.Name, nil, m.Page, m.Required))
}

// params is how what a call takes is declared, and how it is handed on.
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

// tsOperationDoc leaves out what the description says of a stream: here the operation gives pages.
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

// tsPaginate is the body of a walk through pages.
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
		notes = append(notes, "It goes on after the answer; an event tells its end.")
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

// tsSignature opens a method, on one line if that is not too long.
func tsSignature(name string, params []string, result string) string {
	if line := name + "(" + strings.Join(params, ", ") + "): " + result + " {"; len(line) <= tsWidth {
		return line + "\n"
	}
	return name + "(\n    " + strings.Join(params, ",\n    ") + ",\n  ): " + result + " {\n"
}

// group writes the plain operations of a group as a class. The others are in hand-written code.
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

// tsPlainGroup tells whether anything of a group is generated. Files are not: they are part of an account.
func tsPlainGroup(g *model.Group) bool {
	return slices.ContainsFunc(g.Operations, func(o *model.Operation) bool { return o.Form == model.JSON })
}

func tsCheckByHand(g *model.Group) error {
	for _, o := range g.Operations {
		if o.Form != model.JSON && typescriptByHand[o.ID] == "" {
			return fmt.Errorf("%s is no plain call and not in the list of those that are written by hand", o.ID)
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

// tsCall writes a call with a request, on one line if that is not too long.
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

// request is the description of a call for the transport.
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
	f.printf("\n%s", tsDoc("  ", tsSentence(o.Title)+" All there is, however many pages it takes."))
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
