package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// keyringSeparate reports whether the keyring is in another database than everything else. The addresses may differ for
// one and the same database, so it asks the servers.
func (e engines) keyringSeparate(ctx context.Context) (bool, error) {
	if e.keyring == e.db {
		return false, nil
	}
	keys, err := e.keyring.Identity(ctx)
	if err != nil {
		return false, err
	}
	main, err := e.db.Identity(ctx)
	return keys != main, err
}

// errSharedKeyring is why a node stops.
var errSharedKeyring = errors.New("this installation has live organisations, and their keys are in the main database, " +
	"whose backups can bring back what was deleted: set STAGEDOOR_KEYRING_URL to another database (docs/sealing.md), " +
	"or STAGEDOOR_ALLOW_SHARED_KEYRING=true")

// keyringRetry is the pause before another check if the database cannot be reached.
const keyringRetry = time.Second

// addKeyringCheck adds a check that stops the node if live organisations have their keys in the main database.
func addKeyringCheck(n *Node, eng engines, t tenants) {
	if n.cfg.SharedKeys {
		return
	}
	n.loop("keyring", func(ctx context.Context) error {
		for range clock.Every(ctx, keyringRetry) {
			err := eng.checkKeyring(ctx, t.orgs)
			if err == nil || errors.Is(err, errSharedKeyring) {
				return err
			}
			n.log.LogAttrs(ctx, slog.LevelDebug, "cannot check where the keyring is", slog.Any(logkey.Error, err))
		}
		return nil
	})
}

// addRoleCheck adds a check that warns if row-level security does not apply to the node's role in the database.
func addRoleCheck(n *Node, eng engines) {
	if n.cfg.Dev {
		return
	}
	n.loop("database role", func(ctx context.Context) error {
		for range clock.Every(ctx, keyringRetry) {
			confined, err := eng.db.Confined(ctx)
			if err != nil {
				continue // readiness reports that the database cannot be used
			}
			if !confined {
				n.log.LogAttrs(ctx, slog.LevelWarn, "row-level security does not apply: the role of DATABASE_URL owns the tables "+
					"or is exempt (docs/operations/database-roles.md)")
			}
			return nil
		}
		return nil
	})
}

// checkKeyring returns errSharedKeyring if live organisations have their keys in the main database. If there are none
// yet, refuseLive refuses the first one.
func (e engines) checkKeyring(ctx context.Context, orgs *org.Orgs) error {
	separate, err := e.keyringSeparate(ctx)
	if err != nil || separate {
		return err
	}
	live, err := orgs.AnyLive(ctx)
	if err == nil && live {
		return errSharedKeyring
	}
	return err
}

// refuseLive refuses to create a live organisation whose keys would be in the main database.
func (n *Node) refuseLive(eng engines) func(context.Context, environment.Environment) error {
	return func(ctx context.Context, env environment.Environment) error {
		if env.IsTest() || n.cfg.SharedKeys {
			return nil
		}
		separate, err := eng.keyringSeparate(ctx)
		if err != nil || separate {
			return err
		}
		return problem.ValidationFailed.New("This installation cannot have live organisations yet.").
			At("/environment", "keyring", "live organisations need STAGEDOOR_KEYRING_URL, or STAGEDOOR_ALLOW_SHARED_KEYRING=true")
	}
}
