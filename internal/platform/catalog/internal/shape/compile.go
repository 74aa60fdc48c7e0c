package shape

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
)

// New compiles the types of a manifest. ids is the pattern of ids that are texts, or nil if they are numbers. The set
// omits types with faults.
func New(types []manifest.Type, ids *regexp.Regexp) (*Set, []manifest.Fault) {
	s := &Set{ids: ids, types: map[string]*Shape{}, used: map[string]bool{}, pos: map[string]manifest.Pos{}}
	// Declare all types before compiling any, because types refer to each other.
	for _, t := range types {
		s.names = append(s.names, t.Name)
		s.types[t.Name] = &Shape{op: record, name: t.Name, reads: true}
		s.pos[t.Name] = t.Pos
	}
	var faults []manifest.Fault
	same := map[string][]string{}
	bad := map[string]bool{}
	for _, t := range types {
		c := compiler{set: s}
		s.types[t.Name].members = c.compileMembers(t.Fields)
		faults = append(faults, c.faults...)
		bad[t.Name] = len(c.faults) > 0
		same[t.Name] = sameObject(t.Fields)
	}
	for _, t := range types {
		if containsItself(t.Name, t.Name, same, map[string]bool{}) {
			bad[t.Name] = true
			faults = append(faults, manifest.Fault{Pos: t.Pos, Detail: "the type " + t.Name + " contains itself at the same place of the response"})
		}
	}
	if len(faults) == 0 {
		return s, nil
	}
	// Compile the sound types again without the faulty ones. A type that refers to a faulty one becomes faulty itself,
	// which the recursion finds; it ends because each round has fewer types.
	sound := slices.DeleteFunc(slices.Clone(types), func(t manifest.Type) bool { return bad[t.Name] })
	s, more := New(sound, ids)
	return s, append(faults, more...)
}

// sameObject returns the types that a record applies to the very object it is made of (from: .). Mapping would never
// end if such a chain led back to its start. Recursion through members of the response is fine: it ends with the
// response.
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

// containsItself reports whether the chain of types in same leads from at back to start.
func containsItself(start, at string, same map[string][]string, seen map[string]bool) bool {
	for _, next := range same[at] {
		if next == start {
			return true
		}
		if !seen[next] {
			seen[next] = true
			if containsItself(start, next, same, seen) {
				return true
			}
		}
	}
	return false
}

// Record compiles an anonymous object. If from is given, the paths of its fields start there.
func (s *Set) Record(fields []*manifest.Field, from *string) (*Shape, []manifest.Fault) {
	c := compiler{set: s}
	sh := &Shape{op: record}
	sh.members = c.compileMembers(fields)
	sh.reads = slices.ContainsFunc(sh.members, func(m member) bool { return m.shape.reads })
	if from != nil && *from != "." {
		sh = &Shape{op: record, members: prefixed(sh.members, SplitPath(*from)), reads: sh.reads}
	}
	return sh, c.faults
}

// prefixed returns the members with a path in front of theirs. Members that do not read the response have none.
func prefixed(members []member, path []string) []member {
	list := slices.Clone(members)
	for i := range list {
		if list[i].shape.reads {
			list[i].from = append(slices.Clone(path), list[i].from...)
		}
	}
	return list
}

// Page compiles a page whose items are of a type. It returns false if there is no such type.
func (s *Set) Page(of string, p manifest.Page) (*Shape, bool) {
	item, ok := s.Named(of)
	if !ok {
		return nil, false
	}
	return &Shape{op: page, item: item, reads: true, paging: &paging{
		items: SplitPath(p.Items), more: SplitPath(p.More), next: SplitPath(p.Next), nextOfLast: SplitPath(p.NextOfLast),
		number: SplitPath(p.At), last: SplitPath(p.Last),
	}}, true
}

// SplitPath splits a path of names, and of indexes of arrays, separated by dots. It returns nil for an empty path and
// for ".", the value itself.
func SplitPath(text string) []string {
	if text == "." || text == "" {
		return nil
	}
	return strings.Split(text, ".")
}

type compiler struct {
	set    *Set
	faults []manifest.Fault
}

func (c *compiler) fault(pos manifest.Pos, format string, args ...any) {
	c.faults = append(c.faults, manifest.Fault{Pos: pos, Detail: fmt.Sprintf(format, args...)})
}

func (c *compiler) compileMembers(fields []*manifest.Field) []member {
	var list []member
	for _, f := range fields {
		m := member{name: f.Name, key: append(quoted(f.Name), ':'), nullable: f.Nullable, fallback: f.Default}
		m.shape = c.compileField(f)
		// The path is given, or follows from the name. An inline object without a path, and a constant, have none:
		// their members start at the enclosing object.
		switch {
		case f.From != nil:
			m.from = SplitPath(*f.From)
		case f.Fields == nil && f.Const == nil:
			m.from = []string{PlatformName(f.Name, f.As)}
		}
		switch {
		case f.Const != nil && (f.Nullable || f.Default != nil || f.From != nil):
			c.fault(f.Pos, "%s: a constant cannot have from, default or ?", f.Name)
		case f.Fields != nil && f.From == nil && (f.Nullable || f.Default != nil):
			c.fault(f.Pos, "%s: an object defined here is never absent; add from, or remove the ? and the default", f.Name)
		case f.Nullable && f.Default != nil:
			c.fault(f.Pos, "%s: a field with a default is never null; remove the ? or the default", f.Name)
		case f.Default != nil && !m.shape.accepts(f.Default):
			c.fault(f.Pos, "%s: the default is not of the field's type", f.Name)
		}
		list = append(list, m)
	}
	return list
}

// PlatformName returns the platform's default name for one of ours: snake_case, without the suffix Cents if as is
// cents.
func PlatformName(name, as string) string {
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

var plainTypes = map[string]op{
	"string": text, "integer": integer, "number": number, "boolean": boolean, "object": object, "any": anything,
}

var conversions = map[string]op{
	"id": id, "cents": cents, "time": times, "unix": unix, "unixms": unixms, "flag": flag, "csv": csv,
}

// compileField compiles the definition of a field or of an item.
func (c *compiler) compileField(f *manifest.Field) *Shape {
	sh := &Shape{reads: true, source: f}
	// Count the definitions. csv is one together with items, and type may stand alone or accompany values.
	forms := 0
	for _, is := range []bool{f.As != "" && f.As != "csv", f.Of != "", f.Items != nil || f.As == "csv", f.Fields != nil, f.Const != nil, f.Values != nil} {
		if is {
			forms++
		}
	}
	if forms > 1 || forms == 0 && f.Type == "" {
		c.fault(f.Pos, "%s: give one of type, as, of, items, fields, const and values", fieldName(f.Name))
		return sh
	}
	if f.Type != "" && forms > 0 && f.Values == nil {
		c.fault(f.Pos, "%s: remove the type; the rest implies it", fieldName(f.Name))
		return sh
	}
	if f.Format != "" && f.Type != "string" {
		c.fault(f.Pos, "%s: format requires type: string", fieldName(f.Name))
	}
	switch {
	case f.Const != nil:
		sh.op, sh.literal, sh.reads = constant, f.Const, false
	case f.Values != nil:
		c.compileEnum(f, sh)
	case f.As == "csv" || f.Items != nil:
		c.compileList(f, sh)
	case f.As != "":
		sh.op = conversions[f.As]
		if sh.op == id && c.set.ids != nil {
			sh.op, sh.ids = textID, c.set.ids
		}
	case f.Of != "":
		return c.resolveType(f)
	case f.Fields != nil:
		sh.op = record
		sh.members = c.compileMembers(f.Fields)
		sh.reads = slices.ContainsFunc(sh.members, func(m member) bool { return m.shape.reads })
	default:
		sh.op = plainTypes[f.Type]
	}
	return sh
}

// fieldName returns the name of a field for messages. Items have none.
func fieldName(name string) string {
	return cmp.Or(name, "items")
}

func (c *compiler) resolveType(f *manifest.Field) *Shape {
	sh, ok := c.set.Named(f.Of)
	if !ok {
		c.fault(f.Pos, "%s: there is no type %s", fieldName(f.Name), f.Of)
		return &Shape{op: record, source: f}
	}
	return sh
}

func (c *compiler) compileList(f *manifest.Field, sh *Shape) {
	sh.op = list
	if f.As == "csv" {
		sh.op = csv
	}
	items := f.Items
	if items == nil { // as: csv without items
		items = &manifest.Field{Pos: f.Pos, Type: "string"}
	}
	if items.From != nil || items.Default != nil {
		c.fault(items.Pos, "%s: items cannot have from or default", fieldName(f.Name))
	}
	sh.item = c.compileField(items)
	if sh.op == csv && sh.item.op != text && sh.item.op != id && sh.item.op != textID && sh.item.op != integer {
		c.fault(f.Pos, "%s: items of a comma-separated string must be strings, integers or ids", fieldName(f.Name))
	}
}

func (c *compiler) compileEnum(f *manifest.Field, sh *Shape) {
	sh.op = enum
	switch f.Type {
	case "", "string":
		sh.base = text
	case "integer":
		sh.base = integer
	case "boolean":
		sh.base = boolean
	default:
		c.fault(f.Pos, "%s: values must be strings, integers or booleans", fieldName(f.Name))
	}
	for _, p := range f.Values {
		ours := quoted(p.Ours)
		if sh.base != text {
			ours = []byte(p.Ours)
		}
		if kind := (&Shape{op: sh.base}); !kind.accepts(ours) {
			c.fault(f.Pos, "%s: %s is not of the type %s", fieldName(f.Name), p.Ours, f.Type)
		}
		sh.values = append(sh.values, pair{theirs: p.Theirs, ours: ours})
	}
}

// accepts reports whether a literal is valid as the mapped value of the shape, for defaults. Of arrays it accepts
// only [].
func (sh *Shape) accepts(literal json.RawMessage) bool {
	var v any
	if json.Unmarshal(literal, &v) != nil {
		return false
	}
	op := sh.op
	if op == enum {
		op = sh.base
	}
	ok := false
	switch op {
	case text, id, textID, times, unix, unixms:
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
	case list, csv: // only the empty array is supported as a default
		items, isList := v.([]any)
		ok = isList && len(items) == 0
	case anything:
		ok = true
	case enum, constant, record, page, atPath:
	}
	return ok
}
