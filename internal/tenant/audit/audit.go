// Package audit owns the record of who changed what, one log per org and one for operators.
//
// Record writes an entry in the transaction of the change, so a change without an entry cannot be committed. The
// entries of a log form a chain of hashes with a key from the keyring (chain.go), so that Check finds missing, altered
// and forged entries (verify.go). The heads of the chains are anchored outside the database, so that it also finds a
// chain that was cut short (anchor.go). Keeper does that, and once gives the entries of earlier versions keyed hashes
// (rekey.go). Streamer sends all entries to the operators' own collection of logs (stream.go).
//
// Entries outlive the accounts that they are about, so they hold ids. Personal data of an account, such as its label, is
// sealed with the account's key, and cannot be read once the account is deleted (personal.go).
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// ActorKind is the kind of caller that made a change.
type ActorKind string

// The kinds of actors.
const (
	ActorKey      ActorKind = "key"
	ActorOperator ActorKind = "operator"
	ActorSystem   ActorKind = "system"
	// ActorCreator is a person who uses a connect link.
	ActorCreator ActorKind = "creator"
	// ActorMember is a person who is signed in to the dashboard.
	ActorMember ActorKind = "member"
)

// By identifies who made a change, and in which request.
type By struct {
	Kind  ActorKind
	ID    string
	Label string
	// Action is the action that the API operation declares, such as "key.mint".
	Action  string
	Request id.Request
	// IPHash is a keyed hash of the caller's address. It shows whether two entries have the same source without
	// revealing the address.
	IPHash string
}

// Actor returns who made the change, for an event.
func (b By) Actor() contract.Actor {
	return contract.Actor{Kind: string(b.Kind), ID: b.ID, Label: b.Label}
}

// Change holds the value of one field before and after.
type Change struct {
	From any `json:"from,omitempty"`
	To   any `json:"to,omitempty"`
	// personal is set by Personal.
	personal bool
}

// MarshalJSON formats times as the API does, because API callers read the stored JSON unchanged.
func (c Change) MarshalJSON() ([]byte, error) {
	type plain Change
	return json.Marshal(plain{From: formatTime(c.From), To: formatTime(c.To)})
}

func formatTime(value any) any {
	switch t := value.(type) {
	case time.Time:
		return stamp.Time(t)
	case *time.Time:
		return (*stamp.Time)(t)
	}
	return value
}

// Changes maps the names of changed fields to their values. It must not contain secrets.
type Changes map[string]Change

// Note adds a field if its value has changed. The values must be comparable.
func (c Changes) Note(name string, from, to any) {
	if from != to {
		c[name] = Change{From: from, To: to}
	}
}

// Personal returns a change of a value that is personal data of an account. It is sealed with the account's key
// (personal.go).
func Personal(from, to any) Change { return Change{From: from, To: to, personal: true} }

// NotePersonal is Note for a personal value.
func (c Changes) NotePersonal(name string, from, to any) {
	if from != to {
		c[name] = Personal(from, to)
	}
}

// Entry is one entry of a log.
type Entry struct {
	ID id.Audit
	// Seq numbers the entries of one org from 1, without gaps.
	Seq     int64
	At      time.Time
	By      By
	Target  string
	Changes json.RawMessage
	hash    []byte
	// keyID is empty if the hash has no key.
	keyID string
}

// Log writes and reads the audit logs of all orgs.
type Log struct {
	db     *postgres.DB
	sealer Sealer
	now    func() time.Time
	// key is nil until it has been read, and keyed is false until isKeyed has found that it is true.
	key   atomic.Pointer[chainKey]
	keyed atomic.Bool
}

// New returns a Log that takes the times of entries from now.
func New(db *postgres.DB, sealer Sealer, now func() time.Time) *Log {
	return &Log{db: db, sealer: sealer, now: now}
}

// Record writes an entry in the caller's transaction. It locks the head of the org's chain until the transaction ends,
// so call it as late as possible. If there are personal changes, target must be the account that they belong to.
func (l *Log) Record(ctx context.Context, tx postgres.Tx, org id.Org, by By, target string, changes Changes) error {
	key, err := l.chainKey(ctx)
	if err != nil {
		return err
	}
	stored, err := l.sealPersonal(ctx, org, target, changes)
	if err != nil {
		return err
	}
	text, err := json.Marshal(stored)
	if err != nil {
		return fmt.Errorf("encode audit changes of %s: %w", by.Action, err)
	}
	e := Entry{
		ID: id.New[id.Audit](), By: by, Target: target, Changes: text,
		// The database stores microseconds, and the hash must cover the value that it returns.
		At: l.now().Truncate(time.Microsecond),
	}
	return appendEntry(ctx, tx, key, org, e)
}
