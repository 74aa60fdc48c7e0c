// Package outbox holds the events that this service itself causes (account.*, connect.*, key.*) until package ingest
// moves them into the event store.
//
// Add writes an event in the transaction of the change that it reports, so neither is committed without the other. Take
// deletes it in the transaction that stores it, so each event is stored exactly once. Events of platforms do not pass
// through here; they come through package eventlog.
package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/effect"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/tracing"
	"github.com/stagedoor/stagedoor/internal/engine/outbox/internal/db"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Event is an event to be written.
type Event struct {
	Org id.Org
	// Account is empty for an event of the organisation itself.
	Account id.Account
	// OfUserID is the account's user on the platform, ReferenceID the customer's own name for the account.
	OfUserID, ReferenceID string
	// Data is encoded as JSON.
	Data contract.Event
}

// Stored is an event in the outbox.
type Stored struct {
	Org id.Org
	ID  id.Event
	// Seq orders the events of all organisations. It is the position in the outbox, not the sequence number of the
	// event.
	Seq     int64
	Account id.Account
	Kind    string

	OfUserID, ReferenceID string

	Data json.RawMessage
	At   time.Time
	// Traceparent is the context of the trace in which it was written; empty if that was not traced.
	Traceparent string
}

// Source returns the account of the event, or its organisation if it has none.
func (s *Stored) Source() string { return source(s.Org, s.Account) }

func source(org id.Org, account id.Account) string {
	if account == "" {
		return string(org)
	}
	return string(account)
}

// Outbox writes and reads the table.
type Outbox struct {
	db      *postgres.DB
	now     func() time.Time
	observe func(ctx context.Context, tx postgres.Tx, e Event) error
}

// New makes an Outbox.
func New(db *postgres.DB, now func() time.Time) *Outbox { return &Outbox{db: db, now: now} }

// Watch makes Add call a function with each event, in the transaction of the event. Call it before the first Add; there is
// one function.
func (o *Outbox) Watch(observe func(ctx context.Context, tx postgres.Tx, e Event) error) {
	o.observe = observe
}

// Add writes an event in the transaction of the caller and gives it an id and the current time.
func (o *Outbox) Add(ctx context.Context, tx postgres.Tx, e Event) error {
	kind := e.Data.Kind()
	data, err := json.Marshal(e.Data)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", kind, err)
	}
	made := id.New[id.Event]()
	effect.Note(ctx, effect.Event{ID: made, Kind: kind, Account: e.Account})
	if o.observe != nil {
		if err := o.observe(ctx, tx, e); err != nil {
			return fmt.Errorf("observe event %s: %w", kind, err)
		}
	}
	return db.New(tx).Add(ctx, db.AddParams{
		OrgID: e.Org, ID: made, AccountID: e.Account, Kind: kind, Data: data, At: o.now(),
		Bucket: bucketOf(e.Org, e.Account), OfUserID: e.OfUserID, ReferenceID: e.ReferenceID,
		Traceparent: tracing.Format(ctx, tracing.Sampled(trace.SpanFromContext(ctx))),
	})
}

// After lists an organisation's events with a higher Seq, oldest first.
func (o *Outbox) After(ctx context.Context, org id.Org, seq int64, limit int) ([]Stored, error) {
	rows, err := db.New(o.db).After(ctx, db.AfterParams{OrgID: org, After: seq, MaxRows: int32(limit)})
	return postgres.Convert(rows, func(r db.AfterRow) Stored { return Stored(r) }), err
}

// Waiting lists the events of buckets that were not yet taken, oldest first.
func (o *Outbox) Waiting(ctx context.Context, buckets []int16, limit int) ([]Stored, error) {
	rows, err := db.New(o.db).Waiting(ctx, db.WaitingParams{Buckets: buckets, MaxRows: int32(limit)})
	return postgres.Convert(rows, func(r db.WaitingRow) Stored { return Stored(r) }), err
}

// Pending reports whether there are events of an account that were not yet taken.
func (o *Outbox) Pending(ctx context.Context, org id.Org, account id.Account) (bool, error) {
	return db.New(o.db).Pending(ctx, db.PendingParams{OrgID: org, AccountID: account})
}

// ErrTaken means that another node has already taken an event.
var ErrTaken = errors.New("another node has taken the event")

// Backlog returns how many events of all organisations wait, and the age of the oldest, for the metrics.
func (o *Outbox) Backlog(ctx context.Context) (events int64, oldest time.Duration, err error) {
	row, err := db.New(o.db).Backlog(ctx)
	return row.Events, time.Duration(row.OldestSeconds * float64(time.Second)), err
}

// Take deletes events in the transaction that stores them elsewhere. If any of them has already been deleted, it
// returns ErrTaken and the transaction must be rolled back.
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

// settleLimit bounds how many events one call of Settle updates.
const settleLimit = 5000

// Settle assigns a bucket to events that were written by an older version, which did not set one.
func (o *Outbox) Settle(ctx context.Context) error {
	q := db.New(o.db)
	rows, err := q.Homeless(ctx, settleLimit)
	if err != nil {
		return fmt.Errorf("read events without a bucket: %w", err)
	}
	for _, r := range rows {
		if err := q.Settle(ctx, db.SettleParams{Seq: r.Seq, Bucket: bucketOf(r.OrgID, r.AccountID)}); err != nil {
			return fmt.Errorf("assign a bucket to an event: %w", err)
		}
	}
	return nil
}
