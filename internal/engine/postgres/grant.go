package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// User returns the name of the role in a URL.
func User(url secret.String) (string, error) {
	cfg, err := pgconn.ParseConfig(url.Reveal())
	if err != nil {
		return "", errors.New("not a PostgreSQL URL") // the parser's error contains the password
	}
	return cfg.User, nil
}

// Grant lets a role use what is in a schema: read and write the tables, call the functions. The role owns nothing, so
// row-level security applies to it. It may only insert into partitions, which have no policies of their own. Grant runs
// after every migration, as the owner, and is idempotent. Any number of nodes may call it concurrently.
func Grant(ctx context.Context, db *DB, schema, role string) error {
	quoted, to := pgx.Identifier{schema}.Sanitize(), pgx.Identifier{role}.Sanitize()
	err := db.Tx(ctx, func(tx Tx) error {
		// PostgreSQL fails one of two sessions that grant rights on the same object.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", migrationLock); err != nil {
			return err
		}
		if err := checkRole(ctx, tx, schema, role); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT relname::text, relispartition FROM pg_class
			WHERE relnamespace = $1::text::regnamespace AND relkind IN ('r', 'p') AND relname <> 'goose_db_version'`, schema)
		if err != nil {
			return err
		}
		statements := []string{
			"GRANT USAGE ON SCHEMA " + quoted + " TO " + to,
			"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA " + quoted + " TO " + to,
			"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA " + quoted + " TO " + to,
		}
		var (
			table  string
			isPart bool
		)
		_, err = pgx.ForEachRow(rows, []any{&table, &isPart}, func() error {
			may := "SELECT, INSERT, UPDATE, DELETE"
			if isPart {
				may = "INSERT"
			}
			statements = append(statements, "GRANT "+may+" ON "+pgx.Identifier{schema, table}.Sanitize()+" TO "+to)
			return nil
		})
		if err != nil {
			return err
		}
		statements = append(statements, "GRANT SELECT ON "+pgx.Identifier{schema, "goose_db_version"}.Sanitize()+" TO "+to)
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("grant the role %s the use of the schema %s: %w", role, schema, err)
	}
	return nil
}

// checkRole returns an error if row-level security would not apply to a role.
func checkRole(ctx context.Context, tx Tx, schema, role string) error {
	var exempt, owns bool
	err := tx.QueryRow(ctx, `SELECT rolsuper OR rolbypassrls, EXISTS (
			SELECT FROM pg_class WHERE relnamespace = $2::text::regnamespace AND relkind IN ('r', 'p') AND pg_has_role(r.oid, relowner, 'USAGE')
		) FROM pg_roles r WHERE rolname = $1`, role, schema).Scan(&exempt, &owns)
	switch {
	case errors.Is(err, ErrNoRows):
		return errors.New("there is no such role; create it with CREATE ROLE … LOGIN")
	case err != nil:
		return err
	case exempt:
		return errors.New("the role is a superuser or has BYPASSRLS; row-level security does not apply to it")
	case owns:
		return errors.New("the role owns tables, or belongs to a role that does; row-level security does not apply to it")
	}
	return nil
}

// Confined reports whether row-level security applies to the role of this connection.
func (db *DB) Confined(ctx context.Context) (bool, error) {
	var confined bool
	err := db.pool.QueryRow(ctx, "SELECT row_security_active('org')").Scan(&confined)
	if err != nil {
		return false, fmt.Errorf("find out whether row-level security applies: %w", err)
	}
	return confined, nil
}
