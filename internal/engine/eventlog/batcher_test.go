package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// slowLog is a log whose publishes end when the test allows it.
type slowLog struct {
	eventlog.Log
	// started receives the data of each publish as it starts, and results has what it returns.
	started chan []byte
	results chan error
	mu      sync.Mutex
	ids     []string
}

func newSlowLog() *slowLog {
	return &slowLog{started: make(chan []byte), results: make(chan error)}
}

func (l *slowLog) Publish(ctx context.Context, _ int, id string, data []byte, _ ...eventlog.Trace) error {
	l.mu.Lock()
	l.ids = append(l.ids, id)
	l.mu.Unlock()
	select {
	case l.started <- bytes.Clone(data):
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-l.results:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func records(data []byte) (list []string) {
	for r := range eventlog.SplitBatch(data) {
		list = append(list, string(r))
	}
	return list
}

// Records that arrive during a publish go into the next entry, in order. No callback runs before its record is stored.
func TestRecordsAreGroupedWhileOthersArePublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := newSlowLog()
		b := eventlog.NewBatcher(log)
		var done []string
		add := func(text string) {
			record := []byte(text)
			must.OK(t, b.Add(t.Context(), 1, record, func(err error) { done = append(done, fmt.Sprint(text, err)) }))
			clear(record) // Add has taken a copy
		}
		add("a")
		if got := records(<-log.started); !slices.Equal(got, []string{"a"}) {
			t.Errorf("%q", got)
		}
		add("b")
		add("")
		add("c")
		synctest.Wait()
		if done != nil {
			t.Errorf("done too early: %v", done)
		}
		log.results <- nil
		if got := records(<-log.started); !slices.Equal(got, []string{"b", "", "c"}) {
			t.Errorf("%q", got)
		}
		if !slices.Equal(done, []string{"a<nil>"}) {
			t.Errorf("%v", done)
		}
		log.results <- nil
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if !slices.Equal(done, []string{"a<nil>", "b<nil>", "<nil>", "c<nil>"}) {
			t.Errorf("%v", done)
		}
		if len(log.ids) != 2 || log.ids[0] == log.ids[1] {
			t.Errorf("%v", log.ids)
		}
		if err := b.Add(t.Context(), 1, nil, nil); !errors.Is(err, eventlog.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// When a publish fails, all waiting records of the bucket fail too, in order, and so does the next Add. Later the
// bucket accepts records again. Other buckets are not affected.
func TestNothingIsStoredAfterAFailedRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := newSlowLog()
		b := eventlog.NewBatcher(log)
		broken := errors.New("broken")
		var failed []int
		big := make([]byte, 400<<10) // one per batch
		for i := range 5 {
			if err := b.Add(t.Context(), 1, big, func(err error) {
				if errors.Is(err, broken) {
					failed = append(failed, i)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		<-log.started
		log.results <- broken
		synctest.Wait()
		if !slices.Equal(failed, []int{0, 1, 2, 3, 4}) {
			t.Errorf("%v", failed)
		}
		if err := b.Add(t.Context(), 1, nil, nil); !errors.Is(err, broken) {
			t.Errorf("immediately after the failure: %v", err)
		}
		other := make(chan error, 1)
		if err := b.Add(t.Context(), 2, nil, func(err error) { other <- err }); err != nil {
			t.Errorf("another bucket: %v", err)
		}
		<-log.started
		log.results <- nil
		if err := <-other; err != nil {
			t.Error(err)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if err := b.Add(t.Context(), 1, []byte("x"), func(err error) { other <- err }); err != nil {
			t.Errorf("after the cool-off: %v", err)
		}
		<-log.started
		log.results <- nil
		if err := <-other; err != nil {
			t.Error(err)
		}
	})
}

// Add waits while more than 4 MiB of a bucket are unpublished: until there is room, its context ends, or a publish
// fails.
func TestAddWaitsForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := newSlowLog()
		b := eventlog.NewBatcher(log)
		record := make([]byte, 256<<10)
		var added atomic.Int32
		fill := func(ctx context.Context, n int) chan error {
			result := make(chan error, 1)
			go func() {
				for range n {
					if err := b.Add(ctx, 1, record, func(error) {}); err != nil {
						result <- err
						return
					}
					added.Add(1)
				}
				result <- nil
			}()
			synctest.Wait()
			return result
		}
		first := fill(t.Context(), 20)
		if n := added.Load(); n != 16 {
			t.Errorf("%d records of 256 KiB were accepted, want 16", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		second := fill(ctx, 1)
		cancel()
		if err := <-second; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		for range 4 { // one record per batch: two do not fit with their length prefixes
			<-log.started
			log.results <- nil
			synctest.Wait()
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
		third := fill(t.Context(), 100)
		<-log.started
		log.results <- errors.New("broken")
		if err := <-third; err == nil {
			t.Error("a record that waited during a failure was accepted")
		}
	})
}

// When the context of Close ends, all unpublished records fail.
func TestCloseDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := eventlog.NewBatcher(newSlowLog())
		var failed atomic.Int32 // three buckets, each with its own goroutine
		for i := range 30 {
			if err := b.Add(t.Context(), i%3, []byte("x"), func(err error) {
				if err != nil {
					failed.Add(1)
				}
			}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if n := failed.Load(); n != 30 {
			t.Errorf("%d of 30 failed", n)
		}
	})
}

// A record of the maximum size fits into an entry; a longer one is rejected.
func TestTheLargestRecordFits(t *testing.T) {
	t.Parallel()
	log := newSlowLog()
	b := eventlog.NewBatcher(log)
	if err := b.Add(t.Context(), 1, make([]byte, eventlog.MaxRecord+1), nil); !errors.Is(err, eventlog.ErrTooBig) {
		t.Errorf("%v", err)
	}
	must.OK(t, b.Add(t.Context(), 1, make([]byte, eventlog.MaxRecord), func(error) {}))
	if data := <-log.started; len(data) > eventlog.MaxData || len(records(data)[0]) != eventlog.MaxRecord {
		t.Errorf("%d bytes", len(data))
	}
	log.results <- nil
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// SplitBatch accepts any bytes, and returns the records of a batch unchanged.
func FuzzSplitBatch(f *testing.F) {
	f.Add([]byte("\x01a\x00\x02bc"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		sum := 0
		for r := range eventlog.SplitBatch(data) {
			sum += len(r) + 1
		}
		if sum > len(data)*2 {
			t.Errorf("%d bytes of records in %d bytes of data", sum, len(data))
		}
		var want []string
		for i := 0; i < len(data); i += 1 + i%7 {
			want = append(want, strconv.Itoa(i)+string(data[i:min(len(data), i+int(data[i])*3)]))
		}
		var batch []byte
		for _, w := range want {
			batch = eventlog.AppendRecord(batch, []byte(w))
		}
		if got := records(batch); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
