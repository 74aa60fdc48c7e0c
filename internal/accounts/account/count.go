package account

import (
	"cmp"
	"context"

	"github.com/stagedoor/stagedoor/internal/accounts/account/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
)

// CountByState counts the accounts that List would return if the filter had no states.
func (s *Accounts) CountByState(ctx context.Context, owner id.Org, f Filter) (map[State]int, error) {
	rows, err := db.New(s.deps.DB).CountByState(ctx, db.CountByStateParams{
		OrgID: owner, ReferenceID: f.ReferenceID, Label: f.Label, Query: f.Query, Among: id.Texts(f.Among),
	})
	if err != nil {
		return nil, err
	}
	counts := make(map[State]int, len(rows))
	for _, row := range rows {
		counts[State(row.State)] = int(row.Accounts)
	}
	return counts, nil
}

// CountAll counts the accounts of all organisations by state, for the metrics.
func (s *Accounts) CountAll(ctx context.Context) (map[State]int64, error) {
	rows, err := db.New(s.deps.DB).CountAll(ctx)
	counts := make(map[State]int64, len(rows))
	for _, row := range rows {
		counts[State(row.State)] = row.Accounts
	}
	return counts, err
}

// Labels returns the label of each account, or its name on the platform if it has no label.
func (s *Accounts) Labels(ctx context.Context, owner id.Org, accounts []id.Account) (map[id.Account]string, error) {
	rows, err := db.New(s.deps.DB).Labels(ctx, db.LabelsParams{OrgID: owner, Ids: id.Texts(accounts)})
	if err != nil {
		return nil, err
	}
	labels := make(map[id.Account]string, len(rows))
	for _, row := range rows {
		labels[row.ID] = cmp.Or(row.Label, row.Username)
	}
	return labels, nil
}
