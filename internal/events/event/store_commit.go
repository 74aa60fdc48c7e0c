package event

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event/internal/db"
)

// ErrFenced means that a newer lease has a bucket: whoever is told must let go of it, and has committed nothing.
var ErrFenced = errors.New("another node has the bucket by now")

// errPurgeBegan means that the events of a source are being purged since its head was loaded. Nothing was committed; the head must be
// loaded again.
var errPurgeBegan = errors.New("a source is being purged; load its head again")

// Progress is how far a bucket of the log was taken over, under which lease.
type Progress struct {
	Bucket int
	Epoch  int64
	// LogEpoch says which log the position belongs to.
	LogEpoch  string
	Committed uint64
	// LastAt is the newest time of an event in the bucket. Those that follow must not be older.
	LastAt time.Time
}

// Claim takes a bucket for a lease, and says where to read on. From now on older leases commit nothing to it.
func (s *Store) Claim(ctx context.Context, bucket int, epoch int64) (Progress, error) {
	row, err := db.New(s.DB.Pool()).Claim(ctx, db.ClaimParams{Bucket: int16(bucket), Epoch: epoch})
	if errors.Is(err, postgres.ErrNoRows) {
		return Progress{}, ErrFenced
	}
	if err != nil {
		return Progress{}, fmt.Errorf("claim bucket %d: %w", bucket, err)
	}
	return Progress{bucket, epoch, row.LogEpoch, uint64(row.Committed), row.LastAt}, nil
}

// Progress is how far a bucket of the log was taken over; nothing if it never was.
func (s *Store) Progress(ctx context.Context, bucket int) (Progress, error) {
	row, err := db.New(s.DB.Pool()).Progress(ctx, int16(bucket))
	if errors.Is(err, postgres.ErrNoRows) {
		return Progress{Bucket: bucket}, nil
	}
	if err != nil {
		return Progress{}, fmt.Errorf("read how far bucket %d is: %w", bucket, err)
	}
	return Progress{Bucket: bucket, LogEpoch: row.LogEpoch, Committed: uint64(row.Committed)}, nil
}

// Recent are marks of a source's last events, oldest first.
type Recent struct {
	HeadRow
	Marks []string
}

// How far back the marks of a source go, in events and in time. What is not within both cannot come again: a repeat is of a frame behind
// the watermark, which is seconds old when the last one is stored.
const (
	MaxMarks   = 1024
	marksSince = time.Hour
)

// Load reads where sources stand, with what tells repeats of their last events. A source that has no row is not among them.
func (s *Store) Load(ctx context.Context, sources []string) ([]Recent, error) {
	q := db.New(s.DB.Pool())
	rows, err := q.HeadsOf(ctx, sources)
	if err != nil {
		return nil, fmt.Errorf("read where %d sources stand: %w", len(sources), err)
	}
	p, at := db.RecentParams{}, map[string]int{}
	list := make([]Recent, len(rows))
	for i, row := range headsOf(rows) {
		list[i], at[row.Source] = Recent{HeadRow: row}, i
		if row.LastSeq == 0 {
			continue
		}
		p.Sources = append(p.Sources, row.Source)
		p.Seqs = append(p.Seqs, row.LastSeq-MaxMarks)
		p.Since = append(p.Since, row.LastAt.Add(-marksSince))
	}
	if len(p.Sources) == 0 {
		return list, nil
	}
	marks, err := q.Recent(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("read the last events of %d sources: %w", len(p.Sources), err)
	}
	for _, m := range marks {
		i := at[m.Source]
		list[i].Marks = append(list[i].Marks, platformID(m.UpstreamID))
	}
	return list, nil
}

// NewEvent is an event to be stored. Its sequence number and its envelope are made.
type NewEvent struct {
	Stored
	// Mark tells a repeat of it; empty for an event of our own.
	Mark string
}

// Batch is what is committed together: events of many sources, where their heads are then, how far their buckets' log is taken over.
type Batch struct {
	Events  []NewEvent
	Heads   []HeadRow
	Buckets []Progress
	// Also is done in the same transaction; nil for nothing.
	Also func(ctx context.Context, tx postgres.Tx) error
}

const (
	copyStatement = `COPY event (at, seq, org_id, source, id, kind, upstream_id, body) FROM STDIN (FORMAT binary)`
	copyColumns   = 8
)

// Commit stores a batch, all or nothing, and says in which transaction. It fails with ErrFenced if one of the buckets has a newer lease.
// After postgres.ErrOutcomeUnknown whoever called must Claim its buckets again to learn what holds.
func (s *Store) Commit(ctx context.Context, b *Batch) (stored int64, err error) {
	rows, ok := s.used.Get().(*postgres.Rows)
	if !ok {
		rows = &postgres.Rows{}
	}
	rows.Reset()
	for i := range b.Events {
		e := &b.Events[i]
		rows.Row(copyColumns)
		rows.Time(e.At)
		rows.Int64(e.Seq)
		rows.Text(string(e.Org))
		rows.Text(e.Source)
		rows.Text(string(e.ID))
		rows.Text(e.Kind)
		rows.Text(storable(e.Mark))
		rows.Bytes(e.Body)
	}
	err = s.commit(ctx, b, rows, &stored)
	if postgres.MissingDay(err) {
		days := make([]postgres.Day, len(b.Events))
		for i := range b.Events {
			days[i] = postgres.DayOf(b.Events[i].At)
		}
		if err := s.days.Make(ctx, days...); err != nil {
			return 0, err
		}
		err = s.commit(ctx, b, rows, &stored)
	}
	if err == nil { // otherwise somebody may still be sending them
		s.used.Put(rows)
	}
	return stored, err
}

func (s *Store) commit(ctx context.Context, b *Batch, rows *postgres.Rows, stored *int64) error {
	return s.DB.Tx(ctx, func(tx postgres.Tx) error {
		q := db.New(tx)
		if err := advance(ctx, q, b.Buckets); err != nil {
			return err
		}
		if b.Also != nil {
			if err := b.Also(ctx, tx); err != nil {
				return err
			}
		}
		if len(b.Heads) > 0 {
			saved, err := q.SaveHeads(ctx, headParams(b.Heads))
			if err != nil {
				return fmt.Errorf("save heads: %w", err)
			}
			if int(saved) != len(b.Heads) {
				return errPurgeBegan
			}
		}
		if rows.Len() == 0 {
			return nil
		}
		if err := rows.Send(ctx, tx.Conn(), copyStatement); err != nil {
			return err
		}
		number, err := q.Transaction(ctx)
		*stored = number
		return err
	})
}

func advance(ctx context.Context, q *db.Queries, buckets []Progress) error {
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
	n, err := q.Advance(ctx, p)
	if err != nil {
		return fmt.Errorf("advance buckets: %w", err)
	}
	if int(n) != len(buckets) {
		return ErrFenced
	}
	return nil
}

func headParams(heads []HeadRow) db.SaveHeadsParams {
	n := len(heads)
	p := db.SaveHeadsParams{
		OrgIds: make([]string, n), Sources: make([]string, n), Buckets: make([]int16, n), Seqs: make([]int64, n), Ats: make([]time.Time, n),
		Watermarks: make([]string, n), Epochs: make([]int64, n), Closes: make([]bool, n), Purges: make([]int64, n),
	}
	for i := range heads {
		h := &heads[i]
		p.OrgIds[i], p.Sources[i], p.Buckets[i] = string(h.Org), h.Source, int16(Bucket(h.Source))
		p.Seqs[i], p.Ats[i], p.Watermarks[i], p.Epochs[i] = h.LastSeq, h.LastAt, storable(h.Watermark), h.Epoch
		if p.Closes[i], p.Purges[i] = h.Closed, -1; h.Purged { // -1 is null
			p.Purges[i] = 0
		}
	}
	return p
}
