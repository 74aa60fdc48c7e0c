package app_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stagedoor/stagedoor/internal/app"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// A node stops if live organisations have their keys in the main database, also if its address is written in another
// way. Test organisations may share it, and a database of its own is always good.
func TestLiveOrganisationsNeedASeparateKeyring(t *testing.T) {
	t.Parallel()
	url := testenv.DatabaseURL(t)
	open := func(name string) *postgres.DB {
		db, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 2, Name: name})
		must.OK(t, err)
		t.Cleanup(db.Close)
		return db
	}
	main, again, apart := open("main"), open("again"), testenv.Postgres(t)
	owner := testenv.AddOrg(t, main)
	for _, keyring := range []*postgres.DB{main, again, apart} {
		must.OK(t, app.CheckKeyring(t.Context(), main, keyring))
	}
	_, err := main.Pool().Exec(t.Context(), "UPDATE org SET environment = 'live' WHERE id = $1", owner)
	must.OK(t, err)
	for keyring, refused := range map[*postgres.DB]bool{main: true, again: true, apart: false} {
		if err := app.CheckKeyring(t.Context(), main, keyring); (err != nil) != refused {
			t.Errorf("refused %t: %v", refused, err)
		}
	}
}

// A separate keyring has an owner, who migrates it, and a role of the nodes, which owns nothing: a node uses the keys
// with it, and row-level security applies. Migrations refuse the owner as the role of the nodes.
func TestNodesOwnNothingInASeparateKeyring(t *testing.T) {
	t.Parallel()
	owner, keys := testenv.DatabaseURL(t), testenv.EmptyDatabase(t)
	service := testenv.AsService(keys)
	environ := []string{
		"DATABASE_URL=" + testenv.AsService(owner).Reveal(), "STAGEDOOR_MIGRATION_URL=" + owner.Reveal(),
		"STAGEDOOR_KEYRING_URL=" + service.Reveal(), "STAGEDOOR_KEYRING_MIGRATION_URL=" + keys.Reveal(),
	}
	for range 2 {
		if code, stdout, stderr := run(t, environ, "migrate"); code != 0 {
			t.Fatalf("%d\n%s%s", code, stdout, stderr)
		}
	}
	db, err := postgres.Open(t.Context(), postgres.Config{URL: service, MaxConns: 2, Name: "keys", RequireOrg: true})
	must.OK(t, err)
	t.Cleanup(db.Close)
	const insert = "INSERT INTO keyring.org_key (org_id, version, kms_id, kms_version, wrapped, made_at) VALUES ('org_a', 1, '', 1, '', now())"
	_, err = db.Exec(postgres.WithOrg(t.Context(), "org_a"), insert)
	must.OK(t, err)
	for org, want := range map[string]int{"org_a": 1, "org_b": 0} {
		var count int
		must.OK(t, db.QueryRow(postgres.WithOrg(t.Context(), org), "SELECT count(*) FROM keyring.org_key").Scan(&count))
		if count != want {
			t.Errorf("%s sees %d keys; want %d", org, count, want)
		}
	}
	if _, err := db.Exec(postgres.WithAllOrgs(t.Context()), "DROP TABLE keyring.data_key"); err == nil {
		t.Error("the role of the nodes dropped a table of the keyring")
	}
	environ[2] = "STAGEDOOR_KEYRING_URL=" + keys.Reveal()
	if code, _, stderr := run(t, environ, "migrate"); code == 0 || !strings.Contains(stderr, "superuser") {
		t.Errorf("the owner as the role of the nodes: %d\n%s", code, stderr)
	}
}

// Several processes may migrate the same databases concurrently, such as a job that is started twice: each of them
// succeeds, and each migration is applied once.
func TestSeveralProcessesMigrateConcurrently(t *testing.T) {
	t.Parallel()
	owner, keys := testenv.EmptyDatabase(t), testenv.EmptyDatabase(t)
	environ := []string{
		"DATABASE_URL=" + testenv.AsService(owner).Reveal(), "STAGEDOOR_MIGRATION_URL=" + owner.Reveal(),
		"STAGEDOOR_KEYRING_URL=" + testenv.AsService(keys).Reveal(), "STAGEDOOR_KEYRING_MIGRATION_URL=" + keys.Reveal(),
	}
	for round, want := range []int{1, 0, 0} {
		var (
			wait    sync.WaitGroup
			applied atomic.Int64
		)
		for range 4 {
			wait.Go(func() {
				code, stdout, stderr := run(t, environ, "migrate")
				if code != 0 {
					t.Errorf("round %d: %d\n%s%s", round, code, stdout, stderr)
				}
				if strings.Contains(stdout, "applied 0001_org.sql") {
					applied.Add(1)
				}
			})
		}
		wait.Wait()
		if got := int(applied.Load()); got != want {
			t.Errorf("round %d: %d processes applied the first migration; want %d", round, got, want)
		}
	}
}

// A node with a separate keyring starts, and reports the connections to both databases.
func TestNodesRunWithASeparateKeyring(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, testnode.Setup{Keyring: testenv.AsService(testenv.DatabaseURL(t))})[0]
	metrics := string(node.Operate(t, http.MethodGet, "/metrics", nil).Body)
	for _, pool := range []string{"main", "keyring"} {
		if !strings.Contains(metrics, `stagedoor_postgres_connections_max{pool="`+pool+`"}`) {
			t.Errorf("no connections of the pool %s are reported", pool)
		}
	}
}
