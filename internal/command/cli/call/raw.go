package call

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

var verbs = []string{"GET", "POST", "PUT", "PATCH", "DELETE"}

func raw(app *core.App) *cobra.Command {
	var headers []string
	var data string
	var include bool
	cmd := &cobra.Command{
		Use: "api <method> <path> [name=value | name:=json]...", Short: "Make any request to the API", Args: cobra.MinimumNArgs(2), ValidArgs: verbs,
		Long: `Make any request to the API with your key, and print the body of the answer.

name=value and name:=json are members of a JSON body, or parameters of the query with GET and DELETE.
A refusal is told as every command tells it, with the exit code of its kind; with --json its body is printed.`,
		Example: `  stagedoor api GET /v1/me
  stagedoor api GET /v1/logs status=5xx limit=10
  stagedoor api PATCH /v1/accounts/acct_01k9x5ahzre4bb3069xb2way0g label=Maya
  stagedoor api POST /v1/me/keys -d @key.json -H 'Idempotency-Key: 4f1c'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := request(app, args, headers, data)
			if err != nil {
				return err
			}
			reply, err := app.Do(cmd.Context(), request, nil)
			if err != nil {
				return err
			}
			if include {
				app.Out.Say("%d %s", reply.Status, http.StatusText(reply.Status))
				for _, name := range out.SortedKeys(reply.Header) {
					app.Out.Say("%s: %s", name, strings.Join(reply.Header[name], ", "))
				}
			}
			if strings.Contains(reply.Header.Get("Content-Type"), "json") {
				app.Out.Body(reply.Body)
			} else {
				app.Out.Bytes(reply.Body)
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVarP(&headers, "header", "H", nil, "send a header, as Name: value; may be repeated")
	cmd.Flags().StringVarP(&data, "data", "d", "", "send this JSON; @file reads a file and - standard input")
	cmd.Flags().BoolVarP(&include, "include", "i", false, "tell status and headers of the answer on standard error")
	return cmd
}

func request(app *core.App, args, headers []string, data string) (core.Call, error) {
	verb := strings.ToUpper(args[0])
	if err := core.OneOf("HTTP method", verb, verbs); err != nil {
		return core.Call{}, err
	}
	target, err := url.Parse(args[1])
	if err != nil || target.Host != "" || target.Scheme != "" {
		return core.Call{}, core.UsageHint("Write the path alone, like /v1/me; --base-url says which server.", "%q is not a path of the API", args[1])
	}
	if !strings.HasPrefix(target.Path, "/") {
		target.Path = "/" + target.Path
	}
	c := core.Call{Method: verb, Path: target.EscapedPath(), Query: target.Query(), Header: http.Header{}}
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return core.Call{}, core.UsageHint("Write it like -H 'Prefer: wait=10'.", "%q is not a header", h)
		}
		if strings.EqualFold(strings.TrimSpace(name), "authorization") {
			return core.Call{}, core.UsageHint("Use --profile, or STAGEDOOR_API_KEY.", "a key in a flag can be seen by other users of this machine")
		}
		c.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if len(args) > 2 {
		return c, members(app, &c, args[2:], data)
	}
	if data == "" {
		return c, nil
	}
	text := []byte(data)
	if path, isFile := strings.CutPrefix(data, "@"); isFile || data == "-" {
		if text, err = app.ReadFile(path); err != nil {
			return core.Call{}, err
		}
	}
	if !json.Valid(text) {
		return core.Call{}, core.UsageHint("Mind the shell: put it in single quotes.", "the data is not JSON")
	}
	c.Body = json.RawMessage(text)
	return c, nil
}

// members puts name=value where the request has room for it.
func members(app *core.App, c *core.Call, words []string, data string) error {
	if data != "" {
		return core.Usage("give the body by --data or by name=value, not by both")
	}
	body, err := arguments(app, nil, words)
	if err != nil {
		return err
	}
	if c.Method != http.MethodGet && c.Method != http.MethodDelete {
		c.Body = body
		return nil
	}
	for name, value := range body {
		text, isText := value.(string)
		if !isText {
			encoded, err := json.Marshal(value)
			if err != nil {
				return fmt.Errorf("write %s: %w", name, err)
			}
			text = string(encoded)
		}
		c.Query.Set(name, text)
	}
	return nil
}
