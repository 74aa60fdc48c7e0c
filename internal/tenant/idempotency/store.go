package idempotency

import (
	"context"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/idempotency/internal/db"
)

// The states of a row whose run has ended. A row of a run in progress has the state "running".
const (
	stateDone  = "done"
	stateLarge = "large"
)

// reserve inserts the row of a key, or takes over one that has expired or whose run has died and may be repeated. It
// returns false if another request holds the key.
func reserve(ctx context.Context, q db.DBTX, c *Claim, r Request, hash []byte) (bool, error) {
	n, err := db.New(q).Reserve(ctx, db.ReserveParams{
		OrgID: c.org, Key: c.key, Route: c.route, RequestHash: hash, Owner: c.owner,
		Lease: r.Lease, Kept: Kept, Repeatable: r.Repeatable,
	})
	return n == 1, err
}

// storeAnswer stores an answer whose body, if any, is sealed.
func storeAnswer(ctx context.Context, q db.DBTX, c *Claim, state string, a Answer) error {
	if a.Body == nil {
		a.Body = []byte{} // nil would be NULL
	}
	n, err := db.New(q).Finish(ctx, db.FinishParams{
		OrgID: c.org, Key: c.key, Route: c.route, Owner: c.owner, State: state, Status: a.Status,
		Headers: postgres.OrEmpty(a.Header), Body: a.Body,
	})
	return checkOwner("store an answer", c, n, err)
}

// checkOwner returns ErrLost if the statement changed no row, because the claim no longer owns it.
func checkOwner(doing string, c *Claim, rows int64, err error) error {
	if err == nil && rows == 0 {
		err = ErrLost
	}
	if err != nil {
		return fmt.Errorf("%s of %s: %w", doing, c.org, err)
	}
	return nil
}
