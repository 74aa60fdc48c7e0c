package event_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// fixture is a store on its own database.
type fixture struct {
	*event.Store
	t   *testing.T
	org id.Org
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	db := testenv.Postgres(t)
	r := &fixture{t: t, org: id.New[id.Org](), Store: event.New(event.Deps{DB: db, Sealer: sealtest.NewMemory(), Seals: sealtest.Always, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Now().UTC() }})}
	testenv.InsertOrg(r.t, r.Deps().DB, r.org)
	must.OK(t, r.Upkeep(t.Context()))
	return r
}

func (r *fixture) claim(source string, epoch int64) event.Progress {
	r.t.Helper()
	p, err := r.Claim(r.t.Context(), event.Bucket(source), epoch)
	must.OK(r.t, err)
	return p
}

// events returns a batch of n events of a source, starting at a sequence number, with the head after them.
func (r *fixture) events(o id.Org, source string, from, n int64, at time.Time) event.Batch {
	var b event.Batch
	for i := range n {
		e := event.Stored{Org: o, Source: source, Seq: from + i, At: at, ID: id.New[id.Event](), Kind: "message"}
		e.Body = event.AppendEnvelope(nil, &event.Envelope{ID: e.ID, Kind: e.Kind, Account: source, At: at, Seq: e.Seq})
		b.Events = append(b.Events, event.NewEvent{Stored: e, DedupKey: fmt.Sprint("u", e.Seq)})
	}
	b.Heads = []event.HeadRow{{Org: o, Source: source, Head: event.Head{LastSeq: from + n - 1, LastAt: at, Watermark: fmt.Sprint("u", from+n-2)}}}
	return b
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// The oldest sequence number of a source without events is 1, also while its first event is being committed: a reader
// that started after it would miss it.
func TestOldestIsOneWhileTheFirstEventIsCommitted(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for range 50 {
		source := string(id.New[id.Account]())
		b := r.events(r.org, source, 1, 2, now())
		b.Buckets = []event.Progress{r.claim(source, 1)}
		committed := make(chan error, 1)
		go func() {
			_, err := r.Commit(context.WithoutCancel(t.Context()), &b)
			committed <- err
		}()
		for over := false; !over; {
			select {
			case err := <-committed:
				must.OK(t, err)
				over = true
			default:
			}
			oldest, err := r.Oldest(t.Context(), r.org, source, now().Add(-time.Hour))
			must.OK(t, err)
			equal(t, 1, oldest)
		}
	}
}

// Committed events can be read by their source, and the next claim of the bucket continues after them.
func TestCommittedEventsCanBeRead(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	source := string(id.New[id.Account]())
	p := r.claim(source, 1)
	equal(t, event.Progress{Bucket: event.Bucket(source), Epoch: 1, LastAt: time.Unix(0, 0).UTC()}, p)
	b := r.events(r.org, source, 1, 5, now())
	p.LogEpoch, p.Committed, p.LastAt = "log", 17, b.Events[0].At
	b.Buckets = []event.Progress{p}
	tx, err := r.Commit(t.Context(), &b)
	must.OK(t, err)

	list, err := r.After(t.Context(), r.org, source, 2, now().Add(-time.Hour), 10)
	must.OK(t, err)
	equal(t, 3, len(list))
	want := b.Events[2].Stored
	want.Tx = tx
	equal(t, want, list[0])

	again := r.claim(source, 2)
	equal(t, event.Progress{Bucket: p.Bucket, Epoch: 2, LogEpoch: "log", Committed: 17, LastAt: p.LastAt}, again)
	head, err := r.Head(t.Context(), r.org, source)
	must.OK(t, err)
	equal(t, event.Head{LastSeq: 5, LastAt: b.Events[0].At, Watermark: "u4", Known: true}, head)
	loaded, err := r.Load(t.Context(), []string{source, "acct_none"})
	must.OK(t, err)
	equal(t, 1, len(loaded))
	equal(t, []string{"u1", "u2", "u3", "u4", "u5"}, loaded[0].DedupKeys)

	found, err := r.Find(t.Context(), r.org, source, want.ID)
	must.OK(t, err)
	equal(t, want, found)
	seq, err := r.SeqAt(t.Context(), r.org, source, now())
	must.OK(t, err)
	equal(t, 5, seq)
	oldest, err := r.Oldest(t.Context(), r.org, source, now().Add(-time.Hour))
	must.OK(t, err)
	equal(t, 1, oldest)
}

// Another org cannot read the events by any method.
func TestEventsOfAnotherOrgAreNotFound(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	other := id.New[id.Org]()
	testenv.InsertOrg(r.t, r.Deps().DB, other)
	source := string(id.New[id.Account]())
	b := r.events(r.org, source, 1, 3, now())
	_, err := r.Commit(t.Context(), &b)
	must.OK(t, err)
	long := now().AddDate(0, 0, -30)
	list, err := r.After(t.Context(), other, source, 0, long, 10)
	must.OK(t, err)
	equal(t, 0, len(list))
	list, _, err = r.OrgAfter(t.Context(), other, event.Position{}, long, 10)
	must.OK(t, err)
	equal(t, 0, len(list))
	_, err = r.Find(t.Context(), other, source, b.Events[0].ID)
	wantError(t, err, problem.EventNotFound.New(""))
	head, err := r.Head(t.Context(), other, source)
	must.OK(t, err)
	equal(t, event.Head{}, head)
	must.OK(t, r.SetWatermark(t.Context(), other, source, "stolen"))
	head, err = r.Head(t.Context(), r.org, source)
	must.OK(t, err)
	equal(t, "u2", head.Watermark)
}

// A lease of an earlier generation of the database commits and claims nothing: its holder remembers what the database
// may have lost. Events of the next generation come after all that are left.
func TestLeasesOfAnEarlierGenerationAreFencedOff(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	source := string(id.New[id.Account]())
	old := r.claim(source, 1)
	b := r.events(r.org, source, 1, 2, now())
	b.Buckets = []event.Progress{old}
	first, err := r.Commit(t.Context(), &b)
	must.OK(t, err)
	cursor, err := r.SourceHead(t.Context(), r.org, source)
	must.OK(t, err)

	fenced := func() {
		t.Helper()
		for _, events := range []int64{0, 1} { // the progress of a quiet bucket is fenced too
			b := r.events(r.org, source, 3, events, now())
			b.Buckets = []event.Progress{old}
			_, err := r.Commit(t.Context(), &b)
			wantError(t, err, event.ErrFenced)
		}
		_, err = r.Claim(t.Context(), old.Bucket, 1)
		wantError(t, err, event.ErrFenced)
	}
	testenv.EndGeneration(t, r.Deps().DB)
	fenced()
	epoch := testenv.BeginGeneration(t, r.Deps().DB)
	fenced()

	b = r.events(r.org, source, 3, 1, now())
	b.Buckets = []event.Progress{r.claim(source, epoch)}
	second, err := r.Commit(t.Context(), &b)
	must.OK(t, err)
	equal(t, 1, event.Position{Tx: second}.Generation())
	r.waitUntilListed([]event.Stored{{Tx: second}})
	list, _, err := r.OrgAfter(t.Context(), r.org, event.Position{Tx: first, ID: "evt_z"}, now().Add(-time.Hour), 10)
	must.OK(t, err)
	equal(t, 1, len(list))
	equal(t, b.Events[0].ID, list[0].ID)
	next, err := r.SourceHead(t.Context(), r.org, source)
	must.OK(t, err)
	for _, c := range []struct {
		p     event.Position
		ofOrg bool
	}{{cursor, false}, {next, false}, {list[0].Position(), true}} {
		back, known, err := r.Position(t.Context(), r.Cursor(c.p, c.ofOrg), c.ofOrg)
		must.OK(t, err)
		equal(t, c.p, back)
		equal(t, true, known)
	}
}

// A writer whose bucket was claimed with a newer lease commits nothing, and an older lease cannot claim it.
func TestOldLeaseIsFencedOff(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	source := string(id.New[id.Account]())
	old := r.claim(source, 1)
	r.claim(source, 2)
	b := r.events(r.org, source, 1, 1, now())
	b.Buckets = []event.Progress{old}
	_, err := r.Commit(t.Context(), &b)
	wantError(t, err, event.ErrFenced)
	list, err := r.After(t.Context(), r.org, source, 0, now().Add(-time.Hour), 10)
	must.OK(t, err)
	equal(t, 0, len(list))
	_, err = r.Claim(t.Context(), old.Bucket, 1)
	wantError(t, err, event.ErrFenced)
}

// A reader of an org's stream never skips an event whose transaction commits late.
func TestOrgStreamWaitsForOlderTransactions(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	slow, fast := string(id.New[id.Account]()), string(id.New[id.Account]())
	inside, finish := make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		b := r.events(r.org, slow, 1, 1, now())
		b.Also = func(ctx context.Context, tx postgres.Tx) error {
			// From here on the transaction has a number.
			if _, err := tx.Exec(ctx, "SELECT pg_current_xact_id()"); err != nil {
				return err
			}
			close(inside)
			<-finish
			return nil
		}
		if _, err := r.Commit(context.WithoutCancel(t.Context()), &b); err != nil {
			t.Error(err)
		}
	})
	<-inside
	b := r.events(r.org, fast, 1, 1, now())
	_, err := r.Commit(t.Context(), &b)
	must.OK(t, err)
	since := now().Add(-time.Hour)
	list, _, err := r.OrgAfter(t.Context(), r.org, event.Position{}, since, 10)
	must.OK(t, err)
	equal(t, 0, len(list)) // the fast transaction has the higher number
	close(finish)
	wait.Wait()
	for len(list) < 2 && t.Context().Err() == nil { // transactions of other tests delay it, too
		list, _, err = r.OrgAfter(t.Context(), r.org, event.Position{}, since, 10)
		must.OK(t, err)
	}
	reached := list[1].Position()
	equal(t, []string{slow, fast}, []string{list[0].Source, list[1].Source})
	list, _, err = r.OrgAfter(t.Context(), r.org, reached, since, 10)
	must.OK(t, err)
	equal(t, 0, len(list))
	head, err := r.OrgHead(t.Context(), r.org)
	must.OK(t, err)
	list, _, err = r.OrgAfter(t.Context(), r.org, head, since, 10)
	must.OK(t, err)
	equal(t, 0, len(list))
}

// Pages of an org's stream are complete and in order per source, with any number of concurrent writers.
func TestPagesOfTheOrgStreamMissNothing(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	const writers, batches = 4, 25
	var wait sync.WaitGroup
	for range writers {
		wait.Go(func() {
			source := string(id.New[id.Account]())
			for i := range int64(batches) {
				b := r.events(r.org, source, 1+3*i, 3, now())
				if _, err := r.Commit(t.Context(), &b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	defer wait.Wait()
	last, total, at := map[string]int64{}, 0, event.Position{}
	// Transactions of other tests delay it, too: all databases of a server share transaction numbers.
	for total < writers*batches*3 && t.Context().Err() == nil {
		list, reached, err := r.OrgAfter(t.Context(), r.org, at, now().Add(-time.Hour), 7)
		must.OK(t, err)
		for _, e := range list {
			equal(t, last[e.Source]+1, e.Seq)
			last[e.Source] = e.Seq
			total++
		}
		at = reached
	}
}

// Commit creates the partition of a day that has none.
func TestMissingPartitionIsCreatedByCommit(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	source := string(id.New[id.Account]())
	_, err := r.Deps().DB.Pool().Exec(t.Context(), "DROP TABLE event_"+now().Format("20060102"))
	must.OK(t, err)
	b := r.events(r.org, source, 1, 1, now())
	_, err = r.Commit(t.Context(), &b)
	must.OK(t, err)
}

// Events that an org may no longer read are skipped, and a page is as full as possible.
func TestPageSkipsEventsThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	source := string(id.New[id.Account]())
	for _, b := range []event.Batch{r.events(r.org, source, 1, 5, now().Add(-2*time.Hour)), r.events(r.org, source, 6, 5, now())} {
		_, err := r.Commit(t.Context(), &b)
		must.OK(t, err)
	}
	since := now().Add(-time.Hour)
	for _, c := range []struct {
		after int64
		limit int
		want  []int64
	}{{0, 3, []int64{6, 7, 8}}, {4, 3, []int64{6, 7, 8}}, {5, 3, []int64{6, 7, 8}}, {8, 3, []int64{9, 10}}, {3, 100, []int64{6, 7, 8, 9, 10}}, {10, 3, nil}, {1 << 62, 3, nil}} {
		list, err := r.After(t.Context(), r.org, source, c.after, since, c.limit)
		must.OK(t, err)
		var got []int64
		for _, e := range list {
			got = append(got, e.Seq)
		}
		equal(t, c.want, got)
	}
}

// Reading a source uses the primary key and touches neither events of other sources nor events after the page, also
// on a day without statistics.
func TestReadingASourceUsesItsKey(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	source := string(id.New[id.Account]())
	b := r.events(r.org, source, 1, 5000, now())
	_, err := r.Commit(t.Context(), &b)
	must.OK(t, err)
	rows, err := r.Deps().DB.Pool().Query(t.Context(), `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT * FROM event
		WHERE org_id = '`+string(r.org)+`' AND source = '`+source+`' AND seq > 5 AND seq <= 105 AND at >= now() - interval '1 hour' ORDER BY seq`)
	must.OK(t, err)
	var plan []string
	for rows.Next() {
		var line string
		must.OK(t, rows.Scan(&line))
		plan = append(plan, line)
	}
	must.OK(t, rows.Err())
	wantContains(t, strings.Join(plan, "\n"), "Index", true)
	wantContains(t, strings.Join(plan, "\n"), "Seq Scan", false)
	wantContains(t, strings.Join(plan, "\n"), "rows=100 ", true)
	wantContains(t, strings.Join(plan, "\n"), "rows=4995 ", false)
}

// A node whose clock is more than a month ahead neither drops nor creates partitions in Upkeep. Events with its time
// can still be stored.
func TestWrongClockDropsNoEvents(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	today := postgres.DayOf(time.Now())
	days := postgres.NewDays(r.Deps().DB, "event", slog.New(slog.DiscardHandler))
	for n := range postgres.Day(org.MaxRetentionDays) {
		must.OK(t, days.Make(t.Context(), today-n))
	}
	count := func() (n int) {
		t.Helper()
		must.OK(t, r.Deps().DB.Pool().QueryRow(t.Context(), "SELECT count(*) FROM pg_inherits WHERE inhparent = 'event'::regclass").Scan(&n))
		return n
	}
	before := count()
	ahead := func() time.Time { return time.Now().UTC().AddDate(0, 0, 34) }
	wrong := event.New(event.Deps{DB: r.Deps().DB, Sealer: sealtest.NewMemory(), Seals: sealtest.Always, Log: slog.New(slog.DiscardHandler), Now: ahead})
	must.OK(t, wrong.Upkeep(t.Context()))
	if after := count(); after != before {
		t.Errorf("%d partitions became %d", before, after)
	}
	source := string(id.New[id.Account]())
	b := r.events(r.org, source, 1, 2, ahead().Truncate(time.Microsecond))
	b.Buckets = []event.Progress{r.claim(source, 1)}
	if _, err := wrong.Commit(t.Context(), &b); err != nil {
		t.Error(err)
	}
}
