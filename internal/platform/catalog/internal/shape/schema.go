package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Ref is the prefix of references to types. Documents that embed schemas must have the types there.
const Ref = "#/types/"

// Schema returns the JSON Schema (2020-12) of the mapped value. It refers to types as #/types/Name.
func (sh *Shape) Schema() json.RawMessage {
	if sh.name != "" {
		return json.RawMessage(`{"$ref":"` + Ref + sh.name + `"}`)
	}
	return sh.define()
}

// Definition returns the schema of a type itself, not a reference to it.
func (s *Set) Definition(name string) json.RawMessage { return s.types[name].define() }

func (sh *Shape) define() json.RawMessage {
	var out bytes.Buffer
	switch sh.op {
	case record:
		sh.defineRecord(&out)
	case page:
		fmt.Fprintf(&out, `{"type":"object","required":["items","nextCursor","hasMore"],"properties":{"items":{"type":"array","items":%s},`+
			`"nextCursor":{"type":["string","null"]},"hasMore":{"type":"boolean"}}}`, sh.item.Schema())
	case list, csv:
		fmt.Fprintf(&out, `{"type":"array","items":%s}`, sh.item.Schema())
	case constant:
		fmt.Fprintf(&out, `{"const":%s}`, sh.literal)
	case enum:
		fmt.Fprintf(&out, `{"type":"%s","x-extensible-enum":[`, typeNames[sh.base])
		for i, v := range sh.values {
			if i > 0 {
				out.WriteByte(',')
			}
			out.Write(v.ours)
		}
		out.WriteString("]}")
	case atPath:
		return sh.item.define()
	case anything:
		out.WriteString("{}")
	case text, integer, number, boolean, object, id, textID, cents, times, unix, unixms, flag:
		fmt.Fprintf(&out, `{"type":"%s"`, typeNames[sh.op])
		switch {
		case sh.op == times || sh.op == unix || sh.op == unixms:
			out.WriteString(`,"format":"date-time"`)
		case sh.source != nil && sh.source.Format != "":
			fmt.Fprintf(&out, `,"format":"%s"`, sh.source.Format)
		}
		if sh.source != nil && sh.source.Role != "" {
			fmt.Fprintf(&out, `,"x-role":"%s"`, sh.source.Role)
		}
		out.WriteByte('}')
	}
	return out.Bytes()
}

var typeNames = [...]string{
	text: "string", integer: "integer", number: "number", boolean: "boolean", object: "object",
	id: "string", textID: "string", cents: "integer", times: "string", unix: "string", unixms: "string", flag: "boolean",
}

func (sh *Shape) defineRecord(out *bytes.Buffer) {
	out.WriteString(`{"type":"object","required":[`)
	for i, m := range sh.members {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(quoted(m.name))
	}
	out.WriteString(`],"properties":{`)
	for i, m := range sh.members {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(m.key)
		out.Write(m.schema())
	}
	out.WriteString("}}")
}

// schema returns the schema of a member, with null allowed if it is nullable, and its description.
func (m *member) schema() json.RawMessage {
	s := m.shape.Schema()
	if m.nullable {
		s = nullable(s)
	}
	if f := m.shape.source; f != nil && f.Description != "" {
		// Insert the description before the closing brace. The schema of anything is {}, which needs no comma.
		s = append(s[:len(s)-1:len(s)-1], fmt.Sprintf(`,"description":%s}`, quoted(f.Description))...)
		s = bytes.Replace(s, []byte("{,"), []byte("{"), 1)
	}
	return s
}

// nullable returns a schema that also allows null.
func nullable(s json.RawMessage) json.RawMessage {
	const start = `{"type":"`
	if rest, ok := bytes.CutPrefix(s, []byte(start)); ok {
		name, rest, _ := bytes.Cut(rest, []byte(`"`))
		return fmt.Appendf(nil, `{"type":["%s","null"]%s`, name, rest)
	}
	if string(s) == "{}" {
		return s
	}
	return fmt.Appendf(nil, `{"anyOf":[%s,{"type":"null"}]}`, s)
}
