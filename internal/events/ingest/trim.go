package ingest

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

const (
	// trimEvery is how often the log is trimmed, and its lag measured.
	trimEvery = 5 * time.Second
	// keepStored is how long entries stay in the log after they were stored. If the database fails over to a replica
	// that lags by less, events that a platform cannot list again are still in the log.
	keepStored = 10 * time.Minute
	// alarmAt is the used share of the log from which an error is logged.
	alarmAt = 0.75
	// trimmingBucket is the bucket whose holder trims the log, so that one node does.
	trimmingBucket = 0
)

// trimmer drops entries of the log that have been in the store for a while. If the log is crowded, it drops all that
// are in the store. It also measures how far the store lags.
type trimmer struct {
	g       *Ingest
	history []sample
	// completeAt is a time at which the log had no more than the store had later.
	completeAt time.Time
	alarmed    bool
}

// sample is how far the log and the store were at a time. Slices have one element per bucket.
type sample struct {
	at           time.Time
	epochs       []string
	last, stored []uint64
}

// trimLoop trims the log while this node holds trimmingBucket.
func (g *Ingest) trimLoop(ctx context.Context) {
	t := trimmer{g: g}
	for range clock.Ticks(ctx, trimEvery) {
		if !g.trims.Load() {
			t = trimmer{g: g}
			g.metrics.lag.Set(0)
			g.metrics.used.Set(0)
			continue
		}
		if err := t.trim(ctx); err != nil && ctx.Err() == nil {
			g.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot trim the event log", slog.Any(logkey.Error, err))
		}
	}
}

func (t *trimmer) trim(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	now, used, err := t.takeSample(ctx)
	if err != nil {
		return err
	}
	t.addSample(now)
	t.g.metrics.lag.Set(t.lag().Seconds())
	t.g.metrics.used.Set(used)
	if alarming := used >= alarmAt; alarming != t.alarmed {
		if t.alarmed = alarming; alarming {
			t.g.deps.Log.LogAttrs(ctx, slog.LevelError, "event log is nearly full; when it is, listeners wait", slog.Float64(logkey.Used, used))
		}
	}
	upTo := t.trimmable(used >= eventlog.Crowded)
	if len(upTo) == 0 {
		return nil
	}
	return t.g.deps.Events.Trim(ctx, upTo)
}

// takeSample reads how far the log and the store are, and the used share of the log.
func (t *trimmer) takeSample(ctx context.Context) (s sample, used float64, err error) {
	buckets := make([]int, event.Buckets)
	for i := range buckets {
		buckets[i] = i
	}
	states, err := t.g.deps.Events.States(ctx, buckets)
	if err != nil {
		return s, 0, err
	}
	progress, err := t.g.deps.Store.AllProgress(ctx)
	if err != nil {
		return s, 0, err
	}
	s = sample{
		at: t.g.deps.Now(), epochs: make([]string, event.Buckets), last: make([]uint64, event.Buckets), stored: make([]uint64, event.Buckets),
	}
	for bucket, state := range states {
		s.epochs[bucket], s.last[bucket] = state.Epoch, state.Last
		used = max(used, state.Used)
	}
	for _, p := range progress {
		if p.LogEpoch == s.epochs[p.Bucket] {
			s.stored[p.Bucket] = p.Committed
		}
	}
	return s, used, nil
}

// addSample adds a sample. It forgets samples of another log, and those that are older than needed.
func (t *trimmer) addSample(s sample) {
	if n := len(t.history); n > 0 && !slices.Equal(t.history[n-1].epochs, s.epochs) {
		t.history = nil
	}
	t.history = append(t.history, s)
	// Keep one sample that is old enough.
	for len(t.history) > 1 && s.at.Sub(t.history[1].at) >= keepStored {
		t.history = t.history[1:]
	}
}

// trimmable returns up to which position the entries of each bucket can be dropped.
func (t *trimmer) trimmable(crowded bool) map[int]uint64 {
	now := t.history[len(t.history)-1]
	old := t.history[0]
	switch {
	case crowded:
		old = now
	case now.at.Sub(old.at) < keepStored:
		return nil
	}
	upTo := make(map[int]uint64, event.Buckets)
	for bucket := range event.Buckets {
		// A database that was restored has less than it had.
		upTo[bucket] = min(old.stored[bucket], now.stored[bucket])
	}
	return upTo
}

// lag returns how long ago the log had no more than the store has now.
func (t *trimmer) lag() time.Duration {
	now := t.history[len(t.history)-1]
	if t.completeAt.IsZero() {
		t.completeAt = now.at
	}
	for _, s := range slices.Backward(t.history) {
		behind := false
		for bucket := range event.Buckets {
			behind = behind || now.stored[bucket] < s.last[bucket]
		}
		if !behind {
			t.completeAt = s.at
			break
		}
	}
	return now.at.Sub(t.completeAt)
}
