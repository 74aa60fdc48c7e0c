package connect

import (
	"context"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
)

// FunnelWithin is how far back a funnel can reach: as long as attempts are kept.
const FunnelWithin = retention

// MethodCounts counts how far creators got with one connect method. All attempts of one link count as one creator.
type MethodCounts struct {
	// Begun counts creators who gave credentials or a session, or opened a QR code; Linked those of them with a link.
	Begun, Linked, Challenged, Connected, Failed int64
}

func (m MethodCounts) add(more MethodCounts) MethodCounts {
	return MethodCounts{m.Begun + more.Begun, m.Linked + more.Linked, m.Challenged + more.Challenged,
		m.Connected + more.Connected, m.Failed + more.Failed}
}

// Reason is a failure code and the number of attempts that failed with it.
type Reason struct {
	Code  string
	Count int64
}

// Funnel counts how far creators got.
type Funnel struct {
	All      MethodCounts
	ByKind   map[string]MethodCounts
	Failures []Reason
}

// Funnel counts the attempts that began between since and until, without reauths. accounts restricts it to attempts for
// these accounts; nil for all.
func (c *Connects) Funnel(ctx context.Context, org id.Org, since, until time.Time, accounts []id.Account) (Funnel, error) {
	first, last := string(id.Earliest[id.Attempt](since)), string(id.Earliest[id.Attempt](until))
	q := db.New(c.deps.DB)
	rows, err := q.Funnel(ctx, db.FunnelParams{OrgID: org, First: first, Last: last, Accounts: id.Texts(accounts)})
	if err != nil {
		return Funnel{}, fmt.Errorf("count attempts of %s: %w", org, err)
	}
	f := Funnel{ByKind: make(map[string]MethodCounts, len(rows)), Failures: []Reason{}}
	for _, r := range rows {
		counts := MethodCounts{r.Begun, r.Linked, r.Challenged, r.Connected, r.Failed}
		f.ByKind[r.Kind] = counts
		f.All = f.All.add(counts)
	}
	reasons, err := q.FailureReasons(ctx, db.FailureReasonsParams{OrgID: org, First: first, Last: last, Accounts: id.Texts(accounts)})
	if err != nil {
		return Funnel{}, fmt.Errorf("count failures of attempts of %s: %w", org, err)
	}
	for _, r := range reasons {
		f.Failures = append(f.Failures, Reason{r.FailureCode, r.Attempts})
	}
	return f, nil
}
