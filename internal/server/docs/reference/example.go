package reference

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
)

// exampleDepth bounds the nesting of an example.
const exampleDepth = 4

// example returns an indented value that matches a schema. It is deterministic.
func (m *builder) example(s *apimodel.Schema) string {
	var raw bytes.Buffer
	m.writeExample(&raw, "", s, 0)
	return indent(raw.Bytes())
}

// indent formats JSON on several lines, with short lists on one.
func indent(raw []byte) string {
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return string(raw)
	}
	return shortLists.ReplaceAllStringFunc(out.String(), func(list string) string {
		return strings.Join(strings.Fields(list), " ")
	})
}

// shortLists matches lists of one plain value.
var shortLists = regexp.MustCompile(`\[\s+("[^"\n]*"|-?\d+)\s+\]`)

func (m *builder) writeExample(b *bytes.Buffer, name string, s *apimodel.Schema, depth int) {
	s, _ = m.doc.Follow(s)
	switch {
	case s == nil:
		b.WriteString(`{}`)
	case s.Example != nil:
		encode(b, s.Example)
	case len(s.Examples) > 0:
		encode(b, s.Examples[0])
	case decoded(s.Const) != nil:
		encode(b, decoded(s.Const))
	case len(s.Enum) > 0:
		encode(b, s.Enum[0])
	case len(s.Open) > 0:
		encode(b, s.Open[0])
	case len(s.AnyOf) > 0 && name == "failure" && slices.ContainsFunc(s.AnyOf, func(c *apimodel.Schema) bool { return slices.Equal(c.Type, apimodel.Types{"null"}) }):
		b.WriteString("null") // Usually nothing has failed.
	case len(s.AnyOf) > 0:
		m.writeExample(b, name, s.AnyOf[0], depth)
	case len(s.OneOf) > 0:
		m.writeExample(b, name, s.OneOf[0], depth)
	default:
		m.writeByType(b, name, s, depth)
	}
}

func (m *builder) writeByType(b *bytes.Buffer, name string, s *apimodel.Schema, depth int) {
	switch s.Type.Main() {
	case "object":
		m.writeObject(b, s, depth)
	case "array":
		if s.Items == nil || depth >= exampleDepth {
			b.WriteString("[]")
			return
		}
		b.WriteByte('[')
		m.writeExample(b, strings.TrimSuffix(name, "s"), s.Items, depth+1)
		b.WriteByte(']')
	case "string":
		encode(b, exampleText(name, s))
	case "integer", "number":
		encode(b, exampleNumber(name, s))
	case "boolean":
		b.WriteString(map[bool]string{true: "true", false: "false"}[slices.Contains([]string{"ok", "sandbox", "deleted", "enabled", "canSend"}, name)])
	default:
		b.WriteString("{}")
	}
}

func (m *builder) writeObject(b *bytes.Buffer, s *apimodel.Schema, depth int) {
	if len(s.Properties) == 0 || depth >= exampleDepth {
		b.WriteString("{}")
		return
	}
	b.WriteByte('{')
	for i, p := range s.Properties {
		if i > 0 {
			b.WriteByte(',')
		}
		encode(b, p.Name)
		b.WriteByte(':')
		target, _ := m.doc.Follow(p.Value)
		if target != nil && (slices.Contains(target.Type, "null") || slices.Contains(p.Value.Type, "null")) && !slices.Contains(s.Required, p.Name) {
			b.WriteString("null")
			continue
		}
		m.writeExample(b, p.Name, p.Value, depth+1)
	}
	b.WriteByte('}')
}

// texts are example values by the suffix of a member's name. The first match counts.
var texts = []struct{ end, value string }{
	{"accountid", "acct_01k9x3m5v8e7rbq2n4t6w8y0za"}, {"account_id", "acct_01k9x3m5v8e7rbq2n4t6w8y0za"},
	{"attemptid", "att_01k9x3m5v8e7rbq2n4t6w8y0zb"}, {"attempt_id", "att_01k9x3m5v8e7rbq2n4t6w8y0zb"},
	{"eventid", "evt_01k9x3m5v8e7rbq2n4t6w8y0zc"}, {"deliveryid", "dlv_01k9x3m5v8e7rbq2n4t6w8y0zd"},
	{"requestid", "req_01k9x3m5v8e7rbq2n4t6w8y0ze"}, {"referenceid", "user_456"}, {"reference_id", "user_456"},
	{"email_mask", "l•••@e•••.com"}, {"phone_mask", "··42"}, {"email", "ada@example.com"}, {"username", "luna"}, {"displayname", "Luna"}, {"label", "Luna"}, {"name", "Luna"},
	{"url", "https://example.com/file"}, {"text", "Thank you!"}, {"country", "us"}, {"state", "active"}, {"currency", "usd"},
	{"cursor", "eyJhIjoxfQ"}, {"secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, {"code", "123456"}, {"title", "A title"},
	{"id", "3438267820000000001"},
}

func exampleText(name string, s *apimodel.Schema) string {
	switch s.Format {
	case "date-time":
		return "2026-11-15T14:02:11Z"
	case "date":
		return "2026-11-15"
	case "uri":
		return "https://example.com/file"
	}
	for _, t := range texts {
		if strings.HasSuffix(strings.ToLower(name), t.end) {
			return t.value
		}
	}
	if strings.HasPrefix(s.Pattern, "^(0|[1-9]") {
		return "3438267820000000001"
	}
	return "…"
}

func exampleNumber(name string, s *apimodel.Schema) int64 {
	n := int64(1)
	if strings.HasSuffix(name, "Cents") {
		n = 2500
	}
	if s.Minimum != nil {
		n = max(n, int64(*s.Minimum))
	}
	if s.Maximum != nil {
		n = min(n, int64(*s.Maximum))
	}
	return n
}

// encode writes a value without the escapes that only HTML needs.
func encode(b *bytes.Buffer, v any) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		b.WriteString("null")
		return
	}
	b.Truncate(b.Len() - 1) // Drop the line break.
}
