package connect

import (
	"context"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
)

// FunnelWithin is how far back funnels can look: about as long as attempts are kept.
const FunnelWithin = readable

// Way is how far creators came on one way to connect. All attempts of one link are one creator's.
type Way struct {
	// Begun are those who gave credentials or a session, or opened a QR code; Linked those of them who came by a link.
	Begun, Linked, Challenged, Connected, Failed int64
}

func (w Way) plus(more Way) Way {
	return Way{w.Begun + more.Begun, w.Linked + more.Linked, w.Challenged + more.Challenged, w.Connected + more.Connected, w.Failed + more.Failed}
}

// Reason is why attempts failed, and how many.
type Reason struct {
	Code  string
	Count int64
}

// Funnel is how far creators came.
type Funnel struct {
	All      Way
	ByKind   map[string]Way
	Failures []Reason
}

// Funnel counts what began within a time. Signing in again with remembered credentials is none of it. accounts are those that are to be
// counted; nil for all.
func (c *Connects) Funnel(ctx context.Context, org id.Org, since, until time.Time, accounts []id.Account) (Funnel, error) {
	first, last := string(id.Earliest[id.Attempt](since)), string(id.Earliest[id.Attempt](until))
	q := db.New(c.DB.Pool())
	rows, err := q.Funnel(ctx, db.FunnelParams{OrgID: org, First: first, Last: last, Accounts: id.Texts(accounts)})
	if err != nil {
		return Funnel{}, fmt.Errorf("count attempts of %s: %w", org, err)
	}
	f := Funnel{ByKind: make(map[string]Way, len(rows)), Failures: []Reason{}}
	for _, r := range rows {
		way := Way{r.Begun, r.Linked, r.Challenged, r.Connected, r.Failed}
		f.ByKind[r.Kind] = way
		f.All = f.All.plus(way)
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
