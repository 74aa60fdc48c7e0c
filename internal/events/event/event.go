// Package event owns the events of accounts and orgs: their kinds (kinds.go), their final bytes (envelope.go), and the
// store that keeps them in one sequence per source (store.go). It does not fill the store (package ingest) and does not
// deliver events (group delivery).
//
// A source is an account, or the org itself for events that concern no account. Its sequence numbers start at 1 and
// have no holes. Streams, webhooks and replays are cursors over the store. Listeners write records to the event log
// (record.go), ingest commits them as events (store_commit.go), and after a commit live messages carry the events to
// streams (live.go).
package event

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Buckets is the number of partitions of sources. It never changes, because buckets are stored in rows and are part of
// subjects.
const Buckets = id.Buckets

// Bucket returns the bucket of a source, from 0 to Buckets-1.
func Bucket(source string) int { return id.Bucket(source) }

// Stored is an event in the store.
type Stored struct {
	Org id.Org
	// Source is the id of the account or of the org.
	Source string
	// Seq counts the source's events from 1, without holes. It is 0 for an ephemeral event, which is not stored.
	Seq int64
	At  time.Time
	// Tx is the generation and the number of the transaction that stored it; it orders an org's events.
	Tx   int64
	ID   id.Event
	Kind string
	// Body is the envelope: the bytes that are signed and sent. In the database it is sealed (sealed.go).
	Body []byte
	// Trace is the context of the trace in which it was stored. It is not in the database; nil for an event that was read
	// from there.
	Trace *trace.SpanContext
}

// Position returns the event's position in its org's stream.
func (s *Stored) Position() Position { return Position{s.Tx, s.ID} }

// SourcePosition returns the event's position in its account's stream.
func (s *Stored) SourcePosition() Position {
	return Position{Tx: Position{Tx: s.Tx}.Generation()<<generationShift | s.Seq}
}

// Head is the state of a source.
type Head struct {
	LastSeq int64
	LastAt  time.Time
	// Watermark is the platform's id of a frame up to which all frames are stored. Known means that it has been set; it
	// may still be empty.
	Watermark string
	Known     bool
	// Epoch is the newest lease epoch of a listener whose records were stored.
	Epoch int64
	// NewestFrameAt is the newest time, by the platform's clock, of a frame that is stored; zero if there is none.
	NewestFrameAt time.Time
	// Closed means that the account was disconnected: no event follows.
	Closed bool
	// Purged means that the data of the account's events is being or has been deleted. Frames of the platform are no
	// longer stored.
	Purged bool
}

// HeadRow is a head with its source.
type HeadRow struct {
	Org    id.Org
	Source string
	Head
}

// Deps holds the dependencies of Store.
type Deps struct {
	DB     *postgres.DB
	Sealer Sealer
	// Seals reports whether all nodes can read sealed events. Until then events are stored in the clear, for the nodes of
	// the version before.
	Seals func() bool
	Log   *slog.Logger
	Now   func() time.Time
}

// Store reads and writes events. It is safe for concurrent use.
type Store struct {
	deps Deps
	days *postgres.Days
	// rowBuffers holds *postgres.Rows of earlier commits for reuse.
	rowBuffers sync.Pool
	// loaded has the generations of the database; nil until there is more than one.
	loaded atomic.Pointer[Generations]
}

// New returns a store.
func New(d Deps) *Store { return &Store{deps: d, days: postgres.NewDays(d.DB, "event", d.Log)} }
