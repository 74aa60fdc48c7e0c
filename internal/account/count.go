package account

import (
	"context"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/account/internal/db"
	"github.com/stagedoor/stagedoor/internal/id"
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

// texts are ids as the database has them; nil stays nil, which is not the same as none.
func texts(ids []id.Account) []string {
	if ids == nil {
		return nil
	}
	list := make([]string, len(ids))
	for i, one := range ids {
		list[i] = string(one)
	}
	return list
}
