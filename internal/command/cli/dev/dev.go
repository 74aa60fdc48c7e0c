// Package dev holds the command that runs the whole product on a developer's machine: dev.
//
// In a clone of the repository it drives scripts/up and scripts/down (clone.go). Elsewhere it starts the engines, the sandbox platform
// and the server itself, in a directory of its own and on ports that are free (stack.go); whatever it starts ends with it.
package dev

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
	"github.com/stagedoor/stagedoor/internal/command/cli/profile"
)

// dev is one run of the command.
type dev struct {
	app     *core.App
	data    string
	port    int
	reset   bool
	noLogs  bool
	confirm string
}

// person is who owns the organisation in the dashboard; signing in needs no password on a developer's machine.
const person = "dev@stagedoor.test"

// Commands is dev.
func Commands(app *core.App) []*cobra.Command {
	d := &dev{app: app}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run the whole product on this machine: server, sandbox platform and engines",
		Long: `Run the whole product on this machine: server, sandbox platform and engines.

It prints the dashboard's address and a test key, saves both as the profile dev, shows what the server does, and stops everything it
started at Ctrl-C. The data stay for the next time.

In a clone of the repository it drives scripts/up and scripts/down, which install and build what is missing; what ran before goes on
running. Elsewhere, or with --data, it needs stagedoord and sandboxd beside this program or on PATH, and PostgreSQL, Redis or Valkey,
and nats-server installed; it runs them on free ports in a directory of its own.`,
		Example: `  stagedoor dev
  stagedoor dev --port 9000
  stagedoor dev --data ./try --reset
  stagedoor dev --json --no-logs`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&d.data, "data", "", "keep the data in this directory, and do not use a clone's scripts")
	flags.IntVar(&d.port, "port", 0, "serve on this port (18080 if it is free, else any)")
	flags.BoolVar(&d.reset, "reset", false, "forget all data first")
	flags.StringVar(&d.confirm, "confirm", "", "with --reset: the directory whose data go, so that nothing is asked")
	flags.BoolVar(&d.noLogs, "no-logs", false, "do not show what the server does")
	return []*cobra.Command{cmd}
}

func (d *dev) run(ctx context.Context) error {
	if runtime.GOOS == "windows" {
		return &core.Fault{Code: core.ExitOther, Text: "stagedoor dev does not run on Windows", Hint: "Run it on the Windows Subsystem for Linux; all other commands work here too."}
	}
	if d.port < 0 || d.port > 65535 {
		return core.Usage("--port must be a number from 1 to 65535")
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	if root := cloneOf(here); root != "" && d.data == "" {
		if d.port != 0 || d.reset {
			return core.UsageHint("In a clone the ports move with DEV_PORT_OFFSET=…, and make reset forgets the data. With --data DIR this program runs everything itself.", "--port and --reset do not go with a clone's scripts")
		}
		return d.inClone(ctx, root)
	}
	return d.alone(ctx)
}

// dir is where a run outside a clone keeps its data.
func (d *dev) dir() (string, error) {
	if d.data != "" {
		return filepath.Abs(d.data)
	}
	store, err := d.app.Store()
	if err != nil {
		return "", err
	}
	return filepath.Join(store.StateDir, "dev"), nil
}

// place is a running system, as a customer sees it.
type place struct {
	URL    string `json:"url"`
	APIKey string `json:"apiKey"`
}

// present saves the profile and tells what there is now.
func (d *dev) present(ctx context.Context, p place) error {
	store, err := d.app.Store()
	if err != nil {
		return err
	}
	me, err := d.app.Me(ctx, profile.Profile{Name: "dev", BaseURL: p.URL, Key: secret.New(p.APIKey), ConfigDir: store.ConfigDir, StateDir: store.StateDir})
	if err != nil {
		return err
	}
	before, err := store.Get("")
	if err != nil && !errors.Is(err, profile.ErrNone) {
		before = profile.Profile{} // its key is lost; that is told when it is used
	}
	if _, err := store.Save(me); err != nil {
		return err
	}
	o := d.app.Out
	if o.JSON {
		return o.Line(map[string]string{"url": p.URL, "dashboardUrl": p.URL + "/app", "apiKey": p.APIKey, "profile": "dev"})
	}
	o.Fields([]out.Field{
		{Name: "Dashboard", Cell: out.Toned(out.Accent, p.URL+"/app")},
		{Name: "API", Cell: out.Toned(out.Accent, p.URL)},
		{Name: "Test key", Cell: out.Text(p.APIKey)},
	})
	o.Say("")
	o.Done("Sign in to the dashboard as %s. The profile dev is saved and in use.", person)
	if before.Name != "" && before.Name != "dev" {
		o.Hint("Back to where you were: stagedoor switch %s", core.Quote(before.Name))
	}
	o.Hint("Next, in another terminal: stagedoor connect --method login --email ok@sandbox.test   (any password)")
	o.Hint("Ctrl-C stops everything.")
	o.Say("")
	return nil
}
