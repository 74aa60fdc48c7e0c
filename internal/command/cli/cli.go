// Package cli is the command line that customers use.
//
// It builds the tree of commands from the packages below it, reads the flags that all of them have, and ends with one of the fixed exit
// codes. What commands share is in shell, how they print in out, who is calling in profile. Start at Main.
package cli

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpproxy"
	"golang.org/x/term"

	"github.com/stagedoor/stagedoor/internal/command/cli/account"
	"github.com/stagedoor/stagedoor/internal/command/cli/call"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/manage"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

// Main runs a command and returns its exit code. Ctrl-C ends it at once.
func Main(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	env := map[string]string{}
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		env[name] = value
	}
	width, tty := terminal(stdout)
	_, errTTY := terminal(stderr)
	_, inTTY := terminal(stdin)
	app := &core.App{
		Env: env, Stdin: stdin, StdinTTY: inTTY, Now: time.Now, Browse: browser(env), HTTP: transport(env),
		Out: &out.Printer{Stdout: stdout, Stderr: stderr, TTY: tty, ErrTTY: errTTY, Width: width, Now: time.Now},
	}
	app.Out.Color = env["NO_COLOR"] == "" && env["TERM"] != "dumb"
	return Run(ctx, app, args)
}

// Run runs a command in a given world.
func Run(ctx context.Context, app *core.App, args []string) int {
	root := Root(app)
	root.SetArgs(args)
	root.SetIn(app.Stdin)
	root.SetOut(app.Out.Stdout)
	root.SetErr(app.Out.Stderr)
	err := root.ExecuteContext(ctx)
	if ctx.Err() != nil && err != nil {
		err = ctx.Err()
	}
	return app.Report(err)
}

// transport goes through the proxy that the user's environment names.
func transport(env map[string]string) http.RoundTripper {
	get := func(name string) string {
		if value := env[name]; value != "" {
			return value
		}
		return env[strings.ToLower(name)]
	}
	proxy := (&httpproxy.Config{HTTPProxy: get("HTTP_PROXY"), HTTPSProxy: get("HTTPS_PROXY"), NoProxy: get("NO_PROXY")}).ProxyFunc()
	return &http.Transport{
		Proxy:             func(req *http.Request) (*url.URL, error) { return proxy(req.URL) },
		ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
	}
}

func terminal(stream any) (width int, is bool) {
	file, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		width = 80
	}
	return width, true
}

// The groups in which the help lists commands.
const (
	groupStart   = "start"
	groupCreator = "creator"
	groupCall    = "call"
	groupEvents  = "events"
	groupOrg     = "org"
	groupSelf    = "self"
)

// Root is the whole tree of commands.
func Root(app *core.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "stagedoor",
		Short: "Connect creator accounts, call them, and follow their events",
		Long: `Connect creator accounts, call them, and follow their events.

Data goes to standard output and words to standard error. On a terminal output is a table; in a pipe it is
tab-separated, whole and without a head; with --json it is the API's own body.`,
		Example: `  stagedoor login
  stagedoor connect --method mobile --label Maya
  stagedoor call messages.send -a Maya chatId=3438267820000000001 text="Hi"
  stagedoor listen --forward-to localhost:3000/hooks`,
		SilenceErrors: true, SilenceUsage: true, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return core.Unknown(cmd, args[0])
		},
		PersistentPreRun: func(cmd *cobra.Command, _ []string) { settle(app, cmd) },
	}
	globals(app, root)
	root.AddGroup(&cobra.Group{ID: groupStart, Title: "Start:"}, &cobra.Group{ID: groupCreator, Title: "Accounts:"},
		&cobra.Group{ID: groupCall, Title: "Calls:"}, &cobra.Group{ID: groupEvents, Title: "Events:"},
		&cobra.Group{ID: groupOrg, Title: "Organisation:"}, &cobra.Group{ID: groupSelf, Title: "This program:"})
	for _, commands := range [][]*cobra.Command{identity(app), account.Commands(app), call.Commands(app), manage.Commands(app), streams(app), self(app)} {
		root.AddCommand(commands...)
	}
	root.SetHelpCommandGroupID(groupSelf)
	root.CompletionOptions.DisableDefaultCmd = true
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.InitDefaultHelpCmd()
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return flagFault(cmd, err)
	})
	arrange(root)
	return root
}

func globals(app *core.App, root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.BoolVar(&app.Out.JSON, "json", false, "print the API's body; streams print one object a line")
	flags.StringVar(&app.ProfileName, "profile", "", "act under this profile")
	flags.StringVar(&app.BaseURL, "base-url", "", "send requests to this server")
	flags.Bool("plain", false, "print as into a pipe, also on a terminal")
	flags.Bool("no-color", false, "print without colour")
	flags.BoolVar(&app.NoInput, "no-input", false, "never ask; fail where an answer would be needed")
	flags.BoolVarP(&app.Out.Quiet, "quiet", "q", false, "print data and errors only")
	flags.BoolVar(&app.Retry, "retry", false, "wait and try again where the API says that it can help")
	flags.BoolVar(&app.Debug, "debug", false, "tell each request on standard error, without secrets")
	_ = root.RegisterFlagCompletionFunc("profile", func(_ *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return profileNames(app), cobra.ShellCompDirectiveNoFileComp
	})
}

// settle applies flags that change how things are printed.
func settle(app *core.App, cmd *cobra.Command) {
	if plain, _ := cmd.Flags().GetBool("plain"); plain {
		app.Out.TTY = false
	}
	if off, _ := cmd.Flags().GetBool("no-color"); off {
		app.Out.Color = false
	}
}

// place says under which heading the help lists a command.
var place = map[string]string{
	"login": groupStart, "logout": groupStart, "whoami": groupStart, "switch": groupStart, "dev": groupStart, "open": groupStart,
	"connect": groupCreator, "accounts": groupCreator, "sandbox": groupCreator,
	"methods": groupCall, "call": groupCall, "api": groupCall, "explain": groupCall, "mcp": groupCall,
	"listen": groupEvents, "tail": groupEvents, "trigger": groupEvents, "events": groupEvents, "webhooks": groupEvents, "verify": groupEvents,
	"keys": groupOrg, "usage": groupOrg, "logs": groupOrg,
	"version": groupSelf, "completion": groupSelf, "help": groupSelf,
}

// arrange puts commands under their headings, and makes every wrong number of arguments a fault that shows how the command is written.
func arrange(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		cmd.GroupID = place[cmd.Name()]
	}
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (or (not .HasAvailableSubCommands) .HasLocalFlags) .HasParent}}", 1))
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.DisableFlagsInUseLine = true
		if check := cmd.Args; check != nil {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				if err := check(cmd, args); err != nil {
					return core.UsageHint("Write it like this: "+cmd.UseLine(), "%s", argumentFault(cmd, args, err))
				}
				return nil
			}
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(root)
}

// argumentFault says what is too much, or what is not there.
func argumentFault(cmd *cobra.Command, args []string, err error) string {
	var wanted []string
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(word, "<") {
			wanted = append(wanted, word)
		}
	}
	switch {
	case len(args) < len(wanted):
		return cmd.CommandPath() + " needs " + strings.Join(wanted[len(args):], " and ")
	case len(args) > 0:
		return cmd.CommandPath() + " does not take " + core.Quote(args[len(args)-1])
	}
	return err.Error()
}

// flagFault says which flag may have been meant.
func flagFault(cmd *cobra.Command, err error) error {
	hint := "See " + cmd.CommandPath() + " --help"
	if wrong, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if guesses := out.Suggest(wrong, known); len(guesses) > 0 {
			hint = "Did you mean --" + strings.Join(guesses, " or --") + "?"
		}
	}
	return core.UsageHint(hint, "%s: %s", cmd.CommandPath(), err)
}
