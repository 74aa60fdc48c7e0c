package erasure_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/erasure"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// fixture is an Eraser with everything that it destroys.
type fixture struct {
	*accounttest.Fixture
	t       *testing.T
	orgs    *org.Orgs
	members *member.Members
	seal    *flakySealer
	eraser  *erasure.Eraser
}

// flakySealer fails to destroy keys while broken is set.
type flakySealer struct {
	*seal.Sealer
	broken bool
}

var errBroken = errors.New("the keyring does not answer")

func (s *flakySealer) ShredOrg(ctx context.Context, owner id.Org) error {
	if s.broken {
		return errBroken
	}
	return s.Sealer.ShredOrg(ctx, owner)
}

const settle = time.Minute

var by = audit.By{Kind: audit.ActorOperator, ID: "admin", Label: "operator", Action: "test"}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Fixture: accounttest.New(t, accounttest.Engines{}, nil), t: t}
	f.seal = &flakySealer{Sealer: f.Seal}
	jobs, err := river.NewClient(riverpgxv5.New(f.DB.Pool()), &river.Config{})
	must.OK(t, err)
	f.orgs = org.New(org.Deps{
		DB: f.DB, Audit: f.Audit, Jobs: jobs, Announce: f.Limits, Suspensions: nil, Now: f.Clock.Now,
	})
	keys := apikey.New(apikey.Deps{
		DB: f.DB, Orgs: f.orgs, Audit: f.Audit, Outbox: f.Outbox, Troubled: func() time.Time { return time.Time{} },
		Now: f.Clock.Now,
	})
	f.members = member.New(member.Deps{DB: f.DB, Orgs: f.orgs, Keys: keys, Audit: f.Audit, Mail: mail.New(mail.Deps{DB: f.DB, Audit: f.Audit, Seal: f.Fixture.Seal, Queue: testenv.NoJobs{}, Log: slog.New(slog.DiscardHandler)}), Now: f.Clock.Now})
	f.eraser = erasure.New(erasure.Deps{
		Config: erasure.Config{Settle: settle}, DB: f.DB, Orgs: f.orgs, Accounts: f.Accounts, Members: f.members,
		Seal: f.seal, Ticker: clock.Ticker, Log: slog.New(slog.DiscardHandler),
	})
	return f
}

// tenant is an org with something in every table.
type tenant struct {
	org.Org
	accounts []account.Account
}

// newTenant creates an org with accounts, keys of its own and counters in Redis, and people who join it.
func (f *fixture) newTenant(name string, people ...string) tenant {
	f.t.Helper()
	ctx := f.t.Context()
	var made tenant
	must.OK(f.t, f.DB.Tx(ctx, func(tx postgres.Tx) (err error) {
		made.Org, err = f.orgs.Create(ctx, tx, by, org.Draft{
			Name: name, Plan: "scale", Environment: environment.Sandbox, ContactEmail: "ops@" + name + ".test",
		})
		return err
	}))
	for _, creator := range []string{"1", "2"} {
		made.accounts = append(made.accounts, f.Connect(f.Connected(made.ID, creator)))
	}
	left := f.Connect(f.Connected(made.ID, "3"))
	must.OK(f.t, f.Accounts.Disconnect(ctx, by, made.ID, left.ID)) // writes a receipt and an event
	must.OK(f.t, f.Seal.Prepare(ctx, made.ID, string(made.ID)))
	must.OK(f.t, f.Seal.Prepare(ctx, made.ID, string(id.New[id.Attempt]())))
	for _, email := range people {
		_, _, err := f.members.Invite(ctx, by, made.ID, member.Caller{Operator: true}, member.Invitee{Email: email, Role: string(member.Owner)})
		must.OK(f.t, err)
	}
	for _, email := range people {
		f.signIn(email)
	}
	for _, quota := range []admission.Quota{admission.Plain, admission.Read, admission.Safety} {
		_, err := f.Limits.Admit(ctx, admission.Call{
			Org: made.ID, Account: made.accounts[0].ID, Quota: quota, Epoch: made.Epoch, Limits: &made.Limits,
			Started: f.Clock.Now(), ReadAt: f.Clock.Now(),
		})
		must.OK(f.t, err)
	}
	testenv.FillTables(f.t, f.DB, made.ID, made.accounts[0].ID)
	return made
}

func (f *fixture) signIn(email string) (member.Session, secret.String) {
	f.t.Helper()
	claims := member.Claims{Issuer: "https://id.test", Subject: "sub:" + email, Email: email, Name: "Name of " + email}
	b, cookie, err := f.members.SignIn(f.t.Context(), by, claims, member.Welcome{TakeUp: true}, "Test/1.0")
	must.OK(f.t, err)
	return b, cookie
}

func (f *fixture) count(sql string, args ...any) (n int) {
	f.t.Helper()
	must.OK(f.t, f.DB.Pool().QueryRow(f.t.Context(), sql, args...).Scan(&n))
	return n
}

// rowsOf counts the rows of an org in each table.
func (f *fixture) rowsOf(owner id.Org) map[string]int {
	f.t.Helper()
	tables, err := f.DB.TablesWith(f.t.Context(), "org_id")
	must.OK(f.t, err)
	rows := map[string]int{}
	for _, table := range tables {
		rows[table] = f.count("SELECT count(*) FROM "+table+" WHERE org_id = $1", owner)
	}
	return rows
}

// traces returns the columns, in all tables of all schemas, that contain a text, also as bytes. The schema testenv has
// what the tests themselves remember.
func (f *fixture) traces(text string) (columns []string) {
	f.t.Helper()
	rows, err := f.DB.Pool().Query(f.t.Context(), `
		SELECT c.oid::regclass::text, coalesce(i.inhparent, c.oid)::regclass::text
		FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
		WHERE c.relkind = 'r'
			AND c.relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema', 'testenv')`)
	must.OK(f.t, err)
	var tables [][2]string
	var table, parent string
	_, err = pgx.ForEachRow(rows, []any{&table, &parent}, func() error {
		tables = append(tables, [2]string{table, parent})
		return nil
	})
	must.OK(f.t, err)
	if len(tables) < 50 {
		f.t.Fatalf("only %d tables were found", len(tables))
	}
	for _, one := range tables {
		rows, err := f.DB.Pool().Query(f.t.Context(), `
			SELECT DISTINCT field.key FROM `+one[0]+` AS t, LATERAL jsonb_each_text(to_jsonb(t)) AS field
			WHERE position($1 IN field.value) > 0
				OR position(encode(convert_to($1, 'UTF8'), 'hex') IN field.value) > 0`, text)
		must.OK(f.t, err)
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must.OK(f.t, err)
		for _, name := range names {
			columns = append(columns, one[1]+"."+name)
		}
	}
	slices.Sort(columns)
	return slices.Compact(columns)
}

// redisKeys returns the keys in Redis that contain a text, with the seconds after which they expire.
func (f *fixture) redisKeys(text string) map[string]int {
	f.t.Helper()
	client, err := redis.Open(redis.Config{URL: f.Redis, Name: "test"})
	must.OK(f.t, err)
	defer client.Close()
	list, err := client.Run(f.t.Context(), redis.NewScript(`local list = {}
		for _, key in ipairs(redis.call('KEYS', '*' .. ARGV[1] .. '*')) do
			table.insert(list, key .. ' ' .. redis.call('TTL', key))
		end
		return table.concat(list, '\n')`), []string{"any"}, []string{text})
	must.OK(f.t, err)
	keys := map[string]int{}
	for line := range strings.Lines(list) {
		key, seconds, _ := strings.Cut(strings.TrimSpace(line), " ")
		keys[key], err = strconv.Atoi(seconds)
		must.OK(f.t, err)
	}
	return keys
}

// inLog publishes a record of an account to the event log, sealed as listeners do it, and returns a function that opens
// it. The records are the same in JetStream.
func (f *fixture) inLog(a account.Account) (open func() error) {
	f.t.Helper()
	at := seal.Address{Org: a.Org, Holder: string(a.ID), Purpose: seal.PurposeFrame}
	sealed, err := f.Seal.SealBytes(f.t.Context(), at, []byte(message))
	must.OK(f.t, err)
	head := string(a.Org) + string(a.ID) // the record says in the clear whose it is
	log := eventlog.NewPostgres(f.DB, eventlog.Config{})
	must.OK(f.t, log.Publish(f.t.Context(), 7, rand.Text(), append([]byte(head), sealed...)))
	return func() error {
		reader, err := log.Read(f.t.Context(), map[int]uint64{7: 0})
		must.OK(f.t, err)
		defer reader.Close()
		for {
			entries, err := reader.Next(f.t.Context())
			must.OK(f.t, err)
			for _, entry := range entries {
				if sealed, mine := bytes.CutPrefix(entry.Data, []byte(head)); mine {
					_, err := f.Seal.OpenBytes(f.t.Context(), at, sealed)
					return err
				}
			}
		}
	}
}

// message is what is in a record of the event log.
const message = "a message of a fan"

// allowed lists where the id of an org that was destroyed may be, and why.
var allowed = map[string]string{
	"org.id":              "the tombstone",
	"org.receipt":         "the receipt",
	"audit_entry.target":  "entries of the operators' log",
	"river_job.args":      "jobs that announce changes of the org to all nodes; the queue deletes them",
	"eventlog_entry.data": "records of its accounts, sealed with keys that are destroyed; the log drops them",
}

// Once an org is destroyed its id is nowhere, in no column of any table or of the keyring, except where allowed says
// why, and nothing else of it is anywhere; records of the event log, which say whose they are, cannot be opened. Other
// orgs keep everything, and people who belong to them stay. Redis forgets it within three days. The receipt is valid.
func TestNothingIsLeftOfADestroyedOrg(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	gone := f.newTenant("farewell", "ada@farewell.test", "bob@both.test")
	kept := f.newTenant("remains", "bob@both.test")
	for table, n := range f.rowsOf(gone.ID) {
		if n == 0 {
			t.Errorf("%s has no row of the org to delete", table)
		}
	}
	adasBrowser, _ := f.signIn("ada@farewell.test")
	bobsBrowser, bobsCookie := f.signIn("bob@both.test")
	must.OK(t, f.members.Switch(ctx, bobsCookie, string(gone.ID)))
	anchors := f.anchorAudit()
	openGone, openKept := f.inLog(gone.accounts[0]), f.inLog(kept.accounts[0])
	must.OK(t, openGone())
	before, keysOfKept := f.rowsOf(kept.ID), f.count("SELECT count(*) FROM keyring.data_key WHERE org_id = $1", kept.ID)

	ada := audit.By{Kind: audit.ActorMember, ID: string(adasBrowser.Person.ID), Label: "ada@farewell.test", Action: audit.ActionDelete, IPHash: "ab"}
	_, err := f.orgs.Delete(ctx, gone.ID, ada, nil)
	must.OK(t, err)
	f.Clock.Advance(org.Grace)
	must.OK(t, f.eraser.Round(ctx))
	if _, err := f.orgs.Receipt(ctx, gone.ID); !errors.Is(err, problem.OrgNotFound.New("")) {
		t.Errorf("a receipt before nodes have written what they had in memory: %v", err)
	}
	testenv.AddRow(t, f.DB, "usage_hour", gone.ID, gone.accounts[0].ID) // what nodes write late
	testenv.AddRow(t, f.DB, "request_log", gone.ID, gone.accounts[0].ID)
	f.Clock.Advance(settle)
	must.OK(t, f.eraser.Round(ctx))
	testenv.AddRow(t, f.DB, "usage_hour", gone.ID, gone.accounts[0].ID) // what a node writes that could not do so before
	must.OK(t, f.eraser.Round(ctx))

	left := f.traces(string(gone.ID))
	for _, column := range left {
		if allowed[column] == "" {
			t.Errorf("%s still has the id of the org", column)
		}
	}
	for column := range allowed {
		if !slices.Contains(left, column) {
			t.Errorf("%s has nothing of the org, so this test proves nothing about it", column)
		}
	}
	if columns := f.traces(string(gone.accounts[0].ID)); !slices.Equal(columns, []string{"eventlog_entry.data"}) {
		t.Errorf("%v have the id of the account with a record in the event log", columns)
	}
	for _, text := range []string{
		gone.Name, gone.ContactEmail, string(gone.accounts[1].ID), message,
		"ada@farewell.test", string(adasBrowser.Person.ID), string(adasBrowser.ID),
	} {
		if columns := f.traces(text); len(columns) > 0 {
			t.Errorf("%v still have %q", columns, text)
		}
	}
	if err := openGone(); !errors.Is(err, seal.ErrShredded) {
		t.Errorf("a record of the org in the event log opens with: %v", err)
	}
	must.OK(t, openKept())
	if after := f.rowsOf(kept.ID); !maps.Equal(before, after) {
		t.Errorf("another org had %v and has %v", before, after)
	}
	if n := f.count("SELECT count(*) FROM keyring.data_key WHERE org_id = $1", kept.ID); n == 0 || n != keysOfKept {
		t.Errorf("another org had %d keys and has %d", keysOfKept, n)
	}
	shown := "SELECT count(*) FROM browser_session b JOIN person p ON p.id = b.person_id WHERE b.id = $1 AND b.current_org = ''"
	if n := f.count(shown, bobsBrowser.ID); n != 1 {
		t.Error("the browser of a person who belongs to another org is gone, or still shows the org")
	}
	if keys := f.redisKeys(string(gone.ID)); len(keys) == 0 {
		t.Error("Redis had nothing of the org, so this test proves nothing about it")
	} else {
		for key, seconds := range keys {
			if seconds < 0 || seconds > 3*24*60*60 {
				t.Errorf("%s stays in Redis for %d seconds", key, seconds)
			}
		}
	}
	f.checkReceipt(gone.ID)
	// The audit log of the org is not missing, and all others verify.
	_, err = f.Audit.Check(ctx, "", anchors, func(found audit.Finding) { t.Error(found) })
	must.OK(t, err)
}

// anchorAudit gives every audit entry a keyed hash, anchors all logs, and returns the anchors.
func (f *fixture) anchorAudit() audit.Anchors {
	f.t.Helper()
	var lines bytes.Buffer
	must.OK(f.t, audit.NewKeeper(audit.KeeperDeps{
		DB: f.DB, Audit: f.Audit, CanKey: func() bool { return true }, Log: slog.New(slog.NewJSONHandler(&lines, nil)),
	}).Round(f.t.Context()))
	anchors := audit.Anchors{}
	must.OK(f.t, f.Audit.ReadAnchors(f.t.Context(), &lines, anchors, func(int) { f.t.Error("a line is no anchor") }))
	if len(anchors) < 2 {
		f.t.Errorf("%d logs were anchored", len(anchors))
	}
	return anchors
}

func (f *fixture) checkReceipt(owner id.Org) {
	f.t.Helper()
	text, err := f.orgs.Receipt(f.t.Context(), owner)
	must.OK(f.t, err)
	key, err := f.Seal.PublicKey(f.t.Context())
	must.OK(f.t, err)
	r, err := seal.VerifyReceipt(text, key)
	if err != nil || r.Org != owner || r.Account != "" || !slices.Equal(r.Covers, erasure.Covers()) ||
		!r.PurgedAt.Equal(f.Clock.Now().Truncate(time.Millisecond)) {
		f.t.Errorf("%+v %v of %s", r, err, text)
	}
}

// A round that fails half-way is continued by the next one. As long as keys are left, there is no receipt.
func TestErasureContinuesAfterAFailure(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	gone := f.newTenant("farewell", "ada@farewell.test")
	_, err := f.orgs.Delete(ctx, gone.ID, by, nil)
	must.OK(t, err)
	f.Clock.Advance(org.Grace + 2*settle)
	f.seal.broken = true
	if err := f.eraser.Round(ctx); !errors.Is(err, errBroken) {
		t.Errorf("%v", err)
	}
	f.Clock.Advance(settle)
	if err := f.eraser.Round(ctx); !errors.Is(err, errBroken) {
		t.Errorf("%v", err)
	}
	if _, err := f.orgs.Receipt(ctx, gone.ID); !errors.Is(err, problem.OrgNotFound.New("")) {
		t.Errorf("a receipt although keys are left: %v", err)
	}
	f.seal.broken = false
	must.OK(t, f.eraser.Round(ctx))
	f.checkReceipt(gone.ID)
}

// Organisations that fail do not hold up the others, however many they are.
func TestFailuresDoNotHoldUpOtherOrgs(t *testing.T) {
	t.Parallel()
	list := make([]id.Org, 2*erasure.PageOrgs+1)
	for i := range list {
		list[i] = id.Org(fmt.Sprintf("org_%06d", i))
	}
	page := func(after id.Org) ([]id.Org, error) {
		rest := list[slices.IndexFunc(list, func(o id.Org) bool { return o > after }):]
		return rest[:min(len(rest), erasure.PageOrgs)], nil
	}
	var tried []id.Org
	err := erasure.EachOrg(page, func(owner id.Org) error {
		if tried = append(tried, owner); owner < list[erasure.PageOrgs] {
			return errBroken
		}
		return nil
	})
	if !errors.Is(err, errBroken) || !slices.Equal(tried, list) {
		t.Errorf("%d of %d were tried: %v", len(tried), len(list), err)
	}
}

// withoutOrg lists the tables without a column org_id, and why erasure need not delete rows in them.
var withoutOrg = map[string]string{
	"org":                   "becomes the tombstone",
	"person":                "Members.Disband deletes those who belong to no other org",
	"person_identity":       "goes with its person",
	"browser_session":       "goes with its person; others no longer show the org",
	"device_grant":          "has the id of the org for ten minutes, and is trimmed an hour later",
	"login_guard":           "keyed hashes of logins over all orgs, which are trimmed after a while",
	"eventlog_bucket":       "positions of the log",
	"eventlog_entry":        "records are sealed with the keys of accounts, and trimmed once they are stored",
	"event_bucket":          "positions of work",
	"webhook_bucket":        "positions of work",
	"account_shard":         "leases of work",
	"lease_node":            "leases of work",
	"lease_slot":            "leases of work",
	"month_flush":           "positions of processes",
	"node":                  "processes",
	"pulse_minute":          "counts of processes",
	"pulse_day":             "counts of the installation",
	"usage_webhook":         "a position",
	"org_suspension_reader": "processes",
	"database_generation":   "about the database",
	"control":               "decisions of operators for all orgs",
	"operator_session":      "browsers of operators",
	"root_key":              "belongs to the installation",
}

// Every table either has the column by which rows are deleted, or is listed with the reason why that is not needed. So a
// new table cannot be forgotten.
func TestEveryTableIsErasedOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	text, err := os.ReadFile(testenv.Path(t, "migrations", "owners.txt"))
	must.OK(t, err)
	found := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			continue
		}
		table, has := fields[0], false
		found[table] = true
		err := db.Pool().QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM information_schema.columns
			WHERE table_name = $1 AND table_schema IN ('public', 'keyring') AND column_name = 'org_id')`, table).Scan(&has)
		must.OK(t, err)
		if why := withoutOrg[table]; has == (why != "") {
			t.Errorf("%s: has the column org_id: %t; in withoutOrg: %q", table, has, why)
		}
	}
	for table := range withoutOrg {
		if !found[table] {
			t.Errorf("there is no table %s", table)
		}
	}
	if len(found) < 50 {
		t.Errorf("only %d tables were found", len(found))
	}
}
