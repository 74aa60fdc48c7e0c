package mail_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/smtp"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testmail"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// fixture is an Outbox with a real database and a real mail server. Its clock is that of the database.
type fixture struct {
	*mail.Outbox
	t       *testing.T
	db      *postgres.DB
	audit   *audit.Log
	server  *testmail.Server
	metrics *prometheus.Registry
	org     id.Org
	now     atomic.Pointer[time.Time]
}

func newFixture(t *testing.T, configured bool) *fixture {
	t.Helper()
	f := &fixture{t: t, server: testmail.New(t, testmail.Setup{}), metrics: prometheus.NewRegistry()}
	f.set(start)
	f.db = testenv.Postgres(t)
	f.org = testenv.AddOrg(t, f.db)
	clock := func() time.Time { return *f.now.Load() }
	f.db = f.db.WithClock(clock)
	sealer := sealtest.NewMemory()
	f.audit = audit.New(f.db, sealer, clock)
	queue, err := river.NewClient(riverpgxv5.New(f.db.Pool()), &river.Config{})
	must.OK(t, err)
	d := mail.Deps{DB: f.db, Audit: f.audit, Seal: sealer, Queue: queue, Registry: f.metrics, Log: slog.New(slog.DiscardHandler)}
	if configured {
		s, err := smtp.Parse(f.server.URL)
		must.OK(t, err)
		d.Sender = smtp.New(smtp.Deps{Settings: s, Dial: egress.DialDirect(s.Address(), s.Implicit, nil)})
	}
	f.Outbox = mail.New(d)
	return f
}

func (f *fixture) set(now time.Time) { f.now.Store(&now) }

// add composes and adds a mail, in a transaction that ends with result.
func (f *fixture) add(m mail.Message, result error) mail.Report {
	f.t.Helper()
	d, err := f.Compose(f.t.Context(), f.org, m)
	must.OK(f.t, err)
	var r mail.Report
	err = f.db.Tx(f.t.Context(), func(tx postgres.Tx) error {
		var err error
		if r, err = f.Add(f.t.Context(), tx, d); err != nil {
			return err
		}
		return result
	})
	if !errors.Is(err, result) {
		f.t.Fatal(err)
	}
	return r
}

// rows returns a query's only column, one value per line.
func (f *fixture) rows(query string) string {
	f.t.Helper()
	var text *string
	must.OK(f.t, f.db.Pool().QueryRow(f.t.Context(), "SELECT string_agg(x::text, E'\n') FROM ("+query+") AS t(x)").Scan(&text))
	if text == nil {
		return ""
	}
	return *text
}

// actions returns the actions in the audit log with their changes, newest first.
func (f *fixture) actions() (list []string) {
	f.t.Helper()
	entries, err := f.audit.Choose(f.t.Context(), f.org, audit.Filter{}, 0, 100)
	must.OK(f.t, err)
	for _, e := range entries {
		text, err := json.Marshal(e.Changes)
		must.OK(f.t, err)
		list = append(list, e.By.Action+" "+string(text))
	}
	return list
}

var errUndo = errors.New("undo")

// A mail is sent for a change that was committed, by a worker of the queue, and for no other. Neither the recipient nor
// the link is readable in the database.
func TestAMailIsSentForACommittedChange(t *testing.T) {
	t.Parallel()
	f := newFixture(t, true)
	f.add(sample(mail.ConnectLink, "es"), errUndo)
	r := f.add(sample(mail.ConnectLink, "en"), nil)
	if r.Status != mail.Queued || r.To != "a•••@acme.test" {
		t.Fatalf("got %+v", r)
	}
	stored := f.rows("SELECT row_to_json(m) FROM mail m UNION ALL SELECT row_to_json(j) FROM river_job j UNION ALL SELECT row_to_json(s) FROM mail_subject s")
	if stored == "" || strings.Contains(stored, "ada@") || strings.Contains(stored, "cst_1") {
		t.Errorf("the database has a secret: %s", stored)
	}
	workers := river.NewWorkers()
	mail.Register(workers, f.Outbox)
	client, err := river.NewClient(riverpgxv5.New(f.db.Pool()), &river.Config{
		Workers: workers, Queues: map[string]river.QueueConfig{mail.Queue: {MaxWorkers: 2}}, Logger: slog.New(slog.DiscardHandler),
	})
	must.OK(t, err)
	must.OK(t, client.Start(context.WithoutCancel(t.Context())))
	got := f.server.Await(1)
	must.OK(t, client.Stop(t.Context()))
	if len(got) != 1 || got[0].Envelope != "ada@acme.test" || !strings.Contains(got[0].Text, "Connect your account") || got[0].Header.Get("Message-Id") != "<"+string(r.ID)+"@stagedoor.test>" {
		t.Errorf("got %+v", got)
	}
	if state := f.rows("SELECT state || coalesce(sealed::text, '') FROM mail"); state != "sent" {
		t.Errorf("the row is %s", state)
	}
}

// A mail that the server refuses for now is sent later, one that it refuses for good has failed, and one that has expired
// is not sent.
func TestWhatTheServerRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, true)
	later, never, expired := sample(mail.ConnectLink, "en"), sample(mail.Reconnect, "en"), sample(mail.Invitation, "en")
	ids := []id.Mail{f.add(later, nil).ID, f.add(never, nil).ID, f.add(expired, nil).ID}
	send := func(i int) error { return f.Send(t.Context(), f.org, ids[i]) }
	f.server.Refuse(451)
	if err := send(0); err == nil {
		t.Error("a mail that the server did not accept is over")
	}
	must.OK(t, send(0))
	must.OK(t, send(0)) // a job that runs again sends nothing
	f.server.Refuse(550)
	must.OK(t, send(1))
	f.set(start.Add(30 * time.Minute))
	must.OK(t, send(2))
	if got := f.server.Mails(); len(got) != 1 || !strings.Contains(got[0].Subject, "asks you to connect your account") {
		t.Errorf("the server has %+v", got)
	}
	if got := f.rows("SELECT state || ' ' || reason FROM mail ORDER BY id"); got != "sent \nfailed the mail server refuses the mail with status 550\nfailed expired" {
		t.Errorf("the mails are\n%s", got)
	}
	const header = "# HELP stagedoor_mail_tries_total Tries to send mails, by kind and outcome: sent, retry if the mail server did not take the mail for now, and failed if it is not tried again.\n# TYPE stagedoor_mail_tries_total counter\n"
	var counts strings.Builder
	for _, kind := range []string{"account_attention", "connect_link", "invitation", "key_expiring", "receipt", "reconnect", "usage", "webhook_failing"} {
		tries := map[string][3]int{"connect_link": {0, 1, 1}, "reconnect": {1, 0, 0}, "invitation": {1, 0, 0}}[kind]
		for i, outcome := range []string{"failed", "retry", "sent"} {
			fmt.Fprintf(&counts, "stagedoor_mail_tries_total{kind=%q,outcome=%q} %d\n", kind, outcome, tries[i])
		}
	}
	must.OK(t, testutil.GatherAndCompare(f.metrics, strings.NewReader(header+counts.String()), "stagedoor_mail_tries_total"))
	if a := f.actions(); len(a) != 2 || !strings.HasPrefix(a[0], "mail.fail ") || !strings.Contains(a[1], "status 550") {
		t.Errorf("the audit log has %v", a)
	}
}

// While one worker sends a mail, another one does not; once the first has died, another one sends it.
func TestOneWorkerAtATimeSendsAMail(t *testing.T) {
	t.Parallel()
	f := newFixture(t, true)
	m := sample(mail.Invitation, "en")
	m.ExpiresAt = start.Add(time.Hour)
	which := f.add(m, nil).ID
	_, err := f.db.Exec(t.Context(), "UPDATE mail SET taken_until = $1", start.Add(2*time.Minute))
	must.OK(t, err)
	if err := f.Send(t.Context(), f.org, which); !errors.Is(err, mail.ErrTaken) || len(f.server.Mails()) != 0 {
		t.Errorf("a second worker: %v", err)
	}
	f.set(start.Add(2 * time.Minute))
	must.OK(t, f.Send(t.Context(), f.org, which))
	if len(f.server.Mails()) != 1 {
		t.Error("the mail was not sent after its worker had died")
	}
}

// A subject has one mail per hour, by the database's time, and an organisation a number of mails.
func TestMailsPerHourAreLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t, true)
	m := sample(mail.ConnectLink, "en")
	other := m
	other.To = "eve@acme.test"
	again := m
	again.To = "ADA@acme.test"
	for _, step := range []struct {
		after time.Duration
		m     mail.Message
		want  mail.Status
	}{
		{0, m, mail.Queued}, {0, other, mail.Queued}, {59 * time.Minute, again, mail.Limited}, {time.Hour, again, mail.Queued}, {time.Hour, m, mail.Limited},
	} {
		f.set(start.Add(step.after))
		if r := f.add(step.m, nil); r.Status != step.want || r.Text == "" {
			t.Errorf("after %s %s is %s, want %s", step.after, step.m.To, r.Status, step.want)
		}
	}
	f.set(start.Add(3 * time.Hour))
	_, err := f.db.Exec(t.Context(), `INSERT INTO mail (org_id, id, kind, state, created_at, expires_at)
		SELECT $1, 'mail_' || n, 'usage', 'sent', $2, $2 FROM generate_series(1, $3) n`, f.org, start.Add(3*time.Hour), mail.MaxPerHour)
	must.OK(t, err)
	if r := f.add(m, nil); r.Status != mail.Limited {
		t.Errorf("beyond the limit of the organisation: %s", r.Status)
	}
	f.set(start.AddDate(0, 0, mail.KeepDays).Add(3 * time.Hour))
	must.OK(t, f.Trim(t.Context()))
	if left := f.rows("SELECT id FROM mail UNION ALL SELECT org_id FROM mail_subject"); left != "" {
		t.Errorf("after Trim there is %s", left)
	}
}

// Without a mail server the caller gets the text and what to record, and nothing waits.
func TestWithoutAServerTheCallerGetsTheText(t *testing.T) {
	t.Parallel()
	f := newFixture(t, false)
	m := sample(mail.ConnectLink, "en")
	r := f.add(m, nil)
	if r.Status != mail.NotConfigured || !strings.Contains(r.Text, m.Link) || r.Subject == "" {
		t.Errorf("got %+v", r)
	}
	if left := f.rows("SELECT id FROM mail UNION ALL SELECT kind FROM river_job"); left != "" {
		t.Errorf("there is %s", left)
	}
	if a := fmt.Sprint(r.Change().To); !strings.Contains(a, "not_configured") || !strings.Contains(a, "a•••@acme.test") || strings.Contains(a, "cst_1") {
		t.Errorf("the audit log would have %v", a)
	}
}
