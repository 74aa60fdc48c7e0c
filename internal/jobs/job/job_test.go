package job_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/objects"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/jobs/job"
	"github.com/stagedoor/stagedoor/internal/jobs/job/internal/db"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
)

// fixture is a service for jobs on real engines, with an organisation and a key of it.
type fixture struct {
	*accounttest.Fixture
	t       *testing.T
	keys    *apikey.Keys
	members *member.Members
	store   *objects.Store
	queue   *queue
	owner   id.Org
	caller  *apikey.Principal
	// work is what jobs of the kind "test" do.
	work func(ctx context.Context, r *job.Run) error
	jobs *job.Jobs
	// renewals makes the runs renew their leases.
	renewals chan time.Time
}

// queue counts the runs that are enqueued, and starts none.
type queue struct{ runs atomic.Int64 }

func (q *queue) InsertTx(context.Context, postgres.Tx, river.JobArgs, *river.InsertOpts) (*rivertype.JobInsertResult, error) {
	q.runs.Add(1)
	return &rivertype.JobInsertResult{}, nil
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Fixture: accounttest.New(t, accounttest.Engines{}, nil), t: t, queue: &queue{}, renewals: make(chan time.Time)}
	f.Orgs = org.New(org.Deps{DB: f.DB, Audit: f.Audit, Jobs: testenv.NoJobs{}, Announce: f.Limits, Now: f.Clock.Now})
	f.keys = apikey.New(apikey.Deps{
		DB: f.DB, Orgs: f.Orgs, Audit: f.Audit, Outbox: f.Outbox, Troubled: func() time.Time { return time.Time{} }, Now: f.Clock.Now,
	})
	f.members = member.New(member.Deps{DB: f.DB, Orgs: f.Orgs, Keys: f.keys, Audit: f.Audit, Mail: mail.New(mail.Deps{DB: f.DB, Audit: f.Audit, Seal: f.Seal, Queue: testenv.NoJobs{}, Log: slog.New(slog.DiscardHandler)}), Now: f.Clock.Now})
	var err error
	f.store, err = objects.Open(t.Context(), testenv.Folder(t))
	must.OK(t, err)
	f.owner = f.Org()
	f.caller = f.newCaller(f.owner)
	f.jobs = f.node("one", f.store)
	return f
}

func (f *fixture) newCaller(owner id.Org) *apikey.Principal {
	f.t.Helper()
	o, err := f.Orgs.Get(f.t.Context(), owner)
	must.OK(f.t, err)
	var key apikey.Key
	must.OK(f.t, f.DB.Tx(f.t.Context(), func(tx postgres.Tx) (err error) {
		key, _, err = f.keys.Issue(f.t.Context(), tx, o, accounttest.By("key.mint"), apikey.Draft{Label: "ci"})
		return err
	}))
	return &apikey.Principal{Org: o, Key: key, Scopes: key.Scopes}
}

type store interface {
	Put(ctx context.Context, org id.Org, name string, body []byte) error
	Read(ctx context.Context, org id.Org, name string, offset, length int64) ([]byte, error)
	Delete(ctx context.Context, org id.Org, folder string) error
}

// node returns the service of a node. Only renewals tick, so that a test decides when leases end.
func (f *fixture) node(process string, s store) *job.Jobs {
	return job.New(job.Deps{
		Config: job.Config{PublicURL: "https://api.test", Process: process},
		DB:     f.DB, Orgs: f.Orgs, Keys: f.keys, Members: f.members, Audit: f.Audit, Outbox: f.Outbox, Seal: f.Seal, Objects: s, Queue: f.queue,
		Kinds: []job.Kind{{
			Name: "test", MaxOpen: 3, Check: func(json.RawMessage, job.Rights) error { return nil },
			Run: func(ctx context.Context, r *job.Run) error { return f.work(ctx, r) },
		}},
		Ticker: func(every time.Duration) (<-chan time.Time, func()) {
			if every == 5*time.Second {
				return f.renewals, func() {}
			}
			return nil, func() {}
		},
		Log: slog.New(slog.DiscardHandler),
	})
}

func (f *fixture) start() job.Job {
	f.t.Helper()
	j, err := f.jobs.Start(f.t.Context(), f.caller, accounttest.By("job.start"), job.Draft{Kind: "test", Params: struct{}{}})
	must.OK(f.t, err)
	return j
}

func (f *fixture) get(j job.Job) job.Job {
	f.t.Helper()
	got, err := f.jobs.Get(f.t.Context(), f.owner, string(j.ID))
	must.OK(f.t, err)
	return got
}

func (f *fixture) requireState(j job.Job, want job.State) job.Job {
	f.t.Helper()
	got := f.get(j)
	if got.State != want {
		f.t.Fatalf("the job is %s (%s %s), not %s", got.State, got.ErrorCode, got.ErrorDetail, want)
	}
	return got
}

// result reads the lines of a job's result.
func (f *fixture) result(j job.Job) []string {
	f.t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(f.packed(j)))
	must.OK(f.t, err)
	var lines []string
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 8<<20)
	for scan.Scan() {
		lines = append(lines, scan.Text()[:min(20, len(scan.Text()))])
	}
	must.OK(f.t, scan.Err())
	return lines
}

// packed reads a job's result, which is always a gzip file.
func (f *fixture) packed(j job.Job) []byte {
	f.t.Helper()
	now := f.get(j)
	r, err := f.jobs.Result(f.t.Context(), &now)
	must.OK(f.t, err)
	all, err := io.ReadAll(r)
	must.OK(f.t, err)
	if int64(len(all)) != r.Size() {
		f.t.Fatalf("the result has %d bytes, not %d", len(all), r.Size())
	}
	return all
}

// events returns the kinds of the organisation's events about jobs.
func (f *fixture) events() (kinds []string) {
	f.t.Helper()
	all, err := f.Outbox.After(f.t.Context(), f.owner, 0, 1000)
	must.OK(f.t, err)
	for _, e := range all {
		if strings.HasPrefix(e.Kind, "job.") {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// large is a line after which a run saves.
func large(n int) string { return string(rune('a'+n)) + strings.Repeat("-", 5<<20) }

// steps writes large lines up to n and saves after each. before is called before each.
func steps(n int, before func(step int) error) func(ctx context.Context, r *job.Run) error {
	return func(ctx context.Context, r *job.Run) error {
		var done int
		if err := r.Checkpoint(&done); err != nil {
			return err
		}
		for ; done < n; done++ {
			if err := before(done); err != nil {
				return err
			}
			if err := r.Write("", large(done)); err != nil {
				return err
			}
			if err := r.Save(ctx, done+1); err != nil {
				return err
			}
		}
		return nil
	}
}

func letters(lines []string) string {
	text := ""
	for _, l := range lines {
		text += l[1:2]
	}
	return text
}

func TestAJobRunsToItsEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.work = func(_ context.Context, r *job.Run) error {
		r.Progress.Failed = 1
		return errors.Join(r.Write("", "first"), r.Write("", "second"))
	}
	j := f.start()
	if f.requireState(j, job.Queued); f.queue.runs.Load() != 1 {
		t.Error("no run was enqueued")
	}
	if _, err := f.jobs.Result(t.Context(), &j); !errors.Is(err, problem.JobNotStarted.New("")) {
		t.Errorf("the result of a job that waits: %v", err)
	}
	must.OK(t, f.jobs.Take(t.Context(), f.owner, j.ID))
	over := f.requireState(j, job.CompletedWithErrors)
	if got := f.result(j); !slices.Equal(got, []string{`"first"`, `"second"`}) {
		t.Errorf("the result is %q", got)
	}
	if got := f.events(); !slices.Equal(got, []string{"job.completed"}) {
		t.Errorf("events %v", got)
	}
	v := f.jobs.View(&over, f.Clock.Now())
	if v.Progress.Items != 2 || v.Progress.Failed != 1 || v.Progress.Percent != 100 || v.Result == nil || v.EstimateSec != nil ||
		v.Result.URL != "https://api.test/v1/jobs/"+string(j.ID)+"/result" {
		t.Errorf("%+v", v)
	}
	must.OK(t, f.jobs.Take(t.Context(), f.owner, j.ID)) // a run that was enqueued twice
	if got := f.events(); len(got) != 1 {
		t.Errorf("events %v after another run", got)
	}
}

// A run that fails, as one whose node dies, loses nothing that was saved, and nothing is written twice.
func TestAJobContinuesWhereItStood(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	broken := errors.New("broken")
	fails := map[int]bool{1: true, 3: true}
	f.work = steps(5, func(step int) error {
		if fails[step] {
			delete(fails, step)
			return broken
		}
		return nil
	})
	j := f.start()
	for range 2 {
		if err := f.jobs.Take(t.Context(), f.owner, j.ID); !errors.Is(err, broken) {
			t.Fatalf("the run ended with %v", err)
		}
		f.requireState(j, job.Running)
	}
	must.OK(t, f.jobs.Take(t.Context(), f.owner, j.ID))
	f.requireState(j, job.Completed)
	if got := letters(f.result(j)); got != "abcde" {
		t.Errorf("the result has %s", got)
	}
}

// A worker that was away for longer than its lease saves nothing after another one has continued.
func TestAWorkerThatLostItsLeaseSavesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	reached, proceed := make(chan struct{}), make(chan struct{})
	first := atomic.Bool{}
	first.Store(true)
	f.work = steps(4, func(step int) error {
		if step == 2 && first.CompareAndSwap(true, false) {
			close(reached)
			<-proceed
		}
		return nil
	})
	j := f.start()
	done := make(chan error)
	go func() { done <- f.jobs.Take(t.Context(), f.owner, j.ID) }()
	<-reached
	other := f.node("two", f.store)
	must.OK(t, other.Take(t.Context(), f.owner, j.ID))
	f.requireState(j, job.Running) // the lease has not ended
	f.Clock.Advance(time.Minute)
	must.OK(t, other.Take(t.Context(), f.owner, j.ID))
	f.requireState(j, job.Completed)
	before := f.packed(j)
	close(proceed)
	must.OK(t, <-done)
	if got := letters(f.result(j)); got != "abcd" || !bytes.Equal(before, f.packed(j)) {
		t.Errorf("the result has %s", got)
	}
	if got := f.events(); !slices.Equal(got, []string{"job.completed"}) {
		t.Errorf("events %v", got)
	}
}

func TestAJobWhoseKeyIsRevokedFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	boss := f.newCaller(f.owner)
	f.work = steps(3, func(step int) error {
		if step == 1 {
			return f.keys.Revoke(t.Context(), boss, accounttest.By("key.revoke"), string(f.caller.Key.ID))
		}
		return nil
	})
	j := f.start()
	must.OK(t, f.jobs.Take(t.Context(), f.owner, j.ID))
	if got := f.requireState(j, job.Failed); got.ErrorCode != "key-revoked" {
		t.Errorf("it failed with %s", got.ErrorCode)
	}
	if got := f.events(); !slices.Equal(got, []string{"job.failed"}) {
		t.Errorf("events %v", got)
	}
	if got := letters(f.result(j)); got != "a" {
		t.Errorf("the result has %s", got)
	}
}

func TestCancelEndsAJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	waiting := f.start()
	if _, err := f.jobs.Cancel(t.Context(), f.caller, accounttest.By("job.cancel"), string(waiting.ID)); err != nil {
		t.Fatal(err)
	}
	f.requireState(waiting, job.Cancelled)
	if got := f.result(waiting); len(got) != 0 {
		t.Errorf("the result of a job that never ran has %d lines", len(got))
	}
	var running job.Job
	f.work = steps(3, func(step int) error {
		if step == 1 {
			_, err := f.jobs.Cancel(t.Context(), f.caller, accounttest.By("job.cancel"), string(running.ID))
			return err
		}
		return nil
	})
	must.OK(t, f.jobs.Take(t.Context(), f.owner, waiting.ID))
	f.requireState(waiting, job.Cancelled)
	running = f.start()
	must.OK(t, f.jobs.Take(t.Context(), f.owner, running.ID))
	f.requireState(running, job.Cancelled)
	if got := letters(f.result(running)); got != "a" {
		t.Errorf("the result has %s", got)
	}
	again, err := f.jobs.Cancel(t.Context(), f.caller, accounttest.By("job.cancel"), string(running.ID))
	if err != nil || again.State != job.Cancelled || len(f.events()) != 0 {
		t.Errorf("cancelled again: %v %v, events %v", again.State, err, f.events())
	}
	if _, err := f.jobs.Cancel(t.Context(), f.newCaller(f.Org()), audit.By{}, string(running.ID)); !errors.Is(err, problem.JobNotFound.New("")) {
		t.Errorf("another organisation cancels it: %v", err)
	}
}

// What came from an account cannot be read once the account is deleted, and the rest can.
func TestTheResultLosesWhatCameFromADeletedAccount(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	kept, gone := f.Connect(f.Connected(f.owner, "1")), f.Connect(f.Connected(f.owner, "2"))
	f.work = func(_ context.Context, r *job.Run) error {
		return errors.Join(r.Write("", "org"), r.Write(gone.ID, "gone"), r.Write(kept.ID, "kept"), r.Write("", "end"))
	}
	j := f.start()
	must.OK(t, f.jobs.Take(t.Context(), f.owner, j.ID))
	if got := f.result(j); !slices.Equal(got, []string{`"org"`, `"end"`, `"gone"`, `"kept"`}) {
		t.Errorf("the result is %q", got)
	}
	tag := func() string {
		now := f.get(j)
		r, err := f.jobs.Result(t.Context(), &now)
		must.OK(t, err)
		return r.Tag
	}
	before := tag()
	must.OK(t, f.Accounts.Disconnect(t.Context(), accounttest.By("account.disconnect"), f.owner, gone.ID))
	if got := f.result(j); !slices.Equal(got, []string{`"org"`, `"end"`, `"kept"`}) || tag() == before {
		t.Errorf("after the deletion the result is %q", got)
	}
	for _, o := range f.objects() {
		if body, err := f.store.Read(t.Context(), f.owner, o.Name, 0, o.Size); err != nil || bytes.Contains(body, []byte("kept")) {
			t.Errorf("an object is not sealed (%v)", err)
		}
	}
}

func (f *fixture) objects() []objects.Object {
	f.t.Helper()
	list, err := f.store.List(f.t.Context(), f.owner, "")
	must.OK(f.t, err)
	return list
}

// An account that is deleted while its lines wait to be saved has no lines in the result.
func TestAnAccountDeletedDuringARunLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gone := f.Connect(f.Connected(f.owner, "1"))
	f.work = func(ctx context.Context, r *job.Run) error {
		has, err := r.HasKey(ctx, gone.ID)
		if err != nil {
			return err
		}
		if !has {
			return r.Write("", "deleted")
		}
		if err := r.Write(gone.ID, "gone"); err != nil {
			return err
		}
		return f.Accounts.Disconnect(ctx, accounttest.By("account.disconnect"), f.owner, gone.ID)
	}
	j := f.start()
	must.OK(t, f.jobs.Take(t.Context(), f.owner, j.ID))
	f.requireState(j, job.Running)
	must.OK(t, f.jobs.Take(t.Context(), f.owner, j.ID))
	f.requireState(j, job.Completed)
	if got := f.result(j); !slices.Equal(got, []string{`"deleted"`}) {
		t.Errorf("the result is %q", got)
	}
}

func TestEveryRangeOfAResultIsRight(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var accounts []account.Account
	for _, creator := range []string{"1", "2", "3"} {
		accounts = append(accounts, f.Connect(f.Connected(f.owner, creator)))
	}
	f.work = func(ctx context.Context, r *job.Run) error {
		for i := range 30 {
			if err := r.Write(accounts[i%3].ID, strings.Repeat(string(rune('a'+i)), i)); err != nil {
				return err
			}
		}
		return nil
	}
	j := f.start()
	must.OK(t, f.jobs.Take(t.Context(), f.owner, j.ID))
	whole := f.packed(j)
	now := f.get(j)
	r, err := f.jobs.Result(t.Context(), &now)
	must.OK(t, err)
	for from := range whole {
		for _, size := range []int{1, 7, 100, len(whole) - from} {
			want := whole[from:min(from+size, len(whole))]
			_, err := r.Seek(int64(from), io.SeekStart)
			must.OK(t, err)
			got := make([]byte, len(want))
			if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes from %d are wrong: %v", size, from, err)
			}
		}
	}
}

// Jobs that no worker has are enqueued again, results expire, and jobs are deleted when they are old.
func TestDueKeepsJobsMovingAndDeletesThem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.work = steps(1, func(int) error { return nil })
	j := f.start()
	must.OK(t, f.jobs.Due(t.Context()))
	if n := f.queue.runs.Load(); n != 1 {
		t.Fatalf("%d runs were enqueued", n)
	}
	f.Clock.Advance(time.Minute)
	must.OK(t, f.jobs.Due(t.Context()))
	if n := f.queue.runs.Load(); n != 2 {
		t.Fatalf("%d runs were enqueued", n)
	}
	must.OK(t, f.jobs.Take(t.Context(), f.owner, j.ID))
	f.Clock.Advance(job.KeepResult - time.Second)
	must.OK(t, f.jobs.Due(t.Context()))
	if got := letters(f.result(j)); got != "a" {
		t.Errorf("the result has %q", got)
	}
	f.Clock.Advance(time.Second)
	must.OK(t, f.jobs.Due(t.Context()))
	over := f.requireState(j, job.Completed)
	if _, err := f.jobs.Result(t.Context(), &over); !errors.Is(err, problem.ResultExpired.New("")) {
		t.Errorf("the result after its time: %v", err)
	}
	if v := f.jobs.View(&over, f.Clock.Now()); v.Result != nil || len(f.objects()) != 0 {
		t.Errorf("%+v, and %d objects", v, len(f.objects()))
	}
	f.Clock.Advance(job.KeepJob - job.KeepResult)
	must.OK(t, f.jobs.Due(t.Context()))
	if _, err := f.jobs.Get(t.Context(), f.owner, string(j.ID)); !errors.Is(err, problem.JobNotFound.New("")) {
		t.Errorf("the job after its time: %v", err)
	}
}

// unavailable is a store that fails while down.
type unavailable struct {
	store
	down bool
}

var errDown = errors.New("the store is down")

func (u *unavailable) Put(ctx context.Context, org id.Org, name string, body []byte) error {
	if u.down {
		return errDown
	}
	return u.store.Put(ctx, org, name, body)
}

func TestAJobOutlastsTheStore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := &unavailable{f.store, true}
	f.jobs = f.node("one", s)
	f.work = steps(2, func(int) error { return nil })
	j := f.start()
	for range 5 {
		if err := f.jobs.Take(t.Context(), f.owner, j.ID); !errors.Is(err, errDown) {
			t.Fatalf("the run ended with %v", err)
		}
		runs := f.queue.runs.Load()
		if must.OK(t, f.jobs.Due(t.Context())); f.queue.runs.Load() != runs {
			t.Fatal("it is tried again without a pause")
		}
		f.Clock.Advance(10 * time.Minute)
	}
	f.requireState(j, job.Running)
	s.down = false
	must.OK(t, f.jobs.Take(t.Context(), f.owner, j.ID))
	f.requireState(j, job.Completed)

	s.down = true
	j = f.start()
	for range 40 {
		_ = f.jobs.Take(t.Context(), f.owner, j.ID)
	}
	if got := f.requireState(j, job.Failed); got.ErrorCode != "internal" {
		t.Errorf("it failed with %s", got.ErrorCode)
	}
}

func TestASuspendedOrganisationsJobsWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.work = steps(1, func(int) error { return nil })
	j := f.start()
	_, err := f.DB.Exec(t.Context(), "UPDATE org SET suspended_at = now() WHERE id = $1", f.owner)
	must.OK(t, err)
	for range 50 { // more often than a job may fail
		must.OK(t, f.jobs.Take(t.Context(), f.owner, j.ID))
		f.requireState(j, job.Running)
	}
	_, err = f.DB.Exec(t.Context(), "UPDATE org SET suspended_at = NULL WHERE id = $1", f.owner)
	must.OK(t, err)
	must.OK(t, f.jobs.Take(t.Context(), f.owner, j.ID))
	f.requireState(j, job.Completed)
}

func TestOpenJobsAreLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	draft := job.Draft{Kind: "test", Params: struct{}{}}
	first := f.start()
	for range 2 {
		f.start()
	}
	if _, err := f.jobs.Start(t.Context(), f.caller, accounttest.By("job.start"), draft); !errors.Is(err, problem.LimitReached.New("")) {
		t.Errorf("a job beyond the limit: %v", err)
	}
	_, err := f.jobs.Cancel(t.Context(), f.caller, accounttest.By("job.cancel"), string(first.ID))
	must.OK(t, err)
	f.start()
	if _, err := f.node("none", nil).Start(t.Context(), f.caller, accounttest.By("job.start"), draft); err == nil {
		t.Error("a job starts without a store")
	}
	list, err := f.jobs.List(t.Context(), f.owner, job.Filter{}, 10)
	if err != nil || len(list) != 4 || list[3].ID != first.ID {
		t.Errorf("the list has %d jobs, %v", len(list), err)
	}
	if page, err := f.jobs.List(t.Context(), f.owner, job.Filter{Before: list[2].ID}, 10); err != nil || len(page) != 1 {
		t.Errorf("the last page has %d jobs, %v", len(page), err)
	}
	if others, err := f.jobs.List(t.Context(), f.Org(), job.Filter{}, 10); err != nil || len(others) != 0 {
		t.Errorf("another organisation has %d jobs, %v", len(others), err)
	}
}

// A run that lives keeps its job, however long it takes.
func TestALongRunKeepsItsLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.node("two", f.store)
	var j job.Job
	f.work = steps(3, func(int) error {
		for range 2 { // the second value is received after the first has been handled
			f.renewals <- time.Time{}
		}
		f.Clock.Advance(15 * time.Second)
		return other.Take(t.Context(), f.owner, j.ID)
	})
	j = f.start()
	must.OK(t, f.jobs.Take(t.Context(), f.owner, j.ID))
	f.requireState(j, job.Completed)
	if got := letters(f.result(j)); got != "abc" {
		t.Errorf("the result has %q", got)
	}
}

// A renewal that arrives after the run has given the job back does not keep the next one from it.
func TestALateRenewalChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.work = func(context.Context, *job.Run) error { return errDown }
	j := f.start()
	if err := f.jobs.Take(t.Context(), f.owner, j.ID); !errors.Is(err, errDown) {
		t.Fatal(err)
	}
	until := f.Clock.Now().Add(time.Hour)
	n, err := db.New(f.DB).Renew(t.Context(), db.RenewParams{OrgID: f.owner, ID: j.ID, Epoch: 1, LeaseEnd: &until})
	if err != nil || n != 0 {
		t.Errorf("%d leases were renewed, %v", n, err)
	}
}

// A row that this version cannot read keeps no other job waiting.
func TestARowThatCannotBeReadIsSkipped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bad, good := f.start(), f.start()
	_, err := f.DB.Exec(t.Context(), "UPDATE job SET asked_by = '7', wake_at = 'epoch' WHERE id = $1", bad.ID)
	must.OK(t, err)
	f.Clock.Advance(time.Minute)
	must.OK(t, f.jobs.Due(t.Context()))
	if n := f.queue.runs.Load(); n != 3 { // both were enqueued when they started
		t.Errorf("%d runs were enqueued", n)
	}
	f.work = steps(1, func(int) error { return nil })
	must.OK(t, f.jobs.Take(t.Context(), f.owner, good.ID))
	f.requireState(good, job.Completed)
}

// A node that does not know a kind of job neither runs it, nor serves its result, nor cancels it.
func TestUnknownKindsAreLeftToOtherNodes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.work = steps(1, func(int) error { return nil })
	j := f.start()
	_, err := f.DB.Exec(t.Context(), "UPDATE job SET kind = 'newer' WHERE id = $1", j.ID)
	must.OK(t, err)
	must.OK(t, f.jobs.Take(t.Context(), f.owner, j.ID))
	f.requireState(j, job.Running)
	if err := f.jobs.CheckRights(t.Context(), f.caller, new(f.get(j))); !errors.Is(err, problem.ServiceUnavailable.New("")) {
		t.Errorf("reading its result: %v", err)
	}
	if _, err := f.jobs.Cancel(t.Context(), f.caller, audit.By{}, string(j.ID)); !errors.Is(err, problem.ServiceUnavailable.New("")) {
		t.Errorf("cancelling it: %v", err)
	}
}
