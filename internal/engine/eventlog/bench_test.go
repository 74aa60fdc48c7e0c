package eventlog_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// publishers is the number of concurrent publishers.
const publishers = 256

// share distributes b.N operations over concurrent publishers.
func share(b *testing.B, do func(i int) error) {
	b.Helper()
	var next atomic.Int64
	var wait sync.WaitGroup
	b.ResetTimer()
	for range publishers {
		wait.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := do(int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// Records of 600 bytes from 256 concurrent publishers: one message each, with the bare client and with the log, and
// through a Batcher.
func BenchmarkPublish(b *testing.B) {
	record := make([]byte, 600)
	for i := range record {
		record[i] = "0123456789abcdef"[i*i%16]
	}
	for name, servers := range map[string]int{"R1": 1, "R3always": 3} {
		b.Run(name, func(b *testing.B) {
			config := eventlog.Config{Replicas: servers, MaxBytes: 1 << 30}
			if servers == 1 {
				config.URL = testenv.PrivateJetStream(b).URL
			} else {
				config.URL = testenv.NATSCluster(b, servers).URL
			}
			log := open(b, config)
			if _, err := log.State(b.Context(), 0); err != nil {
				b.Fatal(err)
			}
			b.Run("batcher", func(b *testing.B) { benchBatcher(b, log, record) })
			b.Run("read", func(b *testing.B) { benchRead(b, log) })
			js := admin(b, config.URL)
			b.Run("bare", func(b *testing.B) {
				share(b, func(i int) error {
					_, err := js.PublishMsg(b.Context(), &nats.Msg{Subject: "evt." + strconv.Itoa(i%256), Data: record}, jetstream.WithMsgID(b.Name()+strconv.Itoa(b.N)+"-"+strconv.Itoa(i)))
					return err
				})
			})
			b.Run("log", func(b *testing.B) {
				share(b, func(i int) error {
					return log.Publish(b.Context(), i%256, b.Name()+strconv.Itoa(b.N)+"-"+strconv.Itoa(i), record)
				})
			})
		})
	}
	b.Run("postgres", func(b *testing.B) {
		log := eventlog.NewPostgres(testenv.Postgres(b), eventlog.Config{})
		b.Run("batcher", func(b *testing.B) { benchBatcher(b, log, record) })
		b.Run("read", func(b *testing.B) { benchRead(b, log) })
	})
}

// counting counts the published entries.
type counting struct {
	eventlog.Log
	entries atomic.Int64
}

func (c *counting) Publish(ctx context.Context, bucket int, id string, data []byte, traces ...eventlog.Trace) error {
	c.entries.Add(1)
	return c.Log.Publish(ctx, bucket, id, data, traces...)
}

func benchBatcher(b *testing.B, log eventlog.Log, record []byte) {
	b.Helper()
	b.ReportAllocs()
	counted := &counting{Log: log}
	batcher := eventlog.NewBatcher(counted)
	share(b, func(i int) error {
		return batcher.Add(b.Context(), i%256, record, func(err error) {
			if err != nil {
				b.Error(err)
			}
		})
	})
	b.StartTimer()
	if err := batcher.Close(b.Context()); err != nil {
		b.Error(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(counted.entries.Load())/b.Elapsed().Seconds(), "entries/s")
}

// benchRead reads the batches of the previous benchmark, from the start and as often as needed for b.N records.
func benchRead(b *testing.B, log eventlog.Log) {
	b.Helper()
	count, entries := 0, 0
	for count < b.N {
		r, err := log.Read(b.Context(), all(256))
		must.OK(b, err)
		last := map[int]uint64{}
		for bucket := range 256 {
			s, err := log.State(b.Context(), bucket)
			must.OK(b, err)
			last[bucket] = s.Last
			if s.Last > 0 && bucket == 0 && s.First > s.Last {
				b.Fatal("there is nothing to read")
			}
		}
		b.StartTimer()
		for more := true; more && count < b.N; {
			list, err := r.Next(b.Context())
			must.OK(b, err)
			entries += len(list)
			for _, e := range list {
				for range eventlog.SplitBatch(e.Data) {
					count++
				}
			}
			more = false
			for bucket, at := range r.Reached() {
				more = more || at < last[bucket]
			}
		}
		b.StopTimer()
		r.Close()
	}
	b.ReportMetric(float64(count)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(entries)/b.Elapsed().Seconds(), "entries/s")
}
