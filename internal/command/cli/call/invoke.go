package call

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

type callOptions struct {
	account, idempotency string
	dryRun, all          bool
}

func callCommand(app *core.App) *cobra.Command {
	var o callOptions
	cmd := &cobra.Command{
		Use: "call <method> [name=value | name:=json | @file | -]...", Short: "Call an SDK method on an account",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeCall(app),
		Long: `Call an SDK method on an account and print its result.

  name=value    an argument, converted to a number, boolean or list if the method expects one
  name:=json    an argument as JSON
  name=@file    an argument with the text of a file (name=@- for standard input)
  @file, -      all arguments as a JSON object, from a file or standard input; other arguments override its members

Writes are sent with an idempotency key, so --retry never repeats one.`,
		Example: `  stagedoor call me.get -a Maya
  stagedoor call messages.send -a Maya chatId=3438267820000000001 text="Hi" mediaIds:='["9"]'
  stagedoor call messages.send -a Maya chatId=3438267820000000001 text=@letter.txt --dry-run
  stagedoor call fans.list -a Maya --all --json | jq -r .user.username
  echo '{"chatId":"3438267820000000001"}' | stagedoor call messages.list -a Maya -`,
		RunE: func(cmd *cobra.Command, args []string) error { return runCall(cmd.Context(), app, o, args) },
	}
	app.AccountFlag(cmd, &o.account)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "check arguments, scope and limits without calling the platform")
	cmd.Flags().BoolVar(&o.all, "all", false, "fetch all pages and print one item per line")
	cmd.Flags().StringVar(&o.idempotency, "idempotency-key", "", "idempotency key of a write (default: random)")
	return cmd
}

func runCall(ctx context.Context, app *core.App, o callOptions, args []string) error {
	resource, verb, err := splitMethod(app, args[0])
	if err != nil {
		return err
	}
	id, platform, err := app.AccountPlatform(ctx, o.account)
	if err != nil {
		return err
	}
	m := findMethod(ctx, app, platform, resource, verb)
	body, err := parseArguments(app, m, args[1:])
	if err != nil {
		return err
	}
	if o.all && m != nil && !m.Paginated {
		return core.UsageHint("Remove --all.", "%s is not paginated", args[0])
	}
	request := stagedoor.Request{
		Method: http.MethodPost, Body: body, Header: http.Header{},
		Path: "/v1/accounts/" + url.PathEscape(id) + "/" + url.PathEscape(resource) + "/" + url.PathEscape(verb),
	}
	if m == nil || m.Access == "write" {
		request.IdempotencyKey = cmp.Or(o.idempotency, rand.Text())
	}
	if o.dryRun {
		request.Header.Set("X-Dry-Run", "true")
	}
	if o.all {
		return callAllPages(ctx, app, request, body)
	}
	spin := app.Out.Spin("Calling " + args[0])
	res, err := app.API().Request(ctx, request)
	spin.Stop()
	if err != nil {
		return err
	}
	switch {
	case app.Out.JSON:
		app.Out.Body(res.Body)
	case o.dryRun:
		app.Out.Done("Dry run: the call would be accepted.")
	default:
		var got struct{ Result json.RawMessage }
		if err := res.JSON(&got); err != nil {
			return err
		}
		printResult(app, got.Result)
	}
	return nil
}

// callAllPages fetches page after page and prints each item on a line as soon as its page arrives. It changes body,
// which must be the body of request. Default page size: 100.
func callAllPages(ctx context.Context, app *core.App, request stagedoor.Request, body map[string]any) error {
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
		res, err := app.API().Request(ctx, request)
		if err != nil {
			return err
		}
		if err := res.JSON(&got); err != nil {
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

// printResult prints a result as JSON, even on a terminal: the results of methods are too different for a table.
func printResult(app *core.App, result json.RawMessage) {
	if bytes.Equal(bytes.TrimSpace(result), []byte("null")) || len(result) == 0 {
		app.Out.Done("Done. The method returns no result.")
		return
	}
	app.Out.Body(result)
}

// parseArguments builds the request body from the words after the method. Files come first, so that single arguments
// override them wherever they stand. m may be nil; then nothing is checked or converted.
func parseArguments(app *core.App, m *stagedoor.MethodInfo, words []string) (map[string]any, error) {
	body := map[string]any{}
	for _, word := range words {
		if word == "-" || strings.HasPrefix(word, "@") {
			if err := mergeFile(app, strings.TrimPrefix(word, "@"), body); err != nil {
				return nil, err
			}
		}
	}
	for _, word := range words {
		if word == "-" || strings.HasPrefix(word, "@") {
			continue
		}
		if err := setArgument(app, m, word, body); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// mergeFile copies the members of a JSON file into body.
func mergeFile(app *core.App, path string, body map[string]any) error {
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
		return core.UsageHint(`Example: {"chatId": "3438267820000000001"}`, "%s is not a JSON object of arguments", path)
	}
	maps.Copy(body, all)
	return nil
}

// setArgument parses one word, name=value or name:=json, and sets it in body.
func setArgument(app *core.App, m *stagedoor.MethodInfo, word string, body map[string]any) error {
	if name, text, ok := strings.Cut(word, ":="); ok && !strings.Contains(name, "=") {
		var value any
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&value); err != nil || dec.More() {
			return core.UsageHint("For plain text use "+name+"="+text, "%s:= requires JSON, and %s is not JSON", name, text)
		}
		if err := checkArgumentName(m, name); err != nil {
			return err
		}
		body[name] = value
		return nil
	}
	name, text, ok := strings.Cut(word, "=")
	if !ok || name == "" {
		return core.UsageHint("Use name=value or name:=json.", "%q is not an argument", word)
	}
	if err := checkArgumentName(m, name); err != nil {
		return err
	}
	if path, isFile := strings.CutPrefix(text, "@"); isFile {
		content, err := app.ReadFile(path)
		if err != nil {
			return core.UsageHint("For text that starts with @ use "+name+":='\"@…\"'", "%s", err)
		}
		text = strings.TrimSuffix(string(content), "\n")
	}
	value, err := convertArgument(m, name, text)
	if err != nil {
		return err
	}
	body[name] = value
	return nil
}

// checkArgumentName checks the name of an argument with the catalogue, so that a typo does not cost a call.
func checkArgumentName(m *stagedoor.MethodInfo, name string) error {
	if m == nil {
		return nil
	}
	names := m.Positional
	if slices.Contains(names, name) {
		return nil
	}
	hint := cmp.Or(output.DidYouMean(name, names), "Its arguments: "+strings.Join(names, ", "))
	if len(names) == 0 {
		hint = "It has no arguments."
	}
	return core.UsageHint(hint, "%s has no argument %s", methodName(*m), name)
}

// convertArgument converts text to the type that the argument has in the catalogue. Text that does not fit is sent
// unchanged, and the server's error says what is wrong.
func convertArgument(m *stagedoor.MethodInfo, name, text string) (any, error) {
	if m == nil {
		return text, nil
	}
	var args schema
	if err := json.Unmarshal(m.Args, &args); err != nil {
		return nil, fmt.Errorf("read the arguments of %s: %w", methodName(*m), err)
	}
	return coerce(args.Properties[name], text), nil
}

// coerce converts text by its schema: comma-separated items for an array, and text for anything that may be a string.
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
