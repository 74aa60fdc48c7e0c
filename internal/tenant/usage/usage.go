// Package usage owns the breakdown of an org's usage, as hourly sums: calls by account, operation and outcome; bytes by
// region; events by what happened to them. series.go has the sums from which charts are drawn, which exist by minute as
// well and for one account, key, method or platform. The month's total, which
// limits an org, is not counted here but by package admission, and is exact.
//
// Counting adds to a map in memory; Run writes the sums to the database once a second. A killed node loses at most the
// counts of its last second. If the outcome of a write is unknown, its counts may be added twice.
package usage

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Access is the kind of access of a call to its account.
type Access string

// The kinds of access. Plain calls use no limit of an account.
const (
	Plain Access = "plain"
	Read  Access = "read"
	Write Access = "write"
)

// Outcome is the result of a call, as the caller sees it.
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
	// Status is the HTTP status of the response. Took is the duration of the call; 0 if the caller decides how long it
	// lasts, as with a stream.
	Status int
	Took   time.Duration
	// Key is empty for a call without an API key, Platform for one that is not about a platform. Only the series count
	// them.
	Key      id.Key
	Platform string
}

type sumKey struct {
	call Call
	hour time.Time
}

// Deps are the dependencies of Usage.
type Deps struct {
	DB  *postgres.DB
	Log *slog.Logger
	Now func() time.Time
}

// Usage counts usage and reads the sums. Its methods are safe for concurrent use.
type Usage struct {
	deps      Deps
	calls     sums[sumKey, int64]
	traffic   sums[trafficKey, traffic]
	events    sums[eventKey, Events]
	minutes   sums[eventKey, Events]
	series    sums[seriesKey, tally]
	slices    sums[sliceKey, tally]
	summaries cache.Cache[summaryKey, Summary]
}

type summaryKey struct {
	org          id.Org
	since, until time.Time
}

// New returns a Usage. Run must be running for counts to reach the database.
func New(d Deps) *Usage {
	return &Usage{
		deps: d,
		calls: sums[sumKey, int64]{
			compare: compareSumKeys, plus: func(sum, more *int64) { *sum += *more }, write: addCalls,
		},
		traffic:   sums[trafficKey, traffic]{compare: compareTrafficKeys, plus: (*traffic).plus, write: addBytes},
		events:    sums[eventKey, Events]{compare: compareEventKeys, plus: (*Events).plus, write: addEvents},
		minutes:   sums[eventKey, Events]{compare: compareEventKeys, plus: (*Events).plus, write: addEventMinutes},
		series:    sums[seriesKey, tally]{compare: compareSeriesKeys, plus: (*tally).plus, write: addSeries},
		slices:    sums[sliceKey, tally]{compare: compareSliceKeys, plus: (*tally).plus, write: addSlices},
		summaries: cache.NewFor[summaryKey, Summary](10_000, summaryTTL),
	}
}

const (
	flushInterval = time.Second
	// flushTimeout bounds each write of a flush.
	flushTimeout = 5 * time.Second
	// summaryTTL is how long a summary is cached. Requests for it are not limited, but computing it is expensive.
	summaryTTL = time.Second
)

// Count adds a call. It does not block.
func (u *Usage) Count(c Call) {
	now := u.deps.Now().UTC()
	hour := now.Truncate(time.Hour)
	key := sumKey{c, hour}
	key.call.Status, key.call.Took, key.call.Key, key.call.Platform = 0, 0, "", "" // only the series count these
	u.calls.update(key, func(calls *int64) { *calls++ })
	u.series.update(seriesKey{org: c.Org, hour: hour}, func(t *tally) { t.count(&c) })
	if c.Account != "" {
		u.series.update(seriesKey{c.Org, c.Account, hour}, func(t *tally) { t.count(&c) })
	}
	u.countSlices(&c, now)
}

// Run flushes every second until ctx ends, and then once more.
func (u *Usage) Run(ctx context.Context) error {
	for range clock.Ticks(ctx, flushInterval) {
		if err := u.Flush(ctx); err != nil {
			u.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot flush usage", slog.Any(logkey.Error, err))
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return u.Flush(last)
}

// Flush writes the sums. Sums that cannot be written are kept for the next flush.
func (u *Usage) Flush(ctx context.Context) error {
	q := u.deps.DB
	return errors.Join(u.calls.flush(ctx, q), u.traffic.flush(ctx, q), u.events.flush(ctx, q), u.minutes.flush(ctx, q), u.series.flush(ctx, q), u.slices.flush(ctx, q))
}

func compareSumKeys(a, b sumKey) int {
	return cmp.Or(
		a.hour.Compare(b.hour), cmp.Compare(a.call.Org, b.call.Org), cmp.Compare(a.call.Account, b.call.Account),
		cmp.Compare(a.call.Operation, b.call.Operation), cmp.Compare(a.call.Access, b.call.Access),
		cmp.Compare(a.call.Outcome, b.call.Outcome),
	)
}

// Summary is the breakdown of one org's usage in a period.
type Summary struct {
	Read, Write, Failed, RateLimited int64
	// ByResource counts calls of methods by their resource.
	ByResource map[string]int64
	// Bytes is the traffic with platforms by region, both directions together.
	Bytes  map[string]int64
	Events Events
}

// Summarise returns the breakdown of a period. The result may be a second old; it is shared and must not be modified.
func (u *Usage) Summarise(ctx context.Context, org id.Org, since, until time.Time) (Summary, error) {
	return u.summaries.Load(ctx, summaryKey{org, since, until}, func(ctx context.Context, k summaryKey) (Summary, error) {
		return u.summarise(ctx, k.org, k.since, k.until)
	})
}

func (u *Usage) summarise(ctx context.Context, org id.Org, since, until time.Time) (Summary, error) {
	rows, err := sumCalls(ctx, u.deps.DB, org, since, until)
	if err != nil {
		return Summary{}, err
	}
	bytes, err := sumBytes(ctx, u.deps.DB, org, since, until)
	if err != nil {
		return Summary{}, err
	}
	events, err := sumEvents(ctx, u.deps.DB, org, since, until)
	if err != nil {
		return Summary{}, err
	}
	s := Summary{ByResource: map[string]int64{}, Bytes: bytes, Events: events}
	for _, r := range rows {
		switch r.outcome {
		case RateLimited:
			s.RateLimited += r.calls
			continue // the call was refused, so it neither read nor wrote
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
		if resource, _, method := strings.Cut(r.operation, "."); method { // operations of the API itself have no resource
			s.ByResource[resource] += r.calls
		}
	}
	return s, nil
}
