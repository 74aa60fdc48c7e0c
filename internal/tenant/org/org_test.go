package org_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

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

type jobs struct{ inserted []river.JobArgs }

func (j *jobs) InsertTx(_ context.Context, _ postgres.Tx, args river.JobArgs, _ *river.InsertOpts) (*rivertype.JobInsertResult, error) {
	j.inserted = append(j.inserted, args)
	return &rivertype.JobInsertResult{}, nil
}

// failingAnnouncer counts announcements and fails each of them.
type failingAnnouncer struct{ calls int }

func (a *failingAnnouncer) Announce(context.Context, id.Org, int64) error {
	a.calls++
	return errors.New("announcement failed")
}

var by = audit.By{Kind: audit.ActorOperator, ID: "admin", Action: "org.update"}

func newOrgs(t *testing.T) (*org.Orgs, *jobs, *failingAnnouncer, org.Org) {
	t.Helper()
	return newOrgsWith(t, nil)
}

func newOrgsWith(t *testing.T, plans *org.Plans) (*org.Orgs, *jobs, *failingAnnouncer, org.Org) {
	t.Helper()
	db := testenv.Postgres(t)
	j, a := &jobs{}, &failingAnnouncer{}
	orgs := org.New(org.Deps{DB: db, Plans: plans, Audit: audit.New(db, sealtest.NewMemory(), time.Now), Jobs: j, Announce: a, Now: time.Now})
	var o org.Org
	err := db.Tx(t.Context(), func(tx postgres.Tx) (err error) {
		o, err = orgs.Create(t.Context(), tx, by, org.Draft{Name: "Acme", Plan: "starter", Environment: environment.Live, ContactEmail: "ops@acme.test"})
		return err
	})
	must.OK(t, err)
	return orgs, j, a, o
}

// The plans match the specification's table, number by number.
func TestPlansMatchTheContract(t *testing.T) {
	t.Parallel()
	orgs, _, _, o := newOrgs(t)
	for plan, want := range map[org.Plan][8]int{
		"sandbox": {600, 1_000_000, 60, 20, 60, 25, 5, 3},
		"starter": {600, 1_000_000, 60, 20, 30, 50, 5, 7},
		"growth":  {3_000, 20_000_000, 120, 40, 120, 1_000, 10, 14},
		"scale":   {12_000, 200_000_000, 240, 60, 600, 20_000, 20, 30},
	} {
		changed, err := orgs.Update(t.Context(), o.ID, by, org.Change{Plan: &plan})
		must.OK(t, err)
		l := changed.Limits
		got := [8]int{l.CallsPerMinute, l.CallsPerMonth, l.AccountReadPerMinute, l.AccountWritePerMinute, l.ConnectAttemptsPerHour, l.MaxAccounts, l.MaxStreamsPerAccount, l.EventRetentionDays}
		if got != want {
			t.Errorf("%s: %v, want %v", plan, got, want)
		}
	}
}

// An update advances the epoch, announces it, and enqueues a job that repeats a failed announcement. Overrides take
// precedence over the plan and are removed when they are replaced.
func TestUpdate(t *testing.T) {
	t.Parallel()
	orgs, jobs, announcer, o := newOrgs(t)
	changed, err := orgs.Update(t.Context(), o.ID, by, org.Change{Override: &org.Override{"callsPerMinute": 7, "maxKeys": org.Unlimited}})
	must.OK(t, err)
	if changed.Epoch != o.Epoch+1 || changed.Limits.CallsPerMinute != 7 || changed.Limits.MaxKeys != org.Unlimited || changed.Limits.CallsPerMonth != 1_000_000 {
		t.Errorf("%+v", changed)
	}
	if len(jobs.inserted) != 1 || announcer.calls != 1 {
		t.Errorf("%d jobs and %d announcements, want 1 and 1", len(jobs.inserted), announcer.calls)
	}
	if changed, err = orgs.Update(t.Context(), o.ID, by, org.Change{Override: &org.Override{}}); err != nil || changed.Limits.CallsPerMinute != 600 {
		t.Errorf("%+v %v", changed, err)
	}
	if read, err := orgs.Get(t.Context(), o.ID); err != nil || read.Epoch != o.Epoch+2 || read.Limits != changed.Limits {
		t.Errorf("%+v %v", read, err)
	}
}

// An invalid update reports every invalid field and changes nothing.
func TestUpdateReportsAllInvalidFields(t *testing.T) {
	t.Parallel()
	orgs, jobs, _, o := newOrgs(t)
	name, email, plan := " ", "Ops <ops@acme.test>", org.Plan("gold")
	_, err := orgs.Update(t.Context(), o.ID, by, org.Change{
		Name: &name, ContactEmail: &email, Plan: &plan, Override: &org.Override{"callsPerMinute": 0, "callsPerWeek": 5},
	})
	p := problem.Of(err)
	if p.Kind != problem.ValidationFailed || len(p.Fields) != 5 {
		t.Errorf("%+v", p)
	}
	if read, err := orgs.Get(t.Context(), o.ID); err != nil || read.Epoch != o.Epoch || len(jobs.inserted) != 0 {
		t.Errorf("%+v %v", read, err)
	}
	if _, err := orgs.Update(t.Context(), id.New[id.Org](), by, org.Change{Name: &email}); !errors.Is(err, problem.OrgNotFound.New("")) {
		t.Errorf("an unknown org: %v", err)
	}
}

// A repeated suspension keeps its start time. Lifting it clears the time and the reason.
func TestSuspend(t *testing.T) {
	t.Parallel()
	orgs, _, _, o := newOrgs(t)
	yes, no, why := true, false, "unpaid"
	first, err := orgs.Update(t.Context(), o.ID, by, org.Change{Suspended: &yes, SuspendedReason: &why})
	if err != nil || first.SuspendedAt == nil || first.SuspendedReason != why {
		t.Fatalf("%+v %v", first, err)
	}
	again, err := orgs.Update(t.Context(), o.ID, by, org.Change{Suspended: &yes})
	if err != nil || !again.SuspendedAt.Equal(*first.SuspendedAt) {
		t.Errorf("%+v %v", again, err)
	}
	if over, err := orgs.Update(t.Context(), o.ID, by, org.Change{Suspended: &no}); err != nil || over.SuspendedAt != nil || over.SuspendedReason != "" {
		t.Errorf("%+v %v", over, err)
	}
}
