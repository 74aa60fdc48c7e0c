package eventlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
)

// Limits of a read.
const (
	// fetchSize is the number of entries in one fetch.
	fetchSize = 64
	// chunkBuffer is the number of chunks that are read ahead.
	chunkBuffer = 4
	// Next returns when it has nextEntries entries or nextBytes bytes, even if more are ready.
	nextEntries = 512
	nextBytes   = 8 << 20
)

// Intervals at which a reader notices failures.
const (
	// checkEvery is how often a follower checks that the stream is still the same.
	checkEvery = time.Second
	// fetchWait is how long one fetch waits for entries. During it, the server sends a heartbeat every fetchBeat.
	fetchWait = 2 * time.Second
	fetchBeat = time.Second
	// consumerTTL is when the server drops a consumer without fetches.
	consumerTTL = 30 * time.Second
)

// reader merges what the followers of the streams have read. There is one follower, in its own goroutine, per stream.
type reader struct {
	log    *JetStream
	after  map[int]uint64
	chunks chan chunk
	stop   context.CancelFunc
	wait   sync.WaitGroup

	mu      sync.Mutex
	reached map[*stream]uint64
	err     error // final
}

// chunk is a number of entries of a stream in order, possibly none, and the position that the stream was read to.
type chunk struct {
	of      *stream
	entries []Entry
	bytes   int
	reached uint64
	err     error
}

func (l *JetStream) Read(ctx context.Context, after map[int]uint64) (Reader, error) {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &reader{log: l, after: maps.Clone(after), chunks: make(chan chunk, chunkBuffer), stop: stop, reached: map[*stream]uint64{}}
	var followers []*follower
	for _, s := range l.streams {
		f, err := r.newFollower(ctx, s)
		if err != nil {
			stop()
			return nil, fmt.Errorf("read the event log: %w", err)
		}
		if len(f.buckets) > 0 {
			followers = append(followers, f)
		}
	}
	for _, f := range followers {
		r.wait.Go(func() { f.run(work) })
	}
	return r, nil
}

// newFollower makes the follower of a stream. It has no buckets if the reader wants none of the stream.
func (r *reader) newFollower(ctx context.Context, s *stream) (*follower, error) {
	f := &follower{reader: r, stream: s, buckets: map[int]uint64{}}
	first := true
	// The stream is read from the lowest position of its buckets; each bucket's earlier entries are skipped.
	for bucket, at := range r.after {
		if r.log.streamOf(bucket) != s {
			continue
		}
		f.buckets[bucket] = at
		if first || at < f.pos {
			f.pos = at
		}
		f.highest = max(f.highest, at)
		first = false
	}
	if first {
		return f, nil
	}
	state, err := r.log.State(ctx, anyKey(f.buckets))
	if err != nil {
		return nil, err
	}
	f.epoch = state.Epoch
	return f, nil
}

func anyKey(m map[int]uint64) int {
	for k := range m {
		return k
	}
	return 0
}

func (r *reader) Next(ctx context.Context) ([]Entry, error) {
	var (
		list  []Entry
		bytes int
		moved bool
	)
	for len(list) < nextEntries && bytes < nextBytes {
		r.mu.Lock()
		err := r.err
		r.mu.Unlock()
		if err != nil {
			break
		}
		c, ok := r.nextChunk(ctx, len(list) == 0)
		if !ok {
			break
		}
		r.recordChunk(c)
		list, bytes, moved = append(list, c.entries...), bytes+c.bytes, true
		if len(list) == 0 {
			break // let the caller see that Reached has advanced
		}
	}
	if len(list) > 0 {
		return list, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, r.err
	}
	if moved {
		return nil, nil // no entries, but Reached has advanced
	}
	return nil, ctx.Err()
}

// nextChunk returns the next chunk. With wait it waits until there is one or ctx ends.
func (r *reader) nextChunk(ctx context.Context, wait bool) (chunk, bool) {
	if wait {
		select {
		case c := <-r.chunks:
			return c, true
		case <-ctx.Done():
			return chunk{}, false
		}
	}
	select {
	case c := <-r.chunks:
		return c, true
	default:
		return chunk{}, false
	}
}

func (r *reader) recordChunk(c chunk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.err != nil {
		r.err = c.err
		return
	}
	r.reached[c.of] = max(r.reached[c.of], c.reached)
}

func (r *reader) Reached() map[int]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	reached := make(map[int]uint64, len(r.after))
	for bucket, at := range r.after {
		reached[bucket] = max(at, r.reached[r.log.streamOf(bucket)])
	}
	return reached
}

func (r *reader) Close() {
	r.stop()
	r.wait.Wait()
	r.recordChunk(chunk{err: ErrClosed})
}

// follower reads one stream with one consumer after the other. Consumers do not require acknowledgements, so messages
// can get lost between server and client. A consumer that may have lost something is replaced by one that starts
// after what was read.
type follower struct {
	*reader
	stream *stream
	epoch  string
	// buckets are the wanted buckets, each with the position up to which it was read before.
	buckets map[int]uint64
	// pos is the position up to which all buckets were read.
	pos uint64
	// highest is the highest position that is known to have existed.
	highest uint64
	// moved means that a message arrived since the last check.
	moved bool
	// shortReports counts in a row how often the server said that the stream ends before highest.
	shortReports int
	// received counts the messages of the current consumer. The server numbers them, so a difference shows a lost one.
	received uint64
}

var errGap = errors.New("a message of the consumer did not arrive")

// run follows the stream until ctx ends or the stream is lost. It replaces the consumer after every other failure.
func (f *follower) run(ctx context.Context) {
	var waited time.Duration
	for {
		from := f.pos
		err := f.followOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, ErrLost) {
			f.sendChunk(ctx, chunk{of: f.stream, err: err})
			return
		}
		f.log.Log.LogAttrs(ctx, slog.LevelInfo, "reading the event log was interrupted", slog.String(logkey.Stream, f.stream.name), slog.Any(logkey.Error, err))
		if f.pos > from {
			waited = 0
		}
		var again bool
		if waited, again = backOff(ctx, waited); !again {
			return
		}
	}
}

// followOnce reads with one consumer until something fails.
func (f *follower) followOnce(ctx context.Context) error {
	reconnected := f.log.nextReconnect()
	f.moved = true // no tick is needed yet: what is in the stream will arrive soon
	if err := f.checkStream(ctx); err != nil {
		return err
	}
	consumer, err := f.newConsumer(ctx)
	if err != nil {
		return err
	}
	defer f.deleteConsumer(ctx, consumer.CachedInfo().Name)
	checks := time.NewTicker(checkEvery)
	defer checks.Stop()
	for {
		batch, err := consumer.Fetch(fetchSize, jetstream.FetchMaxWait(fetchWait), jetstream.FetchHeartbeat(fetchBeat))
		if err != nil {
			return fmt.Errorf("fetch entries: %w", err)
		}
		for open := true; open; {
			select {
			case m, ok := <-batch.Messages():
				if open = ok; ok {
					err = f.forwardMessages(ctx, m, batch.Messages())
				}
			case <-checks.C:
				err = f.checkStream(ctx)
			case <-reconnected:
				err = errGap // messages may have been lost with the old connection
			case <-ctx.Done():
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
		}
		if err := batch.Error(); err != nil {
			return fmt.Errorf("read entries: %w", err)
		}
	}
}

// newConsumer makes an ephemeral consumer that starts after pos. If not all buckets of the stream are wanted, it
// filters for their subjects and for ticks.
func (f *follower) newConsumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	c := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: f.pos + 1, AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: consumerTTL,
	}
	if all := f.log.subjects(f.stream); len(f.buckets) < len(all) {
		for bucket := range f.buckets {
			c.FilterSubjects = append(c.FilterSubjects, subject(bucket))
		}
		c.FilterSubjects = append(c.FilterSubjects, f.stream.tick)
	}
	consumer, err := f.log.js.CreateConsumer(ctx, f.stream.name, c)
	if err != nil {
		return nil, fmt.Errorf("create consumer: %w", err)
	}
	f.received = 0
	return consumer, nil
}

// deleteConsumer deletes a consumer. If that fails, the server drops it after consumerTTL.
func (f *follower) deleteConsumer(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkEvery)
	defer cancel()
	_ = f.log.js.DeleteConsumer(ctx, f.stream.name, name)
}

// forwardMessages sends m, and the messages that have arrived in the meantime, to the reader as one chunk. If one of
// them reveals a gap, it still sends those before it.
func (f *follower) forwardMessages(ctx context.Context, m jetstream.Msg, more <-chan jetstream.Msg) error {
	c := chunk{of: f.stream}
	err := f.addMessage(ctx, &c, m)
	for ready := true; ready && err == nil; {
		select {
		case m, ready = <-more:
			if ready {
				err = f.addMessage(ctx, &c, m)
			}
		default:
			ready = false
		}
	}
	c.reached = f.pos
	f.sendChunk(ctx, c)
	return err
}

// addMessage advances pos and adds the message to the chunk, unless it is a tick or was read before.
func (f *follower) addMessage(ctx context.Context, c *chunk, m jetstream.Msg) error {
	at, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("read an entry: %w", err)
	}
	if f.received++; at.Sequence.Consumer != f.received {
		return errGap
	}
	f.pos, f.moved = at.Sequence.Stream, true
	f.highest = max(f.highest, f.pos)
	bucket, ok := bucketOf(m.Subject())
	if after, wanted := f.buckets[bucket]; ok && wanted && f.pos > after {
		traces := decodeTraces(ctx, m.Headers()[recordHeader], m.Headers()[parentHeader])
		c.entries, c.bytes = append(c.entries, Entry{bucket, f.pos, m.Data(), traces}), c.bytes+len(m.Data())
	}
	return nil
}

func (f *follower) sendChunk(ctx context.Context, c chunk) {
	select {
	case f.chunks <- c:
	case <-ctx.Done():
	}
}

// maxShortReports is how often in a row, over several seconds, the server must report a shorter stream before the
// follower believes it. A server that lags or is broken may report it once, and believing it means to read days of
// entries again.
const maxShortReports = 6

// checkStream checks that the stream is still the same: it exists, has the same epoch and does not end before what was
// read.
//
// It also detects lost messages at the end of the stream. If the stream is longer than what was read but nothing
// arrives, either only other buckets have new entries, or messages were lost. A tick decides: it arrives in order
// like every other message, so if it arrives with the expected number, nothing was lost, and pos advances to it.
func (f *follower) checkStream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	info, err := f.log.streamInfo(ctx, f.stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("%w: stream %s does not exist", ErrLost, f.stream.name)
	case err != nil:
		return fmt.Errorf("read the stream: %w", err)
	case epochOf(info) != f.epoch:
		return fmt.Errorf("%w: stream %s was recreated", ErrLost, f.stream.name)
	case info.State.LastSeq < f.highest:
		if f.shortReports++; f.shortReports < maxShortReports {
			return fmt.Errorf("stream %s seems to end at %d but was read up to %d", f.stream.name, info.State.LastSeq, f.highest)
		}
		return fmt.Errorf("%w: stream %s ends at %d but was read up to %d", ErrLost, f.stream.name, info.State.LastSeq, f.highest)
	}
	f.shortReports = 0
	last := info.State.LastSeq
	if !f.moved && last > f.pos {
		// The id makes all readers that see the same end share one tick. If it fails, the next check retries.
		_, _ = f.log.js.PublishMsg(ctx, &nats.Msg{Subject: f.stream.tick},
			jetstream.WithMsgID("tick-"+strconv.FormatUint(last, 10)), jetstream.WithExpectStream(f.stream.name), jetstream.WithRetryAttempts(0))
	}
	f.moved = false
	return nil
}
