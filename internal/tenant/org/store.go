package org

import (
	"context"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/org/internal/db"
)

func insert(ctx context.Context, tx postgres.Tx, o Org) error {
	return db.New(tx).Insert(ctx, db.InsertParams{
		ID: o.ID, Name: o.Name, Plan: string(o.Plan), Environment: string(o.Environment),
		ContactEmail: o.ContactEmail, Limits: postgres.OrEmpty(o.Override), Now: o.CreatedAt,
	})
}

func (s *Orgs) get(ctx context.Context, q db.DBTX, org id.Org) (Org, error) {
	row, err := db.New(q).Get(ctx, org)
	if err != nil {
		return Org{}, fmt.Errorf("read org %s: %w", org, notFound(err))
	}
	return s.fromRow(row), nil
}

// update writes an org and advances its epoch in the same statement.
func (s *Orgs) update(ctx context.Context, tx postgres.Tx, o Org) (Org, error) {
	p := db.UpdateParams{
		ID: o.ID, Name: o.Name, Plan: string(o.Plan), ContactEmail: o.ContactEmail, Limits: postgres.OrEmpty(o.Override),
		SuspendedAt: o.SuspendedAt, SuspendedReason: o.SuspendedReason, Now: o.UpdatedAt,
	}
	if d := o.Deletion; d != nil {
		p.DeletionRequestedAt, p.PurgeAt = &d.RequestedAt, &d.PurgeAt
		p.DeletionSuspends, p.PurgeStartedAt = d.Suspends, d.StartedAt
	}
	row, err := db.New(tx).Update(ctx, p)
	return s.fromRow(row), err
}

func (s *Orgs) fromRow(row db.Org) Org {
	var deletion *Deletion
	if row.DeletionRequestedAt != nil && row.PurgeAt != nil {
		deletion = &Deletion{*row.DeletionRequestedAt, *row.PurgeAt, row.DeletionSuspends, row.PurgeStartedAt}
	}
	return Org{
		ID: row.ID, Name: row.Name, Plan: Plan(row.Plan), Environment: environment.Environment(row.Environment),
		ContactEmail: row.ContactEmail, Override: row.Limits, Limits: s.deps.Plans.resolve(Plan(row.Plan), row.Limits),
		SuspendedAt: row.SuspendedAt, SuspendedReason: row.SuspendedReason, Deletion: deletion,
		Epoch: row.AuthEpoch, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
}
