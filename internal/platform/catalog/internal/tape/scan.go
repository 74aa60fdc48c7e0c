package tape

// scanner turns text into nodes.
type scanner struct {
	src    []byte
	at     int
	nodes  []Node
	limits Limits
	reason string
}

func (s *scanner) fail(reason string) bool {
	s.reason = reason
	return false
}

func (s *scanner) space() {
	for s.at < len(s.src) {
		switch s.src[s.at] {
		case ' ', '\n', '\t', '\r':
			s.at++
		default:
			return
		}
	}
}

// value reads one value, at its first character.
func (s *scanner) value(depth int) bool {
	if s.at >= len(s.src) {
		return s.fail("the text breaks off")
	}
	if len(s.nodes) >= s.limits.Nodes {
		return s.fail("too many values")
	}
	switch c := s.src[s.at]; c {
	case '"':
		return s.text()
	case '{':
		return s.container(Object, '}', depth)
	case '[':
		return s.container(Array, ']', depth)
	case 't':
		return s.word(True, "true")
	case 'f':
		return s.word(False, "false")
	case 'n':
		return s.word(Null, "null")
	default:
		if c == '-' || digit(c) {
			return s.number()
		}
		return s.fail("no value begins like this")
	}
}

func (s *scanner) add(n Node) {
	n.Next = uint32(len(s.nodes)) + 1
	s.nodes = append(s.nodes, n)
}

func (s *scanner) word(kind Kind, word string) bool {
	end := s.at + len(word)
	if end > len(s.src) || string(s.src[s.at:end]) != word {
		return s.fail("no value begins like this")
	}
	s.add(Node{Kind: kind, Start: uint32(s.at), End: uint32(end)})
	s.at = end
	return true
}

// container reads an object or a list.
func (s *scanner) container(kind Kind, closing byte, depth int) bool {
	if depth >= s.limits.Depth {
		return s.fail("nested too deeply")
	}
	self := len(s.nodes)
	s.add(Node{Kind: kind, Start: uint32(s.at)})
	s.at++
	s.space()
	if s.is(closing) {
		return s.closed(self)
	}
	for {
		if kind == Object && !s.name() {
			return false
		}
		if !s.value(depth + 1) {
			return false
		}
		s.space()
		if s.is(closing) {
			return s.closed(self)
		}
		if !s.is(',') {
			return s.fail("a comma or the end of the list or object is missing")
		}
		s.at++
		s.space()
	}
}

// name reads a member's name and its colon.
func (s *scanner) name() bool {
	if !s.is('"') {
		return s.fail("a name is missing")
	}
	if !s.text() {
		return false
	}
	s.space()
	if !s.is(':') {
		return s.fail("a colon is missing")
	}
	s.at++
	s.space()
	return true
}

func (s *scanner) is(c byte) bool { return s.at < len(s.src) && s.src[s.at] == c }

func (s *scanner) closed(self int) bool {
	s.at++
	s.nodes[self].End = uint32(s.at)
	s.nodes[self].Next = uint32(len(s.nodes))
	return true
}

// text reads a string, at its first quote.
func (s *scanner) text() bool {
	start := s.at + 1
	escaped := false
	for i := start; i < len(s.src); i++ {
		switch c := s.src[i]; {
		case c == '"':
			s.add(Node{Kind: String, Escaped: escaped, Start: uint32(start), End: uint32(i)})
			s.at = i + 1
			return true
		case c == '\\':
			escaped = true
			n := escapeLength(s.src[i:])
			if n == 0 {
				s.at = i
				return s.fail("a bad escape")
			}
			i += n - 1
		case c < ' ':
			s.at = i
			return s.fail("a control character in a text")
		}
	}
	s.at = len(s.src)
	return s.fail("a text has no end")
}

// escapeLength is how long the escape at the start of b is, 0 if it is none.
func escapeLength(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(b[2:]); ok {
			return 6
		}
	}
	return 0
}

// number reads a number by the grammar of RFC 8259.
func (s *scanner) number() bool {
	start, i := s.at, s.at
	if s.src[i] == '-' {
		i++
	}
	whole := digits(s.src, i)
	if whole == 0 || whole > 1 && s.src[i] == '0' {
		return s.fail("a bad number")
	}
	i += whole
	if i < len(s.src) && s.src[i] == '.' {
		n := digits(s.src, i+1)
		if n == 0 {
			return s.fail("a bad number")
		}
		i += 1 + n
	}
	if i < len(s.src) && s.src[i]|0x20 == 'e' {
		i++
		if i < len(s.src) && (s.src[i] == '+' || s.src[i] == '-') {
			i++
		}
		n := digits(s.src, i)
		if n == 0 {
			return s.fail("a bad number")
		}
		i += n
	}
	if i-start > maxNumber {
		return s.fail("a number has too many digits")
	}
	s.add(Node{Kind: Number, Start: uint32(start), End: uint32(i)})
	s.at = i
	return true
}

func digits(b []byte, at int) int {
	n := 0
	for at+n < len(b) && digit(b[at+n]) {
		n++
	}
	return n
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
