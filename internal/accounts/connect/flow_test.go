package connect_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/test/metric"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// An attempt with each persona of the sandbox ends as the documents say.
func TestPersonasEndAsDocumented(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	for persona, code := range map[string]string{
		"locked": "account_locked", "banned": "account_banned", "terms": "terms_required", "captcha": "captcha_required", "fan": "not_a_creator",
		"down": "upstream_unavailable", "changed": "upstream_changed",
	} {
		t.Run(persona, func(t *testing.T) {
			t.Parallel()
			r := *r
			r.t = t
			r.wantFailure(r.start(login(persona), "good", nil).ID, code)
		})
	}
	for _, persona := range []string{"ok", "slow", "flaky", "expires60", "logout", "mismatch"} {
		t.Run(persona, func(t *testing.T) {
			t.Parallel()
			r := *r
			r.t = t
			if f := r.waitFor(r.start(login(persona), "good", nil).ID, attempt.Success); f.AccountID == nil {
				t.Error("no account")
			}
		})
	}
	t.Run("wrong password", func(t *testing.T) {
		t.Parallel()
		r := *r
		r.t = t
		r.wantFailure(r.start(login("ok"), "bad", nil).ID, "invalid_credentials")
	})
}

func TestAttemptsAreCounted(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	r.waitFor(r.start(login("ok"), "good", nil).ID, attempt.Success)
	r.wantFailure(r.start(login("locked"), "good", nil).ID, "account_locked")
	r.wantFailure(r.start(login("banned"), "good", nil).ID, "account_banned")
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"begun_total", []string{"kind", "credentials"}, 3},
		{"ended_total", []string{"kind", "credentials", "state", string(attempt.Success), "code", ""}, 1},
		{"ended_total", []string{"state", string(attempt.Failed), "code", "account_locked"}, 1},
		{"ended_total", []string{"kind", "credentials"}, 3},
	} {
		// The worker counts after the commit that waitFor sees.
		for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
			got := metric.Value(t, r.metrics, "stagedoor_connect_attempts_"+c.name, c.labels...)
			if got == c.want {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("%s%v is %v; want %v", c.name, c.labels, got, c.want)
				break
			}
		}
	}
}

// A wrong code can be corrected, the fifth wrong code ends the attempt, and so does a code that locks the account.
func TestChallenges(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	for persona, state := range map[string]attempt.State{"sms": attempt.NeedsOTP, "app": attempt.NeedsApp, "email": attempt.NeedsEmail} {
		at := r.start(login(persona), "good", nil).ID
		f := r.waitFor(at, state)
		if slices.Contains(f.NextActions, "send_email") {
			_, err := r.connects.SendEmail(t.Context(), r.org.ID, at)
			must.OK(t, err)
			if f, err = r.connects.Verdict(t.Context(), r.org.ID, at, 5*time.Second); err != nil || !slices.Contains(f.NextActions, "submit_code") {
				t.Fatalf("%s: %v %v", persona, f.NextActions, err)
			}
		}
		if f = r.submit(at, "000000"); f.State != string(attempt.WrongCode) || *f.Channel != map[string]string{"sms": "sms", "app": "app", "email": "email"}[persona] {
			t.Errorf("%s: a wrong code gives %s", persona, f.State)
		}
		if f = r.submit(at, "123-456"); f.State != string(attempt.Success) {
			t.Errorf("%s: the right code gives %s", persona, f.State)
		}
		if _, err := r.connects.Submit(t.Context(), r.org.ID, at, connect.Submission{Code: secret.New("1")}); !errors.Is(err, problem.AttemptCompleted.New("")) {
			t.Errorf("%s: %v", persona, err)
		}
	}
	at := r.start(login("sms"), "good", nil).ID
	r.waitFor(at, attempt.NeedsOTP)
	for range 4 {
		if f := r.submit(at, "000000"); f.State != string(attempt.WrongCode) {
			t.Fatal(f.State)
		}
	}
	r.submit(at, "000000")
	r.wantFailure(at, "two_factor_failed")

	at = r.start(login("sms"), "good", nil).ID
	r.waitFor(at, attempt.NeedsOTP)
	r.submit(at, "999999")
	r.wantFailure(at, "two_factor_locked")
}

// A second attempt for a login is refused, or ends the first.
func TestOneOpenAttemptPerLogin(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	email := login("sms")
	first := r.start(email, "good", nil).ID
	r.waitFor(first, attempt.NeedsOTP)
	_, err := r.tryStart(email, "good", nil)
	if !errors.Is(err, problem.AttemptInProgress.New("")) {
		t.Fatalf("second start: %v", err)
	}
	second := r.start(email, "good", func(s *connect.Start) { s.Supersede = true }).ID
	r.wantFailure(first, "superseded")
	f, err := r.connects.Cancel(t.Context(), r.org.ID, by, second)
	if err != nil || f.Failure.Code != "cancelled" {
		t.Fatalf("cancel: %+v %v", f.Failure, err)
	}
	if f, err = r.connects.Cancel(t.Context(), r.org.ID, by, second); err != nil || f.Failure.Code != "cancelled" {
		t.Fatalf("cancel again: %+v %v", f.Failure, err)
	}
	// Another org's attempts do not exist.
	if _, err := r.connects.Get(t.Context(), r.newOrg().ID, second); !errors.Is(err, problem.AttemptNotFound.New("")) {
		t.Error(err)
	}
}

// The creator approves or denies the sign-in on the phone.
func TestMobile(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	for what, want := range map[string]attempt.State{"approve": attempt.Success, "deny": attempt.Failed} {
		at := r.start("", "", func(s *connect.Start) { s.Kind = attempt.Mobile }).ID
		f := r.waitFor(at, attempt.AwaitingMobile)
		if f.PhoneURL == nil || *f.Channel != "mobile" {
			t.Fatalf("%+v", f.Attempt)
		}
		kind, handle, err := r.connects.SandboxHandle(t.Context(), r.org.ID, at)
		if err != nil || kind != "qr" {
			t.Fatal(kind, err)
		}
		must.OK(t, r.control.AnswerQR(t.Context(), handle, what))
		f = r.waitFor(at, want)
		if want == attempt.Failed && f.Failure.Code != "mobile_denied" {
			t.Errorf("%+v", f.Failure)
		}
	}
}

// A selfie counts when the platform has accepted it. A claim of the caller does not count, and no call is needed.
func TestSelfie(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	at := r.start(login("face"), "good", nil).ID
	r.waitFor(at, attempt.NeedsFace)
	_, err := r.connects.Submit(t.Context(), r.org.ID, at, connect.Submission{Selfie: true})
	must.OK(t, err)
	if f, err := r.connects.Verdict(t.Context(), r.org.ID, at, 5*time.Second); err != nil || f.State != string(attempt.NeedsFace) {
		t.Fatalf("%s %v", f.State, err)
	}
	_, handle, err := r.connects.SandboxHandle(t.Context(), r.org.ID, at)
	must.OK(t, err)
	must.OK(t, r.control.TakeSelfie(t.Context(), handle, true))
	r.waitFor(at, attempt.Success)
}

// A second connect of the same creator keeps the account; a sign-in of another creator does not replace it.
func TestReconnect(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	email := login("ok")
	first := r.waitFor(r.start(email, "good", func(s *connect.Start) { s.Remember = new(true) }).ID, attempt.Success)
	again := r.waitFor(r.start(email, "good", func(s *connect.Start) { s.Remember = new(true) }).ID, attempt.Success)
	if *first.AccountID != *again.AccountID {
		t.Fatal("two accounts of one creator")
	}
	account := id.Account(*first.AccountID)
	r.wantFailure(r.start(login("ok"), "good", func(s *connect.Start) { s.Account = account }).ID, "account_mismatch")
	f, err := r.connects.Reauthenticate(t.Context(), r.org, by, account, false)
	must.OK(t, err)
	if f = r.waitFor(f.ID, attempt.Success); *f.AccountID != *first.AccountID || f.Kind != "reauth" {
		t.Errorf("%+v", f.Attempt)
	}
	plain := r.waitFor(r.start(login("ok"), "good", nil).ID, attempt.Success)
	if _, err := r.connects.Reauthenticate(t.Context(), r.org, by, id.Account(*plain.AccountID), false); !errors.Is(err, problem.CredentialsMissing.New("")) {
		t.Error(err)
	}
}

// A reconnect of a given account uses the account's region. A connect that turns out to be of an existing account does
// not change the account's region.
func TestReconnectKeepsTheRegionOfTheAccount(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	email := login("ok")
	made := r.waitFor(r.start(email, "good", func(s *connect.Start) { s.Region, s.Label = "uk", new("Luna") }).ID,
		attempt.Success)
	at := id.Account(*made.AccountID)
	for name, account := range map[string]id.Account{"named": at, "recognised": ""} {
		again := r.waitFor(r.start(email, "good", func(s *connect.Start) { s.Account = account }).ID, attempt.Success)
		if account != "" && again.Region != "uk" {
			t.Errorf("%s: the sign-in used the region %s", name, again.Region)
		}
		a, err := r.accounts.Get(t.Context(), r.org.ID, at)
		if err != nil || *again.AccountID != string(at) || a.Region != "uk" || a.Label != "Luna" {
			t.Errorf("%s: %+v %v", name, a, err)
		}
	}
	again := r.waitFor(r.start(email, "good", func(s *connect.Start) { s.Region, s.Label = "us", new("") }).ID,
		attempt.Success)
	if a, err := r.accounts.Get(t.Context(), r.org.ID, at); err != nil || *again.AccountID != string(at) || a.Region != "us" || a.Label != "" {
		t.Errorf("%+v %v", a, err)
	}
}

// An attempt has an account_id only after success. A reconnect has its account in another field, also if it fails.
func TestAttemptHasNoAccountBeforeSuccess(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	email := login("sms")
	at := r.start(email, "good", nil).ID
	r.waitFor(at, attempt.NeedsOTP)
	made := r.submit(at, "123456")
	if made.State != string(attempt.Success) || made.AccountID == nil || made.Reconnects != nil {
		t.Fatalf("%+v", made.Attempt)
	}
	again := r.start(email, "good", func(s *connect.Start) { s.Account = id.Account(*made.AccountID) })
	waiting := r.waitFor(again.ID, attempt.NeedsOTP)
	if waiting.AccountID != nil || waiting.Reconnects == nil || *waiting.Reconnects != *made.AccountID || waiting.About() != id.Account(*made.AccountID) {
		t.Errorf("%+v", waiting.Attempt)
	}
	if done := r.submit(again.ID, "123456"); done.AccountID == nil || *done.AccountID != *made.AccountID || *done.Reconnects != *made.AccountID {
		t.Errorf("%+v", done.Attempt)
	}
	bad := r.waitFor(r.start(email, "bad", func(s *connect.Start) { s.Account = id.Account(*made.AccountID) }).ID,
		attempt.Failed)
	if bad.AccountID != nil || *bad.Reconnects != *made.AccountID {
		t.Errorf("%+v", bad.Attempt)
	}
}

// Events of an attempt never contain its links: events are stored, and keys that may only read can read them.
func TestEventsOfAttemptsCarryNoLinks(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	email := login("face")
	at := r.start(email, "good", nil).ID
	waiting := r.waitFor(at, attempt.NeedsFace)
	if waiting.PageURL == nil || waiting.PhoneURL == nil || waiting.EmbedURL == nil {
		t.Fatalf("%+v", waiting.Attempt)
	}
	if shown := waiting.WithoutLinks(); shown.PageURL != nil || shown.PhoneURL != nil || shown.EmbedURL != nil || shown.State != waiting.State {
		t.Errorf("%+v", shown)
	}
	rows, err := r.db.Pool().Query(t.Context(), `SELECT kind, data::text FROM outbox WHERE org_id = $1`, r.org.ID)
	must.OK(t, err)
	defer rows.Close()
	seen := 0
	for rows.Next() {
		var kind, data string
		must.OK(t, rows.Scan(&kind, &data))
		if seen++; strings.Contains(data, "/a/at_") {
			t.Errorf("%s: %s", kind, data)
		}
	}
	must.OK(t, rows.Err())
	if seen < 2 {
		t.Errorf("%d events", seen)
	}
}

// Sign-ins of a login are limited over all orgs, and an org with mostly wrong passwords is stopped.
func TestPasswordGuessingIsLimited(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{guard: registry.Guard{PerLogin: 3, Refused: 4}})
	email := login("ok")
	for range 3 {
		r.waitFor(r.start(email, "good", nil).ID, attempt.Success)
	}
	r.org = r.newOrg()
	if _, err := r.tryStart(email, "good", nil); !errors.Is(err, problem.QuotaExceeded.New("")) {
		t.Errorf("fourth sign-in of a login, from another org: %v", err)
	}
	for range 4 {
		r.wantFailure(r.start(login("ok"), "bad", nil).ID, "invalid_credentials")
	}
	if _, err := r.tryStart(login("ok"), "good", nil); !errors.Is(err, problem.QuotaExceeded.New("")) {
		t.Errorf("after four wrong passwords in four sign-ins: %v", err)
	}
	// Signing in by phone needs no password, so it still works.
	r.waitFor(r.start("", "", func(s *connect.Start) { s.Kind = attempt.Mobile }).ID, attempt.AwaitingMobile)
}
