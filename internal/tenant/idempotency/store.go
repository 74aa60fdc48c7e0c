package idempotency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/idempotency/internal/db"
)

// The states of a row whose run has ended. A row of a run in progress has the state "running".
const (
	stateDone  = "done"
	stateLarge = "large"
)

// row is the stored state of a key.
type row struct {
	hash         []byte
	state        string
	leaseExpired bool
	status       int
	header       map[string]string
	body         []byte
}

func interval(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: true}
}

// reserve inserts the row of a key, or takes over one that has expired or whose run has died and may be repeated. It
// returns false if another request holds the key.
func reserve(ctx context.Context, q db.DBTX, c *Claim, r Request, hash []byte) (bool, error) {
	n, err := db.New(q).Reserve(ctx, db.ReserveParams{
		OrgID: c.org, Key: c.key, Route: c.route, RequestHash: hash, Owner: c.owner,
		Lease: interval(r.Lease), Kept: interval(Kept), Repeatable: r.Repeatable,
	})
	if err != nil {
		return false, fmt.Errorf("reserve an idempotency key of %s: %w", c.org, err)
	}
	return n == 1, nil
}

func get(ctx context.Context, q db.DBTX, r Request) (row, error) {
	found, err := db.New(q).Get(ctx, db.GetParams{OrgID: r.Org, Key: r.Key, Route: r.Route})
	if errors.Is(err, postgres.ErrNoRows) {
		return row{}, err
	}
	if err != nil {
		return row{}, fmt.Errorf("read an idempotency key of %s: %w", r.Org, err)
	}
	out := row{hash: found.RequestHash, state: found.State, leaseExpired: found.Lapsed, status: int(found.Status), body: found.Body}
	if err := json.Unmarshal(found.Headers, &out.header); err != nil {
		return row{}, fmt.Errorf("decode the headers of an answer of %s: %w", r.Org, err)
	}
	return out, nil
}

func isKnown(ctx context.Context, q db.DBTX, r Request) (bool, error) {
	found, err := db.New(q).Known(ctx, db.KnownParams{OrgID: r.Org, Key: r.Key, Route: r.Route})
	if err != nil {
		return false, fmt.Errorf("look up an idempotency key of %s: %w", r.Org, err)
	}
	return found, nil
}

func finish(ctx context.Context, q db.DBTX, c *Claim, r row) error {
	headers, err := json.Marshal(r.header)
	if err != nil {
		return fmt.Errorf("encode the headers of an answer: %w", err)
	}
	body := r.body
	if body == nil {
		body = []byte{}
	}
	n, err := db.New(q).Finish(ctx, db.FinishParams{
		OrgID: c.org, Key: c.key, Route: c.route, Owner: c.owner, State: r.state, Status: int32(r.status), Headers: headers, Body: body,
	})
	return checkOwner("store an answer", c, n, err)
}

func release(ctx context.Context, q db.DBTX, c *Claim) error {
	n, err := db.New(q).Release(ctx, db.ReleaseParams{OrgID: c.org, Key: c.key, Route: c.route, Owner: c.owner})
	return checkOwner("release an idempotency key", c, n, err)
}

func abandon(ctx context.Context, q db.DBTX, c *Claim) error {
	n, err := db.New(q).Abandon(ctx, db.AbandonParams{OrgID: c.org, Key: c.key, Route: c.route, Owner: c.owner})
	return checkOwner("abandon an idempotency key", c, n, err)
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

func deleteExpired(ctx context.Context, q db.DBTX, limit int) (int64, error) {
	n, err := db.New(q).Trim(ctx, int32(limit))
	if err != nil {
		return 0, fmt.Errorf("delete expired idempotency keys: %w", err)
	}
	return n, nil
}
