package account

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

type connectOptions struct {
	// account is the account to reconnect; empty for a new one.
	account, platform, site, method, label, region, reference, email, userAgent, wait, returnURL string
	expires                                                                                      time.Duration
	remember, supersede, link, open                                                              bool
}

// methods are the values of --method.
var methods = []string{"token", "mobile", "oauth", "login", "cookie", "curl"}

func connect(app *core.App) *cobra.Command {
	var o connectOptions
	cmd := &cobra.Command{
		Use: "connect", Short: "Connect a creator's account", Args: cobra.NoArgs,
		Long: `Connect a creator's account.

  token    a key that the platform issues to programs, such as Ghost's Admin API key (default, if the platform has it)
  mobile   the creator scans a code and approves on the phone (default on other platforms, if they have it)
  oauth    the creator opens a link, signs in to the platform there and allows the access
  login    email and password, plus the codes that the platform asks for
  cookie   a browser session on standard input: a Cookie header, all request headers, cookies.txt or a JSON export
  curl     a browser's "Copy as cURL" on standard input; the command is parsed, never run

The command prompts for keys, passwords, codes and sessions, or reads them from standard input. With login, the first line is
the password and each further line is a code. With --no-input the command starts the attempt, prints it and exits;
resume it with --wait.

stagedoor platforms lists the platforms and their methods. On a platform where creators have sites of their own, name
the creator's site with --site.`,
		Example: `  stagedoor connect --label Maya
  stagedoor connect --method login --email ok@sandbox.test
  stagedoor connect --platform ghost --site https://maya.example.com --method token < key.txt
  stagedoor connect --platform ghost --site https://maya.example.com --email maya@example.com
  stagedoor connect --link --label Maya --expires 24h
  pbpaste | stagedoor connect --method curl --region uk
  stagedoor connect --json --no-input
  stagedoor connect --wait att_01k9x5ahzre4bb3069xb2way0g`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runConnect(cmd.Context(), app, o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.platform, "platform", "", "platform of the account (default: the organisation's first)")
	flags.StringVar(&o.site, "site", "", "the creator's own site, such as https://maya.example.com")
	flags.StringVar(&o.method, "method", "", "token, mobile, oauth, login, cookie or curl")
	flags.StringVar(&o.label, "label", "", "label for the account")
	flags.StringVar(&o.region, "region", "", "region of its traffic, such as us")
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
	_ = cmd.RegisterFlagCompletionFunc("platform", app.CompletePlatforms)
	_ = cmd.RegisterFlagCompletionFunc("method", cobra.FixedCompletions(methods, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("region", app.CompleteRegions)
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
	platform := o.platform
	if o.account != "" {
		id, known, err := app.AccountPlatform(ctx, o.account)
		if err != nil {
			return err
		}
		o.account, platform = id, known
	}
	if o.link {
		return createLink(ctx, app, o)
	}
	if err := o.complete(ctx, app, platform); err != nil {
		return err
	}
	if err := startAttempt(ctx, f, o); err != nil {
		return err
	}
	return f.run(ctx)
}

// complete fills in what the user has not named: the method, which is login if there is an email and else the first
// that the platform has, and the site of a new account if the platform needs one. The server rejects an unknown platform.
func (o *connectOptions) complete(ctx context.Context, app *core.App, platform string) error {
	if o.method == "" && o.email != "" {
		o.method = "login"
	}
	if o.method != "" && (o.site != "" || o.account != "") {
		return nil
	}
	list, err := app.Platforms(ctx)
	if err != nil {
		return err
	}
	var chosen stagedoor.Platform
	if i := slices.IndexFunc(list, func(p stagedoor.Platform) bool { return platform == "" || p.ID == platform }); i >= 0 {
		chosen = list[i]
	}
	if o.method == "" {
		o.method = o.usualMethod(ctx, app, chosen)
	}
	if chosen.SiteRequired && o.site == "" && o.account == "" {
		o.site, err = app.Ask(ctx, "Site", "Set it with --site, such as "+core.Deref(chosen.SiteExample)+".")
	}
	return err
}

// usualMethod returns the first method that the platform has. An account is reconnected with a key only if it has one,
// because a key and a person are different accounts.
func (o *connectOptions) usualMethod(ctx context.Context, app *core.App, p stagedoor.Platform) string {
	list := methodsOf(p)
	if o.account != "" {
		if known, err := app.Account(ctx, o.account); err != nil || known.Credentials != "token" {
			list = slices.DeleteFunc(list, func(m string) bool { return m == "token" })
		}
	}
	return append(list, "mobile")[0]
}

// startAttempt starts an attempt with the chosen method.
func startAttempt(ctx context.Context, f *follower, o connectOptions) error {
	switch o.method {
	case "mobile":
		return f.start(func(keep stagedoor.CallOption) (*stagedoor.Attempt, error) {
			return f.API().Connect.Mobile(ctx, stagedoor.ConnectMobileParams{
				AccountID: o.account, Platform: o.platform, Site: o.site, Label: o.label, ProxyCountry: o.region,
				ReferenceID: o.reference, Supersede: o.supersede,
			}, keep)
		})
	case "oauth":
		return f.start(func(keep stagedoor.CallOption) (*stagedoor.Attempt, error) {
			return f.API().Connect.Login(ctx, stagedoor.ConnectLoginParams{
				AuthType: "oauth", AccountID: o.account, Platform: o.platform, Site: o.site, Label: o.label, ProxyCountry: o.region,
				ReferenceID: o.reference, Supersede: o.supersede,
			}, keep)
		})
	case "token":
		return startToken(ctx, f, o)
	case "login":
		return startLogin(ctx, f, o)
	case "cookie":
		return startCookie(ctx, f, o)
	case "curl":
		return startCurl(ctx, f, o)
	}
	return core.OneOf("connect method", o.method, methods)
}

func startLogin(ctx context.Context, f *follower, o connectOptions) (err error) {
	if o.email == "" {
		if o.email, err = f.Ask(ctx, "Email", "Set it with --email."); err != nil {
			return err
		}
	}
	password, err := f.readSecret(ctx, "Password")
	if err != nil {
		return err
	}
	return f.start(func(keep stagedoor.CallOption) (*stagedoor.Attempt, error) {
		return f.API().Connect.Login(ctx, stagedoor.ConnectLoginParams{
			AccountID: o.account, Platform: o.platform, Site: o.site, Label: o.label, ProxyCountry: o.region,
			ReferenceID: o.reference, Supersede: o.supersede, Email: o.email, Password: password, RememberCredentials: o.remember,
		}, keep)
	})
}

func startToken(ctx context.Context, f *follower, o connectOptions) error {
	key, err := f.readSecret(ctx, "Key")
	if err != nil {
		return err
	}
	return f.start(func(keep stagedoor.CallOption) (*stagedoor.Attempt, error) {
		return f.API().Connect.Token(ctx, stagedoor.ConnectTokenParams{
			AccountID: o.account, Platform: o.platform, Site: o.site, Label: o.label, ProxyCountry: o.region,
			ReferenceID: o.reference, Supersede: o.supersede, Token: key,
		}, keep)
	})
}

func createLink(ctx context.Context, app *core.App, o connectOptions) error {
	params := stagedoor.ConnectCreateSessionParams{
		AccountID: o.account, Platform: o.platform, Site: o.site, Label: o.label, ProxyCountry: o.region,
		ReferenceID: o.reference, ReturnURL: o.returnURL, ExpiresInSec: int64(o.expires.Seconds()),
	}
	switch o.method {
	case "":
	case "token":
		params.Kinds = []string{"token"}
	case "login":
		params.Kinds = []string{"credentials"}
	case "mobile":
		params.Kinds = []string{"mobile_app"}
	case "oauth":
		params.Kinds = []string{"oauth"}
	default:
		return core.Usage("--link supports the methods token, mobile, oauth and login, not %s", o.method)
	}
	var res stagedoor.Response
	session, err := app.API().Connect.CreateSession(ctx, params, stagedoor.WithResponse(&res))
	if err != nil {
		return err
	}
	address := core.Deref(session.URL)
	if app.Out.JSON {
		app.Out.Body(res.Body)
	} else {
		app.Out.Data("%s", address)
		if app.Out.TTY {
			if err := app.Out.QR(address); err != nil {
				return err
			}
		}
		app.Out.Say("The link works once and expires %s. Send it only to the creator: "+
			"anyone who has it can connect an account to your organisation.", app.Out.Ago(session.ExpiresAt))
	}
	if o.open {
		return app.Browse(ctx, address)
	}
	return nil
}
