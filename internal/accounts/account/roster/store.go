package roster

import (
	"cmp"
	"context"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/account/roster/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Count counts, by state, the accounts that account.List would give with any state.
func (r *Roster) Count(ctx context.Context, owner id.Org, f account.Filter) (map[account.State]int, error) {
	rows, err := db.New(r.db.Pool()).Count(ctx, db.CountParams{
		OrgID: owner, ReferenceID: f.ReferenceID, Label: f.Label, Query: f.Query, Among: id.Texts(f.Among),
	})
	if err != nil {
		return nil, fmt.Errorf("count accounts of %s that match: %w", owner, err)
	}
	counts := make(map[account.State]int, len(rows))
	for _, row := range rows {
		counts[account.State(row.State)] = int(row.Accounts)
	}
	return counts, nil
}

// Labels are what accounts are called: their labels, or the names that the platform has for those without one.
func (r *Roster) Labels(ctx context.Context, owner id.Org, accounts []id.Account) (map[id.Account]string, error) {
	rows, err := db.New(r.db.Pool()).Labels(ctx, db.LabelsParams{OrgID: owner, Ids: id.Texts(accounts)})
	if err != nil {
		return nil, fmt.Errorf("read labels of accounts of %s: %w", owner, err)
	}
	labels := make(map[id.Account]string, len(rows))
	for _, row := range rows {
		labels[row.ID] = cmp.Or(row.Label, row.Username)
	}
	return labels, nil
}
