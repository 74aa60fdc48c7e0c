package health_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

func (r *fixture) wantProfileProblem(a account.Account, kind problem.Kind) []byte {
	r.t.Helper()
	_, err := r.health.Profile(r.t.Context(), a.Org, a.ID)
	if !errors.Is(err, kind.New("")) {
		r.t.Fatalf("want %s, got %v", kind.Code, err)
	}
	document, err := problem.Of(err).Document(problem.Place{ProblemsURL: "https://p.test"})
	must.OK(r.t, err)
	return document
}

func TestProfileIsTheCatalogsMeAndCountsAsAProbe(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, login := r.connect("ok", false)
	text, err := r.health.Profile(t.Context(), a.Org, a.ID)
	must.OK(t, err)
	var me struct {
		ID, Username, Currency string
		IsCreator              bool
		Unread                 map[string]int
		TwoFactor              map[string]bool
	}
	if err := json.Unmarshal(text, &me); err != nil || me.ID != a.UpstreamID || !me.IsCreator || me.Username == "" || me.Currency == "" || me.TwoFactor == nil || me.Unread == nil {
		t.Fatalf("%s, %v", text, err)
	}
	r.wantState(a, account.Active, "")
	r.Clock.Advance(13 * time.Minute)
	if _, err := r.health.Profile(t.Context(), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	must.OK(t, r.Accounts.WriteSeen(t.Context()))
	r.Clock.Advance(10 * time.Minute)
	r.runRound(0) // the account was used
	if n := r.requestCount(login); n != 2 {
		t.Fatalf("%d requests", n)
	}
}

func TestProfileOfADeadSessionFailsWithTheStateOfTheAccount(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	lost, login := r.connectActive(false)
	r.endSessions(login)
	document := r.wantProfileProblem(lost, problem.AccountDisconnected)
	if part := `"accountId":"` + string(lost.ID) + `"`; !bytes.Contains(document, []byte(part)) {
		t.Errorf("%s lacks %s", document, part)
	}
	r.wantState(lost, account.ReconnectRequired, "session_expired")
	if n := r.requestCount(""); n != 2 {
		t.Fatalf("%d requests before the session was declared dead", n)
	}
	r.wantProfileProblem(lost, problem.AccountDisconnected)
	if n := r.requestCount(""); n != 2 {
		t.Fatal("a dead session was used again")
	}

	kept, login := r.connectActive(true)
	r.endSessions(login)
	if document := r.wantProfileProblem(kept, problem.AccountReauthenticating); !bytes.Contains(document,
		[]byte(`"retryAfterSec":5`)) {
		t.Errorf("%s", document)
	}
	r.wantState(kept, account.Reauthenticating, "session_expired")
}

// An account may change its state without a new session. A refusal from before that still counts.
func TestRefusalCountsAfterTheAccountChangedState(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	connecting, login := r.connect("ok", false)
	if _, err := r.health.Profile(t.Context(), connecting.Org, connecting.ID); err != nil {
		t.Fatal(err)
	}
	r.wantState(connecting, account.Active, "")
	r.endSessions(login)
	if alive, err := r.health.Confirm(t.Context(), connecting); alive || err != nil {
		t.Fatalf("alive %v, %v", alive, err)
	}
	r.wantState(connecting, account.ReconnectRequired, "session_expired")
}

func TestAProfileSurvivesOneRefusal(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, login := r.connectActive(false)
	r.addFault(login, "error", 401, 1)
	if _, err := r.health.Profile(t.Context(), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	r.wantState(a, account.Active, "")
}

func TestProfileReportsFailuresOfThePlatform(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, login := r.connectActive(false)
	r.addFault(login, "rate_limit", 7, 1)
	if document := r.wantProfileProblem(a, problem.UpstreamRateLimited); !bytes.Contains(document,
		[]byte(`"retryAfterSec":7`)) {
		t.Errorf("%s", document)
	}
	r.addFault(login, "error", 500, 3)
	for range 3 {
		r.wantProfileProblem(a, problem.UpstreamError)
		r.Clock.Advance(5 * time.Second)
	}
	r.wantState(a, account.Degraded, "upstream_unavailable")
	if _, err := r.health.Profile(t.Context(), a.Org, a.ID); err != nil {
		t.Fatal("a call failed while degraded:", err)
	}
	if _, err := r.health.Profile(t.Context(), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	r.wantState(a, account.Active, "")
}

func TestAProfileOfABannedAccountIsForbidden(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, _ := r.connect("restricted", false)
	r.control("POST", "clock", map[string]any{"advance_sec": 6})
	if document := r.wantProfileProblem(a, problem.UpstreamAccountRestricted); !bytes.Contains(document,
		[]byte(`"upstreamCode":1024`)) {
		t.Errorf("%s", document)
	}
	r.wantState(a, account.Restricted, "locked")
	r.wantProfileProblem(a, problem.UpstreamAccountRestricted)
}

func TestProfileOfAnotherOrgIsNotFound(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, login := r.connectActive(false)
	a.Org = r.Org()
	r.wantProfileProblem(a, problem.AccountNotFound)
	if n := r.requestCount(login); n != 0 {
		t.Fatal("the platform was asked")
	}
}
