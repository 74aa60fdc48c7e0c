// Package outbox keeps the events that this service causes itself (account.*, connect.*, key.*) until the event store takes them.
//
// An event is written in the transaction of what it tells of: neither can be without the other. Package ingest takes it out in the
// transaction that stores it, so it is stored once.
package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/outbox/internal/db"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Event is something that happened.
type Event struct {
	Org id.Org
	// Account is empty for an event of the org's own.
	Account id.Account
	// Kind is one of the catalog's service events, such as account.connected.
	Kind string
	// OfUserID and ReferenceID are the account's.
	OfUserID, ReferenceID string
	// Data becomes JSON. No secret may be in it.
	Data any
}

// Stored is an event as it was written.
type Stored struct {
	Org     id.Org
	ID      id.Event
	Seq     int64
	Account id.Account
	Kind    string

	OfUserID, ReferenceID string

	Data json.RawMessage
	At   time.Time
}

// Source is what the event belongs to: its account, or its org.
func (s *Stored) Source() string { return source(s.Org, s.Account) }

func source(org id.Org, account id.Account) string {
	if account == "" {
		return string(org)
	}
	return string(account)
}

// Outbox is the service.
type Outbox struct {
	db  *postgres.DB
	now func() time.Time
}

// New makes the service.
func New(db *postgres.DB, now func() time.Time) *Outbox { return &Outbox{db, now} }

// Add writes an event within a transaction.
func (o *Outbox) Add(ctx context.Context, tx postgres.Tx, e Event) error {
	data, err := json.Marshal(e.Data)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", e.Kind, err)
	}
	err = db.New(tx).Add(ctx, db.AddParams{
		OrgID: e.Org, ID: id.New[id.Event](), AccountID: string(e.Account), Kind: e.Kind, Data: data, At: o.now(),
		Bucket: place(e.Org, e.Account), OfUserID: e.OfUserID, ReferenceID: e.ReferenceID,
	})
	if err != nil {
		return fmt.Errorf("write event %s: %w", e.Kind, err)
	}
	return nil
}

// After lists an org's events behind a sequence number, oldest first.
func (o *Outbox) After(ctx context.Context, org id.Org, seq int64, limit int) ([]Stored, error) {
	rows, err := db.New(o.db.Pool()).After(ctx, db.AfterParams{OrgID: org, After: seq, MaxRows: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("read events of %s: %w", org, err)
	}
	return storedOf(rows), nil
}

// Waiting lists events of buckets that nobody has taken, oldest first.
func (o *Outbox) Waiting(ctx context.Context, buckets []int16, limit int) ([]Stored, error) {
	rows, err := db.New(o.db.Pool()).Waiting(ctx, db.WaitingParams{Buckets: buckets, MaxRows: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("read waiting events: %w", err)
	}
	return storedOf(rows), nil
}

// Pending says whether events of an account wait to be taken.
func (o *Outbox) Pending(ctx context.Context, org id.Org, account id.Account) (bool, error) {
	waiting, err := db.New(o.db.Pool()).Pending(ctx, db.PendingParams{OrgID: org, AccountID: string(account)})
	if err != nil {
		return false, fmt.Errorf("look for waiting events: %w", err)
	}
	return waiting, nil
}

// ErrTaken means that somebody else has taken an event.
var ErrTaken = errors.New("an event was taken by another")

// Take takes events out, in the transaction that stores them elsewhere.
func (o *Outbox) Take(ctx context.Context, tx postgres.Tx, seqs []int64) error {
	n, err := db.New(tx).Taken(ctx, seqs)
	if err != nil {
		return fmt.Errorf("take %d events: %w", len(seqs), err)
	}
	if int(n) != len(seqs) {
		return ErrTaken
	}
	return nil
}

// settled bounds what one sweep settles.
const settled = 5000

// Settle gives events a bucket that were written by a version which knew none.
func (o *Outbox) Settle(ctx context.Context) error {
	q := db.New(o.db.Pool())
	rows, err := q.Homeless(ctx, settled)
	if err != nil {
		return fmt.Errorf("look for events without a bucket: %w", err)
	}
	for _, r := range rows {
		if err := q.Settle(ctx, db.SettleParams{Seq: r.Seq, Bucket: place(r.OrgID, id.Account(r.AccountID))}); err != nil {
			return fmt.Errorf("settle an event: %w", err)
		}
	}
	return nil
}
