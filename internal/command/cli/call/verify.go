package call

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/sign"
)

type verifyOptions struct {
	secretFile, account, endpoint, event string
	headers                              []string
	offline                              bool
}

func verifyCommand(app *core.App) *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use: "verify", Short: "Find out why a webhook signature does not match", Args: cobra.NoArgs,
		Long: `Find out why a webhook signature does not match.

Pipe the body, byte for byte as your receiver got it, to standard input. With an API key the server compares it with
what it sent and with the secrets it knows. With --offline, or without an API key, the check runs on this machine.
Nothing is stored. Exit codes: 0 if the signature matches, 5 if not.`,
		Example: `  stagedoor verify --secret-file secret.txt --header 'sha256=5257a8…' < body.json
  stagedoor verify --account Maya --header 'X-Webhook-Signature: sha256=5257a8…' --header 'webhook-id: evt_01k9…' < body.json
  stagedoor verify --offline --secret-file secret.txt --header 'webhook-signature: v1,…' --header 'webhook-id: evt_…' --header 'webhook-timestamp: 1763208000' < body.json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			headers, err := o.parseHeaders()
			if err != nil {
				return err
			}
			var own string
			if o.secretFile != "" {
				text, err := app.ReadFile(o.secretFile)
				if err != nil {
					return err
				}
				own = strings.TrimRight(string(text), "\r\n")
			}
			if app.StdinTTY {
				return core.UsageHint("Redirect a file: stagedoor verify … < body.json", "the body is read from standard input")
			}
			body, err := app.ReadInput()
			if err != nil {
				return err
			}
			_, noKey := app.Identity()
			if o.offline || (noKey != nil && own != "") {
				return o.checkOffline(app, headers, own, body)
			}
			return o.checkOnServer(cmd, app, headers, own, body)
		},
	}
	cmd.Flags().StringVar(&o.secretFile, "secret-file", "", "file with the secret that the receiver uses")
	cmd.Flags().StringArrayVar(&o.headers, "header", nil,
		"header as received: 'Name: value', or only the value of X-Webhook-Signature (repeatable)")
	cmd.Flags().StringVarP(&o.account, "account", "a", "",
		"account to whose own webhook it was sent (default: the event's account)")
	cmd.Flags().StringVar(&o.endpoint, "endpoint", "", "endpoint to which it was sent (default: the one whose secret fits)")
	cmd.MarkFlagsMutuallyExclusive("account", "endpoint")
	cmd.Flags().StringVar(&o.event, "event", "", "id of the event that was sent, to compare the body with")
	cmd.Flags().BoolVar(&o.offline, "offline", false, "check on this machine, without the server")
	_ = cmd.RegisterFlagCompletionFunc("account", app.CompleteAccounts)
	_ = cmd.MarkFlagFilename("secret-file")
	return cmd
}

func (o verifyOptions) parseHeaders() (map[string]string, error) {
	headers := map[string]string{}
	for _, h := range o.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.ContainsAny(name, "=, ") {
			name, value = "X-Webhook-Signature", h
		}
		headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	if len(headers) == 0 {
		return nil, core.UsageHint("Add --header 'sha256=…' with the value of X-Webhook-Signature.",
			"no signature to check")
	}
	return headers, nil
}

func (o verifyOptions) checkOffline(app *core.App, headers map[string]string, own string, body []byte) error {
	if own == "" {
		return core.UsageHint("Add --secret-file.", "an offline check requires the secret")
	}
	found := sign.Check(sign.Evidence{Body: body, Header: headers, Given: secret.New(own), At: app.Now()})
	check := &stagedoor.SignatureCheck{
		Verdict: string(found.Verdict), Message: found.Message, Details: []stagedoor.SignatureDetail{},
	}
	for _, d := range found.Details {
		check.Details = append(check.Details, stagedoor.SignatureDetail{Code: d.Code, Message: d.Text})
	}
	if app.Out.JSON {
		if err := app.Out.Value(struct {
			Verdict string                      `json:"verdict"`
			Message string                      `json:"message"`
			Details []stagedoor.SignatureDetail `json:"details"`
		}{check.Verdict, check.Message, check.Details}); err != nil {
			return err
		}
	}
	return reportCheck(app, check)
}

func (o verifyOptions) checkOnServer(
	cmd *cobra.Command, app *core.App, headers map[string]string, own string, body []byte,
) error {
	params := stagedoor.WebhooksCheckSignatureParams{Headers: headers, Secret: own, EventID: o.event, EndpointID: o.endpoint}
	if utf8.Valid(body) {
		params.Body = string(body)
	} else {
		params.BodyBase64 = base64.StdEncoding.EncodeToString(body)
	}
	if o.account != "" {
		id, err := app.AccountID(cmd.Context(), o.account)
		if err != nil {
			return err
		}
		params.AccountID = id
	}
	check, err := app.API().Webhooks.CheckSignature(cmd.Context(), params, app.Keep())
	if app.PrintResponse(err) != nil {
		return err
	}
	return reportCheck(app, check)
}

// unknownWebhook is printed for a wrong secret if it is unknown which webhook or endpoint the request was for. The message of
// package sign names members of the API; here they are flags.
const unknownWebhook = "The signature was not made with this secret, or the body is not what was signed. " +
	"Ask the server with --endpoint or --account to find out which."

// reportCheck prints the result of a check, unless it was printed as JSON, and returns a silent fault if the signature
// does not match.
func reportCheck(app *core.App, check *stagedoor.SignatureCheck) error {
	matches := check.Verdict == string(sign.Match)
	if !app.Out.JSON {
		tone := output.Bad
		if matches {
			tone = output.Good
		}
		app.Out.Data("%s", app.Out.Style(tone, check.Verdict))
		message := check.Message
		if check.Verdict == string(sign.WrongSecret) && check.AccountID == nil && check.EndpointID == nil {
			message = unknownWebhook
		}
		app.Out.Say("%s", message)
		for _, d := range check.Details {
			if d.Message != message && !strings.HasSuffix(message, d.Message) {
				app.Out.Say("  · %s", d.Message)
			}
		}
	}
	if matches {
		return nil
	}
	return core.Silent(core.ExitRejected)
}
