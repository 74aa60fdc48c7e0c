package account

import (
	"context"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/accounts/account/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
)

// CountByState counts an org's connected accounts.
func (s *Accounts) CountByState(ctx context.Context, owner id.Org) (map[State]int, error) {
	rows, err := db.New(s.DB.Pool()).CountByState(ctx, owner)
	if err != nil {
		return nil, fmt.Errorf("count accounts of %s by state: %w", owner, err)
	}
	counts := make(map[State]int, len(rows))
	for _, row := range rows {
		counts[State(row.State)] = int(row.Accounts)
	}
	return counts, nil
}
