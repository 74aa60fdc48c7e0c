package idempotency_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/idempotency"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// fakeSealer seals by inverting every bit. It fails for holders that were not prepared.
type fakeSealer struct {
	prepared    sync.Map
	unavailable atomic.Bool
}

func (b *fakeSealer) Prepare(_ context.Context, _ id.Org, holder string) error {
	b.prepared.Store(holder, true)
	return nil
}

func (b *fakeSealer) Seal(_ context.Context, at seal.Address, text secret.String) ([]byte, error) {
	if _, ok := b.prepared.Load(at.Holder); !ok {
		return nil, seal.ErrShredded
	}
	if b.unavailable.Load() {
		return nil, seal.ErrUnavailable
	}
	return invert([]byte(fmt.Sprint(at) + "\n" + text.Reveal())), nil
}

func (b *fakeSealer) Open(_ context.Context, at seal.Address, sealed []byte) (secret.String, error) {
	if b.unavailable.Load() {
		return secret.String{}, seal.ErrUnavailable
	}
	if _, ok := b.prepared.Load(at.Holder); !ok {
		return secret.String{}, seal.ErrShredded
	}
	text, ok := bytes.CutPrefix(invert(sealed), []byte(fmt.Sprint(at)+"\n"))
	if !ok {
		return secret.String{}, seal.ErrCorrupt
	}
	return secret.New(string(text)), nil
}

func (b *fakeSealer) Derive(context.Context, string) ([]byte, error) {
	if b.unavailable.Load() {
		return nil, seal.ErrUnavailable
	}
	return bytes.Repeat([]byte{7}, 32), nil
}

func invert(text []byte) []byte {
	out := slices.Clone(text)
	for i := range out {
		out[i] ^= 0xff
	}
	return out
}

type fixture struct {
	db     *postgres.DB
	sealer *fakeSealer
	keys   *idempotency.Keys
	org    id.Org
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{db: testenv.Postgres(t), sealer: &fakeSealer{}}
	f.keys = idempotency.New(idempotency.Deps{DB: f.db, Seal: f.sealer})
	f.org = testenv.AddOrg(t, f.db)
	return f
}

func (f *fixture) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := f.db.Pool().Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) request() idempotency.Request {
	return idempotency.Request{
		Org: f.org, Caller: "key_1", Key: "k", Route: "POST /x", Target: "/x?a=1", Body: []byte(`{"password":"hunter2"}`), Lease: idempotency.Lease,
	}
}

// mustBegin reserves a key, or fails the test.
func (f *fixture) mustBegin(t *testing.T, r idempotency.Request) *idempotency.Claim {
	t.Helper()
	claim, answer, err := f.keys.Begin(t.Context(), r)
	if err != nil || claim == nil || answer != nil {
		t.Fatalf("%v, %v, %v", claim, answer, err)
	}
	return claim
}

// mustRefuse returns the problem of a request that Begin refuses, or fails the test.
func (f *fixture) mustRefuse(t *testing.T, r idempotency.Request) map[string]any {
	t.Helper()
	claim, answer, err := f.keys.Begin(t.Context(), r)
	if err == nil {
		t.Fatalf("not refused: %v %v", claim, answer)
	}
	text, fault := problem.Of(err).Document(problem.Place{ProblemsURL: "https://x.test", Instance: "urn:x"})
	var doc map[string]any
	if fault = errors.Join(fault, json.Unmarshal(text, &doc)); fault != nil {
		t.Fatal(fault)
	}
	return doc
}

// A request runs once. A repeated request by the same caller gets the first answer unchanged; a different request with
// the key is refused, and another key, operation or org is unrelated.
func TestRepeatedRequestGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.request()
	if known, err := f.keys.Known(t.Context(), r); err != nil || known {
		t.Errorf("known before its first use: %v", err)
	}
	claim := f.mustBegin(t, r)
	doc := f.mustRefuse(t, r)
	if doc["code"] != "idempotency-in-progress" || doc["retryable"] != true || doc["retryAfterSec"] != 1.0 {
		t.Errorf("while it runs: %v", doc)
	}
	first := idempotency.Answer{Status: 201, Header: map[string]string{"Content-Type": "application/json", "Location": "/x/1"}, Body: []byte("{\"key\":\"sd_live_<&>\"}\n")}
	must.OK(t, f.keys.Finish(t.Context(), claim, first))
	_, again, err := f.keys.Begin(t.Context(), r)
	if err != nil || again == nil || again.Status != 201 || !maps.Equal(again.Header, first.Header) || !bytes.Equal(again.Body, first.Body) {
		t.Errorf("%+v %v", again, err)
	}
	if known, err := f.keys.Known(t.Context(), r); err != nil || !known {
		t.Errorf("not known after its use: %v", err)
	}
	for what, change := range map[string]func(*idempotency.Request){
		"another body":   func(r *idempotency.Request) { r.Body = []byte(`{}`) },
		"another path":   func(r *idempotency.Request) { r.Target = "/x?a=2" },
		"another caller": func(r *idempotency.Request) { r.Caller = "key_2" },
		"shifted parts":  func(r *idempotency.Request) { r.Target, r.Body = "/x?a=1{", []byte(`"password":"hunter2"}`) },
	} {
		other := f.request()
		change(&other)
		if doc := f.mustRefuse(t, other); doc["code"] != "idempotency-mismatch" || doc["retryable"] != false {
			t.Errorf("%s: %v", what, doc)
		}
	}
	for what, change := range map[string]func(*idempotency.Request){
		"another key":       func(r *idempotency.Request) { r.Key = "K" },
		"another operation": func(r *idempotency.Request) { r.Route = "PUT /x" },
		"another org":       func(r *idempotency.Request) { r.Org = testenv.AddOrg(t, f.db) },
	} {
		other := f.request()
		change(&other)
		if claim, _, err := f.keys.Begin(t.Context(), other); err != nil || claim == nil {
			t.Errorf("%s cannot use the key: %v", what, err)
		}
	}
}

// An answer may contain a secret and a request a password. The stored rows reveal neither.
func TestStoredRowsRevealNoSecrets(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	claim := f.mustBegin(t, f.request())
	must.OK(t, f.keys.Finish(t.Context(), claim, idempotency.Answer{Status: 200, Body: []byte("SECRET-ANSWER")}))
	var text string
	if err := f.db.Pool().QueryRow(t.Context(), `SELECT encode(body, 'escape') || encode(request_hash, 'hex') || headers::text FROM idempotency_key`).Scan(&text); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains([]byte(text), []byte("SECRET")) || bytes.Contains([]byte(text), []byte("hunter2")) {
		t.Error(text)
	}
}

// An answer with content of an account is gone with the account's key: the stored one, and one that arrives later.
func TestAnswersOfADeletedAccountAreGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := id.New[id.Account]()
	must.OK(t, f.sealer.Prepare(t.Context(), f.org, string(account)))
	stored, late := f.request(), f.request()
	stored.Account, late.Account, late.Key = account, account, "late"
	must.OK(t, f.keys.Finish(t.Context(), f.mustBegin(t, stored), idempotency.Answer{Status: 200, Body: []byte("what a fan wrote")}))
	_, answer, err := f.keys.Begin(t.Context(), stored)
	if err != nil || string(answer.Body) != "what a fan wrote" {
		t.Fatalf("%v, %v", answer, err)
	}
	claim := f.mustBegin(t, late)
	f.sealer.prepared.Delete(string(account))
	must.OK(t, f.keys.Finish(t.Context(), claim, idempotency.Answer{Status: 200, Body: []byte("what a fan wrote")}))
	if doc := f.mustRefuse(t, stored); doc["code"] != "account-not-found" {
		t.Errorf("%v", doc)
	}
	if doc := f.mustRefuse(t, late); doc["outcome"] != "done" || doc["retryable"] != false {
		t.Errorf("%v", doc)
	}
}

// A released key can be used for a different request, and its first claim has no effect any more.
func TestReleasedKeyCanBeUsedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	claim := f.mustBegin(t, f.request())
	must.OK(t, f.keys.Release(t.Context(), claim))
	other := f.request()
	other.Body = []byte(`{}`)
	f.mustBegin(t, other)
	if err := f.keys.Finish(t.Context(), claim, idempotency.Answer{Status: 200}); !errors.Is(err, idempotency.ErrLost) {
		t.Errorf("the first run can still finish: %v", err)
	}
}

// After a run has died, repeated requests get an unknown outcome for as long as the key is stored. Only a repeatable
// request runs again; then the dead run, if it comes back, can no longer change the row.
func TestDeadRunLeavesOutcomeUnknown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	dead := f.mustBegin(t, f.request())
	f.exec(t, `UPDATE idempotency_key SET lease_until = now() - interval '1 second'`)
	for range 2 {
		if doc := f.mustRefuse(t, f.request()); doc["code"] != "internal" || doc["retryable"] != false || doc["outcome"] != "unknown" {
			t.Fatalf("%v", doc)
		}
	}
	repeatable := f.request()
	repeatable.Repeatable = true
	other := repeatable
	other.Body = nil
	if doc := f.mustRefuse(t, other); doc["code"] != "idempotency-mismatch" {
		t.Errorf("another body: %v", doc)
	}
	second := f.mustBegin(t, repeatable)
	if doc := f.mustRefuse(t, repeatable); doc["code"] != "idempotency-in-progress" {
		t.Errorf("while the second run is under way: %v", doc)
	}
	if err := f.keys.Finish(t.Context(), dead, idempotency.Answer{Status: 200, Body: []byte("dead")}); !errors.Is(err, idempotency.ErrLost) {
		t.Errorf("the dead run: %v", err)
	}
	must.OK(t, f.keys.Finish(t.Context(), second, idempotency.Answer{Status: 200, Body: []byte("second")}))
	if _, a, err := f.keys.Begin(t.Context(), repeatable); err != nil || string(a.Body) != "second" {
		t.Errorf("%v %v", a, err)
	}
}

// An abandoned run has an unknown outcome immediately. A slow run whose lease has expired can finish if no other run
// took the key.
func TestAbandonedAndSlowRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	must.OK(t, f.keys.Abandon(t.Context(), f.mustBegin(t, f.request())))
	if doc := f.mustRefuse(t, f.request()); doc["outcome"] != "unknown" {
		t.Errorf("%v", doc)
	}
	late := f.request()
	late.Key = "slow"
	slow := f.mustBegin(t, late)
	f.exec(t, `UPDATE idempotency_key SET lease_until = now() - interval '1 second'`)
	must.OK(t, f.keys.Finish(t.Context(), slow, idempotency.Answer{Status: 204}))
	if _, a, err := f.keys.Begin(t.Context(), late); err != nil || a.Status != 204 || len(a.Body) != 0 {
		t.Errorf("%v %v", a, err)
	}
}

// If an answer was too large to store, a repeated request gets a problem and does not run.
func TestRequestWithLargeAnswerIsNotRepeated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	must.OK(t, f.keys.Finish(t.Context(), f.mustBegin(t, f.request()), idempotency.Answer{Status: 200, TooLarge: true}))
	if doc := f.mustRefuse(t, f.request()); doc["retryable"] != false || doc["outcome"] != "done" {
		t.Errorf("%v", doc)
	}
}

// While the sealing keys are unavailable, no request starts and no stored answer is returned.
func TestSealingKeysUnavailable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.sealer.unavailable.Store(true)
	if doc := f.mustRefuse(t, f.request()); doc["code"] != "service-unavailable" || doc["retryable"] != true {
		t.Errorf("%v", doc)
	}
	f.sealer.unavailable.Store(false)
	must.OK(t, f.keys.Finish(t.Context(), f.mustBegin(t, f.request()), idempotency.Answer{Status: 200, Body: []byte("x")}))
	f.sealer.unavailable.Store(true)
	if doc := f.mustRefuse(t, f.request()); doc["code"] != "service-unavailable" || doc["retryable"] != true {
		t.Errorf("%v", doc)
	}
}

// An expired key can be used again whether or not Trim has deleted it. Trim deletes expired rows only.
func TestExpiry(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 4321 {
		f.exec(t, `INSERT INTO idempotency_key (org_id, key, route, request_hash, state, owner, lease_until, created_at, expires_at)
			VALUES ($1, $2, 'POST /x', '', 'done', 'o', now(), now(), now() - interval '1 second')`, f.org, fmt.Sprint("old-", i))
	}
	f.mustBegin(t, f.request())
	old := f.request()
	old.Key = "old-7"
	f.mustBegin(t, old)
	if n, err := f.keys.Trim(t.Context()); err != nil || n != 4320 {
		t.Errorf("%d rows, %v", n, err)
	}
	if doc := f.mustRefuse(t, f.request()); doc["code"] != "idempotency-in-progress" {
		t.Errorf("%v", doc)
	}
	if n, err := f.keys.Trim(t.Context()); err != nil || n != 0 {
		t.Errorf("%d more rows, %v", n, err)
	}
}

// Of many equal concurrent requests on several nodes one runs, and eventually all get its answer.
func TestConcurrentRequestsRunOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	nodes := []*idempotency.Keys{f.keys, idempotency.New(idempotency.Deps{DB: f.db, Seal: f.sealer})}
	var runs, refusals atomic.Int64
	var wait sync.WaitGroup
	for i := range 50 {
		wait.Go(func() {
			for {
				claim, answer, err := nodes[i%2].Begin(t.Context(), f.request())
				switch {
				case claim != nil:
					n := runs.Add(1)
					if err := nodes[i%2].Finish(t.Context(), claim, idempotency.Answer{Status: 200, Body: fmt.Append(nil, n)}); err != nil {
						t.Error(err)
					}
					return
				case answer != nil:
					if string(answer.Body) != "1" {
						t.Errorf("%s", answer.Body)
					}
					return
				case problem.Of(err).Kind.Code != "idempotency-in-progress":
					t.Error(err)
					return
				}
				refusals.Add(1)
				<-time.After(5 * time.Millisecond)
			}
		})
	}
	wait.Wait()
	if runs.Load() != 1 {
		t.Errorf("%d runs", runs.Load())
	}
	t.Logf("%d requests were refused while the first was running", refusals.Load())
}
