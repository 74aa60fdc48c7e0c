package link_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// fixture is the service on its own database, with a clock that only Advance moves.
type fixture struct {
	*testing.T
	*link.Sessions
	*testenv.Clock
	db     *postgres.DB
	outbox *outbox.Outbox
	audit  *audit.Log
	org    org.Org
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	now := testenv.NewClock(time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC))
	r := &fixture{T: t, Clock: now, db: testenv.Postgres(t)}
	r.outbox, r.audit = outbox.New(r.db, r.Now), audit.New(r.db, sealtest.NewMemory(), r.Now)
	r.Sessions = link.New(link.Deps{DB: r.db, Audit: r.audit, Outbox: r.outbox, Keys: keys{key: "one key for all nodes, 32 bytes."}, Seal: sealtest.NewMemory(), Mail: mail.New(mail.Deps{DB: r.db.WithClock(r.Now), Audit: r.audit, Seal: sealtest.NewMemory(), Queue: testenv.NoJobs{}, Log: slog.New(slog.DiscardHandler)}), ConnectURL: "https://connect.test", Regions: func() []string { return []string{"us", "uk"} }, Now: r.Now})
	r.org = r.addOrg("Northlight")
	return r
}

func (r *fixture) addOrg(name string) org.Org {
	r.Helper()
	orgs := org.New(org.Deps{DB: r.db, Audit: r.audit, Jobs: nil, Announce: nil, Now: r.Now})
	var made org.Org
	err := r.db.Tx(r.Context(), func(tx postgres.Tx) (err error) {
		made, err = orgs.Create(r.Context(), tx, by("org.create"), org.Draft{
			Name: name, Plan: org.Sandbox, Environment: environment.Sandbox, ContactEmail: "ops@example.com",
		})
		return err
	})
	must.OK(r, err)
	return made
}

func by(action string) audit.By { return audit.By{Kind: audit.ActorSystem, ID: "test", Action: action} }

// createSession creates a session and returns it with its token.
func (r *fixture) createSession(d link.Draft) (link.Session, string) {
	r.Helper()
	s, token, err := r.Create(r.Context(), by("connect.session_create"), r.org, d)
	must.OK(r, err)
	return s, token.Reveal()
}

func (r *fixture) tryStartAttempt(s link.Session) (id.Attempt, error) {
	attempt := id.New[id.Attempt]()
	return attempt, r.db.Tx(r.Context(), func(tx postgres.Tx) error {
		return r.AttemptStarted(r.Context(), tx, s.Org,
			s.ID, s.Openings(), attempt)
	})
}

func (r *fixture) startAttempt(s link.Session) id.Attempt {
	r.Helper()
	attempt, err := r.tryStartAttempt(s)
	must.OK(r, err)
	return attempt
}

func (r *fixture) endAttempt(s link.Session, attempt id.Attempt, account id.Account) {
	r.Helper()
	err := r.db.Tx(r.Context(), func(tx postgres.Tx) error {
		return r.AttemptEnded(r.Context(), tx, s.Org, s.ID, attempt,
			account)
	})
	must.OK(r, err)
}

func (r *fixture) sweep() int {
	r.Helper()
	n, err := r.Sweep(r.Context())
	must.OK(r, err)
	return n
}

// wantStatus checks a session's status, and that its events are exactly those of the given ends.
func (r *fixture) wantStatus(s link.Session, want link.Status, ends ...link.Status) link.Session {
	r.Helper()
	got, err := r.Get(r.Context(), s.Org, s.ID)
	must.OK(r, err)
	if got.Status != want {
		r.Fatalf("the session is %s, want %s", got.Status, want)
	}
	var statuses []link.Status
	for _, e := range r.events(s) {
		statuses = append(statuses, link.Status(e.Status))
	}
	if !slices.Equal(statuses, ends) {
		r.Fatalf("events %v, want %v", statuses, ends)
	}
	return got
}

func (r *fixture) events(s link.Session) []contract.ConnectSessionFinished {
	r.Helper()
	stored, err := r.outbox.After(r.Context(), s.Org, 0, 100)
	must.OK(r, err)
	var list []contract.ConnectSessionFinished
	for _, e := range stored {
		var data contract.ConnectSessionFinished
		if e.Kind != "connect.session_finished" || json.Unmarshal(e.Data, &data) != nil {
			r.Fatalf("event %s: %s", e.Kind, e.Data)
		}
		if data.SessionID == s.ID {
			list = append(list, data)
		}
	}
	return list
}

func TestLinkFindsItsSessionAndTokenIsNotStored(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	made, token := r.createSession(link.Draft{ReferenceID: "user_456", Label: "Luna"})
	if made.Status != link.Open || made.Remember != "ask" || made.ExpiresAt.Sub(made.CreatedAt) != 30*time.Minute || len(made.Kinds) != 2 {
		t.Fatalf("%+v", made)
	}
	found, err := r.ByToken(t.Context(), token)
	if err != nil || found.ID != made.ID || found.Org != r.org.ID || found.ReferenceID != "user_456" || found.Label != "Luna" {
		t.Fatalf("%+v, %v", found, err)
	}
	var rows string
	err = r.db.Pool().QueryRow(t.Context(), `SELECT string_agg(s::text, '') || (SELECT string_agg(a::text, '') FROM audit_entry a) FROM connect_session s`).Scan(&rows)
	if err != nil || !strings.Contains(rows, string(made.ID)) || strings.Contains(rows, strings.TrimPrefix(token, "cst_")) {
		t.Fatalf("the rows contain the token, or lack the session: %v", err)
	}
	other := r.addOrg("Other")
	if _, err := r.Get(t.Context(), other.ID, made.ID); !errors.Is(err, problem.SessionNotFound.New("")) {
		t.Fatalf("another org's session: %v", err)
	}
}

func TestUnknownTokenIsNotFound(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	_, token := r.createSession(link.Draft{})
	changed := []byte(token)
	changed[10] ^= 1
	for _, bad := range []string{"", "cst_", token[:len(token)-1], token + "A", strings.TrimPrefix(token, "cst_"), "at_" + token[4:], string(changed), strings.Repeat("x", 5000)} {
		if _, err := r.ByToken(t.Context(), bad); !errors.Is(err, problem.SessionNotFound.New("")) {
			t.Errorf("%.60q: %v", bad, err)
		}
	}
}

func TestSessionSucceedsOnce(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	s, _ := r.createSession(link.Draft{ReferenceID: "user_456"})
	first := r.startAttempt(s)
	if got := r.wantStatus(s, link.InProgress); got.Active != first {
		t.Fatalf("%+v", got)
	}
	if _, err := r.tryStartAttempt(s); !errors.Is(err, problem.AttemptInProgress.New("")) {
		t.Fatalf("a second concurrent attempt: %v", err)
	}
	r.endAttempt(s, first, "")
	r.wantStatus(s, link.InProgress) // a failure is not the end
	second := r.startAttempt(s)
	account := id.New[id.Account]()
	r.endAttempt(s, second, account)
	got := r.wantStatus(s, link.Success, link.Success)
	if got.Connected != account || got.Active != "" || got.FinishedAt == nil || !slices.Equal(got.Attempts, []id.Attempt{first, second}) {
		t.Fatalf("%+v", got)
	}
	if e := r.events(s)[0]; e.AccountID != account || e.ReferenceID != "user_456" || len(e.Attempts) != 2 {
		t.Fatalf("%+v", e)
	}
	if _, err := r.tryStartAttempt(s); !errors.Is(err, link.ErrOver) {
		t.Fatalf("an attempt after success: %v", err)
	}
	r.endAttempt(s, second, account) // reported twice by a repeated step
	r.wantStatus(s, link.Success, link.Success)
}

func TestOnlyOneOfTwoConcurrentAttemptsStarts(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	s, _ := r.createSession(link.Draft{})
	failures := make(chan error, 2)
	for range 2 {
		go func() { _, err := r.tryStartAttempt(s); failures <- err }()
	}
	a, b := <-failures, <-failures
	if (a == nil) == (b == nil) || !errors.Is(errors.Join(a, b), problem.AttemptInProgress.New("")) {
		t.Fatalf("%v, %v", a, b)
	}
	if got := r.wantStatus(s, link.InProgress); len(got.Attempts) != 1 {
		t.Fatalf("%+v", got)
	}
}

func TestOpenedLinkWorksUntilItExpires(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	s, token := r.createSession(link.Draft{ExpiresIn: time.Hour})
	for range 3 {
		if _, err := r.ByToken(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	r.Advance(59 * time.Minute)
	if n := r.sweep(); n != 0 {
		t.Fatalf("swept %d", n)
	}
	r.wantStatus(s, link.Open)
	r.Advance(time.Minute)
	// For readers it has expired immediately; the sweep only writes the event.
	if got, err := r.ByToken(t.Context(), token); err != nil || got.Status != link.Expired {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := r.tryStartAttempt(s); !errors.Is(err, link.ErrOver) {
		t.Fatalf("an attempt in an expired session: %v", err)
	}
	r.sweep()
	r.wantStatus(s, link.Expired, link.Expired)
	r.sweep()
	r.wantStatus(s, link.Expired, link.Expired)
}

func TestIdleSessionEndsAfterTenMinutes(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	s, _ := r.createSession(link.Draft{ExpiresIn: 2 * time.Hour})
	attempt := r.startAttempt(s)
	r.Advance(29 * time.Minute) // a long attempt is not idle time
	r.sweep()
	r.wantStatus(s, link.InProgress)
	r.endAttempt(s, attempt, "")
	r.Advance(10*time.Minute - time.Second)
	r.sweep()
	r.wantStatus(s, link.InProgress)
	r.Advance(time.Second)
	r.sweep()
	if got := r.wantStatus(s, link.Exited, link.Exited); got.FinishedAt == nil {
		t.Fatalf("%+v", got)
	}
}

func TestAttemptMayFinishAfterTheLinkExpired(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	s, token := r.createSession(link.Draft{ExpiresIn: time.Minute})
	attempt := r.startAttempt(s)
	r.Advance(5 * time.Minute)
	r.sweep()
	if got, err := r.ByToken(t.Context(), token); err != nil || got.Status != link.InProgress {
		t.Fatalf("%+v, %v", got, err)
	}
	r.endAttempt(s, attempt, id.New[id.Account]())
	r.wantStatus(s, link.Success, link.Success)
}

func TestSessionEndsIfItsAttemptNeverDoes(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	s, _ := r.createSession(link.Draft{ExpiresIn: 2 * time.Hour})
	r.startAttempt(s)
	r.Advance(45 * time.Minute)
	r.sweep()
	if got := r.wantStatus(s, link.Exited, link.Exited); got.Active != "" {
		t.Fatalf("%+v", got)
	}
}

func TestExitEndsASessionOnce(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	s, _ := r.createSession(link.Draft{})
	for range 2 { // clicked twice
		if left, err := r.Exit(t.Context(), s.Org, s.ID, s.Openings()); err != nil || left.Status != link.Exited {
			t.Fatalf("%+v, %v", left, err)
		}
	}
	r.wantStatus(s, link.Exited, link.Exited)
}

func TestAttemptsInOneSessionAreLimited(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	s, _ := r.createSession(link.Draft{})
	for range 20 {
		r.endAttempt(s, r.startAttempt(s), "")
	}
	if _, err := r.tryStartAttempt(s); !errors.Is(err, link.ErrOver) {
		t.Fatalf("the 21st: %v", err)
	}
}

func TestEndedSessionIsDeletedAfterThirtyDays(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	s, _ := r.createSession(link.Draft{})
	if _, err := r.Exit(t.Context(), s.Org, s.ID, s.Openings()); err != nil {
		t.Fatal(err)
	}
	r.Advance(30*24*time.Hour - time.Second)
	if n := r.sweep(); n != 0 {
		t.Fatalf("swept %d", n)
	}
	r.Advance(time.Second)
	r.sweep()
	if _, err := r.Get(t.Context(), s.Org, s.ID); !errors.Is(err, problem.SessionNotFound.New("")) {
		t.Fatalf("%v", err)
	}
}

func TestConcurrentSweepersWriteOneEventPerSession(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for range 30 {
		r.createSession(link.Draft{ExpiresIn: time.Minute})
	}
	r.Advance(time.Hour)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if _, err := r.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	r.sweep()
	stored, err := r.outbox.After(t.Context(), r.org.ID, 0, 100)
	if err != nil || len(stored) != 30 {
		t.Fatalf("%d events, %v", len(stored), err)
	}
}

func TestCreatingASessionIsAudited(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	s, _ := r.createSession(link.Draft{})
	entries, err := r.audit.Choose(t.Context(), r.org.ID, audit.Filter{}, 0, 10)
	if err != nil || len(entries) != 2 || entries[0].Target != string(s.ID) || entries[0].By.Action != "connect.session_create" {
		t.Fatalf("%+v, %v", entries, err)
	}
}

// A link that is to be mailed is not sent without a mail server: the creator of the link gets the text, and the audit log
// says so without the link.
func TestALinkToBeMailed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	made, token := r.createSession(link.Draft{DeliverEmail: "Luna@example.com", PlatformName: "Sandbox", Locale: "es", ExpiresIn: time.Hour})
	m := made.Mail
	if m == nil || m.Status != mail.NotConfigured || m.To != "l•••@example.com" || !strings.Contains(m.Text, "https://connect.test/s/"+token) ||
		m.Subject != "Northlight te pide que conectes tu cuenta" || !strings.Contains(m.Text, "Sandbox") || !strings.Contains(m.Text, "60 minutos") {
		t.Errorf("got %+v", m)
	}
	entries, err := r.audit.Choose(t.Context(), r.org.ID, audit.Filter{Target: string(made.ID)}, 0, 1)
	must.OK(t, err)
	if text := string(entries[0].Changes); !strings.Contains(text, "not_configured") || !strings.Contains(text, "l•••@example.com") || strings.Contains(text, token) || strings.Contains(strings.ToLower(text), "luna") {
		t.Errorf("the audit log has %s", text)
	}
	if again, err := r.Get(t.Context(), r.org.ID, made.ID); err != nil || again.Mail != nil {
		t.Errorf("the mail is shown again: %+v, %v", again.Mail, err)
	}
	if plain, _ := r.createSession(link.Draft{}); plain.Mail != nil {
		t.Errorf("a link without an address has a mail: %+v", plain.Mail)
	}
	reconnect, _ := r.createSession(link.Draft{Account: id.New[id.Account](), DeliverEmail: "luna@example.com"})
	if reconnect.Mail == nil || !strings.Contains(reconnect.Mail.Subject, "connect your account again") {
		t.Errorf("got %+v", reconnect.Mail)
	}
}
