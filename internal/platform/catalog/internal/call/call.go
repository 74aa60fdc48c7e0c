// Package call turns the arguments of a call into a request to the platform.
//
// A Spec is the compiled argument list of one method (compile.go, places.go). Parse, FromObject, FromPositional and
// FromQuery read the forms that a call can have and return equal Args for equal arguments (forms.go, check.go).
// Args.Request builds the request (bind.go). Host and scheme never come from an argument, and a value in a path is
// always one segment.
package call

import (
	"encoding/json"
	"regexp"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
)

// Spec is the compiled argument list of one method. It is immutable and safe for concurrent use.
type Spec struct {
	// name is the method's full name, for messages.
	name string
	// props are the arguments in positional order, index their positions by name.
	props []*prop
	index map[string]int

	// verb, path, query, header and body are the template of the request.
	verb   string
	path   []segment
	query  []target
	header []target
	body   *bodyNode
	// opening and closing enclose the members of the body: braces, and around them the root if the method has one.
	opening, closing []byte
	example          json.RawMessage
}

// maxArgs bounds the arguments of a method. A reader keeps them in arrays of this size.
const maxArgs = 24

// prop is one argument, or a member of an object argument.
type prop struct {
	name string
	// key is our name as JSON, with the colon. theirs is the platform's name in the same form; only members of objects
	// have it.
	key, theirs []byte
	required    bool
	// fallback is the default as canonical JSON, or nil.
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

// check holds the rules that a value must satisfy, and its conversion for the platform.
type check struct {
	kind kind
	enum [][]byte
	// minLength and maxLength count characters. A maximum of none means no limit.
	minLength, maxLength int
	minItems, maxItems   int
	minimum, maximum     *int64
	unique               bool
	pattern              *regexp.Regexp
	format               string
	item                 *check
	// props are the members of an object. If it is nil, the object is passed unchanged.
	props []*prop
	// segment marks a string that goes into the path, noComma one that goes into a comma-separated list, and header one
	// that goes into a header. They restrict which characters are safe.
	segment, noComma, header bool
	// number marks a cursor that is the number of a page.
	number bool
	// ids is the pattern of ids that are texts, or nil if they are numbers.
	ids *regexp.Regexp

	// as is the conversion, or empty. values maps an enumeration and takes precedence over as.
	as     string
	values []pair
}

type pair struct{ ours, theirs []byte }

// segment is a part of the path template: a text, followed by the value of an argument unless prop is none.
type segment struct {
	text string
	prop int
}

// target is a query parameter or a header. Its value is an argument or, if prop is none, the constant text.
type target struct {
	name string
	prop int
	text string
}

// bodyNode is a member of the body: an object of further members (children), a constant, or the argument prop.
type bodyNode struct {
	key      []byte
	name     string
	prop     int
	constant []byte
	children []*bodyNode
}

// none stands for "no argument" in indexes and "no limit" in bounds.
const none = -1

// Names returns the names of the arguments in positional order.
func (s *Spec) Names() []string {
	names := make([]string, len(s.props))
	for i, p := range s.props {
		names[i] = p.name
	}
	return names
}

// Properties returns the manifest's definitions of the arguments in positional order.
func (s *Spec) Properties() []*manifest.Property {
	list := make([]*manifest.Property, len(s.props))
	for i, p := range s.props {
		list[i] = p.source
	}
	return list
}
