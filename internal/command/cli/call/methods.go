package call

import (
	"bytes"
	"cmp"
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
	var access, platform string
	cmd := &cobra.Command{
		Use: "methods [text]", Short: "List and describe SDK methods", Args: cobra.ArbitraryArgs,
		Long: `List the SDK methods of a platform. With a text, list those whose name or description contains every word of it.

Columns in a pipe: method, access (read or write), description.`,
		Example: "  stagedoor methods\n  stagedoor methods mass message\n  stagedoor methods --access write fans\n" +
			"  stagedoor methods --platform ghost members\n  stagedoor methods show messages.send",
		RunE: func(cmd *cobra.Command, args []string) error {
			if access != "" {
				if err := core.OneOf("access", access, []string{"read", "write"}); err != nil {
					return err
				}
			}
			all, body, err := listMethods(cmd.Context(), app, stagedoor.SdkListMethodsParams{Platform: platform, Access: access})
			if err != nil {
				return err
			}
			if app.Out.JSON {
				return printMatches(app, body, all, args)
			}
			found := slices.DeleteFunc(slices.Clone(all), func(m stagedoor.MethodInfo) bool { return !matches(m, args) })
			table := output.Table{
				Columns: output.Columns("method", "access", "description~"),
				Empty:   "No matching methods. " + output.DidYouMean(strings.Join(args, " "), resources(all)),
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
				more := methodName(found[0])
				if platform != "" {
					more += " --platform " + platform
				}
				app.Out.Hint("Show details: stagedoor methods show %s", more)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&access, "access", "", "only methods with this access: read or write")
	cmd.PersistentFlags().StringVar(&platform, "platform", "", "platform of the methods (default: the organisation's first)")
	_ = cmd.RegisterFlagCompletionFunc("platform", app.CompletePlatforms)
	cmd.AddCommand(showMethod(app, &platform))
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
func printMatches(app *core.App, body []byte, methods []stagedoor.MethodInfo, words []string) error {
	if len(words) == 0 {
		app.Out.Body(body)
		return nil
	}
	var whole struct{ Methods []json.RawMessage }
	if err := json.Unmarshal(body, &whole); err != nil {
		return fmt.Errorf("read the methods: %w", err)
	}
	kept := []json.RawMessage{}
	for i, raw := range whole.Methods {
		if matches(methods[i], words) {
			kept = append(kept, raw)
		}
	}
	return app.Out.Value(map[string]any{"methods": kept})
}

// resources returns the names of the methods' resources.
func resources(methods []stagedoor.MethodInfo) (names []string) {
	for _, m := range methods {
		if !slices.Contains(names, m.Resource) {
			names = append(names, m.Resource)
		}
	}
	return names
}

// splitMethod splits a name such as messages.send into resource and method.
func splitMethod(app *core.App, name string) (resource, verb string, err error) {
	resource, verb, ok := strings.Cut(name, ".")
	if ok && resource != "" && verb != "" && !strings.ContainsAny(verb, "./") {
		return resource, verb, nil
	}
	if example := firstMethod(app, name); example != "" {
		return "", "", core.UsageHint("List its methods: stagedoor methods "+name,
			"%s is a resource; name a method such as %s", name, example)
	}
	return "", "", core.UsageHint("Find it: stagedoor methods "+core.Quote(name),
		"%q is not a method such as messages.send", name)
}

func showMethod(app *core.App, platform *string) *cobra.Command {
	return &cobra.Command{
		Use: "show <method>", Short: "Show a method's arguments, result and cost",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeMethods(app),
		Example: "  stagedoor methods show messages.send",
		RunE: func(cmd *cobra.Command, args []string) error {
			resource, verb, err := splitMethod(app, args[0])
			if err != nil {
				return err
			}
			list, body, err := listMethods(cmd.Context(), app,
				stagedoor.SdkListMethodsParams{Platform: *platform, Resource: resource})
			if err != nil {
				return err
			}
			i := slices.IndexFunc(list, func(m stagedoor.MethodInfo) bool { return m.Method == verb })
			if i < 0 {
				return unknownMethod(args[0], list)
			}
			if !app.Out.JSON {
				return printMethod(app, list[i])
			}
			var raw struct{ Methods []json.RawMessage }
			if err := json.Unmarshal(body, &raw); err != nil {
				return fmt.Errorf("read the methods: %w", err)
			}
			app.Out.Body(raw.Methods[i])
			return nil
		},
	}
}

// unknownMethod returns the fault for a name that is none of the methods, with similar ones.
func unknownMethod(name string, methods []stagedoor.MethodInfo) error {
	names := make([]string, len(methods))
	for i, m := range methods {
		names[i] = methodName(m)
	}
	hint := cmp.Or(output.DidYouMean(name, names), "Find it: stagedoor methods "+name[strings.IndexByte(name, '.')+1:])
	return &core.Fault{Code: core.ExitNotFound, Text: "unknown method " + name, Hint: hint}
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
