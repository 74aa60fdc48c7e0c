package sdkgen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
	"github.com/stagedoor/stagedoor/internal/command/sdkgen/python"
)

// sampleFiles returns the code samples of the API reference: every method and operation in every language, with
// arguments that work on the sandbox, and an example of every event. They are generated here because only the generator
// knows the names in each library.
func sampleFiles(m *model.Model) (map[string][]byte, error) {
	s := &sampler{model: m, gos: &goWriter{model: m}}
	out := struct {
		Operations map[string]map[string]string `json:"operations"`
		Events     map[string]json.RawMessage   `json:"events"`
	}{map[string]map[string]string{}, map[string]json.RawMessage{}}
	for _, r := range m.Resources {
		for _, method := range r.Methods {
			out.Operations[method.ID()] = s.all(s.method(method))
		}
	}
	for _, g := range m.Groups {
		for _, o := range g.Operations {
			if o.Form == model.JSON && samplesByHand[o.ID] == nil {
				out.Operations[o.ID] = s.all(s.operation(o))
			}
		}
	}
	for id, code := range samplesByHand {
		out.Operations[id] = code
	}
	for _, e := range m.Events {
		out.Events[e.Kind] = e.Example
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(out); err != nil {
		return nil, fmt.Errorf("write the samples: %w", err)
	}
	return map[string][]byte{"samples.json": text.Bytes()}, s.err
}

// sampler writes samples and keeps the first error.
type sampler struct {
	model *model.Model
	gos   *goWriter
	err   error
}

// sample is a call to write in each language.
type sample struct {
	// account is set for methods of the platform, which are called on an account.
	account bool
	// owner is the resource or group, title its Go name.
	owner, title string
	name         string
	// path holds the values of the path parameters, in order. A value that starts with $ is a variable.
	path []string
	// params is the type of the other parameters, args their values; both nil for none.
	params *model.Type
	args   *model.Node
	// update and tristate are as for needsPointer.
	update, tristate bool
	paged            bool
}

func (s *sampler) method(m *model.Method) sample {
	return sample{
		account: true, owner: m.Resource, title: goName(m.Resource), name: m.Name, params: m.Params, args: parseNode(m.Example),
		update: isUpdate(m.Name), tristate: true, paged: m.Page != nil,
	}
}

func (s *sampler) operation(o *model.Operation) sample {
	c := sample{owner: o.Group, title: goName(o.Group), name: o.Name, params: o.Params, args: parseNode(o.Example),
		update: o.HTTP == "PATCH", paged: o.Page != nil}
	for _, p := range o.PathParams {
		c.path = append(c.path, pathSample(p.JSON))
	}
	if o.InQuery {
		c.args = requiredArgs(o.Params)
	}
	return c
}

// pathSample returns an example value of a path parameter. A value that starts with $ is a variable
// that every sample has.
func pathSample(name string) string {
	switch name {
	case "accountId", "attemptId":
		return "$" + name
	case "eventId":
		return "evt_01k9x3m5v8e7rbq2n4t6w8y0zc"
	case "deliveryId":
		return "dlv_01k9x3m5v8e7rbq2n4t6w8y0zd"
	case "requestId":
		return "req_01k9x3m5v8e7rbq2n4t6w8y0ze"
	case "keyId":
		return "key_01k9x3m5v8e7rbq2n4t6w8y0zf"
	case "code":
		return "quota-exceeded"
	}
	return strings.TrimSuffix(python.Snake(name), "_id") + "_01k9x3m5v8e7rbq2n4t6w8y0zg"
}

// parseNode parses a JSON object. It returns nil for anything else and for an empty object.
func parseNode(raw json.RawMessage) *model.Node {
	n := &model.Node{}
	if len(raw) == 0 || json.Unmarshal(raw, n) != nil || len(n.Keys) == 0 {
		return nil
	}
	return n
}

// requiredArgs returns example values of the required members of a query, or nil if there are none.
func requiredArgs(t *model.Type) *model.Node {
	n := &model.Node{Member: map[string]*model.Node{}}
	for _, f := range t.Fields {
		if !f.Required {
			continue
		}
		value := tsQuote(pathSample(f.JSON))
		if len(f.Type.Enum) > 0 {
			value = tsQuote(f.Type.Enum[0])
		}
		given := &model.Node{Raw: json.RawMessage(value)}
		if f.Type.Kind == model.Array {
			given = &model.Node{Items: []*model.Node{{Raw: json.RawMessage(tsQuote(pathSample(f.JSON + "Id")))}}}
		}
		n.Keys, n.Member[f.JSON] = append(n.Keys, f.JSON), given
	}
	if len(n.Keys) == 0 {
		return nil
	}
	return n
}

// all writes a sample in every language.
func (s *sampler) all(c sample) map[string]string {
	return map[string]string{"ts": c.typescript(), "go": s.golang(c), "python": c.python()}
}

// shortLine is the preferred length of a line in a sample.
const shortLine = 72

func (c sample) typescript() string {
	call := "client." + c.owner + "."
	if c.account {
		call = "client.account(accountId)." + c.owner + "."
	}
	var args []string
	for _, p := range c.path {
		if name, ok := strings.CutPrefix(p, "$"); ok {
			args = append(args, name)
		} else {
			args = append(args, tsQuote(p))
		}
	}
	start := "const result = await " + call + c.name + "("
	end := ");\nconsole.log(result);"
	if c.paged {
		start, end = "for await (const item of "+call+c.name+"All(", ")) {\n  console.log(item);\n}"
	}
	if c.args != nil {
		object := literal(c.args)
		if first, _, _ := strings.Cut(end, "\n"); len(start+strings.Join(append(args, object), ", ")+first) > shortLine {
			object = tsLines(c.args, "")
		}
		args = append(args, object)
	}
	return start + strings.Join(args, ", ") + end
}

// tsLines writes an object with one member per line.
func tsLines(n *model.Node, indent string) string {
	var b strings.Builder
	b.WriteString("{\n")
	for _, key := range n.Keys {
		value := literal(n.Member[key])
		if n.Member[key].Member != nil && len(value) > shortLine-len(indent)-len(key) {
			value = tsLines(n.Member[key], indent+"  ")
		}
		b.WriteString(indent + "  " + tsKey(key) + ": " + value + ",\n")
	}
	b.WriteString(indent + "}")
	return b.String()
}

func (c sample) python() string {
	call := "client." + python.Snake(c.owner) + "."
	if c.account {
		call = "client.account(account_id)." + python.Snake(c.owner) + "."
	}
	var args []string
	for _, p := range c.path {
		if name, ok := strings.CutPrefix(p, "$"); ok {
			args = append(args, python.Snake(name))
		} else {
			args = append(args, python.Quote(p))
		}
	}
	if c.args != nil {
		for _, key := range c.args.Keys {
			args = append(args, python.Snake(key)+"="+pythonValue(c.args.Member[key]))
		}
	}
	start, end := "result = "+call+python.Snake(c.name)+"(", ")"
	after := "\nprint(result)"
	if c.paged {
		start, end, after = "for item in "+call+python.Snake(c.name)+"_all(", "):", "\n    print(item)"
	}
	line := start + strings.Join(args, ", ") + end
	if len(line) > shortLine+8 {
		line = start + "\n    " + strings.Join(args, ",\n    ") + ",\n" + end
	}
	return line + after
}

// pythonValue writes JSON as a Python expression.
func pythonValue(n *model.Node) string {
	var parts []string
	switch {
	case n.Member != nil:
		for _, key := range n.Keys {
			parts = append(parts, python.Quote(key)+": "+pythonValue(n.Member[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case n.Items != nil:
		for _, item := range n.Items {
			parts = append(parts, pythonValue(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	switch text := strings.TrimSpace(string(n.Raw)); text {
	case "true":
		return "True"
	case "false":
		return "False"
	case "null":
		return "None"
	default:
		return text
	}
}

func (s *sampler) golang(c sample) string {
	call := "client." + c.title + "."
	if c.account {
		call = "client.Account(accountID)." + c.title + "."
	}
	args := []string{"ctx"}
	for _, p := range c.path {
		if name, ok := strings.CutPrefix(p, "$"); ok {
			args = append(args, goParam(name))
		} else {
			args = append(args, fmt.Sprintf("%q", p))
		}
	}
	if c.params != nil {
		args = append(args, s.object(c.params, c.args, c.update, c.tristate))
	}
	code := "result, err := " + call + goName(c.name) + "(" + strings.Join(args, ", ") + ")\nif err != nil {\n\treturn err\n}\nfmt.Println(result)\n"
	if c.paged {
		code = "for item, err := range " + call + goName(c.name) + "All(" + strings.Join(args, ", ") + ") {\n\tif err != nil {\n\t\treturn err\n\t}\n\tfmt.Println(item)\n}\n"
	}
	formatted, err := format.Source([]byte(code))
	if err != nil && s.err == nil {
		s.err = fmt.Errorf("the Go sample of %s.%s: %w", c.owner, c.name, err)
	}
	return strings.TrimSpace(string(formatted))
}

// object writes a Go struct literal with the values of n.
func (s *sampler) object(t *model.Type, n *model.Node, update, tristate bool) string {
	name := "stagedoor." + t.Name
	if n == nil || len(n.Keys) == 0 {
		return name + "{}"
	}
	var parts []string
	for _, key := range n.Keys {
		f := t.Field(key)
		if f == nil {
			if s.err == nil {
				s.err = fmt.Errorf("the example of %s has a member %s that the type does not", t.Name, key)
			}
			continue
		}
		value := s.value(f.Type, n.Member[key])
		if t.Params && !f.Required && needsPointer(*f, update, tristate) || !t.Params && strings.HasPrefix(s.gos.field(*f), "*") {
			value = pointerTo(f.Type, value)
		}
		parts = append(parts, goName(f.JSON)+": "+value)
	}
	inline := name + "{" + strings.Join(parts, ", ") + "}"
	if len(inline) < shortLine-20 && len(parts) < 3 {
		return inline
	}
	return name + "{\n" + strings.Join(parts, ",\n") + ",\n}"
}

func pointerTo(r model.Ref, value string) string {
	if r.Kind == model.Named {
		return "&" + value
	}
	if r.Kind == model.Integer {
		return "stagedoor.Ptr[int64](" + value + ")"
	}
	return "stagedoor.Ptr(" + value + ")"
}

// value writes JSON as a Go expression of the given type.
func (s *sampler) value(r model.Ref, n *model.Node) string {
	text := strings.TrimSpace(string(n.Raw))
	switch r.Kind {
	case model.Named:
		if t := s.model.Type(r.Name); t != nil {
			return s.object(t, n, false, true)
		}
	case model.Array:
		var items []string
		for _, item := range n.Items {
			items = append(items, s.value(*r.Elem, item))
		}
		return s.typ(r) + "{" + strings.Join(items, ", ") + "}"
	case model.Map:
		var items []string
		for _, key := range n.Keys {
			items = append(items, fmt.Sprintf("%q: %s", key, s.value(*r.Elem, n.Member[key])))
		}
		return s.typ(r) + "{" + strings.Join(items, ", ") + "}"
	case model.String:
		if r.Format == "date-time" {
			return goTime(text)
		}
	case model.Any, model.Null, model.Integer, model.Number, model.Boolean:
		if n.Member != nil {
			return s.value(model.Ref{Kind: model.Map, Elem: &model.Ref{Kind: model.Any}}, n)
		}
	}
	return text
}

// typ returns a type as code outside the library's package names it.
func (s *sampler) typ(r model.Ref) string {
	switch r.Kind {
	case model.Array:
		return "[]" + s.typ(*r.Elem)
	case model.Map:
		return "map[string]" + s.typ(*r.Elem)
	case model.Named:
		return "stagedoor." + r.Name
	case model.Any, model.Null, model.String, model.Integer, model.Number, model.Boolean:
	}
	return s.gos.typ(r, true)
}

// goTime writes a JSON time such as "2026-11-14T00:00:00Z" as a Go expression.
func goTime(text string) string {
	var year, month, day, hour, minute, second int
	if _, err := fmt.Sscanf(strings.Trim(text, `"`), "%d-%d-%dT%d:%d:%d", &year, &month, &day, &hour, &minute, &second); err != nil {
		return "time.Time{}"
	}
	return fmt.Sprintf("time.Date(%d, %d, %d, %d, %d, %d, 0, time.UTC)", year, month, day, hour, minute, second)
}
