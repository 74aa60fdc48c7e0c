package call

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// method is an SDK method as the server lists it.
type method struct {
	Resource    string          `json:"resource"`
	Method      string          `json:"method"`
	Access      string          `json:"access"`
	Positional  []string        `json:"positional"`
	Description string          `json:"description"`
	Args        schema          `json:"args"`
	Result      json.RawMessage `json:"result"`
	Example     json.RawMessage `json:"example"`
	Idempotent  bool            `json:"idempotent"`
	Destructive bool            `json:"destructive"`
	Sensitive   bool            `json:"sensitive"`
	Async       bool            `json:"async"`
	Paginated   bool            `json:"paginated"`
	Emits       []string        `json:"emits"`
	Cost        int             `json:"cost"`
}

func (m method) name() string { return m.Resource + "." + m.Method }

// schema is the part of JSON Schema that arguments use.
type schema struct {
	Type        any               `json:"type"`
	Required    []string          `json:"required"`
	Properties  map[string]schema `json:"properties"`
	Items       *schema           `json:"items"`
	Enum        []any             `json:"enum"`
	Default     any               `json:"default"`
	Description string            `json:"description"`
	Minimum     *float64          `json:"minimum"`
	Maximum     *float64          `json:"maximum"`
	Ref         string            `json:"$ref"`
}

// kind is the type in a word, such as integer or "array of string".
func (s schema) kind() string {
	if s.Ref != "" {
		return s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
	}
	word := ""
	switch t := s.Type.(type) {
	case string:
		word = t
	case []any:
		for _, one := range t {
			if one != "null" {
				word = fmt.Sprint(one)
			}
		}
	}
	if word == "array" && s.Items != nil {
		return "array of " + s.Items.kind()
	}
	if len(s.Enum) > 0 {
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprint(v))
		}
		return strings.Join(values, "|")
	}
	return word
}

func methods(app *core.App) *cobra.Command {
	var access string
	cmd := &cobra.Command{
		Use: "methods [text]", Short: "Find SDK methods, and see what they take", Args: cobra.ArbitraryArgs,
		Long: `Find SDK methods by a resource, a name or words of their description; all of them without a text.

Columns in a pipe: method, read or write, description.`,
		Example: "  stagedoor methods\n  stagedoor methods mass message\n  stagedoor methods --access write fans\n  stagedoor methods show messages.send",
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			if access != "" {
				if err := core.OneOf("access", access, []string{"read", "write"}); err != nil {
					return err
				}
				query.Set("access", access)
			}
			var got struct{ Methods []method }
			reply, err := app.Get(cmd.Context(), "/v1/sdk/methods", query, &got)
			if err != nil {
				return err
			}
			found := slices.DeleteFunc(got.Methods, func(m method) bool { return !m.has(args) })
			if app.Out.JSON {
				return printMatches(app, reply.Body, args)
			}
			table := out.Table{Columns: out.Columns("method", "access", "description~"), Empty: "No method matches. " + out.DidYouMean(strings.Join(args, " "), resources())}
			for _, m := range found {
				tone := out.Faint
				if m.Access == "write" {
					tone = out.Attention
				}
				table.Rows = append(table.Rows, []out.Cell{out.Text(m.name()), out.Toned(tone, m.Access), out.Text(m.Description)})
			}
			app.Out.Table(table)
			if len(found) > 0 {
				app.Out.Hint("See one: stagedoor methods show %s", found[0].name())
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&access, "access", "", "read or write")
	cmd.AddCommand(showMethod(app))
	return cmd
}

// has says whether every word is somewhere in the method's name or description.
func (m method) has(words []string) bool {
	text := strings.ToLower(m.name() + " " + m.Description)
	for _, w := range words {
		if !strings.Contains(text, strings.ToLower(w)) {
			return false
		}
	}
	return true
}

// printMatches prints the server's body with the methods that match only.
func printMatches(app *core.App, body []byte, words []string) error {
	if len(words) == 0 {
		app.Out.Body(body)
		return nil
	}
	var whole struct{ Methods []json.RawMessage }
	if err := json.Unmarshal(body, &whole); err != nil {
		return fmt.Errorf("the list of methods is not what this version expects: %w", err)
	}
	kept := []json.RawMessage{}
	for _, raw := range whole.Methods {
		var m method
		if json.Unmarshal(raw, &m) == nil && m.has(words) {
			kept = append(kept, raw)
		}
	}
	return app.Out.Value(map[string]any{"methods": kept})
}

func resources() (names []string) {
	cat, err := catalog.Sandbox()
	if err != nil {
		return nil
	}
	for _, r := range cat.Resources() {
		names = append(names, r.Name)
	}
	return names
}

// completeMethods offers the names of methods to a shell.
func completeMethods(_ *cobra.Command, args []string, begun string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	cat, err := catalog.Sandbox()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, m := range cat.Methods() {
		if strings.HasPrefix(m.ID(), begun) {
			names = append(names, cobra.CompletionWithDesc(m.ID(), m.Summary))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// split takes messages.send apart.
func split(name string) (resource, verb string, err error) {
	resource, verb, ok := strings.Cut(name, ".")
	if ok && resource != "" && verb != "" && !strings.ContainsAny(verb, "./") {
		return resource, verb, nil
	}
	cat, err := catalog.Sandbox()
	if err != nil {
		return "", "", err
	}
	if r, known := cat.Resource(name); known {
		return "", "", core.UsageHint("Its methods: stagedoor methods "+name, "%s is a resource; a method is like %s.%s", name, name, r.Methods[0].Name)
	}
	return "", "", core.UsageHint("Find it with stagedoor methods "+core.Quote(name), "%q is not a method; they are like messages.send", name)
}

func showMethod(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "show <method>", Short: "What a method takes, gives and costs", Args: cobra.ExactArgs(1), ValidArgsFunction: completeMethods,
		Example: "  stagedoor methods show messages.send",
		RunE: func(cmd *cobra.Command, args []string) error {
			resource, verb, err := split(args[0])
			if err != nil {
				return err
			}
			var got struct{ Methods []json.RawMessage }
			if _, err := app.Get(cmd.Context(), "/v1/sdk/methods", url.Values{"resource": {resource}}, &got); err != nil {
				return err
			}
			for _, raw := range got.Methods {
				var m method
				if err := json.Unmarshal(raw, &m); err != nil || m.Method != verb {
					continue
				}
				if app.Out.JSON {
					app.Out.Body(raw)
					return nil
				}
				return m.print(app)
			}
			return unknownMethod(resource, verb)
		},
	}
}

func unknownMethod(resource, verb string) error {
	cat, err := catalog.Sandbox()
	if err != nil {
		return err
	}
	hint := "Find it with stagedoor methods " + verb
	if near := cat.Nearest(resource, verb); len(near) > 0 {
		hint = "Did you mean " + strings.Join(near[:min(3, len(near))], " or ") + "?"
	}
	return &core.Fault{Code: core.ExitNotFound, Text: "there is no method " + resource + "." + verb, Hint: hint}
}

func (m method) print(app *core.App) error {
	var marks []string
	for _, mark := range []struct {
		holds bool
		text  string
	}{
		{m.Idempotent && m.Access == "write", "safe to repeat"}, {m.Destructive, "cannot be undone"}, {m.Sensitive, "touches money or legal data"},
		{m.Async, "finishes later"}, {m.Paginated, "paginated: --all reads every page"},
	} {
		if mark.holds {
			marks = append(marks, mark.text)
		}
	}
	var result schema
	if err := json.Unmarshal(m.Result, &result); err != nil {
		return fmt.Errorf("the method is not what this version expects: %w", err)
	}
	app.Out.Fields([]out.Field{
		{Name: "method", Cell: out.Toned(out.Strong, m.name())}, {Name: "does", Cell: out.Text(m.Description)},
		{Name: "access", Cell: out.Text(m.Access + ", costs " + out.Count(m.Cost, "call", "calls"))}, {Name: "notes", Cell: out.Text(strings.Join(marks, "; "))},
		{Name: "gives", Cell: out.Text(gives(result))}, {Name: "causes", Cell: out.Text(strings.Join(m.Emits, " "))},
		{Name: "example", Cell: out.Text(m.command())},
	})
	if len(m.Positional) == 0 {
		app.Out.Say("It takes no arguments.")
		return nil
	}
	if app.Out.TTY {
		app.Out.Data("")
	}
	table := out.Table{Columns: out.Columns("argument", "type~", "needed", "about~")}
	for _, name := range m.Positional {
		s := m.Args.Properties[name]
		needed := out.Toned(out.Faint, "no")
		if slices.Contains(m.Args.Required, name) {
			needed = out.Toned(out.Strong, "yes")
		}
		table.Rows = append(table.Rows, []out.Cell{out.Text(name), out.Text(s.kind()), needed, out.Text(s.about())})
	}
	app.Out.Table(table)
	return nil
}

func gives(s schema) string {
	if items, ok := s.Properties["items"]; ok && items.Items != nil {
		return "page of " + items.Items.kind()
	}
	return s.kind()
}

func (s schema) about() string {
	parts := []string{}
	if s.Description != "" {
		parts = append(parts, strings.TrimSuffix(s.Description, "."))
	}
	if s.Minimum != nil && s.Maximum != nil {
		parts = append(parts, strconv.FormatFloat(*s.Minimum, 'f', -1, 64)+" to "+strconv.FormatFloat(*s.Maximum, 'f', -1, 64))
	}
	if s.Default != nil {
		parts = append(parts, fmt.Sprintf("%v if left out", s.Default))
	}
	return strings.Join(parts, "; ")
}

// command is the method's example as one would type it.
func (m method) command() string {
	line := "stagedoor call " + m.name()
	dec := json.NewDecoder(bytes.NewReader(m.Example))
	dec.UseNumber()
	var example map[string]any
	if dec.Decode(&example) != nil {
		return line
	}
	for _, name := range m.Positional {
		value, ok := example[name]
		if !ok {
			continue
		}
		switch v := value.(type) {
		case string:
			line += " " + name + "=" + core.Quote(v)
		case json.Number, bool:
			line += fmt.Sprintf(" %s=%v", name, v)
		default:
			text, err := json.Marshal(v)
			if err == nil {
				line += " " + name + ":=" + core.Quote(string(text))
			}
		}
	}
	return line
}
