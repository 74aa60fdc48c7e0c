package event_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// commitSecrets commits events of an account that contain a secret, and returns what was committed.
func (r *fixture) commitSecrets(source, secret string, n int64) event.Batch {
	r.t.Helper()
	b := r.events(r.org, source, 1, n, now())
	for i := range b.Events {
		e := &b.Events[i]
		e.Sandbox = true
		e.Body = event.AppendEnvelope(nil, &event.Envelope{
			ID: e.ID, Kind: e.Kind, Account: source, At: e.At, Seq: e.Seq, Data: fmt.Appendf(nil, `{"text":%q}`, secret), Meta: event.Meta{Sandbox: true},
		})
	}
	b.Buckets = []event.Progress{r.claim(source, 1)}
	_, err := r.Commit(r.t.Context(), &b)
	must.OK(r.t, err)
	return b
}

// rows returns the bodies of a source's events as they are in the database.
func (r *fixture) rows(source string) (bodies [][]byte) {
	r.t.Helper()
	rows, err := r.Deps().DB.Pool().Query(r.t.Context(), "SELECT body FROM event WHERE source = $1 ORDER BY seq", source)
	must.OK(r.t, err)
	defer rows.Close()
	for rows.Next() {
		var body []byte
		must.OK(r.t, rows.Scan(&body))
		bodies = append(bodies, body)
	}
	must.OK(r.t, rows.Err())
	return bodies
}

// Every way to read events opens them; the database has no content in the clear.
func TestContentIsSealedInTheDatabase(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	const secret = "what a fan wrote"
	source, ctx := string(id.New[id.Account]()), t.Context()
	b := r.commitSecrets(source, secret, 3)
	for _, body := range r.rows(source) {
		if bytes.Contains(body, []byte(secret)) || bytes.Contains(body, []byte("data")) {
			t.Fatalf("the database has %q", body)
		}
	}
	since := now().AddDate(0, 0, -1)
	reads := map[string]func() ([]event.Stored, error){
		"After": func() ([]event.Stored, error) { return r.After(ctx, r.org, source, 0, since, 10) },
		"OrgAfter": func() ([]event.Stored, error) {
			list, _, err := r.OrgAfter(ctx, r.org, event.Position{}, since, 10)
			return list, err
		},
		"SourceAfter": func() ([]event.Stored, error) {
			return r.SourceAfter(ctx, r.org, source, event.SourcePage{Since: since, Limit: 10})
		},
		"Newest": func() ([]event.Stored, error) {
			page, err := r.Newest(ctx, event.Newest{Org: r.org, Since: since, Limit: 10})
			return page.Events, err
		},
		"FindAny": func() ([]event.Stored, error) {
			return r.FindAny(ctx, r.org, []id.Event{b.Events[0].ID, b.Events[1].ID, b.Events[2].ID})
		},
		"Find": func() (list []event.Stored, err error) {
			for i := range b.Events {
				one, err := r.Find(ctx, r.org, source, b.Events[i].ID)
				if err != nil {
					return nil, err
				}
				list = append(list, one)
			}
			return list, nil
		},
	}
	check := func(want func(*event.NewEvent) []byte) {
		t.Helper()
		for name, read := range reads {
			var list []event.Stored
			testenv.Await(t, name, func() (done bool) { // transactions of other tests hide the events from some reads
				var err error
				list, err = read()
				must.OK(t, err)
				return len(list) == len(b.Events)
			})
			for _, got := range list {
				if want := want(&b.Events[got.Seq-1]); !bytes.Equal(got.Body, want) {
					t.Errorf("%s: event %d is\n%s\nwant\n%s", name, got.Seq, got.Body, want)
				}
			}
		}
	}
	check(func(e *event.NewEvent) []byte { return e.Body })

	memory, ok := r.Deps().Sealer.(*sealtest.Memory)
	if !ok {
		t.Fatal("the sealer is not in memory")
	}
	memory.Shred(source)
	check(func(e *event.NewEvent) []byte {
		return event.AppendEnvelope(nil, &event.Envelope{ID: e.ID, Kind: e.Kind, Account: source, At: e.At, Seq: e.Seq, Meta: event.Meta{Sandbox: true, Purged: true}})
	})
}

// An event of an account that is deleted while it is committed has no data, in the store and in what is published.
func TestEventOfADeletedAccountIsStoredWithoutData(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	source := string(id.New[id.Account]())
	memory, _ := r.Deps().Sealer.(*sealtest.Memory)
	memory.Shred(source)
	b := r.commitSecrets(source, "secret", 1)
	list, err := r.After(t.Context(), r.org, source, 0, now().AddDate(0, 0, -1), 10)
	must.OK(t, err)
	for _, body := range [][]byte{list[0].Body, b.Events[0].Body} {
		wantContains(t, string(body), `"data":null`, true)
		wantContains(t, string(body), `"purged":true`, true)
	}
}

// A body that was moved or changed in the database gives no data and stops no reader.
func TestTamperedEventsAreNotOpened(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	source := string(id.New[id.Account]())
	r.commitSecrets(source, "secret", 4)
	pool, ctx := r.Deps().DB.Pool(), t.Context()
	for _, statement := range []string{
		"UPDATE event SET body = (SELECT body FROM event WHERE source = $1 AND seq = 1) WHERE source = $1 AND seq = 2",
		"UPDATE event SET body = set_byte(body, length(body) - 1, get_byte(body, length(body) - 1) # 1) WHERE source = $1 AND seq = 3",
	} {
		_, err := pool.Exec(ctx, statement, source)
		must.OK(t, err)
	}
	list, err := r.After(ctx, r.org, source, 0, now().AddDate(0, 0, -1), 10)
	must.OK(t, err)
	for i, e := range list {
		tampered := i == 1 || i == 2
		wantContains(t, string(e.Body), "secret", !tampered)
		wantContains(t, string(e.Body), `"unreadable":true`, tampered)
		wantContains(t, string(e.Body), `"data":null`, tampered)
	}
}

// Until all nodes can open them, events are stored and logged in the clear.
func TestNothingIsSealedBeforeAllNodesCanOpenIt(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.Deps().Seals = func() bool { return false }
	source := string(id.New[id.Account]())
	b := r.commitSecrets(source, "secret", 1)
	if rows := r.rows(source); !bytes.Equal(rows[0], b.Events[0].Body) {
		t.Fatalf("%q", rows[0])
	}
	record := event.Record{Org: r.org, Source: source, Kind: "message", Data: []byte(`{"text":"secret"}`)}
	text, err := r.SealRecord(t.Context(), nil, &record)
	must.OK(t, err)
	if !bytes.Equal(text, record.Append(nil)) {
		t.Fatalf("%q", text)
	}
}

type noKeys struct{ event.Sealer }

func (noKeys) OpenBytes(context.Context, seal.Address, []byte) ([]byte, error) {
	return nil, seal.ErrUnavailable
}

func TestSealedRecords(t *testing.T) {
	t.Parallel()
	ctx, memory := t.Context(), sealtest.NewMemory()
	store := event.New(event.Deps{Sealer: memory, Seals: sealtest.Always})
	source, other := string(id.New[id.Account]()), string(id.New[id.Account]())
	org := id.New[id.Org]()
	record := event.Record{
		Org: org, Source: source, Kind: "message", UpstreamID: "17", UpstreamAt: now(), OfUserID: "9", ReferenceID: "ref",
		Watermark: "16", LogEpoch: "e", Epoch: 42, Data: []byte(`{"text":"secret"}`),
	}
	text, err := store.SealRecord(ctx, []byte("before"), &record)
	must.OK(t, err)
	text = bytes.TrimPrefix(text, []byte("before"))
	for _, part := range []string{"secret", "message", "17", "ref"} {
		wantContains(t, string(text), part, false)
	}
	read := func(from string) *event.Record {
		got, err := event.ReadRecord(text)
		must.OK(t, err)
		got.Source = from
		return &got
	}
	got, moved := read(source), read(other)
	failed, err := store.OpenRecords(ctx, []*event.Record{got, moved})
	if err != nil || failed[0] != nil || !errors.Is(failed[1], seal.ErrCorrupt) {
		t.Fatalf("%v %v", failed, err)
	}
	again, err := store.SealRecord(ctx, nil, got)
	must.OK(t, err)
	if !bytes.Equal(again, text) {
		t.Error("a record that was opened is sealed again")
	}
	if got.Kind != record.Kind || got.UpstreamID != "17" || !got.UpstreamAt.Equal(record.UpstreamAt) || got.OfUserID != "9" || got.ReferenceID != "ref" ||
		got.Watermark != "16" || got.LogEpoch != "e" || got.Epoch != 42 || !bytes.Equal(got.Data, record.Data) {
		t.Errorf("%+v", got)
	}
	memory.Shred(source)
	if failed, err = store.OpenRecords(ctx, []*event.Record{read(source)}); err != nil || !errors.Is(failed[0], seal.ErrShredded) {
		t.Errorf("%v %v", failed, err)
	}
	if _, err := store.SealRecord(ctx, nil, &record); !errors.Is(err, seal.ErrShredded) {
		t.Errorf("%v", err)
	}
	store.Deps().Sealer = noKeys{memory}
	if _, err := store.OpenRecords(ctx, []*event.Record{read(other)}); !errors.Is(err, seal.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}
