package tape

import (
	"unicode/utf16"
	"unicode/utf8"
)

// AppendText appends the text of a string with its escapes resolved. An unpaired surrogate becomes U+FFFD.
func (t *Tape) AppendText(dst []byte, at uint32) []byte { return t.appendText(dst, &t.nodes[at]) }

func (t *Tape) appendText(dst []byte, n *Node) []byte {
	b := t.src[n.Start:n.End]
	if !n.Escaped {
		return append(dst, b...)
	}
	for i := 0; i < len(b); {
		if b[i] != '\\' {
			dst = append(dst, b[i])
			i++
			continue
		}
		r, size := unescape(b[i:])
		dst = utf8.AppendRune(dst, r)
		i += size
	}
	return dst
}

// unescape decodes the escape at the start of b and returns its length. The scanner has already validated it.
func unescape(b []byte) (rune, int) {
	switch b[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r, _ := hex4(b[2:])
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
			if low, ok := hex4(b[8:]); ok {
				if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
					return pair, 12
				}
			}
		}
		return utf8.RuneError, 6
	}
	return rune(b[1]), 2
}

// hex4 decodes the four hexadecimal digits at the start of b.
func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// AppendString appends a string as JSON with only the escapes that JSON requires, so that equal texts give equal bytes.
func (t *Tape) AppendString(dst []byte, at uint32) []byte {
	n := &t.nodes[at]
	dst = append(dst, '"')
	if !n.Escaped {
		dst = append(dst, t.src[n.Start:n.End]...)
		return append(dst, '"')
	}
	var buf [128]byte // saves an allocation for short strings
	dst = appendEscaped(dst, t.AppendText(buf[:0], at))
	return append(dst, '"')
}

// AppendQuoted appends a text as a JSON string with only the escapes that JSON requires. Invalid UTF-8 becomes U+FFFD.
func AppendQuoted[T string | []byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, text)
	return append(dst, '"')
}

func appendEscaped[T string | []byte](dst []byte, text T) []byte {
	const hex = "0123456789abcdef"
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, size := utf8.DecodeRuneInString(string(text[i:min(len(text), i+utf8.UTFMax)]))
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		i++
	}
	return dst
}

// AppendValue appends a whole value in compact form. Numbers stay as written.
func (t *Tape) AppendValue(dst []byte, at uint32) []byte {
	switch n := &t.nodes[at]; n.Kind {
	case String:
		return t.AppendString(dst, at)
	case Array:
		dst = append(dst, '[')
		for item := range t.Items(at) {
			if item != at+1 {
				dst = append(dst, ',')
			}
			dst = t.AppendValue(dst, item)
		}
		return append(dst, ']')
	case Object:
		dst = append(dst, '{')
		for name, value := range t.Members(at) {
			if name != at+1 {
				dst = append(dst, ',')
			}
			dst = t.AppendString(dst, name)
			dst = append(dst, ':')
			dst = t.AppendValue(dst, value)
		}
		return append(dst, '}')
	case Null, False, True, Number:
		return append(dst, t.src[n.Start:n.End]...)
	}
	panic("tape: node of unknown kind")
}
