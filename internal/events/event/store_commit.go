package event

import (
	"context"
	"errors"
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event/internal/db"
)

// ErrFenced means that a bucket has been claimed with a newer lease, or that the database was restored or failed over
// since the lease was taken. The caller must give the bucket up. Nothing was committed.
var ErrFenced = errors.New("another node has claimed the bucket")

// errPurgeStarted means that a purge of a source has started after its head was loaded. Nothing was committed; load the
// head again.
var errPurgeStarted = errors.New("a source is being purged; load its head again")

// Progress is how far a bucket of the log has been committed, and under which lease.
type Progress struct {
	Bucket int
	Epoch  int64
	// LogEpoch identifies the log that Committed is a position in.
	LogEpoch string
	// Committed is the position of the last entry whose records are in the store.
	Committed uint64
	// LastAt is the newest time of an event in the bucket. Later events must not be older.
	LastAt time.Time
}

// Claim claims a bucket for a lease and returns where to continue reading. Afterwards holders of older leases cannot
// commit to it. It fails with ErrFenced if a newer lease has claimed it, or if the lease is older than the current
// generation of the database.
func (s *Store) Claim(ctx context.Context, bucket int, epoch int64) (Progress, error) {
	row, err := db.New(s.deps.DB).Claim(ctx, db.ClaimParams{Bucket: int16(bucket), Epoch: epoch})
	if errors.Is(err, postgres.ErrNoRows) {
		return Progress{}, ErrFenced
	}
	return Progress{bucket, epoch, row.LogEpoch, uint64(row.Committed), row.LastAt}, err
}

// Progress returns how far a bucket of the log has been committed; zero if it never was.
func (s *Store) Progress(ctx context.Context, bucket int) (Progress, error) {
	row, err := db.New(s.deps.DB).Progress(ctx, int16(bucket))
	if errors.Is(err, postgres.ErrNoRows) {
		err = nil
	}
	return Progress{Bucket: bucket, LogEpoch: row.LogEpoch, Committed: uint64(row.Committed)}, err
}

// AllProgress returns the progress of all buckets that were ever claimed.
func (s *Store) AllProgress(ctx context.Context) ([]Progress, error) {
	rows, err := db.New(s.deps.DB).AllProgress(ctx)
	return postgres.Convert(rows, func(r db.AllProgressRow) Progress {
		return Progress{Bucket: int(r.Bucket), LogEpoch: r.LogEpoch, Committed: uint64(r.Committed)}
	}), err
}

// Recent is a head with the dedup keys of the source's last events, oldest first.
type Recent struct {
	HeadRow
	DedupKeys []string
}

// MaxDedupKeys and dedupWindow bound how far back the dedup keys of a Recent go, in events and in time before the last
// event. Nearly all repeats are of these frames, because a listener that takes over fetches frames from a watermark that
// is seconds old. StoredKeys finds older ones.
const (
	MaxDedupKeys = 1024
	dedupWindow  = time.Hour
)

// Load reads the heads of sources with their dedup keys. Sources without a row are not in the result.
func (s *Store) Load(ctx context.Context, sources []string) ([]Recent, error) {
	q := db.New(s.deps.DB)
	rows, err := q.HeadsOf(ctx, sources)
	if err != nil {
		return nil, err
	}
	p, at := db.RecentParams{}, map[string]int{}
	list := make([]Recent, len(rows))
	for i, row := range postgres.Convert(rows, headFromRow) {
		list[i], at[row.Source] = Recent{HeadRow: row}, i
		if row.LastSeq == 0 {
			continue
		}
		p.Sources = append(p.Sources, row.Source)
		p.Seqs = append(p.Seqs, row.LastSeq-MaxDedupKeys)
		p.Since = append(p.Since, row.LastAt.Add(-dedupWindow))
	}
	if len(p.Sources) == 0 {
		return list, nil
	}
	marks, err := q.Recent(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, m := range marks {
		i := at[m.Source]
		list[i].DedupKeys = append(list[i].DedupKeys, platformID(m.UpstreamID))
	}
	return list, nil
}

// FrameKey identifies a frame of a source by its dedup key.
type FrameKey struct{ Source, DedupKey string }

// maxClockLead is how far the clock of a platform may be ahead: no frame is stored earlier than that before its time.
const maxClockLead = 24 * time.Hour

// StoredKeys returns which of the given frames are in the store, however old they are. at has their times by the
// platform's clock; zero if unknown, which makes the lookup slower.
func (s *Store) StoredKeys(ctx context.Context, keys []FrameKey, at []time.Time) (map[FrameKey]bool, error) {
	n := len(keys)
	p := db.StoredKeysParams{Sources: make([]string, n), UpstreamIds: make([]string, n), Since: make([]time.Time, n)}
	for i, key := range keys {
		p.Sources[i], p.UpstreamIds[i], p.Since[i] = key.Source, storable(key.DedupKey), time.Unix(0, 0)
		if !at[i].IsZero() {
			p.Since[i] = at[i].Add(-maxClockLead)
		}
	}
	rows, err := db.New(s.deps.DB).StoredKeys(ctx, p)
	if err != nil {
		return nil, err
	}
	stored := make(map[FrameKey]bool, len(rows))
	for _, row := range rows {
		stored[FrameKey{row.Source, platformID(row.UpstreamID)}] = true
	}
	return stored, nil
}

// NewEvent is an event to store, with its sequence number and envelope.
type NewEvent struct {
	Stored
	// DedupKey identifies repeats of the same frame; empty for an event of the service itself.
	DedupKey string
	// Sandbox is the flag in the envelope's meta.
	Sandbox bool
	// UpstreamAt is when it happened by the platform's clock; zero if unknown.
	UpstreamAt time.Time
}

// Batch is committed in one transaction: events of many sources, the new heads of the sources, and the progress of the
// buckets.
type Batch struct {
	Events  []NewEvent
	Heads   []HeadRow
	Buckets []Progress
	// Bury are records that could not be stored, Letters the ids of requeued ones that the batch has dealt with.
	Bury    []Letter
	Letters []int64
	// Also runs in the same transaction; may be nil.
	Also func(ctx context.Context, tx postgres.Tx) error
}

const (
	copyColumns     = "(at, seq, tx, org_id, source, id, kind, upstream_id, body)"
	copyColumnCount = 9
)

// Commit stores a batch atomically and returns the events' position in the streams of orgs (Stored.Tx). It fails with
// ErrFenced if one of the buckets has a newer lease, or the lease is older than the current generation of the database.
// After postgres.ErrOutcomeUnknown the caller must Claim its buckets again to learn whether the batch was committed.
func (s *Store) Commit(ctx context.Context, b *Batch) (stored int64, err error) {
	bodies, err := s.sealBodies(ctx, b.Events)
	if err != nil {
		return 0, err
	}
	rows, ok := s.rowBuffers.Get().(*postgres.Rows)
	if !ok {
		rows = &postgres.Rows{}
	}
	rows.Reset()
	err = s.commit(ctx, b, bodies, rows, &stored)
	if postgres.MissingDay(err) {
		days := make([]postgres.Day, len(b.Events))
		for i := range b.Events {
			days[i] = postgres.DayOf(b.Events[i].At)
		}
		if err := s.days.Make(ctx, days...); err != nil {
			return 0, err
		}
		err = s.commit(ctx, b, bodies, rows, &stored)
	}
	if err == nil { // after a failure the buffer may still be in use
		s.rowBuffers.Put(rows)
	}
	return stored, err
}

func (s *Store) commit(ctx context.Context, b *Batch, bodies [][]byte, rows *postgres.Rows, stored *int64) error {
	return s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		q := db.New(tx)
		position, err := advanceBuckets(ctx, q, b.Buckets)
		if err != nil {
			return err
		}
		*stored = position
		if b.Also != nil {
			if err := b.Also(ctx, tx); err != nil {
				return err
			}
		}
		if err := bury(ctx, q, b); err != nil {
			return err
		}
		if len(b.Heads) > 0 {
			saved, err := q.SaveHeads(ctx, headParams(b.Heads))
			if err != nil {
				return err
			}
			if int(saved) != len(b.Heads) {
				return errPurgeStarted
			}
		}
		if len(b.Events) == 0 {
			return nil
		}
		if rows.Len() > 0 {
			*rows = postgres.Rows{} // a try before this one failed, and its buffer may still be in use
		}
		for i := range b.Events {
			b.Events[i].appendRow(rows, position, bodies[i])
		}
		return rows.Send(ctx, tx, "event", copyColumns)
	})
}

// appendRow appends the event as a row of copyColumns.
func (e *NewEvent) appendRow(to *postgres.Rows, tx int64, body []byte) {
	to.Row(e.At, copyColumnCount)
	to.Int64(e.Seq)
	to.Int64(tx)
	to.Text(string(e.Org))
	to.Text(e.Source)
	to.Text(string(e.ID))
	to.Text(e.Kind)
	to.Text(storable(e.DedupKey))
	to.Bytes(body)
}

// advanceBuckets writes the progress of buckets and returns the position of the transaction's events. The update
// matches only rows with the same lease epoch, and no epoch of an earlier generation of the database, which fences off
// older leases.
func advanceBuckets(ctx context.Context, q *db.Queries, buckets []Progress) (position int64, err error) {
	p := db.AdvanceParams{At: time.Unix(0, 0)}
	for _, b := range buckets {
		if b.LastAt.After(p.At) {
			p.At = b.LastAt
		}
		p.Buckets = append(p.Buckets, int16(b.Bucket))
		p.Epochs = append(p.Epochs, b.Epoch)
		p.LogEpochs = append(p.LogEpochs, b.LogEpoch)
		p.Positions = append(p.Positions, int64(b.Committed))
	}
	row, err := q.Advance(ctx, p)
	if err != nil {
		return 0, err
	}
	if int(row.Moved) != len(buckets) || row.Tx == 0 {
		return 0, ErrFenced
	}
	return row.Tx, nil
}

func headParams(heads []HeadRow) db.SaveHeadsParams {
	n := len(heads)
	p := db.SaveHeadsParams{
		OrgIds: make([]string, n), Sources: make([]string, n), Buckets: make([]int16, n), Seqs: make([]int64, n), Ats: make([]time.Time, n),
		Watermarks: make([]string, n), Epochs: make([]int64, n), Closes: make([]bool, n), Purges: make([]int64, n),
		NewestFrames: make([]time.Time, n),
	}
	for i := range heads {
		h := &heads[i]
		p.OrgIds[i], p.Sources[i], p.Buckets[i] = string(h.Org), h.Source, int16(Bucket(h.Source))
		p.Seqs[i], p.Ats[i], p.Watermarks[i], p.Epochs[i] = h.LastSeq, h.LastAt, storable(h.Watermark), h.Epoch
		if p.Closes[i], p.Purges[i] = h.Closed, -1; h.Purged { // -1 is null
			p.Purges[i] = 0
		}
		if p.NewestFrames[i] = h.NewestFrameAt; h.NewestFrameAt.IsZero() {
			p.NewestFrames[i] = time.Unix(0, 0) // null
		}
	}
	return p
}
