package curlimport

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// bashWords splits one simple command into its words. It refuses everything that a shell would have to evaluate, such
// as $(...) or a variable; browsers write none of it.
func bashWords(text string) ([]string, error) {
	if err := bashPlain(text); err != nil {
		return nil, err
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	switch {
	case err != nil && syntax.IsIncomplete(err):
		return nil, unparseable("syntax", notClosed)
	case err != nil:
		// Do not use the parser's error, which quotes the text.
		return nil, unparseable("syntax", "The command is not valid shell syntax.")
	case len(file.Stmts) != 1:
		return nil, unparseable("syntax", notOne)
	}
	stmt := file.Stmts[0]
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	switch {
	case !ok, stmt.Background, stmt.Coprocess, stmt.Negated:
		return nil, unparseable("syntax", notOne)
	case len(stmt.Redirs) > 0:
		return nil, unparseable("syntax", redirects)
	case len(call.Assigns) > 0:
		return nil, unparseable("syntax", notPlain)
	}
	words := make([]string, 0, len(call.Args))
	for _, arg := range call.Args {
		word, err := bashWord(arg)
		if err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	return words, nil
}

const (
	notClosed = "A quote is not closed. Copy the whole command."
	notOne    = "The text contains more than one command."
	redirects = "The command reads from or writes to a file. Remove the redirect."
	notPlain  = "The command contains something that a shell would have to evaluate, such as a variable or another command."
)

// bashPlain refuses everything but a simple command, before it is parsed. The parser would refuse it as well, but it is
// recursive: 64 KiB of $[ would take it a second and 256 MB.
func bashPlain(text string) error {
	quote := byte(0) // the open quote; '$' stands for $'...'
	dollar := false  // whether the previous character is a $ that is not escaped
	for i := 0; i < len(text); i++ {
		c, after := text[i], dollar
		dollar = c == '$' && !after
		switch {
		case c == '\\' && quote != '\'':
			i++
		case quote == '\'' || quote == '$':
			dollar = false
			if c == '\'' {
				quote = 0
			}
		case c == '`', after && strings.IndexByte("({[", c) >= 0, c == '$' && strings.HasPrefix(text[i+1:], "\\\n"):
			return unparseable("syntax", notPlain)
		case c == '"':
			quote ^= '"'
		case quote != 0:
		case c == '\'' && after:
			quote = '$'
		case c == '\'':
			quote = '\''
		default:
			if err := bashOperator(text, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// bashOperator refuses a character outside of quotes that cannot be part of a word.
func bashOperator(text string, at int) error {
	switch text[at] {
	case '(':
		return unparseable("syntax", notPlain)
	case ';', '&', '|', '\n':
		return unparseable("syntax", notOne)
	case '<', '>':
		if strings.HasPrefix(text[at+1:], "(") {
			return unparseable("syntax", notPlain)
		}
		return unparseable("syntax", redirects)
	case '#':
		if at == 0 || strings.IndexByte(" \t\n", text[at-1]) >= 0 {
			return unparseable("syntax", "The command contains a comment. Remove it.")
		}
	}
	return nil
}

func bashWord(word *syntax.Word) (string, error) {
	var out strings.Builder
	for _, part := range word.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			out.WriteString(unescape(p.Value, ""))
		case *syntax.SglQuoted:
			if p.Dollar {
				out.WriteString(ansiC(p.Value))
			} else {
				out.WriteString(p.Value)
			}
		case *syntax.DblQuoted:
			if err := bashDouble(&out, p); err != nil {
				return "", err
			}
		default:
			return "", unparseable("syntax", notPlain)
		}
	}
	return out.String(), nil
}

func bashDouble(out *strings.Builder, quoted *syntax.DblQuoted) error {
	for _, part := range quoted.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok || quoted.Dollar {
			return unparseable("syntax", notPlain)
		}
		out.WriteString(unescape(lit.Value, "\"\\$`\n"))
	}
	return nil
}

// unescape removes backslashes before every character, or only before the given ones. A backslash at the end of a line
// removes the newline as well.
func unescape(text, only string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (only == "" || strings.IndexByte(only, text[i+1]) >= 0) {
			i++
			if text[i] == '\n' {
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// simpleEscape returns the character of an escape of $'...' with one letter.
func simpleEscape(c byte) (byte, bool) {
	const from, to = `abeEfnrtv\'"?`, "\a\b\x1b\x1b\f\n\r\t\v\\'\"?"
	at := strings.IndexByte(from, c)
	if at < 0 {
		return 0, false
	}
	return to[at], true
}

// ansiC decodes the contents of $'...'. Browsers write half a surrogate pair per \u, and Firefox writes \xe9 for
// U+00E9, so pairs are joined, and bytes that are not UTF-8 are taken as code points.
func ansiC(text string) string {
	var out []byte
	var half rune
	for i := 0; i < len(text); {
		r, width, raw := readEscape(text[i:])
		i += width
		if half != 0 {
			joined := utf16.DecodeRune(half, r)
			half = 0
			if joined != utf8.RuneError && !raw {
				out = utf8.AppendRune(out, joined)
				continue
			}
			out = utf8.AppendRune(out, utf8.RuneError)
		}
		switch {
		case raw:
			out = append(out, byte(r))
		case r >= 0xd800 && r < 0xdc00:
			half = r
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	if half != 0 {
		out = utf8.AppendRune(out, utf8.RuneError)
	}
	return latin1(out)
}

// latin1 converts each byte that is not UTF-8 to the code point with its number.
func latin1(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	var out strings.Builder
	for len(text) > 0 {
		r, width := utf8.DecodeRune(text)
		if r == utf8.RuneError && width == 1 {
			r = rune(text[0])
		}
		out.WriteRune(r)
		text = text[width:]
	}
	return out.String()
}

// readEscape reads one character of $'...', or one escape. raw means that r is a byte and not a code point.
func readEscape(text string) (r rune, width int, raw bool) {
	if text[0] != '\\' || len(text) == 1 {
		return rune(text[0]), 1, true
	}
	if c, ok := simpleEscape(text[1]); ok {
		return rune(c), 2, true
	}
	switch text[1] {
	case 'x':
		return readNumber(text, 2, 2, 16, true)
	case 'u':
		return readNumber(text, 2, 4, 16, false)
	case 'U':
		return readNumber(text, 2, 8, 16, false)
	case 'c':
		if len(text) > 2 {
			return rune(text[2] & 0x1f), 3, true
		}
	case '0', '1', '2', '3', '4', '5', '6', '7':
		return readNumber(text, 1, 3, 8, true)
	}
	return '\\', 1, true
}

// readNumber reads up to most digits from start; without any, the backslash is literal.
func readNumber(text string, start, most, base int, raw bool) (rune, int, bool) {
	end := start
	for end < len(text) && end < start+most {
		if _, err := strconv.ParseUint(text[end:end+1], base, 8); err != nil {
			break
		}
		end++
	}
	n, err := strconv.ParseUint(text[start:end], base, 32)
	switch {
	case err != nil:
		return '\\', 1, true
	case raw:
		return rune(n & 0xff), end, true
	case n > utf8.MaxRune:
		return utf8.RuneError, end, false
	}
	return rune(n), end, false
}
