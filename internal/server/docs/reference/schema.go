package reference

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
)

// maxDepth bounds how deep nested objects are shown.
const maxDepth = 3

// fields lists the members of an object; those of nested objects are indented.
func (m *builder) fields(s *apimodel.Schema, depth int) string {
	var b strings.Builder
	m.writeFields(&b, s, depth, nil)
	return b.String()
}

func (m *builder) writeFields(b *strings.Builder, s *apimodel.Schema, depth int, seen []string) {
	s, name := m.doc.Follow(s)
	if s == nil || slices.Contains(seen, name) && name != "" {
		return
	}
	if name != "" {
		seen = append(slices.Clone(seen), name)
	}
	for _, p := range s.Properties {
		m.writeField(b, p.Name, p.Value, slices.Contains(s.Required, p.Name), depth)
		if inner := m.inner(p.Value); inner != nil && depth < maxDepth {
			m.writeFields(b, inner, depth+1, seen)
		}
	}
}

func (m *builder) writeField(b *strings.Builder, name string, s *apimodel.Schema, required bool, depth int) {
	target, _ := m.doc.Follow(s)
	if target == nil {
		target = &apimodel.Schema{}
	}
	b.WriteString(strings.Repeat("  ", depth) + "- `" + name + "` *" + m.typeName(s) + "*")
	if required && depth == 0 {
		b.WriteString(" **required**")
	}
	words := s.Description
	if words == "" {
		words = target.Description
	}
	words = strings.TrimSpace(sentence(words) + " " + limits(target))
	if words != "" {
		b.WriteString("  \n" + strings.Repeat("  ", depth) + "  " + strings.ReplaceAll(escape(words), "\n", " "))
	}
	b.WriteByte('\n')
}

// inner returns the object whose members are shown below a field; nil for none. Types of the platform have their own
// page.
func (m *builder) inner(s *apimodel.Schema) *apimodel.Schema {
	target, name := m.doc.Follow(s)
	if target == nil || strings.HasPrefix(name, "Sdk.") {
		return nil
	}
	if target.Type.Main() == "array" && target.Items != nil {
		return m.inner(target.Items)
	}
	if len(target.Properties) > 0 {
		return s
	}
	if target.Additional != nil && target.Additional.Schema != nil {
		return m.inner(target.Additional.Schema)
	}
	for _, choice := range target.AnyOf {
		if found := m.inner(choice); found != nil {
			return found
		}
	}
	return nil
}

// typeName describes the type of a value.
func (m *builder) typeName(s *apimodel.Schema) string {
	target, name := m.doc.Follow(s)
	if target == nil {
		return "any"
	}
	null := ""
	if slices.Contains(s.Type, "null") || slices.Contains(target.Type, "null") {
		null = " or null"
	}
	if strings.HasPrefix(name, "Sdk.") {
		return "[" + sdkName(name) + "](/docs/sdk/types#" + typeID(name) + ")" + null
	}
	switch target.Type.Main() {
	case "array":
		if target.Items != nil {
			return "array of " + m.typeName(target.Items) + null
		}
		return "array" + null
	case "object":
		if target.Additional != nil && target.Additional.Schema != nil && len(target.Properties) == 0 {
			return "object of " + m.typeName(target.Additional.Schema) + null
		}
		return "object" + null
	case "string":
		switch target.Format {
		case "date-time":
			return "time" + null
		case "date":
			return "date" + null
		}
		return "string" + null
	case "":
		if choices := slices.Concat(target.AnyOf, target.OneOf); len(choices) > 0 {
			names := []string{}
			for _, c := range choices {
				if n := m.typeName(c); !slices.Contains(names, n) {
					names = append(names, n)
				}
			}
			return strings.Join(names, " or ")
		}
		return "any"
	}
	return target.Type.Main() + null
}

// sdkName returns the name of a type of the platform: Page.Message is a page of Message.
func sdkName(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, "Sdk."), "Page.")
}

func typeID(name string) string {
	name = strings.TrimPrefix(name, "Sdk.")
	return strings.ToLower(strings.ReplaceAll(name, "Page.", "page-of-"))
}

// limits describes the constraints of a value.
func limits(s *apimodel.Schema) string {
	var parts []string
	choices, open := s.Enum, false
	if len(choices) == 0 {
		choices, open = s.Open, true
	}
	if len(choices) > 0 {
		list := make([]string, 0, len(choices))
		for _, c := range choices {
			if c != nil {
				list = append(list, "`"+apimodel.Text(c)+"`")
			}
		}
		text := "One of " + strings.Join(list, ", ")
		if open {
			text += "; more may be added"
		}
		parts = append(parts, text+".")
	}
	if s.Minimum != nil && s.Maximum != nil {
		parts = append(parts, fmt.Sprintf("%s to %s.", number(*s.Minimum), number(*s.Maximum)))
	} else if s.Minimum != nil {
		parts = append(parts, fmt.Sprintf("At least %s.", number(*s.Minimum)))
	} else if s.Maximum != nil {
		parts = append(parts, fmt.Sprintf("At most %s.", number(*s.Maximum)))
	}
	if s.MaxLength != nil {
		parts = append(parts, fmt.Sprintf("At most %d characters.", *s.MaxLength))
	}
	if s.MaxItems != nil {
		parts = append(parts, fmt.Sprintf("At most %d items.", *s.MaxItems))
	}
	if value := decoded(s.Default); value != nil {
		parts = append(parts, "Default: `"+apimodel.Text(value)+"`.")
	}
	return strings.Join(parts, " ")
}

// decoded returns a value of the document; nil for null and for none.
func decoded(text json.RawMessage) (value any) {
	if len(text) > 0 && json.Unmarshal(text, &value) != nil {
		return nil
	}
	return value
}

func number(f float64) string { return strings.TrimSuffix(fmt.Sprintf("%.2f", f), ".00") }

// escape keeps text from being read as markup outside of code. Stars and brackets occur in patterns such as message*.
func escape(words string) string {
	var b strings.Builder
	inCode := false
	for _, r := range words {
		switch {
		case r == '`':
			inCode = !inCode
		case !inCode && strings.ContainsRune(`*_<>[]`, r):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
