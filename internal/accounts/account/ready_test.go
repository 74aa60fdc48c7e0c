package account_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/account/accounttest"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// memory is a node whose own connections to the database a test can take away.
type memory struct {
	*accounttest.Rig
	node *account.Accounts
	db   *postgres.DB
}

func newMemory(t *testing.T) memory {
	t.Helper()
	url := testenv.DatabaseURL(t)
	open := func() *postgres.DB {
		db, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 4, Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	shared, own := open(), open()
	t.Cleanup(shared.Close)
	m := memory{Rig: accounttest.New(t, accounttest.Engines{DB: shared, Redis: testenv.Redis(t), NATS: testenv.NATS(t)}, nil), db: own}
	m.node = m.Node(func(d *account.Deps) { d.DB = own })
	return m
}

func at(version int64) admission.Decision { return admission.Decision{SessionVersion: uint32(version)} }

// A node that remembers an account asks the database only when the admission says that there is something new, or cannot say.
func TestReadyAsksOnlyWhenSomethingIsNew(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	owner := m.Org()
	a := m.Connect(m.Connected(owner, "1"))
	ready := func(d admission.Decision) (string, error) {
		_, session, err := m.node.Ready(t.Context(), owner, a.ID, d)
		return session.Cookie("sess").Reveal(), err
	}
	if got, err := ready(at(a.SessionVersion)); err != nil || got != "first" {
		t.Fatalf("%q, %v", got, err)
	}
	next, err := m.Accounts.Rotate(t.Context(), a, []string{"sess"}, m.Session("auth_id=1; sess=second"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ready(at(a.SessionVersion)); err != nil || got != "first" {
		t.Errorf("nothing new was said, and it has %q, %v", got, err)
	}
	if got, err := ready(at(next.SessionVersion)); err != nil || got != "second" {
		t.Errorf("a newer version was said, and it has %q, %v", got, err)
	}
	m.db.Close()
	if got, err := ready(at(next.SessionVersion)); err != nil || got != "second" {
		t.Errorf("without a database: %q, %v", got, err)
	}
	for name, d := range map[string]admission.Decision{
		"newer": at(next.SessionVersion + 1), "unknown": at(0), "decided alone": {SessionVersion: 0, Degraded: true},
	} {
		if got, err := ready(d); err == nil {
			t.Errorf("%s: %q from memory", name, got)
		}
	}
	m.Clock.Advance(31 * time.Second)
	if got, err := ready(at(next.SessionVersion)); err == nil {
		t.Errorf("after half a minute: %q from memory", got)
	}
}

// What is remembered of an account belongs to its org, and follows its state and its end.
func TestReadyRefusesAsTheAccountStands(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	defer m.db.Close()
	owner, other := m.Org(), m.Org()
	a := m.Connect(m.Connected(owner, "1"))
	if _, _, err := m.node.Ready(t.Context(), owner, a.ID, at(a.SessionVersion)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.node.Ready(t.Context(), other, a.ID, at(a.SessionVersion)); !errors.Is(err, problem.AccountNotFound.New("")) {
		t.Errorf("another org: %v", err)
	}
	if _, ok := m.node.Remembered(other, a.ID); ok {
		t.Error("another org is told what is remembered")
	}
	paused, err := m.Accounts.Pause(t.Context(), accounttest.By("account.pause"), owner, a.ID, account.ReasonPausedByCaller)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.node.Ready(t.Context(), owner, a.ID, at(paused.SessionVersion)); !errors.Is(err, problem.AccountPaused.New("")) {
		t.Errorf("paused: %v", err)
	}
	if err := m.Accounts.Disconnect(t.Context(), accounttest.By("account.disconnect"), owner, a.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.node.Ready(t.Context(), owner, a.ID, at(paused.SessionVersion+1)); !errors.Is(err, problem.AccountNotFound.New("")) {
		t.Errorf("disconnected: %v", err)
	}
	if _, ok := m.node.Remembered(owner, a.ID); ok {
		t.Error("a disconnected account is remembered")
	}
}

// A version that the shared server has lost is told to it again, so that the next call needs no reading.
func TestReadyTellsAVersionThatWasLost(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	defer m.db.Close()
	owner := m.Org()
	a := m.Connect(m.Connected(owner, "1"))
	admit := func() admission.Decision {
		d, err := m.Limits.Admit(t.Context(), admission.Call{
			Org: owner, Account: a.ID, Quota: admission.Read, Limits: &org.Limits{CallsPerMinute: -1, CallsPerMonth: -1, AccountReadPerMinute: -1},
			Started: m.Clock.Now(), ReadAt: m.Clock.Now(),
		})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if got := admit().SessionVersion; int64(got) != a.SessionVersion {
		t.Fatalf("version %d, want %d", got, a.SessionVersion)
	}
	lost := admission.Decision{} // as after the server's memory was wiped
	if _, _, err := m.node.Ready(t.Context(), owner, a.ID, lost); err != nil {
		t.Fatal(err)
	}
	if got := admit().SessionVersion; int64(got) != a.SessionVersion {
		t.Errorf("version %d, want %d", got, a.SessionVersion)
	}
}

// A poke of a newer version makes a node forget; one of a version that it has does not.
func TestReadyHearsOfNewVersions(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	defer m.db.Close()
	owner := m.Org()
	a := m.Connect(m.Connected(owner, "1"))
	if _, _, err := m.node.Ready(t.Context(), owner, a.ID, at(a.SessionVersion)); err != nil {
		t.Fatal(err)
	}
	for payload, remembered := range map[string]bool{"1": true, "nonsense": true, "": true} {
		m.node.Heard(string(a.ID), []byte(payload))
		if _, ok := m.node.Remembered(owner, a.ID); ok != remembered {
			t.Errorf("after %q: remembered is %v", payload, ok)
		}
	}
	m.node.Heard(string(a.ID), []byte("99"))
	if _, ok := m.node.Remembered(owner, a.ID); ok {
		t.Error("a newer version was heard of, and the old one is remembered")
	}
}
