package account

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// connectOptions are the flags of connect.
type connectOptions struct {
	method, label, region, reference, account, email, userAgent, wait, returnURL string
	expires                                                                      time.Duration
	remember, supersede, link, open                                              bool
}

// methods are the values of --method.
var methods = []string{"mobile", "login", "cookie", "curl"}

func connect(app *core.App) *cobra.Command {
	var o connectOptions
	cmd := &cobra.Command{
		Use: "connect", Short: "Connect a creator's account", Args: cobra.NoArgs,
		Long: `Connect a creator's account.

  mobile   the creator scans a code and approves on the phone (default)
  login    email and password, plus the codes that the platform asks for
  cookie   a browser session on standard input: a Cookie header, all request headers, cookies.txt or a JSON export
  curl     a browser's "Copy as cURL" on standard input; the command is parsed, never run

The command prompts for passwords, codes and sessions, or reads them from standard input. With login, the first line is
the password and each further line is a code. With --no-input the command starts the attempt, prints it and exits;
resume it with --wait.`,
		Example: `  stagedoor connect --label Maya
  stagedoor connect --method login --email ok@sandbox.test
  stagedoor connect --link --label Maya --expires 24h
  pbpaste | stagedoor connect --method curl --region uk
  stagedoor connect --json --no-input
  stagedoor connect --wait att_01k9x5ahzre4bb3069xb2way0g`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runConnect(cmd.Context(), app, o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.method, "method", "", "mobile, login, cookie or curl")
	flags.StringVar(&o.label, "label", "", "label for the account")
	flags.StringVar(&o.region, "region", "", "region of its traffic: us or uk")
	flags.StringVar(&o.reference, "reference", "", "your own id for the creator")
	flags.StringVarP(&o.account, "account", "a", "", "reconnect this account (id, label or user name)")
	flags.StringVar(&o.email, "email", "", "with login: email to sign in with")
	flags.BoolVar(&o.remember, "remember", false,
		"with login: save the credentials, encrypted, to sign in again automatically")
	flags.StringVar(&o.userAgent, "user-agent", "", "with cookie: user agent of the browser")
	flags.BoolVar(&o.supersede, "supersede", false, "cancel an attempt of the same login that is in progress")
	flags.BoolVar(&o.link, "link", false, "create and print a link to a page where the creator connects")
	flags.DurationVar(&o.expires, "expires", 0, "with --link: how long the link is valid, up to 168h (default 30m)")
	flags.StringVar(&o.returnURL, "return-url", "", "with --link: where to send the creator's browser at the end")
	flags.BoolVar(&o.open, "open", false, "open the link in the browser")
	flags.StringVar(&o.wait, "wait", "", "resume this attempt")
	_ = cmd.RegisterFlagCompletionFunc("account", app.CompleteAccounts)
	_ = cmd.RegisterFlagCompletionFunc("method", cobra.FixedCompletions(methods, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("region", cobra.FixedCompletions([]string{"us", "uk"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.MarkFlagsMutuallyExclusive("wait", "link")
	cmd.MarkFlagsMutuallyExclusive("wait", "method")
	return cmd
}

func runConnect(ctx context.Context, app *core.App, o connectOptions) error {
	f := &follower{App: app, open: o.open}
	if o.wait != "" {
		if !strings.HasPrefix(o.wait, "att_") {
			return core.Usage("--wait requires an attempt id, such as att_01k9x5ahzre4bb3069xb2way0g")
		}
		if err := f.read(ctx, o.wait, false); err != nil {
			return err
		}
		f.mustEnd = true
		return f.run(ctx)
	}
	body := o.commonBody()
	if o.account != "" {
		id, err := app.AccountID(ctx, o.account)
		if err != nil {
			return err
		}
		body["account_id"] = id
	}
	if o.link {
		return createLink(ctx, app, o, body)
	}
	if err := startAttempt(ctx, f, o, body); err != nil {
		return err
	}
	return f.run(ctx)
}

// commonBody returns the members of the request that all methods share.
func (o connectOptions) commonBody() map[string]any {
	body := map[string]any{}
	for name, value := range map[string]string{"label": o.label, "proxy_country": o.region, "reference_id": o.reference} {
		if value != "" {
			body[name] = value
		}
	}
	if o.supersede {
		body["supersede"] = true
	}
	return body
}

// startAttempt starts an attempt with the chosen method. Default: login if there is an email, else mobile.
func startAttempt(ctx context.Context, f *follower, o connectOptions, body map[string]any) error {
	if o.method == "" {
		o.method = "mobile"
		if o.email != "" {
			o.method = "login"
		}
	}
	switch o.method {
	case "mobile":
		return f.start(ctx, "/v1/connect/mobile", body)
	case "login":
		return startLogin(ctx, f, o, body)
	case "cookie":
		return startCookie(ctx, f, o, body)
	case "curl":
		text, err := readPasted(f.App, "Paste the cURL command, then press Ctrl-D:",
			"Pipe the command to standard input: pbpaste | stagedoor connect --method curl")
		if err != nil {
			return err
		}
		body["curl"] = string(text)
		return f.start(ctx, "/v1/connect/curl", body)
	}
	return core.OneOf("connect method", o.method, methods)
}

func startLogin(ctx context.Context, f *follower, o connectOptions, body map[string]any) (err error) {
	if o.email == "" {
		if o.email, err = f.Ask(ctx, "Email", "Set it with --email."); err != nil {
			return err
		}
	}
	password, err := f.readPassword(ctx)
	if err != nil {
		return err
	}
	body["email"], body["password"] = o.email, password
	if o.remember {
		body["remember_credentials"] = true
	}
	return f.start(ctx, "/v1/connect/login", body)
}

func createLink(ctx context.Context, app *core.App, o connectOptions, body map[string]any) error {
	delete(body, "supersede")
	if o.expires != 0 {
		body["expires_in_sec"] = int(o.expires.Seconds())
	}
	if o.returnURL != "" {
		body["return_url"] = o.returnURL
	}
	switch o.method {
	case "":
	case "login":
		body["kinds"] = []string{"credentials"}
	case "mobile":
		body["kinds"] = []string{"mobile_app"}
	default:
		return core.Usage("--link supports the methods login and mobile, not %s", o.method)
	}
	var made struct {
		Session struct {
			ID, URL   string
			ExpiresAt time.Time `json:"expires_at"`
		}
	}
	reply, err := app.Send(ctx, http.MethodPost, "/v1/connect/sessions", body, &made)
	if err != nil {
		return err
	}
	if app.Out.JSON {
		app.Out.Body(reply.Body)
	} else {
		app.Out.Data("%s", made.Session.URL)
		if app.Out.TTY {
			if err := app.Out.QR(made.Session.URL); err != nil {
				return err
			}
		}
		app.Out.Say("The link works once and expires %s. Send it only to the creator: "+
			"anyone who has it can connect an account to your organisation.", app.Out.Ago(made.Session.ExpiresAt))
	}
	if o.open {
		return app.Browse(ctx, made.Session.URL)
	}
	return nil
}
