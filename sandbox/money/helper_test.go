package money_test

import (
	"encoding/json"
	"math/big"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

const login = "ok@sandbox.test"

// platform starts a platform whose clock begins at noon, so that no test runs past midnight.
func platform(t *testing.T) *sandboxtest.Platform {
	t.Helper()
	start := time.Now()
	shift := start.Truncate(24 * time.Hour).Add(12 * time.Hour).Sub(start)
	return sandboxtest.New(t, func(cfg *sandbox.Config) { cfg.Now = func() time.Time { return time.Now().Add(shift) } })
}

// cents converts a decimal number of dollars without rounding.
func cents(t *testing.T, v any) int64 {
	t.Helper()
	number, ok := v.(json.Number)
	if !ok {
		t.Fatalf("%v is not an amount", v)
	}
	sum, ok := new(big.Rat).SetString(number.String())
	if !ok {
		t.Fatalf("%v is not an amount", v)
	}
	if sum.Mul(sum, big.NewRat(100, 1)); !sum.IsInt() {
		t.Fatalf("%v has fractions of a cent", v)
	}
	return sum.Num().Int64()
}

// number converts a JSON number to an integer.
func number(t *testing.T, v any) int64 {
	t.Helper()
	n, err := v.(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// all reads every page of a list. query is empty or starts with &.
func all(t *testing.T, c *sandboxtest.Client, path, query string) []map[string]any {
	t.Helper()
	var list []map[string]any
	seen, marker := map[any]bool{}, ""
	for {
		page := c.Must("GET", path+"?limit=100"+query+marker, nil)
		for _, one := range page.Get("list").([]any) {
			item := one.(map[string]any)
			if id := item["id"]; id != nil {
				if seen[id] {
					t.Fatalf("%s: %v appears twice", path, id)
				}
				seen[id] = true
			}
			list = append(list, item)
		}
		if page.Get("has_more") != true {
			return list
		}
		marker = "&marker=" + page.Text("next_marker")
	}
}

// order runs a happening.
func order(t *testing.T, p *sandboxtest.Platform, what string, in fanaction.Input) {
	t.Helper()
	if err := try(p, what, in); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func try(p *sandboxtest.Platform, what string, in fanaction.Input) error {
	return p.World.Do(login, func(c *world.Creator) error { return sandbox.Happenings()[what](c, in) })
}

// dates returns a query for a span of whole days, given as numbers of days before today.
func dates(p *sandboxtest.Platform, from, to int) string {
	now := p.World.Now()
	return "from=" + now.AddDate(0, 0, -from).Format(time.DateOnly) + "&to=" + now.AddDate(0, 0, -to).Format(time.DateOnly)
}
