// Package tape parses untrusted JSON into a flat list of nodes that point into the source text.
//
// Unlike encoding/json it keeps numbers as they were written, so no id or price passes through a float, and builds no
// maps. Parsing is strict (RFC 8259, valid UTF-8) and bounded in bytes, depth, nodes and digits. Tapes are pooled, so
// parsing a response allocates nothing in the steady state. Start with Read.
package tape

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"
)

// Kind is the JSON type of a node.
type Kind uint8

// Kinds of nodes.
const (
	Null Kind = iota
	False
	True
	Number
	String
	Array
	Object
)

// String returns the kind in words, for messages.
func (k Kind) String() string {
	return [...]string{"null", "a boolean", "a boolean", "a number", "a text", "a list", "an object"}[k]
}

// Node is one value, or the name of an object's member.
//
// Nodes are stored in document order: an array is followed by its items, an object by its members, each a name node and
// then the value's nodes.
type Node struct {
	Kind Kind
	// Escaped marks a string that contains escapes.
	Escaped bool
	// Start and End are byte offsets into the source. For strings they exclude the quotes.
	Start, End uint32
	// Next is the index of the node after this one and all its descendants, so a subtree is skipped in one step.
	Next uint32
}

// Limits bounds a document. Depth counts nested arrays and objects; Nodes counts values and member names.
type Limits struct {
	Bytes, Depth, Nodes int
}

// maxNumber bounds the characters of a number. No meaningful number is longer.
const maxNumber = 64

// ErrSyntax is wrapped by every error of Read, including exceeded limits.
var ErrSyntax = errors.New("not JSON")

// Tape is a parsed document. It refers to the source bytes, which must not change until Release.
type Tape struct {
	src   []byte
	nodes []Node
}

var pool = sync.Pool{New: func() any { return &Tape{nodes: make([]Node, 0, 512)} }}

// maxPooledNodes bounds the tapes that return to the pool, so that one huge response does not pin memory forever.
const maxPooledNodes = 1 << 16

// Read parses a document. The caller must call Release once it uses nothing that came from the tape.
func Read(src []byte, limits Limits) (*Tape, error) {
	if len(src) > limits.Bytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrSyntax, limits.Bytes)
	}
	if !utf8.Valid(src) {
		return nil, fmt.Errorf("%w: not UTF-8", ErrSyntax)
	}
	t, _ := pool.Get().(*Tape)
	t.src, t.nodes = src, t.nodes[:0]
	s := scanner{src: src, nodes: t.nodes, limits: limits}
	s.skipSpace()
	ok := s.scanValue(0)
	if ok {
		s.skipSpace()
		if ok = s.at == len(src); !ok {
			s.reason = "data after the end"
		}
	}
	t.nodes = s.nodes
	if !ok {
		t.Release()
		return nil, fmt.Errorf("%w: %s, at byte %d", ErrSyntax, s.reason, s.at)
	}
	return t, nil
}

// Release returns the tape to the pool. The tape and slices of it must not be used afterwards.
func (t *Tape) Release() {
	t.src = nil
	if cap(t.nodes) <= maxPooledNodes {
		pool.Put(t)
	}
}

// Size returns the length of the source in bytes.
func (t *Tape) Size() int { return len(t.src) }

// Root is the index of the document's value.
const Root uint32 = 0

func (t *Tape) Node(at uint32) Node { return t.nodes[at] }

func (t *Tape) Kind(at uint32) Kind { return t.nodes[at].Kind }

// Raw returns a value as written, strings without their quotes and with their escapes. The slice aliases the source.
func (t *Tape) Raw(at uint32) []byte {
	n := &t.nodes[at]
	return t.src[n.Start:n.End]
}

// Literal returns a value as written, strings with their quotes. The slice aliases the source.
func (t *Tape) Literal(at uint32) []byte {
	n := &t.nodes[at]
	if n.Kind == String {
		return t.src[n.Start-1 : n.End+1]
	}
	return t.src[n.Start:n.End]
}

// Len returns the number of members of an object or of items of an array.
func (t *Tape) Len(at uint32) int {
	count := 0
	for i := range t.children(at) {
		_ = i
		count++
	}
	if t.nodes[at].Kind == Object {
		count /= 2
	}
	return count
}

// children iterates over the nodes directly below a container. In an object, names and values alternate.
func (t *Tape) children(at uint32) func(yield func(uint32) bool) {
	return func(yield func(uint32) bool) {
		end := t.nodes[at].Next
		for i := at + 1; i < end; i = t.nodes[i].Next {
			if !yield(i) {
				return
			}
		}
	}
}

// Items iterates over the items of an array.
func (t *Tape) Items(at uint32) func(yield func(uint32) bool) { return t.children(at) }

// Members iterates over the names and values of an object.
func (t *Tape) Members(at uint32) func(yield func(name, value uint32) bool) {
	return func(yield func(uint32, uint32) bool) {
		end := t.nodes[at].Next
		for i := at + 1; i < end; i = t.nodes[i+1].Next {
			if !yield(i, i+1) {
				return
			}
		}
	}
}

// Find returns the value of a member of an object. It tries the node at hint first; pass the next that the previous
// search of the same object returned, or 0. Responses list their members in the same order every time, so a series of
// searches usually costs one comparison each. If a name is repeated, Find returns any of its values.
func (t *Tape) Find(at uint32, name string, hint uint32) (value, next uint32, ok bool) {
	nodes := t.nodes
	end := nodes[at].Next
	if hint > at && hint < end && t.hasName(&nodes[hint], name) {
		return hint + 1, nodes[hint+1].Next, true
	}
	for i := at + 1; i+1 < end; i = nodes[i+1].Next {
		// Cheap test first: a name takes at least as many bytes as its text, and more if it is escaped.
		n := &nodes[i]
		if n.End-n.Start >= uint32(len(name)) && t.hasName(n, name) {
			return i + 1, nodes[i+1].Next, true
		}
	}
	return 0, hint, false
}

func (t *Tape) hasName(n *Node, name string) bool {
	if !n.Escaped {
		return string(t.src[n.Start:n.End]) == name
	}
	return t.unescaped(n) == name
}

func (t *Tape) unescaped(n *Node) string { return string(t.appendText(nil, n)) }

// Get follows a path of member names, and of indexes of arrays in digits. It returns false if a step is missing or a
// value on the way is neither an object nor an array.
func (t *Tape) Get(at uint32, path []string) (uint32, bool) {
	for _, step := range path {
		var next uint32
		ok := false
		switch t.nodes[at].Kind {
		case Object:
			next, _, ok = t.Find(at, step, 0)
		case Array:
			next, ok = t.Item(at, step)
		case Null, False, True, Number, String:
		}
		if !ok {
			return 0, false
		}
		at = next
	}
	return at, true
}

// maxIndex bounds the digits of an index.
const maxIndex = 6

// Item returns the item of an array with an index in digits. It returns false if the index is not one or too large.
func (t *Tape) Item(at uint32, index string) (uint32, bool) {
	if len(index) == 0 || len(index) > maxIndex {
		return 0, false
	}
	n := 0
	for i := range len(index) {
		if !isDigit(index[i]) {
			return 0, false
		}
		n = n*10 + int(index[i]-'0')
	}
	for item := range t.Items(at) {
		if n == 0 {
			return item, true
		}
		n--
	}
	return 0, false
}

// Text returns the text of a string with its escapes resolved, or any other value as written.
func (t *Tape) Text(at uint32) string {
	if !t.nodes[at].Escaped {
		return string(t.Raw(at))
	}
	return string(t.AppendText(nil, at))
}

// Repeated returns the node of a member name that occurs twice in one object, at any depth below a node.
func (t *Tape) Repeated(at uint32) (uint32, bool) {
	end := t.nodes[at].Next
	for i := at; i < end; i++ {
		if t.nodes[i].Kind != Object {
			continue
		}
		if name, ok := t.repeatedIn(i); ok {
			return name, true
		}
	}
	return 0, false
}

// maxPairwise is the number of members up to which comparing all pairs is cheaper than building a map.
const maxPairwise = 16

func (t *Tape) repeatedIn(object uint32) (uint32, bool) {
	if t.Len(object) <= maxPairwise {
		for name := range t.Members(object) {
			for other := range t.Members(object) {
				if other >= name {
					break
				}
				if t.sameName(name, other) {
					return name, true
				}
			}
		}
		return 0, false
	}
	seen := map[string]bool{}
	for name := range t.Members(object) {
		text := t.Text(name)
		if seen[text] {
			return name, true
		}
		seen[text] = true
	}
	return 0, false
}

func (t *Tape) sameName(a, b uint32) bool {
	if !t.nodes[a].Escaped && !t.nodes[b].Escaped {
		return bytes.Equal(t.Raw(a), t.Raw(b))
	}
	return t.Text(a) == t.Text(b)
}
