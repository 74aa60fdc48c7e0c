// Package usage owns the breakdown of what an org calls: by account, operation and outcome, of what its traffic weighs: by region, and
// of what becomes of its events. All are hourly sums; series.go has those that charts are drawn from.
//
// Counting adds to a map in memory; once a second the sums go to the database. A node that is killed loses at most that
// second of the breakdown. The month's total is not counted here but by admission (package limit), and is exact.
package usage

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Access is what a call does to the account.
type Access string

// The accesses.
const (
	Plain Access = "plain"
	Read  Access = "read"
	Write Access = "write"
)

// Outcome is how a call ended, as seen by the caller.
type Outcome string

// The outcomes.
const (
	OK          Outcome = "ok"
	Failed      Outcome = "failed"
	RateLimited Outcome = "rate_limited"
)

// Call is one call to count.
type Call struct {
	Org       id.Org
	Account   id.Account
	Operation string
	Access    Access
	Outcome   Outcome
	// Status is what was answered, and Took how long that took; 0 if it is the caller's choice, as with a stream.
	Status int
	Took   time.Duration
}

type sumKey struct {
	call Call
	hour time.Time
}

// Deps is what the service needs.
type Deps struct {
	DB  *postgres.DB
	Log *slog.Logger
	Now func() time.Time
}

// Usage is the service.
type Usage struct {
	Deps
	mu        sync.Mutex
	sums      map[sumKey]int64
	loads     map[loadKey]load
	events    map[eventKey]Events
	series    map[seriesKey]*tally
	summaries cache.Cache[summaryKey, Summary]
}

type summaryKey struct {
	org          id.Org
	since, until time.Time
}

// New makes the service.
func New(d Deps) *Usage {
	return &Usage{
		Deps: d, sums: map[sumKey]int64{}, loads: map[loadKey]load{}, events: map[eventKey]Events{}, series: map[seriesKey]*tally{},
		summaries: cache.NewFor[summaryKey, Summary](10_000, summaryFor),
	}
}

const (
	flushEvery = time.Second
	// flushAtMost bounds how long a database that hangs is waited for.
	flushAtMost = 5 * time.Second
	// summaryFor is how long a summary serves: reading it is free to callers, and adding it up is not to us.
	summaryFor = time.Second
	// maxSums bounds the memory while the database is away. Beyond it, calls of new kinds are not broken down.
	maxSums = 100_000
)

// Count adds a call. It does not wait for anything.
func (u *Usage) Count(c Call) {
	hour := u.Now().UTC().Truncate(time.Hour)
	key := sumKey{c, hour}
	key.call.Status, key.call.Took = 0, 0
	u.mu.Lock()
	defer u.mu.Unlock()
	u.chart(&c, hour)
	if _, ok := u.sums[key]; ok || len(u.sums) < maxSums {
		u.sums[key]++
	}
}

// Run flushes until the context ends, and once more then.
func (u *Usage) Run(ctx context.Context) error {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return u.Flush(last)
		case <-ticker.C:
			if err := u.Flush(ctx); err != nil {
				u.Log.LogAttrs(ctx, slog.LevelWarn, "usage not flushed", slog.Any("error", err))
			}
		}
	}
}

// Flush writes the sums. What cannot be written is kept for the next time.
func (u *Usage) Flush(ctx context.Context) error {
	return errors.Join(u.flushCalls(ctx), u.flushBytes(ctx), u.flushEvents(ctx), u.flushSeries(ctx))
}

func (u *Usage) flushCalls(ctx context.Context) error {
	u.mu.Lock()
	sums := u.sums
	u.sums = map[sumKey]int64{}
	u.mu.Unlock()
	if len(sums) == 0 {
		return nil
	}
	keys := make([]sumKey, 0, len(sums))
	for k := range sums {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare) // all nodes take the rows' locks in one order
	ctx, cancel := context.WithTimeout(ctx, flushAtMost)
	defer cancel()
	err := add(ctx, u.DB.Pool(), keys, sums)
	if err != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		for k, n := range sums {
			u.sums[k] += n
		}
	}
	return err
}

func compare(a, b sumKey) int {
	if c := a.hour.Compare(b.hour); c != 0 {
		return c
	}
	for _, pair := range [][2]string{
		{string(a.call.Org), string(b.call.Org)}, {string(a.call.Account), string(b.call.Account)},
		{a.call.Operation, b.call.Operation}, {string(a.call.Access), string(b.call.Access)},
	} {
		if c := strings.Compare(pair[0], pair[1]); c != 0 {
			return c
		}
	}
	return strings.Compare(string(a.call.Outcome), string(b.call.Outcome))
}

// Summary is a period's breakdown.
type Summary struct {
	Read, Write, Failed, RateLimited int64
	// ByResource counts calls of the SDK by the first part of their method's name.
	ByResource map[string]int64
	// Bytes is what traffic with platforms weighed in both directions, by region.
	Bytes  map[string]int64
	Events Events
}

// Summarise adds up a period. The result may be a second old, and is shared: it must not be changed.
func (u *Usage) Summarise(ctx context.Context, org id.Org, since, until time.Time) (Summary, error) {
	return u.summaries.Load(ctx, summaryKey{org, since, until}, func(ctx context.Context, k summaryKey) (Summary, error) {
		return u.summarise(ctx, k.org, k.since, k.until)
	})
}

func (u *Usage) summarise(ctx context.Context, org id.Org, since, until time.Time) (Summary, error) {
	rows, err := sum(ctx, u.DB.Pool(), org, since, until)
	if err != nil {
		return Summary{}, err
	}
	bytes, err := sumBytes(ctx, u.DB.Pool(), org, since, until)
	if err != nil {
		return Summary{}, err
	}
	events, err := sumEvents(ctx, u.DB.Pool(), org, since, until)
	if err != nil {
		return Summary{}, err
	}
	s := Summary{ByResource: map[string]int64{}, Bytes: bytes, Events: events}
	for _, r := range rows {
		switch r.outcome {
		case RateLimited:
			s.RateLimited += r.calls
			continue // refused: neither a read nor a write happened
		case Failed:
			s.Failed += r.calls
		case OK:
		}
		switch r.access {
		case Read:
			s.Read += r.calls
		case Write:
			s.Write += r.calls
		case Plain:
			continue
		}
		if resource, _, method := strings.Cut(r.operation, "."); method { // an operation of our own has no resource
			s.ByResource[resource] += r.calls
		}
	}
	return s, nil
}
