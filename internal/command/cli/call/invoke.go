package call

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// options are the flags of call.
type options struct {
	account, idempotency string
	dryRun, all          bool
}

func invoke(app *core.App) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "call <method> [name=value | name:=json | @file | -]...", Short: "Call an SDK method on an account", Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: completeCall,
		Long: `Call an SDK method on an account, and print its result.

  name=value    an argument; it becomes a number, a truth value or a list where the method wants one
  name:=json    an argument in JSON
  name=@file    an argument that is the text of a file (name=@- for standard input)
  @file, -      all arguments as a JSON object, from a file or standard input; others go over them

A write carries an idempotency key of its own, so --retry never does it twice.`,
		Example: `  stagedoor call me.get -a Maya
  stagedoor call messages.send -a Maya chatId=3438267820000000001 text="Hi" mediaIds:='["9"]'
  stagedoor call messages.send -a Maya chatId=3438267820000000001 text=@letter.txt --dry-run
  stagedoor call fans.list -a Maya --all --json | jq -r .user.username
  echo '{"chatId":"3438267820000000001"}' | stagedoor call messages.list -a Maya -`,
		RunE: func(cmd *cobra.Command, args []string) error { return runCall(cmd.Context(), app, o, args) },
	}
	app.AccountFlag(cmd, &o.account)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "check arguments, scope and limits without calling the platform")
	cmd.Flags().BoolVar(&o.all, "all", false, "read every page; print an item a line")
	cmd.Flags().StringVar(&o.idempotency, "idempotency-key", "", "do it once, however often it is sent with this key")
	return cmd
}

// completeCall offers methods, then the names of their arguments.
func completeCall(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return completeMethods(cmd, args, begun)
	}
	m := known(args[0])
	if m == nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var names []cobra.Completion
	for _, name := range m.Positional() {
		if strings.HasPrefix(name, begun) {
			names = append(names, name+"=")
		}
	}
	return names, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// known is a method of the catalog that is built in; nil if a newer server may have it.
func known(name string) *catalog.Method {
	cat, err := catalog.Sandbox()
	if err != nil {
		return nil
	}
	resource, verb, _ := strings.Cut(name, ".")
	m, ok := cat.Method(resource, verb)
	if !ok {
		return nil
	}
	return m
}

func runCall(ctx context.Context, app *core.App, o options, args []string) error {
	resource, verb, err := split(args[0])
	if err != nil {
		return err
	}
	m := known(args[0])
	body, err := arguments(app, m, args[1:])
	if err != nil {
		return err
	}
	if o.all && m != nil && !m.Paginated {
		return core.UsageHint("Leave out --all.", "%s is not paginated", args[0])
	}
	id, err := app.AccountID(ctx, o.account)
	if err != nil {
		return err
	}
	request := core.Call{Method: http.MethodPost, Path: "/v1/accounts/" + url.PathEscape(id) + "/" + url.PathEscape(resource) + "/" + url.PathEscape(verb), Body: body, Header: http.Header{}}
	if m == nil || m.Access == catalog.Write {
		request.IdempotencyKey = o.idempotency
		if request.IdempotencyKey == "" {
			request.IdempotencyKey = core.NewKey()
		}
	}
	if o.dryRun {
		request.Header.Set("X-Dry-Run", "true")
	}
	if o.all {
		return everyPage(ctx, app, request, body)
	}
	spin := app.Out.Spin("Calling " + args[0])
	var got struct{ Result json.RawMessage }
	reply, err := app.Do(ctx, request, &got)
	spin.Stop()
	if err != nil {
		return err
	}
	switch {
	case app.Out.JSON:
		app.Out.Body(reply.Body)
	case o.dryRun:
		app.Out.Done("This call would be accepted. Nothing was done.")
	default:
		printResult(app, got.Result)
	}
	return nil
}

// everyPage reads page after page and prints an item a line, as it comes.
func everyPage(ctx context.Context, app *core.App, request core.Call, body map[string]any) error {
	if body["limit"] == nil {
		body["limit"] = 100
	}
	for {
		var got struct {
			Result struct {
				Items      []json.RawMessage
				NextCursor *string
				HasMore    bool
			}
		}
		if _, err := app.Do(ctx, request, &got); err != nil {
			return err
		}
		for _, item := range got.Result.Items {
			if err := app.Out.Line(item); err != nil {
				return err
			}
		}
		if !got.Result.HasMore || got.Result.NextCursor == nil {
			return nil
		}
		body["cursor"] = *got.Result.NextCursor
	}
}

// printResult prints a result as JSON: methods give what they like, and a table would lose most of it.
func printResult(app *core.App, result json.RawMessage) {
	if bytes.Equal(bytes.TrimSpace(result), []byte("null")) || len(result) == 0 {
		app.Out.Done("Done; the method gives no result.")
		return
	}
	app.Out.Body(result)
}

// arguments reads what was typed into an object.
func arguments(app *core.App, m *catalog.Method, words []string) (map[string]any, error) {
	body := map[string]any{}
	for _, word := range words {
		if word == "-" || strings.HasPrefix(word, "@") {
			if err := fromFile(app, strings.TrimPrefix(word, "@"), body); err != nil {
				return nil, err
			}
		}
	}
	for _, word := range words {
		if word == "-" || strings.HasPrefix(word, "@") {
			continue
		}
		if err := argument(app, m, word, body); err != nil {
			return nil, err
		}
	}
	return body, nil
}

func fromFile(app *core.App, path string, body map[string]any) error {
	text, err := app.ReadFile(path)
	if err != nil {
		return err
	}
	if path == "-" {
		path = "standard input"
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var all map[string]any
	if err := dec.Decode(&all); err != nil {
		return core.UsageHint("Write it like {\"chatId\": \"3438267820000000001\"}.", "%s is not a JSON object of arguments", path)
	}
	for name, value := range all {
		body[name] = value
	}
	return nil
}

func argument(app *core.App, m *catalog.Method, word string, body map[string]any) error {
	if name, text, ok := strings.Cut(word, ":="); ok && !strings.Contains(name, "=") {
		var value any
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&value); err != nil || dec.More() {
			return core.UsageHint("For a plain text write "+name+"="+text, "%s:= wants JSON, and %s is none", name, text)
		}
		if err := nameOf(m, name); err != nil {
			return err
		}
		body[name] = value
		return nil
	}
	name, text, ok := strings.Cut(word, "=")
	if !ok || name == "" {
		return core.UsageHint("Write arguments like name=value or name:=json.", "%q is not an argument", word)
	}
	if err := nameOf(m, name); err != nil {
		return err
	}
	if path, isFile := strings.CutPrefix(text, "@"); isFile {
		content, err := app.ReadFile(path)
		if err != nil {
			return core.UsageHint("For a text that begins with @ write "+name+":='\"@…\"'.", "%s", err)
		}
		text = strings.TrimSuffix(string(content), "\n")
	}
	value, err := typed(m, name, text)
	if err != nil {
		return err
	}
	body[name] = value
	return nil
}

// nameOf checks the name of an argument against the catalog, to tell a slip of the hand before it costs a call.
func nameOf(m *catalog.Method, name string) error {
	if m == nil {
		return nil
	}
	names := m.Positional()
	if slices.Contains(names, name) {
		return nil
	}
	hint := out.DidYouMean(name, names)
	if hint == "" {
		hint = "It takes " + strings.Join(names, ", ") + "."
	}
	if len(names) == 0 {
		hint = "It takes none."
	}
	return core.UsageHint(hint, "%s has no argument %s", m.ID(), name)
}

// typed turns a text into what the argument wants. A text that does not fit is sent as it is, and the server says what is wrong.
func typed(m *catalog.Method, name, text string) (any, error) {
	if m == nil {
		return text, nil
	}
	var s schema
	if err := json.Unmarshal(m.ArgSchema(name), &s); err != nil {
		return nil, fmt.Errorf("the catalog's %s.%s: %w", m.ID(), name, err)
	}
	return coerce(s, text), nil
}

func coerce(s schema, text string) any {
	kind := s.kind()
	if types, several := s.Type.([]any); several {
		for _, t := range types {
			if t == "string" {
				return text
			}
		}
	}
	switch {
	case s.Type == "string":
		return text
	case s.Type == "integer" || kind == "integer":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case kind == "number":
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			return n
		}
	case kind == "boolean":
		if b, err := strconv.ParseBool(text); err == nil {
			return b
		}
	case s.Items != nil:
		items := []any{}
		for part := range strings.SplitSeq(text, ",") {
			if part != "" {
				items = append(items, coerce(*s.Items, part))
			}
		}
		return items
	}
	return text
}
