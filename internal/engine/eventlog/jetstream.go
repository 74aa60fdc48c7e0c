package eventlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/natslink"
)

// JetStream is the log on NATS. Its streams are named EVT_00, EVT_01 and so on, and the subject of a bucket is
// evt.<bucket>. Bucket b is in stream b modulo Streams.
type JetStream struct {
	Config
	conn    *nats.Conn
	js      jetstream.JetStream
	streams []*stream

	mu sync.Mutex
	// reconnected is closed and replaced whenever the connection was re-established.
	reconnected chan struct{}
}

// stream is one of the streams of the log.
type stream struct {
	name string
	// index is the number of the stream, and its lowest bucket.
	index int
	// lock guards ready. It is a channel with room for one value, so that waiting for it can end with a context.
	lock chan struct{}
	// ready means that the stream exists and has the wanted settings, as far as is known.
	ready bool
	// tick is a subject that belongs to no bucket. A message there tells the readers of quiet buckets how far they are;
	// see follower.checkStream.
	tick string
}

// Open prepares the connection. It does not wait for the server. Streams are created, or adjusted to the settings, at
// first use, unless KeepStreams is set.
func Open(c Config) (*JetStream, error) {
	c = c.withDefaults()
	l := &JetStream{Config: c, reconnected: make(chan struct{})}
	conn, err := natslink.Connect(c.URL, c.Name, c.Access, c.Log, nats.ReconnectHandler(func(*nats.Conn) { l.signalReconnected() }))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	l.conn, l.js = conn, js
	for i := range c.Streams {
		s := &stream{name: fmt.Sprintf("EVT_%02d", i), index: i, lock: make(chan struct{}, 1), ready: false, tick: "evt.tick." + strconv.Itoa(i)}
		l.streams = append(l.streams, s)
	}
	return l, nil
}

// Close closes the connection. Close all readers first.
func (l *JetStream) Close() { l.conn.Close() }

func (l *JetStream) signalReconnected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.reconnected)
	l.reconnected = make(chan struct{})
}

// nextReconnect returns a channel that is closed at the next reconnect.
func (l *JetStream) nextReconnect() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reconnected
}

func (l *JetStream) streamOf(bucket int) *stream { return l.streams[bucket%len(l.streams)] }

func subject(bucket int) string { return "evt." + strconv.Itoa(bucket) }

// bucketOf returns the bucket of a subject; false for a tick.
func bucketOf(subject string) (int, bool) {
	text, _ := strings.CutPrefix(subject, "evt.")
	n, err := strconv.Atoi(text)
	return n, err == nil
}

func (l *JetStream) Publish(ctx context.Context, bucket int, id string, data []byte, traces ...Trace) error {
	if len(data) > MaxData {
		return ErrTooBig
	}
	if bucket < 0 || bucket >= l.Buckets {
		return fmt.Errorf("publish to the event log: bucket %d does not exist", bucket)
	}
	s := l.streamOf(bucket)
	records, parents := encodeTraces(ctx, traces)
	err := retry(ctx, l.Patience, func(ctx context.Context) (bool, error) {
		if err := l.ensureStream(ctx, s); err != nil {
			return false, err
		}
		m := &nats.Msg{Subject: subject(bucket), Data: data}
		if len(records) > 0 {
			m.Header = nats.Header{recordHeader: records, parentHeader: parents}
		}
		_, err := l.js.PublishMsg(ctx, m, jetstream.WithMsgID(id), jetstream.WithExpectStream(s.name), jetstream.WithRetryAttempts(0))
		if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
			l.markUnverified(s) // it has no leader, or it was deleted
		}
		return errors.Is(err, nats.ErrMaxPayload), asFull(err)
	})
	if err != nil {
		return fmt.Errorf("publish to the event log: %w", err)
	}
	return nil
}

// Probe checks that every stream accepts entries, by publishing a tick. A server can answer all reads while its disk is
// full, or after a failed write that it does not recover from.
func (l *JetStream) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	for _, s := range l.streams {
		err := l.ensureStream(ctx, s)
		if err == nil {
			_, err = l.js.PublishMsg(ctx, &nats.Msg{Subject: s.tick}, jetstream.WithExpectStream(s.name), jetstream.WithRetryAttempts(0))
		}
		if err != nil {
			return fmt.Errorf("write to stream %s: %w", s.name, asFull(err))
		}
	}
	return nil
}

// asFull returns ErrFull for a server's error that says so, and all other errors as they are.
func asFull(err error) error {
	if err != nil && strings.Contains(err.Error(), fullText) {
		return ErrFull
	}
	return err
}

// fullText is what the server's error says if a stream has its maximum size. Its code stands for other failures as well.
const fullText = "maximum bytes exceeded"

func (l *JetStream) State(ctx context.Context, bucket int) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	s := l.streamOf(bucket)
	info, err := l.streamInfo(ctx, s)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		l.markUnverified(s)
		if err = l.ensureStream(ctx, s); err == nil {
			info, err = l.streamInfo(ctx, s)
		}
	}
	if err != nil {
		return State{}, fmt.Errorf("read the state of the event log: %w", err)
	}
	return State{Epoch: epochOf(info), First: max(info.State.FirstSeq, 1), Last: info.State.LastSeq, Used: usedShare(info)}, nil
}

// concurrentStates limits how many streams States queries concurrently.
const concurrentStates = 16

// States is part of Log. Buckets of a stream share its state, so there is one request per stream.
func (l *JetStream) States(ctx context.Context, buckets []int) (map[int]State, error) {
	first := map[*stream]int{} // one bucket of each stream
	for _, bucket := range buckets {
		if _, asked := first[l.streamOf(bucket)]; !asked {
			first[l.streamOf(bucket)] = bucket
		}
	}
	var (
		asking errgroup.Group
		mu     sync.Mutex
		found  = make(map[*stream]State, len(first))
	)
	asking.SetLimit(concurrentStates)
	for s, bucket := range first {
		asking.Go(func() error {
			state, err := l.State(ctx, bucket)
			mu.Lock()
			defer mu.Unlock()
			found[s] = state
			return err
		})
	}
	if err := asking.Wait(); err != nil {
		return nil, err
	}
	states := make(map[int]State, len(buckets))
	for _, bucket := range buckets {
		states[bucket] = found[l.streamOf(bucket)]
	}
	return states, nil
}

func usedShare(info *jetstream.StreamInfo) float64 {
	if info.Config.MaxBytes <= 0 {
		return 0
	}
	return float64(info.State.Bytes) / float64(info.Config.MaxBytes)
}

// Crowded is the used share of a log from which Trim keeps nothing that it may drop.
const Crowded = 0.5

// Trim is part of Log. It drops what all buckets of a stream allow, because dropping the beginning of a stream is cheap.
// If the stream is still crowded, it drops entries bucket by bucket: a quiet bucket's reader cannot advance when a full
// stream refuses its ticks.
func (l *JetStream) Trim(ctx context.Context, upTo map[int]uint64) error {
	var failed error
	for _, s := range l.streams {
		if err := l.trimStream(ctx, s, upTo); err != nil {
			failed = errors.Join(failed, fmt.Errorf("trim stream %s: %w", s.name, err))
		}
	}
	return failed
}

func (l *JetStream) trimStream(ctx context.Context, s *stream, upTo map[int]uint64) error {
	found, err := l.js.Stream(ctx, s.name)
	if err != nil {
		return err
	}
	var lowest uint64
	for bucket, first := s.index, true; bucket < l.Buckets; bucket, first = bucket+len(l.streams), false {
		if at := upTo[bucket]; first || at < lowest {
			lowest = at
		}
	}
	if lowest >= found.CachedInfo().State.FirstSeq {
		if err := found.Purge(ctx, jetstream.WithPurgeSequence(lowest+1)); err != nil {
			return err
		}
	}
	info, err := found.Info(ctx, jetstream.WithSubjectFilter("evt.>"))
	if err != nil || usedShare(info) < Crowded {
		return err
	}
	for subject := range info.State.Subjects {
		bucket, ok := bucketOf(subject)
		if !ok || upTo[bucket] <= lowest {
			continue
		}
		if err := found.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(upTo[bucket]+1)); err != nil {
			return err
		}
	}
	return nil
}

func (l *JetStream) streamInfo(ctx context.Context, s *stream) (*jetstream.StreamInfo, error) {
	found, err := l.js.Stream(ctx, s.name)
	if err != nil {
		return nil, err
	}
	return found.CachedInfo(), nil // as of the request above
}

// epochOf returns the creation time of the stream: a stream of the same name that replaced it is younger.
func epochOf(info *jetstream.StreamInfo) string {
	return info.Created.UTC().Format(time.RFC3339Nano)
}

// markUnverified makes the next use check whether the stream exists. It does not block.
func (l *JetStream) markUnverified(s *stream) {
	select {
	case s.lock <- struct{}{}:
		s.ready = false
		<-s.lock
	default: // it is being checked at the moment
	}
}

// ensureStream creates the stream, or adjusts it to the settings, unless that was done before. With KeepStreams it only
// checks that the stream exists.
func (l *JetStream) ensureStream(ctx context.Context, s *stream) error {
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.ready {
		return nil
	}
	info, err := l.streamInfo(ctx, s)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) && l.KeepStreams:
		return fmt.Errorf("stream %s does not exist: no worker has created it yet", s.name)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		created, err := l.js.CreateStream(ctx, l.streamConfig(s, jetstream.StreamConfig{}))
		if err != nil {
			return fmt.Errorf("create stream %s: %w", s.name, err)
		}
		l.Log.LogAttrs(ctx, slog.LevelInfo, "stream created", slog.String(logkey.Stream, s.name), slog.Time(logkey.Epoch, created.CachedInfo().Created))
	case err != nil:
		return fmt.Errorf("read stream %s: %w", s.name, err)
	case !l.KeepStreams:
		l.adjustStream(ctx, s, info.Config)
	}
	s.ready = true
	return nil
}

// adjustStream updates a stream to the settings. A failure is only logged, because the stream works with its old
// settings as well.
func (l *JetStream) adjustStream(ctx context.Context, s *stream, has jetstream.StreamConfig) {
	want := l.streamConfig(s, has)
	same := slices.Equal(has.Subjects, want.Subjects) && has.MaxBytes == want.MaxBytes && has.MaxAge == want.MaxAge && has.Discard == want.Discard &&
		has.Replicas == want.Replicas && has.Duplicates == want.Duplicates && has.MaxMsgSize == want.MaxMsgSize && has.Compression == want.Compression && has.AllowDirect
	if same {
		return
	}
	if _, err := l.js.UpdateStream(ctx, want); err != nil {
		l.Log.LogAttrs(ctx, slog.LevelError, "cannot adjust stream to the settings", slog.String(logkey.Stream, s.name), slog.Any(logkey.Error, err))
		return
	}
	l.Log.LogAttrs(ctx, slog.LevelInfo, "stream adjusted to the settings", slog.String(logkey.Stream, s.name))
}

// streamConfig returns c with our settings applied. Settings of an operator that we do not use are kept.
func (l *JetStream) streamConfig(s *stream, c jetstream.StreamConfig) jetstream.StreamConfig {
	c.Name, c.Description = s.name, "events on their way to the store"
	c.Subjects = []string{"evt.>"}
	if len(l.streams) > 1 {
		c.Subjects = append(l.subjects(s), s.tick)
	}
	// The server drops nothing by itself: an entry that is not stored must not disappear.
	c.Storage, c.Retention, c.Discard = jetstream.FileStorage, jetstream.LimitsPolicy, jetstream.DiscardNew
	c.Replicas, c.MaxBytes, c.MaxAge, c.MaxMsgSize = l.Replicas, l.MaxBytes, 0, 1<<20
	// Compression is off: after a kill, a server of version 2.15.2 sometimes cannot read the end of a compressed
	// stream, and its copy is lost.
	c.Duplicates, c.Compression, c.AllowDirect = duplicateWindow, jetstream.NoCompression, true
	return c
}

// subjects returns the subjects of all buckets of a stream.
func (l *JetStream) subjects(s *stream) (list []string) {
	for bucket := range l.Buckets {
		if l.streamOf(bucket) == s {
			list = append(list, subject(bucket))
		}
	}
	return list
}
