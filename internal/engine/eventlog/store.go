package eventlog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/eventlog/internal/db"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Postgres is the log for a single machine without JetStream. Entries are rows, each bucket has its own epoch and
// positions, and readers poll.
type Postgres struct {
	Config
	db *postgres.DB
}

// NewPostgres makes the log. It uses only Patience of the settings.
func NewPostgres(d *postgres.DB, c Config) *Postgres {
	return &Postgres{Config: c.withDefaults(), db: d}
}

func (p *Postgres) queries() *db.Queries { return db.New(p.db) }

func (p *Postgres) Publish(ctx context.Context, bucket int, id string, data []byte, traces ...Trace) error {
	if len(data) > MaxData {
		return ErrTooBig
	}
	column := formatTraces(ctx, traces)
	err := retry(ctx, p.Patience, func(ctx context.Context) (bool, error) {
		// If no row was inserted, the id is already stored, for example by an attempt whose response was lost.
		_, err := p.queries().Publish(ctx, db.PublishParams{Bucket: int32(bucket), ID: id, Data: data, Traces: column})
		return !postgres.Unavailable(err), err
	})
	if err != nil {
		return fmt.Errorf("publish to the event log: %w", err)
	}
	return nil
}

func (p *Postgres) State(ctx context.Context, bucket int) (State, error) {
	states, err := p.States(ctx, []int{bucket})
	return states[bucket], err
}

func (p *Postgres) States(ctx context.Context, buckets []int) (map[int]State, error) {
	numbers := make([]int32, len(buckets))
	for i, bucket := range buckets {
		numbers[i] = int32(bucket)
	}
	heads, err := p.heads(ctx, numbers, true)
	if err != nil {
		return nil, err
	}
	states := make(map[int]State, len(heads))
	for bucket, h := range heads {
		states[bucket] = State{Epoch: h.epoch, First: h.last + 1, Last: h.last}
	}
	firsts, err := p.queries().Firsts(ctx, numbers)
	if err != nil {
		return nil, fmt.Errorf("read the state of the event log: %w", err)
	}
	for _, f := range firsts {
		state := states[int(f.Bucket)]
		state.First = uint64(f.First)
		states[int(f.Bucket)] = state
	}
	return states, nil
}

// bucketHead is the last position and the epoch of a bucket.
type bucketHead struct {
	last  uint64
	epoch string
}

// heads reads the heads of buckets. With prepare it creates those that do not exist; otherwise the result lacks them.
func (p *Postgres) heads(ctx context.Context, buckets []int32, prepare bool) (map[int]bucketHead, error) {
	if prepare {
		if err := p.queries().Prepare(ctx, buckets); err != nil {
			return nil, fmt.Errorf("create buckets of the event log: %w", err)
		}
	}
	rows, err := p.queries().Heads(ctx, buckets)
	if err != nil {
		return nil, fmt.Errorf("read the state of the event log: %w", err)
	}
	heads := make(map[int]bucketHead, len(rows))
	for _, r := range rows {
		heads[int(r.Bucket)] = bucketHead{uint64(r.Last), r.Epoch}
	}
	return heads, nil
}

// trimRows is the maximum number of rows that one statement of Trim deletes.
const trimRows = 1000

// Trim is part of Log. It drops all that it may.
func (p *Postgres) Trim(ctx context.Context, upTo map[int]uint64) error {
	params := db.TrimParams{MaxRows: trimRows}
	for bucket, at := range upTo {
		params.Buckets, params.Positions = append(params.Buckets, int32(bucket)), append(params.Positions, int64(at))
	}
	for {
		n, err := p.queries().Trim(ctx, params)
		if err != nil {
			return fmt.Errorf("trim the event log: %w", err)
		}
		if n < trimRows {
			return nil
		}
	}
}

// pollEvery is how often a reader checks for new entries.
const pollEvery = 50 * time.Millisecond

// rowReader follows buckets by polling.
type rowReader struct {
	log     *Postgres
	buckets []int32
	pos     map[int]uint64 // position up to which each bucket was read
	epochs  map[int]string // epoch of each bucket when the reader was made
	closed  atomic.Bool
}

func (p *Postgres) Read(ctx context.Context, after map[int]uint64) (Reader, error) {
	r := &rowReader{log: p, pos: maps.Clone(after), epochs: map[int]string{}}
	for _, bucket := range slices.Sorted(maps.Keys(after)) {
		r.buckets = append(r.buckets, int32(bucket))
	}
	heads, err := p.heads(ctx, r.buckets, true)
	if err != nil {
		return nil, err
	}
	for bucket, h := range heads {
		r.epochs[bucket] = h.epoch
	}
	return r, nil
}

func (r *rowReader) Next(ctx context.Context) ([]Entry, error) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		if r.closed.Load() {
			return nil, ErrClosed
		}
		list, err := r.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, ErrLost) || err != nil && !postgres.Unavailable(err):
			return nil, err
		case err == nil && len(list) > 0:
			return list, nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// poll returns entries that were added since the last poll, at most nextEntries of them and about nextBytes. It fails
// with ErrLost if a bucket is missing, was recreated, or ends before what was read.
func (r *rowReader) poll(ctx context.Context) ([]Entry, error) {
	heads, err := r.log.heads(ctx, r.buckets, false)
	if err != nil {
		return nil, err
	}
	p := db.ReadParams{MaxRows: nextEntries, MaxBytes: nextBytes}
	for _, bucket := range r.buckets {
		b := int(bucket)
		h, exists := heads[b]
		if !exists || h.epoch != r.epochs[b] || h.last < r.pos[b] {
			return nil, fmt.Errorf("%w: bucket %d", ErrLost, b)
		}
		if h.last > r.pos[b] {
			p.Buckets, p.Behind = append(p.Buckets, bucket), append(p.Behind, int64(r.pos[b]))
		}
	}
	if len(p.Buckets) == 0 {
		return nil, nil
	}
	rows, err := r.log.queries().Read(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("read the event log: %w", err)
	}
	bytes, list := 0, make([]Entry, len(rows))
	for i, row := range rows {
		list[i] = Entry{int(row.Bucket), uint64(row.Seq), row.Data, parseTraces(ctx, row.Traces)}
		r.pos[list[i].Bucket] = list[i].Seq
		bytes += len(row.Data)
	}
	// That was everything up to the heads, so positions can also skip the gaps that duplicate ids left at the end.
	if len(rows) < nextEntries && bytes < nextBytes {
		for _, bucket := range p.Buckets {
			r.pos[int(bucket)] = max(r.pos[int(bucket)], heads[int(bucket)].last)
		}
	}
	return list, nil
}

func (r *rowReader) Reached() map[int]uint64 { return maps.Clone(r.pos) }

func (r *rowReader) Close() { r.closed.Store(true) }
