// Package outbox keeps the events that this service causes itself (account.*, connect.*) until the event log takes them.
//
// An event is written in the transaction of what it tells of: neither can be without the other.
package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/id"
	"github.com/stagedoor/stagedoor/internal/outbox/internal/db"
	"github.com/stagedoor/stagedoor/internal/postgres"
)

// Event is something that happened.
type Event struct {
	Org id.Org
	// Account is empty for an event of the org's own.
	Account id.Account
	// Kind is one of the catalog's service events, such as account.connected.
	Kind string
	// Data becomes JSON. No secret may be in it.
	Data any
}

// Stored is an event as it was written.
type Stored struct {
	ID      id.Event
	Seq     int64
	Account id.Account
	Kind    string
	Data    json.RawMessage
	At      time.Time
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
	list := make([]Stored, len(rows))
	for i, r := range rows {
		list[i] = Stored{ID: r.ID, Seq: r.Seq, Account: id.Account(r.AccountID), Kind: r.Kind, Data: r.Data, At: r.At}
	}
	return list, nil
}

// kept is how long an event waits for the log. It is longer than any outage that we expect to survive.
const kept = 7 * 24 * time.Hour

// trimmed bounds what one sweep removes.
const trimmed = 5000

// Trim forgets old events, some at a time, and says how many.
func (o *Outbox) Trim(ctx context.Context) (int64, error) {
	n, err := db.New(o.db.Pool()).Trim(ctx, db.TrimParams{Before: o.now().Add(-kept), MaxRows: trimmed})
	if err != nil {
		return 0, fmt.Errorf("forget old events: %w", err)
	}
	return n, nil
}
