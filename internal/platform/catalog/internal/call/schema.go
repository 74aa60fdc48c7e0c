package call

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/convert"
)

// Schema returns the JSON Schema (2020-12) of the arguments. It has no external references.
func (s *Spec) Schema() json.RawMessage {
	var out bytes.Buffer
	defineObject(&out, s.props)
	return out.Bytes()
}

// PropertySchema returns the schema of one argument, or true if the method has no such argument.
func (s *Spec) PropertySchema(name string) json.RawMessage {
	var out bytes.Buffer
	i, ok := s.index[name]
	if !ok {
		return json.RawMessage("true")
	}
	s.props[i].define(&out)
	return out.Bytes()
}

func defineObject(out *bytes.Buffer, props []*prop) {
	out.WriteString(`{"type":"object"`)
	count := 0
	for _, p := range props {
		if !p.required {
			continue
		}
		if count == 0 {
			out.WriteString(`,"required":[`)
		} else {
			out.WriteByte(',')
		}
		out.Write(quoted(p.name))
		count++
	}
	if count > 0 {
		out.WriteByte(']')
	}
	out.WriteString(`,"properties":{`)
	for i, p := range props {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(p.key)
		p.define(out)
	}
	out.WriteString(`},"additionalProperties":false}`)
}

// define writes the schema of the value and inserts default and description before its closing brace.
func (p *prop) define(out *bytes.Buffer) {
	p.check.define(out)
	if p.fallback != nil {
		out.Truncate(out.Len() - 1)
		fmt.Fprintf(out, `,"default":%s}`, p.fallback)
	}
	if p.source != nil && p.source.Description != "" {
		out.Truncate(out.Len() - 1)
		fmt.Fprintf(out, `,"description":%s}`, quoted(p.source.Description))
	}
}

var kindWords = [...]string{
	kindString: "string", kindInteger: "integer", kindNumber: "number", kindBoolean: "boolean", kindArray: "array", kindObject: "object",
}

// define writes the schema of a value from the same fields that the validation uses.
func (c *check) define(out *bytes.Buffer) {
	if c.kind == kindObject && c.props != nil {
		defineObject(out, c.props)
		return
	}
	fmt.Fprintf(out, `{"type":"%s"`, kindWords[c.kind])
	if c.enum != nil {
		fmt.Fprintf(out, `,"enum":[%s]`, bytes.Join(c.enum, []byte(",")))
	}
	for _, bound := range []struct {
		name  string
		value int
		none  int
	}{
		{"minLength", c.effectiveMinLength(), 0}, {"maxLength", c.maxLength, none}, {"minItems", c.minItems, 0}, {"maxItems", c.maxItems, none},
	} {
		if bound.value != bound.none {
			fmt.Fprintf(out, `,"%s":%d`, bound.name, bound.value)
		}
	}
	if c.minimum != nil {
		fmt.Fprintf(out, `,"minimum":%d`, *c.minimum)
	}
	if c.maximum != nil {
		fmt.Fprintf(out, `,"maximum":%d`, *c.maximum)
	}
	if c.unique {
		out.WriteString(`,"uniqueItems":true`)
	}
	switch {
	case c.as == asID && c.ids != nil:
		fmt.Fprintf(out, `,"pattern":%s`, quoted(c.ids.String()))
	case c.as == asID:
		fmt.Fprintf(out, `,"pattern":%s`, quoted(convert.IDPattern))
	case c.pattern != nil:
		fmt.Fprintf(out, `,"pattern":%s`, quoted(c.pattern.String()))
	}
	if c.format != "" {
		fmt.Fprintf(out, `,"format":"%s"`, c.format)
	}
	if c.item != nil {
		out.WriteString(`,"items":`)
		c.item.define(out)
	}
	out.WriteByte('}')
}

// effectiveMinLength returns the minimum length. A path segment has at least one character; for ids the pattern says
// so.
func (c *check) effectiveMinLength() int {
	if c.segment && c.as != asID {
		return max(c.minLength, 1)
	}
	return c.minLength
}
