package org_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

func newProcess(t *testing.T, db *postgres.DB, name string) *org.Suspensions {
	t.Helper()
	return org.NewSuspensions(org.SuspensionDeps{DB: db, Process: name, Log: slog.New(slog.DiscardHandler), Now: time.Now})
}

// run starts s. The returned function stops it and waits for it.
func run(t *testing.T, s *org.Suspensions) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func suspend(t *testing.T, orgs *org.Orgs, o id.Org, is bool) {
	t.Helper()
	if _, err := orgs.Update(t.Context(), o, by, org.Change{Suspended: &is}); err != nil {
		t.Fatal(err)
	}
}

// Once Update has returned, every process obeys the suspension: none permits anything for the org, and all watchers
// have been called. After the suspension is lifted all processes permit the org again.
func TestSuspensionIsObeyedByAllProcessesWhenAnswered(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	here := newProcess(t, db, "here")
	orgs := org.New(org.Deps{DB: db, Audit: audit.New(db, sealtest.NewMemory(), time.Now), Jobs: &jobs{}, Announce: &failingAnnouncer{}, Suspensions: here, Now: time.Now})
	var o org.Org
	err := db.Tx(t.Context(), func(tx postgres.Tx) (err error) {
		o, err = orgs.Create(t.Context(), tx, by, org.Draft{Name: "Acme", Plan: "starter", Environment: environment.Live, ContactEmail: "ops@acme.test"})
		return err
	})
	must.OK(t, err)
	all := []*org.Suspensions{here, newProcess(t, db, "there"), newProcess(t, db, "elsewhere")}
	watched := make([]atomic.Bool, len(all)) // what each process's watcher last saw
	for i, s := range all {
		s.Watch(func(suspended map[id.Org]struct{}) {
			_, is := suspended[o.ID]
			watched[i].Store(is)
		})
		defer run(t, s)()
		must.OK(t, s.Permit(t.Context(), o.ID))
	}
	for range 3 {
		suspend(t, orgs, o.ID, true)
		for i, s := range all {
			if err := s.Permit(t.Context(), o.ID); !errors.Is(err, problem.OrgSuspended.New("")) || !watched[i].Load() {
				t.Fatalf("process %d: Permit: %v, watcher saw the suspension: %t", i, err, watched[i].Load())
			}
			if err := s.Permit(t.Context(), id.New[id.Org]()); err != nil {
				t.Errorf("another org: %v", err)
			}
		}
		suspend(t, orgs, o.ID, false)
		for _, s := range all {
			s.Wake()
			for s.Permit(t.Context(), o.ID) != nil {
				must.OK(t, s.Read(t.Context()))
			}
		}
	}
}

// A process that hangs or cannot reach the database permits nothing once Update has returned without its confirmation.
func TestProcessThatReadsNoSuspensionsPermitsNothing(t *testing.T) {
	t.Parallel()
	orgs, _, _, o := newOrgs(t)
	hangs := newProcess(t, orgs.Deps().DB, "hangs")
	orgs.Deps().Suspensions = newProcess(t, orgs.Deps().DB, "here")
	defer run(t, orgs.Deps().Suspensions)()
	must.OK(t, hangs.Read(t.Context()))
	must.OK(t, hangs.Permit(t.Context(), o.ID))
	suspend(t, orgs, o.ID, true)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, one := range []id.Org{o.ID, id.New[id.Org]()} {
		if err := hangs.Permit(cancelled, one); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", one, err)
		}
	}
	unread := newProcess(t, orgs.Deps().DB, "has read nothing yet")
	if err := unread.Permit(cancelled, o.ID); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
