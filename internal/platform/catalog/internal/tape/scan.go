package tape

// scanner turns text into nodes. Its methods return false on the first error and leave the reason and position in the
// scanner, so that scanning itself allocates no error values.
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

func (s *scanner) skipSpace() {
	for s.at < len(s.src) {
		switch s.src[s.at] {
		case ' ', '\n', '\t', '\r':
			s.at++
		default:
			return
		}
	}
}

// scanValue reads the value that starts at the current byte.
func (s *scanner) scanValue(depth int) bool {
	if s.at >= len(s.src) {
		return s.fail("unexpected end")
	}
	if len(s.nodes) >= s.limits.Nodes {
		return s.fail("too many values")
	}
	switch c := s.src[s.at]; c {
	case '"':
		return s.scanString()
	case '{':
		return s.scanContainer(Object, '}', depth)
	case '[':
		return s.scanContainer(Array, ']', depth)
	case 't':
		return s.scanWord(True, "true")
	case 'f':
		return s.scanWord(False, "false")
	case 'n':
		return s.scanWord(Null, "null")
	default:
		if c == '-' || isDigit(c) {
			return s.scanNumber()
		}
		return s.fail("no value starts like this")
	}
}

func (s *scanner) addNode(n Node) {
	n.Next = uint32(len(s.nodes)) + 1
	s.nodes = append(s.nodes, n)
}

func (s *scanner) scanWord(kind Kind, word string) bool {
	end := s.at + len(word)
	if end > len(s.src) || string(s.src[s.at:end]) != word {
		return s.fail("no value starts like this")
	}
	s.addNode(Node{Kind: kind, Start: uint32(s.at), End: uint32(end)})
	s.at = end
	return true
}

// scanContainer reads an object or an array, including its closing bracket.
func (s *scanner) scanContainer(kind Kind, closing byte, depth int) bool {
	if depth >= s.limits.Depth {
		return s.fail("nested too deeply")
	}
	self := len(s.nodes)
	s.addNode(Node{Kind: kind, Start: uint32(s.at)})
	s.at++
	s.skipSpace()
	if s.nextIs(closing) {
		return s.closeContainer(self)
	}
	for {
		if kind == Object && !s.scanName() {
			return false
		}
		if !s.scanValue(depth + 1) {
			return false
		}
		s.skipSpace()
		if s.nextIs(closing) {
			return s.closeContainer(self)
		}
		if !s.nextIs(',') {
			return s.fail("missing comma or closing bracket")
		}
		s.at++
		s.skipSpace()
	}
}

// scanName reads a member's name and the colon after it.
func (s *scanner) scanName() bool {
	if !s.nextIs('"') {
		return s.fail("missing member name")
	}
	if !s.scanString() {
		return false
	}
	s.skipSpace()
	if !s.nextIs(':') {
		return s.fail("missing colon")
	}
	s.at++
	s.skipSpace()
	return true
}

func (s *scanner) nextIs(c byte) bool { return s.at < len(s.src) && s.src[s.at] == c }

// closeContainer consumes the closing bracket and completes the container's node, whose end was unknown until now.
func (s *scanner) closeContainer(self int) bool {
	s.at++
	s.nodes[self].End = uint32(s.at)
	s.nodes[self].Next = uint32(len(s.nodes))
	return true
}

// scanString reads the string that starts at the current quote.
func (s *scanner) scanString() bool {
	start := s.at + 1
	escaped := false
	for i := start; i < len(s.src); i++ {
		switch c := s.src[i]; {
		case c == '"':
			s.addNode(Node{Kind: String, Escaped: escaped, Start: uint32(start), End: uint32(i)})
			s.at = i + 1
			return true
		case c == '\\':
			escaped = true
			n := escapeLength(s.src[i:])
			if n == 0 {
				s.at = i
				return s.fail("invalid escape")
			}
			i += n - 1
		case c < ' ':
			s.at = i
			return s.fail("control character in a string")
		}
	}
	s.at = len(s.src)
	return s.fail("unterminated string")
}

// escapeLength returns the length of the escape at the start of b, or 0 if it is invalid.
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

// scanNumber reads a number by the grammar of RFC 8259.
func (s *scanner) scanNumber() bool {
	start, i := s.at, s.at
	if s.src[i] == '-' {
		i++
	}
	whole := countDigits(s.src, i)
	if whole == 0 || whole > 1 && s.src[i] == '0' {
		return s.fail("invalid number")
	}
	i += whole
	if i < len(s.src) && s.src[i] == '.' {
		n := countDigits(s.src, i+1)
		if n == 0 {
			return s.fail("invalid number")
		}
		i += 1 + n
	}
	if i < len(s.src) && s.src[i]|0x20 == 'e' {
		i++
		if i < len(s.src) && (s.src[i] == '+' || s.src[i] == '-') {
			i++
		}
		n := countDigits(s.src, i)
		if n == 0 {
			return s.fail("invalid number")
		}
		i += n
	}
	if i-start > maxNumber {
		return s.fail("number with too many digits")
	}
	s.addNode(Node{Kind: Number, Start: uint32(start), End: uint32(i)})
	s.at = i
	return true
}

// countDigits returns how many digits b has from offset at on.
func countDigits(b []byte, at int) int {
	n := 0
	for at+n < len(b) && isDigit(b[at+n]) {
		n++
	}
	return n
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
