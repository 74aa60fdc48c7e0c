package eventlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagedoor/stagedoor/internal/engine/eventlog/internal/db"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Postgres is the log of a single box: entries are rows, each bucket has an epoch and positions of its own, and readers look every now
// and then.
type Postgres struct {
	Config
	db *postgres.DB
}

// NewPostgres makes the log; of the settings it needs MaxAge, Patience and Log. Run must be running for old entries to be dropped.
func NewPostgres(d *postgres.DB, c Config) *Postgres {
	return &Postgres{Config: c.withDefaults(), db: d}
}

func (p *Postgres) queries() *db.Queries { return db.New(p.db.Pool()) }

// Publish is part of Log.
func (p *Postgres) Publish(ctx context.Context, bucket int, id string, data []byte) error {
	if len(data) > MaxData {
		return ErrTooBig
	}
	err := patiently(ctx, p.Patience, func(ctx context.Context) (bool, error) {
		// No row means that an earlier try, or somebody else, has stored it.
		_, err := p.queries().Publish(ctx, db.PublishParams{Bucket: int32(bucket), ID: id, Data: data})
		return !postgres.Unavailable(err), err
	})
	if err != nil {
		return fmt.Errorf("publish to the event log: %w", err)
	}
	return nil
}

// State is part of Log.
func (p *Postgres) State(ctx context.Context, bucket int) (State, error) {
	states, err := p.States(ctx, []int{bucket})
	return states[bucket], err
}

// States is part of Log.
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
		return nil, fmt.Errorf("state of the event log: %w", err)
	}
	for _, f := range firsts {
		state := states[int(f.Bucket)]
		state.First = uint64(f.First)
		states[int(f.Bucket)] = state
	}
	return states, nil
}

// head is the end of a bucket.
type head struct {
	last  uint64
	epoch string
}

// heads asks for the ends of buckets. Those that are not there are left out, or made.
func (p *Postgres) heads(ctx context.Context, buckets []int32, prepare bool) (map[int]head, error) {
	if prepare {
		if err := p.queries().Prepare(ctx, buckets); err != nil {
			return nil, fmt.Errorf("make buckets of the event log: %w", err)
		}
	}
	rows, err := p.queries().Heads(ctx, buckets)
	if err != nil {
		return nil, fmt.Errorf("state of the event log: %w", err)
	}
	heads := make(map[int]head, len(rows))
	for _, r := range rows {
		heads[int(r.Bucket)] = head{uint64(r.Last), r.Epoch}
	}
	return heads, nil
}

// How old entries are dropped.
const (
	trimEvery  = time.Minute
	trimAtOnce = 1000
)

// Run drops what is too old, until the context ends.
func (p *Postgres) Run(ctx context.Context) error {
	ticker := time.NewTicker(trimEvery)
	defer ticker.Stop()
	for {
		if err := p.Trim(ctx); err != nil && ctx.Err() == nil {
			p.Log.LogAttrs(ctx, slog.LevelWarn, "the event log was not trimmed", slog.Any("error", err))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Trim drops what is too old.
func (p *Postgres) Trim(ctx context.Context) error {
	kept := pgtype.Interval{Microseconds: p.MaxAge.Microseconds(), Days: 0, Months: 0, Valid: true}
	for {
		n, err := p.queries().Trim(ctx, db.TrimParams{Kept: kept, MaxRows: trimAtOnce})
		if err != nil {
			return fmt.Errorf("trim the event log: %w", err)
		}
		if n < trimAtOnce {
			return nil
		}
	}
}

// lookEvery is how long a reader waits before it looks again.
const lookEvery = 50 * time.Millisecond

// rowReader follows buckets by asking again and again.
type rowReader struct {
	log     *Postgres
	buckets []int32
	pos     map[int]uint64
	epochs  map[int]string
	closed  atomic.Bool
}

// Read is part of Log.
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

// Next is part of Reader.
func (r *rowReader) Next(ctx context.Context) ([]Entry, error) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if r.closed.Load() {
			return nil, ErrClosed
		}
		list, err := r.look(ctx)
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

// look reads what has been added.
func (r *rowReader) look(ctx context.Context) ([]Entry, error) {
	heads, err := r.log.heads(ctx, r.buckets, false)
	if err != nil {
		return nil, err
	}
	p := db.ReadParams{MaxRows: nextEntries, MaxBytes: nextBytes}
	for _, bucket := range r.buckets {
		b := int(bucket)
		h, there := heads[b]
		if !there || h.epoch != r.epochs[b] || h.last < r.pos[b] {
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
		list[i] = Entry{int(row.Bucket), uint64(row.Seq), row.Data}
		r.pos[list[i].Bucket] = list[i].Seq
		bytes += len(row.Data)
	}
	if len(rows) < nextEntries && bytes < nextBytes { // that was all
		for _, bucket := range p.Buckets {
			r.pos[int(bucket)] = max(r.pos[int(bucket)], heads[int(bucket)].last)
		}
	}
	return list, nil
}

// Reached is part of Reader.
func (r *rowReader) Reached() map[int]uint64 { return maps.Clone(r.pos) }

// Close is part of Reader.
func (r *rowReader) Close() { r.closed.Store(true) }
