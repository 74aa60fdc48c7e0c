package org

import (
	"context"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/org/internal/db"
)

// Search is an operator's filter over all orgs. A zero field does not filter.
type Search struct {
	// Text matches an exact id, or any part of the name or the contact address, ignoring case.
	Text        string
	Plan        Plan
	Environment environment.Environment
	Suspended   *bool
	// After is the last id of the previous page.
	After id.Org
}

// Search reads up to limit orgs, sorted by id.
func (s *Orgs) Search(ctx context.Context, f Search, limit int) ([]Org, error) {
	p := db.SearchParams{
		After: f.After, Plan: string(f.Plan), Environment: string(f.Environment), Text: strings.ToLower(strings.TrimSpace(f.Text)), MaxRows: int32(limit),
	}
	if f.Suspended != nil {
		p.Suspended = strconv.FormatBool(*f.Suspended)
	}
	rows, err := db.New(s.deps.DB).Search(ctx, p)
	return postgres.Convert(rows, s.fromRow), err
}

// CountUnlisted returns how many orgs have plans that are not offered any more, by plan.
func (s *Orgs) CountUnlisted(ctx context.Context) (map[Plan]int64, error) {
	plans, _ := s.deps.Plans.All()
	known := make([]string, len(plans))
	for i, p := range plans {
		known[i] = string(p.Name)
	}
	rows, err := db.New(s.deps.DB).CountUnlisted(ctx, known)
	if err != nil {
		return nil, err
	}
	counts := make(map[Plan]int64, len(rows))
	for _, r := range rows {
		counts[Plan(r.Plan)] = r.Orgs
	}
	return counts, nil
}

// Limit is one limit of an org, with any override applied.
type Limit struct {
	Name  string
	Value int
	// Overridden reports whether Value comes from the org's Override and not from its plan.
	Overridden bool
}

// ListLimits returns all limits of the org, in the order of LimitNames.
func (o Org) ListLimits() []Limit {
	list := make([]Limit, len(limitFields))
	for i, n := range limitFields {
		_, own := o.Override[n.name]
		list[i] = Limit{n.name, *n.field(&o.Limits), own}
	}
	return list
}
