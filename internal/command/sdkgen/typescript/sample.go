package typescript

import (
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
)

// Sample writes a call as a program uses it.
func Sample(s model.Sample) string {
	call := "client." + s.Owner + "."
	if s.Account {
		call = "client.account(accountId)." + s.Owner + "."
	}
	var args []string
	for _, p := range s.Path {
		if name, ok := strings.CutPrefix(p, "$"); ok {
			args = append(args, name)
		} else {
			args = append(args, quote(p))
		}
	}
	start := "const result = await " + call + s.Name + "("
	end := ");\nconsole.log(result);"
	if s.Paged {
		start, end = "for await (const item of "+call+s.Name+"All(", ")) {\n  console.log(item);\n}"
	}
	if s.Args != nil {
		object := literal(s.Args)
		if first, _, _ := strings.Cut(end, "\n"); len(start+strings.Join(append(args, object), ", ")+first) > model.SampleWidth {
			object = literalLines(s.Args, "")
		}
		args = append(args, object)
	}
	return start + strings.Join(args, ", ") + end
}

// literalLines writes an object with one member per line.
func literalLines(n *model.Node, indent string) string {
	var b strings.Builder
	b.WriteString("{\n")
	for _, key := range n.Keys {
		value := literal(n.Member[key])
		if n.Member[key].Member != nil && len(value) > model.SampleWidth-len(indent)-len(key) {
			value = literalLines(n.Member[key], indent+"  ")
		}
		b.WriteString(indent + "  " + memberName(key) + ": " + value + ",\n")
	}
	b.WriteString(indent + "}")
	return b.String()
}
