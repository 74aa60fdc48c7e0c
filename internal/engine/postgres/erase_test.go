package postgres_test

import (
	"slices"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// TablesWith lists each table before those that it refers to, a partitioned table once, and no table of another schema.
// DeleteRows deletes the rows with the value in all partitions, and no other row, even if it has the same position in
// another partition.
func TestDeleteRowsDeletesOnlyRowsWithTheValue(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	ctx := t.Context()
	for _, statement := range []string{
		"CREATE TABLE a_parent (zoo text, id text PRIMARY KEY)",
		"CREATE TABLE b_child (zoo text, parent text REFERENCES a_parent (id))",
		"CREATE TABLE c_days (zoo text, day integer) PARTITION BY RANGE (day)",
		"CREATE TABLE c_days_1 PARTITION OF c_days FOR VALUES FROM (1) TO (2)",
		"CREATE TABLE c_days_2 PARTITION OF c_days FOR VALUES FROM (2) TO (3)",
		"CREATE SCHEMA elsewhere",
		"CREATE TABLE elsewhere.other (zoo text)",
		"INSERT INTO a_parent VALUES ('mine', '1'), ('theirs', '2')",
		"INSERT INTO b_child VALUES ('mine', '1'), ('theirs', '2')",
		"INSERT INTO c_days VALUES ('mine', 1), ('mine', 1), ('theirs', 2), ('mine', 2)",
	} {
		_, err := db.Pool().Exec(ctx, statement)
		must.OK(t, err)
	}
	tables, err := db.TablesWith(ctx, "zoo")
	if err != nil || !slices.Equal(tables, []string{"b_child", "a_parent", "c_days"}) {
		t.Fatalf("%v %v", tables, err)
	}
	for i, want := range []int64{1, 1, 3} {
		if n, err := db.DeleteRows(ctx, tables[i], "zoo", "mine"); err != nil || n != want {
			t.Errorf("%s: %d rows, %v", tables[i], n, err)
		}
		var mine, theirs int
		must.OK(t, db.Pool().QueryRow(ctx, `SELECT count(*) FILTER (WHERE zoo = 'mine'), count(*) FILTER (WHERE zoo = 'theirs')
			FROM `+tables[i]).Scan(&mine, &theirs))
		if mine != 0 || theirs != 1 {
			t.Errorf("%s: %d and %d rows are left", tables[i], mine, theirs)
		}
	}
}
