// Package cli is the stagedoor command that customers run.
//
// It builds the command tree from the packages below it, adds the global flags and maps errors to the documented exit
// codes. The commands themselves are in account, agent, call, dev, events, manage and ops; what they share is in core,
// printing is in output, and stored keys are in profile. It reaches the server over HTTP only. Start at Main.
package cli

import (
	"cmp"
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
	"github.com/stagedoor/stagedoor/internal/command/cli/ops"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

// Main runs a command with the given process environment and returns its exit code. SIGINT and SIGTERM
// cancel the command's context.
func Main(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	env := map[string]string{}
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		env[name] = value
	}
	width, tty := terminalSize(stdout)
	_, errTTY := terminalSize(stderr)
	_, inTTY := terminalSize(stdin)
	app := &core.App{
		Env: env, Stdin: stdin, StdinTTY: inTTY, Now: time.Now, Browse: browser(env), HTTP: transport(env),
		Out: &output.Printer{Stdout: stdout, Stderr: stderr, TTY: tty, ErrTTY: errTTY, Width: width, Now: time.Now},
	}
	app.Out.Color = env["NO_COLOR"] == "" && env["TERM"] != "dumb"
	return Run(ctx, app, args)
}

// Run runs a command with a prepared App and returns its exit code. An error after the context was cancelled counts as
// an interruption, whatever it says.
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

// transport uses the proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY in env name, in upper or lower case.
func transport(env map[string]string) http.RoundTripper {
	get := func(name string) string {
		return cmp.Or(env[name], env[strings.ToLower(name)])
	}
	proxy := (&httpproxy.Config{HTTPProxy: get("HTTP_PROXY"), HTTPSProxy: get("HTTPS_PROXY"), NoProxy: get("NO_PROXY")}).ProxyFunc()
	return &http.Transport{
		Proxy:             func(req *http.Request) (*url.URL, error) { return proxy(req.URL) },
		ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
	}
}

// terminalSize returns the columns of a stream and whether it is a terminal. A terminal of unknown size
// counts as 80 wide.
func terminalSize(stream any) (width int, is bool) {
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

// Groups of commands in the help and in the reference.
const (
	groupStart   = "start"
	groupCreator = "creator"
	groupCall    = "call"
	groupEvents  = "events"
	groupOrg     = "org"
	groupOps     = "ops"
	groupSelf    = "self"
)

// Root returns the complete command tree.
func Root(app *core.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "stagedoor",
		Short: "Connect creator accounts, call them, and follow their events",
		Long: `Connect creator accounts, call them, and follow their events.

Data goes to standard output, messages go to standard error. Output is a table on a terminal and
tab-separated lines without a header in a pipe. With --json it is the API's response body.`,
		Example: `  stagedoor login
  stagedoor connect --method mobile --label Maya
  stagedoor call messages.send -a Maya chatId=3438267820000000001 text="Hi"
  stagedoor listen --forward-to localhost:3000/hooks`,
		SilenceErrors: true, SilenceUsage: true, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return core.UnknownCommand(cmd, args[0])
		},
		PersistentPreRun: func(cmd *cobra.Command, _ []string) { applyOutputFlags(app, cmd) },
	}
	addGlobalFlags(app, root)
	root.AddGroup(&cobra.Group{ID: groupStart, Title: "Get started:"}, &cobra.Group{ID: groupCreator, Title: "Accounts:"},
		&cobra.Group{ID: groupCall, Title: "Calls:"}, &cobra.Group{ID: groupEvents, Title: "Events:"},
		&cobra.Group{ID: groupOrg, Title: "Organisation:"}, &cobra.Group{ID: groupOps, Title: "Operators:"}, &cobra.Group{ID: groupSelf, Title: "Other:"})
	for _, commands := range [][]*cobra.Command{
		identityCommands(app), account.Commands(app), call.Commands(app), manage.Commands(app),
		streamCommands(app), ops.Commands(app), selfCommands(app),
	} {
		root.AddCommand(commands...)
	}
	root.SetHelpCommandGroupID(groupSelf)
	root.CompletionOptions.DisableDefaultCmd = true
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.InitDefaultHelpCmd()
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return flagError(cmd, err)
	})
	arrangeCommands(root)
	return root
}

func addGlobalFlags(app *core.App, root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.BoolVar(&app.Out.JSON, "json", false, "print the API's response body; streams print one object per line")
	flags.StringVar(&app.ProfileName, "profile", "", "use this profile")
	flags.StringVar(&app.BaseURL, "base-url", "", "send requests to this server")
	flags.Bool("plain", false, "print as in a pipe, even on a terminal")
	flags.Bool("no-color", false, "disable colour")
	flags.BoolVar(&app.NoInput, "no-input", false, "never prompt; fail if input is required")
	flags.BoolVarP(&app.Out.Quiet, "quiet", "q", false, "print only data and errors")
	flags.BoolVar(&app.Retry, "retry", false, "wait and retry when the API says a retry can help")
	flags.BoolVar(&app.Debug, "debug", false, "log each request to standard error, without secrets")
	_ = root.RegisterFlagCompletionFunc("profile", func(_ *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return profileNames(app), cobra.ShellCompDirectiveNoFileComp
	})
}

// applyOutputFlags applies --plain and --no-color. They are no variables because their defaults come from the terminal.
func applyOutputFlags(app *core.App, cmd *cobra.Command) {
	if plain, _ := cmd.Flags().GetBool("plain"); plain {
		app.Out.TTY = false
	}
	if off, _ := cmd.Flags().GetBool("no-color"); off {
		app.Out.Color = false
	}
}

// groupOf maps each top-level command to its group in the help.
var groupOf = map[string]string{
	"login": groupStart, "logout": groupStart, "whoami": groupStart, "switch": groupStart, "dev": groupStart, "open": groupStart,
	"connect": groupCreator, "accounts": groupCreator, "platforms": groupCreator, "sandbox": groupCreator,
	"methods": groupCall, "call": groupCall, "api": groupCall, "explain": groupCall, "mcp": groupCall, "export": groupCall, "bulk": groupCall, "jobs": groupCall,
	"listen": groupEvents, "tail": groupEvents, "trigger": groupEvents, "events": groupEvents, "webhooks": groupEvents, "endpoints": groupEvents, "verify": groupEvents,
	"keys": groupOrg, "notices": groupOrg, "usage": groupOrg, "logs": groupOrg, "export-org": groupOrg,
	"ops":     groupOps,
	"version": groupSelf, "completion": groupSelf, "help": groupSelf,
}

// arrangeCommands assigns groups and replaces cobra's argument errors by ones that name the missing argument and show
// the usage line.
func arrangeCommands(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		cmd.GroupID = groupOf[cmd.Name()]
	}
	// Cobra's template shows the root's own usage line, because it is runnable. It only prints the help,
	// so hide that line.
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (or (not .HasAvailableSubCommands) .HasLocalFlags) .HasParent}}", 1))
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.DisableFlagsInUseLine = true
		if check := cmd.Args; check != nil {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				if err := check(cmd, args); err != nil {
					return core.UsageHint("Usage: "+cmd.UseLine(), "%s", argumentError(cmd, args, err))
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

// argumentError names the missing arguments, or the last one if there are too many.
func argumentError(cmd *cobra.Command, args []string, err error) string {
	var wanted []string
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(word, "<") {
			wanted = append(wanted, word)
		}
	}
	switch {
	case len(args) < len(wanted):
		return cmd.CommandPath() + " requires " + strings.Join(wanted[len(args):], " and ")
	case len(args) > 0:
		return cmd.CommandPath() + " does not accept " + core.Quote(args[len(args)-1])
	}
	return err.Error()
}

// flagError adds the most similar flags to the error of an unknown flag.
func flagError(cmd *cobra.Command, err error) error {
	hint := "See " + cmd.CommandPath() + " --help"
	if wrong, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if guesses := output.Suggest(wrong, known); len(guesses) > 0 {
			hint = "Did you mean --" + strings.Join(guesses, " or --") + "?"
		}
	}
	return core.UsageHint(hint, "%s: %s", cmd.CommandPath(), err)
}
