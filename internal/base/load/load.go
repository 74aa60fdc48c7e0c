// Package load measures how long this process delays its own work. The measure tells its own overload from a slow
// platform, proxy or database: a goroutine that waits for another system is not runnable and adds nothing to it.
package load

import (
	"context"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
)

const (
	// Every is the time between two samples.
	Every = 100 * time.Millisecond
	// minWaits is how many waits make a sample. With fewer, one garbage collection would decide.
	minWaits = 100
	// quantile is the share of waits that are at most as long as the delay.
	quantile = 0.9

	// The process is starved if its work waits for starvedDelay, or if a sample is late by lateBy, as after a stop of the
	// whole machine.
	starvedDelay = 50 * time.Millisecond
	lateBy       = 500 * time.Millisecond
	// memory is how long starvation can explain a time-out. It is longer than any dial.
	memory = 10 * time.Second
)

// Waits returns how long goroutines were runnable before they ran, since the start of the process.
func Waits() *metrics.Float64Histogram {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64Histogram()
}

// Meter samples the delay. It is safe for concurrent use.
type Meter struct {
	waits func() *metrics.Float64Histogram
	now   func() time.Time
	start time.Time
	watch func(delay time.Duration)

	// last are the counts of the previous sample. Only Sample uses them.
	last []uint64
	// delay is that of the newest sample. sampled and starved are times since start of the newest sample and of the
	// newest starvation, 0 for none.
	delay, sampled, starved atomic.Int64
}

// New returns a Meter that takes its samples from waits, which is Waits except in tests. now must be monotonic. Without
// samples, the delay is 0 and the process is not starved.
func New(waits func() *metrics.Float64Histogram, now func() time.Time) *Meter {
	return &Meter{waits: waits, now: now, start: now(), watch: func(time.Duration) {}}
}

// Watch sets a function that gets the delay of each sample. Call it before Run.
func (m *Meter) Watch(do func(delay time.Duration)) { m.watch = do }

// Run takes samples until the context ends.
func (m *Meter) Run(ctx context.Context) error {
	for range clock.Every(ctx, Every) {
		m.Sample()
	}
	m.sampled.Store(0) // Nothing is late any more.
	return nil
}

// Sample takes one sample.
func (m *Meter) Sample() {
	late := m.isLate()
	found := m.waits()
	delay := delayOf(found, m.last)
	m.last = append(m.last[:0], found.Counts...)
	now := max(int64(m.now().Sub(m.start)), 1)
	if late || delay >= starvedDelay {
		m.starved.Store(now)
	}
	m.delay.Store(int64(delay))
	m.sampled.Store(now)
	m.watch(delay)
}

// Delay returns how long work waited for a processor, in the newest sample.
func (m *Meter) Delay() time.Duration { return time.Duration(m.delay.Load()) }

// Starved reports whether the process was too slow a moment ago. A time-out then says nothing about the other side.
func (m *Meter) Starved() bool {
	at := m.starved.Load()
	return m.isLate() || at > 0 && m.now().Sub(m.start)-time.Duration(at) < memory
}

// isLate reports whether the next sample is overdue. After a stop of the process, its time-outs may fire before the
// next sample is taken.
func (m *Meter) isLate() bool {
	at := m.sampled.Load()
	return at > 0 && m.now().Sub(m.start)-time.Duration(at) >= Every+lateBy
}

// delayOf returns the lower bound of the bucket in which the quantile of the waits since the last sample lies.
func delayOf(found *metrics.Float64Histogram, last []uint64) time.Duration {
	since := func(i int) uint64 {
		if i < len(last) {
			return found.Counts[i] - last[i]
		}
		return found.Counts[i]
	}
	total := uint64(0)
	for i := range found.Counts {
		total += since(i)
	}
	if total < minWaits {
		return 0
	}
	most := uint64(float64(total) * quantile)
	for i := range found.Counts {
		if n := since(i); n < most {
			most -= n
			continue
		}
		return time.Duration(max(found.Buckets[i], 0) * float64(time.Second)) // The first bound is infinite.
	}
	return 0
}
