package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/telemetry"
	"github.com/stagedoor/stagedoor/migrations"
	"github.com/stagedoor/stagedoor/migrations/keyring"
	"github.com/stagedoor/stagedoor/version"
)

// Main runs a command line of stagedoord and returns its exit code.
func Main(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	// net/http logs what a platform sends on an idle connection.
	log.SetOutput(io.Discard)
	c := &commands{environ: environ, out: stdout, errs: stderr}
	root := &cobra.Command{
		Use: "stagedoord", Short: "The Stagedoor server",
		Long:          "The Stagedoor server: a managed HTTP API over connected creator accounts.\nSettings come from the environment; `stagedoord config` lists them.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.String(),
	}
	root.AddCommand(c.serve(), c.migrate(), c.config(), c.openapi(), c.health(), c.admin(), c.seal(), c.platform())
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(stderr, "stagedoord: "+strings.ReplaceAll(err.Error(), "\n", "\nstagedoord: "))
		return 1
	}
	return 0
}

type commands struct {
	environ   []string
	out, errs io.Writer
}

func (c *commands) serve() *cobra.Command {
	var roles []string
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the server", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			environ := c.environ
			if len(roles) > 0 {
				environ = append(environ, "STAGEDOOR_ROLES="+strings.Join(roles, ","))
			}
			cfg, err := config.Read(environ)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			node, err := NewNode(ctx, cfg, telemetry.Log(c.errs, cfg.LogLevel, cfg.LogFormat))
			if err != nil {
				return err
			}
			listeners, err := node.Listen(ctx)
			if err != nil {
				return err
			}
			return node.Run(ctx, listeners)
		},
	}
	cmd.Flags().StringSliceVar(&roles, "roles", nil, "roles of this process: api, worker, listener (default: all)")
	return cmd
}

func (c *commands) migrate() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Bring the database schema up to date", Args: cobra.NoArgs,
		Long: "Brings the database schema up to date. It only moves forward, several processes may run it concurrently,\nand the previous version of the server keeps working on the new schema.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			url, ok := variable(c.environ, "DATABASE_URL")
			if !ok {
				return errors.New("DATABASE_URL is not set: set it to a PostgreSQL URL, such as postgres://stagedoor:password@127.0.0.1:5432/stagedoor")
			}
			db, err := postgres.Open(cmd.Context(), postgres.Config{URL: secret.New(url), MaxConns: 4, Name: "stagedoord migrate", Patient: true})
			if err != nil {
				return err
			}
			defer db.Close()
			applied, err := postgres.Migrate(cmd.Context(), db, migrations.Files)
			if err != nil {
				return err
			}
			more, err := c.migrateKeyring(cmd.Context(), db)
			if err != nil {
				return err
			}
			applied = append(applied, more...)
			for _, name := range applied {
				fmt.Fprintln(c.out, "applied "+name)
			}
			if len(applied) == 0 {
				fmt.Fprintln(c.out, "the schema is up to date")
			}
			return nil
		},
	}
}

// migrateKeyring brings the schema of the keyring up to date, in whichever database it is.
func (c *commands) migrateKeyring(ctx context.Context, db *postgres.DB) ([]string, error) {
	if url, ok := variable(c.environ, "STAGEDOOR_KEYRING_URL"); ok {
		apart, err := postgres.Open(ctx, postgres.Config{URL: secret.New(url), MaxConns: 4, Name: "stagedoord migrate", Patient: true})
		if err != nil {
			return nil, fmt.Errorf("STAGEDOOR_KEYRING_URL: %w", err)
		}
		defer apart.Close()
		db = apart
	}
	return postgres.MigrateSchema(ctx, db, keyring.Files, keyring.Schema)
}

func (c *commands) config() *cobra.Command {
	return &cobra.Command{
		Use: "config", Short: "List every setting with its value, default and meaning", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, problem := config.Read(c.environ)
			table := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
			fmt.Fprintln(table, "VARIABLE\tVALUE\tDEFAULT\tMEANING")
			for _, v := range config.Variables() {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", v.Name, dash(v.Show(cfg)), dash(fallback(v)), v.Doc)
			}
			if err := table.Flush(); err != nil {
				return fmt.Errorf("print settings: %w", err)
			}
			return problem
		},
	}
}

func fallback(v config.Variable) string {
	if v.Need != "" {
		return "(required)"
	}
	return v.Default
}

func dash(text string) string {
	return cmp.Or(text, "-")
}

func (c *commands) openapi() *cobra.Command {
	return &cobra.Command{
		Use: "openapi", Short: "Print the OpenAPI document of the public API", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			doc, err := Document(cmd.Context())
			if err != nil {
				return err
			}
			_, err = c.out.Write(doc)
			return err
		},
	}
}

func (c *commands) health() *cobra.Command {
	return &cobra.Command{
		Use: "health", Short: "Exit 0 if the server on this host is ready", Args: cobra.NoArgs,
		Long: "Asks the server on this host whether it is ready, for health checks in images without curl.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			addr, ok := variable(c.environ, "STAGEDOOR_INTERNAL_LISTEN")
			if !ok {
				addr = "127.0.0.1:8081"
			}
			if strings.HasPrefix(addr, ":") || strings.HasPrefix(addr, "0.0.0.0:") {
				addr = "127.0.0.1" + addr[strings.IndexByte(addr, ':'):]
			}
			status, body, err := ask(cmd.Context(), http.MethodGet, "http://"+addr+"/readyz", "", nil)
			if err != nil {
				return err
			}
			fmt.Fprintln(c.out, strings.TrimSpace(string(body)))
			if status != http.StatusOK {
				return fmt.Errorf("not ready: status %d", status)
			}
			return nil
		},
	}
}

// variable returns the value of a variable; the last one wins, as in a shell.
func variable(environ []string, name string) (string, bool) {
	for i := len(environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(environ[i], name+"="); ok && value != "" {
			return value, true
		}
	}
	return "", false
}
