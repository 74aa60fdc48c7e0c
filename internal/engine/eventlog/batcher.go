package eventlog

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// Bounds of what a Batcher keeps.
const (
	// maxBatch is when a batch is full.
	maxBatch = 512 << 10
	// maxWaiting is how much of one bucket waits before Add does, and maxTotal how much of all.
	maxWaiting = 4 << 20
	maxTotal   = 128 << 20
	// coolOff is for how long a bucket takes nothing after a failure. Whoever was about to add the next record when it came hears of it.
	coolOff = time.Second
)

// Batcher groups records into one entry per bucket. One publish per bucket is under way at a time; what comes meanwhile goes with the
// next one, so that few records wait for nothing and many cost little.
//
// When a publish fails for good, everything that waits behind it in its bucket fails as well, before anything later is published: a
// record that is stored never stands behind a gap, as long as whoever hears of a failure starts over before the failed record.
type Batcher struct {
	log Log
	// name begins the ids of all entries.
	name string
	wait sync.WaitGroup
	// used has batches to fill again.
	used sync.Pool

	mu     sync.Mutex
	queues map[int]*queue
	// total is the length of all that waits or is under way; roomy is closed when it has become less.
	total  int
	roomy  chan struct{}
	closed bool
}

// queue is what waits in one bucket.
type queue struct {
	bucket int
	// batches wait; the last one is not full.
	batches []*batch
	// bytes is the length of those and of the one under way; room is closed when that has become less.
	bytes int
	room  chan struct{}
	// running says that somebody publishes; cancel makes that fail.
	running bool
	cancel  context.CancelFunc
	// count is of the entries, for their ids.
	count uint64
	// failure is why nothing is taken right now, and failures counts them.
	failure  error
	failures int
}

type batch struct {
	data []byte
	done []func(error)
}

// NewBatcher makes a Batcher.
func NewBatcher(log Log) *Batcher {
	return &Batcher{log: log, name: rand.Text(), queues: map[int]*queue{}, roomy: make(chan struct{})}
}

// Add puts a record behind those of its bucket, and returns once there is room: it waits while more than 4 MB of the bucket do. done
// is called once, when the record is in the log or will not be, in the order of Add, and should return soon. If Add returns an error,
// the record is not taken and done is not called. The record may be overwritten once Add has returned.
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
	if err := b.await(ctx, q); err != nil {
		return err
	}
	length := b.push(q, record, done)
	q.bytes += length
	b.total += length
	if !q.running {
		q.running = true
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		q.cancel = cancel
		b.wait.Go(func() {
			defer cancel()
			b.publish(ctx, q)
		})
	}
	return nil
}

// await waits until there is room. The lock is held before and after, not meanwhile.
func (b *Batcher) await(ctx context.Context, q *queue) error {
	for failures := q.failures; ; {
		var change chan struct{}
		switch {
		case b.closed:
			return ErrClosed
		case q.failure != nil:
			return q.failure
		case failures != q.failures:
			return fmt.Errorf("%w while a record waited for room", errFailed)
		case q.bytes > maxWaiting:
			change = q.room
		case b.total > maxTotal:
			change = b.roomy
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

// push adds a record to the last batch or to another one.
func (b *Batcher) push(q *queue, record []byte, done func(error)) (length int) {
	last := len(q.batches) - 1
	if last < 0 || len(q.batches[last].data)+maxHead+len(record) > maxBatch {
		empty, ok := b.used.Get().(*batch)
		if !ok {
			empty = &batch{}
		}
		q.batches = append(q.batches, empty)
		last++
	}
	to := q.batches[last]
	before := len(to.data)
	to.data, to.done = appendRecord(to.data, record), append(to.done, done)
	return len(to.data) - before
}

// publish publishes until nothing waits any more.
func (b *Batcher) publish(ctx context.Context, q *queue) {
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
		err := b.log.Publish(ctx, q.bucket, id, first.data)
		for _, ended := range b.ended(q, first, err) {
			for _, done := range ended.done {
				done(err)
			}
			clear(ended.done)
			ended.data, ended.done = ended.data[:0], ended.done[:0]
			b.used.Put(ended)
		}
	}
}

// errFailed is for records that were not published because one before them was not.
var errFailed = fmt.Errorf("publishing to the event log has failed")

// ended takes note of how a publish went, and lists the batches that have come to their end with it.
func (b *Batcher) ended(q *queue, first *batch, err error) []*batch {
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
	for _, e := range list {
		q.bytes -= len(e.data)
		b.total -= len(e.data)
	}
	close(q.room)
	q.room = make(chan struct{})
	if over && b.total <= maxTotal {
		close(b.roomy)
		b.roomy = make(chan struct{})
	}
	return list
}

// Close takes no more records, and waits until those that wait are published. When the context ends they fail.
func (b *Batcher) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	close(b.roomy)
	b.roomy = make(chan struct{})
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
	return fmt.Errorf("close the batcher: %w", ctx.Err())
}
