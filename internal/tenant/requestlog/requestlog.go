// Package requestlog owns the log of requests that an org can read: which key called what on which account, how the
// request ended and how long it took. It never contains a payload, an argument, or a path with an argument in it.
//
// Add puts an entry into memory (buffer.go); once a second Run writes the collected entries with one COPY (flush.go). A
// killed node loses what it has not written, about a second. While the database is away, a node keeps the newest
// entries. The table has one partition per day, which any node creates ahead of time and drops later (days.go). read.go
// reads.
package requestlog

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Entry is one request.
type Entry struct {
	Org     id.Org
	At      time.Time
	Request id.Request
	Key     id.Key
	// Account is empty for a request that is not about an account.
	Account id.Account
	// Operation is the called method, such as messages.send, or the id of an API operation. Verb is the HTTP method.
	Operation, Verb string
	Status          int
	// Took is the total duration, Upstream the part of the platform including the network; 0 if it was not called.
	Took, Upstream time.Duration
	// Problem is the code of the problem in the response; empty for none.
	Problem   string
	Retryable bool
	// Reason is the limit that denied the request, such as org_rpm; empty for none.
	Reason string
	// Fields are the fields that the problem names.
	Fields Fields
	// Members are the other members of the problem.
	Members Members
	// Events are those that the request caused.
	Events Events
	// UpstreamCode is the platform's own error code, a number or a text; empty for none.
	UpstreamCode string
	// In and Out are the sizes of the request body and the response body, in bytes.
	In, Out          int64
	Replayed, DryRun bool
	// Free means that the request did not count as usage.
	Free bool
	// Source defaults to SourceAPI.
	Source Source
}

// Source says what sent a request.
type Source string

// The sources: a program with a key, a person in the dashboard, and the command line.
const (
	SourceAPI       Source = "api"
	SourceDashboard Source = "dashboard"
	SourceCLI       Source = "cli"
)

// Deps are the dependencies of a Journal.
type Deps struct {
	DB *postgres.DB
	// Ticker returns a channel that ticks every d until stop is called, like clock.Ticker.
	Ticker func(d time.Duration) (tick <-chan time.Time, stop func())
	// Registry registers the metrics. If it is nil, they are not registered.
	Registry prometheus.Registerer
	Log      *slog.Logger
	Now      func() time.Time
	// SettleTimeout bounds how long a reader waits for the entries in this node's memory to be written.
	SettleTimeout time.Duration
}

// Journal writes and reads the request log. Its methods are safe for concurrent use.
type Journal struct {
	deps    Deps
	buffer  buffer
	metrics Metrics
	days    *postgres.Days
	// flushRequests makes Run flush; Run closes the sent channel afterwards.
	flushRequests chan chan struct{}
	// readPermits limits concurrent readers.
	readPermits chan struct{}

	// writing guards the following fields and serialises COPY statements.
	writing sync.Mutex
	// unsent are blocks that were taken from the buffer and are not known to be written, oldest first. The first
	// uncertain of them were in a COPY whose outcome is unknown.
	unsent    []block
	uncertain int
	knownDays map[postgres.Day]bool
	// rows is the buffer of the last COPY, kept for reuse.
	rows postgres.Rows
}

// New returns a Journal. Run must be running for entries to be written.
func New(d Deps) *Journal {
	return &Journal{
		deps: d, metrics: newMetrics(d.Registry), buffer: buffer{refused: map[id.Org]int{}}, knownDays: map[postgres.Day]bool{}, days: postgres.NewDays(d.DB, "request_log", d.Log),
		flushRequests: make(chan chan struct{}), readPermits: make(chan struct{}, maxReaders),
	}
}

const (
	flushInterval  = time.Second
	upkeepInterval = 10 * time.Minute
	// flushTimeout bounds each statement of a flush.
	flushTimeout = 5 * time.Second
)

// Add adds an entry. It does not block and does not allocate.
func (j *Journal) Add(e Entry) {
	refused, dropped := j.buffer.add(&e)
	if refused {
		j.metrics.lost.WithLabelValues("refused").Inc()
	}
	if dropped > 0 {
		j.metrics.lost.WithLabelValues("full").Add(float64(dropped))
	}
}

// Run flushes every second and maintains the partitions until ctx ends, and then flushes once more.
func (j *Journal) Run(ctx context.Context) error {
	flushes, stopFlushes := j.deps.Ticker(flushInterval)
	defer stopFlushes()
	rounds, stopRounds := j.deps.Ticker(upkeepInterval)
	defer stopRounds()
	j.upkeepLogged(ctx)
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
			defer cancel()
			j.flushLogged(last)
			return nil
		case <-flushes:
			j.flushLogged(ctx)
		case done := <-j.flushRequests:
			j.flushLogged(ctx)
			close(done)
		case <-rounds:
			j.upkeepLogged(ctx)
		}
	}
}

func (j *Journal) flushLogged(ctx context.Context) {
	if err := j.Flush(ctx); err != nil && ctx.Err() == nil {
		j.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot write request log", slog.Any(logkey.Error, err))
	}
}

func (j *Journal) upkeepLogged(ctx context.Context) {
	if err := j.Upkeep(ctx); err != nil && ctx.Err() == nil {
		j.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot maintain partitions of request log", slog.Any(logkey.Error, err))
	}
}
