package org_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// plansFile returns a file with one plan, with every limit at 7.
func plansFile(name string, change ...string) []byte {
	var limits []string
	for _, limit := range org.LimitNames() {
		limits = append(limits, fmt.Sprintf("%q: 7", limit))
	}
	text := fmt.Sprintf(`{"plans": [{"name": %q, "limits": {%s}}]}`, name, strings.Join(limits, ", "))
	return []byte(strings.NewReplacer(change...).Replace(text))
}

// A file of plans is refused, with the plan and the limit in the message, and the plans stay as they were.
func TestInvalidPlansAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, with, want string }{
		"no JSON":           {`{"plans"`, "plans", "not JSON"},
		"two values":        {"}]}", "}]} {}", "after the end"},
		"unknown member":    {`{"plans"`, `{"version": 1, "plans"`, `unknown field "version"`},
		"unknown of a plan": {`{"name"`, `{"price": 1, "name"`, `unknown field "price"`},
		"no limits":         {`"uploadMaxBytes": 7}}`, `"uploadMaxBytes": 7}}, {"name": "b"}`, "plan b: limits.accountReadPerMinute is missing"},
		"unknown limit":     {`"maxKeys"`, `"maxKey"`, "plan sandbox: limits.maxKey is not a limit; did you mean maxKeys?\nlimits.maxKeys is missing"},
		"missing limit":     {`"maxKeys": 7, `, "", "plan sandbox: limits.maxKeys is missing"},
		"zero":              {`"maxKeys": 7`, `"maxKeys": 0`, "plan sandbox: limits.maxKeys is 0: use a whole number of at least 1"},
		"negative":          {`"maxKeys": 7`, `"maxKeys": -1`, "limits.maxKeys is -1"},
		"fraction":          {`"maxKeys": 7`, `"maxKeys": 1.5`, "limits.maxKeys is 1.5"},
		"text":              {`"maxKeys": 7`, `"maxKeys": "7"`, `limits.maxKeys is "7"`},
		"null":              {`"maxKeys": 7`, `"maxKeys": null`, "limits.maxKeys is null"},
		"too many days":     {`"eventRetentionDays": 7`, `"eventRetentionDays": 31`, "limits.eventRetentionDays is 31: use at most 30"},
		"a limit twice":     {`"maxKeys": 7`, `"maxKeys": 7, "maxKeys": 8`, "plans[0].limits.maxKeys is there twice"},
		"plans twice":       {`{"plans"`, `{"Plans": [], "plans"`, "plans is there twice"},
		"a plan twice":      {`"uploadMaxBytes": 7}}`, `"uploadMaxBytes": 7}}, {"name": "sandbox"}`, "plan sandbox is listed twice"},
		"not a list":        {`{"plans": [`, `{"plans": {}, "Plan": [`, "not valid"},
		"no sandbox":        {"sandbox", "basic", "there is no plan sandbox"},
		"a bad name":        {"sandbox", "Sand box", "lower-case letters"},
	} {
		plans := org.NewPlans()
		err := plans.Replace(plansFile("sandbox", c.old, c.with))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if list, version := plans.All(); len(list) != 4 || version != 1 {
			t.Errorf("%s: the plans are %v", name, list)
		}
	}
}

// The limits of orgs follow the plans when these are replaced. An org whose plan is no longer offered keeps working, with
// the limits of the plan sandbox and without losing data early; it may keep its plan, but others cannot get it.
func TestPlansAreReplaced(t *testing.T) {
	t.Parallel()
	plans := org.NewPlans()
	orgs, _, _, o := newOrgsWith(t, plans)
	must.OK(t, plans.Replace(plansFile("sandbox")))
	got, err := orgs.Get(t.Context(), o.ID)
	must.OK(t, err)
	if l := got.Limits; got.Plan != "starter" || l.CallsPerMinute != 7 || l.EventRetentionDays != org.MaxRetentionDays || l.DeliveryRetentionDays != org.MaxRetentionDays {
		t.Errorf("%s %+v", got.Plan, l)
	}
	if counts, err := orgs.CountUnlisted(t.Context()); err != nil || len(counts) != 1 || counts["starter"] != 1 {
		t.Errorf("%v %v", counts, err)
	}
	name, growth, sandbox := "Acme 2", org.Plan("growth"), org.Sandbox
	if changed, err := orgs.Update(t.Context(), o.ID, by, org.Change{Name: &name}); err != nil || changed.Plan != "starter" {
		t.Errorf("%+v %v", changed, err)
	}
	if _, err := orgs.Update(t.Context(), o.ID, by, org.Change{Plan: &growth}); !strings.Contains(fmt.Sprint(problem.Of(err).Fields), "must be one of sandbox") {
		t.Errorf("%v", err)
	}
	if changed, err := orgs.Update(t.Context(), o.ID, by, org.Change{Plan: &sandbox}); err != nil || changed.Limits.EventRetentionDays != 7 {
		t.Errorf("%+v %v", changed, err)
	}
	if counts, err := orgs.CountUnlisted(t.Context()); err != nil || len(counts) != 0 {
		t.Errorf("%v %v", counts, err)
	}
}
