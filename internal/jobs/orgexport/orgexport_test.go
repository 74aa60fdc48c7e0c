package orgexport_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/engine/objects"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/jobs/job"
	"github.com/stagedoor/stagedoor/internal/jobs/orgexport"
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

// fixture exports organisations with the role of a node, to which row-level security applies.
type fixture struct {
	*accounttest.Fixture
	t       *testing.T
	keys    *apikey.Keys
	members *member.Members
	jobs    *job.Jobs
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	url := testenv.DatabaseURL(t)
	open := func(url secret.String) *postgres.DB {
		db, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 8, Name: "test"})
		must.OK(t, err)
		t.Cleanup(db.Close)
		return db
	}
	f := &fixture{Fixture: accounttest.New(t, accounttest.Engines{DB: open(url)}, nil), t: t}
	db := open(testenv.AsService(url)).WithClock(f.Clock.Now)
	log := slog.New(slog.DiscardHandler)
	f.Orgs = org.New(org.Deps{DB: f.DB, Audit: f.Audit, Jobs: testenv.NoJobs{}, Announce: f.Limits, Now: f.Clock.Now})
	f.keys = apikey.New(apikey.Deps{
		DB: db, Orgs: f.Orgs, Audit: f.Audit, Outbox: f.Outbox, Troubled: func() time.Time { return time.Time{} }, Now: f.Clock.Now,
	})
	f.members = member.New(member.Deps{DB: db, Orgs: f.Orgs, Keys: f.keys, Audit: f.Audit, Mail: mail.New(mail.Deps{DB: db, Audit: f.Audit, Seal: f.Seal, Queue: testenv.NoJobs{}, Log: slog.New(slog.DiscardHandler)}), Now: f.Clock.Now})
	store, err := objects.Open(t.Context(), testenv.Folder(t))
	must.OK(t, err)
	export := orgexport.New(orgexport.Deps{
		DB: db, Members: f.members, Audit: audit.New(db, f.Seal, f.Clock.Now), Webhooks: webhook.New(webhook.Deps{DB: db, Seal: f.Seal, Log: log}),
		Events: event.New(event.Deps{DB: db, Sealer: f.Seal, Seals: func() bool { return true }, Log: log, Now: f.Clock.Now}),
	})
	f.jobs = job.New(job.Deps{
		DB: db, Orgs: f.Orgs, Keys: f.keys, Members: f.members, Audit: f.Audit, Outbox: f.Outbox, Seal: f.Seal, Objects: store,
		Queue: testenv.NoJobs{}, Kinds: []job.Kind{export.Kind()}, Log: log,
		Ticker: func(time.Duration) (<-chan time.Time, func()) { return nil, func() {} },
	})
	return f
}

// tenant is an organisation with something in every table.
type tenant struct {
	owner      id.Org
	kept, gone account.Account
	caller     *apikey.Principal
	// words are contents of the account that is kept.
	event, snippet, label string
}

func (f *fixture) newTenant(name string) tenant {
	f.t.Helper()
	ctx := f.t.Context()
	made := tenant{owner: f.Org(), event: "event of " + name, snippet: "snippet of " + name, label: "label of " + name}
	kept := f.Connected(made.owner, "1")
	kept.Label = made.label
	made.kept = f.Connect(kept)
	gone := f.Connected(made.owner, "2")
	gone.Label = "gone " + name
	made.gone = f.Connect(gone)
	made.caller = f.newCaller(made.owner, apikey.Draft{Label: "export"})
	operator := audit.By{Kind: audit.ActorOperator, ID: "admin", Label: "operator", Action: "member.invite"}
	_, _, err := f.members.Invite(ctx, operator, made.owner, member.Caller{Operator: true}, member.Invitee{Email: "ada@" + name + ".test", Role: "owner"})
	must.OK(f.t, err)
	claims := member.Claims{Issuer: "https://id.test", Subject: name, Email: "ada@" + name + ".test", Name: "Ada of " + name}
	_, _, err = f.members.SignIn(ctx, accounttest.By("session.start"), claims, member.Welcome{TakeUp: true}, "Test/1.0")
	must.OK(f.t, err)
	for _, of := range []account.Account{made.kept, made.gone} {
		f.addEvent(made.owner, of.ID, made.event)
		f.addDelivery(made.owner, of.ID, made.snippet)
		must.OK(f.t, f.DB.Tx(ctx, func(tx postgres.Tx) error {
			changes := audit.Changes{"label": audit.Personal(nil, "audit of "+of.Label)}
			return f.Audit.Record(ctx, tx, made.owner, accounttest.By("account.update"), string(of.ID), changes)
		}))
	}
	must.OK(f.t, f.Accounts.Disconnect(ctx, accounttest.By("account.disconnect"), made.owner, made.gone.ID))
	testenv.FillTables(f.t, f.DB, made.owner, made.kept.ID)
	return made
}

func (f *fixture) newCaller(owner id.Org, d apikey.Draft) *apikey.Principal {
	f.t.Helper()
	o, err := f.Orgs.Get(f.t.Context(), owner)
	must.OK(f.t, err)
	var key apikey.Key
	must.OK(f.t, f.DB.Tx(f.t.Context(), func(tx postgres.Tx) (err error) {
		key, _, err = f.keys.Issue(f.t.Context(), tx, o, accounttest.By("key.mint"), d)
		return err
	}))
	return &apikey.Principal{Org: o, Key: key, Scopes: key.Scopes}
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.DB.Pool().Exec(f.t.Context(), sql, args...)
	must.OK(f.t, err)
}

// addEvent stores an event of an account, or of an organisation, as ingest does.
func (f *fixture) addEvent(owner id.Org, of id.Account, text string) {
	f.t.Helper()
	ctx, now := f.t.Context(), f.Clock.Now()
	today := postgres.DayOf(now)
	must.OK(f.t, postgres.NewDays(f.DB, "event", slog.New(slog.DiscardHandler)).Make(ctx, today, today+1))
	one := id.New[id.Event]()
	var seq int64
	must.OK(f.t, f.DB.Pool().QueryRow(ctx, "SELECT coalesce(max(seq), 0) + 1 FROM event WHERE source = $1", of).Scan(&seq))
	body := fmt.Appendf(nil, `{"id":%q,"event":"message","accountId":%q,"data":{"text":%q}}`, one, of, text)
	if event.IsAccount(string(of)) {
		sealed, err := f.Seal.SealBytes(ctx, seal.Address{Org: owner, Holder: string(of), Purpose: seal.PurposeEvent, Version: seq}, body)
		must.OK(f.t, err)
		body = append([]byte{1}, sealed...)
	}
	f.exec(`INSERT INTO event (at, seq, org_id, source, id, kind, upstream_id, body) VALUES ($1, $6, $2, $3, $4, 'message', '', $5)`,
		now, owner, of, one, body, seq)
	f.exec(`INSERT INTO event_source (org_id, source, bucket, last_seq, last_at) VALUES ($1, $2, 1, $4, $3)
		ON CONFLICT (source) DO UPDATE SET last_seq = $4`, owner, of, now, seq)
}

// addDelivery stores a delivery with the beginning of a response, as package webhook does.
func (f *fixture) addDelivery(owner id.Org, of id.Account, text string) {
	f.t.Helper()
	ctx, now := f.t.Context(), f.Clock.Now()
	today := postgres.DayOf(now)
	must.OK(f.t, postgres.NewDays(f.DB, "webhook_delivery", slog.New(slog.DiscardHandler)).Make(ctx, today, today+1))
	sealed, err := f.Seal.Seal(ctx, seal.Address{
		Org: owner, Holder: string(of), Purpose: seal.PurposeDelivery, Version: now.UnixMicro(),
	}, secret.New(text))
	must.OK(f.t, err)
	f.exec(`INSERT INTO webhook_delivery (at, seq, took_us, attempt, status, delivered, org_id, account_id, id, event_id, kind, cause, error, snippet)
		VALUES ($1, 1, 1, 1, 422, false, $2, $3, $4, 'evt_1', 'message', 'live', '', $5)`,
		now, owner, of, id.New[id.Delivery](), "sealed:"+base64.RawStdEncoding.EncodeToString(sealed))
}

// export runs an export, and returns its text and how many lines of each kind it has.
func (f *fixture) export(of tenant) (text string, kinds map[string]int) {
	f.t.Helper()
	ctx := f.t.Context()
	j, err := f.jobs.Start(ctx, of.caller, accounttest.By("job.start"), job.Draft{Kind: orgexport.Name, Params: struct{}{}})
	must.OK(f.t, err)
	must.OK(f.t, f.jobs.Take(ctx, of.owner, j.ID))
	if j, err = f.jobs.Get(ctx, of.owner, string(j.ID)); err != nil || j.State != job.Completed {
		f.t.Fatalf("the export is %s: %s %s, %v", j.State, j.ErrorCode, j.ErrorDetail, err)
	}
	return f.read(j)
}

func (f *fixture) read(j job.Job) (text string, kinds map[string]int) {
	f.t.Helper()
	result, err := f.jobs.Result(f.t.Context(), &j)
	must.OK(f.t, err)
	unpacked, err := gzip.NewReader(result)
	must.OK(f.t, err)
	all, err := io.ReadAll(unpacked)
	must.OK(f.t, err)
	kinds = map[string]int{}
	lines := json.NewDecoder(bytes.NewReader(all))
	for lines.More() {
		var line struct {
			Kind string
			Data map[string]any
		}
		must.OK(f.t, lines.Decode(&line))
		kinds[line.Kind]++
	}
	return string(all), kinds
}

// An export has a line of every table of which the organisation has rows, everything that came from its accounts, no
// secret, nothing of another organisation and nothing of an account that was deleted.
func TestAnExportHasEverythingOfOneOrganisationAndNoSecret(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mine, other := f.newTenant("mine"), f.newTenant("other")
	text, kinds := f.export(mine)
	for _, table := range orgexport.Tables() {
		if kinds[table.Kind] == 0 {
			t.Errorf("no line has the kind %s, of %s", table.Kind, table.Name)
		}
	}
	for _, want := range []string{
		string(mine.owner), string(mine.kept.ID), string(mine.gone.ID), mine.event, mine.snippet, mine.label, "audit of " + mine.label,
		"ada@mine.test", "Ada of mine", string(mine.caller.Key.ID),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, left := range []string{mine.gone.Label, "audit of " + mine.gone.Label} {
		if strings.Contains(text, `"`+left+`"`) {
			t.Errorf("%q of a deleted account is in it", left)
		}
	}
	if n := strings.Count(text, mine.event); n != 1 {
		t.Errorf("the content of %d events is in it, one of a deleted account", n)
	}
	if n := strings.Count(text, mine.snippet); n != 1 {
		t.Errorf("%d responses are in it, one of a deleted account", n)
	}
	for _, value := range f.values(other.owner, nil) {
		if strings.Contains(text, value) {
			t.Errorf("%q of another organisation is in it", value)
		}
	}
	withheld := map[string][]string{}
	for _, table := range orgexport.Tables() {
		withheld[table.Name] = slices.Collect(maps.Keys(table.Withheld))
	}
	for table := range orgexport.Withheld {
		withheld[table] = nil
	}
	for _, value := range f.values(mine.owner, withheld) {
		if strings.Contains(text, value) && !isID.MatchString(value) {
			t.Errorf("the withheld value %q is in it", value)
		}
	}
}

// isID matches ids, which are no secrets.
var isID = regexp.MustCompile(`^[a-z]+_[0-7][0-9a-z]{25}$`)

// values returns the texts and bytes of an organisation's rows that are long enough to be its own: of all columns, or of
// the columns of some tables. No columns mean all of a table.
func (f *fixture) values(owner id.Org, among map[string][]string) (list []string) {
	f.t.Helper()
	tables, err := f.DB.TablesWith(f.t.Context(), "org_id")
	must.OK(f.t, err)
	for _, table := range tables {
		columns, chosen := among[table]
		if among != nil && !chosen {
			continue
		}
		rows, err := f.DB.Pool().Query(f.t.Context(), `SELECT field.key, field.value
			FROM `+table+` AS t, LATERAL jsonb_each_text(to_jsonb(t)) AS field WHERE org_id = $1 AND length(field.value) >= 30`, owner)
		must.OK(f.t, err)
		var name, value string
		_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
			isID := strings.HasSuffix(name, "_id") && among != nil // of a row that is exported
			if len(columns) > 0 && !slices.Contains(columns, name) || strings.HasSuffix(name, "_at") || isID {
				return nil
			}
			if raw, err := hex.DecodeString(strings.TrimPrefix(value, `\x`)); err == nil && strings.HasPrefix(value, `\x`) {
				list = append(list, base64.StdEncoding.EncodeToString(raw), hex.EncodeToString(raw))
				return nil
			}
			list = append(list, value)
			return nil
		})
		must.OK(f.t, err)
	}
	if len(list) < 5 {
		f.t.Fatalf("only %d values were found", len(list))
	}
	return list
}

// Every column of every tenant's table is exported, or withheld for a reason.
func TestEveryColumnIsExportedOrWithheld(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	tables, err := db.TablesWith(t.Context(), "org_id")
	must.OK(t, err)
	exported := map[string]orgexport.Exported{}
	for _, table := range orgexport.Tables() {
		exported[table.Name] = table
	}
	for _, name := range append(tables, "org") {
		table, ok := exported[name]
		delete(exported, name)
		switch {
		case orgexport.Withheld[name] != "" || orgexport.Stepped[name] != "":
			continue
		case !ok:
			t.Errorf("%s is neither exported nor withheld: add it to tables.go", name)
			continue
		}
		types, err := db.Columns(t.Context(), name)
		must.OK(t, err)
		for column := range types {
			_, withheld := table.Withheld[column]
			if is := slices.Contains(table.Columns, column); is == withheld {
				t.Errorf("%s.%s is exported: %v, and withheld: %v", name, column, is, withheld)
			}
		}
		for _, column := range slices.Concat(table.Columns, slices.Collect(maps.Keys(table.Withheld))) {
			if types[column] == "" && column != "org_id" {
				t.Errorf("%s has no column %s", name, column)
			}
		}
	}
	if len(exported) > 0 {
		t.Errorf("%v are no tables of tenants", slices.Collect(maps.Keys(exported)))
	}
}

// A run that ends at any checkpoint is continued without a line missing or written twice, also if an account connects and
// sorts before the source of events that the run was at.
func TestAnExportContinuesWhereItStood(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mine := f.newTenant("mine")
	for n := range 4 {
		f.addEvent(mine.owner, id.Account(mine.owner), fmt.Sprintf("event %d of the organisation", n))
		f.addEvent(mine.owner, mine.kept.ID, fmt.Sprintf("event %d of the account", n))
		f.addDelivery(mine.owner, mine.kept.ID, fmt.Sprintf("snippet %d", n))
	}
	// A node that stops makes every run end with its next checkpoint.
	stopped, stop := context.WithCancel(t.Context())
	stop()
	must.OK(t, f.jobs.Run(stopped))
	j, err := f.jobs.Start(t.Context(), mine.caller, accounttest.By("job.start"), job.Draft{Kind: orgexport.Name, Params: struct{}{}})
	must.OK(t, err)
	connected, runs, percent := false, 0, 0
	for ; j.State != job.Completed; runs++ {
		must.OK(t, f.jobs.Take(t.Context(), mine.owner, j.ID))
		if j, err = f.jobs.Get(t.Context(), mine.owner, string(j.ID)); err != nil || j.State == job.Failed || j.Progress.Percent < percent {
			t.Fatalf("the export is %s at %d %% after %d %%: %s, %v", j.State, j.Progress.Percent, percent, j.ErrorDetail, err)
		}
		percent = j.Progress.Percent
		var source string
		must.OK(t, f.DB.Pool().QueryRow(t.Context(), "SELECT coalesce(checkpoint->>'source', '') FROM job WHERE id = $1", j.ID).Scan(&source))
		if source == string(mine.owner) && !connected {
			connected = true
			added := f.Connect(f.Connected(mine.owner, "3"))
			for range 3 {
				f.addEvent(mine.owner, added.ID, "event of the account that was added")
			}
		}
	}
	if !connected {
		t.Fatal("no run ended within the events of the organisation")
	}
	t.Logf("%d runs", runs)
	text, kinds := f.read(j)
	for n := range 4 {
		for _, want := range []string{"event %d of the organisation", "event %d of the account", "snippet %d"} {
			if found := strings.Count(text, fmt.Sprintf(`"`+want+`"`, n)); found != 1 {
				t.Errorf(want+" is there %d times", n, found)
			}
		}
	}
	var events int
	must.OK(t, f.DB.Pool().QueryRow(t.Context(), "SELECT count(*) FROM event WHERE org_id = $1", mine.owner).Scan(&events))
	if n := kinds["event"]; n < events-3 || n > events {
		t.Errorf("%d of %d events are in it", n, events)
	}
}

// sortNode finds a sort of all rows in a plan. An incremental sort only sorts rows that are equal in the columns of an index.
var sortNode = regexp.MustCompile(`(?m)^\s*(->\s+)?Sort\s+\(`)

// A page of a large table is read in the order of an index: a query that sorts what is left would take longer with every
// page of a large organisation.
func TestPagesAreReadInTheOrderOfAnIndex(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	for _, page := range orgexport.Pages() {
		var partitioned bool
		must.OK(t, db.Pool().QueryRow(t.Context(),
			"SELECT EXISTS (SELECT FROM pg_partitioned_table WHERE partrelid = to_regclass($1))", page.Table).Scan(&partitioned))
		if partitioned {
			today := postgres.DayOf(time.Now())
			must.OK(t, postgres.NewDays(db, page.Table, slog.New(slog.DiscardHandler)).Make(t.Context(), today, today+2))
		}
		types, err := db.Columns(t.Context(), page.Table)
		must.OK(t, err)
		sql, args, err := page.Statement(types)
		must.OK(t, err)
		var plan []string
		must.OK(t, db.Tx(t.Context(), func(tx postgres.Tx) error {
			for _, way := range []string{"seqscan", "bitmapscan", "sort"} { // only if nothing else is possible
				if _, err := tx.Exec(t.Context(), "SET LOCAL enable_"+way+" = off"); err != nil {
					return err
				}
			}
			rows, err := tx.Query(t.Context(), "EXPLAIN "+sql, args...)
			if err == nil {
				plan, err = pgx.CollectRows(rows, pgx.RowTo[string])
			}
			return err
		}))
		if text := strings.Join(plan, "\n"); sortNode.MatchString(text) {
			t.Errorf("%s is sorted:\n%s", page.Table, text)
		}
	}
}

func TestOnlyKeysThatMayReadEverythingExport(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner := f.Org()
	for name, c := range map[string]struct {
		draft apikey.Draft
		want  problem.Kind
	}{
		"scopes":   {apikey.Draft{Label: "l", Scopes: []string{"sdk:call", "accounts:read", "webhooks:read", "usage:read"}}, problem.ScopeMissing},
		"accounts": {apikey.Draft{Label: "l", Accounts: []id.Account{id.New[id.Account]()}}, problem.AccountNotAllowedForKey},
		"methods":  {apikey.Draft{Label: "l", Methods: []string{"fans.*"}}, problem.MethodNotAllowedForKey},
	} {
		_, err := f.jobs.Start(t.Context(), f.newCaller(owner, c.draft), accounttest.By("job.start"), job.Draft{Kind: orgexport.Name})
		if !errors.Is(err, c.want.New("")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
