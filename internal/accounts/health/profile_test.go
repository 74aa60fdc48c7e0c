package health_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

func (r *rig) refused(a account.Account, kind problem.Kind) []byte {
	r.t.Helper()
	_, err := r.health.Profile(r.t.Context(), a.Org, a.ID)
	if !errors.Is(err, kind.New("")) {
		r.t.Fatalf("want %s, got %v", kind.Code, err)
	}
	document, err := problem.Of(err).Document(problem.Place{ProblemsURL: "https://p.test"})
	if err != nil {
		r.t.Fatal(err)
	}
	return document
}

func TestTheProfileIsTheCatalogsAndProvesTheSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, login := r.connect("ok", false)
	text, err := r.health.Profile(t.Context(), a.Org, a.ID)
	if err != nil {
		t.Fatal(err)
	}
	var me struct {
		ID, Username, Currency string
		IsCreator              bool
		Unread                 map[string]int
		TwoFactor              map[string]bool
	}
	if err := json.Unmarshal(text, &me); err != nil || me.ID != a.UpstreamID || !me.IsCreator || me.Username == "" || me.Currency == "" || me.TwoFactor == nil || me.Unread == nil {
		t.Fatalf("%s, %v", text, err)
	}
	r.state(a, account.Active, "")
	r.Clock.Advance(13 * time.Minute)
	if _, err := r.health.Profile(t.Context(), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	r.Clock.Advance(10 * time.Minute)
	r.round(0) // it was used
	if n := r.asked(login); n != 2 {
		t.Fatalf("asked %d times", n)
	}
}

func TestAProfileOfADeadSessionSaysWhereTheAccountStands(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	lost, login := r.active(false)
	r.endSessions(login)
	document := r.refused(lost, problem.AccountDisconnected)
	if part := `"accountId":"` + string(lost.ID) + `"`; !bytes.Contains(document, []byte(part)) {
		t.Errorf("%s lacks %s", document, part)
	}
	r.state(lost, account.ReconnectRequired, "session_expired")
	if n := r.asked(""); n != 2 {
		t.Fatalf("asked %d times before it was believed", n)
	}
	r.refused(lost, problem.AccountDisconnected)
	if n := r.asked(""); n != 2 {
		t.Fatal("a dead session was used again")
	}

	kept, login := r.active(true)
	r.endSessions(login)
	if document := r.refused(kept, problem.AccountReauthenticating); !bytes.Contains(document, []byte(`"retryAfterSec":5`)) {
		t.Errorf("%s", document)
	}
	r.state(kept, account.Reauthenticating, "session_expired")
}

// An account moves for other reasons than a new session; a refusal from before holds after it.
func TestARefusalIsBelievedAlthoughTheAccountHasMoved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	connecting, login := r.connect("ok", false)
	if _, err := r.health.Profile(t.Context(), connecting.Org, connecting.ID); err != nil {
		t.Fatal(err)
	}
	r.state(connecting, account.Active, "")
	r.endSessions(login)
	if alive, err := r.health.Confirm(t.Context(), connecting); alive || err != nil {
		t.Fatalf("alive %v, %v", alive, err)
	}
	r.state(connecting, account.ReconnectRequired, "session_expired")
}

func TestAProfileSurvivesOneRefusal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, login := r.active(false)
	r.fault(login, "error", 401, 1)
	if _, err := r.health.Profile(t.Context(), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	r.state(a, account.Active, "")
}

func TestAProfileTellsThePlatformsTrouble(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, login := r.active(false)
	r.fault(login, "rate_limit", 7, 1)
	if document := r.refused(a, problem.UpstreamRateLimited); !bytes.Contains(document, []byte(`"retryAfterSec":7`)) {
		t.Errorf("%s", document)
	}
	r.fault(login, "error", 500, 3)
	for range 3 {
		r.refused(a, problem.UpstreamError)
		r.Clock.Advance(5 * time.Second)
	}
	r.state(a, account.Degraded, "upstream_unavailable")
	if _, err := r.health.Profile(t.Context(), a.Org, a.ID); err != nil {
		t.Fatal("calls run on while degraded:", err)
	}
	if _, err := r.health.Profile(t.Context(), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	r.state(a, account.Active, "")
}

func TestAProfileOfABannedAccountIsForbidden(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, _ := r.connect("restricted", false)
	r.control("POST", "clock", map[string]any{"advance_sec": 6})
	if document := r.refused(a, problem.UpstreamAccountRestricted); !bytes.Contains(document, []byte(`"upstreamCode":1024`)) {
		t.Errorf("%s", document)
	}
	r.state(a, account.Restricted, "locked")
	r.refused(a, problem.UpstreamAccountRestricted)
}

func TestAnotherOrgsProfileIsNotThere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, login := r.active(false)
	a.Org = r.Org()
	r.refused(a, problem.AccountNotFound)
	if n := r.asked(login); n != 0 {
		t.Fatal("the platform was asked")
	}
}
