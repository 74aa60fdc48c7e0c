package call

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// methodName returns the name of a method, such as messages.send.
func methodName(m stagedoor.MethodInfo) string { return m.Resource + "." + m.Method }

// schema is the subset of JSON Schema that the catalog uses.
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

// kind returns a short name of the type, such as integer, "array of string" or the values of an enum.
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

func methodsCommand(app *core.App) *cobra.Command {
	var access string
	cmd := &cobra.Command{
		Use: "methods [text]", Short: "List and describe SDK methods", Args: cobra.ArbitraryArgs,
		Long: `List SDK methods. With a text, list methods whose name or description contains every word of it.

Columns in a pipe: method, access (read or write), description.`,
		Example: "  stagedoor methods\n  stagedoor methods mass message\n  stagedoor methods --access write fans\n  stagedoor methods show messages.send",
		RunE: func(cmd *cobra.Command, args []string) error {
			if access != "" {
				if err := core.OneOf("access", access, []string{"read", "write"}); err != nil {
					return err
				}
			}
			params := stagedoor.SdkListMethodsParams{Access: access}
			var res stagedoor.Response
			got, err := app.API().SDK.ListMethods(cmd.Context(), params, stagedoor.WithResponse(&res))
			if err != nil {
				return err
			}
			found := slices.DeleteFunc(slices.Clone(got.Methods), func(m stagedoor.MethodInfo) bool { return !matches(m, args) })
			if app.Out.JSON {
				return printMatches(app, res, got.Methods, args)
			}
			table := output.Table{
				Columns: output.Columns("method", "access", "description~"),
				Empty:   "No matching methods. " + output.DidYouMean(strings.Join(args, " "), resources()),
			}
			for _, m := range found {
				tone := output.Faint
				if m.Access == "write" {
					tone = output.Attention
				}
				table.Rows = append(table.Rows,
					[]output.Cell{output.Text(methodName(m)), output.Toned(tone, m.Access), output.Text(m.Description)})
			}
			app.Out.Table(table)
			if len(found) > 0 {
				app.Out.Hint("Show details: stagedoor methods show %s", methodName(found[0]))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&access, "access", "", "only methods with this access: read or write")
	cmd.AddCommand(showMethod(app))
	return cmd
}

// matches reports whether the method's name or description contains every word. Case is ignored.
func matches(m stagedoor.MethodInfo, words []string) bool {
	text := strings.ToLower(methodName(m) + " " + m.Description)
	for _, w := range words {
		if !strings.Contains(text, strings.ToLower(w)) {
			return false
		}
	}
	return true
}

// printMatches prints the server's response without the methods that do not match.
func printMatches(app *core.App, res stagedoor.Response, methods []stagedoor.MethodInfo, words []string) error {
	if len(words) == 0 {
		app.Out.Body(res.Body)
		return nil
	}
	var whole struct{ Methods []json.RawMessage }
	if err := res.JSON(&whole); err != nil {
		return err
	}
	kept := []json.RawMessage{}
	for i, raw := range whole.Methods {
		if matches(methods[i], words) {
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

// completeMethods completes method names from the built-in catalog.
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

// splitMethod splits a name such as messages.send into resource and method.
func splitMethod(name string) (resource, verb string, err error) {
	resource, verb, ok := strings.Cut(name, ".")
	if ok && resource != "" && verb != "" && !strings.ContainsAny(verb, "./") {
		return resource, verb, nil
	}
	cat, err := catalog.Sandbox()
	if err != nil {
		return "", "", err
	}
	if r, known := cat.Resource(name); known {
		return "", "", core.UsageHint("List its methods: stagedoor methods "+name,
			"%s is a resource; name a method such as %s.%s", name, name, r.Methods[0].Name)
	}
	return "", "", core.UsageHint("Find it: stagedoor methods "+core.Quote(name),
		"%q is not a method such as messages.send", name)
}

func showMethod(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "show <method>", Short: "Show a method's arguments, result and cost",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeMethods,
		Example: "  stagedoor methods show messages.send",
		RunE: func(cmd *cobra.Command, args []string) error {
			resource, verb, err := splitMethod(args[0])
			if err != nil {
				return err
			}
			params := stagedoor.SdkListMethodsParams{Resource: resource}
			var res stagedoor.Response
			got, err := app.API().SDK.ListMethods(cmd.Context(), params, stagedoor.WithResponse(&res))
			if err != nil {
				return err
			}
			i := slices.IndexFunc(got.Methods, func(m stagedoor.MethodInfo) bool { return m.Method == verb })
			if i < 0 {
				return unknownMethod(resource, verb)
			}
			if !app.Out.JSON {
				return printMethod(app, got.Methods[i])
			}
			var raw struct{ Methods []json.RawMessage }
			if err := res.JSON(&raw); err != nil {
				return err
			}
			app.Out.Body(raw.Methods[i])
			return nil
		},
	}
}

func unknownMethod(resource, verb string) error {
	cat, err := catalog.Sandbox()
	if err != nil {
		return err
	}
	hint := "Find it: stagedoor methods " + verb
	if near := cat.Nearest(resource, verb); len(near) > 0 {
		hint = "Did you mean " + strings.Join(near[:min(3, len(near))], " or ") + "?"
	}
	return &core.Fault{Code: core.ExitNotFound, Text: "unknown method " + resource + "." + verb, Hint: hint}
}

func printMethod(app *core.App, m stagedoor.MethodInfo) error {
	var notes []string
	for _, note := range []struct {
		holds bool
		text  string
	}{
		{m.Idempotent && m.Access == "write", "safe to repeat"}, {m.Destructive, "cannot be undone"}, {m.Sensitive, "touches money or legal data"},
		{m.Async, "asynchronous"}, {m.Paginated, "paginated: --all fetches all pages"},
	} {
		if note.holds {
			notes = append(notes, note.text)
		}
	}
	var args, result schema
	if err := errors.Join(json.Unmarshal(m.Args, &args), json.Unmarshal(m.Result, &result)); err != nil {
		return fmt.Errorf("cannot read the method: %w", err)
	}
	app.Out.Fields([]output.Field{
		{Name: "method", Cell: output.Toned(output.Strong, methodName(m))}, {Name: "does", Cell: output.Text(m.Description)},
		{Name: "access", Cell: output.Text(m.Access + ", costs " + output.Count(m.Cost, "call", "calls"))},
		{Name: "notes", Cell: output.Text(strings.Join(notes, "; "))},
		{Name: "returns", Cell: output.Text(resultType(result))},
		{Name: "causes", Cell: output.Text(strings.Join(m.Emits, " "))},
		{Name: "example", Cell: output.Text(exampleCommand(m))},
	})
	if len(m.Positional) == 0 {
		app.Out.Say("No arguments.")
		return nil
	}
	if app.Out.TTY {
		app.Out.Data("")
	}
	table := output.Table{Columns: output.Columns("argument", "type~", "required", "description~")}
	for _, name := range m.Positional {
		s := args.Properties[name]
		required := output.Toned(output.Faint, "no")
		if slices.Contains(args.Required, name) {
			required = output.Toned(output.Strong, "yes")
		}
		table.Rows = append(table.Rows,
			[]output.Cell{output.Text(name), output.Text(s.kind()), required, output.Text(s.describe())})
	}
	app.Out.Table(table)
	return nil
}

// resultType names the type of a result; a page is named by its items.
func resultType(s schema) string {
	if items, ok := s.Properties["items"]; ok && items.Items != nil {
		return "page of " + items.Items.kind()
	}
	return s.kind()
}

// describe joins description, range and default of an argument.
func (s schema) describe() string {
	parts := []string{}
	if s.Description != "" {
		parts = append(parts, strings.TrimSuffix(s.Description, "."))
	}
	if s.Minimum != nil && s.Maximum != nil {
		parts = append(parts, strconv.FormatFloat(*s.Minimum, 'f', -1, 64)+" to "+strconv.FormatFloat(*s.Maximum, 'f', -1, 64))
	}
	if s.Default != nil {
		parts = append(parts, fmt.Sprintf("default %v", s.Default))
	}
	return strings.Join(parts, "; ")
}

// exampleCommand returns the method's example as a shell command.
func exampleCommand(m stagedoor.MethodInfo) string {
	line := "stagedoor call " + methodName(m)
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
