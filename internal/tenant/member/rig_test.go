package member_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// noJobs drops jobs: what they repeat was done already.
type noJobs struct{}

func (noJobs) InsertTx(context.Context, postgres.Tx, river.JobArgs, *river.InsertOpts) (*rivertype.JobInsertResult, error) {
	return &rivertype.JobInsertResult{}, nil
}

// rig is the service with a clock, and what it stands on.
type rig struct {
	db      *postgres.DB
	audit   *audit.Log
	orgs    *org.Orgs
	keys    *apikey.Keys
	members *member.Members

	mu  sync.Mutex
	now time.Time
}

// Announce tells the rig's only node.
func (r *rig) Announce(_ context.Context, of id.Org, epoch int64) error {
	r.keys.Heard(of, epoch)
	return nil
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{db: testenv.Postgres(t), now: time.Now().UTC().Truncate(time.Microsecond)}
	r.audit = audit.New(r.db, r.clock)
	r.orgs = org.New(org.Deps{DB: r.db, Audit: r.audit, Jobs: noJobs{}, Announce: r, Now: r.clock})
	r.keys = apikey.New(apikey.Deps{DB: r.db, Orgs: r.orgs, Audit: r.audit, Outbox: outbox.New(r.db, r.clock), Troubled: func() time.Time { return time.Time{} }, Now: r.clock})
	r.members = member.New(member.Deps{DB: r.db, Orgs: r.orgs, Keys: r.keys, Audit: r.audit, Now: r.clock})
	return r
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) later(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

var by = audit.By{Kind: audit.ActorOperator, ID: "admin", Label: "operator", Action: "test"}

var operator = member.Caller{Operator: true}

func (r *rig) org(t *testing.T) id.Org {
	t.Helper()
	return r.orgOf(t, org.EnvLive)
}

func (r *rig) orgOf(t *testing.T, e org.Environment) id.Org {
	t.Helper()
	var o org.Org
	err := r.db.Tx(t.Context(), func(tx postgres.Tx) (err error) {
		o, err = r.orgs.Create(t.Context(), tx, by, org.Draft{Name: "Acme", Plan: org.Starter, Environment: e, ContactEmail: "ops@acme.test"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return o.ID
}

// browser is somebody's.
type browser struct {
	member.Session
	cookie secret.String
}

func (b browser) caller() member.Caller { return member.Caller{Person: b.Person.ID} }

// signIn signs somebody in whom an identity provider knows by the address.
func (r *rig) signIn(t *testing.T, email string, w member.Welcome) browser {
	t.Helper()
	b, cookie, err := r.members.SignIn(t.Context(), by, claims(email), w, "Test/1.0")
	if err != nil {
		t.Fatalf("sign %s in: %v", email, err)
	}
	return browser{b, cookie}
}

func claims(email string) member.Claims {
	return member.Claims{Issuer: "https://id.test", Subject: "sub:" + strings.ToLower(email), Email: email, Name: "Ada"}
}

// join makes somebody a member and signs them in.
func (r *rig) join(t *testing.T, owner id.Org, email string, role member.Role) browser {
	t.Helper()
	if _, _, err := r.members.Invite(t.Context(), by, owner, operator, email, string(role)); err != nil {
		t.Fatalf("invite %s: %v", email, err)
	}
	return r.signIn(t, email, member.Welcome{TakeUp: true})
}

// identify is what a browser's request is.
func (r *rig) identify(t *testing.T, b browser, owner id.Org) (scope.Set, string) {
	t.Helper()
	p, err := r.members.Identify(t.Context(), b.cookie, string(owner), member.From{Source: "192.0.2.1", Request: "req_x", IPHash: "h"})
	if err != nil {
		return 0, problem.Of(err).Kind.Code
	}
	return p.Scopes, ""
}

// actions are those in an org's audit log, the newest first.
func (r *rig) actions(t *testing.T, owner id.Org) []string {
	t.Helper()
	entries, err := r.audit.Page(t.Context(), owner, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
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
