package curlimport

import "strings"

// cmdWords splits a command as Windows does: cmd removes its carets, then the program splits the line.
func cmdWords(text string) ([]string, error) {
	line, err := cmdLine(text)
	if err != nil {
		return nil, err
	}
	return splitArguments(line)
}

// cmdLine removes carets, which have no meaning inside of quotes. %NAME% stays, as it does in cmd if NAME is not set.
func cmdLine(text string) (string, error) {
	var out strings.Builder
	quoted := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\n' && quoted:
			return "", unparseable("syntax", notClosed)
		case c == '\n':
			return "", unparseable("syntax", notOne)
		case c == '"':
			quoted = !quoted
			out.WriteByte(c)
		case c == '^' && !quoted:
			i++
			if i < len(text) && text[i] == '\n' {
				i++ // the newline is removed, and the next character is literal
			}
			if i >= len(text) {
				return "", unparseable("syntax", "The command is incomplete. Copy the whole command.")
			}
			out.WriteByte(text[i])
		case !quoted && strings.IndexByte("&|<>", c) >= 0:
			return "", unparseable("syntax", notOne)
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), nil
}

// splitArguments follows the rules of Microsoft's C runtime, which splits the arguments of curl.exe: a backslash
// before a quote escapes it, and a doubled quote inside of quotes is one quote. Unlike there, a pair of backslashes
// is always one backslash, because browsers double all of them.
func splitArguments(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	quoted, begun := false, false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\':
			run := len(line[i:]) - len(strings.TrimLeft(line[i:], `\`))
			i += run - 1
			begun = true
			quote := i+1 < len(line) && line[i+1] == '"'
			switch {
			case run%2 == 0:
				word.WriteString(line[i+1-run/2 : i+1])
			case quote:
				word.WriteString(line[i+1-run/2:i+1] + `"`)
				i++
			default:
				word.WriteString(line[i+1-run : i+1])
			}
		case c == '"' && quoted && i+1 < len(line) && line[i+1] == '"':
			word.WriteByte('"')
			i++
		case c == '"':
			quoted, begun = !quoted, true
		case (c == ' ' || c == '\t') && !quoted:
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	if quoted {
		return nil, unparseable("syntax", notClosed)
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}
