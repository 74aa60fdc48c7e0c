package event

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event/internal/db"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// After lists at most limit events of a source after a sequence number, oldest first. since is the time from which the
// org may read. Most calls need one query over exactly the next limit numbers; only if that returns fewer although the
// source has more, because the oldest have expired or new ones have just arrived, a second query follows.
func (s *Store) After(ctx context.Context, org id.Org, source string, seq int64, since time.Time, limit int) ([]Stored, error) {
	q := db.New(s.deps.DB)
	near, err := q.Next(ctx, db.NextParams{OrgID: org, Source: source, After: seq, Until: seq + int64(limit), Since: since})
	list := postgres.Convert(near, func(r db.NextRow) Stored { return storedRow(r).stored() })
	if err == nil && len(list) < limit {
		var head Head
		if head, err = s.Head(ctx, org, source); err == nil && head.LastSeq > seq+int64(len(list)) {
			var rows []db.AfterRow
			rows, err = q.After(ctx, db.AfterParams{OrgID: org, Source: source, After: seq, Since: since, MaxRows: int32(limit)})
			list = postgres.Convert(rows, func(r db.AfterRow) Stored { return storedRow(r).stored() })
		}
	}
	if err == nil {
		err = s.openBodies(ctx, list)
	}
	return list, err
}

// OrgAfter lists an org's events after a position, in the order in which they were stored; events of one source are in
// the order of its sequence. An event that is stored later never sorts before one that was listed: events of a
// transaction are hidden until no older transaction is running. reached is the position for the next page.
func (s *Store) OrgAfter(ctx context.Context, org id.Org, p Position, since time.Time, limit int) (list []Stored, reached Position, err error) {
	rows, err := db.New(s.deps.DB).OrgAfter(ctx, db.OrgAfterParams{
		OrgID: org, AfterTx: p.Tx, AfterID: p.ID, Since: since, MaxRows: int32(limit),
	})
	list = postgres.Convert(rows, func(r db.OrgAfterRow) Stored { return storedRow(r).stored() })
	if len(list) > 0 {
		p = list[len(list)-1].Position()
	}
	if err == nil {
		err = s.openBodies(ctx, list)
	}
	if err == nil {
		err = s.know(ctx, p.Tx)
	}
	return list, p, err
}

// OrgHead returns the position after everything that OrgAfter would list now.
func (s *Store) OrgHead(ctx context.Context, _ id.Org) (Position, error) {
	horizon, err := db.New(s.deps.DB).Horizon(ctx)
	if err == nil {
		err = s.know(ctx, horizon)
	}
	return Position{Tx: horizon}, err
}

// SourceHead returns the position of a source's last event in the source's stream.
func (s *Store) SourceHead(ctx context.Context, org id.Org, source string) (Position, error) {
	row, err := db.New(s.deps.DB).LastPosition(ctx, db.LastPositionParams{OrgID: org, Source: source})
	if errors.Is(err, postgres.ErrNoRows) {
		err = nil
	}
	if err == nil {
		err = s.know(ctx, row.Tx)
	}
	last := Stored{Seq: row.LastSeq, Tx: row.Tx}
	return last.SourcePosition(), err
}

// SourcePage is which events SourceAfter lists: at most Limit events after a position.
type SourcePage struct {
	After Position
	// Newest is the newest generation that the caller has heard of.
	Newest int64
	// Since is the time from which the org may read.
	Since time.Time
	Limit int
}

// SourceAfter lists events of a source after a position, like After. If the position is after the end of its
// generation, because the database has lost what followed, it lists from that end: the numbers that were lost have been
// given to other events.
func (s *Store) SourceAfter(ctx context.Context, org id.Org, source string, page SourcePage) ([]Stored, error) {
	p, newest, since, limit := page.After, page.Newest, page.Since, page.Limit
	list, err := s.After(ctx, org, source, p.Number(), since, limit)
	if len(list) > 0 {
		newest = max(newest, list[0].Position().Generation())
	}
	if err == nil && p.Generation() < newest {
		last, findErr := db.New(s.deps.DB).LastBefore(ctx, db.LastBeforeParams{
			OrgID: org, Source: source, Seq: p.Number(), BeforeTx: (p.Generation() + 1) << generationShift, Since: since,
		})
		if errors.Is(findErr, postgres.ErrNoRows) { // all of them have expired
			last, findErr = 0, nil
		}
		if err = findErr; err == nil && last < p.Number() {
			list, err = s.After(ctx, org, source, last, since, limit)
		}
	}
	if err == nil && len(list) > 0 {
		err = s.know(ctx, list[len(list)-1].Tx)
	}
	return list, err
}

// Head returns the state of a source; zero if it has no row yet.
func (s *Store) Head(ctx context.Context, org id.Org, source string) (Head, error) {
	row, err := db.New(s.deps.DB).Head(ctx, db.HeadParams{OrgID: org, Source: source})
	if errors.Is(err, postgres.ErrNoRows) {
		return Head{}, nil
	}
	return headFromRow(row).Head, err
}

// HeadsAmong returns the heads of sources of an org. Sources without a row are not in the result.
func (s *Store) HeadsAmong(ctx context.Context, org id.Org, sources []string) (map[string]Head, error) {
	rows, err := db.New(s.deps.DB).HeadsAmong(ctx, db.HeadsAmongParams{OrgID: org, Sources: sources})
	if err != nil {
		return nil, err
	}
	heads := make(map[string]Head, len(rows))
	for _, row := range rows {
		heads[row.Source] = headFromRow(row).Head
	}
	return heads, nil
}

// OldestBehind returns, for each source, when the first event after a sequence number was stored. behind maps sources
// to sequence numbers. Events before since are ignored, and sources without a matching event are not in the result.
func (s *Store) OldestBehind(ctx context.Context, org id.Org, behind map[string]int64, since time.Time) (map[string]time.Time, error) {
	if len(behind) == 0 {
		return map[string]time.Time{}, nil
	}
	p := db.OldestBehindParams{OrgID: org, Since: since}
	for source, seq := range behind {
		p.Sources, p.Seqs = append(p.Sources, source), append(p.Seqs, seq)
	}
	rows, err := db.New(s.deps.DB).OldestBehind(ctx, p)
	if err != nil {
		return nil, err
	}
	oldest := make(map[string]time.Time, len(rows))
	for _, row := range rows {
		oldest[row.Source] = row.At
	}
	return oldest, nil
}

// Waiting says how many events of a kind and source are after a position, and when the first of them was stored.
type Waiting struct {
	Source, Kind string
	Events       int64
	FirstAt      time.Time
}

// OrgWaiting counts the events of an org after a position that were stored in a period, by source and kind. It looks at most
// events at most.
func (s *Store) OrgWaiting(ctx context.Context, org id.Org, p Position, since, until time.Time, most int) ([]Waiting, error) {
	rows, err := db.New(s.deps.DB).OrgWaiting(ctx, db.OrgWaitingParams{
		OrgID: org, AfterTx: p.Tx, AfterID: p.ID, Since: since, Until: until, MaxRows: int32(most),
	})
	return postgres.Convert(rows, func(r db.OrgWaitingRow) Waiting { return Waiting(r) }), err
}

// Heads lists the sources of a bucket that have events newer than changedAfter.
func (s *Store) Heads(ctx context.Context, bucket int, changedAfter time.Time) ([]HeadRow, error) {
	rows, err := db.New(s.deps.DB).HeadsChanged(ctx, db.HeadsChangedParams{Bucket: int16(bucket), ChangedAfter: changedAfter})
	return postgres.Convert(rows, headFromRow), err
}

func headFromRow(r db.EventSource) HeadRow {
	head := Head{
		LastSeq: r.LastSeq, LastAt: r.LastAt, Watermark: platformID(r.Watermark.String), Known: r.Watermark.Valid,
		Epoch: r.Epoch, Closed: r.Closed, Purged: r.PurgedSeq.Valid,
	}
	if r.NewestFrameAt != nil {
		head.NewestFrameAt = *r.NewestFrameAt
	}
	return HeadRow{r.OrgID, r.Source, head}
}

// SetWatermark sets the frame after which a source's frames are wanted. A source that has a watermark keeps it.
func (s *Store) SetWatermark(ctx context.Context, org id.Org, source, watermark string) error {
	return s.setWatermark(ctx, s.deps.DB, org, source, watermark)
}

// SetWatermarkIn is SetWatermark within the caller's transaction.
func (s *Store) SetWatermarkIn(ctx context.Context, tx postgres.Tx, org id.Org, source, watermark string) error {
	return s.setWatermark(ctx, tx, org, source, watermark)
}

func (s *Store) setWatermark(ctx context.Context, q db.DBTX, org id.Org, source, watermark string) error {
	return db.New(q).SetWatermark(ctx, db.SetWatermarkParams{
		OrgID: org, Source: source, Bucket: int16(Bucket(source)), At: s.deps.Now(), Watermark: pgtype.Text{String: storable(watermark), Valid: true},
	})
}

// Oldest returns the lowest sequence number of a source that can still be read, or one more than its last if none can.
func (s *Store) Oldest(ctx context.Context, org id.Org, source string, since time.Time) (int64, error) {
	return db.New(s.deps.DB).Oldest(ctx, db.OldestParams{OrgID: org, Source: source, Since: since})
}

// idSpread bounds how far the time in an event's id may be from the time at which it was stored. It limits a lookup
// by id to one or two partitions.
const idSpread = 10 * time.Minute

// Find reads one event of a source. It fails with event-not-found.
func (s *Store) Find(ctx context.Context, org id.Org, source string, event id.Event) (Stored, error) {
	made := id.MadeAt(event)
	r, err := db.New(s.deps.DB).Find(ctx, db.FindParams{
		OrgID: org, Source: source, ID: event, Since: made.Add(-idSpread), Until: made.Add(idSpread),
	})
	if errors.Is(err, postgres.ErrNoRows) {
		return Stored{}, problem.EventNotFound.New("The account has no event with this id.")
	}
	one := storedRow(r).stored()
	if err == nil {
		err = s.openBody(ctx, &one)
	}
	return one, err
}

// SeqAt returns the last sequence number that a source had at a time; 0 if it had none that is still stored.
func (s *Store) SeqAt(ctx context.Context, org id.Org, source string, at time.Time) (int64, error) {
	return db.New(s.deps.DB).SeqAt(ctx, db.SeqAtParams{OrgID: org, Source: source, At: at})
}

// Time returns the time of the database's clock, which dates events.
func (s *Store) Time(ctx context.Context) (time.Time, error) { return s.deps.DB.Now(ctx, s.deps.DB) }

// How many days back and ahead Upkeep creates partitions, so that a node that is down at midnight does no harm.
const (
	daysBack  = 1
	daysAhead = 2
)

// Trim deletes the events of orgs that are older than keep days.
func (s *Store) Trim(ctx context.Context, orgs []string, keep int) (int64, error) {
	return s.days.Trim(ctx, orgs, keep)
}

// Upkeep creates partitions for the coming days and drops expired ones. It also deletes old dead letters.
func (s *Store) Upkeep(ctx context.Context) error {
	_, err := s.days.Upkeep(ctx, daysBack, daysAhead, org.MaxRetentionDays+1)
	return errors.Join(err, db.New(s.deps.DB).ExpireLetters(ctx, letterLife))
}

// storedRow is an event as queries return it.
type storedRow struct {
	Org    id.Org
	Source string
	Seq    int64
	At     time.Time
	Tx     int64
	ID     id.Event
	Kind   string
	Body   []byte
}

func (r storedRow) stored() Stored {
	return Stored{Org: r.Org, Source: r.Source, Seq: r.Seq, At: r.At, Tx: r.Tx, ID: r.ID, Kind: r.Kind, Body: r.Body}
}
