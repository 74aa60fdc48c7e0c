// Package shape turns a platform's answers into ours: it compiles the types of a manifest into plans, and runs a plan over
// an answer that was read, in one pass and into one buffer.
//
// Start with New, then Shape.Append. The JSON Schema of a shape (schema.go) is made from the same words as its plan.
package shape

import (
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

// what is how one value is made.
type what uint8

const (
	text what = iota
	integer
	number
	boolean
	object
	anything
	id
	cents
	times
	unix
	flag
	csv
	enum
	constant
	record
	list
	page
	below
)

// Shape is a compiled plan. It is never changed once its set is made, and may be used by many goroutines.
type Shape struct {
	what what
	// name is that of the type, empty for a shape without one.
	name string
	// members are a record's.
	members []member
	// item is a list's, and a page's.
	item *Shape
	// literal is a constant.
	literal []byte
	// values are an enumeration's; base is what its other values are.
	values []pair
	base   what
	paging *paging
	// at is where below finds its item.
	at []string
	// reads means that something of the answer is needed.
	reads bool
	// field is what it was compiled from, nil for a type or a page.
	field *manifest.Field
}

type member struct {
	name string
	// key is the name as JSON, with its colon.
	key  []byte
	from []string
	// nullable and fallback say what becomes of a value that is absent or null.
	nullable bool
	fallback []byte
	shape    *Shape
}

type pair struct{ theirs, ours []byte }

// paging is where the parts of a page are found.
type paging struct {
	items, more, next, nextOfLast []string
}

// Set are the compiled types of a manifest.
type Set struct {
	names []string
	types map[string]*Shape
	used  map[string]bool
	pos   map[string]manifest.Pos
}

// Named is a type by its name.
func (s *Set) Named(name string) (*Shape, bool) {
	sh, ok := s.types[name]
	if ok {
		s.used[name] = true
	}
	return sh, ok
}

// Names lists the types in the order they are written.
func (s *Set) Names() []string { return s.names }

// Unused lists types that nothing refers to.
func (s *Set) Unused() []manifest.Fault {
	var faults []manifest.Fault
	for _, name := range s.names {
		if !s.used[name] {
			faults = append(faults, manifest.Fault{Pos: s.pos[name], Detail: "the type " + name + " is not used"})
		}
	}
	return faults
}

// Summary is the shape in the catalogue's short form: Message, Page<Message>, {deleted:true}, {added,skipped[]}.
func (sh *Shape) Summary() string {
	switch {
	case sh.what == page:
		return "Page<" + sh.item.name + ">"
	case sh.name != "":
		return sh.name
	case sh.what != record:
		return ""
	}
	out := "{"
	for i, m := range sh.members {
		if i > 0 {
			out += ","
		}
		out += m.name
		if w := m.shape.what; w == constant {
			out += ":" + string(m.shape.literal)
		} else if w == list || w == csv {
			out += "[]"
		}
	}
	return out + "}"
}

// quoted is a text as JSON.
func quoted(text string) []byte { return tape.AppendQuoted(nil, text) }

// At is the shape of what stands at a path; the shape itself for none.
func (sh *Shape) At(from *string) *Shape {
	if from == nil || *from == "." {
		return sh
	}
	return &Shape{what: below, item: sh, at: path(*from), name: sh.name, reads: true}
}
