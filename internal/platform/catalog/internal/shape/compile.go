package shape

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
)

// New compiles the types of a manifest. A type with faults is left out.
func New(types []manifest.Type) (*Set, []manifest.Fault) {
	s := &Set{types: map[string]*Shape{}, used: map[string]bool{}, pos: map[string]manifest.Pos{}}
	for _, t := range types {
		s.names = append(s.names, t.Name)
		s.types[t.Name] = &Shape{what: record, name: t.Name, reads: true}
		s.pos[t.Name] = t.Pos
	}
	var faults []manifest.Fault
	same := map[string][]string{}
	bad := map[string]bool{}
	for _, t := range types {
		c := compiler{set: s}
		s.types[t.Name].members = c.members(t.Fields)
		faults = append(faults, c.faults...)
		bad[t.Name] = len(c.faults) > 0
		same[t.Name] = sameObject(t.Fields)
	}
	for _, t := range types {
		if loops(t.Name, t.Name, same, map[string]bool{}) {
			bad[t.Name] = true
			faults = append(faults, manifest.Fault{Pos: t.Pos, Detail: "the type " + t.Name + " contains itself, at the same place of the answer"})
		}
	}
	if len(faults) == 0 {
		return s, nil
	}
	// What refers to a type with faults has one itself; what is left is sound.
	sound := slices.DeleteFunc(slices.Clone(types), func(t manifest.Type) bool { return bad[t.Name] })
	s, more := New(sound)
	return s, append(faults, more...)
}

// sameObject lists the types that a record's fields make of the object itself.
func sameObject(fields []*manifest.Field) []string {
	var names []string
	for _, f := range fields {
		here := f.From != nil && *f.From == "."
		if f.Of != "" && here {
			names = append(names, f.Of)
		}
		if f.Fields != nil && (f.From == nil || here) {
			names = append(names, sameObject(f.Fields)...)
		}
	}
	return names
}

func loops(start, at string, same map[string][]string, seen map[string]bool) bool {
	for _, next := range same[at] {
		if next == start {
			return true
		}
		if !seen[next] {
			seen[next] = true
			if loops(start, next, same, seen) {
				return true
			}
		}
	}
	return false
}

// Record compiles an object that is made of fields.
func (s *Set) Record(fields []*manifest.Field, from *string) (*Shape, []manifest.Fault) {
	c := compiler{set: s}
	sh := &Shape{what: record}
	sh.members = c.members(fields)
	sh.reads = slices.ContainsFunc(sh.members, func(m member) bool { return m.shape.reads })
	if from != nil && *from != "." {
		sh = &Shape{what: record, members: prefixed(sh.members, path(*from)), reads: sh.reads}
	}
	return sh, c.faults
}

// prefixed moves members below a path.
func prefixed(members []member, path []string) []member {
	list := slices.Clone(members)
	for i := range list {
		list[i].from = append(slices.Clone(path), list[i].from...)
	}
	return list
}

// Page compiles a page of a type.
func (s *Set) Page(of string, p manifest.Page) (*Shape, bool) {
	item, ok := s.Named(of)
	if !ok {
		return nil, false
	}
	return &Shape{what: page, item: item, reads: true, paging: &paging{
		items: path(p.Items), more: path(p.More), next: path(p.Next), nextOfLast: path(p.NextOfLast),
	}}, true
}

// path splits a path of names; nil for the value itself, and for none.
func path(text string) []string {
	if text == "." || text == "" {
		return nil
	}
	return strings.Split(text, ".")
}

// Path splits a path of names with dots.
func Path(text string) []string { return path(text) }

type compiler struct {
	set    *Set
	faults []manifest.Fault
}

func (c *compiler) fault(pos manifest.Pos, format string, args ...any) {
	c.faults = append(c.faults, manifest.Fault{Pos: pos, Detail: fmt.Sprintf(format, args...)})
}

// members compiles the fields of a record.
func (c *compiler) members(fields []*manifest.Field) []member {
	var list []member
	for _, f := range fields {
		m := member{name: f.Name, key: append(quoted(f.Name), ':'), nullable: f.Nullable, fallback: f.Default}
		m.shape = c.field(f)
		switch {
		case f.From != nil:
			m.from = path(*f.From)
		case f.Fields == nil && f.Const == nil:
			m.from = []string{Theirs(f.Name, f.As)}
		}
		switch {
		case f.Const != nil && (f.Nullable || f.Default != nil || f.From != nil):
			c.fault(f.Pos, "%s: a constant has no from, no default and no ?", f.Name)
		case f.Fields != nil && f.From == nil && (f.Nullable || f.Default != nil):
			c.fault(f.Pos, "%s: an object made here is always there; give it a from, or leave out the ? and the default", f.Name)
		case f.Nullable && f.Default != nil:
			c.fault(f.Pos, "%s: a field with a default is never null; leave out the ? or the default", f.Name)
		case f.Default != nil && !m.shape.allows(f.Default):
			c.fault(f.Pos, "%s: the default is not of the field's type", f.Name)
		}
		list = append(list, m)
	}
	return list
}

// Theirs is the platform's name for one of ours: snake_case, without Cents when it is money.
func Theirs(name, as string) string {
	if as == "cents" {
		name = strings.TrimSuffix(name, "Cents")
	}
	var out []byte
	for i, r := range []byte(name) {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				out = append(out, '_')
			}
			r += 'a' - 'A'
		}
		out = append(out, r)
	}
	return string(out)
}

var plainTypes = map[string]what{
	"string": text, "integer": integer, "number": number, "boolean": boolean, "object": object, "any": anything,
}

var conversions = map[string]what{"id": id, "cents": cents, "time": times, "unix": unix, "flag": flag, "csv": csv}

// field compiles what one field, or one item, is.
func (c *compiler) field(f *manifest.Field) *Shape {
	sh := &Shape{reads: true, field: f}
	ways := 0
	for _, is := range []bool{f.As != "" && f.As != "csv", f.Of != "", f.Items != nil || f.As == "csv", f.Fields != nil, f.Const != nil, f.Values != nil} {
		if is {
			ways++
		}
	}
	if ways > 1 || ways == 0 && f.Type == "" {
		c.fault(f.Pos, "%s: give one of type, as, of, items, fields, const and values", orItem(f.Name))
		return sh
	}
	if f.Type != "" && ways > 0 && f.Values == nil {
		c.fault(f.Pos, "%s: leave out the type, the rest implies it", orItem(f.Name))
		return sh
	}
	if f.Format != "" && f.Type != "string" {
		c.fault(f.Pos, "%s: format goes with type: string", orItem(f.Name))
	}
	switch {
	case f.Const != nil:
		sh.what, sh.literal, sh.reads = constant, f.Const, false
	case f.Values != nil:
		c.enumeration(f, sh)
	case f.As == "csv" || f.Items != nil:
		c.list(f, sh)
	case f.As != "":
		sh.what = conversions[f.As]
	case f.Of != "":
		return c.named(f)
	case f.Fields != nil:
		sh.what = record
		sh.members = c.members(f.Fields)
		sh.reads = slices.ContainsFunc(sh.members, func(m member) bool { return m.shape.reads })
	default:
		sh.what = plainTypes[f.Type]
	}
	return sh
}

func orItem(name string) string {
	if name == "" {
		return "items"
	}
	return name
}

func (c *compiler) named(f *manifest.Field) *Shape {
	sh, ok := c.set.Named(f.Of)
	if !ok {
		c.fault(f.Pos, "%s: there is no type %s", orItem(f.Name), f.Of)
		return &Shape{what: record, field: f}
	}
	return sh
}

func (c *compiler) list(f *manifest.Field, sh *Shape) {
	sh.what = list
	if f.As == "csv" {
		sh.what = csv
	}
	items := f.Items
	if items == nil {
		items = &manifest.Field{Pos: f.Pos, Type: "string"}
	}
	if items.From != nil || items.Default != nil {
		c.fault(items.Pos, "%s: items have no from and no default", orItem(f.Name))
	}
	sh.item = c.field(items)
	if sh.what == csv && sh.item.what != text && sh.item.what != id && sh.item.what != integer {
		c.fault(f.Pos, "%s: items of comma-separated text are strings, integers or ids", orItem(f.Name))
	}
}

func (c *compiler) enumeration(f *manifest.Field, sh *Shape) {
	sh.what = enum
	switch f.Type {
	case "", "string":
		sh.base = text
	case "integer":
		sh.base = integer
	case "boolean":
		sh.base = boolean
	default:
		c.fault(f.Pos, "%s: values are strings, integers or booleans", orItem(f.Name))
	}
	for _, p := range f.Values {
		ours := quoted(p.Ours)
		if sh.base != text {
			ours = []byte(p.Ours)
		}
		if kind := (&Shape{what: sh.base}); !kind.allows(ours) {
			c.fault(f.Pos, "%s: %s is not of the type %s", orItem(f.Name), p.Ours, f.Type)
		}
		sh.values = append(sh.values, pair{theirs: p.Theirs, ours: ours})
	}
}

// allows says whether a literal can stand where the shape does.
func (sh *Shape) allows(literal json.RawMessage) bool {
	var v any
	if json.Unmarshal(literal, &v) != nil {
		return false
	}
	what := sh.what
	if what == enum {
		what = sh.base
	}
	ok := false
	switch what {
	case text, id, times, unix:
		_, ok = v.(string)
	case integer, cents:
		if _, ok = v.(float64); ok {
			_, err := strconv.ParseInt(string(literal), 10, 64)
			ok = err == nil
		}
	case number:
		_, ok = v.(float64)
	case boolean, flag:
		_, ok = v.(bool)
	case object:
		_, ok = v.(map[string]any)
	case list, csv:
		items, isList := v.([]any)
		ok = isList && len(items) == 0
	case anything:
		ok = true
	case enum, constant, record, page, below:
	}
	return ok
}
