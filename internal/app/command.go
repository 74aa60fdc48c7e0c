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
	"time"

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
	environ, unread := config.ReadFiles(environ)
	c := &commands{environ: environ, out: stdout, errs: stderr}
	root := &cobra.Command{
		Use: "stagedoord", Short: "The Stagedoor server",
		Long:          "The Stagedoor server: a managed HTTP API over connected creator accounts.\nSettings come from the environment; `stagedoord config` lists them.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.Get().String(),
		// A secret whose file cannot be read would look like one that is not set.
		PersistentPreRunE: func(*cobra.Command, []string) error { return unread },
	}
	root.AddCommand(c.serve(), c.migrate(), c.config(), c.openapi(), c.health(), c.admin(), c.seal(), c.platform(), c.version())
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
			if _, ok := variable(c.environ, "DATABASE_URL"); !ok {
				return errors.New("DATABASE_URL is not set: set it to a PostgreSQL URL, such as postgres://stagedoor:password@127.0.0.1:5432/stagedoor")
			}
			applied, err := c.migrateAll(cmd.Context())
			if err != nil {
				return err
			}
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

// migrateAll brings both schemas up to date, that of the keyring in whichever database it is.
func (c *commands) migrateAll(ctx context.Context) ([]string, error) {
	main, _ := variable(c.environ, "DATABASE_URL")
	keys, ok := variable(c.environ, "STAGEDOOR_KEYRING_URL")
	if !ok || keys == main {
		return c.migrateDatabase(ctx, "DATABASE_URL", "STAGEDOOR_MIGRATION_URL", mainSchema, keyring.Schema)
	}
	applied, err := c.migrateDatabase(ctx, "DATABASE_URL", "STAGEDOOR_MIGRATION_URL", mainSchema)
	if err != nil {
		return nil, err
	}
	more, err := c.migrateDatabase(ctx, "STAGEDOOR_KEYRING_URL", "STAGEDOOR_KEYRING_MIGRATION_URL", keyring.Schema)
	return append(applied, more...), err
}

// mainSchema is the schema of everything but the keyring.
const mainSchema = "public"

// migrateDatabase brings schemas of a database up to date, as the role that owns them. If the nodes have another role,
// it is granted the use of the schemas. The database is named by the settings with the URLs of both roles.
func (c *commands) migrateDatabase(ctx context.Context, nodes, owners string, schemas ...string) (applied []string, err error) {
	service, _ := variable(c.environ, nodes)
	owner, apart := variable(c.environ, owners)
	if !apart {
		owner, owners = service, nodes
	}
	db, err := postgres.Open(ctx, postgres.Config{URL: secret.New(owner), MaxConns: 4, Name: "stagedoord migrate", Patient: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", owners, err)
	}
	defer db.Close()
	for _, schema := range schemas {
		var names []string
		if schema == keyring.Schema {
			names, err = postgres.MigrateSchema(ctx, db, keyring.Files, schema)
		} else {
			names, err = postgres.Migrate(ctx, db, migrations.Files)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", owners, err)
		}
		applied = append(applied, names...)
	}
	if !apart {
		return applied, nil
	}
	role, err := postgres.User(secret.New(service))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nodes, err)
	}
	for _, schema := range schemas {
		if err := postgres.Grant(ctx, db, schema, role); err != nil {
			return nil, err
		}
	}
	return applied, nil
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
	var wait time.Duration
	cmd := &cobra.Command{
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
			patience, stop := context.WithTimeout(cmd.Context(), wait)
			defer stop()
			for {
				answer, err := askReady(cmd.Context(), addr)
				if err != nil && sleep(patience, time.Second) {
					continue
				}
				if answer != "" {
					fmt.Fprintln(c.out, answer)
				}
				return err
			}
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "ask every second until the server is ready, for this long")
	return cmd
}

func (c *commands) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version, and the commit and its time", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(c.out, "stagedoord version "+cmd.Root().Version)
			return nil
		},
	}
}

// askReady returns what the server answers, and an error if it is not ready.
func askReady(ctx context.Context, addr string) (string, error) {
	status, body, err := ask(ctx, http.MethodGet, "http://"+addr+"/readyz", "", nil)
	if err != nil {
		return "", err
	}
	if status != http.StatusOK {
		err = fmt.Errorf("not ready: status %d", status)
	}
	return strings.TrimSpace(string(body)), err
}

// sleep waits for d and reports whether ctx is still valid.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
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
