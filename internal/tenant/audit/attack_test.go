package audit_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// kept is a log with a Keeper. The keyring is in a database of its own.
type kept struct {
	*audit.Log
	t      *testing.T
	db     *postgres.DB
	sealer audit.Sealer
	// file has the anchors, and lines the log of the Keeper.
	file  string
	lines *bytes.Buffer
	// canKey is what CanKey of the Keeper returns.
	canKey bool
}

func newKept(t *testing.T) *kept {
	t.Helper()
	k := &kept{t: t, db: testenv.Postgres(t), file: filepath.Join(t.TempDir(), "anchors"), lines: &bytes.Buffer{}, canKey: true}
	k.sealer = sealtest.New(t, testenv.Postgres(t), nil)
	k.restart()
	return k
}

// restart forgets what the node has in memory.
func (k *kept) restart() {
	k.Log = audit.New(k.db, k.sealer, func() time.Time { return time.Now().UTC() })
}

func (k *kept) deps() audit.KeeperDeps {
	return audit.KeeperDeps{
		DB: k.db, Audit: k.Log, File: k.file, CanKey: func() bool { return k.canKey }, Log: slog.New(slog.NewJSONHandler(k.lines, nil)),
	}
}

func (k *kept) round() error { return audit.NewKeeper(k.deps()).Round(k.t.Context()) }

func (k *kept) record(org id.Org, n int) {
	k.t.Helper()
	for i := range n {
		must.OK(k.t, record(k.t.Context(), k.Log, k.db, org, i))
	}
}

// anchors reads the file.
func (k *kept) anchors() audit.Anchors {
	k.t.Helper()
	text, err := os.ReadFile(k.file)
	must.OK(k.t, err)
	return k.parse(text)
}

func (k *kept) parse(text []byte) audit.Anchors {
	k.t.Helper()
	all := audit.Anchors{}
	must.OK(k.t, k.ReadAnchors(k.t.Context(), bytes.NewReader(text), all, func(line int) { k.t.Errorf("line %d is no anchor", line) }))
	return all
}

// check returns what Check finds.
func (k *kept) check(anchors audit.Anchors) (found []string) {
	k.t.Helper()
	_, err := k.Check(k.t.Context(), "", anchors, func(f audit.Finding) { found = append(found, f.String()) })
	must.OK(k.t, err)
	return found
}

func (k *kept) exec(sql string, args ...any) {
	k.t.Helper()
	_, err := k.db.Pool().Exec(k.t.Context(), sql, args...)
	must.OK(k.t, err)
}

// stored reads the entries of a log.
func (k *kept) stored(org id.Org) []audit.Entry {
	k.t.Helper()
	rows, err := k.db.Pool().Query(k.t.Context(), `SELECT seq, id, at, actor_kind, actor_id, actor_label, action, target, request_id, ip_hash, changes::text
		FROM audit_entry WHERE org_id = $1 ORDER BY seq`, org)
	must.OK(k.t, err)
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e audit.Entry, err error) {
		var changes string
		err = row.Scan(&e.Seq, &e.ID, &e.At, &e.By.Kind, &e.By.ID, &e.By.Label, &e.By.Action, &e.Target, &e.By.Request, &e.By.IPHash, &changes)
		e.Changes = []byte(changes)
		return e, err
	})
	must.OK(k.t, err)
	return list
}

// recompute gives a log hashes without a key, as an attacker can who knows everything but the keyring.
func (k *kept) recompute(org id.Org, keyID string) {
	k.t.Helper()
	var previous []byte
	for _, e := range k.stored(org) {
		previous = audit.OldHash(previous, org, e)
		k.exec("UPDATE audit_entry SET hash = $1, key_id = $2 WHERE org_id = $3 AND seq = $4", previous, keyID, org, e.Seq)
	}
	k.exec("UPDATE audit_head SET hash = $1 WHERE org_id = $2", previous, org)
}

// cut removes the newest entries of a log and moves its head back.
func (k *kept) cut(org id.Org, last int64) {
	k.t.Helper()
	k.exec("DELETE FROM audit_entry WHERE org_id = $1 AND seq > $2", org, last)
	k.exec("UPDATE audit_head SET seq = $2, hash = (SELECT hash FROM audit_entry WHERE org_id = $1 AND seq = $2) WHERE org_id = $1", org, last)
}

// remove removes a log and its head.
func (k *kept) remove(org id.Org) {
	k.t.Helper()
	k.exec("DELETE FROM audit_entry WHERE org_id = $1", org)
	k.exec("DELETE FROM audit_head WHERE org_id = $1", org)
}

// Someone who can write everything in the main database, and nothing in the keyring, cannot change, remove, add, move or
// forge an entry that was anchored without a finding. What needs no anchors is found without.
func TestAWriterOfTheDatabaseCannotForgeTheLog(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	org, other, keyID := testenv.AddOrg(t, k.db), testenv.AddOrg(t, k.db), ""
	k.record(org, 5)
	k.record(other, 5)
	k.record(audit.Operators, 2)
	must.OK(t, k.round())
	k.record(org, 2)
	must.OK(t, k.round())
	must.OK(t, k.db.Pool().QueryRow(t.Context(), "SELECT key_id FROM audit_entry LIMIT 1").Scan(&keyID))
	k.exec("CREATE TABLE entries AS TABLE audit_entry")
	k.exec("CREATE TABLE heads AS TABLE audit_head")
	anchors := k.anchors()
	if found := k.check(anchors); len(found) > 0 || len(anchors[org]) != 2 || keyID == "" {
		t.Fatalf("before the attacks: %v %v", found, anchors)
	}
	const altered, unkeyed = "altered, or not written by this service", "not written by this service: no keyed hash"
	type attack struct {
		do func()
		// want is the end of a finding about org. Without anchors there is one as well, unless anchored is set.
		want     string
		anchored bool
	}
	sql := func(text string) func() { return func() { k.exec(text, org) } }
	attacks := map[string]attack{
		"remove from the middle":  {sql("DELETE FROM audit_entry WHERE org_id = $1 AND seq = 3"), "entry 3 is missing", false},
		"remove the first":        {sql("DELETE FROM audit_entry WHERE org_id = $1 AND seq <= 2"), "entries 1 to 2 are missing", false},
		"remove the newest":       {sql("DELETE FROM audit_entry WHERE org_id = $1 AND seq > 5"), "entries 6 to 7 are missing", false},
		"cut the log":             {func() { k.cut(org, 5) }, "entries 6 to 7 are missing, although entry 7 was anchored at " + anchors[org][1].At, true},
		"remove the log":          {func() { k.remove(org) }, "entries 1 to 7 are missing, although entry 7 was anchored at " + anchors[org][1].At, true},
		"replay an older head":    {func() { k.cut(org, 5); k.record(org, 3) }, "entry 7 is not the one that was anchored at " + anchors[org][1].At, true},
		"move the head back":      {sql("WITH gone AS (DELETE FROM audit_entry WHERE org_id = $1 AND seq = 7) UPDATE audit_head SET seq = 6, hash = '' WHERE org_id = $1"), "entry 6 is not what the head of the log refers to", false},
		"remove the head":         {sql("DELETE FROM audit_head WHERE org_id = $1"), "entry 7 is not what the head of the log refers to", false},
		"recompute without a key": {func() { k.recompute(org, "") }, "entries 1 to 7 are " + unkeyed, false},
		"recompute, with its id":  {func() { k.recompute(org, keyID) }, "entries 1 to 7 are " + altered, false},
		"add before the first":    {sql("INSERT INTO audit_entry SELECT org_id, -seq, id || 'x', at, actor_kind, actor_id, actor_label, action, target, request_id, ip_hash, changes, hash, key_id FROM audit_entry WHERE org_id = $1 AND seq = 2"), "entry -2 is numbered lower than the first entry", false},
		"repeat the newest": {sql("WITH e AS (INSERT INTO audit_entry SELECT org_id, 8, id || 'x', at, actor_kind, actor_id, actor_label, action, target, request_id, ip_hash, changes, hash, key_id FROM audit_entry WHERE org_id = $1 AND seq = 7)" +
			" UPDATE audit_head SET seq = 8 WHERE org_id = $1"), "entry 8 is " + altered, false},
		"exchange two entries": {func() {
			k.exec("UPDATE audit_entry SET seq = -seq WHERE org_id = $1 AND seq IN (3, 4)", org)
			k.exec("UPDATE audit_entry SET seq = 7 + seq WHERE org_id = $1 AND seq < 0", org)
		}, "entries 3 to 5 are " + altered, false},
		"exchange with another org": {func() {
			for _, table := range []string{"audit_entry", "audit_head"} {
				k.exec("UPDATE "+table+" SET org_id = CASE org_id WHEN $1::text THEN $2::text ELSE $1::text END || 'x' WHERE org_id IN ($1::text, $2::text)", org, other)
				k.exec("UPDATE " + table + " SET org_id = left(org_id, -1) WHERE org_id LIKE '%x'")
			}
		}, "entries 1 to 5 are " + altered, false},
		"have it keyed again": {func() {
			k.exec("UPDATE audit_entry SET target = 'x' WHERE org_id = $1", org)
			k.recompute(org, "")
			k.restart()
			must.OK(t, k.round())
		}, "entries 1 to 7 are " + unkeyed, false},
	}
	for column, change := range map[string]string{
		"org_id": "'org_other'", "seq": "100", "id": "'aud_other'", "at": "at + interval '1 microsecond'", "actor_kind": "'system'", "actor_id": "'key_2'",
		"actor_label": "'cj'", "action": "'key.list'", "target": "'x'", "request_id": "'req_2'", "ip_hash": "''", "changes": "'{}'",
		"hash": `'\x00'`, "key_id": "'0000000000000000'",
	} {
		want := "entry 3 is "
		switch column {
		case "org_id", "seq":
			want = "entry 3 is missing"
		case "hash":
			want = "entries 3 to 4 are " + altered
		}
		attacks["change "+column] = attack{sql("UPDATE audit_entry SET " + column + " = " + change + " WHERE org_id = $1 AND seq = 3"), want, false}
	}
	var columns int
	must.OK(t, k.db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM information_schema.columns WHERE table_name = 'audit_entry'").Scan(&columns))
	for name, a := range attacks {
		if strings.HasPrefix(name, "change ") {
			columns--
		}
		a.do()
		has := func(found []string) bool {
			return slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, string(org)+": "+a.want) })
		}
		if found := k.check(anchors); !has(found) {
			t.Errorf("%s: %q, want %q", name, found, a.want)
		}
		if found := k.check(nil); has(found) == a.anchored {
			t.Errorf("%s, without anchors: %q", name, found)
		}
		if _, err := k.Verify(t.Context(), org); audit.IsBroken(err) == a.anchored {
			t.Errorf("%s: Verify returns %v", name, err)
		}
		k.exec("TRUNCATE audit_entry, audit_head")
		k.exec("INSERT INTO audit_entry SELECT * FROM entries")
		k.exec("INSERT INTO audit_head SELECT * FROM heads")
	}
	if columns != 0 {
		t.Errorf("%d columns of audit_entry are not attacked", columns)
	}
	if found := k.check(anchors); len(found) > 0 {
		t.Errorf("after the attacks: %v", found)
	}
}

// The log of an org that was destroyed is not missing, because an entry of the operators says so.
func TestADestroyedOrgIsNoFinding(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	org := testenv.AddOrg(t, k.db)
	k.record(org, 3)
	must.OK(t, k.round())
	k.remove(org)
	must.OK(t, k.db.Tx(t.Context(), func(tx postgres.Tx) error {
		return k.Record(t.Context(), tx, audit.Operators, audit.By{Kind: audit.ActorSystem, ID: "erasure", Action: "org.purge"}, string(org), audit.Changes{})
	}))
	if found := k.check(k.anchors()); len(found) > 0 {
		t.Errorf("%v", found)
	}
	k.exec("UPDATE audit_entry SET actor_label = 'forged' WHERE action = 'org.purge'")
	if found := k.check(k.anchors()); len(found) != 2 {
		t.Errorf("with a forged entry of the operators: %v", found)
	}
}
