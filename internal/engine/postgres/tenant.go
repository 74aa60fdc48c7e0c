package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
)

// Row-level security is the second ring around a tenant's data. Every statement runs in a transaction that says whose
// rows it may see, and the policies of the tables enforce it, even if the condition on the organisation is missing in
// a query. What it may see comes from the context: one organisation (WithOrg) or all of them (WithAllOrgs). With
// Config.RequireOrg, a context with neither is an error.

// allOrgs is the value of the setting for statements that may see the rows of all organisations.
const allOrgs = "*"

// orgSetting is the setting that the policies compare with the organisation of a row.
const orgSetting = "stagedoor.org"

type orgKey struct{}

// WithOrg returns a context whose statements see the rows of one organisation.
func WithOrg[Org ~string](ctx context.Context, org Org) context.Context {
	return context.WithValue(ctx, orgKey{}, string(org))
}

// WithAllOrgs returns a context whose statements see the rows of all organisations. It is for background work, for
// operators, and for finding out which organisation a key, cookie or token belongs to.
func WithAllOrgs(ctx context.Context) context.Context {
	return context.WithValue(ctx, orgKey{}, allOrgs)
}

// ForAllOrgs returns the same database without Config.RequireOrg, for what has no rows of organisations.
func (db *DB) ForAllOrgs() *DB {
	all := *db
	all.requireOrg = false
	return &all
}

// errNoOrg means that a caller has not said whose rows a statement may see.
var errNoOrg = errors.New("the context names no organisation; use WithOrg or WithAllOrgs")

// orgPattern is what an organisation may be, since it becomes part of a statement.
var orgPattern = regexp.MustCompile(`^(\*|[A-Za-z0-9_-]{1,64})$`)

// orgOf returns the value of the setting for a context.
func (db *DB) orgOf(ctx context.Context) (string, error) {
	org, ok := ctx.Value(orgKey{}).(string)
	switch {
	case !ok && db.requireOrg:
		return "", errNoOrg
	case !ok:
		return allOrgs, nil
	case !orgPattern.MatchString(org):
		return "", fmt.Errorf("%q is not the id of an organisation", org)
	}
	return org, nil
}

// begin returns the options of a transaction that starts with the setting, in the same round trip.
func (db *DB) begin(ctx context.Context, how string) (pgx.TxOptions, error) {
	org, err := db.orgOf(ctx)
	return pgx.TxOptions{BeginQuery: "BEGIN " + how + "; SET LOCAL " + orgSetting + " = '" + org + "'" + db.setInTx}, err
}

// setting returns the expression that sets a setting until the end of the transaction.
func setting(name, value string) string { return "set_config('" + name + "', " + value + ", true)" }

// send sends a single statement, with the setting before it. Both form one transaction.
func (db *DB) send(ctx context.Context, sql string, args []any) (pgx.BatchResults, error) {
	org, err := db.orgOf(ctx)
	if err != nil {
		return nil, err
	}
	b := pgx.Batch{}
	b.Queue(db.setOrg, org)
	b.Queue(sql, args...)
	results := db.pool.SendBatch(ctx, &b)
	if _, err := results.Exec(); err != nil {
		_ = results.Close()
		return nil, err
	}
	return results, nil
}

// tenantRows are the rows of a single statement. The transaction ends with the rows, so its error is theirs.
type tenantRows struct {
	pgx.Rows
	results pgx.BatchResults
	sql     string
	err     error
}

func (r *tenantRows) Next() bool {
	if r.results != nil && r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *tenantRows) Close() {
	r.Rows.Close()
	if r.results != nil {
		r.err = r.results.Close()
		r.results = nil
	}
}

func (r *tenantRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return nameQuery(r.sql, err)
	}
	return nameQuery(r.sql, r.err)
}

func (r *tenantRows) Scan(into ...any) error { return nameQuery(r.sql, r.Rows.Scan(into...)) }

// tenantRow is the row of a single statement.
type tenantRow struct {
	results pgx.BatchResults
	sql     string
	err     error
}

func (r tenantRow) Scan(into ...any) error {
	if r.err != nil {
		return nameQuery(r.sql, r.err)
	}
	err := r.results.QueryRow().Scan(into...)
	if end := r.results.Close(); err == nil {
		err = end
	}
	return nameQuery(r.sql, err)
}
