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
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Each persona of the contract ends, or waits, as the contract says.
func TestPersonasEndAsTheyShould(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	for persona, code := range map[string]string{
		"locked": "account_locked", "banned": "account_banned", "terms": "terms_required", "captcha": "captcha_required", "fan": "not_a_creator",
		"down": "upstream_unavailable", "changed": "upstream_changed",
	} {
		t.Run(persona, func(t *testing.T) {
			t.Parallel()
			r := *r
			r.t = t
			r.failed(r.start(login(persona), "good", nil).ID, code)
		})
	}
	for _, persona := range []string{"ok", "slow", "flaky", "expires60", "logout", "mismatch"} {
		t.Run(persona, func(t *testing.T) {
			t.Parallel()
			r := *r
			r.t = t
			if f := r.until(r.start(login(persona), "good", nil).ID, attempt.Success); f.AccountID == nil {
				t.Error("no account")
			}
		})
	}
	t.Run("wrong password", func(t *testing.T) {
		t.Parallel()
		r := *r
		r.t = t
		r.failed(r.start(login("ok"), "bad", nil).ID, "invalid_credentials")
	})
}

// A challenge is answered wrongly, then rightly; a chain of three is walked; the fifth wrong code ends it.
func TestChallenges(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	for persona, state := range map[string]attempt.State{"sms": attempt.NeedsOTP, "app": attempt.NeedsApp, "email": attempt.NeedsEmail} {
		at := r.start(login(persona), "good", nil).ID
		f := r.until(at, state)
		if slices.Contains(f.NextActions, "send_email") {
			_, err := r.connects.SendEmail(t.Context(), r.org.ID, at)
			must(t, err)
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
	r.until(at, attempt.NeedsOTP)
	for range 4 {
		if f := r.submit(at, "000000"); f.State != string(attempt.WrongCode) {
			t.Fatal(f.State)
		}
	}
	r.submit(at, "000000")
	r.failed(at, "two_factor_failed")

	at = r.start(login("sms"), "good", nil).ID
	r.until(at, attempt.NeedsOTP)
	r.submit(at, "999999")
	r.failed(at, "two_factor_locked")
}

// A second attempt for a login is refused, or ends the first.
func TestOneOpenAttemptPerLogin(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	email := login("sms")
	first := r.start(email, "good", nil).ID
	r.until(first, attempt.NeedsOTP)
	_, err := r.tryStart(email, "good", nil)
	if !errors.Is(err, problem.AttemptInProgress.New("")) {
		t.Fatalf("second start: %v", err)
	}
	second := r.start(email, "good", func(s *connect.Start) { s.Supersede = true }).ID
	r.failed(first, "superseded")
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

// The phone approves, or denies.
func TestMobile(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	for what, want := range map[string]attempt.State{"approve": attempt.Success, "deny": attempt.Failed} {
		at := r.start("", "", func(s *connect.Start) { s.Kind = attempt.Mobile }).ID
		f := r.until(at, attempt.AwaitingMobile)
		if f.PhoneURL == nil || *f.Channel != "mobile" {
			t.Fatalf("%+v", f.Attempt)
		}
		kind, handle, err := r.connects.SandboxHandle(t.Context(), r.org.ID, at)
		if err != nil || kind != "qr" {
			t.Fatal(kind, err)
		}
		r.control("/control/qr/"+handle+"/"+what, `{}`)
		f = r.until(at, want)
		if want == attempt.Failed && f.Failure.Code != "mobile_denied" {
			t.Errorf("%+v", f.Failure)
		}
	}
}

// A selfie counts when the platform says so, not when the caller does; and nobody has to say anything.
func TestSelfie(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	at := r.start(login("face"), "good", nil).ID
	r.until(at, attempt.NeedsFace)
	_, err := r.connects.Submit(t.Context(), r.org.ID, at, connect.Submission{Selfie: true})
	must(t, err)
	if f, err := r.connects.Verdict(t.Context(), r.org.ID, at, 5*time.Second); err != nil || f.State != string(attempt.NeedsFace) {
		t.Fatalf("%s %v", f.State, err)
	}
	_, handle, err := r.connects.SandboxHandle(t.Context(), r.org.ID, at)
	must(t, err)
	r.control("/control/selfies/"+handle, `{"passed":true}`)
	r.until(at, attempt.Success)
}

// The same creator again is the same account; another creator does not become it.
func TestReconnect(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	email := login("ok")
	first := r.until(r.start(email, "good", func(s *connect.Start) { s.Remember = new(true) }).ID, attempt.Success)
	again := r.until(r.start(email, "good", func(s *connect.Start) { s.Remember = new(true) }).ID, attempt.Success)
	if *first.AccountID != *again.AccountID {
		t.Fatal("two accounts of one creator")
	}
	account := id.Account(*first.AccountID)
	r.failed(r.start(login("ok"), "good", func(s *connect.Start) { s.Account = account }).ID, "account_mismatch")
	f, err := r.connects.Reauthenticate(t.Context(), r.org, by, account, false)
	must(t, err)
	if f = r.until(f.ID, attempt.Success); *f.AccountID != *first.AccountID || f.Kind != "reauth" {
		t.Errorf("%+v", f.Attempt)
	}
	plain := r.until(r.start(login("ok"), "good", nil).ID, attempt.Success)
	if _, err := r.connects.Reauthenticate(t.Context(), r.org, by, id.Account(*plain.AccountID), false); !errors.Is(err, problem.CredentialsMissing.New("")) {
		t.Error(err)
	}
}

// A reconnect of a named account leaves through the account's own region; one that is recognised afterwards does not move it.
func TestReconnectKeepsTheRegionOfTheAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	email := login("ok")
	made := r.until(r.start(email, "good", func(s *connect.Start) { s.Region, s.Label = "uk", new("Luna") }).ID, attempt.Success)
	at := id.Account(*made.AccountID)
	for name, account := range map[string]id.Account{"named": at, "recognised": ""} {
		again := r.until(r.start(email, "good", func(s *connect.Start) { s.Account = account }).ID, attempt.Success)
		if account != "" && again.Region != "uk" {
			t.Errorf("%s: the sign-in left through %s", name, again.Region)
		}
		a, err := r.accounts.Get(t.Context(), r.org.ID, at)
		if err != nil || *again.AccountID != string(at) || a.Region != "uk" || a.Label != "Luna" {
			t.Errorf("%s: %+v %v", name, a, err)
		}
	}
	again := r.until(r.start(email, "good", func(s *connect.Start) { s.Region, s.Label = "us", new("") }).ID, attempt.Success)
	if a, err := r.accounts.Get(t.Context(), r.org.ID, at); err != nil || *again.AccountID != string(at) || a.Region != "us" || a.Label != "" {
		t.Errorf("%+v %v", a, err)
	}
}

// An attempt has an account when it has one: a reconnect names its account apart, also when it fails.
func TestAttemptHasNoAccountBeforeSuccess(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	email := login("sms")
	at := r.start(email, "good", nil).ID
	r.until(at, attempt.NeedsOTP)
	made := r.submit(at, "123456")
	if made.State != string(attempt.Success) || made.AccountID == nil || made.Reconnects != nil {
		t.Fatalf("%+v", made.Attempt)
	}
	again := r.start(email, "good", func(s *connect.Start) { s.Account = id.Account(*made.AccountID) })
	waiting := r.until(again.ID, attempt.NeedsOTP)
	if waiting.AccountID != nil || waiting.Reconnects == nil || *waiting.Reconnects != *made.AccountID || waiting.About() != id.Account(*made.AccountID) {
		t.Errorf("%+v", waiting.Attempt)
	}
	if done := r.submit(again.ID, "123456"); done.AccountID == nil || *done.AccountID != *made.AccountID || *done.Reconnects != *made.AccountID {
		t.Errorf("%+v", done.Attempt)
	}
	bad := r.until(r.start(email, "bad", func(s *connect.Start) { s.Account = id.Account(*made.AccountID) }).ID, attempt.Failed)
	if bad.AccountID != nil || *bad.Reconnects != *made.AccountID {
		t.Errorf("%+v", bad.Attempt)
	}
}

// What is published about an attempt never has the links that act: events are kept, and read by keys that may only read.
func TestEventsOfAttemptsCarryNoLinks(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	email := login("face")
	at := r.start(email, "good", nil).ID
	waiting := r.until(at, attempt.NeedsFace)
	if waiting.PageURL == nil || waiting.PhoneURL == nil || waiting.EmbedURL == nil {
		t.Fatalf("%+v", waiting.Attempt)
	}
	if shown := waiting.WithoutLinks(); shown.PageURL != nil || shown.PhoneURL != nil || shown.EmbedURL != nil || shown.State != waiting.State {
		t.Errorf("%+v", shown)
	}
	rows, err := r.db.Pool().Query(t.Context(), `SELECT kind, data::text FROM outbox WHERE org_id = $1`, r.org.ID)
	must(t, err)
	defer rows.Close()
	seen := 0
	for rows.Next() {
		var kind, data string
		must(t, rows.Scan(&kind, &data))
		if seen++; strings.Contains(data, "/a/at_") {
			t.Errorf("%s: %s", kind, data)
		}
	}
	must(t, rows.Err())
	if seen < 2 {
		t.Errorf("%d events", seen)
	}
}

// A login is guarded over all orgs, and an org that only guesses is stopped.
func TestNobodyTriesPasswordsThroughUs(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{guards: map[org.Environment]connect.Guard{org.EnvSandbox: {PerLogin: 3, Refused: 4}}})
	email := login("ok")
	for range 3 {
		r.until(r.start(email, "good", nil).ID, attempt.Success)
	}
	r.org = r.newOrg()
	if _, err := r.tryStart(email, "good", nil); !errors.Is(err, problem.QuotaExceeded.New("")) {
		t.Errorf("a login's fourth sign-in, from another org: %v", err)
	}
	for range 4 {
		r.failed(r.start(login("ok"), "bad", nil).ID, "invalid_credentials")
	}
	if _, err := r.tryStart(login("ok"), "good", nil); !errors.Is(err, problem.QuotaExceeded.New("")) {
		t.Errorf("after four wrong passwords of four: %v", err)
	}
	// By phone the creator is at their own device.
	r.until(r.start("", "", func(s *connect.Start) { s.Kind = attempt.Mobile }).ID, attempt.AwaitingMobile)
}
