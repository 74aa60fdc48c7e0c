package golang

import (
	"fmt"
	"go/format"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
)

// Sample writes a call as a program uses it.
func Sample(m *model.Model, s model.Sample) (string, error) {
	w := &sampler{writer{model: m}}
	call := "client." + goName(s.Owner) + "."
	if s.Account {
		call = "client.Account(accountID)." + goName(s.Owner) + "."
	}
	args := []string{"ctx"}
	for _, p := range s.Path {
		if name, ok := strings.CutPrefix(p, "$"); ok {
			args = append(args, goParam(name))
		} else {
			args = append(args, fmt.Sprintf("%q", p))
		}
	}
	if s.Params != nil {
		update := s.HTTP == "PATCH"
		if s.Account {
			update = isUpdate(s.Name)
		}
		args = append(args, w.object(s.Params, s.Args, update, s.Account))
	}
	given := strings.Join(args, ", ")
	code := "result, err := " + call + goName(s.Name) + "(" + given + ")\n" +
		"if err != nil {\n\treturn err\n}\nfmt.Println(result)\n"
	if s.Paged {
		code = "for item, err := range " + call + goName(s.Name) + "All(" + given + ") {\n" +
			"\tif err != nil {\n\t\treturn err\n\t}\n\tfmt.Println(item)\n}\n"
	}
	formatted, err := format.Source([]byte(code))
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("the Go sample of %s.%s: %w", s.Owner, s.Name, err)
	}
	return strings.TrimSpace(string(formatted)), w.err
}

// sampler writes values and types as code outside the library's package does.
type sampler struct{ writer }

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
		if t.Params && !f.Required && needsPointer(t, *f, update, tristate) || !t.Params && strings.HasPrefix(s.field(*f), "*") {
			value = pointerTo(f.Type, value)
		}
		parts = append(parts, goName(f.JSON)+": "+value)
	}
	inline := name + "{" + strings.Join(parts, ", ") + "}"
	if len(inline) < model.SampleWidth-20 && len(parts) < 3 {
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
	return s.writer.typ(r, true)
}

// goTime writes a JSON time such as "2026-11-14T00:00:00Z" as a Go expression.
func goTime(text string) string {
	var year, month, day, hour, minute, second int
	if _, err := fmt.Sscanf(strings.Trim(text, `"`), "%d-%d-%dT%d:%d:%d", &year, &month, &day, &hour, &minute, &second); err != nil {
		return "time.Time{}"
	}
	return fmt.Sprintf("time.Date(%d, %d, %d, %d, %d, %d, 0, time.UTC)", year, month, day, hour, minute, second)
}
