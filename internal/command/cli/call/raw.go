package call

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

var verbs = []string{"GET", "POST", "PUT", "PATCH", "DELETE"}

func apiCommand(app *core.App) *cobra.Command {
	var headers []string
	var data string
	var include bool
	cmd := &cobra.Command{
		Use: "api <method> <path> [name=value | name:=json]...", Short: "Send any request to the API",
		Args: cobra.MinimumNArgs(2), ValidArgs: verbs,
		Long: `Send any request to the API with your key and print the response body.

name=value and name:=json are members of the JSON body, or query parameters with GET and DELETE.
Errors are reported as in all commands, with the same exit codes. With --json the problem document is printed.`,
		Example: `  stagedoor api GET /v1/me
  stagedoor api GET /v1/logs status=5xx limit=10
  stagedoor api PATCH /v1/accounts/acct_01k9x5ahzre4bb3069xb2way0g label=Maya
  stagedoor api POST /v1/me/keys -d @key.json -H 'Idempotency-Key: 4f1c'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := buildRequest(app, args, headers, data)
			if err != nil {
				return err
			}
			res, err := app.API().Request(cmd.Context(), request)
			if err != nil {
				return err
			}
			if include {
				app.Out.Say("%d %s", res.Status, http.StatusText(res.Status))
				for _, name := range output.SortedKeys(res.Header) {
					app.Out.Say("%s: %s", name, strings.Join(res.Header[name], ", "))
				}
			}
			if strings.Contains(res.Header.Get("Content-Type"), "json") {
				app.Out.Body(res.Body)
			} else {
				app.Out.Bytes(res.Body)
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVarP(&headers, "header", "H", nil, "add a request header, as 'Name: value' (repeatable)")
	cmd.Flags().StringVarP(&data, "data", "d", "", "JSON body; @file reads a file, - reads standard input")
	cmd.Flags().BoolVarP(&include, "include", "i", false, "print the response's status and headers to standard error")
	return cmd
}

func buildRequest(app *core.App, args, headers []string, data string) (stagedoor.Request, error) {
	verb := strings.ToUpper(args[0])
	if err := core.OneOf("HTTP method", verb, verbs); err != nil {
		return stagedoor.Request{}, err
	}
	target, err := url.Parse(args[1])
	if err != nil || target.Host != "" || target.Scheme != "" {
		return stagedoor.Request{}, core.UsageHint("Use only the path, such as /v1/me. Choose the server with --base-url.",
			"%q is not an API path", args[1])
	}
	if !strings.HasPrefix(target.Path, "/") {
		target.Path = "/" + target.Path
	}
	c := stagedoor.Request{Method: verb, Path: target.EscapedPath(), Query: target.Query(), Header: http.Header{}}
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return stagedoor.Request{}, core.UsageHint("Example: -H 'Prefer: wait=10'", "%q is not a header", h)
		}
		if strings.EqualFold(strings.TrimSpace(name), "authorization") {
			return stagedoor.Request{}, core.UsageHint("Use --profile or STAGEDOOR_API_KEY.",
				"other users of this machine can see a key in a flag")
		}
		c.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if len(args) > 2 {
		return c, setMembers(app, &c, args[2:], data)
	}
	if data == "" {
		return c, nil
	}
	text := []byte(data)
	if path, isFile := strings.CutPrefix(data, "@"); isFile || data == "-" {
		if text, err = app.ReadFile(path); err != nil {
			return stagedoor.Request{}, err
		}
	}
	if !json.Valid(text) {
		return stagedoor.Request{}, core.UsageHint("Put it in single quotes to protect it from the shell.",
			"--data is not valid JSON")
	}
	c.Body = json.RawMessage(text)
	return c, nil
}

// setMembers adds name=value words to the body, or to the query with GET and DELETE.
func setMembers(app *core.App, c *stagedoor.Request, words []string, data string) error {
	if data != "" {
		return core.Usage("use --data or name=value, not both")
	}
	body, err := parseArguments(app, nil, words)
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
