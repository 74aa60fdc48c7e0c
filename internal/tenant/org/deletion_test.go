package org_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// newOrgsAt returns an org whose database has a clock that the test moves.
func newOrgsAt(t *testing.T) (*org.Orgs, *audit.Log, *testenv.Clock, org.Org) {
	t.Helper()
	return newOrgsOn(t, testenv.Postgres(t))
}

func newOrgsOn(t *testing.T, db *postgres.DB) (*org.Orgs, *audit.Log, *testenv.Clock, org.Org) {
	t.Helper()
	clock := testenv.NewClock(time.Now().UTC().Truncate(time.Microsecond))
	db = db.WithClock(clock.Now)
	log := audit.New(db, sealtest.NewMemory(), clock.Now)
	orgs := org.New(org.Deps{DB: db, Audit: log, Jobs: testenv.NoJobs{}, Announce: &failingAnnouncer{}, Now: clock.Now})
	var o org.Org
	must.OK(t, db.Tx(t.Context(), func(tx postgres.Tx) (err error) {
		o, err = orgs.Create(t.Context(), tx, by, org.Draft{Name: "Acme", Plan: "starter", Environment: environment.Live, ContactEmail: "ops@acme.test"})
		return err
	}))
	return orgs, log, clock, o
}

func isNotFound(err error) bool { return errors.Is(err, problem.OrgNotFound.New("")) }

// Within the grace period an org can be restored, and is then as before. Repeating either call changes nothing.
func TestDeletedOrgCanBeRestoredWithinTheGracePeriod(t *testing.T) {
	t.Parallel()
	orgs, _, clock, o := newOrgsAt(t)
	owner := audit.By{Kind: audit.ActorMember, ID: "usr_1", Action: "org.delete"}
	deleted, err := orgs.Delete(t.Context(), o.ID, owner, nil)
	must.OK(t, err)
	if d := deleted.Deletion; deleted.SuspendedAt == nil || d == nil || !d.Suspends || d.PurgeAt.Sub(d.RequestedAt) != 7*24*time.Hour || deleted.Epoch != o.Epoch+1 {
		t.Fatalf("%+v %+v", deleted, deleted.Deletion)
	}
	clock.Advance(org.Grace - time.Microsecond)
	again, err := orgs.Delete(t.Context(), o.ID, owner, nil)
	if err != nil || *again.Deletion != *deleted.Deletion || again.Epoch != deleted.Epoch {
		t.Errorf("%+v %+v %v", again, again.Deletion, err)
	}
	if due, err := orgs.Due(t.Context(), "", 10); err != nil || len(due) != 0 {
		t.Errorf("%v %v", due, err)
	}
	if _, ok, err := orgs.StartPurge(t.Context(), o.ID); ok || err != nil {
		t.Errorf("the purge began within the grace period: %t %v", ok, err)
	}
	for range 2 {
		restored, err := orgs.Restore(t.Context(), o.ID, owner, nil)
		if err != nil || restored.SuspendedAt != nil || restored.Deletion != nil || restored.Epoch != o.Epoch+2 || restored.Name != o.Name {
			t.Errorf("%+v %v", restored, err)
		}
	}
	clock.Advance(time.Hour)
	if due, err := orgs.Due(t.Context(), "", 10); err != nil || len(due) != 0 {
		t.Errorf("a restored org is due: %v %v", due, err)
	}
}

// After the grace period an org cannot be restored, whether or not its purge has begun. When it has ended there is no
// such org for anyone, only its receipt and the entries in the operators' log.
func TestDeletedOrgCannotBeRestoredAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	orgs, log, clock, o := newOrgsAt(t)
	operator := audit.By{Kind: audit.ActorOperator, ID: "admin", Action: "org.delete"}
	_, err := orgs.Delete(t.Context(), o.ID, operator, nil)
	must.OK(t, err)
	clock.Advance(org.Grace)
	if _, err := orgs.Restore(t.Context(), o.ID, operator, nil); !isNotFound(err) {
		t.Errorf("restored when the grace period had ended: %v", err)
	}
	if due, err := orgs.Due(t.Context(), "", 10); err != nil || len(due) != 1 || due[0] != o.ID {
		t.Errorf("%v %v", due, err)
	}
	started, ok, err := orgs.StartPurge(t.Context(), o.ID)
	if !ok || err != nil || !started.Equal(clock.Now()) {
		t.Fatalf("%s %t %v", started, ok, err)
	}
	// Even if the database's clock goes back.
	clock.Advance(-time.Hour)
	if _, err := orgs.Restore(t.Context(), o.ID, operator, nil); !isNotFound(err) {
		t.Errorf("restored when the purge had begun: %v", err)
	}
	if again, ok, err := orgs.StartPurge(t.Context(), o.ID); !ok || err != nil || !again.Equal(started) {
		t.Errorf("%s %t %v", again, ok, err)
	}
	if _, err := orgs.Receipt(t.Context(), o.ID); !isNotFound(err) {
		t.Errorf("a receipt before the end: %v", err)
	}
	system := audit.By{Kind: audit.ActorSystem, ID: "erasure", Action: "org.purge"}
	for range 2 {
		must.OK(t, orgs.FinishPurge(t.Context(), o.ID, system, clock.Now(), json.RawMessage(`{"orgId":"x"}`)))
	}
	if text, err := orgs.Receipt(t.Context(), o.ID); err != nil || string(text) != `{"orgId":"x"}` {
		t.Errorf("%s %v", text, err)
	}
	for what, call := range map[string]func(context.Context) error{
		"get":     func(ctx context.Context) error { _, err := orgs.Get(ctx, o.ID); return err },
		"restore": func(ctx context.Context) error { _, err := orgs.Restore(ctx, o.ID, operator, nil); return err },
		"delete":  func(ctx context.Context) error { _, err := orgs.Delete(ctx, o.ID, operator, nil); return err },
		"update": func(ctx context.Context) error {
			no := false
			_, err := orgs.Update(ctx, o.ID, operator, org.Change{Suspended: &no})
			return err
		},
	} {
		if err := call(t.Context()); !isNotFound(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if list, err := orgs.Search(t.Context(), org.Search{Text: string(o.ID)}, 10); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
	entries, err := log.Choose(t.Context(), audit.Operators, audit.Filter{}, 0, 10)
	must.OK(t, err)
	var actions []string
	for _, e := range entries {
		if e.Target == string(o.ID) {
			actions = append(actions, e.By.Action)
		}
	}
	if !slices.Equal(actions, []string{"org.purge", "org.delete"}) {
		t.Errorf("the operators' log has %v", actions)
	}
}

// attack is made by someone who can write to the database.
type attack struct {
	*testing.T
	db   *postgres.DB
	orgs *org.Orgs
}

func (a *attack) exec(sql string, args ...any) {
	a.Helper()
	changed, err := a.db.Exec(a.Context(), sql, args...)
	must.OK(a, err)
	if changed.RowsAffected() == 0 {
		a.Fatal("the attack changed nothing")
	}
}

// Someone who can write to the database cannot have an org destroyed: the operators' log must have the request.
func TestAWriterOfTheDatabaseCannotDestroyAnOrg(t *testing.T) {
	t.Parallel()
	owner := audit.By{Kind: audit.ActorMember, ID: "usr_1", Label: "ada@acme.test", Action: audit.ActionDelete}
	const forged = `UPDATE org SET suspended_at = $2, deletion_requested_at = $2, purge_at = $2 WHERE id = $1`
	for name, change := range map[string]func(a *attack, o org.Org, past time.Time){
		"a deletion that was never requested": func(a *attack, o org.Org, past time.Time) {
			a.exec(forged, o.ID, past)
		},
		"a purge that has begun": func(a *attack, o org.Org, past time.Time) {
			a.exec(forged, o.ID, past)
			a.exec(`UPDATE org SET purge_started_at = purge_at WHERE id = $1`, o.ID)
		},
		"a grace period that is cut short": func(a *attack, o org.Org, past time.Time) {
			_, err := a.orgs.Delete(a.Context(), o.ID, owner, nil)
			must.OK(a, err)
			a.exec(`UPDATE org SET purge_at = $2 WHERE id = $1`, o.ID, past)
		},
		"a restored deletion whose restoration is removed": func(a *attack, o org.Org, _ time.Time) {
			deleted, err := a.orgs.Delete(a.Context(), o.ID, owner, nil)
			must.OK(a, err)
			_, err = a.orgs.Restore(a.Context(), o.ID, owner, nil)
			must.OK(a, err)
			a.exec(forged, o.ID, deleted.Deletion.PurgeAt)
			a.exec(`UPDATE audit_entry SET action = 'org.update' WHERE action = 'org.restore'`)
		},
		"a forged entry": func(a *attack, o org.Org, past time.Time) {
			a.exec(forged, o.ID, past)
			a.exec(`INSERT INTO audit_entry SELECT (jsonb_populate_record(e, jsonb_build_object('org_id', $2::text, 'id', e.id || 'x',
				'seq', 2, 'action', 'org.delete', 'changes', jsonb_build_object('purgeAt', jsonb_build_object('to', $3::text))))).*
				FROM audit_entry e WHERE org_id = $1 LIMIT 1`, o.ID, audit.Operators, stamp.Text(past))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testenv.Postgres(t)
			orgs, log, clock, o := newOrgsOn(t, db)
			must.OK(t, db.Tx(t.Context(), func(tx postgres.Tx) error { // an entry of the operators
				return log.Record(t.Context(), tx, audit.Operators, by, "control", audit.Changes{})
			}))
			change(&attack{t, db, orgs}, o, clock.Now().Add(-time.Hour))
			clock.Advance(org.Grace + time.Hour)
			if due, err := orgs.Due(t.Context(), "", 10); err != nil || len(due) != 1 {
				t.Fatalf("the attack failed earlier: %v %v", due, err)
			}
			if _, ok, err := orgs.StartPurge(t.Context(), o.ID); ok || err == nil {
				t.Errorf("the purge began: %t %v", ok, err)
			}
		})
	}
}

// A suspension by an operator outlives the deletion, whether it began before or during it, and cannot be ended before
// the org is restored.
func TestRestoringKeepsAnOperatorsSuspension(t *testing.T) {
	t.Parallel()
	yes, no, why := true, false, "unpaid"
	for name, earlier := range map[string]bool{"before": true, "during": false} {
		orgs, _, _, o := newOrgsAt(t)
		suspend := func() {
			t.Helper()
			_, err := orgs.Update(t.Context(), o.ID, by, org.Change{Suspended: &yes, SuspendedReason: &why})
			must.OK(t, err)
		}
		if earlier {
			suspend()
		}
		_, err := orgs.Delete(t.Context(), o.ID, by, nil)
		must.OK(t, err)
		if !earlier {
			suspend()
		}
		if _, err := orgs.Update(t.Context(), o.ID, by, org.Change{Suspended: &no}); !errors.Is(err, problem.ValidationFailed.New("")) {
			t.Errorf("%s: the suspension was lifted: %v", name, err)
		}
		restored, err := orgs.Restore(t.Context(), o.ID, by, nil)
		if err != nil || restored.SuspendedAt == nil || restored.SuspendedReason != why || restored.Deletion != nil {
			t.Errorf("%s: %+v %v", name, restored, err)
		}
	}
}

// A change that is not permitted changes nothing.
func TestDeletionAsksForPermission(t *testing.T) {
	t.Parallel()
	orgs, _, _, o := newOrgsAt(t)
	refused := problem.RoleRequired.New("no")
	refuse := func(context.Context, postgres.Tx) error { return refused }
	if _, err := orgs.Delete(t.Context(), o.ID, by, refuse); !errors.Is(err, refused) {
		t.Errorf("delete: %v", err)
	}
	if now, err := orgs.Get(t.Context(), o.ID); err != nil || now.Deletion != nil || now.SuspendedAt != nil || now.Epoch != o.Epoch {
		t.Errorf("%+v %v", now, err)
	}
	_, err := orgs.Delete(t.Context(), o.ID, by, nil)
	must.OK(t, err)
	if _, err := orgs.Restore(t.Context(), o.ID, by, refuse); !errors.Is(err, refused) {
		t.Errorf("restore: %v", err)
	}
	if now, err := orgs.Get(t.Context(), o.ID); err != nil || now.Deletion == nil || now.SuspendedAt == nil {
		t.Errorf("%+v %v", now, err)
	}
}
