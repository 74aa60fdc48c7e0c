package call

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/sign"
)

// evidence are the flags of verify.
type evidence struct {
	secretFile, account, event string
	headers                    []string
	offline                    bool
}

// finding is the verdict, as server and built-in check give it.
type finding struct {
	Verdict string   `json:"verdict"`
	Message string   `json:"message"`
	Details []detail `json:"details"`
}

// detail is one thing that was noticed.
type detail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func verify(app *core.App) *cobra.Command {
	var e evidence
	cmd := &cobra.Command{
		Use: "verify", Short: "Why a webhook's signature does not match", Args: cobra.NoArgs,
		Long: `Why a webhook's signature does not match.

Standard input is the body, byte for byte as your receiver had it. With a key, the server compares it with what it sent and with
the secrets it knows; with --offline, or without a key, it is checked here. Nothing of it is stored. Exit code 0 is a match, 5 is none.`,
		Example: `  stagedoor verify --secret-file secret.txt --header 'sha256=5257a8…' < body.json
  stagedoor verify --account Maya --header 'X-Webhook-Signature: sha256=5257a8…' --header 'webhook-id: evt_01k9…' < body.json
  stagedoor verify --offline --secret-file secret.txt --header 'webhook-signature: v1,…' --header 'webhook-id: evt_…' --header 'webhook-timestamp: 1763208000' < body.json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			headers, err := e.header()
			if err != nil {
				return err
			}
			var own string
			if e.secretFile != "" {
				text, err := app.ReadFile(e.secretFile)
				if err != nil {
					return err
				}
				own = strings.TrimRight(string(text), "\r\n")
			}
			if app.StdinTTY {
				return core.UsageHint("Redirect the file into it: stagedoor verify … < body.json", "the body is read from standard input")
			}
			body, err := app.ReadInput()
			if err != nil {
				return err
			}
			_, noKey := app.Identity()
			if e.offline || (noKey != nil && own != "") {
				return e.check(app, headers, own, body)
			}
			return e.ask(cmd, app, headers, own, body)
		},
	}
	cmd.Flags().StringVar(&e.secretFile, "secret-file", "", "a file that holds the secret which the receiver uses")
	cmd.Flags().StringArrayVar(&e.headers, "header", nil, "a header as received: 'Name: value', or the value of X-Webhook-Signature alone; may be repeated")
	cmd.Flags().StringVarP(&e.account, "account", "a", "", "whose webhook it was sent to; the event tells if it is left out")
	cmd.Flags().StringVar(&e.event, "event", "", "the event that was sent, to compare the body with")
	cmd.Flags().BoolVar(&e.offline, "offline", false, "check it here, without the server")
	_ = cmd.RegisterFlagCompletionFunc("account", app.CompleteAccounts)
	_ = cmd.MarkFlagFilename("secret-file")
	return cmd
}

func (e evidence) header() (map[string]string, error) {
	headers := map[string]string{}
	for _, h := range e.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.ContainsAny(name, "=, ") {
			name, value = "X-Webhook-Signature", h
		}
		headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	if len(headers) == 0 {
		return nil, core.UsageHint("Add --header 'sha256=…', as your receiver got it in X-Webhook-Signature.", "there is no signature to check")
	}
	return headers, nil
}

func (e evidence) check(app *core.App, headers map[string]string, own string, body []byte) error {
	if own == "" {
		return core.UsageHint("Add --secret-file.", "without the server the secret is needed")
	}
	found := sign.Check(sign.Evidence{Body: body, Header: headers, Given: secret.New(own), At: app.Now()})
	f := finding{Verdict: string(found.Verdict), Message: found.Message, Details: []detail{}}
	for _, d := range found.Details {
		f.Details = append(f.Details, detail{d.Code, d.Text})
	}
	if app.Out.JSON {
		if err := app.Out.Value(f); err != nil {
			return err
		}
	}
	return f.report(app)
}

func (e evidence) ask(cmd *cobra.Command, app *core.App, headers map[string]string, own string, body []byte) error {
	request := map[string]any{"headers": headers}
	if utf8.Valid(body) {
		request["body"] = string(body)
	} else {
		request["bodyBase64"] = base64.StdEncoding.EncodeToString(body)
	}
	if own != "" {
		request["secret"] = own
	}
	if e.account != "" {
		id, err := app.AccountID(cmd.Context(), e.account)
		if err != nil {
			return err
		}
		request["accountId"] = id
	}
	if e.event != "" {
		request["eventId"] = e.event
	}
	var f finding
	reply, err := app.Send(cmd.Context(), http.MethodPost, "/v1/webhooks/check-signature", request, &f)
	if err != nil {
		return err
	}
	if app.Out.JSON {
		app.Out.Body(reply.Body)
	}
	return f.report(app)
}

// report tells the verdict; one that is no match ends the command with the code for refused input.
func (f finding) report(app *core.App) error {
	right := f.Verdict == string(sign.Match)
	if !app.Out.JSON {
		tone := out.Bad
		if right {
			tone = out.Good
		}
		app.Out.Data("%s", app.Out.Style(tone, f.Verdict))
		app.Out.Say("%s", strings.Replace(f.Message, "Give accountId or eventId", "Ask the server with --account or --event", 1))
		for _, d := range f.Details {
			if d.Message != f.Message && !strings.HasSuffix(f.Message, d.Message) {
				app.Out.Say("  · %s", d.Message)
			}
		}
	}
	if right {
		return nil
	}
	return core.Silent(core.ExitRejected)
}
