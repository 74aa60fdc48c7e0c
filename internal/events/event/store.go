package event

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event/internal/db"
)

// After lists a source's events behind a sequence number, oldest first. since is from when on the org may read.
func (s *Store) After(ctx context.Context, org id.Org, source string, seq int64, since time.Time, limit int) ([]Stored, error) {
	q := db.New(s.DB.Pool())
	near, err := q.Next(ctx, db.NextParams{OrgID: org, Source: source, After: seq, Until: seq + int64(limit), Since: since})
	if err != nil {
		return nil, fmt.Errorf("read events of %s: %w", source, err)
	}
	list := make([]Stored, 0, len(near))
	for _, r := range near {
		list = append(list, storedOf(db.AfterRow(r)))
	}
	if len(list) == limit {
		return list, nil
	}
	head, err := s.Head(ctx, org, source)
	if err != nil || head.LastSeq <= seq+int64(len(list)) {
		return list, err
	}
	// The oldest may not be read any more, or others have come just now.
	rows, err := q.After(ctx, db.AfterParams{OrgID: org, Source: source, After: seq, Since: since, MaxRows: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("read events of %s: %w", source, err)
	}
	list = list[:0]
	for _, r := range rows {
		list = append(list, storedOf(r))
	}
	return list, nil
}

func storedOf(r db.AfterRow) Stored {
	return Stored{Org: r.OrgID, Source: r.Source, Seq: r.Seq, At: r.At, Tx: r.Tx, ID: id.Event(r.ID), Kind: r.Kind, Body: r.Body}
}

// OrgAfter lists an org's events behind a position, in the order in which they were stored; those of one source are in its order. What
// is stored later is never before what was listed. reached is where the next page begins.
func (s *Store) OrgAfter(ctx context.Context, org id.Org, p Position, since time.Time, limit int) (list []Stored, reached Position, err error) {
	rows, err := db.New(s.DB.Pool()).OrgAfter(ctx, db.OrgAfterParams{OrgID: org, AfterTx: p.Tx, AfterID: string(p.ID), Since: since, MaxRows: int32(limit)})
	if err != nil {
		return nil, p, fmt.Errorf("read events of %s: %w", org, err)
	}
	list = make([]Stored, len(rows))
	for i, r := range rows {
		list[i] = storedOf(db.AfterRow(r))
	}
	if len(list) > 0 {
		p = list[len(list)-1].Position()
	}
	return list, p, nil
}

// OrgHead is a position behind everything that OrgAfter would list now.
func (s *Store) OrgHead(ctx context.Context, _ id.Org) (Position, error) {
	horizon, err := db.New(s.DB.Pool()).Horizon(ctx)
	if err != nil {
		return Position{}, fmt.Errorf("read where events end: %w", err)
	}
	return Position{Tx: horizon}, nil
}

// Head is where a source stands; zero if it has no event yet.
func (s *Store) Head(ctx context.Context, org id.Org, source string) (Head, error) {
	row, err := db.New(s.DB.Pool()).Head(ctx, db.HeadParams{OrgID: org, Source: source})
	if errors.Is(err, postgres.ErrNoRows) {
		return Head{}, nil
	}
	if err != nil {
		return Head{}, fmt.Errorf("read where %s stands: %w", source, err)
	}
	return headOf(&row).Head, nil
}

// HeadsAmong is where sources of an org stand. Those without an event are left out.
func (s *Store) HeadsAmong(ctx context.Context, org id.Org, sources []string) (map[string]Head, error) {
	rows, err := db.New(s.DB.Pool()).HeadsAmong(ctx, db.HeadsAmongParams{OrgID: org, Sources: sources})
	if err != nil {
		return nil, fmt.Errorf("read where %d sources of %s stand: %w", len(sources), org, err)
	}
	heads := make(map[string]Head, len(rows))
	for _, row := range headsOf(rows) {
		heads[row.Source] = row.Head
	}
	return heads, nil
}

// OldestBehind is when the first event behind a place of each source was stored. behind has the sequence numbers, since is from when on
// events are looked for. A source without such an event is left out.
func (s *Store) OldestBehind(ctx context.Context, org id.Org, behind map[string]int64, since time.Time) (map[string]time.Time, error) {
	if len(behind) == 0 {
		return map[string]time.Time{}, nil
	}
	p := db.OldestBehindParams{OrgID: org, Since: since}
	for source, seq := range behind {
		p.Sources, p.Seqs = append(p.Sources, source), append(p.Seqs, seq)
	}
	rows, err := db.New(s.DB.Pool()).OldestBehind(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("read the oldest events of %d sources: %w", len(behind), err)
	}
	oldest := make(map[string]time.Time, len(rows))
	for _, row := range rows {
		oldest[row.Source] = row.At
	}
	return oldest, nil
}

// Heads lists the sources of a bucket that have events newer than a time.
func (s *Store) Heads(ctx context.Context, bucket int, changedAfter time.Time) ([]HeadRow, error) {
	rows, err := db.New(s.DB.Pool()).HeadsChanged(ctx, db.HeadsChangedParams{Bucket: int16(bucket), ChangedAfter: changedAfter})
	if err != nil {
		return nil, fmt.Errorf("read where bucket %d stands: %w", bucket, err)
	}
	return headsOf(rows), nil
}

func headsOf(rows []db.EventSource) []HeadRow {
	list := make([]HeadRow, len(rows))
	for i := range rows {
		list[i] = headOf(&rows[i])
	}
	return list
}

func headOf(r *db.EventSource) HeadRow {
	return HeadRow{r.OrgID, r.Source, Head{
		LastSeq: r.LastSeq, LastAt: r.LastAt, Watermark: platformID(r.Watermark.String), Known: r.Watermark.Valid, Epoch: r.Epoch, Closed: r.Closed, Purged: r.PurgedSeq.Valid,
	}}
}

// SetWatermark says from where on a source's frames are wanted. One that has a watermark keeps it.
func (s *Store) SetWatermark(ctx context.Context, org id.Org, source, watermark string) error {
	return s.setWatermark(ctx, s.DB.Pool(), org, source, watermark)
}

// SetWatermarkIn is SetWatermark within a transaction.
func (s *Store) SetWatermarkIn(ctx context.Context, tx postgres.Tx, org id.Org, source, watermark string) error {
	return s.setWatermark(ctx, tx, org, source, watermark)
}

func (s *Store) setWatermark(ctx context.Context, q db.DBTX, org id.Org, source, watermark string) error {
	err := db.New(q).SetWatermark(ctx, db.SetWatermarkParams{
		OrgID: org, Source: source, Bucket: int16(Bucket(source)), At: s.Now(), Watermark: pgtype.Text{String: storable(watermark), Valid: true},
	})
	if err != nil {
		return fmt.Errorf("set where %s begins: %w", source, err)
	}
	return nil
}

// Oldest is the lowest sequence number of a source that is still there; one more than its last if none is.
func (s *Store) Oldest(ctx context.Context, org id.Org, source string, since time.Time) (int64, error) {
	seq, err := db.New(s.DB.Pool()).Oldest(ctx, db.OldestParams{OrgID: org, Source: source, Since: since})
	if err != nil {
		return 0, fmt.Errorf("read the oldest event of %s: %w", source, err)
	}
	return seq, nil
}

// idSpread is how far the time in an event's id may be from when it was stored.
const idSpread = 10 * time.Minute

// Find reads one event of a source, or says event-not-found.
func (s *Store) Find(ctx context.Context, org id.Org, source string, event id.Event) (Stored, error) {
	made := id.MadeAt(event)
	r, err := db.New(s.DB.Pool()).Find(ctx, db.FindParams{
		OrgID: org, Source: source, ID: string(event), Since: made.Add(-idSpread), Until: made.Add(idSpread),
	})
	if errors.Is(err, postgres.ErrNoRows) {
		return Stored{}, problem.EventNotFound.New("The account has no event with this id.")
	}
	if err != nil {
		return Stored{}, fmt.Errorf("read an event of %s: %w", source, err)
	}
	return storedOf(db.AfterRow(r)), nil
}

// SeqAt is the last sequence number that a source had at a time; 0 if none that is still there.
func (s *Store) SeqAt(ctx context.Context, org id.Org, source string, at time.Time) (int64, error) {
	seq, err := db.New(s.DB.Pool()).SeqAt(ctx, db.SeqAtParams{OrgID: org, Source: source, At: at})
	if err != nil {
		return 0, fmt.Errorf("read where %s stood: %w", source, err)
	}
	return seq, nil
}

// Time is what the database's clock says. Events are dated by it.
func (s *Store) Time(ctx context.Context) (time.Time, error) { return s.DB.Now(ctx, s.DB.Pool()) }

// Days that partitions are made back and ahead: a node may be down at midnight.
const (
	daysBack  = 1
	daysAhead = 2
)

// Upkeep makes and drops partitions.
func (s *Store) Upkeep(ctx context.Context) error {
	_, err := s.days.Upkeep(ctx, daysBack, daysAhead, MaxDays+1)
	return err
}
