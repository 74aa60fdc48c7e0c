// Package dev has the command dev, which runs the complete product on a developer's machine.
//
// In a clone of the repository it calls scripts/up and scripts/down (clone.go). Elsewhere it starts the engines, the
// sandbox platform and the server itself, with their data in one directory and on free ports (stack.go), and stops them
// when it ends. It does not run on Windows. Start at Commands.
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
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
	"github.com/stagedoor/stagedoor/internal/command/cli/profile"
)

// dev holds the flags of the command.
type dev struct {
	app     *core.App
	data    string
	port    int
	reset   bool
	noLogs  bool
	confirm string
}

// ownerEmail is the owner of the organisation in the dashboard. A development server needs no password to sign in.
const ownerEmail = "dev@stagedoor.test"

// Commands returns dev.
func Commands(app *core.App) []*cobra.Command {
	d := &dev{app: app}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run the server, the sandbox platform and their databases on this machine",
		Long: `Run the server, the sandbox platform and their databases on this machine.

Prints the dashboard's address and a test key, saves both as the profile dev, and shows the server's log. Ctrl-C stops
everything that was started. The data is kept for the next run.

In a clone of the repository the command uses scripts/up and scripts/down, which install and build what is missing. A
server that was already running keeps running. Elsewhere, or with --data, it requires stagedoord and sandboxd next to
stagedoor or on PATH, and PostgreSQL, Redis or Valkey, and nats-server installed. It runs them on free ports, with their
data in one directory.`,
		Example: `  stagedoor dev
  stagedoor dev --port 9000
  stagedoor dev --data ./try --reset
  stagedoor dev --json --no-logs`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&d.data, "data", "", "keep the data in this directory, and do not use a clone's scripts")
	flags.IntVar(&d.port, "port", 0, "serve on this port (default: 18080, or any free port)")
	flags.BoolVar(&d.reset, "reset", false, "delete all data first")
	flags.StringVar(&d.confirm, "confirm", "", "with --reset: name of the data directory, to skip the prompt")
	flags.BoolVar(&d.noLogs, "no-logs", false, "do not show the server's log")
	return []*cobra.Command{cmd}
}

func (d *dev) run(ctx context.Context) error {
	if runtime.GOOS == "windows" {
		return &core.Fault{
			Code: core.ExitOther, Text: "stagedoor dev does not run on Windows",
			Hint: "Run it in the Windows Subsystem for Linux. All other commands work on Windows.",
		}
	}
	if d.port < 0 || d.port > 65535 {
		return core.Usage("--port must be a number from 1 to 65535")
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	if root := findClone(here); root != "" && d.data == "" {
		if d.port != 0 || d.reset {
			return core.UsageHint(
				"In a clone, change the ports with DEV_PORT_OFFSET and delete the data with make reset, or add --data DIR.",
				"--port and --reset cannot be used in a clone without --data")
		}
		return d.runInClone(ctx, root)
	}
	return d.runStack(ctx)
}

// dataDir returns the data directory of a run outside a clone.
func (d *dev) dataDir() (string, error) {
	if d.data != "" {
		return filepath.Abs(d.data)
	}
	store, err := d.app.Store()
	if err != nil {
		return "", err
	}
	return filepath.Join(store.StateDir, "dev"), nil
}

// endpoint is the public side of a running system.
type endpoint struct {
	URL    string `json:"url"`
	APIKey string `json:"apiKey"`
}

// announce saves the profile dev, makes it current and prints how to use the running system.
func (d *dev) announce(ctx context.Context, p endpoint) error {
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
		before = profile.Profile{} // its key cannot be read; the next command that uses it reports that
	}
	if _, err := store.Save(me); err != nil {
		return err
	}
	o := d.app.Out
	if o.JSON {
		return o.Line(map[string]string{"url": p.URL, "dashboardUrl": p.URL + "/app", "apiKey": p.APIKey, "profile": "dev"})
	}
	o.Fields([]output.Field{
		{Name: "Dashboard", Cell: output.Toned(output.Accent, p.URL+"/app")},
		{Name: "API", Cell: output.Toned(output.Accent, p.URL)},
		{Name: "Test key", Cell: output.Text(p.APIKey)},
	})
	o.Say("")
	o.Done("Sign in to the dashboard as %s. Commands now use the profile dev.", ownerEmail)
	if before.Name != "" && before.Name != "dev" {
		o.Hint("Switch back: stagedoor switch %s", core.Quote(before.Name))
	}
	o.Hint("Next, in another terminal: stagedoor connect --method login --email ok@sandbox.test   (any password)")
	o.Hint("Press Ctrl-C to stop.")
	o.Say("")
	return nil
}
