package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// auditVerify returns the command that verifies audit logs. It reads the database and the keyring itself, so that no node
// has to be trusted, and writes nothing.
func (c *commands) auditVerify() *cobra.Command {
	var (
		org   string
		files []string
	)
	cmd := &cobra.Command{
		Use: "verify-audit", Short: "Check that no audit entry is missing, altered or forged", Args: cobra.NoArgs,
		Long: "Checks the audit logs of all organisations and of the operators, and prints a line for everything that is wrong.\n" +
			"With anchors it also notices that the newest entries of a log were removed. It needs no running node: DATABASE_URL,\n" +
			"STAGEDOOR_KEYRING_URL and STAGEDOOR_KMS are those of the service. What to do about a finding: docs/runbooks/audit-finding.md.",
		Example: "  stagedoord admin verify-audit --anchors /mnt/anchors/audit.jsonl\n  stagedoord admin verify-audit --org org_… --anchors node1.log --anchors node2.log",
		RunE: func(cmd *cobra.Command, _ []string) error {
			only, err := parseOrgFlag(org)
			if err != nil {
				return err
			}
			url, ok := variable(c.environ, "DATABASE_URL")
			if !ok {
				return errors.New("DATABASE_URL is not set: set it to the PostgreSQL URL of the service")
			}
			return c.withSealer(cmd.Context(), func(ctx context.Context, s *seal.Sealer) error {
				status, err := s.Status(ctx)
				if err != nil {
					return err
				}
				if status.Root == (kms.Ref{}) { // deriving the key would create a root
					return errors.New("the keyring is empty: set STAGEDOOR_KEYRING_URL to that of the service")
				}
				db, err := postgres.Open(ctx, postgres.Config{URL: secret.New(url), MaxConns: 2, Name: "stagedoord admin", Patient: true})
				if err != nil {
					return err
				}
				defer db.Close()
				return c.verifyAudit(ctx, audit.New(db, s, clock.Now), only, files)
			})
		},
	}
	cmd.Flags().StringArrayVar(&files, "anchors", nil, "file with anchors (STAGEDOOR_AUDIT_ANCHORS), or a log of a node in JSON; repeatable")
	cmd.Flags().StringVar(&org, "org", "", "only this organisation")
	return cmd
}

// anchorDelay is how much older than the newest entry the newest anchor may be.
const anchorDelay = 10 * time.Minute

func (c *commands) verifyAudit(ctx context.Context, log *audit.Log, only id.Org, files []string) error {
	var (
		anchors         = audit.Anchors{}
		findings, count int
		newest          string
	)
	for _, file := range files {
		bad, err := c.readAnchors(ctx, log, file, anchors)
		if err != nil {
			return err
		}
		findings += bad
		before := count
		count = 0
		for _, list := range anchors {
			for _, a := range list {
				count, newest = count+1, max(newest, a.At)
			}
		}
		if count == before {
			return fmt.Errorf("--anchors: %s has no anchors of this service", file)
		}
	}
	done, err := log.Check(ctx, only, anchors, func(f audit.Finding) {
		findings++
		fmt.Fprintln(c.out, f)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "checked %d entries of %d logs and %d anchors; newest anchor: %s\n", done.Entries, done.Logs, count, dash(newest))
	if !done.Keyed {
		findings++
		fmt.Fprintf(c.out, "%d entries have a hash without a key, and such entries are still accepted: no worker has logged `audit log keyed` yet\n", done.Unkeyed)
	}
	// Anchors are at most minutes old where workers run.
	if at, err := time.Parse(time.RFC3339, newest); err == nil && done.Newest.Sub(at) > anchorDelay {
		findings++
		fmt.Fprintf(c.out, "the newest entry, of %s, is not anchored: the files are not the newest ones, or anchors are suppressed\n", stamp.Text(done.Newest))
	}
	if findings > 0 {
		noun := "findings"
		if findings == 1 {
			noun = "finding"
		}
		return fmt.Errorf("%d %s; see docs/runbooks/audit-finding.md", findings, noun)
	}
	return nil
}

// readAnchors adds the anchors of a file. It prints the lines that are none, and returns how many.
func (c *commands) readAnchors(ctx context.Context, log *audit.Log, file string, into audit.Anchors) (bad int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, fmt.Errorf("--anchors: %w", err)
	}
	defer f.Close()
	err = log.ReadAnchors(ctx, f, into, func(line int) {
		bad++
		fmt.Fprintf(c.out, "%s:%d: the line is damaged, or not an anchor of this service\n", file, line)
	})
	return bad, err
}
