package eventlog_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog/eventlogtest"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

func open(t testing.TB, c eventlog.Config) *eventlog.JetStream {
	t.Helper()
	c.Name = "test"
	log, err := eventlog.Open(c)
	must.OK(t, err)
	t.Cleanup(log.Close)
	return log
}

// admin returns a separate connection to the server.
func admin(t testing.TB, url secret.String) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url.Reveal(), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	must.OK(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	must.OK(t, err)
	return js
}

func onJetStream(streams int) func(t *testing.T) eventlogtest.Fixture {
	return func(t *testing.T) eventlogtest.Fixture {
		t.Helper()
		server := testenv.PrivateJetStream(t)
		return eventlogtest.Fixture{
			Open: func() eventlog.Log { return open(t, eventlog.Config{URL: server.URL, Streams: streams}) },
			Lose: func() {
				js := admin(t, server.URL)
				for name := range js.StreamNames(t.Context()).Name() {
					if err := js.DeleteStream(t.Context(), name); err != nil {
						t.Error(err)
					}
				}
			},
			Restart: func() {
				server.Kill()
				server.Start()
			},
		}
	}
}

func TestJetStreamPassesTheSuite(t *testing.T) {
	t.Parallel()
	eventlogtest.Run(t, onJetStream(1))
}

func TestSeveralStreamsPassTheSuite(t *testing.T) {
	t.Parallel()
	eventlogtest.Run(t, onJetStream(4))
}

func TestPostgresPassesTheSuite(t *testing.T) {
	t.Parallel()
	eventlogtest.Run(t, func(t *testing.T) eventlogtest.Fixture {
		t.Helper()
		db := testenv.Postgres(t)
		return eventlogtest.Fixture{
			Open: func() eventlog.Log { return eventlog.NewPostgres(db, eventlog.Config{}) },
			Lose: func() {
				if _, err := db.Pool().Exec(t.Context(), "TRUNCATE eventlog_bucket, eventlog_entry"); err != nil {
					t.Error(err)
				}
			},
		}
	})
}

// A node that takes over all buckets reads the state of the log with one request per stream, not one per bucket.
func TestStatesRequestsEachStreamOnce(t *testing.T) {
	t.Parallel()
	const streams = 4
	server := testenv.PrivateJetStream(t)
	log := open(t, eventlog.Config{URL: server.URL, Streams: streams})
	all := make([]int, 256)
	for i := range all {
		all[i] = i
	}
	if _, err := log.States(t.Context(), all); err != nil { // creates the streams
		t.Fatal(err)
	}
	observer, err := nats.Connect(server.URL.Reveal())
	must.OK(t, err)
	t.Cleanup(observer.Close)
	requests, err := observer.SubscribeSync("$JS.API.STREAM.INFO.>")
	must.OK(t, err)
	must.OK(t, observer.Flush())
	states, err := log.States(t.Context(), all)
	if err != nil || len(states) != len(all) {
		t.Fatalf("%d states (%v)", len(states), err)
	}
	must.OK(t, observer.Flush())
	if n, _, err := requests.Pending(); err != nil || n != streams {
		t.Fatalf("%d requests for %d streams (%v)", n, streams, err)
	}
}

// A log that keeps the streams as they are writes to a stream as soon as another node has created it, and changes none of
// its settings.
func TestWritersKeepTheStreams(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateJetStream(t)
	writer := func(c eventlog.Config) *eventlog.JetStream {
		c.URL, c.KeepStreams, c.MaxBytes = server.URL, true, 1<<20
		return open(t, c)
	}
	early := writer(eventlog.Config{Patience: time.Second})
	if err := early.Publish(t.Context(), 1, "a", []byte("a")); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("publish before there is a stream: %v", err)
	}
	if _, err := early.State(t.Context(), 1); err == nil {
		t.Error("there is a stream already")
	}
	reader := open(t, eventlog.Config{URL: server.URL, MaxBytes: 64 << 20})
	_, err := reader.State(t.Context(), 1)
	must.OK(t, err)
	for i, log := range []*eventlog.JetStream{early, writer(eventlog.Config{})} {
		must.OK(t, log.Publish(t.Context(), 1, fmt.Sprint("b", i), make([]byte, 1<<10)))
		must.OK(t, log.Probe(t.Context()))
	}
	stream, err := admin(t, server.URL).Stream(t.Context(), "EVT_00")
	must.OK(t, err)
	if has := stream.CachedInfo().Config.MaxBytes; has != 64<<20 {
		t.Errorf("the maximum size of the stream is %d", has)
	}
}
