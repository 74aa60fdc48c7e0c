package admin

import (
	"context"
	"slices"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// optional parses an id that may be empty.
func optional[K id.Kind](text, pointer string) (K, error) {
	if text == "" {
		return "", nil
	}
	one, err := id.Parse[K](text)
	if err != nil {
		return "", problem.InvalidRequest.New("A parameter is invalid.").At(pointer, "format", "must be an id from this API")
	}
	return one, nil
}

func (a *Admin) names(ctx context.Context, n int, of func(int) id.Org) (map[id.Org]string, error) {
	var orgs []id.Org
	for i := range n {
		if one := of(i); !slices.Contains(orgs, one) {
			orgs = append(orgs, one)
		}
	}
	names := make(map[id.Org]string, len(orgs))
	if len(orgs) == 0 {
		return names, nil
	}
	found, err := a.deps.Orgs.Some(ctx, orgs)
	for _, o := range found {
		names[o.ID] = o.Name
	}
	return names, err
}
