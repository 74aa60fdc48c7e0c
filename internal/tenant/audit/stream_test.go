package audit_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/logsink"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/test/metric"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// received is what a receiver of the stream has got.
type received struct {
	mu sync.Mutex
	// logs are the numbers of the entries by log, in order, with repeats.
	logs map[string][]int64
	text bytes.Buffer
}

// add adds the lines of a batch. It returns how many there were.
func (r *received) add(lines io.Reader) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logs == nil {
		r.logs = map[string][]int64{}
	}
	scanner := bufio.NewScanner(lines)
	scanner.Buffer(nil, 1<<20)
	for ; scanner.Scan(); n++ {
		var e struct {
			Log, OrgID, ID, Hash string
			Seq                  int64
		}
		if json.Unmarshal(scanner.Bytes(), &e) != nil || e.ID == "" || e.Hash == "" {
			e.Log = "damaged: " + scanner.Text()
		}
		r.logs[e.Log+e.OrgID] = append(r.logs[e.Log+e.OrgID], e.Seq)
		r.text.WriteString(scanner.Text() + "\n")
	}
	return n
}

// expect checks that all entries of a log have arrived in order, apart from repeats.
func (r *received) expect(t *testing.T, log string, n int64) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	highest := int64(0)
	for _, seq := range r.logs[log] {
		if seq > highest+1 {
			t.Errorf("%s: entry %d came before %d", log, seq, highest+1)
		}
		highest = max(highest, seq)
	}
	if highest != n {
		t.Errorf("%s: %d entries have arrived, want %d", log, highest, n)
	}
}

func streamer(db *postgres.DB, sink logsink.Sink) (*audit.Streamer, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	return audit.NewStreamer(audit.StreamerDeps{DB: db, Sink: sink, Registry: registry, Log: slog.New(slog.DiscardHandler)}), registry
}

// moody is a sink that fails in turn: before it has anything, after it has everything, and not at all.
type moody struct {
	received
	batches int
}

func (m *moody) Write(_ context.Context, records []logsink.Record) error {
	m.batches++
	if m.batches%3 == 1 {
		return errors.New("refused")
	}
	for _, r := range records {
		m.add(bytes.NewReader(r.JSON))
	}
	if m.batches%3 == 2 {
		return errors.New("lost the answer")
	}
	return nil
}

// Every entry of every log arrives in order, with a sink that fails and processes that end. Nothing is sent again once all
// was sent, and what is new is. Personal values stay hidden, and the operators' log is marked.
func TestEveryEntryIsStreamed(t *testing.T) {
	t.Parallel()
	log, db, owner := newLog(t)
	other, sink := testenv.AddOrg(t, db), &moody{}
	for n := range 230 {
		must.OK(t, record(t.Context(), log, db, owner, n))
	}
	must.OK(t, record(t.Context(), log, db, audit.Operators, 1))
	must.OK(t, db.Tx(t.Context(), func(tx postgres.Tx) error {
		return log.Record(t.Context(), tx, other, audit.By{Kind: audit.ActorMember, ID: "psn_1", Action: "account.update"}, string(id.New[id.Account]()),
			audit.Changes{"label": audit.Personal("Luna", "Maya"), "region": {To: "uk"}})
	}))
	late := false
	for range 100 {
		one, registry := streamer(db, sink) // another process
		err := one.Round(t.Context())
		lag := metric.Value(t, registry, "stagedoor_audit_stream_lag_seconds")
		late = late || lag > 0
		if err == nil {
			if lag != 0 {
				t.Errorf("a lag of %g, although everything was sent", lag)
			}
			break
		}
	}
	if !late {
		t.Error("there was no lag")
	}
	sink.expect(t, "organisation"+string(owner), 230)
	sink.expect(t, "organisation"+string(other), 1)
	sink.expect(t, "operators", 1)
	if text := sink.text.String(); strings.Contains(text, "Luna") || strings.Contains(text, "sealed") || !strings.Contains(text, `"changes":{"label":{"hidden":true},"region":{"to":"uk"}}`) {
		t.Errorf("personal values: %s", text)
	}
	if len(sink.logs) != 3 {
		t.Errorf("%d logs", len(sink.logs))
	}
	sink.batches = 2 // the next one works
	count := len(sink.logs["operators"])
	one, registry := streamer(db, sink)
	must.OK(t, one.Round(t.Context()))
	must.OK(t, record(t.Context(), log, db, owner, 230))
	must.OK(t, one.Round(t.Context()))
	sink.expect(t, "organisation"+string(owner), 231)
	if got := len(sink.logs["operators"]); got != count || metric.Value(t, registry, "stagedoor_audit_stream_entries_total") != 1 {
		t.Errorf("%d entries of operators, before %d", got, count)
	}
}

// Of several processes one sends, so that receivers get no entry twice without a failure.
func TestOneProcessStreams(t *testing.T) {
	t.Parallel()
	log, db, owner := newLog(t)
	for n := range 50 {
		must.OK(t, record(t.Context(), log, db, owner, n))
	}
	sink := &moody{batches: 2}
	sending, goOn := make(chan struct{}), make(chan struct{})
	first, _ := streamer(db, slowly{sink, sending, goOn})
	second, _ := streamer(db, slowly{})
	var work sync.WaitGroup
	work.Go(func() {
		if err := first.Round(t.Context()); err != nil {
			t.Error(err)
		}
	})
	<-sending
	must.OK(t, second.Round(t.Context())) // its sink panics
	close(goOn)
	work.Wait()
	if n := len(sink.logs["organisation"+string(owner)]); n != 50 {
		t.Errorf("%d entries", n)
	}
}

// slowly is a sink that waits.
type slowly struct {
	logsink.Sink
	sending, goOn chan struct{}
}

func (s slowly) Write(ctx context.Context, records []logsink.Record) error {
	close(s.sending)
	<-s.goOn
	return s.Sink.Write(ctx, records)
}

// Real receivers get every entry: a file that is rotated, an HTTP endpoint that is away for a while, and a syslog server
// that dies in the middle of a batch.
func TestRealReceivers(t *testing.T) {
	t.Parallel()
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		got := &received{}
		stream(t, logsink.Deps{Target: logsink.Target{Kind: "file", Path: path}}, func(round int) {
			must.OK(t, os.Rename(path, fmt.Sprint(path, ".", round)))
		}, func() *received {
			for round := range rounds {
				text, err := os.ReadFile(fmt.Sprint(path, ".", round))
				must.OK(t, err)
				got.add(bytes.NewReader(text))
			}
			return got
		})
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		got, posts := &received{}, &atomic.Int64{}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch n := posts.Add(1) % 4; {
			case n < 2:
				w.WriteHeader(http.StatusServiceUnavailable)
			case n == 2: // it has the batch, but the sender does not learn of it
				got.add(r.Body)
				panic(http.ErrAbortHandler)
			default:
				got.add(r.Body)
			}
		}))
		t.Cleanup(server.Close)
		stream(t, logsink.Deps{Target: logsink.Target{Kind: "http", URL: server.URL}, Client: server.Client()}, nil, func() *received { return got })
	})
	t.Run("syslog", func(t *testing.T) {
		t.Parallel()
		got := &received{}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must.OK(t, err)
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for n := 0; ; n++ {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				reader := bufio.NewReader(conn)
				for messages := 0; ; messages++ {
					var size int
					if n%2 == 0 && messages == 3 { // it dies with unread messages
						_ = conn.(*net.TCPConn).SetLinger(0) //nolint:forcetypeassert // the listener is TCP
						break
					}
					if _, err := fmt.Fscanf(reader, "%d ", &size); err != nil {
						break
					}
					message := make([]byte, size)
					if _, err := io.ReadFull(reader, message); err != nil {
						break
					}
					_, text, _ := bytes.Cut(message, []byte(" - audit - "))
					got.add(bytes.NewReader(text))
				}
				_ = conn.Close()
			}
		}()
		stream(t, logsink.Deps{Target: logsink.Target{Kind: "syslog"}, Host: "node-1", Dial: func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String())
		}}, nil, func() *received { return got })
	})
}

const rounds = 3

// stream sends two logs to a receiver in rounds, with another process for each try. after may be nil.
func stream(t *testing.T, to logsink.Deps, after func(round int), got func() *received) {
	t.Helper()
	log, db, owner := newLog(t)
	for round := range rounds {
		for n := range 40 {
			must.OK(t, record(t.Context(), log, db, owner, n))
			must.OK(t, record(t.Context(), log, db, audit.Operators, n))
		}
		var failures []error
		for {
			one, _ := streamer(db, logsink.New(to))
			err := one.Round(t.Context())
			if err == nil {
				break
			}
			if failures = append(failures, err); len(failures) == 20 {
				t.Fatalf("round %d: %v", round, failures)
			}
		}
		if after != nil {
			after(round)
		} else if round == 0 && len(failures) == 0 {
			t.Error("the receiver never failed")
		}
	}
	all := got()
	all.expect(t, "organisation"+string(owner), 40*rounds)
	all.expect(t, "operators", 40*rounds)
	if names := len(all.logs); names != 2 {
		t.Errorf("%d logs: %v", names, slices.Sorted(maps.Keys(all.logs)))
	}
}
