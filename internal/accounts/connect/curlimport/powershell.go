package curlimport

import (
	"strconv"
	"strings"
	"unicode/utf16"
)

// token is a token of PowerShell: a quoted string, a bare word, a mark such as "(", or the end of a statement.
type token struct {
	kind tokenKind
	text string
}

type tokenKind int

const (
	tokenQuoted tokenKind = iota
	tokenBare
	tokenMark
	tokenEnd
)

// powerShellWords splits a curl.exe command as PowerShell does.
func powerShellWords(text string) ([]string, error) {
	tokens, err := tokenize(text)
	if err != nil {
		return nil, err
	}
	var words []string
	for _, t := range tokens {
		switch t.kind {
		case tokenEnd:
			return nil, unparseable("syntax", notOne)
		case tokenMark:
			return nil, unparseable("syntax", notPlain)
		case tokenBare:
			if strings.HasPrefix(t.text, "$") {
				return nil, unparseable("syntax", notPlain)
			}
			words = append(words, t.text)
		case tokenQuoted:
			words = append(words, t.text)
		}
	}
	return words, nil
}

// tokenize splits the small subset of PowerShell that browsers write, and refuses the rest. Consecutive ends of
// statements are one token, and there is none at the beginning or the end.
func tokenize(text string) ([]token, error) {
	var tokens []token
	joined := false // whether the last token was a word and no space followed it
	for i := 0; i < len(text); {
		next, width, err := scanToken(text[i:])
		if err != nil {
			return nil, err
		}
		i += width
		if width > 0 && next == nil {
			joined = false
			continue
		}
		word := next.kind == tokenQuoted || next.kind == tokenBare
		switch {
		case word && joined:
			return nil, unparseable("syntax", notPlain)
		case next.kind == tokenEnd && (len(tokens) == 0 || tokens[len(tokens)-1].kind == tokenEnd):
			continue
		}
		joined = word
		tokens = append(tokens, *next)
	}
	if n := len(tokens); n > 0 && tokens[n-1].kind == tokenEnd {
		tokens = tokens[:n-1]
	}
	return tokens, nil
}

// scanToken reads one token and returns its length in bytes; the token is nil for space.
func scanToken(text string) (*token, int, error) {
	switch c := text[0]; c {
	case ' ', '\t':
		return nil, 1, nil
	case '\n', ';':
		return &token{tokenEnd, ""}, 1, nil
	case '`':
		rest := strings.TrimLeft(text[1:], " \t")
		if !strings.HasPrefix(rest, "\n") {
			return nil, 0, unparseable("syntax", notPlain)
		}
		return nil, len(text) - len(rest) + 1, nil
	case '\'':
		return scanSingle(text)
	case '"':
		return scanDouble(text)
	case '(', ')', '}', '=', ',':
		return &token{tokenMark, string(c)}, 1, nil
	case '@':
		if strings.HasPrefix(text, "@{") {
			return &token{tokenMark, "@{"}, 2, nil
		}
		return nil, 0, unparseable("syntax", notPlain)
	}
	end := strings.IndexAny(text, " \t\n`\"'(){}=,;|&<>@#")
	switch {
	case end < 0:
		end = len(text)
	case end == 0:
		return nil, 0, unparseable("syntax", notOne)
	}
	return &token{tokenBare, text[:end]}, end, nil
}

func scanSingle(text string) (*token, int, error) {
	var out strings.Builder
	for i := 1; i < len(text); i++ {
		if text[i] == '\'' {
			if i+1 >= len(text) || text[i+1] != '\'' {
				return &token{tokenQuoted, out.String()}, i + 1, nil
			}
			i++
		}
		out.WriteByte(text[i])
	}
	return nil, 0, unparseable("syntax", notClosed)
}

func scanDouble(text string) (*token, int, error) {
	var out strings.Builder
	for i := 1; i < len(text); {
		switch c := text[i]; {
		case c == '"' && strings.HasPrefix(text[i:], `""`):
			out.WriteByte('"')
			i += 2
		case c == '"':
			return &token{tokenQuoted, out.String()}, i + 1, nil
		case c == '`' && i+1 < len(text):
			out.WriteString(unescapeBacktick(text[i+1]))
			i += 2
		case c == '$' && strings.HasPrefix(text[i:], charStart):
			decoded, width, ok := decodeChars(text[i:])
			if !ok {
				return nil, 0, unparseable("syntax", notPlain)
			}
			out.WriteString(decoded)
			i += width
		case c == '$' && i+1 < len(text) && startsExpansion(text[i+1]):
			return nil, 0, unparseable("syntax", notPlain)
		default:
			out.WriteByte(c)
			i++
		}
	}
	return nil, 0, unparseable("syntax", notClosed)
}

// unescapeBacktick returns the character of an escape.
func unescapeBacktick(c byte) string {
	const from, to = "0abefnrtv", "\x00\a\b\x1b\f\n\r\t\v"
	if at := strings.IndexByte(from, c); at >= 0 {
		return to[at : at+1]
	}
	return string([]byte{c})
}

// startsExpansion reports whether a dollar sign before this character starts an expression.
func startsExpansion(c byte) bool {
	return c == '_' || c == '{' || c == '(' || c == '$' || c == '?' || c == '^' || c == ':' || c >= 0x80 ||
		c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

const charStart = "$([char]"

// decodeChars decodes $([char]233), Chrome's form of every UTF-16 unit outside of ASCII. It is the only expression
// that is accepted.
func decodeChars(text string) (decoded string, width int, ok bool) {
	var units []uint16
	for strings.HasPrefix(text[width:], charStart) {
		digits, _, closed := strings.Cut(text[width+len(charStart):], ")")
		n, err := strconv.ParseUint(digits, 10, 16)
		if !closed || err != nil {
			return "", 0, false
		}
		units = append(units, uint16(n))
		width += len(charStart) + len(digits) + 1
	}
	return string(utf16.Decode(units)), width, true
}
