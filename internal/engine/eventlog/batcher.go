package eventlog

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/stagedoor/stagedoor/internal/base/tracing"
)

// Limits of a Batcher. Sizes are in bytes.
const (
	// maxBatch is the size of a full batch. A single larger record gets its own batch.
	maxBatch = 512 << 10
	// maxWaiting limits the unpublished records of one bucket, maxTotal those of all buckets. Beyond it, Add waits.
	maxWaiting = 4 << 20
	maxTotal   = 128 << 20
	// coolOff is how long a bucket rejects records after a failed publish. A caller that was about to add the next
	// record thereby learns of the failure instead of publishing after a gap.
	coolOff = time.Second
)

// Batcher groups records into one entry per bucket. It publishes one entry per bucket at a time. Records that arrive
// during a publish go into the next entry: under low load no record waits, and under high load entries are large. It is
// safe for concurrent use.
//
// When a publish finally fails, all records that wait in its bucket fail as well, before anything later is published.
// Therefore no stored record follows a gap, provided that a caller that learns of a failure resumes with the failed
// record.
type Batcher struct {
	log Log
	// name is the random prefix of the ids of all entries.
	name string
	wait sync.WaitGroup
	// free holds batches for reuse.
	free sync.Pool

	mu     sync.Mutex
	queues map[int]*queue
	// total is the size of all records that wait or are being published. totalRoom is closed and replaced when it falls
	// to maxTotal.
	total     int
	totalRoom chan struct{}
	closed    bool
}

// queue holds the records of one bucket. Batcher.mu guards it.
type queue struct {
	bucket int
	// batches wait to be published. Records are added to the last one.
	batches []*batch
	// bytes is the size of these and of the batch that is being published. room is closed and replaced when it shrinks.
	bytes int
	room  chan struct{}
	// running means that a goroutine publishes the batches; cancel makes its publish fail.
	running bool
	cancel  context.CancelFunc
	// count numbers the entries, for their ids.
	count uint64
	// failure is the reason why the bucket rejects records at the moment; nil if it accepts them.
	failure error
	// failures counts failed publishes, so that a caller that waits for room notices one.
	failures int
}

// batch is an entry in the making: encoded records, and their callbacks in the same order.
type batch struct {
	data   []byte
	done   []func(error)
	traces []Trace
}

// NewBatcher makes a Batcher for a log. Close it to flush it.
func NewBatcher(log Log) *Batcher {
	return &Batcher{log: log, name: rand.Text(), queues: map[int]*queue{}, totalRoom: make(chan struct{})}
}

// Add appends a record to its bucket. It waits while the bucket has more than 4 MiB of unpublished records, or all
// buckets together have more than 128 MiB. It calls done exactly once, with nil when the record is in the log, or
// with an error when publishing has failed. Calls of done for a bucket are made one at a time and in the order of
// Add; they hold up the bucket, so done must return quickly. If Add returns an error, the record was not added and
// done is not called. The caller may reuse record after Add has returned. If ctx has a span that is sampled, the record
// keeps its context in the log.
func (b *Batcher) Add(ctx context.Context, bucket int, record []byte, done func(error)) error {
	if len(record) > MaxRecord {
		return ErrTooBig
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[bucket]
	if q == nil {
		q = &queue{bucket: bucket, room: make(chan struct{})}
		b.queues[bucket] = q
	}
	if err := b.waitForRoom(ctx, q); err != nil {
		return err
	}
	length := b.appendToBatch(q, record, tracing.Sampled(trace.SpanFromContext(ctx)), done)
	q.bytes += length
	b.total += length
	if !q.running {
		q.running = true
		// The goroutine also publishes records of other callers, so it neither ends with this caller's context nor belongs to
		// its trace.
		ctx, cancel := context.WithCancel(trace.ContextWithSpan(context.WithoutCancel(ctx), noop.Span{}))
		q.cancel = cancel
		b.wait.Go(func() {
			defer cancel()
			b.publishBatches(ctx, q)
		})
	}
	return nil
}

// waitForRoom waits until the bucket accepts another record. The caller holds b.mu; it is released during the wait.
func (b *Batcher) waitForRoom(ctx context.Context, q *queue) error {
	for failures := q.failures; ; {
		var change chan struct{}
		switch {
		case b.closed:
			return ErrClosed
		case q.failure != nil:
			return q.failure
		case failures != q.failures:
			// A failure came and its cool-off passed during the wait. The caller must not add after the gap.
			return fmt.Errorf("%w while a record waited for room", errFailed)
		case q.bytes > maxWaiting:
			change = q.room
		case b.total > maxTotal:
			change = b.totalRoom
		default:
			return nil
		}
		b.mu.Unlock()
		var err error
		select {
		case <-change:
		case <-ctx.Done():
			err = ctx.Err()
		}
		b.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// appendToBatch adds a record to the last waiting batch, or to a new one if it does not fit, and returns its encoded
// size.
func (b *Batcher) appendToBatch(q *queue, record []byte, of *trace.SpanContext, done func(error)) (length int) {
	last := len(q.batches) - 1
	if last < 0 || len(q.batches[last].data)+maxLengthPrefix+len(record) > maxBatch {
		empty, ok := b.free.Get().(*batch)
		if !ok {
			empty = &batch{}
		}
		q.batches = append(q.batches, empty)
		last++
	}
	to := q.batches[last]
	before := len(to.data)
	if of != nil && len(to.traces) < maxTraces {
		to.traces = append(to.traces, Trace{len(to.done), of})
	}
	to.data, to.done = appendRecord(to.data, record), append(to.done, done)
	return len(to.data) - before
}

// publishBatches publishes the batches of a queue one after the other until none is left, and calls their callbacks.
func (b *Batcher) publishBatches(ctx context.Context, q *queue) {
	for {
		b.mu.Lock()
		if len(q.batches) == 0 {
			q.running = false
			b.mu.Unlock()
			return
		}
		first := q.batches[0]
		q.batches = q.batches[1:]
		q.count++
		id := b.name + "-" + strconv.Itoa(q.bucket) + "-" + strconv.FormatUint(q.count, 10)
		b.mu.Unlock()
		err := b.log.Publish(ctx, q.bucket, id, first.data, first.traces...)
		for _, finished := range b.recordResult(q, first, err) {
			for _, done := range finished.done {
				done(err)
			}
			clear(finished.done) // drop the references to the callbacks
			finished.data, finished.done, finished.traces = finished.data[:0], finished.done[:0], nil
			b.free.Put(finished)
		}
	}
}

// errFailed is returned for a record that was rejected because an earlier record of its bucket failed.
var errFailed = fmt.Errorf("publishing to the event log failed")

// recordResult updates the queue after a publish and returns the batches that are finished: the published one, and
// after a failure all others of the queue.
func (b *Batcher) recordResult(q *queue, first *batch, err error) []*batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []*batch{first}
	if err != nil {
		list = append(list, q.batches...)
		q.batches = nil
		q.failures++
		q.failure = fmt.Errorf("%w: %w", errFailed, err)
		time.AfterFunc(coolOff, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			q.failure = nil
		})
	}
	over := b.total > maxTotal
	for _, finished := range list {
		q.bytes -= len(finished.data)
		b.total -= len(finished.data)
	}
	close(q.room)
	q.room = make(chan struct{})
	if over && b.total <= maxTotal {
		close(b.totalRoom)
		b.totalRoom = make(chan struct{})
	}
	return list
}

// Close rejects further records and waits until those that were added are published. If ctx ends first, it makes them
// fail, waits for their callbacks and returns an error.
func (b *Batcher) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	close(b.totalRoom)
	b.totalRoom = make(chan struct{})
	for _, q := range b.queues {
		close(q.room)
		q.room = make(chan struct{})
	}
	b.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		b.wait.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	for _, q := range b.queues {
		if q.running {
			q.cancel()
		}
	}
	b.mu.Unlock()
	<-idle
	return fmt.Errorf("close batcher: %w", ctx.Err())
}
