package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
)

// writers publish numbered records by a Batcher, each writer in order, until they are told to stop.
type writers struct {
	batcher *eventlog.Batcher
	wait    sync.WaitGroup
	stop    chan struct{}
	acked   []atomic.Int64 // how many of each writer's
}

const buckets = 8

func startWriters(t *testing.T, log eventlog.Log, n int) *writers {
	t.Helper()
	b := eventlog.NewBatcher(log)
	w := &writers{batcher: b, stop: make(chan struct{}), acked: make([]atomic.Int64, n)}
	for i := range n {
		w.wait.Go(func() {
			slots := make(chan struct{}, 20) // how much may be on its way
			for k := 0; ; k++ {
				select {
				case <-w.stop:
					return
				case slots <- struct{}{}:
				}
				err := b.Add(t.Context(), i%buckets, fmt.Appendf(nil, "%d/%d", i, k), func(err error) {
					if err != nil {
						t.Errorf("writer %d: %v", i, err)
					}
					w.acked[i].Add(1)
					<-slots
				})
				if err != nil {
					t.Errorf("writer %d: %v", i, err)
					return
				}
			}
		})
	}
	return w
}

// end waits until everything is acknowledged, and says how many records there are.
func (w *writers) end(t *testing.T) (sum int) {
	t.Helper()
	close(w.stop)
	w.wait.Wait()
	if err := w.batcher.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return w.sum()
}

func (w *writers) sum() (sum int) {
	for i := range w.acked {
		sum += int(w.acked[i].Load())
	}
	return sum
}

// follow reads records until it has seen all of n, and fails for one that is out of order, twice there, or missing.
func follow(t *testing.T, r eventlog.Reader, writers int, n func() int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	next, seen := make([]int, writers), 0
	for seen < n() {
		look, stop := context.WithTimeout(ctx, 200*time.Millisecond)
		list, err := r.Next(look)
		stop()
		if err != nil && (ctx.Err() != nil || look.Err() == nil) {
			t.Errorf("after %d of %d: %v", seen, n(), err)
			return
		}
		for _, e := range list {
			for record := range eventlog.SplitBatch(e.Data) {
				who, number, _ := strings.Cut(string(record), "/")
				i, _ := strconv.Atoi(who)
				if number != strconv.Itoa(next[i]) {
					t.Errorf("writer %d: %s, want %d", i, number, next[i])
					return
				}
				next[i]++
				seen++
			}
		}
	}
}

func all(n int) map[int]uint64 {
	after := map[int]uint64{}
	for i := range n {
		after[i] = 0
	}
	return after
}

// A cluster loses its leader by kill -9 again and again while records are published: none that was acknowledged is lost, none is there
// twice, all are in order, for one who follows all the time and for one who reads later.
func TestAClusterLosesNothingWithItsLeader(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes most of a minute")
	}
	cluster := testenv.NATSCluster(t, 3)
	config := eventlog.Config{URL: cluster.URL, Replicas: 3, Patience: 40 * time.Second} // a machine of two cores chooses slowly
	log := open(t, config)
	js := admin(t, cluster.URL)
	if _, err := log.State(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	const n = 16
	w := startWriters(t, log, n)
	live, err := open(t, config).Read(t.Context(), all(buckets))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	var total atomic.Int64
	total.Store(1 << 40)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		follow(t, live, n, func() int { return int(total.Load()) })
	}()
	for range 2 {
		leader, at := cluster.Node(leaderOf(t, js))
		advance(t, w, w.sum()+1000)
		before := w.sum()
		leader.Kill()
		start := time.Now()
		advance(t, w, before+200)
		t.Logf("server n%d killed after %d records; 200 more took %v", at, before, time.Since(start).Round(time.Millisecond))
		leader.Start()
		cluster.Ready(at)
	}
	sum := w.end(t)
	total.Store(int64(sum))
	<-followed
	later, err := log.Read(t.Context(), all(buckets))
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	follow(t, later, n, func() int { return sum })
	t.Logf("%d records", sum)
}

func leaderOf(t *testing.T, js jetstream.JetStream) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		stream, err := js.Stream(ctx, "EVT_00")
		if err == nil && stream.CachedInfo().Cluster.Leader != "" {
			return stream.CachedInfo().Cluster.Leader
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no leader: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// advance waits until so many records are acknowledged.
func advance(t *testing.T, w *writers, to int) {
	t.Helper()
	over, look := time.After(time.Minute), time.NewTicker(5*time.Millisecond)
	defer look.Stop()
	for w.sum() < to {
		select {
		case <-look.C:
		case <-over:
			t.Fatalf("%d records after a minute, want %d", w.sum(), to)
		}
	}
}

// A single server is killed again and again, and readers and writers go on as if nothing had been.
func TestAServerThatRestartsLosesNothing(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateJetStream(t)
	log := open(t, eventlog.Config{URL: server.URL})
	const n = 16
	w := startWriters(t, log, n)
	r, err := log.Read(t.Context(), map[int]uint64{0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 0, 7: 0})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var total atomic.Int64
	total.Store(1 << 40)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		follow(t, r, n, func() int { return int(total.Load()) })
	}()
	for range 3 {
		advance(t, w, w.sum()+1000)
		server.Kill()
		server.Start()
	}
	advance(t, w, w.sum()+1000)
	total.Store(int64(w.end(t)))
	<-followed
}

// Entries that the server has sent and that did not arrive are asked for again, also if they were the last ones.
func TestEntriesLostOnTheWayAreReadAgain(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateJetStream(t)
	log := open(t, eventlog.Config{URL: server.URL})
	js := admin(t, server.URL)
	r, err := log.Read(t.Context(), map[int]uint64{1: 0})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := log.Publish(t.Context(), 1, "first", []byte("0")); err != nil {
		t.Fatal(err)
	}
	if list, err := r.Next(t.Context()); err != nil || len(list) != 1 { // now there is a consumer
		t.Fatalf("%v, %v", list, err)
	}
	stream, err := js.Stream(t.Context(), "EVT_00")
	if err != nil {
		t.Fatal(err)
	}
	name := <-stream.ConsumerNames(t.Context()).Name()
	thief, err := stream.Consumer(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	stolen, err := thief.Fetch(100, jetstream.FetchMaxWait(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	const n = 150 // more than the reader asks for at once: the rest goes to the thief
	for i := 1; i <= n; i++ {
		if err := log.Publish(t.Context(), 1, strconv.Itoa(i), []byte(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	if m := <-stolen.Messages(); m == nil {
		t.Fatalf("nothing was stolen: %v", stolen.Error())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for next := 1; next <= n; {
		list, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("after %d: %v", next-1, err)
		}
		for _, e := range list {
			if string(e.Data) != strconv.Itoa(next) {
				t.Fatalf("%s, want %d", e.Data, next)
			}
			next++
		}
	}
}

// A disk that was put back to an earlier day is noticed, though it is the same log: whatever was read beyond its end is not there.
func TestALogThatWentBackIsNoticed(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateJetStream(t)
	log := open(t, eventlog.Config{URL: server.URL})
	publish := func(from, to int) {
		for i := from; i < to; i++ {
			if err := log.Publish(t.Context(), 1, strconv.Itoa(i), []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish(0, 5)
	server.Kill()
	old := t.TempDir()
	if err := os.CopyFS(old, os.DirFS(server.Dir)); err != nil {
		t.Fatal(err)
	}
	server.Start()
	publish(5, 10)
	r, err := log.Read(t.Context(), map[int]uint64{1: 0})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for n := 0; n < 10; {
		list, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n += len(list)
	}
	server.Kill()
	if err := os.RemoveAll(filepath.Join(server.Dir, "jetstream")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(server.Dir, os.DirFS(old)); err != nil {
		t.Fatal(err)
	}
	server.Start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if list, err := r.Next(ctx); !errors.Is(err, eventlog.ErrLost) {
		t.Errorf("%v, %v", list, err)
	}
}

// While there is no server, Publish gives up after its patience, and not before; Read and State say so.
func TestWithoutAServer(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateJetStream(t)
	log := open(t, eventlog.Config{URL: server.URL, Patience: 700 * time.Millisecond})
	if err := log.Publish(t.Context(), 1, "a", []byte("a")); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	start := time.Now()
	if err := log.Publish(t.Context(), 1, "b", []byte("b")); err == nil {
		t.Error("published to nobody")
	}
	if took := time.Since(start); took < 600*time.Millisecond || proof.Running() && took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if _, err := log.State(t.Context(), 1); err == nil {
		t.Error("the state of nothing")
	}
	if _, err := log.Read(t.Context(), map[int]uint64{1: 0}); err == nil {
		t.Error("read of nothing")
	}
	if _, err := eventlog.Open(eventlog.Config{URL: server.URL, Name: "another"}); err != nil {
		t.Errorf("a node does not start without the server: %v", err)
	}
}

// A stream that is there is adjusted to the settings, and what an operator has set beyond them stays.
func TestAStreamIsAdjusted(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateJetStream(t)
	js := admin(t, server.URL)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "EVT_00", Subjects: []string{"evt.old"}, MaxAge: time.Hour, Metadata: map[string]string{"team": "events"},
	}); err != nil {
		t.Fatal(err)
	}
	log := open(t, eventlog.Config{URL: server.URL, MaxBytes: 64 << 20})
	before, err := log.State(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Publish(t.Context(), 1, "a", []byte("a")); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "EVT_00")
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	if c.MaxAge != 72*time.Hour || c.MaxBytes != 64<<20 || c.Compression != jetstream.NoCompression || c.Duplicates != 2*time.Minute || c.MaxMsgSize != 1<<20 ||
		!c.AllowDirect || c.Metadata["team"] != "events" || c.Storage != jetstream.FileStorage {
		t.Errorf("%+v", c)
	}
	if after, err := log.State(t.Context(), 1); err != nil || after.Epoch != before.Epoch {
		t.Errorf("%+v, %v", after, err)
	}
}

// The log in PostgreSQL drops what is too old, and readers that stand before that go on behind it.
func TestPostgresDropsWhatIsTooOld(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	log := eventlog.NewPostgres(db, eventlog.Config{MaxAge: time.Hour})
	for i := range 5 {
		if err := log.Publish(t.Context(), 1, strconv.Itoa(i), []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Pool().Exec(t.Context(), "UPDATE eventlog_entry SET at = now() - interval '61 minutes' WHERE seq < 4"); err != nil {
		t.Fatal(err)
	}
	if err := log.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := log.State(t.Context(), 1)
	if err != nil || s.First != 4 || s.Last != 5 {
		t.Errorf("%+v, %v", s, err)
	}
	r, err := log.Read(t.Context(), map[int]uint64{1: 1})
	if err != nil {
		t.Fatal(err)
	}
	list, err := r.Next(t.Context())
	if err != nil || len(list) != 2 || list[0].Seq != 4 {
		t.Errorf("%v, %v", list, err)
	}
}
