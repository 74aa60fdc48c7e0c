// Package org owns tenants: their plan, their limits, their suspension, and the epoch by which every node notices that
// its cached copy of an org or of its keys is out of date. It owns neither the keys (apikey) nor the counting of what
// an org uses (admission, usage).
//
// Start with Orgs.Update, which shows how a change reaches all nodes. Suspensions covers what leaves the service
// without a call, such as webhooks, and therefore never compares epochs. deletion.go deletes and restores orgs; package
// erasure destroys what belongs to one.
package org

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/mail"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org/internal/db"
)

// Org is a snapshot of a tenant. Callers share it and must not modify it.
type Org struct {
	ID           id.Org
	Name         string
	Plan         Plan
	Environment  environment.Environment
	ContactEmail string
	Override     Override
	// Limits are the plan's limits with Override applied.
	Limits          Limits
	SuspendedAt     *time.Time
	SuspendedReason string
	// Deletion is nil unless the org is being deleted. Such an org is suspended.
	Deletion *Deletion
	// Epoch grows with every change that each node must notice before it answers the org's next call.
	Epoch     int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Draft holds the fields of an org to be created.
type Draft struct {
	Name         string
	Plan         Plan
	Environment  environment.Environment
	ContactEmail string
	Override     Override
}

// Change is a partial update. A nil field is not changed. Override replaces all previous overrides.
type Change struct {
	Name            *string
	ContactEmail    *string
	Plan            *Plan
	Override        *Override
	Suspended       *bool
	SuspendedReason *string
}

// announcer informs every node of an org's new epoch. *admission.Limiter implements it.
type announcer interface {
	Announce(ctx context.Context, org id.Org, epoch int64) error
}

// Deps are the dependencies of Orgs.
type Deps struct {
	DB *postgres.DB
	// Plans decide the limits. Default: the built-in plans.
	Plans    *Plans
	Audit    *audit.Log
	Jobs     Enqueuer
	Announce announcer
	// Suspensions confirms that all processes obey a suspension. Nil skips the confirmation.
	Suspensions *Suspensions
	// Refuse returns why no organisation can be created in an environment; nil allows all.
	Refuse func(context.Context, environment.Environment) error
	Now    func() time.Time
}

// Orgs creates, reads and changes orgs.
type Orgs struct{ deps Deps }

// New returns an Orgs with the given dependencies.
func New(d Deps) *Orgs {
	if d.Plans == nil {
		d.Plans = NewPlans()
	}
	return &Orgs{d}
}

// MaxName is in characters, MaxEmail in bytes.
const (
	MaxName  = 120
	MaxEmail = 254
)

// Create inserts an org in the caller's transaction, so that the caller can create its first key in the same one.
func (s *Orgs) Create(ctx context.Context, tx postgres.Tx, by audit.By, d Draft) (Org, error) {
	now := s.deps.Now().Truncate(time.Microsecond) // the database's resolution
	o := Org{
		ID: id.New[id.Org](), Name: d.Name, Plan: d.Plan, Environment: d.Environment, ContactEmail: d.ContactEmail,
		Override: d.Override, Limits: s.deps.Plans.resolve(d.Plan, d.Override), Epoch: 1, CreatedAt: now, UpdatedAt: now,
	}
	if err := s.validate(o, ""); err != nil {
		return Org{}, err
	}
	if s.deps.Refuse != nil {
		if err := s.deps.Refuse(ctx, o.Environment); err != nil {
			return Org{}, err
		}
	}
	if err := insert(ctx, tx, o); err != nil {
		return Org{}, err
	}
	return o, s.deps.Audit.Record(ctx, tx, o.ID, by, string(o.ID), audit.Changes{
		"name": {To: o.Name}, "plan": {To: o.Plan}, "environment": {To: o.Environment}, "limits": {To: o.Override},
	})
}

// Get reads one org. It returns the problem org-not-found if there is none.
func (s *Orgs) Get(ctx context.Context, org id.Org) (Org, error) { return s.get(ctx, s.deps.DB, org) }

// GetIn reads one org within a transaction or a snapshot.
func (s *Orgs) GetIn(ctx context.Context, tx postgres.Tx, org id.Org) (Org, error) {
	return s.get(ctx, tx, org)
}

// Lock reads one org and locks its row against changes until the transaction ends.
func (s *Orgs) Lock(ctx context.Context, tx postgres.Tx, org id.Org) (Org, error) {
	row, err := db.New(tx).GetForUpdate(ctx, org)
	if err != nil {
		return Org{}, fmt.Errorf("lock org %s: %w", org, notFound(err))
	}
	return s.fromRow(row), nil
}

// AnyLive reports whether there is an org with real accounts.
func (s *Orgs) AnyLive(ctx context.Context) (bool, error) { return db.New(s.deps.DB).AnyLive(ctx) }

// Some reads the orgs with these ids and returns them sorted by id. Unknown ids are skipped.
func (s *Orgs) Some(ctx context.Context, ids []id.Org) ([]Org, error) {
	rows, err := db.New(s.deps.DB).Some(ctx, id.Texts(ids))
	return postgres.Convert(rows, s.fromRow), err
}

// Update changes an org. Every node applies the change to calls that start after Update has returned, unless Redis
// could not be reached; then the announcement job follows up. If Update suspended the org and returns nil, no node
// starts to send anything for it any more.
func (s *Orgs) Update(ctx context.Context, org id.Org, by audit.By, c Change) (Org, error) {
	if c == (Change{}) {
		return Org{}, problem.ValidationFailed.New("There is nothing to change.").At("", "required", "must have at least one field")
	}
	var after Org
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		before, err := s.Lock(ctx, tx, org)
		if err != nil {
			return err
		}
		if before.Deletion != nil && c.Suspended != nil && !*c.Suspended {
			return problem.ValidationFailed.New("The organisation is being deleted.").
				At("/suspended", "unsupported", "cannot end before the deletion does; restore the organisation instead")
		}
		wanted, changes := c.apply(before, s.deps.Now().Truncate(time.Microsecond))
		wanted.Limits = s.deps.Plans.resolve(wanted.Plan, wanted.Override)
		if err := s.validate(wanted, before.Plan); err != nil {
			return err
		}
		if after, err = s.update(ctx, tx, wanted); err != nil {
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
	s.announceEpoch(ctx, org, after.Epoch)
	if c.Suspended != nil && *c.Suspended {
		if err := s.awaitSuspension(ctx); err != nil {
			return Org{}, err
		}
	}
	return after, nil
}

// awaitSuspension waits until all processes obey a suspension. The suspension is committed even if this fails, and a
// repeated request waits again.
func (s *Orgs) awaitSuspension(ctx context.Context) error {
	if err := s.deps.Suspensions.Await(ctx); err != nil {
		return problem.ServiceUnavailable.New("The organisation is suspended, but not every server has confirmed that. Repeat the request to be sure.").
			After(1).Because(err)
	}
	return nil
}

// AdvanceEpoch makes every node read an org and its keys again before it answers the org's next call. Call it in the
// transaction of the change, and call committed after the commit: it makes the change take effect immediately. Without
// that call the change takes effect when the announcement job has run.
func (s *Orgs) AdvanceEpoch(ctx context.Context, tx postgres.Tx, org id.Org) (committed func(context.Context), err error) {
	epoch, err := db.New(tx).AdvanceEpoch(ctx, org)
	if err != nil {
		return nil, notFound(err)
	}
	if err := enqueueAnnounce(ctx, s.deps.Jobs, tx, org, epoch); err != nil {
		return nil, err
	}
	return func(ctx context.Context) { s.announceEpoch(ctx, org, epoch) }, nil
}

// announceEpoch announces a committed epoch. It ignores errors because the job enqueued in the same transaction repeats
// the announcement until it succeeds. It also ignores the caller's cancellation: the change is committed, and the
// other nodes must learn of it.
func (s *Orgs) announceEpoch(ctx context.Context, org id.Org, epoch int64) {
	_ = s.deps.Announce.Announce(context.WithoutCancel(ctx), org, epoch)
}

// HoldEpoch reads the current epoch and locks it, so that it cannot advance until the transaction ends. Concurrent
// readers can hold the lock together.
func (s *Orgs) HoldEpoch(ctx context.Context, tx postgres.Tx, org id.Org) (int64, error) {
	epoch, err := db.New(tx).HoldEpoch(ctx, org)
	return epoch, notFound(err)
}

// apply returns the changed org and the differences for the audit log.
func (c Change) apply(o Org, now time.Time) (Org, audit.Changes) {
	changes := audit.Changes{}
	if c.Name != nil {
		changes.Note("name", o.Name, *c.Name)
		o.Name = *c.Name
	}
	if c.ContactEmail != nil {
		changes.Note("contactEmail", o.ContactEmail, *c.ContactEmail)
		o.ContactEmail = *c.ContactEmail
	}
	if c.Plan != nil {
		changes.Note("plan", o.Plan, *c.Plan)
		o.Plan = *c.Plan
	}
	if c.Override != nil {
		changes["limits"] = audit.Change{From: o.Override, To: *c.Override}
		o.Override = *c.Override
	}
	if c.Suspended != nil {
		changes.Note("suspended", o.SuspendedAt != nil, *c.Suspended)
		switch {
		case !*c.Suspended:
			o.SuspendedAt, o.SuspendedReason = nil, ""
		case o.SuspendedAt == nil:
			o.SuspendedAt = &now
		case o.Deletion != nil:
			// From now on the suspension is the operator's, so it stays if the org is restored.
			d := *o.Deletion
			d.Suspends = false
			o.Deletion = &d
		}
	}
	if c.SuspendedReason != nil && o.SuspendedAt != nil {
		// Not added to changes: customers read the audit log, and the operator's reason is not meant for them.
		o.SuspendedReason = *c.SuspendedReason
	}
	o.UpdatedAt = now
	return o, changes
}

// validate returns one problem that lists every invalid field. An org may keep the plan that it has, even if the plan is no
// longer offered.
func (s *Orgs) validate(o Org, has Plan) error {
	bad := problem.ValidationFailed.New("The organisation has values that are not allowed.")
	if n := utf8.RuneCountInString(o.Name); strings.TrimSpace(o.Name) == "" || n > MaxName {
		bad.At("/name", "length", "must have 1 to 120 characters")
	} else if strings.ContainsFunc(o.Name, unicode.IsControl) {
		bad.At("/name", "character", "must not contain control characters")
	}
	if a, err := mail.ParseAddress(o.ContactEmail); err != nil || a.Address != o.ContactEmail || len(o.ContactEmail) > MaxEmail {
		bad.At("/contactEmail", "format", "must be an email address, such as ops@example.com")
	}
	if o.Plan != has && !s.deps.Plans.Has(o.Plan) {
		bad.At("/plan", "enum", "must be one of "+s.deps.Plans.names())
	}
	if !o.Environment.IsValid() {
		bad.At("/environment", "enum", "must be sandbox or live")
	}
	for _, name := range slices.Sorted(maps.Keys(o.Override)) {
		switch value := o.Override[name]; {
		case !slices.Contains(LimitNames(), name):
			bad.At("/limits/"+name, "unknown", "is not a limit; the limits are "+strings.Join(LimitNames(), ", "))
		case value < 1 && value != Unlimited:
			bad.At("/limits/"+name, "minimum", "must be at least 1, or -1 for no limit")
		}
	}
	if len(bad.Fields) > 0 {
		return bad
	}
	return nil
}

// notFound turns ErrNoRows into the problem org-not-found. The problem does not reveal whether the id belongs to
// another org, never existed or is malformed.
func notFound(err error) error {
	if errors.Is(err, postgres.ErrNoRows) {
		return problem.OrgNotFound.New("There is no organisation with this id.")
	}
	return err
}
