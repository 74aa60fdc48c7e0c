package typescript

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
)

// typ writes a type as an interface.
func (ts *generator) typ(f *file, t *model.Type) {
	f.exports = true
	f.printf("%sexport interface %s {\n", docComment("", t.Doc), t.Name)
	for _, field := range t.Fields {
		doc := field.Doc
		if len(field.Default) > 0 && string(field.Default) != "null" {
			doc = strings.TrimSpace(sentence(doc) + " Default: " + string(field.Default) + ".")
		}
		mark := ""
		if !field.Required {
			mark = "?"
		}
		f.printf("%s%s", docComment("  ", doc), member(memberName(field.JSON)+mark, ts.ref(f, field.Type)))
	}
	if t.Open {
		f.printf("  [member: string]: unknown;\n")
	}
	f.printf("}\n\n")
}

// member declares a member. A long union of literals gets one line per literal.
func member(name, kind string) string {
	line := "  " + name + ": " + kind + ";\n"
	if len(line) <= maxWidth || !strings.HasPrefix(kind, `"`) {
		return line
	}
	return "  " + name + ":\n    | " + strings.ReplaceAll(kind, " | ", "\n    | ") + ";\n"
}

// literalOf writes a JSON object as a TypeScript expression on one line. It returns an empty string
// for an empty object.
func literalOf(raw json.RawMessage) string {
	if n := model.ParseObject(raw); n != nil {
		return literal(n)
	}
	return ""
}

func literal(n *model.Node) string {
	var parts []string
	switch {
	case n.Member != nil:
		for _, key := range n.Keys {
			parts = append(parts, memberName(key)+": "+literal(n.Member[key]))
		}
		return "{ " + strings.Join(parts, ", ") + " }"
	case n.Items != nil:
		for _, item := range n.Items {
			parts = append(parts, literal(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return strings.TrimSpace(string(n.Raw))
}

// ref returns the TypeScript type of a value and imports it if it is named.
func (ts *generator) ref(f *file, r model.Ref) string {
	text := ts.value(f, r)
	if r.Nullable && r.Kind != model.Null && text != "unknown" {
		text += " | null"
	}
	return text
}

func (ts *generator) value(f *file, r model.Ref) string {
	switch r.Kind {
	case model.String:
		return enumUnion(r)
	case model.Integer, model.Number:
		if len(r.Enum) > 0 {
			return strings.Join(r.Enum, " | ")
		}
		return "number"
	case model.Boolean:
		if r.Const != "" {
			return r.Const
		}
		return "boolean"
	case model.Null:
		return "null"
	case model.Named:
		return ts.name(f, r.Name)
	case model.Array:
		elem := ts.ref(f, *r.Elem)
		if strings.ContainsAny(elem, "|&") {
			elem = "(" + elem + ")"
		}
		return elem + "[]"
	case model.Map:
		return "Record<string, " + ts.ref(f, *r.Elem) + ">"
	case model.Any:
	}
	return "unknown"
}

// name returns the TypeScript name of a named type and imports it. An event is the union StagedoorEvent.
func (ts *generator) name(f *file, name string) string {
	if name == model.EventType {
		f.importType("StagedoorEvent", eventsFile)
		return "StagedoorEvent"
	}
	f.importType(name, ts.fileOf[name])
	return name
}

// enumUnion returns the union of an enumeration's values. An open enumeration allows any string; editors still
// suggest the known values.
func enumUnion(r model.Ref) string {
	if len(r.Enum) == 0 {
		return "string"
	}
	var names []string
	for _, name := range r.Enum {
		names = append(names, quote(name))
	}
	if r.EnumOpen {
		names = append(names, "(string & {})")
	}
	return strings.Join(names, " | ")
}

var plainName = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

// memberName returns the name of a member, quoted if necessary.
func memberName(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return quote(name)
}

func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		return `""`
	}
	return string(quoted)
}

// docComment writes a doc comment, on one line if it fits. It returns an empty string if there is no text.
func docComment(indent string, paragraphs ...string) string {
	var lines []string
	for _, paragraph := range paragraphs {
		for part := range strings.SplitSeq(paragraph, "\n\n") {
			if part = strings.TrimSpace(strings.ReplaceAll(part, "*/", "*\\/")); part == "" {
				continue
			}
			if len(lines) > 0 {
				lines = append(lines, "")
			}
			lines = append(lines, wrap(part, maxWidth-len(indent)-len(" * "))...)
		}
	}
	switch {
	case len(lines) == 0:
		return ""
	case len(lines) == 1 && len(indent)+len(lines[0]) <= maxWidth-len("/**  */"):
		return indent + "/** " + lines[0] + " */\n"
	}
	var b strings.Builder
	b.WriteString(indent + "/**\n")
	for _, line := range lines {
		b.WriteString(strings.TrimRight(indent+" * "+line, " ") + "\n")
	}
	b.WriteString(indent + " */\n")
	return b.String()
}

// wrap wraps a paragraph. A paragraph that starts with @ keeps its lines.
func wrap(text string, width int) []string {
	if strings.HasPrefix(text, "@") {
		return strings.Split(text, "\n")
	}
	return model.Wrap(text, width)
}

// sentence ends a text with a full stop if it has no punctuation at its end.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" || strings.HasSuffix(text, ".") || strings.HasSuffix(text, "!") || strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}
