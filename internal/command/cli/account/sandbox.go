package account

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

func sandbox(app *core.App) *cobra.Command {
	cmd := core.Group("sandbox", "Play the platform: personas, trouble, fans (sandbox organisations)",
		persona(app), expire(app),
		trouble(app, fault{"challenge", "otp_next", "Ask for a code at the account's next sign-in", "asks for a code at the next sign-in of %s"}),
		trouble(app, fault{"ratelimit", "rate_limit", "Let the platform answer an account's calls with 429 for a while", "answers 429 to %s"}),
		trouble(app, fault{"down", "down", "Let the platform answer an account's calls with 503 for a while", "answers 503 to %s"}),
		trouble(app, fault{"slow", "slow", "Let the platform answer an account's calls slowly for a while", "answers %s slowly"}),
		clear(app), act(app), generate(app), advance(app), openSession(app))
	cmd.Long = "Play the platform: personas to sign in as, trouble to survive, fans who do things.\n\nOnly organisations of the sandbox have this."
	return cmd
}

// character is a login of the sandbox.
type character struct {
	Persona string `json:"persona"`
	Login   string `json:"login"`
	Group   string `json:"group"`
	Effect  string `json:"effect"`
}

func persona(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "persona [name]", Short: "List the logins of the sandbox and what they do", Args: cobra.MaximumNArgs(1),
		Long: "List the logins of the sandbox and what they do, or one of them.\n\nColumns in a pipe: login, group, effect.",
		RunE: func(cmd *cobra.Command, args []string) error {
			var got struct {
				Personas []character
				Codes    []struct{ Code, Effect string }
				Password string
			}
			reply, err := app.Get(cmd.Context(), "/v1/sandbox/personas", nil, &got)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				names := []string{}
				for _, p := range got.Personas {
					names = append(names, p.Persona)
				}
				name, _, _ := strings.Cut(args[0], "@")
				if err := core.OneOf("persona", name, names); err != nil {
					return err
				}
				got.Personas = slices.DeleteFunc(got.Personas, func(p character) bool { return p.Persona != name })
				if app.Out.JSON {
					return app.Out.Value(got.Personas[0])
				}
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
				return nil
			}
			table := out.Table{Columns: out.Columns("login", "group", "effect~")}
			for _, p := range got.Personas {
				table.Rows = append(table.Rows, []out.Cell{out.Text(p.Login), out.Toned(out.Faint, p.Group), out.Text(p.Effect)})
			}
			app.Out.Table(table)
			app.Out.Say("Password: %s. Codes:", got.Password)
			for _, c := range got.Codes {
				app.Out.Say("  %s  %s", c.Code, c.Effect)
			}
			app.Out.Say("persona+anything@sandbox.test is another creator of the same kind.")
			return nil
		},
	}
}

func expire(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "expire <account>", Short: "End an account's session on the platform", Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: "End an account's session on the platform. The next call finds out: 410, or a new sign-in if credentials are remembered.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := app.AccountID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var got struct{ Account core.Account }
			reply, err := app.Send(cmd.Context(), http.MethodPost, "/v1/sandbox/accounts/"+url.PathEscape(id)+"/reset_login", nil, &got)
			if err != nil {
				return err
			}
			return told(app, reply, "The platform has ended the session of %s.", got.Account.Name())
		},
	}
}

// told prints the body under --json, and a sentence otherwise.
func told(app *core.App, reply core.Reply, format string, args ...any) error {
	if app.Out.JSON {
		app.Out.Body(reply.Body)
		return nil
	}
	app.Out.Done(format, args...)
	return nil
}

// fault is a command that makes trouble.
type fault struct {
	name, kind, short string
	// says is what the platform does from now on.
	says string
}

func trouble(app *core.App, what fault) *cobra.Command {
	var length time.Duration
	var count int
	cmd := &cobra.Command{
		Use: what.name + " <account>", Short: what.short, Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := app.AccountID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			body := map[string]any{"kind": what.kind}
			if length != 0 {
				body["seconds"] = seconds(length)
			}
			if count > 0 {
				body["count"] = count
			}
			var got struct{ Until *time.Time }
			reply, err := app.Send(cmd.Context(), http.MethodPost, "/v1/sandbox/accounts/"+url.PathEscape(id)+"/fault", body, &got)
			if err != nil {
				return err
			}
			effect := fmt.Sprintf("The platform "+what.says, args[0])
			if got.Until == nil {
				return told(app, reply, "%s.", effect)
			}
			return told(app, reply, "%s; that ends %s, or with stagedoor sandbox clear %s", effect, app.Out.Ago(*got.Until), core.Quote(args[0]))
		},
	}
	if what.kind != "otp_next" {
		cmd.Flags().DurationVar(&length, "for", 0, "how long it lasts (60s if left out, 1h at most)")
		cmd.Flags().IntVar(&count, "count", 0, "how often it strikes at most")
	}
	return cmd
}

func clear(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "clear <account>", Short: "End all trouble and generated events of an account", Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := app.AccountID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			path := "/v1/sandbox/accounts/" + url.PathEscape(id)
			if _, err := app.Send(cmd.Context(), http.MethodDelete, path+"/generator", nil, nil); err != nil {
				return err
			}
			var got struct{ Cleared int }
			reply, err := app.Send(cmd.Context(), http.MethodDelete, path+"/fault", nil, &got)
			if err != nil {
				return err
			}
			return told(app, reply, "Ended %s of %s.", out.Count(got.Cleared, "trouble", "troubles"), args[0])
		},
	}
}

// deeds are what a fan can do.
var deeds = []string{"message", "tip", "subscribe", "unsubscribe", "like", "comment", "typing"}

func act(app *core.App) *cobra.Command {
	var account, fan, text string
	var cents int64
	cmd := &cobra.Command{
		Use: "act <deed>", Short: "Let a fan do something: " + strings.Join(deeds, ", "), Args: cobra.ExactArgs(1),
		Long:    "Let a fan do something, with everything that comes of it: of a tip also its transaction and its notification. To send one event alone, use stagedoor trigger.\n\nDeeds: " + strings.Join(deeds, ", ") + ".",
		Example: "  stagedoor sandbox act message -a Maya --text 'Hello!'\n  stagedoor sandbox act tip -a Maya --cents 2500", ValidArgs: deeds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := core.OneOf("deed", args[0], deeds); err != nil {
				return err
			}
			id, err := app.AccountID(cmd.Context(), account)
			if err != nil {
				return err
			}
			body := map[string]any{"do": args[0]}
			if fan != "" {
				body["fanId"] = fan
			}
			if text != "" {
				body["text"] = text
			}
			if cents > 0 {
				body["amountCents"] = cents
			}
			reply, err := app.Send(cmd.Context(), http.MethodPost, "/v1/sandbox/accounts/"+url.PathEscape(id)+"/act", body, nil)
			if err != nil {
				return err
			}
			return told(app, reply, "A fan did it: %s. See it with stagedoor events list -a %s", args[0], id)
		},
	}
	app.AccountFlag(cmd, &account)
	cmd.Flags().StringVar(&fan, "fan", "", "the fan's id on the platform (one of the creator's fans, if left out)")
	cmd.Flags().StringVar(&text, "text", "", "the words of a message, tip or comment")
	cmd.Flags().Int64Var(&cents, "cents", 0, "what a tip is worth, in cents")
	return cmd
}

func generate(app *core.App) *cobra.Command {
	var rate float64
	var length time.Duration
	cmd := &cobra.Command{
		Use: "generate <account>", Short: "Let things happen to an account for a while", Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: "Let things happen to an account for a while: mostly messages, some tips, likes and new fans. A second order replaces the first; stagedoor sandbox clear ends it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := app.AccountID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var got struct{ Until time.Time }
			reply, err := app.Send(cmd.Context(), http.MethodPost, "/v1/sandbox/accounts/"+url.PathEscape(id)+"/generator", map[string]any{"perSecond": rate, "seconds": seconds(length)}, &got)
			if err != nil {
				return err
			}
			return told(app, reply, "About %g events a second for %s. Watch them: stagedoor tail events -a %s", rate, out.Short(length), core.Quote(args[0]))
		},
	}
	cmd.Flags().Float64Var(&rate, "rate", 1, "events a second, 0.1 to 1000")
	cmd.Flags().DurationVar(&length, "for", time.Minute, "for how long, 10m at most")
	return cmd
}

// steps are what an attempt can be moved by.
var steps = []string{"scan", "approve", "deny", "pass_selfie", "fail_selfie"}

func advance(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "advance <attempt> <step>", Short: "Do what the creator would do on the phone: " + strings.Join(steps, ", "), Args: cobra.ExactArgs(2),
		Example: "  stagedoor sandbox advance att_01k9x5ahzre4bb3069xb2way0g approve",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := core.OneOf("step", args[1], steps); err != nil {
				return err
			}
			var got attempt
			reply, err := app.Send(cmd.Context(), http.MethodPost, "/v1/sandbox/attempts/"+url.PathEscape(args[0])+"/advance", map[string]any{"to": args[1]}, &got)
			if err != nil {
				return err
			}
			return told(app, reply, "Done: %s. The attempt is now %s.", args[1], got.State)
		},
	}
}

func openSession(app *core.App) *cobra.Command {
	var curl bool
	cmd := &cobra.Command{
		Use: "session <login>", Short: "A fresh browser session of a login, to try connect by cookie or cURL with", Args: cobra.ExactArgs(1),
		Example: "  stagedoor sandbox session ok@sandbox.test | stagedoor connect --method cookie\n  stagedoor sandbox session ok@sandbox.test --curl | stagedoor connect --method curl",
		RunE: func(cmd *cobra.Command, args []string) error {
			var got struct {
				Cookie, UserAgent, Curl string
				Headers                 map[string]string
			}
			reply, err := app.Send(cmd.Context(), http.MethodPost, "/v1/sandbox/session", map[string]any{"login": args[0]}, &got)
			if err != nil {
				return err
			}
			switch {
			case app.Out.JSON:
				app.Out.Body(reply.Body)
			case curl:
				app.Out.Data("%s", got.Curl)
			default:
				app.Out.Data("cookie: %s\nuser-agent: %s", got.Cookie, got.UserAgent)
				for name, value := range got.Headers {
					app.Out.Data("%s: %s", name, value)
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&curl, "curl", false, "as a cURL command")
	return cmd
}
