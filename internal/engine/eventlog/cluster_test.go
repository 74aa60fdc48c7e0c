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
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
)

// writers publish numbered records through a Batcher, each writer in order, until stop is closed.
type writers struct {
	batcher *eventlog.Batcher
	wait    sync.WaitGroup
	stop    chan struct{}
	acked   []atomic.Int64 // number of acknowledged records per writer
}

const buckets = 8

func startWriters(t *testing.T, log eventlog.Log, n int) *writers {
	t.Helper()
	b := eventlog.NewBatcher(log)
	w := &writers{batcher: b, stop: make(chan struct{}), acked: make([]atomic.Int64, n)}
	for i := range n {
		w.wait.Go(func() {
			slots := make(chan struct{}, 20) // limits unacknowledged records
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

// finish stops the writers, waits until everything is acknowledged, and returns the number of records.
func (w *writers) finish(t *testing.T) (sum int) {
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

// follow reads records until it has seen n of them. It fails for a record that is out of order, duplicate or missing.
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
			t.Errorf("after %d of %d records: %v", seen, n(), err)
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

// all returns the start positions of n buckets.
func all(n int) map[int]uint64 {
	after := map[int]uint64{}
	for i := range n {
		after[i] = 0
	}
	return after
}

// A cluster loses its leader to kill -9 repeatedly while records are published. No acknowledged record is lost or
// duplicated, and all are in order, both for a reader that follows the whole time and for one that reads later.
func TestAClusterLosesNothingWithItsLeader(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes most of a minute")
	}
	cluster := testenv.NATSCluster(t, 3)
	// An election is slow on a machine with two cores.
	config := eventlog.Config{URL: cluster.URL, Replicas: 3, Patience: 40 * time.Second}
	log := open(t, config)
	js := admin(t, cluster.URL)
	if _, err := log.State(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	const n = 16
	w := startWriters(t, log, n)
	live, err := open(t, config).Read(t.Context(), all(buckets))
	must.OK(t, err)
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
	sum := w.finish(t)
	total.Store(int64(sum))
	<-followed
	later, err := log.Read(t.Context(), all(buckets))
	must.OK(t, err)
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

// advance waits until a number of records is acknowledged.
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

// A single server is killed repeatedly, and readers and writers lose nothing.
func TestAServerThatRestartsLosesNothing(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateJetStream(t)
	log := open(t, eventlog.Config{URL: server.URL})
	const n = 16
	w := startWriters(t, log, n)
	r, err := log.Read(t.Context(), map[int]uint64{0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 0, 7: 0})
	must.OK(t, err)
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
	total.Store(int64(w.finish(t)))
	<-followed
}

// Entries that the server sent but that did not arrive are read again, even if they were the last ones.
func TestEntriesLostInTransitAreReadAgain(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateJetStream(t)
	log := open(t, eventlog.Config{URL: server.URL})
	js := admin(t, server.URL)
	r, err := log.Read(t.Context(), map[int]uint64{1: 0})
	must.OK(t, err)
	defer r.Close()
	must.OK(t, log.Publish(t.Context(), 1, "first", []byte("0")))
	if list, err := r.Next(t.Context()); err != nil || len(list) != 1 { // now the reader has a consumer
		t.Fatalf("%v, %v", list, err)
	}
	stream, err := js.Stream(t.Context(), "EVT_00")
	must.OK(t, err)
	name := <-stream.ConsumerNames(t.Context()).Name()
	thief, err := stream.Consumer(t.Context(), name)
	must.OK(t, err)
	stolen, err := thief.Fetch(100, jetstream.FetchMaxWait(10*time.Second))
	must.OK(t, err)
	const n = 150 // more than one fetch of the reader: the rest goes to the thief
	for i := 1; i <= n; i++ {
		must.OK(t, log.Publish(t.Context(), 1, strconv.Itoa(i), []byte(strconv.Itoa(i))))
	}
	if m := <-stolen.Messages(); m == nil {
		t.Fatalf("nothing was stolen: %v", stolen.Error())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for next := 1; next <= n; {
		list, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("after entry %d: %v", next-1, err)
		}
		for _, e := range list {
			if string(e.Data) != strconv.Itoa(next) {
				t.Fatalf("%s, want %d", e.Data, next)
			}
			next++
		}
	}
}

// A disk that was restored from an old backup is noticed although the log has the same epoch: it ends before what was
// read.
func TestALogRestoredFromABackupIsNoticed(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateJetStream(t)
	log := open(t, eventlog.Config{URL: server.URL})
	publish := func(from, to int) {
		for i := from; i < to; i++ {
			must.OK(t, log.Publish(t.Context(), 1, strconv.Itoa(i), []byte("x")))
		}
	}
	publish(0, 5)
	server.Kill()
	backup := t.TempDir()
	must.OK(t, os.CopyFS(backup, os.DirFS(server.Dir)))
	server.Start()
	publish(5, 10)
	r, err := log.Read(t.Context(), map[int]uint64{1: 0})
	must.OK(t, err)
	defer r.Close()
	for n := 0; n < 10; {
		list, err := r.Next(t.Context())
		must.OK(t, err)
		n += len(list)
	}
	server.Kill()
	must.OK(t, os.RemoveAll(filepath.Join(server.Dir, "jetstream")))
	must.OK(t, os.CopyFS(server.Dir, os.DirFS(backup)))
	server.Start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if list, err := r.Next(ctx); !errors.Is(err, eventlog.ErrLost) {
		t.Errorf("%v, %v", list, err)
	}
}

// Without a server, Publish fails after Patience and not before. Read and State fail, and Open succeeds.
func TestWithoutAServer(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateJetStream(t)
	log := open(t, eventlog.Config{URL: server.URL, Patience: 700 * time.Millisecond})
	must.OK(t, log.Publish(t.Context(), 1, "a", []byte("a")))
	server.Kill()
	start := time.Now()
	if err := log.Publish(t.Context(), 1, "b", []byte("b")); err == nil {
		t.Error("Publish succeeded")
	}
	if took := time.Since(start); took < 600*time.Millisecond || proof.Running() && took > 10*time.Second {
		t.Errorf("Publish took %v", took)
	}
	if _, err := log.State(t.Context(), 1); err == nil {
		t.Error("State succeeded")
	}
	if _, err := log.Read(t.Context(), map[int]uint64{1: 0}); err == nil {
		t.Error("Read succeeded")
	}
	if _, err := eventlog.Open(eventlog.Config{URL: server.URL, Name: "another"}); err != nil {
		t.Errorf("Open fails without the server: %v", err)
	}
}

// An existing stream is adjusted to the settings. Other settings of an operator are kept.
func TestAnExistingStreamIsAdjusted(t *testing.T) {
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
	must.OK(t, err)
	must.OK(t, log.Publish(t.Context(), 1, "a", []byte("a")))
	stream, err := js.Stream(t.Context(), "EVT_00")
	must.OK(t, err)
	c := stream.CachedInfo().Config
	if c.MaxAge != 0 || c.Discard != jetstream.DiscardNew || c.MaxBytes != 64<<20 || c.Compression != jetstream.NoCompression || c.Duplicates != 2*time.Minute || c.MaxMsgSize != 1<<20 ||
		!c.AllowDirect || c.Metadata["team"] != "events" || c.Storage != jetstream.FileStorage {
		t.Errorf("%+v", c)
	}
	if after, err := log.State(t.Context(), 1); err != nil || after.Epoch != before.Epoch {
		t.Errorf("%+v, %v", after, err)
	}
}

// The probe fails while the server does not write, and entries that it leaves disturb no reader.
func TestProbeFailsWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateJetStream(t)
	log := open(t, eventlog.Config{URL: server.URL})
	must.OK(t, log.Probe(t.Context()))
	must.OK(t, log.Publish(t.Context(), 1, "a", []byte("a")))
	must.OK(t, log.Probe(t.Context()))
	reader, err := log.Read(t.Context(), map[int]uint64{1: 0})
	must.OK(t, err)
	t.Cleanup(reader.Close)
	list, err := reader.Next(t.Context())
	for err == nil && len(list) == 0 { // what a probe has left is no entry
		list, err = reader.Next(t.Context())
	}
	if err != nil || len(list) != 1 || string(list[0].Data) != "a" {
		t.Fatalf("%v, %v", list, err)
	}
	server.Kill()
	if err := log.Probe(t.Context()); err == nil {
		t.Fatal("the probe succeeds without a server")
	}
}

// A full log refuses entries and drops none. It accepts entries again when others are stored, also if a bucket without
// entries has not been read for long.
func TestAFullLogRefusesEntries(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateJetStream(t)
	log := open(t, eventlog.Config{URL: server.URL, MaxBytes: 4 << 20, Patience: 5 * time.Second})
	var (
		err       error
		published int
		data      = make([]byte, 256<<10)
	)
	for ; err == nil; published++ {
		err = log.Publish(t.Context(), 1, strconv.Itoa(published), data)
	}
	published-- // the last one was refused
	if !errors.Is(err, eventlog.ErrFull) || published < 10 {
		t.Fatalf("after %d entries: %v", published, err)
	}
	reader, err := log.Read(t.Context(), map[int]uint64{1: 0})
	must.OK(t, err)
	t.Cleanup(reader.Close)
	var last uint64
	for read := 0; read < published; {
		list, err := reader.Next(t.Context())
		must.OK(t, err)
		read += len(list)
		last = list[len(list)-1].Seq
	}
	if state, err := log.State(t.Context(), 1); err != nil || state.First != 1 || state.Used < 0.9 || state.Used > 1 {
		t.Fatalf("%+v, %v", state, err)
	}
	must.OK(t, log.Trim(t.Context(), map[int]uint64{1: last - 1})) // no other bucket has been read
	must.OK(t, log.Publish(t.Context(), 1, "another", data))
	if state, err := log.State(t.Context(), 1); err != nil || state.First != last {
		t.Fatalf("the log begins at %d, want %d (%v)", state.First, last, err)
	}
}
