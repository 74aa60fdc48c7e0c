package org_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// process is one that sends something for orgs.
func process(t *testing.T, db *postgres.DB, name string) *org.Suspensions {
	t.Helper()
	return org.NewSuspensions(org.SuspensionDeps{DB: db, Process: name, Log: slog.New(slog.DiscardHandler), Now: time.Now})
}

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

// When a suspension is answered, every process obeys it: no process permits anything for the org any more, and what watches has been
// told. After it is lifted all permit it again.
func TestSuspensionIsObeyedByAllProcessesWhenAnswered(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	here := process(t, db, "here")
	orgs := org.New(org.Deps{DB: db, Audit: audit.New(db, time.Now), Jobs: &jobs{}, Announce: &deaf{}, Suspensions: here, Now: time.Now})
	var o org.Org
	err := db.Tx(t.Context(), func(tx postgres.Tx) (err error) {
		o, err = orgs.Create(t.Context(), tx, by, org.Draft{Name: "Acme", Plan: org.Starter, Environment: org.EnvLive, ContactEmail: "ops@acme.test"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	all := []*org.Suspensions{here, process(t, db, "there"), process(t, db, "elsewhere")}
	told := make([]atomic.Bool, len(all))
	for i, s := range all {
		s.Watch(func(suspended map[id.Org]struct{}) {
			_, is := suspended[o.ID]
			told[i].Store(is)
		})
		defer run(t, s)()
		if err := s.Permit(t.Context(), o.ID); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		suspend(t, orgs, o.ID, true)
		for i, s := range all {
			if err := s.Permit(t.Context(), o.ID); !errors.Is(err, problem.OrgSuspended.New("")) || !told[i].Load() {
				t.Fatalf("process %d: %v, told %t", i, err, told[i].Load())
			}
			if err := s.Permit(t.Context(), id.New[id.Org]()); err != nil {
				t.Errorf("another org: %v", err)
			}
		}
		suspend(t, orgs, o.ID, false)
		for _, s := range all {
			s.Wake()
			for s.Permit(t.Context(), o.ID) != nil {
				if err := s.Read(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// A process that hangs, or cannot reach the database, permits nothing once a suspension is answered without it.
func TestProcessThatReadsNoSuspensionsPermitsNothing(t *testing.T) {
	t.Parallel()
	orgs, _, _, o := newOrgs(t)
	hangs := process(t, orgs.DB, "hangs")
	orgs.Suspensions = process(t, orgs.DB, "here")
	defer run(t, orgs.Suspensions)()
	if err := hangs.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := hangs.Permit(t.Context(), o.ID); err != nil {
		t.Fatal(err)
	}
	suspend(t, orgs, o.ID, true)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, one := range []id.Org{o.ID, id.New[id.Org]()} {
		if err := hangs.Permit(gone, one); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", one, err)
		}
	}
	never := process(t, orgs.DB, "has read nothing yet")
	if err := never.Permit(gone, o.ID); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
