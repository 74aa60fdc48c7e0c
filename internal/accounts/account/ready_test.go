package account_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
)

// cacheFixture has a node with its own database connections, which a test can close.
type cacheFixture struct {
	*accounttest.Fixture
	node *account.Accounts
	db   *postgres.DB
}

func newCacheFixture(t *testing.T) cacheFixture {
	t.Helper()
	url := testenv.DatabaseURL(t)
	open := func() *postgres.DB {
		db, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 4, Name: "test"})
		must.OK(t, err)
		return db
	}
	shared, own := open(), open()
	t.Cleanup(shared.Close)
	m := cacheFixture{Fixture: accounttest.New(t, accounttest.Engines{DB: shared, Redis: testenv.Redis(t),
		NATS: testenv.NATS(t)}, nil), db: own}
	m.node = m.Node(func(d *account.Deps) { d.DB = own })
	return m
}

func at(version int64) admission.Decision { return admission.Decision{SessionVersion: uint32(version)} }

// A node with a cached account reads the database only if the admission reports a newer version, or does not know it.
func TestReadyReadsTheDatabaseOnlyForANewVersion(t *testing.T) {
	t.Parallel()
	m := newCacheFixture(t)
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
	must.OK(t, err)
	if got, err := ready(at(a.SessionVersion)); err != nil || got != "first" {
		t.Errorf("same version: %q, %v", got, err)
	}
	if got, err := ready(at(next.SessionVersion)); err != nil || got != "second" {
		t.Errorf("newer version: %q, %v", got, err)
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

// A cached account is visible only to its org, and follows changes of its state and its disconnect.
func TestReadyFollowsOrgStateAndDisconnect(t *testing.T) {
	t.Parallel()
	m := newCacheFixture(t)
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
		t.Error("another org sees the cached account")
	}
	paused, err := m.Accounts.Pause(t.Context(), accounttest.By("account.pause"), owner, a.ID, account.ReasonPausedByCaller)
	must.OK(t, err)
	if _, _, err := m.node.Ready(t.Context(), owner, a.ID, at(paused.SessionVersion)); !errors.Is(err, problem.AccountPaused.New("")) {
		t.Errorf("paused: %v", err)
	}
	must.OK(t, m.Accounts.Disconnect(t.Context(), accounttest.By("account.disconnect"), owner, a.ID))
	if _, _, err := m.node.Ready(t.Context(), owner, a.ID, at(paused.SessionVersion+1)); !errors.Is(err, problem.AccountNotFound.New("")) {
		t.Errorf("disconnected: %v", err)
	}
	if _, ok := m.node.Remembered(owner, a.ID); ok {
		t.Error("a disconnected account is still cached")
	}
}

// A version that Redis has lost is written again, so that the next call needs no read.
func TestReadyRestoresALostVersion(t *testing.T) {
	t.Parallel()
	m := newCacheFixture(t)
	defer m.db.Close()
	owner := m.Org()
	a := m.Connect(m.Connected(owner, "1"))
	admit := func() admission.Decision {
		d, err := m.Limits.Admit(t.Context(), admission.Call{
			Org: owner, Account: a.ID, Quota: admission.Read, Limits: &org.Limits{CallsPerMinute: -1, CallsPerMonth: -1, AccountReadPerMinute: -1},
			Started: m.Clock.Now(), ReadAt: m.Clock.Now(),
		})
		must.OK(t, err)
		return d
	}
	if got := admit().SessionVersion; int64(got) != a.SessionVersion {
		t.Fatalf("version %d, want %d", got, a.SessionVersion)
	}
	lost := admission.Decision{} // as after Redis was flushed
	if _, _, err := m.node.Ready(t.Context(), owner, a.ID, lost); err != nil {
		t.Fatal(err)
	}
	if got := admit().SessionVersion; int64(got) != a.SessionVersion {
		t.Errorf("version %d, want %d", got, a.SessionVersion)
	}
}

// A node that watches the versions keeps its copies for hours, and finds a change of which it has got no message. A node that
// cannot watch any more keeps them for half a minute.
func TestCopiesAreKeptWhileVersionsAreWatched(t *testing.T) {
	t.Parallel()
	m := newCacheFixture(t)
	owner := m.Org()
	a := m.Connect(m.Connected(owner, "1"))
	ready := func() (string, error) {
		_, session, err := m.node.Ready(t.Context(), owner, a.ID, at(a.SessionVersion))
		return session.Cookie("sess").Reveal(), err
	}
	if _, err := ready(); err != nil {
		t.Fatal(err)
	}
	watching, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.node.WatchVersions(watching) }()
	testenv.Await(t, "the node watches", m.node.Watches)
	_, err := m.DB.Pool().Exec(t.Context(), "UPDATE account SET label = 'Changed without a version' WHERE id = $1", a.ID)
	must.OK(t, err)
	m.Clock.Advance(time.Hour)
	testenv.Await(t, "the node has watched since", m.node.Watches)
	if k, _, err := m.node.Ready(t.Context(), owner, a.ID, at(a.SessionVersion)); err != nil || k.Label != a.Label {
		t.Errorf("after an hour the account was read again: %q, %v", k.Label, err)
	}
	// Neither Redis nor NATS knows of this version, because the node that made it has failed.
	_, err = m.DB.Pool().Exec(t.Context(), "UPDATE account SET session_version = session_version + 1, version_at = clock_timestamp() WHERE id = $1", a.ID)
	must.OK(t, err)
	testenv.Await(t, "the copy is dropped", func() bool {
		_, ok := m.node.Remembered(owner, a.ID)
		return !ok
	})
	if _, err := ready(); err != nil {
		t.Fatal(err)
	}
	stop()
	must.OK(t, <-ended)
	m.db.Close()
	m.Clock.Advance(29 * time.Second)
	if got, err := ready(); err != nil || got != "first" {
		t.Errorf("%q, %v", got, err)
	}
	m.Clock.Advance(2 * time.Second)
	if got, err := ready(); err == nil {
		t.Errorf("half a minute without watching: %q from memory", got)
	}
}

// A message with a newer version drops the cached account; one with the same or an older version does not.
func TestHeardDropsOlderCopies(t *testing.T) {
	t.Parallel()
	m := newCacheFixture(t)
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
		t.Error("the cached account was kept after a message with a newer version")
	}
}
