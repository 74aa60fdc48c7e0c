package audit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// flaky is a sealer that fails for one account.
type flaky struct {
	*sealtest.Memory
	failsFor string
}

func (s *flaky) SealBytes(ctx context.Context, at seal.Address, text []byte) ([]byte, error) {
	if at.Holder == s.failsFor {
		return nil, seal.ErrUnavailable
	}
	return s.Memory.SealBytes(ctx, at, text)
}

// newOldKept is newKept with a sealer in memory.
func newOldKept(t *testing.T) (*kept, *flaky) {
	t.Helper()
	k, sealer := newKept(t), &flaky{Memory: sealtest.NewMemory()}
	k.sealer = sealer
	k.restart()
	return k, sealer
}

// appendOld adds entries to a log as a node of an earlier version does.
func (k *kept) appendOld(org id.Org, target, changes string, n int) {
	k.t.Helper()
	var (
		seq      int64
		previous []byte
		batch    pgx.Batch
	)
	k.exec("INSERT INTO audit_head (org_id, seq, hash) VALUES ($1, 0, '') ON CONFLICT DO NOTHING", org)
	must.OK(k.t, k.db.Pool().QueryRow(k.t.Context(), "SELECT seq, hash FROM audit_head WHERE org_id = $1", org).Scan(&seq, &previous))
	for range n {
		seq++
		e := audit.Entry{
			ID: id.New[id.Audit](), Seq: seq, At: time.Now().UTC().Truncate(time.Microsecond), Target: target, Changes: json.RawMessage(changes),
			By: audit.By{Kind: audit.ActorKey, ID: "key_1", Label: "ci", Action: "account.update", Request: "req_1", IPHash: "ab"},
		}
		previous = audit.OldHash(previous, org, e)
		batch.Queue(`INSERT INTO audit_entry (org_id, seq, id, at, actor_kind, actor_id, actor_label, action, target, request_id, ip_hash, changes, hash)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`, org, e.Seq, e.ID, e.At, e.By.Kind, e.By.ID, e.By.Label, e.By.Action,
			e.Target, e.By.Request, e.By.IPHash, changes, previous)
	}
	must.OK(k.t, k.db.Pool().SendBatch(k.t.Context(), &batch).Close())
	k.exec("UPDATE audit_head SET seq = $1, hash = $2 WHERE org_id = $3", seq, previous, org)
}

// rows returns all entries as text, with the transactions that wrote them.
func (k *kept) rows(org id.Org) []string {
	k.t.Helper()
	rows, err := k.db.Pool().Query(k.t.Context(), "SELECT e.xmin::text || e::text FROM audit_entry e WHERE org_id = $1 ORDER BY seq", org)
	must.OK(k.t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must.OK(k.t, err)
	return list
}

// unkeyed counts the entries without a keyed hash.
func (k *kept) unkeyed() (n int) {
	k.t.Helper()
	must.OK(k.t, k.db.Pool().QueryRow(k.t.Context(), "SELECT count(*) FROM audit_entry WHERE key_id = ''").Scan(&n))
	return n
}

// Entries of earlier versions get keyed hashes when no node of such a version is alive, however the versions took turns
// before. Logs are longer than a page.
func TestOldEntriesAreKeyedAfterTheUpgrade(t *testing.T) {
	t.Parallel()
	k, _ := newOldKept(t)
	org, other := testenv.AddOrg(t, k.db), testenv.AddOrg(t, k.db)
	k.appendOld(org, "x", "{}", 1999)
	k.record(org, 2)
	k.appendOld(org, "x", "{}", 1)
	k.record(other, 1)
	k.appendOld(other, "x", "{}", 2)
	k.canKey = false
	must.OK(t, k.round())
	if n := k.unkeyed(); n != 2002 {
		t.Errorf("while an old node is alive, %d entries have no keyed hash, want 2002", n)
	}
	done, err := k.Check(t.Context(), "", nil, func(f audit.Finding) { t.Errorf("before: %s", f) })
	done.Newest = time.Time{}
	if err != nil || done != (audit.Checked{Logs: 2, Entries: 2005, Unkeyed: 2002}) {
		t.Errorf("%+v %v", done, err)
	}
	if _, err := os.Stat(k.file); err == nil {
		t.Error("heads were anchored although their hashes will change")
	}
	k.canKey = true
	must.OK(t, k.round())
	done, err = k.Check(t.Context(), "", k.anchors(), func(f audit.Finding) { t.Errorf("after: %s", f) })
	done.Newest = time.Time{}
	if n := k.unkeyed(); n != 0 || err != nil || done != (audit.Checked{Logs: 2, Entries: 2005, Keyed: true}) {
		t.Errorf("%d without a keyed hash, %+v, %v", n, done, err)
	}
	k.appendOld(org, "x", "{}", 1)
	must.OK(t, k.round())
	if found := k.check(nil); len(found) != 1 || !strings.Contains(found[0], "entry 2003 is not written by this service") {
		t.Errorf("an entry without a key after the upgrade: %v", found)
	}
}

// Keying that fails in the middle leaves each log either as it was or keyed. The next round continues, and a further one
// changes nothing.
func TestKeyingContinuesAfterAFailure(t *testing.T) {
	t.Parallel()
	k, sealer := newOldKept(t)
	orgs := []id.Org{testenv.AddOrg(t, k.db), testenv.AddOrg(t, k.db), testenv.AddOrg(t, k.db)}
	slices.Sort(orgs)
	sealer.failsFor = string(id.New[id.Account]())
	before := map[id.Org][]string{}
	for _, org := range orgs {
		k.appendOld(org, "x", "{}", 3)
		if org == orgs[1] {
			k.appendOld(org, sealer.failsFor, `{"label":{"to":"Luna"}}`, 1)
		}
		before[org] = k.rows(org)
	}
	if err := k.round(); err == nil || !strings.Contains(err.Error(), string(orgs[1])) {
		t.Fatalf("%v", err)
	}
	if keyed, err := sealer.AuditKeyed(t.Context()); keyed || err != nil {
		t.Errorf("%t %v", keyed, err)
	}
	first := k.rows(orgs[0])
	if slices.Equal(first, before[orgs[0]]) || !slices.Equal(k.rows(orgs[1]), before[orgs[1]]) {
		t.Error("the first log was not keyed, or the second one in part")
	}
	if found := k.check(nil); len(found) > 0 {
		t.Errorf("in between: %v", found)
	}
	sealer.failsFor = ""
	k.restart()
	must.OK(t, k.round())
	if !slices.Equal(k.rows(orgs[0]), first) || k.unkeyed() != 0 {
		t.Error("the first log was keyed twice, or another one not at all")
	}
	after := map[id.Org][]string{orgs[0]: first, orgs[1]: k.rows(orgs[1]), orgs[2]: k.rows(orgs[2])}
	sealer.Memory = sealtest.NewMemory() // a keyring that does not know that all is done
	k.restart()
	must.OK(t, k.round())
	if again := map[id.Org][]string{orgs[0]: k.rows(orgs[0]), orgs[1]: k.rows(orgs[1]), orgs[2]: k.rows(orgs[2])}; !maps.EqualFunc(again, after, slices.Equal) {
		t.Error("keying again has changed a log")
	}
	if found := k.check(k.anchors()); len(found) > 0 {
		t.Errorf("at the end: %v", found)
	}
}

// Entries that are written while a log is keyed belong to the same chain.
func TestEntriesCanBeWrittenDuringKeying(t *testing.T) {
	t.Parallel()
	k, _ := newOldKept(t)
	org := testenv.AddOrg(t, k.db)
	k.appendOld(org, "x", "{}", 1500)
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			for range 10 {
				if err := record(t.Context(), k.Log, k.db, org, i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	must.OK(t, k.round())
	wait.Wait()
	if n, err := k.Verify(t.Context(), org); err != nil || n != 1540 || k.unkeyed() != 0 {
		t.Errorf("%d entries, %v", n, err)
	}
}

// Keying does not hide what was done to a log before: the same entries are reported afterwards, and no others.
func TestKeyingHidesNoEarlierFault(t *testing.T) {
	t.Parallel()
	k, _ := newOldKept(t)
	org := testenv.AddOrg(t, k.db)
	k.appendOld(org, "x", "{}", 10)
	k.exec("UPDATE audit_entry SET target = 'y' WHERE org_id = $1 AND seq = 3", org)
	k.exec("DELETE FROM audit_entry WHERE org_id = $1 AND seq IN (5, 10)", org)
	before := k.check(nil)
	must.OK(t, k.round())
	k.record(org, 2)
	after := k.check(k.anchors())
	for i, want := range []string{"entry 3 is ", "entry 5 is missing", "entry 10 is missing"} {
		if len(before) != 3 || len(after) != 3 || !strings.HasPrefix(before[i], string(org)+": "+want) || !strings.HasPrefix(after[i], string(org)+": "+want) {
			t.Fatalf("%q, then %q, want %q", before, after, want)
		}
	}
	if !strings.Contains(k.lines.String(), `"msg":"audit log has faults`) {
		t.Error("the faults were not logged")
	}
}

// Personal data that an earlier version stored in the clear is sealed if the account lives, and is removed otherwise.
func TestKeyingSealsPersonalData(t *testing.T) {
	t.Parallel()
	k, sealer := newOldKept(t)
	org, lives, deleted := testenv.AddOrg(t, k.db), string(id.New[id.Account]()), string(id.New[id.Account]())
	const clear = `{"label":{"from":"Luna","to":"Maya"},"metadata":{"to":{"a":"Maya"}},"ofUserId":{"to":"Luna"},"referenceId":{"to":"Luna"},"state":{"to":"connected"}}`
	sealer.Shred(deleted)
	for _, target := range []string{lives, deleted} {
		k.appendOld(org, target, clear, 1)
	}
	k.appendOld(org, string(id.New[id.Session]()), `{"kinds":{"to":["login"]},"referenceId":{"to":"Luna"}}`, 1)
	k.appendOld(org, "key_1", `{"label":{"to":"ci"}}`, 1)
	must.OK(t, k.round())
	stored := strings.Join(k.rows(org), "\n")
	if strings.Contains(stored, "Luna") || strings.Contains(stored, "Maya") || !strings.Contains(stored, "connected") {
		t.Errorf("stored: %s", stored)
	}
	list, err := k.Choose(t.Context(), org, audit.Filter{}, 0, 10)
	must.OK(t, err)
	const purged = `{"purged":true}`
	for i, want := range []string{
		`{"label":{"to":"ci"}}`, `{"kinds":{"to":["login"]},"referenceId":` + purged + `}`,
		fmt.Sprintf(`{"label":%[1]s,"metadata":%[1]s,"ofUserId":%[1]s,"referenceId":%[1]s,"state":{"to":"connected"}}`, purged), clear,
	} {
		if got := string(list[i].Changes); got != want {
			t.Errorf("%s: %s, want %s", list[i].Target, got, want)
		}
	}
	if found := k.check(nil); len(found) > 0 {
		t.Errorf("%v", found)
	}
}

// A head is anchored when it has changed, once. The lines of the log are anchors as well. If the file cannot be written,
// the head is anchored later.
func TestHeadsAreAnchoredWhenTheyChange(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	org, other := testenv.AddOrg(t, k.db), testenv.AddOrg(t, k.db)
	k.record(org, 1)
	k.record(other, 1)
	for range 2 {
		must.OK(t, k.round())
	}
	k.record(org, 2)
	file := k.file
	k.file = t.TempDir()
	if err := k.round(); err == nil {
		t.Error("anchors were written to a directory")
	}
	k.file = file
	for range 2 {
		must.OK(t, k.round())
	}
	all := k.anchors()
	if a := all[org]; len(all) != 2 || len(a) != 2 || a[0].Seq != 1 || a[1].Seq != 3 || len(all[other]) != 1 {
		t.Errorf("%+v", all)
	}
	if logged := k.parse(k.lines.Bytes()); !maps.EqualFunc(logged, all, slices.Equal) {
		t.Errorf("the log has %+v, the file %+v", logged, all)
	}
	k.file += "2"
	must.OK(t, k.round())
	if a := k.anchors(); len(a[org]) != 1 || len(a[other]) != 1 {
		t.Errorf("a new file has not all heads: %+v", a)
	}
}

// A line that was changed is no anchor. A line that a crash has cut off does not damage the next one.
func TestForgedAndDamagedAnchorsAreFound(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	org := testenv.AddOrg(t, k.db)
	k.record(org, 1)
	must.OK(t, k.round())
	text, err := os.ReadFile(k.file)
	must.OK(t, err)
	var line map[string]any
	must.OK(t, json.Unmarshal(text, &line))
	for name, value := range map[string]any{"org_id": "org_x", "seq": 2, "hash": "00", "at": "2026-01-01T00:00:00.000Z", "mac": "00"} {
		forged := maps.Clone(line)
		forged[name] = value
		one, err := json.Marshal(forged)
		must.OK(t, err)
		into, bad := audit.Anchors{}, 0
		must.OK(t, k.ReadAnchors(t.Context(), strings.NewReader(string(one)), into, func(int) { bad++ }))
		if bad != 1 || len(into) != 0 {
			t.Errorf("an anchor with another %s is accepted: %v", name, into)
		}
	}
	must.OK(t, os.WriteFile(k.file, text[:len(text)/2], 0o600))
	k.record(org, 1)
	must.OK(t, k.round())
	damaged, err := os.Open(k.file)
	must.OK(t, err)
	defer damaged.Close()
	into, bad := audit.Anchors{}, []int{}
	must.OK(t, k.ReadAnchors(t.Context(), damaged, into, func(n int) { bad = append(bad, n) }))
	if !slices.Equal(bad, []int{1}) || len(into[org]) != 1 || into[org][0].Seq != 2 {
		t.Errorf("bad lines %v, anchors %+v", bad, into)
	}
}

// Anyone who can connect to the database can take the lock of the workers. They report it when it lasts.
func TestASessionThatKeepsTheLockIsReported(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	k.record(testenv.AddOrg(t, k.db), 1)
	keeper := audit.NewKeeper(k.deps())
	release, ok, err := k.db.TryLock(t.Context(), audit.RoundLock)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	for n := range 4 {
		if err := keeper.Round(t.Context()); err != nil {
			t.Errorf("round %d: %v", n+1, err)
		}
	}
	if err := keeper.Round(t.Context()); err == nil {
		t.Error("five rounds without the lock are not reported")
	}
	release()
	must.OK(t, keeper.Round(t.Context()))
	if n := len(k.anchors()); n != 1 {
		t.Errorf("%d logs are anchored, want 1", n)
	}
}

// A head counts as anchored only if its anchor was written somewhere.
func TestAnchorsAreWrittenSomewhere(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	k.record(testenv.AddOrg(t, k.db), 1)
	quiet := k.deps()
	quiet.File, quiet.Log = "", slog.New(slog.NewJSONHandler(k.lines, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := audit.NewKeeper(quiet).Round(t.Context()); err == nil {
		t.Error("anchors that are written nowhere are not reported")
	}
	loud := k.deps()
	loud.File = ""
	must.OK(t, audit.NewKeeper(loud).Round(t.Context()))
	if n := len(k.parse(k.lines.Bytes())); n != 1 {
		t.Errorf("%d logs are anchored, want 1", n)
	}
}
