package member_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// fixture is a Members with its dependencies and an adjustable clock.
type fixture struct {
	db      *postgres.DB
	audit   *audit.Log
	orgs    *org.Orgs
	keys    *apikey.Keys
	members *member.Members

	mu  sync.Mutex
	now time.Time
}

// Announce informs the fixture's only node.
func (f *fixture) Announce(_ context.Context, of id.Org, epoch int64) error {
	f.keys.Heard(of, epoch)
	return nil
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{db: testenv.Postgres(t), now: time.Now().UTC().Truncate(time.Microsecond)}
	f.audit = audit.New(f.db, sealtest.NewMemory(), f.clock)
	f.orgs = org.New(org.Deps{DB: f.db, Audit: f.audit, Jobs: testenv.NoJobs{}, Announce: f, Now: f.clock})
	f.keys = apikey.New(apikey.Deps{DB: f.db, Orgs: f.orgs, Audit: f.audit, Outbox: outbox.New(f.db, f.clock), Troubled: func() time.Time { return time.Time{} }, Now: f.clock})
	f.members = member.New(member.Deps{DB: f.db, Orgs: f.orgs, Keys: f.keys, Audit: f.audit, Mail: mail.New(mail.Deps{DB: f.db, Audit: f.audit, Seal: sealtest.NewMemory(), Queue: testenv.NoJobs{}, Log: slog.New(slog.DiscardHandler)}), Now: f.clock})
	return f
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

var by = audit.By{Kind: audit.ActorOperator, ID: "admin", Label: "operator", Action: "test"}

var operator = member.Caller{Operator: true}

func (f *fixture) org(t *testing.T) id.Org {
	t.Helper()
	return f.orgIn(t, environment.Live)
}

func (f *fixture) orgIn(t *testing.T, e environment.Environment) id.Org {
	t.Helper()
	var o org.Org
	err := f.db.Tx(t.Context(), func(tx postgres.Tx) (err error) {
		o, err = f.orgs.Create(t.Context(), tx, by, org.Draft{Name: "Acme", Plan: "starter", Environment: e, ContactEmail: "ops@acme.test"})
		return err
	})
	must.OK(t, err)
	// The operator of by may invite members, although there are owners. Tests of consent use another operator.
	_, err = f.db.Pool().Exec(t.Context(), `INSERT INTO support_access (org_id, id, operator_id, operator, reason, expires_at, granted_at)
		VALUES ($1, $2, $3, $4, 'a test', now() + interval '1 day', now())`, o.ID, id.New[id.SupportAccess](), by.ID, by.Label)
	must.OK(t, err)
	return o.ID
}

// browser is a signed-in browser with its cookie.
type browser struct {
	member.Session
	cookie secret.String
}

func (b browser) caller() member.Caller { return member.Caller{Person: b.Person.ID} }

// signIn signs in a person whose identity is derived from the address.
func (f *fixture) signIn(t *testing.T, email string, w member.Welcome) browser {
	t.Helper()
	b, cookie, err := f.members.SignIn(t.Context(), by, claims(email), w, "Test/1.0")
	if err != nil {
		t.Fatalf("sign %s in: %v", email, err)
	}
	return browser{b, cookie}
}

func claims(email string) member.Claims {
	return member.Claims{Issuer: "https://id.test", Subject: "sub:" + strings.ToLower(email), Email: email, Name: "Ada"}
}

// join makes a person a member and signs them in.
func (f *fixture) join(t *testing.T, owner id.Org, email string, role member.Role) browser {
	t.Helper()
	if _, _, err := f.members.Invite(t.Context(), by, owner, operator, member.Invitee{Email: email, Role: string(role)}); err != nil {
		t.Fatalf("invite %s: %v", email, err)
	}
	return f.signIn(t, email, member.Welcome{TakeUp: true})
}

// identify returns the scopes of a browser's request, or the code of the problem.
func (f *fixture) identify(t *testing.T, b browser, owner id.Org) (scope.Set, string) {
	t.Helper()
	p, err := f.members.Identify(t.Context(), b.cookie, string(owner), member.From{Source: "192.0.2.1", Request: "req_x", IPHash: "h"})
	if err != nil {
		return 0, problem.Of(err).Kind.Code
	}
	return p.Scopes, ""
}

// actions returns the actions in an org's audit log, newest first.
func (f *fixture) actions(t *testing.T, owner id.Org) []string {
	t.Helper()
	entries, err := f.audit.Choose(t.Context(), owner, audit.Filter{}, 0, 100)
	must.OK(t, err)
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = string(e.By.Kind) + " " + e.By.Action
	}
	return list
}

func code(err error) string {
	if err == nil {
		return ""
	}
	return problem.Of(err).Kind.Code
}
