package account

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Summary is what operators see of an account: its identity and state, but none of its contents.
type Summary struct {
	Org                         id.Org
	ID                          id.Account
	UpstreamID, Username, Label string
	State                       State
	Reason                      string
	StateChangedAt              time.Time
	Region                      string
	CreatedAt                   time.Time
	LastSeenAt, LastCheckedAt   *time.Time
	Listener                    ListenerState
	ListenerSince               *time.Time
	Shard                       int
}

// Find selects accounts of all orgs, for operators. Empty fields do not filter.
type Find struct {
	// Text is an account id, the platform's id of the creator, or a prefix of the username or label; case is ignored in
	// prefixes.
	Text   string
	Org    id.Org
	State  State
	Region string
	// Before is the last id of the previous page.
	Before id.Account
}

// Find lists at most limit accounts, newest first.
func (s *Accounts) Find(ctx context.Context, f Find, limit int) ([]Summary, error) {
	q, text := db.New(s.deps.DB), strings.TrimSpace(f.Text)
	last := cmp.Or(f.Before, "acct_~")
	if text == "" {
		rows, err := q.Newest(ctx, db.NewestParams{
			Before: last, OnlyOrg: string(f.Org), State: string(f.State), Region: f.Region, MaxRows: int32(limit),
		})
		return postgres.Convert(rows, func(r db.NewestRow) Summary { return summaryFromRow(db.FindRow(r)) }), err
	}
	low := strings.ToLower(text)
	rows, err := q.Find(ctx, db.FindParams{
		Text: text, Low: low, High: low + "\U0010FFFF", Before: last, OnlyOrg: string(f.Org), State: string(f.State), Region: f.Region, MaxRows: int32(limit),
	})
	return postgres.Convert(rows, summaryFromRow), err
}

func summaryFromRow(r db.FindRow) Summary {
	return Summary{
		Org: r.OrgID, ID: r.ID, UpstreamID: r.UpstreamID, Username: r.Username, Label: r.Label, State: State(r.State), Reason: r.StateReason,
		StateChangedAt: r.StateChangedAt, Region: r.Region, CreatedAt: r.CreatedAt, LastSeenAt: r.LastSeenAt, LastCheckedAt: r.LastCheckedAt,
		Listener: ListenerState(r.ListenerState), ListenerSince: r.ListenerSince, Shard: int(r.Shard),
	}
}

// ListenersByShard counts the accounts of each shard by the state of their listener.
func (s *Accounts) ListenersByShard(ctx context.Context) (map[int]map[ListenerState]int, error) {
	rows, err := db.New(s.deps.DB).ListenersByShard(ctx)
	if err != nil {
		return nil, err
	}
	shards := map[int]map[ListenerState]int{}
	for _, r := range rows {
		if shards[int(r.Shard)] == nil {
			shards[int(r.Shard)] = map[ListenerState]int{}
		}
		shards[int(r.Shard)][ListenerState(r.ListenerState)] += int(r.Accounts)
	}
	return shards, nil
}
