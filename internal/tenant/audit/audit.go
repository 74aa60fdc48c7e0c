// Package audit owns the record of who changed what.
//
// An entry is written in the transaction of the change it tells of: no entry, no change. The entries of one org form
// a chain of hashes, so that one that is missing or altered shows (chain.go).
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// ActorKind says what sort of caller acted.
type ActorKind string

// The kinds of actor.
const (
	ActorKey      ActorKind = "key"
	ActorOperator ActorKind = "operator"
	ActorSystem   ActorKind = "system"
	// ActorCreator is whoever has the link of a page of ours.
	ActorCreator ActorKind = "creator"
	// ActorMember is a person who has signed in to the dashboard.
	ActorMember ActorKind = "member"
)

// By is who acts, and in which request. Action is the one that the route declares.
type By struct {
	Kind    ActorKind
	ID      string
	Label   string
	Action  string
	Request id.Request
	// IPHash is a keyed hash of the address, so that two entries can be told apart but no address read.
	IPHash string
}

// Change is one field before and after.
type Change struct {
	From any `json:"from,omitempty"`
	To   any `json:"to,omitempty"`
}

// MarshalJSON writes the change with its times in the form of the wire: callers read what is stored.
func (c Change) MarshalJSON() ([]byte, error) {
	type plain Change
	return json.Marshal(plain{stamped(c.From), stamped(c.To)})
}

func stamped(value any) any {
	switch t := value.(type) {
	case time.Time:
		return stamp.Time(t)
	case *time.Time:
		return (*stamp.Time)(t)
	}
	return value
}

// Changes are the fields that differ. No secret may be put here.
type Changes map[string]Change

// Note adds a field if it differs. The values must be comparable.
func (c Changes) Note(name string, from, to any) {
	if from != to {
		c[name] = Change{From: from, To: to}
	}
}

// Entry is one line of the log.
type Entry struct {
	ID      id.Audit
	Seq     int64
	At      time.Time
	By      By
	Target  string
	Changes json.RawMessage
	hash    []byte
}

// Log is the service.
type Log struct {
	db  *postgres.DB
	now func() time.Time
}

// New makes the service.
func New(db *postgres.DB, now func() time.Time) *Log { return &Log{db: db, now: now} }

// Record writes an entry. It locks the end of the org's chain until the transaction ends, so call it late.
func (l *Log) Record(ctx context.Context, tx postgres.Tx, org id.Org, by By, target string, changes Changes) error {
	text, err := json.Marshal(changes)
	if err != nil {
		return fmt.Errorf("encode audit changes of %s: %w", by.Action, err)
	}
	e := Entry{
		ID: id.New[id.Audit](), By: by, Target: target, Changes: text,
		// The database keeps microseconds; the hash must cover what it gives back.
		At: l.now().Truncate(time.Microsecond),
	}
	return appendEntry(ctx, tx, org, e)
}

// Page lists entries from the newest, before a sequence number; 0 starts at the end.
func (l *Log) Page(ctx context.Context, org id.Org, before int64, limit int) ([]Entry, error) {
	return page(ctx, l.db.Pool(), org, before, limit)
}

// PageOf is Page for the entries about one target, such as an account.
func (l *Log) PageOf(ctx context.Context, org id.Org, target string, before int64, limit int) ([]Entry, error) {
	return pageOf(ctx, l.db.Pool(), org, target, before, limit)
}
