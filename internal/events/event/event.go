// Package event owns the events of accounts and orgs: their names (kinds.go), their final form (envelope.go), and the store that gives
// each a place in the sequence of its source (store.go).
//
// A source is an account, or the org itself for what concerns no account; each has a sequence without holes. Everything that tells
// others of events (streams, webhooks, replays) is a cursor over the store. Records come from the log (record.go) and are committed by
// package ingest; what happens right after a commit is told by live messages (live.go).
package event

import (
	"log/slog"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Buckets is what sources are spread over. It never changes: it is in every row and subject.
const Buckets = id.Buckets

// Bucket is where a source belongs.
func Bucket(source string) int { return id.Bucket(source) }

// Stored is an event in the store.
type Stored struct {
	Org id.Org
	// Source is the account's id, or the org's.
	Source string
	// Seq counts the source's events from 1, without holes. It is 0 for an ephemeral event, which is not stored.
	Seq int64
	At  time.Time
	// Tx is the transaction that stored it.
	Tx   int64
	ID   id.Event
	Kind string
	// Body is the envelope: what is signed and sent.
	Body []byte
}

// Position is where the event stands in its org's stream.
func (s *Stored) Position() Position { return Position{s.Tx, s.ID} }

// Head is where a source stands.
type Head struct {
	LastSeq int64
	LastAt  time.Time
	// Watermark is the platform's id up to which all frames are stored. Known means that it was set once, though it may be empty.
	Watermark string
	Known     bool
	// Epoch is the newest lease of a listener whose records were stored.
	Epoch int64
	// Closed means that the account was disconnected: nothing follows.
	Closed bool
	// Purged means that the account was deleted: what its events said is gone, and nothing of the platform's is stored any more.
	Purged bool
}

// HeadRow is a head and whose it is.
type HeadRow struct {
	Org    id.Org
	Source string
	Head
}

// Deps is what the store needs.
type Deps struct {
	DB  *postgres.DB
	Log *slog.Logger
	Now func() time.Time
}

// Store is the service.
type Store struct {
	Deps
	days *postgres.Days
	// used has rows of earlier commits, whose memory is used again.
	used sync.Pool
}

// New makes the service.
func New(d Deps) *Store { return &Store{Deps: d, days: postgres.NewDays(d.DB, "event", d.Log)} }

// MaxDays is the longest that an event can be read; the plans allow as long or shorter.
const MaxDays = 30

// Since is from when on an org may read, by the limit of its plan. A limit that is not enforced is that of the longest plan.
func Since(now time.Time, days int) time.Time {
	if days < 0 || days > MaxDays {
		days = MaxDays
	}
	return now.AddDate(0, 0, -days)
}
