// Package call turns a caller's arguments into a request to the platform.
//
// A Spec is one method's arguments, compiled. Parse, FromQuery and FromPositional read the three forms a call can have and
// give the same Args for the same arguments (forms.go, check.go); Args.Request makes the request of them (bind.go). Host and
// scheme never come from an argument, and a value in a path is always one segment.
package call

import (
	"encoding/json"
	"regexp"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
)

// Spec is the compiled arguments of one method. It is never changed, and may be used by many goroutines.
type Spec struct {
	// name is that of the method, for messages.
	name  string
	props []*prop
	index map[string]int
	// required says in how far an empty call is complete.
	verb    string
	path    []segment
	query   []target
	header  []target
	body    *bodyNode
	example json.RawMessage
}

// maxArgs bounds a method's arguments; a call notes them in an array of this size.
const maxArgs = 24

// prop is one argument, or a member of one.
type prop struct {
	name string
	// key is the name as JSON, with its colon; theirs is the platform's name for a member of an object.
	key, theirs []byte
	required    bool
	// fallback is the default, as JSON.
	fallback []byte
	check    *check
	source   *manifest.Property
}

type kind uint8

const (
	kindString kind = iota
	kindInteger
	kindNumber
	kindBoolean
	kindArray
	kindObject
)

// check is what a value must be, and what it is converted to.
type check struct {
	kind kind
	enum [][]byte
	// Bounds; -1 where there is none.
	minLength, maxLength int
	minItems, maxItems   int
	minimum, maximum     *int64
	unique               bool
	pattern              *regexp.Regexp
	format               string
	item                 *check
	// props are the members of an object, nil for one that is passed as it is.
	props []*prop
	// segment is a text that stands in a path, noComma one in a list with commas, header one in a header.
	segment, noComma, header bool

	as     string
	values []pair
}

type pair struct{ ours, theirs []byte }

// segment is a part of the path: a text, or an argument.
type segment struct {
	text string
	prop int
}

// target is a named place for an argument (prop) or a constant (text, as the query or the header wants it).
type target struct {
	name string
	prop int
	text string
}

// bodyNode is a member of the body: an argument, a constant, or an object of more of them.
type bodyNode struct {
	key      []byte
	name     string
	prop     int
	constant []byte
	children []*bodyNode
}

const none = -1

// Names lists the arguments in positional order.
func (s *Spec) Names() []string {
	names := make([]string, len(s.props))
	for i, p := range s.props {
		names[i] = p.name
	}
	return names
}

// Properties are what the arguments were compiled from, in positional order.
func (s *Spec) Properties() []*manifest.Property {
	list := make([]*manifest.Property, len(s.props))
	for i, p := range s.props {
		list[i] = p.source
	}
	return list
}
