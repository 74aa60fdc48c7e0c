package reference

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
)

// code returns the samples of an operation in every language, and an example of its response.
func (m *builder) code(op *apimodel.Operation) string {
	_, example := m.doc.JSONBody(op)
	var b strings.Builder
	b.WriteString("```sh\n" + m.curl(op, example) + "\n```\n\n")
	if m.uploadKind(op) == "" { // The command line does not upload files.
		b.WriteString("```sh\n" + commandLine(op, example) + "\n```\n\n")
	}
	for _, sample := range op.Samples {
		b.WriteString("```" + strings.ToLower(sample.Lang) + "\n" + strings.TrimRight(sample.Source, "\n") + "\n```\n\n")
	}
	if status, _, s := op.Success(); s != nil {
		b.WriteString("Response `" + status + "`\n\n```json\n" + m.example(s) + "\n```\n")
	}
	return b.String()
}

// variables matches the parameters of a path, which become shell variables.
var variables = regexp.MustCompile(`\{(\w+)\}`)

func shellPath(op *apimodel.Operation) string {
	return variables.ReplaceAllStringFunc(op.Path, func(part string) string {
		name := strings.Trim(part, "{}")
		switch {
		case name == "id" && strings.Contains(op.Path, "/accounts/"):
			return "$ACCOUNT_ID"
		case name == "id":
			return "$ID"
		case name == "resource":
			return "messages"
		case name == "method" && op.Method == "GET":
			return "list"
		case name == "method":
			return "send"
		case name == "code":
			return "quota-exceeded"
		case name == "number":
			return "1"
		}
		return "$" + strings.ToUpper(snake(name))
	})
}

func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// curl returns the request as a curl command.
func (m *builder) curl(op *apimodel.Operation, example json.RawMessage) string {
	verb, address := "", shellPath(op)
	if op.SDK != nil && op.SDK.Access == "read" {
		if query, ok := queryOf(example); ok { // Reads can be sent as GET.
			example, address, verb = nil, address+query, "GET"
		}
	}
	if verb == "" {
		verb = op.Method
		address += m.requiredQuery(op)
	}
	lines := []string{`curl "$STAGEDOOR_URL` + address + `"`}
	if verb != "GET" && (verb != "POST" || len(example) == 0) {
		lines[0] = "curl -X " + verb + ` "$STAGEDOOR_URL` + address + `"`
	}
	if len(op.Security) > 0 {
		lines = append(lines, `-H "Authorization: Bearer $STAGEDOOR_API_KEY"`)
	}
	switch kind := m.uploadKind(op); {
	case len(example) > 0:
		lines = append(lines, `-H "Content-Type: application/json"`, "-d "+quoted(compact(example)))
	case kind != "":
		lines = append(lines, `-H "Content-Type: `+kind+`"`, "--data-binary @photo.jpg")
	}
	if _, kinds, s := op.Success(); s == nil && len(kinds) > 0 {
		if kinds[0] == "text/event-stream" {
			lines[0] = strings.Replace(lines[0], "curl ", "curl -N ", 1)
		} else {
			lines = append(lines, "-o file")
		}
	}
	return strings.Join(lines, " \\\n  ")
}

// uploadKind returns the media type of a body that is not JSON; empty for none.
func (m *builder) uploadKind(op *apimodel.Operation) string {
	if op.Body == nil {
		switch { // A binary body may not be described.
		case op.SDK != nil || !slices.Contains(op.Tags, "Media") || op.Method == "GET":
			return ""
		case op.Method == "PUT":
			return "application/octet-stream"
		}
		return "image/jpeg"
	}
	if _, ok := op.Body.Content.Get("application/json"); ok || len(op.Body.Content) == 0 {
		return ""
	}
	if kind := op.Body.Content[0].Name; !strings.Contains(kind, "*") {
		return kind
	}
	return "image/jpeg"
}

// requiredQuery returns the required part of the query.
func (m *builder) requiredQuery(op *apimodel.Operation) string {
	var parts []string
	for _, p := range op.Parameters {
		if p.In == "query" && p.Required {
			parts = append(parts, p.Name+"=$"+strings.ToUpper(snake(p.Name)))
		}
	}
	if op.SDK == nil && op.Method == "GET" && strings.HasSuffix(op.Path, "/{method}") {
		parts = append(parts, "chatId=3438267820000000001")
	}
	if len(parts) == 0 {
		return ""
	}
	return "?" + strings.Join(parts, "&")
}

// queryOf formats flat arguments as a query; false if one of them is an object or a list.
func queryOf(example json.RawMessage) (string, bool) {
	var members apimodel.Object[json.RawMessage]
	if len(example) == 0 {
		return "", true
	}
	if err := json.Unmarshal(example, &members); err != nil {
		return "", false
	}
	parts := make([]string, 0, len(members))
	for _, p := range members {
		if p.Value[0] == '{' || p.Value[0] == '[' {
			return "", false
		}
		value := strings.Trim(string(p.Value), `"`)
		if strings.ContainsAny(value, " &%+#\"\\") {
			return "", false
		}
		parts = append(parts, p.Name+"="+value)
	}
	if len(parts) == 0 {
		return "", true
	}
	return "?" + strings.Join(parts, "&"), true
}

// commandLine returns the call as a stagedoor command: arguments of a method as name=text and name:=JSON, any other
// body unchanged.
func commandLine(op *apimodel.Operation, example json.RawMessage) string {
	if line, ok := commands[op.ID]; ok {
		return line
	}
	if op.SDK == nil {
		line := "stagedoor api " + op.Method + ` "` + shellPath(op) + `"`
		if len(example) > 0 {
			line += " \\\n  -d " + quoted(compact(example))
		}
		return line
	}
	words := []string{"stagedoor", "call", op.SDK.Resource + "." + op.SDK.Method, "-a", "$ACCOUNT_ID"}
	var members apimodel.Object[json.RawMessage]
	if len(example) > 0 {
		if err := json.Unmarshal(example, &members); err != nil {
			return strings.Join(words, " ")
		}
	}
	for _, p := range members {
		words = append(words, argument(p.Name, p.Value))
	}
	return strings.Join(words, " ")
}

func argument(name string, value json.RawMessage) string {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		compacted := compact(value)
		if strings.ContainsAny(compacted, `{["`) {
			return name + ":=" + quoted(compacted)
		}
		return name + ":=" + compacted
	}
	if strings.ContainsAny(text, " '\"$&|<>;()*?!#`\\\n") || text == "" {
		return name + "=" + quoted(text)
	}
	return name + "=" + text
}

// quoted quotes text for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func compact(text json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return string(text)
	}
	return b.String()
}
