package org

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/org/internal/db"
)

func insert(ctx context.Context, tx postgres.Tx, o Org) error {
	limits, err := encodeOverride(o.Override)
	if err != nil {
		return err
	}
	err = db.New(tx).Insert(ctx, db.InsertParams{
		ID: o.ID, Name: o.Name, Plan: string(o.Plan), Environment: string(o.Environment),
		ContactEmail: o.ContactEmail, Limits: limits, Now: o.CreatedAt,
	})
	if err != nil {
		return fmt.Errorf("insert org: %w", err)
	}
	return nil
}

func get(ctx context.Context, q db.DBTX, org id.Org) (Org, error) {
	row, err := db.New(q).Get(ctx, org)
	if err != nil {
		return Org{}, fmt.Errorf("read org %s: %w", org, notFound(err))
	}
	return fromRow(row)
}

func getForUpdate(ctx context.Context, tx postgres.Tx, org id.Org) (Org, error) {
	row, err := db.New(tx).GetForUpdate(ctx, org)
	if err != nil {
		return Org{}, fmt.Errorf("lock org %s: %w", org, notFound(err))
	}
	return fromRow(row)
}

func getMany(ctx context.Context, q db.DBTX, ids []id.Org) ([]Org, error) {
	rows, err := db.New(q).Some(ctx, id.Texts(ids))
	if err != nil {
		return nil, fmt.Errorf("read orgs: %w", err)
	}
	orgs := make([]Org, len(rows))
	for i, row := range rows {
		if orgs[i], err = fromRow(row); err != nil {
			return nil, err
		}
	}
	return orgs, nil
}

// update writes an org and advances its epoch in the same statement.
func update(ctx context.Context, tx postgres.Tx, o Org) (Org, error) {
	limits, err := encodeOverride(o.Override)
	if err != nil {
		return Org{}, err
	}
	row, err := db.New(tx).Update(ctx, db.UpdateParams{
		ID: o.ID, Name: o.Name, Plan: string(o.Plan), ContactEmail: o.ContactEmail, Limits: limits,
		SuspendedAt: o.SuspendedAt, SuspendedReason: o.SuspendedReason, Now: o.UpdatedAt,
	})
	if err != nil {
		return Org{}, fmt.Errorf("update org %s: %w", o.ID, err)
	}
	return fromRow(row)
}

func advanceEpoch(ctx context.Context, tx postgres.Tx, org id.Org) (int64, error) {
	e, err := db.New(tx).AdvanceEpoch(ctx, org)
	if err != nil {
		return 0, fmt.Errorf("advance epoch of %s: %w", org, notFound(err))
	}
	return e, nil
}

// holdEpoch reads the epoch under a shared lock (FOR SHARE), which concurrent readers can hold together.
func holdEpoch(ctx context.Context, tx postgres.Tx, org id.Org) (int64, error) {
	e, err := db.New(tx).HoldEpoch(ctx, org)
	if err != nil {
		return 0, fmt.Errorf("read epoch of %s: %w", org, notFound(err))
	}
	return e, nil
}

func fromRow(row db.Org) (Org, error) {
	override := Override{}
	if err := json.Unmarshal(row.Limits, &override); err != nil {
		return Org{}, fmt.Errorf("read limits of org %s: %w", row.ID, err)
	}
	return Org{
		ID: row.ID, Name: row.Name, Plan: Plan(row.Plan), Environment: environment.Environment(row.Environment),
		ContactEmail: row.ContactEmail, Override: override, Limits: resolve(Plan(row.Plan), override),
		SuspendedAt: row.SuspendedAt, SuspendedReason: row.SuspendedReason, Epoch: row.AuthEpoch,
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}, nil
}

func encodeOverride(o Override) (json.RawMessage, error) {
	if o == nil {
		o = Override{}
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode limits: %w", err)
	}
	return text, nil
}
