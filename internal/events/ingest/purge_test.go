package ingest_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/events/ingest"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// A purge deletes the data of an account's events, in several steps; ids, kinds, times and sequence numbers stay.
// Records that are still in the log are dropped, on a node that has cached the head and on any other. The last event
// keeps its data.
func TestPurgedEventsKeepNoData(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, other := id.New[id.Account](), string(id.New[id.Account]())
	source := string(a)
	stop := r.node(1, event.Bucket(source), event.Bucket(other))
	defer func() { stop() }()
	const n = 1200 // more than one batch
	var records []*event.Record
	for i := range n {
		records = append(records, r.record(source, i+1))
	}
	r.publish("1", records...)
	before := r.waitForEvents(source, n)
	done, err := r.store.Purge(t.Context(), r.org, a, true, 1)
	r.must(err)
	if done {
		t.Fatal("everything was purged in one call")
	}
	for !done {
		done, err = r.store.Purge(t.Context(), r.org, a, true, 500)
		r.must(err)
	}

	r.publish("2", r.record(source, n+1), r.record(source, n+2))
	r.publish("3", r.record(other, 1))
	wantContiguous(t, r.waitForEvents(other, 1), numbers(1, 1))
	stop()
	stop = r.node(2, event.Bucket(source), event.Bucket(other))
	r.publish("4", r.record(source, n+3))
	r.publish("5", r.record(other, 2))
	r.waitForEvents(other, 2)
	for _, data := range []contract.Event{contract.AccountUpdated{Changes: []string{"label"}}, contract.AccountDisconnected{ID: a}} {
		r.must(r.db.Tx(t.Context(), func(tx postgres.Tx) error {
			return r.outbox.Add(t.Context(), tx, outbox.Event{Org: r.org, Account: a, OfUserID: "7", Data: data})
		}))
	}
	after := r.waitForEvents(source, n+2)
	if len(after) != n+2 {
		t.Fatalf("%d events, want %d", len(after), n+2)
	}
	for i, e := range after {
		last := i == n+1
		var body struct {
			ID, Event, AccountID, TS string
			Data                     json.RawMessage
			Meta                     struct {
				Seq      int64
				OfUserID *string
				Sandbox  bool
				Purged   bool
			}
		}
		if err := json.Unmarshal(e.Body, &body); err != nil {
			t.Fatalf("%s: %v", e.Body, err)
		}
		if i < n && (e.ID != before[i].ID || !e.At.Equal(before[i].At) || e.Kind != before[i].Kind) {
			t.Fatalf("%+v was %+v", e, before[i])
		}
		if body.ID != string(e.ID) || body.Event != e.Kind || body.AccountID != source || body.TS == "" || body.Meta.Seq != int64(i+1) || !body.Meta.Sandbox {
			t.Fatalf("%s", e.Body)
		}
		if empty := bytes.Equal(body.Data, []byte("null")) && body.Meta.Purged && body.Meta.OfUserID == nil; empty == last {
			t.Fatalf("%s", e.Body)
		}
	}
	var marks, watermarks int
	r.must(r.db.Pool().QueryRow(t.Context(), `SELECT (SELECT count(*) FROM event WHERE source = $1 AND upstream_id <> ''),
		(SELECT count(*) FROM event_source WHERE source = $1 AND watermark IS NOT NULL)`, source).Scan(&marks, &watermarks))
	if marks+watermarks != 0 {
		t.Errorf("%d platform ids and %d watermarks remain", marks, watermarks)
	}
	kept, err := r.store.After(t.Context(), r.org, other, 0, now().Add(-time.Hour), 10)
	r.must(err)
	wantContiguous(t, kept, numbers(1, 2))
}

// Records of an org whose rows are being deleted are dropped, also by a node that knew the org before. Otherwise rows of
// it would stay for ever.
func TestRecordsOfADestroyedOrgAreDropped(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	source := string(id.New[id.Account]())
	other := sourceInBucket(event.Bucket(source))
	kept := testenv.AddOrg(t, r.db)
	stop := r.node(1, event.Bucket(source))
	defer stop()
	r.publish("1", r.record(source, 1))
	r.waitForEvents(source, 1)

	started := now()
	r.mu.Lock()
	r.deletion = &org.Deletion{RequestedAt: started, PurgeAt: started, StartedAt: &started}
	r.mu.Unlock()
	r.ahead.Store(int64(ingest.OwnersFor))
	r.publish("2", r.record(source, 2))
	last := r.record(other, 1)
	last.Org = kept
	r.publish("3", last)
	testenv.Await(t, "the record of another org is stored", func() bool {
		list, err := r.store.After(t.Context(), kept, other, 0, now().Add(-time.Hour), 10)
		return err == nil && len(list) == 1
	})
	if list := r.waitForEvents(source, 1); len(list) != 1 {
		t.Errorf("%d events, want 1: a record of the destroyed org was stored", len(list))
	}
}

// sourceInBucket returns the id of an account in a bucket.
func sourceInBucket(bucket int) string {
	for {
		if source := string(id.New[id.Account]()); event.Bucket(source) == bucket {
			return source
		}
	}
}
