package notice_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/notice"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/smtp"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testmail"
)

// failing are the webhooks that a test says are failing. The query that finds them is tested in package webhook.
type failing []webhook.FailingHook

func (f *failing) Failing(_ context.Context, before time.Time, each func(webhook.FailingHook) error) error {
	for _, one := range *f {
		if !one.Since.After(before) {
			if err := each(one); err != nil {
				return err
			}
		}
	}
	return nil
}

// fixture is a Notices on real engines, with a mail server and a receiver of messages. Its only organisation has no members.
type fixture struct {
	*accounttest.Fixture
	*notice.Notices
	t      *testing.T
	org    id.Org
	keys   *apikey.Keys
	hooks  *failing
	mails  *mail.Outbox
	server *testmail.Server
	slack  *httptest.Server
	posts  chan string
	// sent is how many mails next has returned.
	sent int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Fixture: accounttest.New(t, accounttest.Engines{}, nil), t: t, hooks: &failing{}, server: testmail.New(t, testmail.Setup{}), posts: make(chan string, 10)}
	f.slack = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a test that compares it fails
		f.posts <- string(body)
	}))
	t.Cleanup(f.slack.Close)
	log := slog.New(slog.DiscardHandler)
	queue, err := river.NewClient(riverpgxv5.New(f.DB.Pool()), &river.Config{})
	must.OK(t, err)
	settings, err := smtp.Parse(f.server.URL)
	must.OK(t, err)
	f.mails = mail.New(mail.Deps{
		DB: f.DB, Audit: f.Audit, Seal: f.Seal, Queue: queue, Log: log,
		Sender: smtp.New(smtp.Deps{Settings: settings, Dial: egress.DialDirect(settings.Address(), settings.Implicit, nil)}),
	})
	f.keys = apikey.New(apikey.Deps{DB: f.DB, Orgs: f.Orgs, Audit: f.Audit, Outbox: f.Outbox, Troubled: func() time.Time { return time.Time{} }, Now: f.Clock.Now})
	public := egress.NewPublic(egress.PublicConfig{Loopback: true, Now: f.Clock.Now})
	t.Cleanup(public.Close)
	f.Notices = notice.New(notice.Deps{
		DB: f.DB, Orgs: f.Orgs, Accounts: f.Accounts, Keys: f.keys, Webhooks: f.hooks, Mail: f.mails, Audit: f.Audit, Seal: f.Seal, Public: public, Queue: queue,
		Members:   member.New(member.Deps{DB: f.DB, Orgs: f.Orgs, Keys: f.keys, Audit: f.Audit, Mail: f.mails, PublicURL: "https://stagedoor.test", Now: f.Clock.Now}),
		PublicURL: "https://stagedoor.test", Log: log,
	})
	f.Outbox.Watch(f.Observe)
	f.org = f.Org()
	workers := river.NewWorkers()
	mail.Register(workers, f.mails)
	notice.Register(workers, f.Notices)
	client, err := river.NewClient(riverpgxv5.New(f.DB.Pool()), &river.Config{
		Workers: workers, Logger: log, Queues: map[string]river.QueueConfig{mail.Queue: {MaxWorkers: 1}, notice.Queue: {MaxWorkers: 1}},
	})
	must.OK(t, err)
	must.OK(t, client.Start(context.WithoutCancel(t.Context())))
	t.Cleanup(func() { must.OK(t, client.Stop(context.WithoutCancel(t.Context()))) })
	return f
}

func (f *fixture) round() {
	f.t.Helper()
	must.OK(f.t, f.Round(f.t.Context()))
}

// next waits for the next mail.
func (f *fixture) next() testmail.Mail {
	f.t.Helper()
	f.sent++
	return f.server.Await(f.sent)[f.sent-1]
}

// queued returns how many mails and messages were ever queued.
func (f *fixture) queued() (n int) {
	f.t.Helper()
	must.OK(f.t, f.DB.Pool().QueryRow(f.t.Context(), "SELECT count(*) FROM river_job").Scan(&n))
	return n
}

func (f *fixture) emit(e outbox.Event) {
	f.t.Helper()
	must.OK(f.t, f.DB.Tx(f.t.Context(), func(tx postgres.Tx) error { return f.Outbox.Add(f.t.Context(), tx, e) }))
}

// addUsage reports that the organisation has used a share of its month.
func (f *fixture) addUsage(percent int) {
	f.t.Helper()
	f.emit(outbox.Event{Org: f.org, Data: contract.UsageThreshold{Metric: "calls_per_month", Percent: percent, Limit: 1000, Used: int64(percent) * 10}})
}

var by = accounttest.By("notice.set")

// Accounts that need a person are told in one notice, by mail and by message, at most once per hour. Those that work again
// or were deleted before are not in it, and names of accounts are not stored.
func TestAccountsThatNeedAPersonAreToldOncePerHour(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	slack := secret.New(f.slack.URL + "/services/T0/B0/secret")
	if _, err := f.Set(t.Context(), by, f.org, notice.Change{Slack: &slack}); err != nil {
		t.Fatal(err)
	}
	lose := func(creator, label string) account.Account {
		c := f.Connected(f.org, creator)
		c.Label = label
		a := f.Connect(c)
		for _, on := range []account.Trigger{account.ProbePassed, account.SessionLost} {
			var err error
			a, err = f.Accounts.Trigger(t.Context(), by, a.Org, a.ID, account.Cause{On: on})
			must.OK(t, err)
		}
		return a
	}
	lose("1", "Luna & Co")
	gone := lose("2", "Maya")
	must.OK(t, f.Accounts.Disconnect(t.Context(), by, f.org, gone.ID))
	var stored string
	must.OK(t, f.DB.Pool().QueryRow(t.Context(), "SELECT string_agg(row_to_json(n)::text || row_to_json(s)::text, ' ') FROM notice n, notice_setting s").Scan(&stored))
	if strings.Contains(stored, "Luna") || strings.Contains(stored, "secret") || !strings.Contains(stored, "account.reconnect_required") {
		t.Errorf("stored: %s", stored)
	}
	f.round()
	m := f.next()
	if m.Envelope != "ops@example.com" || m.Subject != "Test: an account needs a person" || !strings.Contains(m.Text, "Luna & Co: the creator must connect it again") || strings.Contains(m.Text, "Maya") {
		t.Errorf("got %+v", m)
	}
	if !strings.HasPrefix(m.Header.Get("List-Unsubscribe"), "<https://stagedoor.test/unsubscribe/") || m.Header.Get("List-Unsubscribe-Post") != "List-Unsubscribe=One-Click" {
		t.Errorf("the mail cannot be unsubscribed: %v", m.Header)
	}
	var message struct{ Text string }
	must.OK(t, json.Unmarshal([]byte(<-f.posts), &message))
	if want := "*Test: an account needs a person*\n• Luna &amp; Co: the creator must connect it again\n<https://stagedoor.test/app/accounts|See the accounts>"; message.Text != want {
		t.Errorf("posted %q, want %q", message.Text, want)
	}
	before := f.queued()
	lose("3", "Nora")
	lose("4", "Olga")
	f.Clock.Advance(59 * time.Minute)
	f.round()
	f.round()
	if n := f.queued(); n != before {
		t.Errorf("%d more within the hour", n-before)
	}
	f.Clock.Advance(time.Minute)
	f.round()
	if m := f.next(); m.Subject != "Test: 2 accounts need a person" || !strings.Contains(m.Text, "Nora") || !strings.Contains(m.Text, "Olga") || strings.Contains(m.Text, "Luna") {
		t.Errorf("an hour later: %+v", m)
	}
	<-f.posts
	entries, err := f.Audit.Choose(t.Context(), f.org, audit.Filter{Action: "notice.send"}, 0, 10)
	must.OK(t, err)
	if len(entries) != 2 || !strings.Contains(string(entries[0].Changes), "o•••@example.com") {
		t.Errorf("the audit log has %d entries, the last with %s", len(entries), entries[0].Changes)
	}
}

// 80 % and 100 % of a month are told, 50 % is not; a month later they are told again.
func TestUsageIsTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addUsage(50)
	f.round()
	if n := f.queued(); n != 0 {
		t.Errorf("%d mails at 50 %%", n)
	}
	for i, percent := range []int{80, 100, 80} {
		f.Clock.Advance(time.Hour * 24 * 10)
		f.addUsage(percent)
		f.round()
		if m := f.next(); !strings.Contains(m.Text, fmt.Sprintf("%d %% of 1000 calls", percent)) {
			t.Errorf("notice %d: %s", i, m.Text)
		}
	}
}

// A webhook that has been failing for 10 minutes is told once, without the secret part of its address, and again when it
// starts to fail again.
func TestFailingWebhooksAreTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	since := f.Clock.Now()
	*f.hooks = failing{{Org: f.org, Endpoint: "whe_1", URL: "https://hooks.acme.test/secret?token=1", Since: since}}
	f.Clock.Advance(10*time.Minute - time.Second)
	f.round()
	if n := f.queued(); n != 0 {
		t.Errorf("%d mails before 10 minutes", n)
	}
	f.Clock.Advance(time.Second)
	f.round()
	if m := f.next(); !strings.Contains(m.Text, "hooks.acme.test (whe_1): failing for 10 minutes") || strings.Contains(m.Text, "secret") {
		t.Errorf("got %s", m.Text)
	}
	f.Clock.Advance(5 * time.Hour)
	f.round()
	if n := f.queued(); n != 1 {
		t.Errorf("the same failure is told again: %d mails", n)
	}
	(*f.hooks)[0].Since = f.Clock.Now().Add(-20 * time.Minute)
	f.round()
	if m := f.next(); !strings.Contains(m.Text, "failing for 20 minutes") {
		t.Errorf("a new failure: %s", m.Text)
	}
}

// A key that expires is told once, in time, and not if it was revoked.
func TestExpiringKeysAreTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	o, err := f.Orgs.Get(t.Context(), f.org)
	must.OK(t, err)
	issue := func(label string, lasts time.Duration) id.Key {
		var key apikey.Key
		must.OK(t, f.DB.Tx(t.Context(), func(tx postgres.Tx) (err error) {
			end := f.Clock.Now().Add(lasts)
			key, _, err = f.keys.Issue(t.Context(), tx, o, by, apikey.Draft{Label: label, ExpiresAt: &end})
			return err
		}))
		return key.ID
	}
	const day = 24 * time.Hour
	issue("yearly", 30*day)
	issue("short", day)
	f.Clock.Advance(23*day - time.Second)
	f.round()
	if n := f.queued(); n != 0 {
		t.Errorf("%d mails too early", n)
	}
	f.Clock.Advance(time.Second)
	f.round()
	if m := f.next(); m.Subject != "Test: an API key expires soon" || !strings.Contains(m.Text, "yearly: expires in 7 days") {
		t.Errorf("got %q: %s", m.Subject, m.Text)
	}
	issue("brief", 3*day)
	f.Clock.Advance(2 * day)
	f.round()
	if m := f.next(); !strings.Contains(m.Text, "brief: expires in 24 hours") || strings.Contains(m.Text, "yearly") {
		t.Errorf("got %s", m.Text)
	}
}

// An organisation chooses kinds and language; what it does not want is not told later either. A recipient who has
// unsubscribed gets nothing until they subscribe again, and a forged link does nothing.
func TestNoticesCanBeStopped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	kinds, es := []mail.Kind{mail.AccountAttention}, "es"
	s, err := f.Set(t.Context(), by, f.org, notice.Change{Kinds: &kinds, Locale: &es})
	must.OK(t, err)
	if s.HasSlack() || !slices.Equal(s.Kinds, kinds) || s.Locale != es {
		t.Errorf("got %+v", s)
	}
	f.addUsage(80)
	f.round()
	if _, err := f.Set(t.Context(), by, f.org, notice.Change{Kinds: &[]mail.Kind{}}); err != nil {
		t.Fatal(err)
	}
	f.round()
	if n := f.queued(); n != 0 {
		t.Fatalf("%d unwanted mails", n)
	}
	f.addUsage(100)
	f.round()
	m := f.next()
	if !strings.Contains(m.Text, "100 % de 1000 llamadas") {
		t.Errorf("got %s", m.Text)
	}
	token := strings.TrimSuffix(strings.TrimPrefix(m.Header.Get("List-Unsubscribe"), "<https://stagedoor.test/unsubscribe/"), ">")
	for _, forged := range []string{"", token[:40], token[:len(token)-3] + "AAA", strings.ToUpper(token)} {
		if _, err := f.ReadSubscription(t.Context(), forged); err == nil {
			t.Errorf("%q is accepted", forged)
		}
	}
	to, err := f.ReadSubscription(t.Context(), token)
	must.OK(t, err)
	for _, subscribed := range []bool{false, false, true} {
		must.OK(t, f.SetSubscribed(t.Context(), to, subscribed))
		list, err := f.Recipients(t.Context(), f.org)
		must.OK(t, err)
		if len(list) != 1 || list[0].Subscribed != subscribed {
			t.Errorf("got %+v", list)
		}
		before := f.queued()
		f.Clock.Advance(time.Hour)
		f.addUsage(80)
		f.round()
		if n := f.queued() - before; (n == 1) != subscribed {
			t.Errorf("subscribed: %t, %d mails", subscribed, n)
		}
	}
	if s, err := f.Reset(t.Context(), by, f.org); err != nil || s.Kinds != nil || s.Locale != "en" {
		t.Errorf("after Reset: %+v, %v", s, err)
	}
}
