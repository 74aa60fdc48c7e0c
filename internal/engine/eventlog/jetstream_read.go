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
)

// Bounds of what is read at once.
const (
	// fetchAtOnce is how many entries are asked for at a time.
	fetchAtOnce = 64
	// parts is how many such portions wait to be taken.
	parts = 4
	// nextEntries and nextBytes are when Next returns though there is more.
	nextEntries = 512
	nextBytes   = 8 << 20
)

// How a reader notices that something is wrong.
const (
	// checkEvery is how often it looks whether the stream is still the one it was.
	checkEvery = time.Second
	// fetchWait is how long one question stands, during which the server gives a sign of life every fetchBeat.
	fetchWait = 2 * time.Second
	fetchBeat = time.Second
	// forgottenAfter is when the server drops a consumer that nobody asks any more.
	forgottenAfter = 30 * time.Second
)

// reader gathers what the followers of the streams have read.
type reader struct {
	log   *JetStream
	after map[int]uint64
	parts chan part
	stop  context.CancelFunc
	wait  sync.WaitGroup

	mu      sync.Mutex
	reached map[*stream]uint64
	err     error
}

// part is some entries of a stream in order, and how far the stream was read with them.
type part struct {
	of      *stream
	entries []Entry
	bytes   int
	reached uint64
	err     error
}

// Read is part of Log.
func (l *JetStream) Read(ctx context.Context, after map[int]uint64) (Reader, error) {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &reader{log: l, after: maps.Clone(after), parts: make(chan part, parts), stop: stop, reached: map[*stream]uint64{}}
	var followers []*follower
	for _, s := range l.streams {
		f, err := r.follower(ctx, s)
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

// follower makes the one that reads a stream.
func (r *reader) follower(ctx context.Context, s *stream) (*follower, error) {
	f := &follower{reader: r, stream: s, buckets: map[int]uint64{}}
	first := true
	for bucket, at := range r.after {
		if r.log.streamOf(bucket) != s {
			continue
		}
		f.buckets[bucket] = at
		if first || at < f.pos {
			f.pos = at
		}
		f.known = max(f.known, at)
		first = false
	}
	if first {
		return f, nil
	}
	state, err := r.log.State(ctx, firstKey(f.buckets))
	if err != nil {
		return nil, err
	}
	f.epoch = state.Epoch
	if f.pos > 0 && state.First > f.pos+1 {
		r.log.Log.LogAttrs(ctx, slog.LevelWarn, "the event log has dropped entries before they may have been read", slog.String("stream", s.name),
			slog.Uint64("read", f.pos), slog.Uint64("first", state.First))
	}
	return f, nil
}

func firstKey(m map[int]uint64) int {
	for k := range m {
		return k
	}
	return 0
}

// Next is part of Reader.
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
		p, ok := r.part(ctx, len(list) == 0)
		if !ok {
			break
		}
		r.note(p)
		list, bytes, moved = append(list, p.entries...), bytes+p.bytes, true
		if len(list) == 0 {
			break // whoever reads quiet buckets wants to know how far they are
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
		return nil, nil // nothing came, and Reached has moved
	}
	return nil, ctx.Err()
}

// part takes the next portion, waiting for it or not.
func (r *reader) part(ctx context.Context, wait bool) (part, bool) {
	if wait {
		select {
		case p := <-r.parts:
			return p, true
		case <-ctx.Done():
			return part{}, false
		}
	}
	select {
	case p := <-r.parts:
		return p, true
	default:
		return part{}, false
	}
}

func (r *reader) note(p part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.err != nil {
		r.err = p.err
		return
	}
	r.reached[p.of] = max(r.reached[p.of], p.reached)
}

// Reached is part of Reader.
func (r *reader) Reached() map[int]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	reached := make(map[int]uint64, len(r.after))
	for bucket, at := range r.after {
		reached[bucket] = max(at, r.reached[r.log.streamOf(bucket)])
	}
	return reached
}

// Close is part of Reader.
func (r *reader) Close() {
	r.stop()
	r.wait.Wait()
	r.note(part{err: ErrClosed})
}

// follower reads one stream, by one consumer after the other: a consumer that may have lost something is replaced by one that starts
// behind what was read.
type follower struct {
	*reader
	stream *stream
	epoch  string
	// buckets are those that are wanted, with where each was read to before.
	buckets map[int]uint64
	// pos is up to where all of them are read, and known the highest position that was ever heard of.
	pos, known uint64
	// moved says that something came since the last check.
	moved bool
	// short is how often in a row the stream was said to end before what is known of it.
	short int
	// consumed is the count of what this consumer has sent.
	consumed uint64
}

var errGap = errors.New("the consumer has sent something that did not arrive")

func (f *follower) run(ctx context.Context) {
	var waited time.Duration
	for {
		from := f.pos
		err := f.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, ErrLost) {
			f.send(ctx, part{of: f.stream, err: err})
			return
		}
		f.log.Log.LogAttrs(ctx, slog.LevelInfo, "reading the event log was interrupted", slog.String("stream", f.stream.name), slog.Any("error", err))
		if f.pos > from {
			waited = 0
		}
		var again bool
		if waited, again = pause(ctx, waited); !again {
			return
		}
	}
}

// follow reads with one consumer until something is wrong with it.
func (f *follower) follow(ctx context.Context) error {
	reconnected := f.log.reconnection()
	f.moved = true // whatever there is comes soon
	if err := f.check(ctx); err != nil {
		return err
	}
	consumer, err := f.consumer(ctx)
	if err != nil {
		return err
	}
	defer f.forget(ctx, consumer.CachedInfo().Name)
	checks := time.NewTicker(checkEvery)
	defer checks.Stop()
	for {
		batch, err := consumer.Fetch(fetchAtOnce, jetstream.FetchMaxWait(fetchWait), jetstream.FetchHeartbeat(fetchBeat))
		if err != nil {
			return fmt.Errorf("ask for entries: %w", err)
		}
		for open := true; open; {
			select {
			case m, ok := <-batch.Messages():
				if open = ok; ok {
					err = f.gather(ctx, m, batch.Messages())
				}
			case <-checks.C:
				err = f.check(ctx)
			case <-reconnected:
				err = errGap
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

func (f *follower) consumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, tryAtMost)
	defer cancel()
	c := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: f.pos + 1, AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: forgottenAfter,
	}
	if all := f.log.subjects(f.stream); len(f.buckets) < len(all) {
		for bucket := range f.buckets {
			c.FilterSubjects = append(c.FilterSubjects, subject(bucket))
		}
		c.FilterSubjects = append(c.FilterSubjects, f.stream.tick)
	}
	consumer, err := f.log.js.CreateConsumer(ctx, f.stream.name, c)
	if err != nil {
		return nil, fmt.Errorf("make a consumer: %w", err)
	}
	f.consumed = 0
	return consumer, nil
}

// forget drops a consumer; if that fails the server does it later.
func (f *follower) forget(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkEvery)
	defer cancel()
	_ = f.log.js.DeleteConsumer(ctx, f.stream.name, name)
}

// gather makes a part of a message and of those that are there as well.
func (f *follower) gather(ctx context.Context, m jetstream.Msg, more <-chan jetstream.Msg) error {
	p := part{of: f.stream}
	err := f.add(&p, m)
	for ready := true; ready && err == nil; {
		select {
		case m, ready = <-more:
			if ready {
				err = f.add(&p, m)
			}
		default:
			ready = false
		}
	}
	p.reached = f.pos
	f.send(ctx, p)
	return err
}

func (f *follower) add(p *part, m jetstream.Msg) error {
	at, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("read an entry: %w", err)
	}
	if f.consumed++; at.Sequence.Consumer != f.consumed {
		return errGap
	}
	f.pos, f.moved = at.Sequence.Stream, true
	f.known = max(f.known, f.pos)
	bucket, ok := bucketOf(m.Subject())
	if after, wanted := f.buckets[bucket]; ok && wanted && f.pos > after {
		p.entries, p.bytes = append(p.entries, Entry{bucket, f.pos, m.Data()}), p.bytes+len(m.Data())
	}
	return nil
}

func (f *follower) send(ctx context.Context, p part) {
	select {
	case f.parts <- p:
	case <-ctx.Done():
	}
}

// shortTimes is how often in a row, seconds in all, a stream must be said to have become shorter until that is believed: a server that is
// behind, or broken, may say so once, and to believe it means to read days of entries again.
const shortTimes = 6

// check looks whether the stream is still the one it was. If there is more in it than was read though nothing comes, then only others'
// entries are new, or some have been lost on the way: a tick, which comes in order like everything else, tells which.
func (f *follower) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tryAtMost)
	defer cancel()
	info, err := f.log.info(ctx, f.stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("%w: stream %s has gone", ErrLost, f.stream.name)
	case err != nil:
		return fmt.Errorf("look for the stream: %w", err)
	case epochOf(info) != f.epoch:
		return fmt.Errorf("%w: stream %s was made anew", ErrLost, f.stream.name)
	case info.State.LastSeq < f.known:
		if f.short++; f.short < shortTimes {
			return fmt.Errorf("stream %s is said to end at %d and was read up to %d", f.stream.name, info.State.LastSeq, f.known)
		}
		return fmt.Errorf("%w: stream %s ends at %d and was read up to %d", ErrLost, f.stream.name, info.State.LastSeq, f.known)
	}
	f.short = 0
	last := info.State.LastSeq
	if !f.moved && last > f.pos {
		// Readers that see the same need one tick between them. That it fails is noticed with the next check.
		_, _ = f.log.js.PublishMsg(ctx, &nats.Msg{Subject: f.stream.tick},
			jetstream.WithMsgID("tick-"+strconv.FormatUint(last, 10)), jetstream.WithExpectStream(f.stream.name), jetstream.WithRetryAttempts(0))
	}
	f.moved = false
	return nil
}
