package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Ref is where a type is found in documents that hold schemas.
const Ref = "#/types/"

// Schema is the JSON Schema (2020-12) of what the shape makes. Types are referred to, as #/types/Name.
func (sh *Shape) Schema() json.RawMessage {
	if sh.name != "" {
		return json.RawMessage(`{"$ref":"` + Ref + sh.name + `"}`)
	}
	return sh.define()
}

// Definition is the schema of a type itself.
func (s *Set) Definition(name string) json.RawMessage { return s.types[name].define() }

func (sh *Shape) define() json.RawMessage {
	var out bytes.Buffer
	switch sh.what {
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
	case below:
		return sh.item.define()
	case anything:
		out.WriteString("{}")
	case text, integer, number, boolean, object, id, cents, times, unix, flag:
		fmt.Fprintf(&out, `{"type":"%s"`, typeNames[sh.what])
		switch {
		case sh.what == times || sh.what == unix:
			out.WriteString(`,"format":"date-time"`)
		case sh.field != nil && sh.field.Format != "":
			fmt.Fprintf(&out, `,"format":"%s"`, sh.field.Format)
		}
		if sh.field != nil && sh.field.Role != "" {
			fmt.Fprintf(&out, `,"x-role":"%s"`, sh.field.Role)
		}
		out.WriteByte('}')
	}
	return out.Bytes()
}

var typeNames = [...]string{
	text: "string", integer: "integer", number: "number", boolean: "boolean", object: "object",
	id: "string", cents: "integer", times: "string", unix: "string", flag: "boolean",
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

// schema is that of a member, which may be null.
func (m *member) schema() json.RawMessage {
	s := m.shape.Schema()
	if m.nullable {
		s = nullable(s)
	}
	if f := m.shape.field; f != nil && f.Description != "" {
		s = append(s[:len(s)-1:len(s)-1], fmt.Sprintf(`,"description":%s}`, quoted(f.Description))...)
		s = bytes.Replace(s, []byte("{,"), []byte("{"), 1)
	}
	return s
}

// nullable allows null besides what a schema allows.
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
