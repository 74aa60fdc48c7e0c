package stream_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/stream"
	"github.com/stagedoor/stagedoor/internal/delivery/stream/streamtest"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// restored is a database in which events are stored, and which is replaced by an older state of itself.
type restored struct {
	*testing.T
	db      *postgres.DB
	store   *event.Store
	streams *stream.Streams
	org     id.Org
	// seqs are the last sequence numbers, stored the ids of all events.
	seqs   map[string]int64
	stored []string
}

// open uses a database from now on, as nodes do that start after a restore.
func (r *restored) open(on *testenv.Store) {
	r.Helper()
	var err error
	r.db, err = postgres.Open(r.Context(), postgres.Config{URL: on.URL, MaxConns: 4, Name: "test"})
	must.OK(r, err)
	r.Cleanup(r.db.Close)
	r.store = event.New(event.Deps{DB: r.db, Sealer: sealtest.NewMemory(), Seals: sealtest.Always, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	must.OK(r, r.store.Upkeep(r.Context()))
	r.streams = stream.New(stream.Deps{Store: r.store, Wire: streamtest.New(time.Now), Redis: streamtest.NoRedis{}, Log: slog.New(slog.DiscardHandler), Now: time.Now})
}

// burn uses up transaction numbers.
func (r *restored) burn(n int) {
	r.Helper()
	for range n {
		_, err := r.db.Pool().Exec(r.Context(), "SELECT pg_current_xact_id()")
		must.OK(r, err)
	}
}

// commit stores n events of a source, each in a transaction.
func (r *restored) commit(source string, n int) {
	r.Helper()
	for range n {
		r.seqs[source]++
		at := time.Now().UTC().Truncate(time.Microsecond)
		s := event.Stored{Org: r.org, Source: source, Seq: r.seqs[source], At: at, ID: id.New[id.Event](), Kind: "account.updated"}
		s.Body = event.AppendEnvelope(nil, &event.Envelope{ID: s.ID, Kind: s.Kind, Account: source, At: at, Seq: s.Seq})
		tx, err := r.store.Commit(r.Context(), &event.Batch{
			Events: []event.NewEvent{{Stored: s}}, Heads: []event.HeadRow{{Org: r.org, Source: source, Head: event.Head{LastSeq: s.Seq, LastAt: at}}},
		})
		must.OK(r, err)
		testenv.Await(r, "no transaction of the server hides the event", func() bool {
			head, err := r.store.OrgHead(r.Context(), r.org)
			must.OK(r, err)
			return head.Tx > tx
		})
		r.stored = append(r.stored, string(s.ID))
	}
}

// read reads up to most events after a cursor, page by page, and returns their ids and the cursor after the last.
func (r *restored) read(account id.Account, cursor string, most int) (ids []string, next string, gap bool) {
	r.Helper()
	for {
		page, err := r.streams.Pull(r.Context(), stream.Want{Org: r.org, Account: account, Days: 7, After: cursor}, min(3, most-len(ids)))
		must.OK(r, err)
		for _, e := range page.Events {
			var body struct{ ID string }
			must.OK(r, json.Unmarshal(e.Body, &body))
			ids = append(ids, body.ID)
		}
		gap = gap || page.Gap
		if cursor = page.Next; len(page.Events) == 0 || len(ids) == most {
			return ids, cursor, gap
		}
	}
}

// After a restore, a failover or a point-in-time recovery, all events that are left can be read. Readers that have
// cursors from before miss no event, also if they had seen events that were lost, and see again only what has a new
// number.
func TestCursorsSurviveARestore(t *testing.T) {
	t.Parallel()
	for name, incident := range map[string]func(t *testing.T, primary *testenv.Store) (replace func() *testenv.Store){
		"dump into a fresh cluster": func(t *testing.T, primary *testenv.Store) func() *testenv.Store {
			t.Helper()
			dump := testenv.Dump(t, primary)
			return func() *testenv.Store { return testenv.RestoreDump(t, dump) }
		},
		"replica that lags": func(t *testing.T, primary *testenv.Store) func() *testenv.Store {
			t.Helper()
			replica := testenv.NewReplica(t, primary)
			replica.Lag()
			return func() *testenv.Store { replica.Promote(); return replica.Store }
		},
		"point in time": func(t *testing.T, primary *testenv.Store) func() *testenv.Store {
			t.Helper()
			backup := testenv.BaseBackup(t, primary)
			testenv.RestorePoint(t, primary, "before")
			return func() *testenv.Store { return testenv.RecoverTo(t, primary, backup, "before") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := id.New[id.Account](), id.New[id.Account]()
			primary := testenv.PrivatePostgres(t, io.Discard)
			r := &restored{T: t, seqs: map[string]int64{}}
			r.open(primary)
			r.org = testenv.AddOrg(t, r.db)
			r.burn(3000) // a fresh cluster is far from there
			r.commit(string(a), 4)
			r.commit(string(b), 4)
			kept, keptSeqs := slices.Clone(r.stored), maps.Clone(r.seqs)
			replace := incident(t, primary)
			r.commit(string(a), 3) // lost
			r.commit(string(b), 3)

			type reader struct {
				account id.Account
				cursor  string
				seen    []string
			}
			var readers []reader
			for _, account := range []id.Account{"", a, b} {
				for n := range 15 {
					seen, cursor, _ := r.read(account, "0", n)
					readers = append(readers, reader{account, cursor, seen})
				}
			}
			primary.Stop()
			r.open(replace())
			r.stored, r.seqs = kept, keptSeqs

			if got, _, _ := r.read("", "0", 100); !slices.Equal(got, kept) {
				t.Errorf("the org's stream has %d of %d events before the next generation begins", len(got), len(kept))
			}
			testenv.BeginGeneration(t, r.db)
			if got, _, _ := r.read("", "0", 100); !slices.Equal(got, kept) {
				t.Errorf("the org's stream has %d of %d events", len(got), len(kept))
			}
			r.commit(string(b), 2) // fewer than were lost, then more
			r.commit(string(a), 5)
			ofAccount := map[id.Account][]string{}
			for _, account := range []id.Account{a, b} {
				ofAccount[account], _, _ = r.read(account, "0", 100)
			}
			ofAccount[""] = r.stored
			for _, one := range readers {
				got, _, gap := r.read(one.account, one.cursor, 100)
				var want []string
				for _, stored := range ofAccount[one.account] {
					if !slices.Contains(one.seen, stored) {
						want = append(want, stored)
					}
				}
				if !slices.Equal(got, want) || gap {
					t.Errorf("the reader of %q that had seen %d got\n%v, want\n%v; gap %v", one.account, len(one.seen), got, want, gap)
				}
			}
			if got, want := len(ofAccount[a]), 9; got != want {
				t.Errorf("%d events, want %d", got, want)
			}
		})
	}
}

// A cursor from a history that the database does not have, because an older backup was restored than the one that it
// is from, starts over with the oldest event and reports a gap. This also holds if both histories have as many
// generations.
func TestCursorsOfAnotherHistoryStartOver(t *testing.T) {
	t.Parallel()
	account := id.New[id.Account]()
	r := &restored{T: t, seqs: map[string]int64{}}
	first := testenv.PrivatePostgres(t, io.Discard)
	r.open(first)
	r.org = testenv.AddOrg(t, r.db)
	r.commit(string(account), 2)
	dump, kept, keptSeqs := testenv.Dump(t, first), slices.Clone(r.stored), maps.Clone(r.seqs)
	cursors := map[id.Account]string{}
	for _, n := range []int{5, 3} {
		r.open(testenv.RestoreDump(t, dump))
		r.stored, r.seqs = slices.Clone(kept), maps.Clone(keptSeqs)
		testenv.BeginGeneration(t, r.db)
		r.commit(string(account), n)
		for _, of := range []id.Account{"", account} {
			got, next, gap := r.read(of, cursors[of], 100)
			if !slices.Equal(got, r.stored) || gap != (cursors[of] != "") {
				t.Errorf("stream of %q from %q: %v, want %v; gap %v", of, cursors[of], got, r.stored, gap)
			}
			cursors[of] = next
		}
	}
}
