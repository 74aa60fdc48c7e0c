package python

import (
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
)

// Sample writes a call as a program uses it.
func Sample(s model.Sample) string {
	call := "client." + Snake(s.Owner) + "."
	if s.Account {
		call = "client.account(account_id)." + Snake(s.Owner) + "."
	}
	var args []string
	for _, p := range s.Path {
		if name, ok := strings.CutPrefix(p, "$"); ok {
			args = append(args, Snake(name))
		} else {
			args = append(args, quote(p))
		}
	}
	if s.Args != nil {
		for _, key := range s.Args.Keys {
			args = append(args, Snake(key)+"="+literal(s.Args.Member[key]))
		}
	}
	start, end := "result = "+call+Snake(s.Name)+"(", ")"
	after := "\nprint(result)"
	if s.Paged {
		start, end, after = "for item in "+call+Snake(s.Name)+"_all(", "):", "\n    print(item)"
	}
	line := start + strings.Join(args, ", ") + end
	if len(line) > model.SampleWidth+8 {
		line = start + "\n    " + strings.Join(args, ",\n    ") + ",\n" + end
	}
	return line + after
}

// literal writes JSON as a Python expression.
func literal(n *model.Node) string {
	var parts []string
	switch {
	case n.Member != nil:
		for _, key := range n.Keys {
			parts = append(parts, quote(key)+": "+literal(n.Member[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case n.Items != nil:
		for _, item := range n.Items {
			parts = append(parts, literal(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	switch text := strings.TrimSpace(string(n.Raw)); text {
	case "true":
		return "True"
	case "false":
		return "False"
	case "null":
		return "None"
	default:
		return text
	}
}

// quote quotes a text like black: with double quotes unless the text contains some.
func quote(text string) string {
	if strings.Contains(text, `"`) {
		return "'" + text + "'"
	}
	return `"` + text + `"`
}
