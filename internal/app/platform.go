package app

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
)

// platform returns the commands about creator platforms. They read manifests and settings, and need no server.
func (c *commands) platform() *cobra.Command {
	cmd := &cobra.Command{Use: "platform", Short: "Check and list creator platforms"}
	cmd.AddCommand(c.platformCheck(), c.platformList())
	return cmd
}

func (c *commands) platformCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check FOLDER", Short: "Compile the manifest of a platform and print every fault in it", Args: cobra.ExactArgs(1),
		Long: "Compiles the manifest of a platform and prints every fault in it, with file and line.\nThe exit code is 1 if there is one.",
		RunE: func(_ *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); err != nil || !info.IsDir() {
				return fmt.Errorf("%s is not a folder with a manifest", args[0])
			}
			found, err := catalog.Load(os.DirFS(args[0]))
			if faults, ok := errors.AsType[catalog.Faults](err); ok {
				for _, f := range faults {
					fmt.Fprintln(c.out, f)
				}
				return fmt.Errorf("the manifest has %d faults", len(faults))
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(c.out, "%s (%s), version %s: %d methods of %d resources, %d events\n", found.Name, found.ID, found.Version,
				len(found.Methods()), len(found.Resources()), len(found.Events()))
			return nil
		},
	}
}

func (c *commands) platformList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the platforms in STAGEDOOR_PLATFORMS", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, ok := variable(c.environ, "STAGEDOOR_PLATFORMS")
			if !ok {
				text = config.Defaults().Platforms
			}
			sources, err := registry.ParseSources(text, config.Defaults().SandboxURL)
			if err != nil {
				return fmt.Errorf("STAGEDOOR_PLATFORMS: %w", err)
			}
			secrets, _ := variable(c.environ, "STAGEDOOR_OAUTH_CLIENTS")
			clients, err := registry.ParseOAuthClients(secret.New(secrets), sources, "")
			if err != nil {
				return fmt.Errorf("STAGEDOOR_OAUTH_CLIENTS: %w", err)
			}
			all, err := registry.New(registry.Deps{Sources: sources, OAuth: clients, Egress: nil, Now: clock.Now})
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
			fmt.Fprintln(table, "ID\tNAME\tENVIRONMENT\tVERSION\tMETHODS\tEVENTS\tFLOWS\tMANIFEST")
			for i, p := range all.All() {
				from := sources[i].Folder
				if from == "" {
					from = "built in"
				}
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", p.ID, p.Catalog.Name, p.Environment, p.Catalog.Version,
					len(p.Catalog.Methods()), len(p.Catalog.Events()), strings.Join(p.Flows(), ","), from)
			}
			return table.Flush()
		},
	}
}
