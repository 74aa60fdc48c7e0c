// Package tape reads JSON of other people's into a flat list of nodes, without making a number a float or a name a map.
//
// A Tape is one document: its nodes point into the text. It is strict (RFC 8259, UTF-8), bounded in size, depth, nodes and
// digits, and reused through a pool: reading an answer costs next to no memory.
package tape

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"
)

// Kind is what a node is.
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

// String is the kind in words, for messages.
func (k Kind) String() string {
	return [...]string{"null", "a boolean", "a boolean", "a number", "a text", "a list", "an object"}[k]
}

// Node is one value, or the name of a member.
type Node struct {
	Kind Kind
	// Escaped marks a string that holds escapes.
	Escaped bool
	// Start and End bound the text; of strings without their quotes.
	Start, End uint32
	// Next is the node behind this one and everything in it.
	Next uint32
}

// Limits bound a document.
type Limits struct {
	Bytes, Depth, Nodes int
}

// maxNumber bounds the characters of a number: none that means something has more.
const maxNumber = 64

// ErrSyntax is what every error of Read is.
var ErrSyntax = errors.New("not JSON")

// Tape is a document that was read.
type Tape struct {
	src   []byte
	nodes []Node
}

var pool = sync.Pool{New: func() any { return &Tape{nodes: make([]Node, 0, 512)} }}

// maxKept is how many nodes a tape may have to be used again: one huge answer must not be paid for ever after.
const maxKept = 1 << 16

// Read reads a document. Release it when nothing that came from it is used any more.
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
	s.space()
	ok := s.value(0)
	if ok {
		s.space()
		if ok = s.at == len(src); !ok {
			s.reason = "something is behind the end"
		}
	}
	t.nodes = s.nodes
	if !ok {
		t.Release()
		return nil, fmt.Errorf("%w: %s, at byte %d", ErrSyntax, s.reason, s.at)
	}
	return t, nil
}

// Release gives the tape back.
func (t *Tape) Release() {
	t.src = nil
	if cap(t.nodes) <= maxKept {
		pool.Put(t)
	}
}

// Size is that of the text.
func (t *Tape) Size() int { return len(t.src) }

// Root is the document's value.
const Root uint32 = 0

// Node gives a node.
func (t *Tape) Node(at uint32) Node { return t.nodes[at] }

// Kind gives a node's kind.
func (t *Tape) Kind(at uint32) Kind { return t.nodes[at].Kind }

// Raw is the text of a value as it stands, strings without their quotes. It is part of the source.
func (t *Tape) Raw(at uint32) []byte {
	n := &t.nodes[at]
	return t.src[n.Start:n.End]
}

// Literal is the text of a value as it stands, strings with their quotes. It is part of the source.
func (t *Tape) Literal(at uint32) []byte {
	n := &t.nodes[at]
	if n.Kind == String {
		return t.src[n.Start-1 : n.End+1]
	}
	return t.src[n.Start:n.End]
}

// Len counts the members of an object or the items of a list.
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

// children steps through the nodes directly below one.
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

// Items steps through the items of a list.
func (t *Tape) Items(at uint32) func(yield func(uint32) bool) { return t.children(at) }

// Members steps through the names and values of an object.
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

// Find finds a member of an object. It looks at hint first, which is what the last search of the object gave back as next:
// answers have their members in the same order every time. Of a name that is repeated it finds any.
func (t *Tape) Find(at uint32, name string, hint uint32) (value, next uint32, ok bool) {
	nodes := t.nodes
	end := nodes[at].Next
	if hint > at && hint < end && t.named(&nodes[hint], name) {
		return hint + 1, nodes[hint+1].Next, true
	}
	for i := at + 1; i+1 < end; i = nodes[i+1].Next {
		// Most names differ in length; an escaped one is longer than what it says.
		n := &nodes[i]
		if n.End-n.Start >= uint32(len(name)) && t.named(n, name) {
			return i + 1, nodes[i+1].Next, true
		}
	}
	return 0, hint, false
}

func (t *Tape) named(n *Node, name string) bool {
	if !n.Escaped {
		return string(t.src[n.Start:n.End]) == name
	}
	return t.unescaped(n) == name
}

func (t *Tape) unescaped(n *Node) string { return string(t.appendText(nil, n)) }

// Get follows names from an object; false if one is missing, or leads into something else.
func (t *Tape) Get(at uint32, path []string) (uint32, bool) {
	for _, name := range path {
		if t.nodes[at].Kind != Object {
			return 0, false
		}
		next, _, ok := t.Find(at, name, 0)
		if !ok {
			return 0, false
		}
		at = next
	}
	return at, true
}

// Text is a string's text.
func (t *Tape) Text(at uint32) string {
	if !t.nodes[at].Escaped {
		return string(t.Raw(at))
	}
	return string(t.AppendText(nil, at))
}

// Repeated finds a name that an object has twice, at any depth.
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

// few is up to how many members comparing each with each is cheaper than a map.
const few = 16

func (t *Tape) repeatedIn(object uint32) (uint32, bool) {
	if t.Len(object) <= few {
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
