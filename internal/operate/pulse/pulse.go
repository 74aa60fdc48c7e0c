// Package pulse answers whether the service works, now and on each of the last days. Every minute each node stores what
// it counted since the minute before. The numbers are those of its own metrics, so that the operators' console, the status
// page and the alerts agree. Diagnose derives from the minutes of all nodes what is wrong; the console shows it.
package pulse

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/operate/fleet"
	"github.com/stagedoor/stagedoor/internal/operate/pulse/internal/db"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
)

const (
	every = time.Minute
	// keepMinutes and keepDays are how long rows are kept.
	keepMinutes = 2 * 24 * time.Hour
	keepDays    = 90 * 24 * time.Hour
	// writeTimeout bounds the time to store a minute.
	writeTimeout = 10 * time.Second
)

// Deps are the dependencies of a Pulse.
type Deps struct {
	DB *postgres.DB
	// Node is the name of this node.
	Node     string
	Metrics  prometheus.Gatherer
	Fleet    *fleet.Fleet
	Switches *switches.Control
	// Down returns what does not work on this node, and why.
	Down func(ctx context.Context) map[string]string
	Log  *slog.Logger
	// Now is the database's clock.
	Now func() time.Time
}

// Pulse stores what this node counts, and reads what all nodes counted.
type Pulse struct {
	deps Deps
	// stored is the reading up to which counts are stored. Only Run uses it.
	stored Counts
}

// New returns a Pulse. The first reading of its node has all that was counted since the node started.
func New(d Deps) *Pulse { return &Pulse{deps: d} }

// Run stores a minute after each minute until ctx ends. What could not be stored is part of the next minute.
func (p *Pulse) Run(ctx context.Context) error {
	ctx = postgres.WithAllOrgs(ctx)
	for range clock.Ticks(ctx, every) {
		if err := p.Store(ctx); err != nil && ctx.Err() == nil {
			p.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot store what this node counted", slog.Any(logkey.Error, err))
		}
	}
	return nil
}

// Store stores what this node counted since the last time.
func (p *Pulse) Store(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	families, err := p.deps.Metrics.Gather()
	if err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	now := readMetrics(families)
	counts := now.since(p.stored)
	counts.Down = p.deps.Down(ctx)
	text, err := json.Marshal(counts)
	if err != nil {
		return fmt.Errorf("encode counts: %w", err)
	}
	at, added := p.deps.Now().Truncate(every), false
	err = p.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		q := db.New(tx)
		rows, err := q.AddMinute(ctx, db.AddMinuteParams{At: at, NodeName: p.deps.Node, Counts: text})
		// The node has stored this minute already if its ticks are not exact. The counts are part of the next one.
		if added = rows > 0; err != nil || !added {
			return err
		}
		day := db.AddDayParams{Day: at.Truncate(24 * time.Hour)}
		for _, name := range Names(counts.Met) {
			r := counts.Met[name]
			day.Objectives, day.Good, day.Total = append(day.Objectives, name), append(day.Good, r.Good), append(day.Total, r.Total)
		}
		if err := q.AddDay(ctx, day); err != nil {
			return err
		}
		if err := q.TrimMinutes(ctx, at.Add(-keepMinutes)); err != nil {
			return err
		}
		return q.TrimDays(ctx, at.Add(-keepDays))
	})
	if err == nil && added {
		p.stored = now
	}
	return err
}

// Minute is what a node counted in the minute that ended at a time.
type Minute struct {
	At   time.Time
	Node string
	Counts
}

// Facts reads what is known about the service, with the minutes of the last span.
func (p *Pulse) Facts(ctx context.Context, span time.Duration) (Facts, error) {
	f := Facts{Now: p.deps.Now(), Off: p.deps.Switches.State().Off}
	var err error
	if f.Live, err = p.deps.Fleet.Live(ctx); err != nil {
		return f, err
	}
	if f.Dead, err = p.deps.Fleet.Dead(ctx); err != nil {
		return f, err
	}
	f.Minutes, err = p.minutes(ctx, f.Now.Add(-span))
	return f, err
}

// minutes reads what all nodes counted since a time, oldest first.
func (p *Pulse) minutes(ctx context.Context, since time.Time) ([]Minute, error) {
	rows, err := db.New(p.deps.DB).Minutes(ctx, since)
	if err != nil {
		return nil, err
	}
	list := make([]Minute, len(rows))
	for i, r := range rows {
		list[i] = Minute{At: r.At.UTC(), Node: r.NodeName}
		if err := json.Unmarshal(r.Counts, &list[i].Counts); err != nil {
			return nil, fmt.Errorf("decode counts: %w", err)
		}
	}
	return list, nil
}

// Day is how well an objective was met on a day.
type Day struct {
	Day       time.Time
	Objective string
	Ratio
}

// Days reads how well the objectives were met on the last days with today, oldest first. Days without traffic are missing.
func (p *Pulse) Days(ctx context.Context, days int) ([]Day, error) {
	rows, err := db.New(p.deps.DB).Days(ctx, p.deps.Now().Truncate(24*time.Hour).AddDate(0, 0, 1-days))
	return postgres.Convert(rows, func(r db.PulseDay) Day { return Day{r.Day.UTC(), r.Objective, Ratio{r.Good, r.Total}} }), err
}
