// Package eventlogtest is the test suite that every implementation of eventlog.Log must pass. Start with Run.
package eventlogtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
)

// Fixture gives a test access to one log.
type Fixture struct {
	// Open opens the log as another process would. It is closed when the test ends.
	Open func() eventlog.Log
	// Lose deletes all data, like a broken disk.
	Lose func()
	// Restart kills the server and starts it again; nil if that is not possible.
	Restart func()
}

// patience is how long a step may take on a busy machine.
const patience = 30 * time.Second

// Run runs the suite. newLog makes an empty log with 256 buckets.
func Run(t *testing.T, newLog func(t *testing.T) Fixture) {
	t.Helper()
	for name, test := range map[string]func(testCase){
		"entries are in order and readable from any position": testCase.order,
		"entries arrive as they are published":                testCase.live,
		"acknowledged entries survive a restart":              testCase.durable,
		"an id is stored once":                                testCase.duplicates,
		"buckets do not mix":                                  testCase.buckets,
		"Reached advances for quiet buckets":                  testCase.quiet,
		"a lost log is noticed":                               testCase.lost,
		"a log that ends before the position is noticed":      testCase.truncated,
		"concurrent publishers lose and mix nothing":          testCase.concurrent,
		"entries may have the maximum size":                   testCase.big,
		"a closed reader returns ErrClosed":                   testCase.closed,
		"the records of a batcher are in order":               testCase.batches,
		"stored entries are trimmed, no others":               testCase.trimmed,
		"traced records keep their contexts":                  testCase.traced,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(testCase{t, newLog(t)})
		})
	}
}

// testCase is one test of the suite.
type testCase struct {
	*testing.T
	Fixture
}

func text(format string, args ...any) []byte { return fmt.Appendf(nil, format, args...) }

func publish(t *testing.T, log eventlog.Log, bucket int, data ...string) {
	t.Helper()
	for _, d := range data {
		if err := log.Publish(t.Context(), bucket, "id of "+strconv.Itoa(bucket)+" "+d, []byte(d)); err != nil {
			t.Fatal(err)
		}
	}
}

func open(t *testing.T, log eventlog.Log, after map[int]uint64) eventlog.Reader {
	t.Helper()
	r, err := log.Read(t.Context(), after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func state(t *testing.T, log eventlog.Log, bucket int) eventlog.State {
	t.Helper()
	s, err := log.State(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	all, err := log.States(t.Context(), []int{bucket + 1, bucket})
	if err != nil || len(all) != 2 || all[bucket].Epoch != s.Epoch || all[bucket].First != s.First {
		t.Fatalf("States of two buckets: %+v (%v), want %+v", all, err, s)
	}
	return s
}

// take reads exactly n entries, and checks their order and Reached.
func take(t *testing.T, r eventlog.Reader, n int) []eventlog.Entry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var list []eventlog.Entry
	for len(list) < n {
		found, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("after %d of %d entries: %v", len(list), n, err)
		}
		list = append(list, found...)
	}
	if len(list) > n {
		t.Fatalf("%d entries, want %d", len(list), n)
	}
	last := map[int]uint64{}
	for _, e := range list {
		if e.Seq <= last[e.Bucket] {
			t.Errorf("bucket %d: %d comes after %d", e.Bucket, e.Seq, last[e.Bucket])
		}
		last[e.Bucket] = e.Seq
	}
	for bucket, seq := range last {
		if got := r.Reached()[bucket]; got < seq {
			t.Errorf("bucket %d was read to %d, Reached is %d", bucket, seq, got)
		}
	}
	return list
}

func texts(list []eventlog.Entry) (all []string) {
	for _, e := range list {
		all = append(all, string(e.Data))
	}
	return all
}

// expectNoMore checks that there are no more entries: an entry that is published now is the next one.
func expectNoMore(t *testing.T, log eventlog.Log, r eventlog.Reader, bucket int) {
	t.Helper()
	publish(t, log, bucket, "the last one")
	if got := texts(take(t, r, 1)); got[0] != "the last one" {
		t.Errorf("unexpected entry %q", got)
	}
}

func (t testCase) order() {
	log := t.Open()
	var want []string
	for i := range 300 {
		want = append(want, strconv.Itoa(i))
	}
	publish(t.T, log, 7, want...)
	all := take(t.T, open(t.T, log, map[int]uint64{7: 0}), len(want))
	if !slices.Equal(texts(all), want) {
		t.Errorf("%v", texts(all))
	}
	for _, at := range []int{0, 1, 150, 298} {
		r := open(t.T, log, map[int]uint64{7: all[at].Seq})
		if got := texts(take(t.T, r, len(want)-at-1)); !slices.Equal(got, want[at+1:]) {
			t.Errorf("after entry %d: %v", at, got)
		}
	}
	r := open(t.T, log, map[int]uint64{7: all[299].Seq})
	expectNoMore(t.T, log, r, 7)
	if s := state(t.T, log, 7); s.First != all[0].Seq || s.Last < all[299].Seq || s.Epoch == "" {
		t.Errorf("%+v", s)
	}
}

func (t testCase) live() {
	log := t.Open()
	r := open(t.T, log, map[int]uint64{1: 0, 2: 0})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Next(over); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
	var wait sync.WaitGroup
	defer wait.Wait()
	for i := range 20 {
		wait.Go(func() {
			if err := log.Publish(t.Context(), 1+i%2, strconv.Itoa(i), text("%d", i)); err != nil {
				t.Error(err)
			}
		})
		if got := texts(take(t.T, r, 1)); got[0] != strconv.Itoa(i) {
			t.Errorf("%v, want %d", got, i)
		}
	}
}

func (t testCase) durable() {
	publish(t.T, t.Open(), 3, "a", "b", "c")
	before := state(t.T, t.Open(), 3)
	if t.Restart != nil {
		t.Restart()
	}
	log := t.Open()
	if got := texts(take(t.T, open(t.T, log, map[int]uint64{3: 0}), 3)); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("%v", got)
	}
	if after := state(t.T, log, 3); after != before {
		t.Errorf("%+v, before %+v", after, before)
	}
}

func (t testCase) duplicates() {
	one, two := t.Open(), t.Open()
	var wait sync.WaitGroup
	for i := range 20 {
		for _, log := range []eventlog.Log{one, two, one} {
			wait.Go(func() {
				if err := log.Publish(t.Context(), 5, "same "+strconv.Itoa(i), text("%d", i)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wait.Wait()
	r := open(t.T, one, map[int]uint64{5: 0})
	seen := map[string]bool{}
	for _, e := range take(t.T, r, 20) {
		seen[string(e.Data)] = true
	}
	if len(seen) != 20 {
		t.Errorf("%d different entries, want 20", len(seen))
	}
	publish(t.T, two, 5, "other")
	if got := texts(take(t.T, r, 1)); got[0] != "other" {
		t.Errorf("%v", got)
	}
	expectNoMore(t.T, one, r, 5)
}

func (t testCase) buckets() {
	log := t.Open()
	const each = 3
	var wait sync.WaitGroup
	for bucket := range 256 {
		wait.Go(func() {
			for i := range each {
				if err := log.Publish(t.Context(), bucket, fmt.Sprintf("%d.%d", bucket, i), text("%d.%d", bucket, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	every, some := map[int]uint64{}, map[int]uint64{0: 0, 17: 0, 100: 0, 255: 0}
	for bucket := range 256 {
		every[bucket] = 0
	}
	for _, wanted := range []map[int]uint64{every, some} {
		count := map[int]int{}
		for _, e := range take(t.T, open(t.T, log, wanted), each*len(wanted)) {
			if want := fmt.Sprintf("%d.%d", e.Bucket, count[e.Bucket]); string(e.Data) != want {
				t.Errorf("bucket %d: %s, want %s", e.Bucket, e.Data, want)
			}
			count[e.Bucket]++
		}
	}
	// Each bucket has its own position.
	first := take(t.T, open(t.T, log, some), each*len(some))
	mixed := map[int]uint64{0: 0}
	for _, e := range first {
		if e.Bucket == 17 || e.Bucket == 100 && string(e.Data) == "100.1" {
			mixed[e.Bucket] = e.Seq
		}
	}
	got := texts(take(t.T, open(t.T, log, mixed), each+1))
	slices.Sort(got)
	if !slices.Equal(got, []string{"0.0", "0.1", "0.2", "100.2"}) {
		t.Errorf("%v", got)
	}
}

func (t testCase) quiet() {
	log := t.Open()
	r := open(t.T, log, map[int]uint64{8: 0, 9: 0})
	publish(t.T, log, 8, "mine")
	take(t.T, r, 1)
	for i := range 50 {
		publish(t.T, log, 200, "others' "+strconv.Itoa(i))
	}
	want := map[int]uint64{8: state(t.T, log, 8).Last, 9: state(t.T, log, 9).Last}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		look, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		found, err := r.Next(look)
		stop()
		if len(found) > 0 || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v, %v", found, err)
		}
		if got := r.Reached(); got[8] >= want[8] && got[9] >= want[9] {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("reached %v, want %v", r.Reached(), want)
		}
	}
	// A reader that continues from there gets all new entries.
	again := open(t.T, log, r.Reached())
	publish(t.T, log, 9, "new")
	if got := texts(take(t.T, again, 1)); got[0] != "new" {
		t.Errorf("%v", got)
	}
}

func (t testCase) lost() {
	log := t.Open()
	publish(t.T, log, 1, "a", "b", "c", "d")
	before := state(t.T, log, 1)
	r := open(t.T, log, map[int]uint64{1: 0})
	take(t.T, r, 4)
	t.Lose()
	awaitLost(t.T, r)
	if _, err := r.Next(t.Context()); !errors.Is(err, eventlog.ErrLost) {
		t.Errorf("second call of Next: %v", err)
	}
	// Publishing works again, in a log with another epoch.
	if err := log.Publish(t.Context(), 1, "new", []byte("new")); err != nil {
		t.Fatal(err)
	}
	if after := state(t.T, log, 1); after.Epoch == before.Epoch || after.Epoch == "" {
		t.Errorf("%+v, before %+v", after, before)
	}
	if got := texts(take(t.T, open(t.T, log, map[int]uint64{1: 0}), 1)); got[0] != "new" {
		t.Errorf("%v", got)
	}
}

func awaitLost(t *testing.T, r eventlog.Reader) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if found, err := r.Next(ctx); !errors.Is(err, eventlog.ErrLost) {
		t.Fatalf("%v, %v", found, err)
	}
}

func (t testCase) truncated() {
	log := t.Open()
	publish(t.T, log, 1, "a", "b")
	awaitLost(t.T, open(t.T, log, map[int]uint64{1: state(t.T, log, 1).Last + 10, 2: 0}))
}

func (t testCase) concurrent() {
	logs := []eventlog.Log{t.Open(), t.Open()}
	const publishers, each = 12, 25
	r := open(t.T, logs[0], map[int]uint64{0: 0, 1: 0, 2: 0})
	var wait sync.WaitGroup
	defer wait.Wait()
	for p := range publishers {
		wait.Go(func() {
			for i := range each {
				if err := logs[p%2].Publish(t.Context(), p%3, fmt.Sprintf("%d/%d", p, i), text("%d/%d", p, i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	next := map[string]int{}
	for _, e := range take(t.T, r, publishers*each) {
		who, n, _ := bytes.Cut(e.Data, []byte("/"))
		if string(n) != strconv.Itoa(next[string(who)]) {
			t.Errorf("publisher %s: %s, want %d", who, n, next[string(who)])
		}
		next[string(who)]++
	}
}

func (t testCase) big() {
	log := t.Open()
	const n = 12
	data := make([]byte, eventlog.MaxData)
	for i := range data {
		data[i] = byte(i * i >> 5)
	}
	for i := range n {
		data[0] = byte(i)
		if err := log.Publish(t.Context(), 4, strconv.Itoa(i), data); err != nil {
			t.Fatal(err)
		}
	}
	for i, e := range take(t.T, open(t.T, log, map[int]uint64{4: 0}), n) {
		if e.Data[0] != byte(i) || !bytes.Equal(e.Data[1:], data[1:]) {
			t.Errorf("entry %d has other data", i)
		}
	}
	if err := log.Publish(t.Context(), 4, "too big", make([]byte, eventlog.MaxData+1)); !errors.Is(err, eventlog.ErrTooBig) {
		t.Errorf("an entry over the maximum size: %v", err)
	}
}

func (t testCase) closed() {
	log := t.Open()
	r := open(t.T, log, map[int]uint64{1: 0})
	r.Close()
	publish(t.T, log, 1, "a")
	if found, err := r.Next(t.Context()); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("%v, %v", found, err)
	}
}

func (t testCase) trimmed() {
	log := t.Open()
	publish(t.T, log, 1, "a", "b", "c", "d", "e")
	publish(t.T, log, 2, "f", "g")
	all := take(t.T, open(t.T, log, map[int]uint64{1: 0}), 5)
	upTo := map[int]uint64{}
	for bucket := range 256 {
		upTo[bucket] = state(t.T, log, bucket).Last
	}
	delete(upTo, 1) // of a bucket that is not mentioned nothing is dropped
	if err := log.Trim(t.Context(), upTo); err != nil {
		t.Fatal(err)
	}
	take(t.T, open(t.T, log, map[int]uint64{1: 0}), 5)
	upTo[1] = all[2].Seq
	if err := log.Trim(t.Context(), upTo); err != nil {
		t.Fatal(err)
	}
	for _, after := range []uint64{0, all[0].Seq, all[2].Seq} {
		r := open(t.T, log, map[int]uint64{1: after})
		if got := texts(take(t.T, r, 2)); !slices.Equal(got, []string{"d", "e"}) {
			t.Errorf("after %d: %v", after, got)
		}
	}
	if s := state(t.T, log, 1); s.First != all[3].Seq || s.Last < all[4].Seq {
		t.Errorf("%+v", s)
	}
	upTo[1] = all[4].Seq
	if err := log.Trim(t.Context(), upTo); err != nil {
		t.Fatal(err)
	}
	expectNoMore(t.T, log, open(t.T, log, map[int]uint64{1: 0}), 1)
}

// traced publishes records of which some are traced, more than fit into the headers of an entry.
func (t testCase) traced() {
	log := t.Open()
	b := eventlog.NewBatcher(log)
	const records = 300
	contextOf := func(i int) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1, byte(i >> 8), byte(i)}, SpanID: trace.SpanID{2, byte(i)}, TraceFlags: trace.TraceFlags(i % 2), Remote: true,
		})
	}
	for i := range records {
		if err := b.Add(trace.ContextWithRemoteSpanContext(t.Context(), contextOf(i)), 1, text("%d", i), func(error) {}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := open(t.T, log, map[int]uint64{1: 0})
	for found, traces := 0, 0; found < records || traces == 0; {
		list, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			var numbers []string
			for record := range eventlog.SplitBatch(e.Data) {
				numbers = append(numbers, string(record))
			}
			found += len(numbers)
			traces += len(e.Traces)
			if len(e.Traces) != min(64, len(sampledOf(numbers))) {
				t.Errorf("an entry of %d records has %d traces", len(numbers), len(e.Traces))
			}
			for _, of := range e.Traces {
				if i, _ := strconv.Atoi(numbers[of.Record]); i%2 == 0 || !of.Context.Equal(contextOf(i)) {
					t.Errorf("record %d has the context %v", i, of.Context)
				}
			}
		}
	}
}

// sampledOf returns the records of traced that are sampled: the odd ones.
func sampledOf(numbers []string) (list []string) {
	for _, text := range numbers {
		if i, _ := strconv.Atoi(text); i%2 == 1 {
			list = append(list, text)
		}
	}
	return list
}

func (t testCase) batches() {
	log := t.Open()
	b := eventlog.NewBatcher(log)
	const records = 2000
	acked := make(chan int, records)
	for i := range records {
		record := append(text("%d ", i), make([]byte, i%500)...)
		err := b.Add(t.Context(), i%3, record, func(err error) {
			if err != nil {
				t.Error(err)
			}
			acked <- i
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	last := map[int]int{0: -1, 1: -1, 2: -1}
	for range records {
		if i := <-acked; i <= last[i%3] {
			t.Errorf("%d was acknowledged after %d", i, last[i%3])
		} else {
			last[i%3] = i
		}
	}
	r := open(t.T, log, map[int]uint64{0: 0, 1: 0, 2: 0})
	next, entries := map[int]int{0: 0, 1: 1, 2: 2}, 0
	for found := 0; found < records; {
		list, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		entries += len(list)
		for _, e := range list {
			for record := range eventlog.SplitBatch(e.Data) {
				number, _, _ := bytes.Cut(record, []byte(" "))
				if string(number) != strconv.Itoa(next[e.Bucket]) {
					t.Fatalf("bucket %d: %s, want %d", e.Bucket, number, next[e.Bucket])
				}
				next[e.Bucket] += 3
				found++
			}
		}
	}
	if entries > records/2 {
		t.Errorf("%d records took %d entries", records, entries)
	}
}
