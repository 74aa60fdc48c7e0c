package org

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org/internal/db"
)

// Grace is how long an org can be restored after its deletion was requested, by the database's clock.
const Grace = 7 * 24 * time.Hour

// Deletion is the state of an org that is being deleted. It is immutable.
type Deletion struct {
	RequestedAt time.Time
	// PurgeAt is when the grace period ends. Until then the org can be restored.
	PurgeAt time.Time
	// Suspends means that the deletion caused the suspension, so restoring the org ends it. It is false for an org that
	// an operator has suspended.
	Suspends bool
	// StartedAt is when the purge began, after which the org cannot be restored; nil before.
	StartedAt *time.Time
}

// Refusal returns the problem org-suspended if the org is suspended, and else nil.
func (o *Org) Refusal() error {
	switch {
	case o.SuspendedAt == nil:
		return nil
	case o.Deletion != nil:
		return problem.OrgSuspended.Newf("The organisation is being deleted. It can be restored until %s; "+
			"then all of its data is destroyed.", stamp.Text(o.Deletion.PurgeAt))
	}
	return suspendedProblem()
}

// Permit decides in the transaction of a change, while the org's row is locked, whether the caller may make it. Nil
// permits everything.
type Permit func(ctx context.Context, tx postgres.Tx) error

// Delete suspends an org and destroys it after Grace, unless Restore is called before. If the org is being deleted
// already, it changes nothing. When Delete returns nil, no node starts to send anything for the org any more.
func (s *Orgs) Delete(ctx context.Context, org id.Org, by audit.By, permit Permit) (Org, error) {
	after, err := s.changeDeletion(ctx, org, by, audit.ActionDelete, permit, func(o Org, now time.Time) (Org, audit.Changes, error) {
		if o.Deletion != nil {
			return o, nil, nil
		}
		o.Deletion = &Deletion{RequestedAt: now, PurgeAt: now.Add(Grace), Suspends: o.SuspendedAt == nil}
		if o.SuspendedAt == nil {
			o.SuspendedAt = &now
		}
		return o, audit.Changes{purgeAtField: {To: o.Deletion.PurgeAt}}, nil
	})
	if err != nil {
		return Org{}, err
	}
	return after, s.awaitSuspension(ctx)
}

// Restore ends the deletion of an org, and the suspension that the deletion caused. If the org is not being deleted, it
// changes nothing. It returns the problem org-not-found after the grace period.
func (s *Orgs) Restore(ctx context.Context, org id.Org, by audit.By, permit Permit) (Org, error) {
	return s.changeDeletion(ctx, org, by, audit.ActionRestore, permit, func(o Org, now time.Time) (Org, audit.Changes, error) {
		d := o.Deletion
		switch {
		case d == nil:
			return o, nil, nil
		case d.StartedAt != nil || !now.Before(d.PurgeAt):
			return o, nil, notFound(postgres.ErrNoRows)
		case d.Suspends:
			o.SuspendedAt, o.SuspendedReason = nil, ""
		}
		o.Deletion = nil
		return o, audit.Changes{purgeAtField: {From: d.PurgeAt}}, nil
	})
}

// purgeAtField names the end of the grace period in audit entries.
const purgeAtField = "purgeAt"

// changeDeletion changes an org and records it, unless change returns no changes. It is also recorded in the operators'
// log, because that of the org is destroyed with it, and because StartPurge looks there. That log does not name people
// of the org.
func (s *Orgs) changeDeletion(ctx context.Context, org id.Org, by audit.By, action string, permit Permit,
	change func(o Org, now time.Time) (Org, audit.Changes, error)) (after Org, err error) {
	changed := false
	record := by
	if by.Kind != audit.ActorOperator {
		record = audit.By{Kind: by.Kind, Label: "the organisation"}
	}
	record.Action = action
	ctx = postgres.WithAllOrgs(ctx) // the operators' log is not the org's
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		changed = false // the transaction may be repeated
		before, err := s.Lock(ctx, tx, org)
		if err == nil && permit != nil {
			err = permit(ctx, tx)
		}
		if err != nil {
			return err
		}
		now, err := s.deps.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		wanted, changes, err := change(before, now)
		if err != nil || changes == nil {
			after = before
			return err
		}
		changed, wanted.UpdatedAt = true, now
		if after, err = s.update(ctx, tx, wanted); err != nil {
			return err
		}
		if err := s.deps.Audit.Record(ctx, tx, audit.Operators, record, string(org), changes); err != nil {
			return err
		}
		if err := s.deps.Audit.Record(ctx, tx, org, by, string(org), changes); err != nil {
			return err
		}
		return enqueueAnnounce(ctx, s.deps.Jobs, tx, org, after.Epoch)
	})
	if err != nil {
		return Org{}, err
	}
	if changed {
		s.announceEpoch(ctx, org, after.Epoch)
	}
	return after, nil
}

// Due returns up to most orgs whose grace period has ended, in the order of their ids, after one of them.
func (s *Orgs) Due(ctx context.Context, after id.Org, most int) ([]id.Org, error) {
	now, err := s.deps.DB.Now(ctx, s.deps.DB)
	if err != nil {
		return nil, err
	}
	return db.New(s.deps.DB).Due(ctx, db.DueParams{Now: &now, After: after, MaxRows: int32(most)})
}

// Buried returns up to most orgs that were destroyed within a time, in the order of their ids, after one of them.
func (s *Orgs) Buried(ctx context.Context, within time.Duration, after id.Org, most int) ([]id.Org, error) {
	now, err := s.deps.DB.Now(ctx, s.deps.DB)
	if err != nil {
		return nil, err
	}
	return db.New(s.deps.DB).Buried(ctx, db.BuriedParams{Since: now.Add(-within), After: after, MaxRows: int32(most)})
}

// requestedPurge returns when the org is to be destroyed, by the newest entry about it in the operators' log; empty if it
// is not. Unlike the row of the org, a writer of the database cannot forge the entry.
func (s *Orgs) requestedPurge(ctx context.Context, org id.Org) (at string, err error) {
	newest, ok, err := s.deps.Audit.Newest(ctx, audit.Operators, string(org), audit.ActionDelete, audit.ActionRestore)
	if err != nil || !ok || newest.By.Action != audit.ActionDelete {
		return "", err
	}
	var changes map[string]struct{ To string }
	err = json.Unmarshal(newest.Changes, &changes)
	return changes[purgeAtField].To, err
}

// StartPurge makes the deletion of an org final if its grace period has ended, and returns when it became so. ok is
// false if the org was restored. It fails if the operators' log has no request for the deletion: someone has changed the
// database. After StartPurge has returned, nodes read the org's keys again before they accept one,
// unless Redis could not be reached.
func (s *Orgs) StartPurge(ctx context.Context, org id.Org) (started time.Time, ok bool, err error) {
	requested, err := s.requestedPurge(ctx, org)
	if err != nil {
		return time.Time{}, false, err
	}
	var epoch int64
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		epoch, ok = 0, false // the transaction may be repeated
		o, err := s.Lock(ctx, tx, org)
		if errors.Is(err, notFound(postgres.ErrNoRows)) {
			return nil // another node has finished
		}
		if err != nil {
			return err
		}
		now, err := s.deps.DB.Now(ctx, tx)
		switch {
		case err != nil:
			return err
		case o.Deletion == nil:
			return nil
		case stamp.Text(o.Deletion.PurgeAt) != requested:
			return errors.New("the operators' audit log has no entry that requests the deletion for this time; see docs/runbooks/delete-org.md")
		case o.Deletion.StartedAt != nil:
			started, ok = *o.Deletion.StartedAt, true
			return nil
		case now.Before(o.Deletion.PurgeAt):
			return nil
		}
		d := *o.Deletion
		d.StartedAt = &now
		o.Deletion = &d
		after, err := s.update(ctx, tx, o)
		if err != nil {
			return err
		}
		started, ok, epoch = now, true, after.Epoch
		return enqueueAnnounce(ctx, s.deps.Jobs, tx, org, after.Epoch)
	})
	if err != nil {
		return time.Time{}, false, err
	}
	if epoch != 0 {
		s.announceEpoch(ctx, org, epoch)
	}
	return started, ok, nil
}

// FinishPurge turns an org whose rows are all deleted into a tombstone with a receipt. From then on there is no such
// org for any other method. The entry in the operators' log is what is left of its history.
func (s *Orgs) FinishPurge(ctx context.Context, org id.Org, by audit.By, at time.Time, receipt json.RawMessage) error {
	return s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		o, err := s.Lock(ctx, tx, org)
		if errors.Is(err, notFound(postgres.ErrNoRows)) {
			return nil // another node has finished
		}
		if err != nil {
			return err
		}
		n, err := db.New(tx).Bury(ctx, db.BuryParams{ID: org, Receipt: receipt, Now: at})
		if err == nil && n == 0 {
			err = errors.New("the purge of the organisation has not begun")
		}
		if err != nil {
			return err
		}
		return s.deps.Audit.Record(ctx, tx, audit.Operators, by, string(org), audit.Changes{
			"requestedAt": {From: o.Deletion.RequestedAt}, "purgedAt": {To: at},
		})
	})
}

// Receipt returns the signed receipt of an org that was destroyed, as JSON (seal.VerifyReceipt). It returns the problem
// org-not-found for any other.
func (s *Orgs) Receipt(ctx context.Context, org id.Org) (json.RawMessage, error) {
	text, err := db.New(s.deps.DB).Receipt(ctx, org)
	if errors.Is(err, postgres.ErrNoRows) {
		return nil, problem.OrgNotFound.New("There is no receipt of an organisation with this id.")
	}
	return text, err
}
