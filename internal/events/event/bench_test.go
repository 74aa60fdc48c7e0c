package event_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// BenchmarkCommit measures the transaction that stores events, with bodies in the clear and sealed.
func BenchmarkCommit(b *testing.B) {
	for _, events := range []int{1, 1000} {
		b.Run(fmt.Sprintf("clear/%d", events), func(b *testing.B) { benchmarkCommit(b, events, false) })
		b.Run(fmt.Sprintf("sealed/%d", events), func(b *testing.B) { benchmarkCommit(b, events, true) })
	}
}

func benchmarkCommit(b *testing.B, events int, sealed bool) {
	b.Helper()
	db := testenv.Postgres(b)
	owner := testenv.AddOrg(b, db)
	store := event.New(event.Deps{DB: db, Sealer: sealtest.NewMemory(), Seals: func() bool { return sealed }, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	must.OK(b, store.Upkeep(b.Context()))
	sources := make([]string, min(events, 250))
	held := map[int]event.Progress{}
	for i := range sources {
		sources[i] = string(id.New[id.Account]())
		bucket := event.Bucket(sources[i])
		p, err := store.Claim(b.Context(), bucket, 1)
		must.OK(b, err)
		held[bucket] = p
	}
	body := []byte(`{"text":"` + strings.Repeat("x", 500) + `"}`)
	seqs := map[string]int64{}
	for b.Loop() {
		at := time.Now().UTC().Truncate(time.Microsecond)
		var batch event.Batch
		for i := range events {
			source := sources[i%len(sources)]
			seqs[source]++
			batch.Events = append(batch.Events, event.NewEvent{DedupKey: fmt.Sprint(seqs[source]), Stored: event.Stored{
				Org: owner, Source: source, Seq: seqs[source], At: at, ID: id.New[id.Event](), Kind: "message", Body: body,
			}})
		}
		for _, source := range sources {
			batch.Heads = append(batch.Heads, event.HeadRow{Org: owner, Source: source, Head: event.Head{LastSeq: seqs[source], LastAt: at}})
		}
		for _, p := range held {
			batch.Buckets = append(batch.Buckets, p)
		}
		_, err := store.Commit(b.Context(), &batch)
		must.OK(b, err)
	}
}
