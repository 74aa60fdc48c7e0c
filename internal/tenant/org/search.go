package org

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/org/internal/db"
)

// Search chooses orgs, for operators. Empty fields choose all.
type Search struct {
	// Text is an id, or a part of the name or of the contact address, in whatever case.
	Text        string
	Plan        Plan
	Environment Environment
	Suspended   *bool
	// After is the last id of the page before.
	After id.Org
}

// Search reads up to limit orgs in the order of their ids.
func (s *Orgs) Search(ctx context.Context, f Search, limit int) ([]Org, error) {
	p := db.SearchParams{
		After: f.After, Plan: string(f.Plan), Environment: string(f.Environment), Text: strings.ToLower(strings.TrimSpace(f.Text)), MaxRows: int32(limit),
	}
	if f.Suspended != nil {
		p.Suspended = strconv.FormatBool(*f.Suspended)
	}
	rows, err := db.New(s.DB.Pool()).Search(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("search orgs: %w", err)
	}
	orgs := make([]Org, len(rows))
	for i, row := range rows {
		if orgs[i], err = fromRow(row); err != nil {
			return nil, err
		}
	}
	return orgs, nil
}

// Limit is one of an org's limits by its name, as it holds for the org.
type Limit struct {
	Name  string
	Value int
	// Overridden means that the org has another than its plan.
	Overridden bool
}

// ListLimits lists the limits in the order of the price list.
func (o Org) ListLimits() []Limit {
	list := make([]Limit, len(named))
	for i, n := range named {
		_, own := o.Override[n.name]
		list[i] = Limit{n.name, *n.field(&o.Limits), own}
	}
	return list
}
