// Package requestlog owns the log of requests that an org can read: who called what on which account, how it ended and how long it took.
// It never holds a payload, an argument, or a path with one in it.
//
// Add puts an entry into memory (buffer.go); once a second a node writes what has gathered with one COPY (flush.go). A node that is
// killed loses what it has not written, about a second; while the database is away the newest entries are kept. The table has a
// partition per day (days.go), made ahead and dropped by whichever node comes first. Reading starts in read.go.
package requestlog

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Entry is one request.
type Entry struct {
	Org     id.Org
	At      time.Time
	Request id.Request
	Key     id.Key
	// Account is empty if the request concerned none.
	Account id.Account
	// Operation is the SDK method, such as messages.send, or our own operation's id. Verb is the HTTP method.
	Operation, Verb string
	Status          int
	// Took is the whole, Upstream what the platform and the way to it took.
	Took, Upstream time.Duration
	// Problem is the code of the problem it ended with; empty for none.
	Problem   string
	Retryable bool
	// Reason is which limit refused it, such as org_rpm; empty if none did.
	Reason string
	// Fields are those that its problem pointed at.
	Fields Fields
	// UpstreamCode is the platform's own; 0 for none.
	UpstreamCode int
	// In and Out are the bytes of the request's body and of the answer's.
	In, Out          int64
	Replayed, DryRun bool
	// Source is where it came from; empty counts as SourceAPI.
	Source Source
}

// Source is where a request came from.
type Source string

// The sources: a program with a key, a person in the dashboard, and the command line.
const (
	SourceAPI       Source = "api"
	SourceDashboard Source = "dashboard"
	SourceCLI       Source = "cli"
)

// Deps is what the service needs.
type Deps struct {
	DB *postgres.DB
	// Ticker is a clock's: it ticks every d until it is stopped.
	Ticker func(d time.Duration) (tick <-chan time.Time, stop func())
	Log    *slog.Logger
	Now    func() time.Time
	// SettleTimeout bounds how long a reader waits until the requests in this node's memory are written.
	SettleTimeout time.Duration
}

// Journal is the service.
type Journal struct {
	Deps
	buffer  buffer
	metrics Metrics
	days    *postgres.Days
	// asked is by which readers have Run write what is in memory.
	asked chan chan struct{}
	// reads has a place for each reader that the database is let have at once.
	reads chan struct{}

	// writing guards what follows: one COPY at a time.
	writing sync.Mutex
	// unsent are blocks that left the buffer and are not known to be written; doubt is how many of the first may be.
	unsent []block
	doubt  int
	// made are the days that have their partition.
	made map[postgres.Day]bool
	// rows are those of the last COPY, to be overwritten.
	rows postgres.Rows
}

// New makes the service.
func New(d Deps) *Journal {
	return &Journal{
		Deps: d, metrics: newMetrics(), buffer: buffer{refused: map[id.Org]int{}}, made: map[postgres.Day]bool{}, days: postgres.NewDays(d.DB, "request_log", d.Log),
		asked: make(chan chan struct{}), reads: make(chan struct{}, readersAtOnce),
	}
}

const (
	flushEvery  = time.Second
	upkeepEvery = 10 * time.Minute
	// flushAtMost bounds how long a database that hangs is waited for.
	flushAtMost = 5 * time.Second
)

// Add takes note of a request. It does not wait for anything.
func (j *Journal) Add(e Entry) {
	refused, dropped := j.buffer.add(&e)
	if refused {
		j.metrics.lost.WithLabelValues("refused").Inc()
	}
	if dropped > 0 {
		j.metrics.lost.WithLabelValues("full").Add(float64(dropped))
	}
}

// Run writes and keeps the days until the context ends, and writes once more then.
func (j *Journal) Run(ctx context.Context) error {
	flushes, stopFlushes := j.Ticker(flushEvery)
	defer stopFlushes()
	rounds, stopRounds := j.Ticker(upkeepEvery)
	defer stopRounds()
	j.upkeep(ctx)
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushAtMost)
			defer cancel()
			j.flush(last)
			return nil
		case <-flushes:
			j.flush(ctx)
		case done := <-j.asked:
			j.flush(ctx)
			close(done)
		case <-rounds:
			j.upkeep(ctx)
		}
	}
}

func (j *Journal) flush(ctx context.Context) {
	if err := j.Flush(ctx); err != nil && ctx.Err() == nil {
		j.Log.LogAttrs(ctx, slog.LevelWarn, "request log not written", slog.Any("error", err))
	}
}

func (j *Journal) upkeep(ctx context.Context) {
	if err := j.Upkeep(ctx); err != nil && ctx.Err() == nil {
		j.Log.LogAttrs(ctx, slog.LevelWarn, "days of the request log not kept", slog.Any("error", err))
	}
}
