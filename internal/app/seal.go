package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// seal returns the commands for encryption keys. They use the keyring and the key management service directly, so they
// need no running node.
func (c *commands) seal() *cobra.Command {
	cmd := &cobra.Command{
		Use: "seal", Short: "Keys: status, rotation, verification, receipts",
		Long: "Manages the keys that encrypt sessions. See docs/sealing.md.\nSTAGEDOOR_KEYRING_URL (or DATABASE_URL) is the database of the keys, STAGEDOOR_KMS the key that wraps them.",
	}
	receipt := &cobra.Command{Use: "receipt", Short: "Receipts of deletions"}
	receipt.AddCommand(c.receiptVerify(), c.receiptKey())
	cmd.AddCommand(c.sealStatus(), c.sealRotate(), c.sealVerify(), c.sealKeygen(), receipt)
	return cmd
}

// openKMS opens the current key management service and, if there is one, the old one that keys are moved away from.
func openKMS(ctx context.Context, wraps, old kms.Settings) (kms.Wrapper, []kms.Wrapper, error) {
	newest, err := kms.Open(ctx, wraps)
	if err != nil {
		return nil, nil, fmt.Errorf("STAGEDOOR_KMS: %w", err)
	}
	if old.Key == "" {
		return newest, nil, nil
	}
	older, err := kms.Open(ctx, old)
	if err != nil {
		return nil, nil, fmt.Errorf("STAGEDOOR_KMS_OLD: %w", err)
	}
	if older.ID() == newest.ID() {
		return nil, nil, errors.New("STAGEDOOR_KMS_OLD is the same key as STAGEDOOR_KMS: remove it, because versions of one key need no second setting")
	}
	return newest, []kms.Wrapper{older}, nil
}

// kmsSettings reads the settings of both services.
func (c *commands) kmsSettings() (wraps, old kms.Settings) {
	get := func(name string) string {
		value, _ := variable(c.environ, name)
		return value
	}
	wraps = kms.Settings{
		Key: get("STAGEDOOR_KMS"), Token: secret.New(get("STAGEDOOR_KMS_TOKEN")), TokenFile: get("STAGEDOOR_KMS_TOKEN_FILE"),
		Namespace: get("STAGEDOOR_KMS_NAMESPACE"), RootsFile: get("STAGEDOOR_KMS_ROOTS"), Endpoint: get("STAGEDOOR_KMS_ENDPOINT"),
	}
	old = kms.Settings{Key: get("STAGEDOOR_KMS_OLD"), TokenFile: get("STAGEDOOR_KMS_OLD_TOKEN_FILE"), Namespace: wraps.Namespace, RootsFile: wraps.RootsFile}
	return wraps, old
}

// withSealer opens the keyring and calls do.
func (c *commands) withSealer(ctx context.Context, do func(context.Context, *seal.Sealer) error) error {
	url, ok := variable(c.environ, "STAGEDOOR_KEYRING_URL")
	if !ok {
		if url, ok = variable(c.environ, "DATABASE_URL"); !ok {
			return errors.New("neither STAGEDOOR_KEYRING_URL nor DATABASE_URL is set: set one to the PostgreSQL URL of the keyring")
		}
	}
	wraps, old := c.kmsSettings()
	newest, older, err := openKMS(ctx, wraps, old)
	if err != nil {
		return err
	}
	db, err := postgres.Open(ctx, postgres.Config{URL: secret.New(url), MaxConns: 4, Name: "stagedoord seal", Patient: true})
	if err != nil {
		return err
	}
	defer db.Close()
	return do(ctx, seal.New(seal.Deps{
		Config: seal.Config{}, DB: db, Separate: nil, KMS: newest, OldKMS: older, Bus: nil, Registry: nil,
		Log: slog.New(slog.DiscardHandler), Now: clock.Now,
	}))
}

func (c *commands) sealStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Count keys by what wraps them", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withSealer(cmd.Context(), func(ctx context.Context, s *seal.Sealer) error {
				status, err := s.Status(ctx)
				if err != nil {
					return err
				}
				if err := c.printStatus(status); err != nil {
					return err
				}
				return status.KMSError
			})
		},
	}
}

func (c *commands) printStatus(s seal.Status) error {
	table := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	newest := "unknown: the key management service is not available"
	if s.KMSError == nil {
		newest = show(s.Newest)
	}
	fmt.Fprintf(table, "wraps now\t%s\n", newest)
	fmt.Fprintf(table, "root\t%s\n", show(s.Root))
	outdated := 0
	for _, k := range s.OrgKeys {
		note := ""
		if s.KMSError == nil && k.By != s.Newest {
			note, outdated = "\t(older)", outdated+k.Keys
		}
		fmt.Fprintf(table, "org keys\t%d\tby %s%s\n", k.Keys, show(k.By), note)
	}
	fmt.Fprintf(table, "data keys\t%d\tof %d orgs, %d of a later generation\n", s.DataKeys, s.Orgs, s.Renewed)
	fmt.Fprintf(table, "holders\t%d\t%d destroyed recently\n", s.Holders, s.Shredded)
	fmt.Fprintf(table, "to re-wrap\t%d\tdata keys, %d org keys\n", s.Waiting, outdated)
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	if s.Waiting+outdated > 0 {
		fmt.Fprintln(c.out, "The nodes re-wrap them automatically; `stagedoord seal rotate --kms-only` does it now.")
	}
	return nil
}

func show(r kms.Ref) string {
	if r == (kms.Ref{}) {
		return "none yet"
	}
	return fmt.Sprintf("%s version %d", r.ID, r.Version)
}

// parseOrgFlag parses the value of --org. It returns an empty id for an empty value, which means all organisations.
func parseOrgFlag(text string) (id.Org, error) {
	if text == "" {
		return "", nil
	}
	org, err := id.Parse[id.Org](text)
	if err != nil {
		return "", fmt.Errorf("--org %s: %w", text, err)
	}
	return org, nil
}

func (c *commands) sealRotate() *cobra.Command {
	var (
		org     string
		kmsOnly bool
	)
	cmd := &cobra.Command{
		Use: "rotate", Short: "Give orgs new keys and re-wrap the data keys", Args: cobra.NoArgs,
		Long: "Gives every org a new key, re-wraps all data keys with it, and deletes the old ones. The service keeps running, and\n" +
			"encrypted data is not changed. If it is interrupted, the nodes finish it; run it again to watch.",
		Example: "  stagedoord seal rotate\n  stagedoord seal rotate --org org_…\n  stagedoord seal rotate --kms-only   # after the key management service got a new key version or was replaced",
		RunE: func(cmd *cobra.Command, _ []string) error {
			only, err := parseOrgFlag(org)
			if err != nil {
				return err
			}
			return c.withSealer(cmd.Context(), func(ctx context.Context, s *seal.Sealer) error {
				if !kmsOnly {
					n, err := s.Rotate(ctx, only)
					fmt.Fprintf(c.out, "%d orgs have a new key\n", n)
					if err != nil {
						return err
					}
				}
				return c.rewrap(ctx, s)
			})
		},
	}
	cmd.Flags().StringVar(&org, "org", "", "only this organisation")
	cmd.Flags().BoolVar(&kmsOnly, "kms-only", false, "create no new org keys; only re-wrap outdated keys")
	cmd.MarkFlagsMutuallyExclusive("org", "kms-only")
	return cmd
}

// rewrap re-wraps until nothing is left, or waits for the node that is doing it.
func (c *commands) rewrap(ctx context.Context, s *seal.Sealer) error {
	for {
		done, err := s.Rewrap(ctx)
		if errors.Is(err, seal.ErrBusy) {
			status, err := s.Status(ctx)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.out, "a node is re-wrapping: %d data keys left\n", status.Waiting)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(2 * time.Second):
			}
			continue
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(c.out, "re-wrapped %d org keys and %d data keys, deleted %d org keys\n", done.OrgKeys, done.DataKeys, done.Dropped)
		if done.Corrupt > 0 {
			return fmt.Errorf("%d keys are corrupt and were not changed; `stagedoord seal verify` lists them", done.Corrupt)
		}
		status, err := s.Status(ctx)
		if err != nil || status.Waiting == 0 {
			return err
		}
	}
}

func (c *commands) sealVerify() *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Open every key and list those that fail", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withSealer(cmd.Context(), func(ctx context.Context, s *seal.Sealer) error {
				done, err := s.Verify(ctx, func(f seal.Fault) {
					switch {
					case f.Org == "":
						fmt.Fprintln(c.out, "corrupt: the root")
					case f.Holder == "":
						fmt.Fprintf(c.out, "corrupt: key %d of %s\n", f.Version, f.Org)
					default:
						fmt.Fprintf(c.out, "corrupt: data key %d of %s of %s\n", f.Version, f.Holder, f.Org)
					}
				})
				if err != nil {
					return err
				}
				fmt.Fprintf(c.out, "opened %d root, %d org keys and %d data keys\n", done.Root, done.OrgKeys, done.DataKeys)
				if done.Corrupt > 0 {
					return fmt.Errorf("%d keys cannot be opened; restore the keyring, or reconnect their accounts", done.Corrupt)
				}
				return nil
			})
		},
	}
}

func (c *commands) sealKeygen() *cobra.Command {
	return &cobra.Command{
		Use: "keygen FILE", Short: "Create a local keyset, or add a version to it", Args: cobra.ExactArgs(1),
		Long: "Creates the file for STAGEDOOR_KMS=local:FILE, or adds a version that wraps from now on. Copy it to every node, and\nkeep a copy separate from all database backups: without it no encrypted data can be read.",
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := filepath.Abs(args[0])
			if err != nil {
				return fmt.Errorf("find %s: %w", args[0], err)
			}
			_, err = os.Stat(file)
			created := errors.Is(err, fs.ErrNotExist)
			local, err := kms.OpenLocal(kms.LocalConfig{File: file, Create: true})
			if err != nil {
				return err
			}
			if created {
				fmt.Fprintf(c.out, "created; set STAGEDOOR_KMS=local:%s\n", file)
				return nil
			}
			ref, err := local.Rotate()
			if err != nil {
				return err
			}
			fmt.Fprintf(c.out, "version %d wraps from now on; run `stagedoord seal rotate --kms-only` once every node has the file\n", ref.Version)
			return nil
		},
	}
}

func (c *commands) receiptKey() *cobra.Command {
	return &cobra.Command{
		Use: "key", Short: "Print the public key that verifies receipts", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withSealer(cmd.Context(), func(ctx context.Context, s *seal.Sealer) error {
				key, err := s.PublicKey(ctx)
				if err != nil {
					return err
				}
				fmt.Fprintln(c.out, key)
				return nil
			})
		},
	}
}

func (c *commands) receiptVerify() *cobra.Command {
	var text string
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Check a receipt; works without the service and the database", Args: cobra.ExactArgs(1),
		Example: "  stagedoord seal receipt verify receipt.json --key rBtYk…",
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := seal.ParsePublicKey(text)
			if err != nil {
				return fmt.Errorf("--key: %w", err)
			}
			signed, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("read receipt: %w", err)
			}
			r, err := seal.VerifyReceipt(signed, key)
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
			fmt.Fprintf(table, "valid\tsigned by key %s\naccount\t%s\norg\t%s\n", key.ID(), dash(string(r.Account)), r.Org)
			fmt.Fprintf(table, "data key\t%s\nkeyring\t%s\n", dash(r.DataKey), dash(r.Keyring))
			fmt.Fprintf(table, "covers\t%s\npurged at\t%s\n", dash(strings.Join(r.Covers, ", ")), r.PurgedAt.Format(time.RFC3339))
			return table.Flush()
		},
	}
	cmd.Flags().StringVar(&text, "key", "", "the public key, as `stagedoord seal receipt key` and GET /v1/receipt-keys have it")
	must(cmd.MarkFlagRequired("key"))
	return cmd
}
