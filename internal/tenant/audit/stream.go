package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/logsink"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit/internal/db"
)

const (
	// streamLock is the key of the advisory lock of the Streamer that sends.
	streamLock = 7_264_052
	// streamEvery is the pause between two rounds.
	streamEvery = 2 * time.Second
	// batchEntries and batchBytes bound what is sent at a time; a batch has at least one entry. logEntries bounds the
	// entries of one log in a batch, so that a long log does not delay the others.
	batchEntries = 500
	batchBytes   = 1 << 20
	logEntries   = 100
)

// StreamerDeps are the dependencies of a Streamer.
type StreamerDeps struct {
	DB *postgres.DB
	// Sink receives the entries.
	Sink     logsink.Sink
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Streamer sends the entries of all logs to the operators' own collection of logs, at least once, and those of each log in
// order. The position of each log is in its head, so that another process goes on where the last one ended. Personal values
// stay hidden.
type Streamer struct {
	deps     StreamerDeps
	lag      prometheus.Gauge
	entries  prometheus.Counter
	failures prometheus.Counter
	// failing means that the last round failed, which is in the log.
	failing bool
}

// NewStreamer returns a Streamer that does nothing until Run.
func NewStreamer(d StreamerDeps) *Streamer {
	register := promauto.With(d.Registry)
	return &Streamer{
		deps: d,
		lag: register.NewGauge(prometheus.GaugeOpts{
			Name: "stagedoor_audit_stream_lag_seconds",
			Help: "Age of the oldest audit entry that was not streamed; 0 if all were. All workers report the same number.",
		}),
		entries: register.NewCounter(prometheus.CounterOpts{
			Name: "stagedoor_audit_stream_entries_total", Help: "Audit entries that this node has streamed.",
		}),
		failures: register.NewCounter(prometheus.CounterOpts{
			Name: "stagedoor_audit_stream_failures_total", Help: "Rounds of the audit stream that failed on this node.",
		}),
	}
}

// Run sends entries until ctx ends. Any number of nodes may run it: one at a time sends.
func (s *Streamer) Run(ctx context.Context) error {
	for range clock.Every(ctx, streamEvery) {
		err := s.Round(ctx)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			s.failures.Inc()
		}
		if failing := err != nil; failing != s.failing {
			s.failing = failing
			if failing {
				s.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot stream the audit log", slog.Any(logkey.Error, err))
			} else {
				s.deps.Log.LogAttrs(ctx, slog.LevelInfo, "audit log is streamed again")
			}
		}
	}
	return nil
}

// Round sends what was not sent. It sends nothing while another process does.
func (s *Streamer) Round(ctx context.Context) error {
	if err := s.measure(ctx); err != nil {
		return err
	}
	release, ok, err := s.deps.DB.TryLock(ctx, streamLock)
	if err != nil || !ok {
		return err
	}
	defer release()
	for {
		more, err := s.pass(ctx)
		if err != nil {
			return err
		}
		if !more {
			return s.measure(ctx)
		}
	}
}

// measure reads the age of the oldest entry that was not sent.
func (s *Streamer) measure(ctx context.Context) error {
	lag, err := db.New(s.deps.DB).StreamLag(ctx)
	if err != nil {
		return err
	}
	s.lag.Set(lag)
	return nil
}

// batch is what is sent at a time.
type batch struct {
	records []logsink.Record
	bytes   int
	// orgs and seqs are the positions of the logs after it.
	orgs []id.Org
	seqs []int64
}

// pass goes through all logs once. more reports whether a log had more entries than a batch takes from one.
func (s *Streamer) pass(ctx context.Context) (more bool, err error) {
	q := db.New(s.deps.DB)
	var b batch
	for after := id.Org(""); ; {
		heads, err := q.Unstreamed(ctx, db.UnstreamedParams{After: after, MaxRows: batchEntries})
		if err != nil {
			return false, err
		}
		for _, head := range heads {
			full, err := s.passLog(ctx, &b, head.OrgID, head.Streamed)
			if err != nil {
				return false, err
			}
			more = more || full
		}
		if len(heads) < batchEntries {
			return more, s.send(ctx, &b)
		}
		after = heads[len(heads)-1].OrgID
	}
}

// passLog adds the next entries of a log to the batch, and sends the batch whenever it is full. full reports whether the
// log may have more entries.
func (s *Streamer) passLog(ctx context.Context, b *batch, org id.Org, after int64) (full bool, err error) {
	entries, err := readChain(ctx, s.deps.DB, org, after, logEntries)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if err := b.add(org, e); err != nil {
			return false, err
		}
		if len(b.records) >= batchEntries || b.bytes >= batchBytes {
			if err := s.send(ctx, b); err != nil {
				return false, err
			}
		}
	}
	return len(entries) == logEntries, nil
}

// send sends a batch, saves the positions and empties the batch. If it fails in between, the batch is sent again.
func (s *Streamer) send(ctx context.Context, b *batch) error {
	if len(b.records) == 0 {
		return nil
	}
	if err := s.deps.Sink.Write(ctx, b.records); err != nil {
		return err
	}
	// One statement for each, because a statement for all could wait for transactions that wait for it.
	for i, org := range b.orgs {
		if err := db.New(s.deps.DB).MarkStreamed(ctx, db.MarkStreamedParams{OrgID: org, Seq: b.seqs[i]}); err != nil {
			return err
		}
	}
	s.entries.Add(float64(len(b.records)))
	*b = batch{}
	return nil
}

func (b *batch) add(org id.Org, e Entry) error {
	text, err := encodeEntry(org, e)
	if err != nil {
		return err
	}
	b.records = append(b.records, logsink.Record{At: e.At, JSON: text})
	b.bytes += len(text)
	if n := len(b.orgs); n == 0 || b.orgs[n-1] != org {
		b.orgs, b.seqs = append(b.orgs, org), append(b.seqs, 0)
	}
	b.seqs[len(b.seqs)-1] = e.Seq
	return nil
}

// streamedEntry is an entry as it is sent. Receivers depend on its members, which docs/operations/audit-stream.md lists.
type streamedEntry struct {
	// Log is organisation or operators, and OrgID is empty for the operators' log.
	Log       string          `json:"log"`
	OrgID     string          `json:"orgId,omitempty"`
	Seq       int64           `json:"seq"`
	ID        id.Audit        `json:"id"`
	At        stamp.Time      `json:"at"`
	Actor     streamedActor   `json:"actor"`
	Action    string          `json:"action"`
	Target    string          `json:"target"`
	RequestID string          `json:"requestId"`
	IPHash    string          `json:"ipHash"`
	Changes   json.RawMessage `json:"changes"`
	// Hash is that of the chain, to compare with anchors.
	Hash string `json:"hash"`
}

type streamedActor struct {
	Kind  ActorKind `json:"kind"`
	ID    string    `json:"id"`
	Label string    `json:"label"`
}

// encodeEntry returns an entry as one line, with sealed values hidden.
func encodeEntry(org id.Org, e Entry) ([]byte, error) {
	if err := e.hidePersonal(); err != nil {
		return nil, err
	}
	out := streamedEntry{
		Log: "organisation", OrgID: string(org), Seq: e.Seq, ID: e.ID, At: stamp.Time(e.At),
		Actor: streamedActor{e.By.Kind, e.By.ID, e.By.Label}, Action: e.By.Action, Target: e.Target,
		RequestID: string(e.By.Request), IPHash: e.By.IPHash, Changes: e.Changes, Hash: encodeHash(e.hash),
	}
	if org == Operators {
		out.Log, out.OrgID = "operators", ""
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode audit entry %s: %w", e.ID, err)
	}
	return text, nil
}
