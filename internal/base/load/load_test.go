package load_test

import (
	"context"
	"runtime/metrics"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/load"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// waits is a histogram of waits that a test adds to: up to 1 ms, to 10 ms, to 100 ms, and longer.
type waits struct {
	mu     sync.Mutex
	counts [4]uint64
}

func (w *waits) read() *metrics.Float64Histogram {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &metrics.Float64Histogram{Counts: slices.Clone(w.counts[:]), Buckets: []float64{0, 0.001, 0.01, 0.1, 1}}
}

func (w *waits) add(more [4]uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, n := range more {
		w.counts[i] += n
	}
}

// The delay is that of nine tenths of the waits since the last sample. A few waits say nothing.
func TestDelay(t *testing.T) {
	t.Parallel()
	w := &waits{}
	m := load.New(w.read, time.Now)
	for _, c := range []struct {
		name string
		more [4]uint64
		want time.Duration
	}{
		{"idle", [4]uint64{}, 0},
		{"all short", [4]uint64{1000}, 0},
		{"a twentieth long", [4]uint64{950, 0, 50}, 0},
		{"a fifth long", [4]uint64{800, 0, 200}, 10 * time.Millisecond},
		{"longer than any bucket but the last", [4]uint64{0, 0, 0, 200}, 100 * time.Millisecond},
		{"short again", [4]uint64{200}, 0},
		{"few, and long", [4]uint64{0, 0, 0, 99}, 0},
	} {
		w.add(c.more)
		if m.Sample(); m.Delay() != c.want {
			t.Errorf("%s: the delay is %s, want %s", c.name, m.Delay(), c.want)
		}
	}
}

// The process is starved while its work waits for long and for 10 s afterwards, so that a time-out that began in
// that time is not blamed on the other side.
func TestStarvedByLongWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &waits{}
		m, stop := start(t, w)
		defer stop()
		time.Sleep(load.Every / 2) // Between two samples.
		if m.Starved() {
			t.Error("starved although nothing waits")
		}
		w.add([4]uint64{3: 1000})
		time.Sleep(load.Every)
		if !m.Starved() {
			t.Error("not starved although all work waits")
		}
		time.Sleep(9 * time.Second)
		if !m.Starved() {
			t.Error("not starved 9 s later")
		}
		if time.Sleep(time.Second); m.Starved() {
			t.Error("starved 10 s later")
		}
	})
}

// A process that was stopped is starved from the moment it runs again, before it has taken a sample.
func TestStarvedAfterAStop(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	m := load.New(new(waits).read, func() time.Time { return now })
	if now = now.Add(time.Hour); m.Starved() {
		t.Error("starved although it has never taken a sample")
	}
	m.Sample()
	for range 5 {
		if now = now.Add(load.Every); m.Starved() {
			t.Error("starved although every sample is on time")
		}
		m.Sample()
	}
	if now = now.Add(9 * time.Second); !m.Starved() {
		t.Error("not starved after a stop")
	}
	if m.Sample(); !m.Starved() {
		t.Error("not starved after the first sample after a stop")
	}
	for range 100 {
		now = now.Add(load.Every)
		m.Sample()
	}
	if m.Starved() {
		t.Error("starved 10 s after the stop")
	}
}

// The runtime has the histogram, and the process has waited for a processor before.
func TestTheRuntimeMeasuresWaits(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	go close(done)
	<-done
	total := uint64(0)
	for _, n := range load.Waits().Counts {
		total += n
	}
	if total == 0 {
		t.Error("the runtime has measured no waits")
	}
}

// start runs a Meter until stop.
func start(t *testing.T, w *waits) (m *load.Meter, stop func()) {
	t.Helper()
	m = load.New(w.read, time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	synctest.Wait()
	return m, func() {
		cancel()
		must.OK(t, <-done)
	}
}
