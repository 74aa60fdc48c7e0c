// Package shape maps a platform's responses to results. It compiles the types of a manifest into shapes (compile.go)
// and applies a shape to a parsed response in one pass, appending to one buffer (append.go, page.go).
//
// Start with New, then Shape.Append. The JSON Schema of a shape (schema.go) is derived from the same structure, so that
// documentation and mapping cannot disagree. In names, "ours" is our value and "theirs" the platform's.
package shape

import (
	"regexp"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

// op is the operation that produces a value. Operations up to flag are scalars.
type op uint8

const (
	text op = iota // a string, unchanged
	integer
	number
	boolean
	object
	anything
	id     // a number that becomes a string
	cents  // major units that become minor units
	times  // an RFC 3339 time
	unix   // seconds since 1970 that become an RFC 3339 time
	unixms // milliseconds since 1970 that become an RFC 3339 time
	flag   // 0 or 1 that becomes a boolean
	csv    // a comma-separated string that becomes an array
	textID // a string that matches the platform's pattern of ids
	enum
	constant
	record // an object made of members
	list
	page
	atPath // another shape, applied at a path of the value
)

// Shape is a compiled mapping from a value of the platform to one of ours. It is immutable after compilation and safe
// for concurrent use. Types may be recursive, so shapes may refer to each other in cycles.
type Shape struct {
	op op
	// name is the name of the type, or empty for an anonymous shape.
	name    string
	members []member
	// item is the shape of the items of a list, csv or page, and the inner shape of atPath.
	item *Shape
	// literal is the JSON of a constant.
	literal []byte
	// values are the known values of an enum. base is the operation for all other values.
	values []pair
	base   op
	paging *paging
	// at is the path of atPath.
	at []string
	// ids is the pattern of a textID.
	ids *regexp.Regexp
	// reads is false if the shape consists of constants only, so that the response may be empty.
	reads bool
	// source is the field from which the shape was compiled, or nil for a type or a page.
	source *manifest.Field
}

type member struct {
	name string
	// key is the name as JSON, with the colon.
	key []byte
	// from is the path to the value, from the object that the record is made of. Empty means the object itself.
	from []string
	// An absent or null value becomes fallback if it is set, else null if nullable, else a Mismatch.
	nullable bool
	fallback []byte
	shape    *Shape
}

type pair struct{ theirs, ours []byte }

// paging holds the paths of the parts of a page. nextOfLast starts at the last item, the others at the response.
type paging struct {
	items, more, next, nextOfLast []string
	// number and last are the paths of the page's number and the last page's. They are nil unless pages are numbered.
	number, last []string
}

// Set holds the compiled types of a manifest.
type Set struct {
	// names are in the order of the manifest.
	names []string
	types map[string]*Shape
	used  map[string]bool
	pos   map[string]manifest.Pos
	// ids is the pattern of ids that are texts, or nil if they are numbers.
	ids *regexp.Regexp
}

// Named returns a type by its name and marks it as used.
func (s *Set) Named(name string) (*Shape, bool) {
	sh, ok := s.types[name]
	if ok {
		s.used[name] = true
	}
	return sh, ok
}

// Names returns the names of the types in the order of the manifest.
func (s *Set) Names() []string { return s.names }

// Unused returns a fault for each type that was never looked up. Call it after everything else is compiled.
func (s *Set) Unused() []manifest.Fault {
	var faults []manifest.Fault
	for _, name := range s.names {
		if !s.used[name] {
			faults = append(faults, manifest.Fault{Pos: s.pos[name], Detail: "the type " + name + " is not used"})
		}
	}
	return faults
}

// Summary returns the shape in short form: Message, Page<Message>, {deleted:true}, {added,skipped[]}.
func (sh *Shape) Summary() string {
	switch {
	case sh.op == page:
		return "Page<" + sh.item.name + ">"
	case sh.name != "":
		return sh.name
	case sh.op != record:
		return ""
	}
	out := "{"
	for i, m := range sh.members {
		if i > 0 {
			out += ","
		}
		out += m.name
		if w := m.shape.op; w == constant {
			out += ":" + string(m.shape.literal)
		} else if w == list || w == csv {
			out += "[]"
		}
	}
	return out + "}"
}

// quoted returns a text as a JSON string.
func quoted(text string) []byte { return tape.AppendQuoted(nil, text) }

// AtPath returns a shape that applies sh at a path. If from is nil or ".", it returns sh itself.
func (sh *Shape) AtPath(from *string) *Shape {
	if from == nil || *from == "." {
		return sh
	}
	return &Shape{op: atPath, item: sh, at: SplitPath(*from), name: sh.name, reads: true}
}
