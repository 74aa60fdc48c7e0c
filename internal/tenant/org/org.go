// Package org owns tenants: their plan, their limits, and the epoch by which every node notices that something
// about a tenant's keys has changed.
//
// It does not own the keys (apikey) nor the counting of what an org uses (limit, usage).
package org

import (
	"context"
	"errors"
	"maps"
	"net/mail"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// Environment decides which upstream an org's accounts live on, and the prefix of its keys.
type Environment string

// The environments.
const (
	EnvSandbox Environment = "sandbox"
	EnvLive    Environment = "live"
)

// Org is a tenant as it was when it was read. It is never changed in place.
type Org struct {
	ID              id.Org
	Name            string
	Plan            Plan
	Environment     Environment
	ContactEmail    string
	Override        Override
	Limits          Limits
	SuspendedAt     *time.Time
	SuspendedReason string
	// Epoch grows with every change that must be noticed before the next call is answered.
	Epoch     int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Draft is what a new org is made from.
type Draft struct {
	Name         string
	Plan         Plan
	Environment  Environment
	ContactEmail string
	Override     Override
}

// Change is a partial update; nil leaves a field as it is.
type Change struct {
	Name            *string
	ContactEmail    *string
	Plan            *Plan
	Override        *Override
	Suspended       *bool
	SuspendedReason *string
}

// announcer tells every node that an org has a new epoch; *admission.Limiter has it.
type announcer interface {
	Announce(ctx context.Context, org id.Org, epoch int64) error
}

// Deps is what the service needs.
type Deps struct {
	DB       *postgres.DB
	Audit    *audit.Log
	Jobs     Enqueuer
	Announce announcer
	// Suspensions confirms that a suspension is obeyed; nil if nothing is sent for orgs.
	Suspensions *Suspensions
	Now         func() time.Time
}

// Orgs is the service.
type Orgs struct{ Deps }

// New makes the service.
func New(d Deps) *Orgs { return &Orgs{d} }

// MaxName and MaxEmail bound what is stored, in characters.
const (
	MaxName  = 120
	MaxEmail = 254
)

// Create makes an org within the caller's transaction, so that its first key can be made with it.
func (s *Orgs) Create(ctx context.Context, tx postgres.Tx, by audit.By, d Draft) (Org, error) {
	now := s.Now().Truncate(time.Microsecond) // what the database keeps
	o := Org{
		ID: id.New[id.Org](), Name: d.Name, Plan: d.Plan, Environment: d.Environment, ContactEmail: d.ContactEmail,
		Override: d.Override, Limits: resolve(d.Plan, d.Override), Epoch: 1, CreatedAt: now, UpdatedAt: now,
	}
	if err := validate(o); err != nil {
		return Org{}, err
	}
	if err := insert(ctx, tx, o); err != nil {
		return Org{}, err
	}
	return o, s.Audit.Record(ctx, tx, o.ID, by, string(o.ID), audit.Changes{
		"name": {To: o.Name}, "plan": {To: o.Plan}, "environment": {To: o.Environment}, "limits": {To: o.Override},
	})
}

// Get reads one org.
func (s *Orgs) Get(ctx context.Context, org id.Org) (Org, error) { return get(ctx, s.DB.Pool(), org) }

// GetIn reads one org within a transaction or a snapshot.
func (s *Orgs) GetIn(ctx context.Context, tx postgres.Tx, org id.Org) (Org, error) {
	return get(ctx, tx, org)
}

// Lock reads one org and keeps it from being changed until the transaction ends.
func (s *Orgs) Lock(ctx context.Context, tx postgres.Tx, org id.Org) (Org, error) {
	return getForUpdate(ctx, tx, org)
}

// Some reads orgs by their ids, in the order of the ids. One that does not exist is left out.
func (s *Orgs) Some(ctx context.Context, ids []id.Org) ([]Org, error) {
	return some(ctx, s.DB.Pool(), ids)
}

// Update changes an org. When it returns, a node that starts to answer a call will notice. When it has suspended an org, nothing more
// begins to leave for that org from any node.
func (s *Orgs) Update(ctx context.Context, org id.Org, by audit.By, c Change) (Org, error) {
	if c == (Change{}) {
		return Org{}, problem.ValidationFailed.New("There is nothing to change.").At("", "required", "must have at least one field")
	}
	var after Org
	err := s.DB.Tx(ctx, func(tx postgres.Tx) error {
		before, err := getForUpdate(ctx, tx, org)
		if err != nil {
			return err
		}
		wanted, changes := c.apply(before, s.Now().Truncate(time.Microsecond))
		if err := validate(wanted); err != nil {
			return err
		}
		if after, err = update(ctx, tx, wanted); err != nil {
			return err
		}
		if err := s.Audit.Record(ctx, tx, org, by, string(org), changes); err != nil {
			return err
		}
		return enqueueAnnounce(ctx, s.Jobs, tx, org, after.Epoch)
	})
	if err != nil {
		return Org{}, err
	}
	s.announce(ctx, org, after.Epoch)
	if c.Suspended != nil && *c.Suspended {
		if err := s.Suspensions.Await(ctx); err != nil {
			return Org{}, problem.ServiceUnavailable.New("The organisation is suspended, but not every server has confirmed that. Repeat the request to be sure.").
				After(1).Because(err)
		}
	}
	return after, nil
}

// AdvanceEpoch makes every node re-read an org's keys before their next call. It is called in the transaction of
// the change; the returned function is called after the commit and makes the change take effect at once.
func (s *Orgs) AdvanceEpoch(ctx context.Context, tx postgres.Tx, org id.Org) (committed func(context.Context), err error) {
	epoch, err := advanceEpoch(ctx, tx, org)
	if err != nil {
		return nil, err
	}
	if err := enqueueAnnounce(ctx, s.Jobs, tx, org, epoch); err != nil {
		return nil, err
	}
	return func(ctx context.Context) { s.announce(ctx, org, epoch) }, nil
}

// announce is the fast way; the job enqueued with the change is the sure one, so a failure here is not an error.
// The change itself is committed: the caller's cancellation must not keep it from the other nodes.
func (s *Orgs) announce(ctx context.Context, org id.Org, epoch int64) {
	_ = s.Announce.Announce(context.WithoutCancel(ctx), org, epoch)
}

// HoldEpoch reads the current epoch and keeps it from advancing until the transaction ends.
func (s *Orgs) HoldEpoch(ctx context.Context, tx postgres.Tx, org id.Org) (int64, error) {
	return holdEpoch(ctx, tx, org)
}

// apply makes the wanted org and says what differs.
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
		}
	}
	if c.SuspendedReason != nil && o.SuspendedAt != nil {
		// The customer reads this log; an operator's reason stays on the org.
		o.SuspendedReason = *c.SuspendedReason
	}
	o.Limits, o.UpdatedAt = resolve(o.Plan, o.Override), now
	return o, changes
}

// validate reports everything that is wrong with an org at once.
func validate(o Org) error {
	bad := problem.ValidationFailed.New("The organisation has values that are not allowed.")
	if n := utf8.RuneCountInString(o.Name); strings.TrimSpace(o.Name) == "" || n > MaxName {
		bad.At("/name", "length", "must have 1 to 120 characters")
	} else if strings.ContainsFunc(o.Name, unicode.IsControl) {
		bad.At("/name", "character", "must not hold control characters")
	}
	if a, err := mail.ParseAddress(o.ContactEmail); err != nil || a.Address != o.ContactEmail || len(o.ContactEmail) > MaxEmail {
		bad.At("/contactEmail", "format", "must be an email address, such as ops@example.com")
	}
	if _, ok := plans[o.Plan]; !ok {
		bad.At("/plan", "enum", "must be one of "+joinPlans())
	}
	if o.Environment != EnvSandbox && o.Environment != EnvLive {
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

func joinPlans() string {
	names := make([]string, 0, len(plans))
	for _, p := range Plans() {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// notFound hides whether an id is another's, never existed, or has the wrong form.
func notFound(err error) error {
	if errors.Is(err, postgres.ErrNoRows) {
		return problem.OrgNotFound.New("There is no organisation with this id.")
	}
	return err
}
