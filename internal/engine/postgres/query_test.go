package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// The error of a generated query names its package and the query, and still wraps the cause.
func TestErrorsNameTheQuery(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := lease.Overview(ended, db)
	wantNamed(t, err, "lease.AllNodes: ", context.Canceled)

	const noRow = "-- name: Missing :one\nSELECT 1 WHERE false"
	var one int
	wantNamed(t, db.QueryRow(t.Context(), noRow).Scan(&one), "Missing: ", postgres.ErrNoRows)
	err = db.Tx(t.Context(), func(tx postgres.Tx) error { return tx.QueryRow(t.Context(), noRow).Scan(&one) })
	wantNamed(t, err, "Missing: ", postgres.ErrNoRows)

	const tooLate = "-- name: Division :many\nSELECT 1 / (3 - n) FROM generate_series(1, 3) n"
	err = db.Snapshot(t.Context(), func(tx postgres.Tx) error {
		rows, err := tx.Query(t.Context(), tooLate)
		if err != nil {
			return err
		}
		for rows.Next() {
		}
		return rows.Err()
	})
	wantNamed(t, err, "Division: ", nil)
}

func wantNamed(t *testing.T, err error, name string, cause error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), name) || cause != nil && !errors.Is(err, cause) {
		t.Errorf("the error is %v; want one that contains %q and wraps %v", err, name, cause)
	}
}
