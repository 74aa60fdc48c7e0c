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
)

// JetStream is the log on NATS. Streams are called EVT_00, EVT_01 and so on, and the subject of a bucket is evt.<bucket>.
type JetStream struct {
	Config
	conn    *nats.Conn
	js      jetstream.JetStream
	streams []*stream

	mu sync.Mutex
	// reconnected is closed when the connection was lost and is there again.
	reconnected chan struct{}
}

// stream is one of those that make up the log.
type stream struct {
	name string
	// lock is held, by having put something in, while the stream is looked for; ready says that it was there.
	lock  chan struct{}
	ready bool
	// tick is a subject that no bucket has. What is published there tells readers of quiet buckets how far they are.
	tick string
}

// Open prepares the connection. It does not wait for the server; the streams are made or adjusted at first use.
func Open(c Config) (*JetStream, error) {
	c = c.withDefaults()
	l := &JetStream{Config: c, reconnected: make(chan struct{})}
	conn, err := nats.Connect(c.URL.Reveal(),
		nats.Name(c.Name),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250*time.Millisecond),
		nats.ReconnectBufSize(-1), // Publish itself tries again, and knows when it did
		nats.PingInterval(5*time.Second),
		nats.MaxPingsOutstanding(2),
		nats.ReconnectHandler(func(*nats.Conn) { l.haveReconnected() }),
		// Without one it prints. Whoever uses the connection gets the error as well.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	)
	if err != nil {
		return nil, fmt.Errorf("NATS_URL cannot be used; it looks like nats://host:4222: %w", err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	l.conn, l.js = conn, js
	for i := range c.Streams {
		s := &stream{name: fmt.Sprintf("EVT_%02d", i), lock: make(chan struct{}, 1), ready: false, tick: "evt.tick." + strconv.Itoa(i)}
		l.streams = append(l.streams, s)
	}
	return l, nil
}

// Close ends the connection. Readers are closed before.
func (l *JetStream) Close() { l.conn.Close() }

func (l *JetStream) haveReconnected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.reconnected)
	l.reconnected = make(chan struct{})
}

func (l *JetStream) reconnection() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reconnected
}

func (l *JetStream) streamOf(bucket int) *stream { return l.streams[bucket%len(l.streams)] }

func subject(bucket int) string { return "evt." + strconv.Itoa(bucket) }

// bucketOf reads a subject; false for a tick.
func bucketOf(subject string) (int, bool) {
	text, _ := strings.CutPrefix(subject, "evt.")
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// Publish is part of Log.
func (l *JetStream) Publish(ctx context.Context, bucket int, id string, data []byte) error {
	if len(data) > MaxData {
		return ErrTooBig
	}
	if bucket < 0 || bucket >= l.Buckets {
		return fmt.Errorf("publish to the event log: there is no bucket %d", bucket)
	}
	s := l.streamOf(bucket)
	err := patiently(ctx, l.Patience, func(ctx context.Context) (bool, error) {
		if err := l.ensure(ctx, s); err != nil {
			return false, err
		}
		_, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: subject(bucket), Data: data},
			jetstream.WithMsgID(id), jetstream.WithExpectStream(s.name), jetstream.WithRetryAttempts(0))
		if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
			l.doubt(s) // it has no leader, or it has gone
		}
		return errors.Is(err, nats.ErrMaxPayload), err
	})
	if err != nil {
		return fmt.Errorf("publish to the event log: %w", err)
	}
	return nil
}

// State is part of Log.
func (l *JetStream) State(ctx context.Context, bucket int) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, tryAtMost)
	defer cancel()
	s := l.streamOf(bucket)
	info, err := l.info(ctx, s)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		l.doubt(s)
		if err = l.ensure(ctx, s); err == nil {
			info, err = l.info(ctx, s)
		}
	}
	if err != nil {
		return State{}, fmt.Errorf("state of the event log: %w", err)
	}
	return State{Epoch: epochOf(info), First: max(info.State.FirstSeq, 1), Last: info.State.LastSeq}, nil
}

// statesAtOnce bounds how many streams are asked for their state at the same time.
const statesAtOnce = 16

// States is part of Log. Buckets of one stream share its state, so each stream is asked once.
func (l *JetStream) States(ctx context.Context, buckets []int) (map[int]State, error) {
	first := map[*stream]int{}
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
	asking.SetLimit(statesAtOnce)
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

func (l *JetStream) info(ctx context.Context, s *stream) (*jetstream.StreamInfo, error) {
	found, err := l.js.Stream(ctx, s.name)
	if err != nil {
		return nil, err
	}
	return found.CachedInfo(), nil // it has just been asked for
}

// epochOf is when the stream was made: another one of the same name was made later.
func epochOf(info *jetstream.StreamInfo) string {
	return info.Created.UTC().Format(time.RFC3339Nano)
}

// doubt has the stream looked for before the next use.
func (l *JetStream) doubt(s *stream) {
	select {
	case s.lock <- struct{}{}:
		s.ready = false
		<-s.lock
	default: // somebody looks for it right now
	}
}

// ensure makes the stream, or adjusts it to the settings.
func (l *JetStream) ensure(ctx context.Context, s *stream) error {
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.ready {
		return nil
	}
	info, err := l.info(ctx, s)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		made, err := l.js.CreateStream(ctx, l.wanted(s, jetstream.StreamConfig{}))
		if err != nil {
			return fmt.Errorf("make stream %s: %w", s.name, err)
		}
		l.Log.LogAttrs(ctx, slog.LevelInfo, "stream made", slog.String("stream", s.name), slog.Time("epoch", made.CachedInfo().Created))
	case err != nil:
		return fmt.Errorf("look for stream %s: %w", s.name, err)
	default:
		l.adjust(ctx, s, info.Config)
	}
	s.ready = true
	return nil
}

// adjust brings a stream to the settings. If the server will not have that, the stream still does its work.
func (l *JetStream) adjust(ctx context.Context, s *stream, has jetstream.StreamConfig) {
	want := l.wanted(s, has)
	same := slices.Equal(has.Subjects, want.Subjects) && has.MaxBytes == want.MaxBytes && has.MaxAge == want.MaxAge && has.Replicas == want.Replicas &&
		has.Duplicates == want.Duplicates && has.MaxMsgSize == want.MaxMsgSize && has.Compression == want.Compression && has.AllowDirect
	if same {
		return
	}
	if _, err := l.js.UpdateStream(ctx, want); err != nil {
		l.Log.LogAttrs(ctx, slog.LevelError, "stream not adjusted to the settings", slog.String("stream", s.name), slog.Any("error", err))
		return
	}
	l.Log.LogAttrs(ctx, slog.LevelInfo, "stream adjusted to the settings", slog.String("stream", s.name))
}

// wanted is the configuration of a stream, on top of what an operator may have set.
func (l *JetStream) wanted(s *stream, c jetstream.StreamConfig) jetstream.StreamConfig {
	c.Name, c.Description = s.name, "events on their way to the store"
	c.Subjects = []string{"evt.>"}
	if len(l.streams) > 1 {
		c.Subjects = append(l.subjects(s), s.tick)
	}
	c.Storage, c.Retention, c.Discard = jetstream.FileStorage, jetstream.LimitsPolicy, jetstream.DiscardOld
	c.Replicas, c.MaxBytes, c.MaxAge, c.MaxMsgSize = l.Replicas, l.MaxBytes, l.MaxAge, 1<<20
	// Not compressed: a server of 2.15.2 that is killed cannot always read the end of a compressed stream again, and then its copy is lost.
	c.Duplicates, c.Compression, c.AllowDirect = min(duplicates, l.MaxAge), jetstream.NoCompression, true
	return c
}

// subjects are those of all buckets of a stream.
func (l *JetStream) subjects(s *stream) (list []string) {
	for bucket := range l.Buckets {
		if l.streamOf(bucket) == s {
			list = append(list, subject(bucket))
		}
	}
	return list
}
