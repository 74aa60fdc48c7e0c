package account

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

// order is what connect was told.
type order struct {
	method, label, region, reference, account, email, userAgent, wait, returnURL string
	expires                                                                      time.Duration
	remember, supersede, link, open                                              bool
}

// methods are the ways to connect, as --method names them.
var methods = []string{"mobile", "login", "cookie", "curl"}

func connect(app *core.App) *cobra.Command {
	var o order
	cmd := &cobra.Command{
		Use: "connect", Short: "Connect a creator's account", Args: cobra.NoArgs,
		Long: `Connect a creator's account.

  mobile   the creator scans a code and approves on the phone (the default)
  login    email and password, and the codes that the platform asks for
  cookie   a browser's session: a Cookie header, all request headers, cookies.txt or a JSON export, on standard input
  curl     a browser's "Copy as cURL", on standard input; it is read, never run

Passwords, codes and sessions are asked for, or read from standard input: with login the first line is the password and each
further line a code. With --no-input the command starts the attempt, prints it and ends; go on with --wait.`,
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
	flags.StringVar(&o.label, "label", "", "what you call the account")
	flags.StringVar(&o.region, "region", "", "where its traffic leaves: us or uk")
	flags.StringVar(&o.reference, "reference", "", "your own id of the creator")
	flags.StringVarP(&o.account, "account", "a", "", "reconnect this account: its id, label or user name")
	flags.StringVar(&o.email, "email", "", "with login: the email to sign in with")
	flags.BoolVar(&o.remember, "remember", false, "with login: keep the credentials sealed, so that the account can sign in again by itself")
	flags.StringVar(&o.userAgent, "user-agent", "", "with cookie: the browser's user agent")
	flags.BoolVar(&o.supersede, "supersede", false, "end an attempt of the same login that is under way")
	flags.BoolVar(&o.link, "link", false, "make a link to a page on which the creator connects, and print it")
	flags.DurationVar(&o.expires, "expires", 0, "with --link: how long it works (30m if left out, 168h at most)")
	flags.StringVar(&o.returnURL, "return-url", "", "with --link: where the creator's browser goes in the end")
	flags.BoolVar(&o.open, "open", false, "open the link in the browser")
	flags.StringVar(&o.wait, "wait", "", "go on with this attempt")
	_ = cmd.RegisterFlagCompletionFunc("account", app.CompleteAccounts)
	_ = cmd.RegisterFlagCompletionFunc("method", cobra.FixedCompletions(methods, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("region", cobra.FixedCompletions([]string{"us", "uk"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.MarkFlagsMutuallyExclusive("wait", "link")
	cmd.MarkFlagsMutuallyExclusive("wait", "method")
	return cmd
}

func runConnect(ctx context.Context, app *core.App, o order) error {
	f := &follower{App: app, open: o.open}
	if o.wait != "" {
		if !strings.HasPrefix(o.wait, "att_") {
			return core.Usage("--wait wants the id of an attempt, such as att_01k9x5ahzre4bb3069xb2way0g")
		}
		if err := f.read(ctx, o.wait, false); err != nil {
			return err
		}
		f.mustEnd = true
		return f.run(ctx)
	}
	body := o.common()
	if o.account != "" {
		id, err := app.AccountID(ctx, o.account)
		if err != nil {
			return err
		}
		body["account_id"] = id
	}
	if o.link {
		return makeLink(ctx, app, o, body)
	}
	if err := begin(ctx, f, o, body); err != nil {
		return err
	}
	return f.run(ctx)
}

// common are the members that all ways to connect have.
func (o order) common() map[string]any {
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

func begin(ctx context.Context, f *follower, o order, body map[string]any) error {
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
		return beginLogin(ctx, f, o, body)
	case "cookie":
		return beginCookie(ctx, f, o, body)
	case "curl":
		text, err := pasted(f.App, "Paste the cURL command, then press Ctrl-D:", "Pipe the command to standard input: pbpaste | stagedoor connect --method curl")
		if err != nil {
			return err
		}
		body["curl"] = string(text)
		return f.start(ctx, "/v1/connect/curl", body)
	}
	hint := out.DidYouMean(o.method, methods)
	if hint == "" {
		hint = "The methods are " + strings.Join(methods, ", ") + "."
	}
	return core.UsageHint(hint, "there is no method %q to connect", o.method)
}

func beginLogin(ctx context.Context, f *follower, o order, body map[string]any) (err error) {
	if o.email == "" {
		if o.email, err = f.Ask(ctx, "Email", "Give it with --email."); err != nil {
			return err
		}
	}
	password, err := f.password(ctx)
	if err != nil {
		return err
	}
	body["email"], body["password"] = o.email, password
	if o.remember {
		body["remember_credentials"] = true
	}
	return f.start(ctx, "/v1/connect/login", body)
}

func makeLink(ctx context.Context, app *core.App, o order, body map[string]any) error {
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
		return core.Usage("a link offers login and mobile; %s is for you alone", o.method)
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
		app.Out.Say("It works once, and ends %s. Who has it can connect an account to your organisation: send it to the creator only.", app.Out.Ago(made.Session.ExpiresAt))
	}
	if o.open {
		return app.Browse(ctx, made.Session.URL)
	}
	return nil
}
