package driver_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// The sign-in of each persona without challenges ends as the specification says. An empty failure means a session.
func TestEveryPersonaEndsAsTheContractSays(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for persona, want := range map[string]struct {
		password, failure string
		retryable         bool
	}{
		"ok":         {"good", "", false},
		"anybody":    {"good", "", false},
		"fan":        {"good", "", false},
		"locked":     {"good", "account_locked", false},
		"banned":     {"good", "account_banned", false},
		"terms":      {"good", "terms_required", false},
		"captcha":    {"good", "captcha_required", false},
		"down":       {"good", "upstream_unavailable", true},
		"changed":    {"good", "upstream_changed", false},
		"expires60":  {"good", "", false},
		"logout":     {"good", "", false},
		"mismatch":   {"good", "", false},
		"restricted": {"good", "", false},
		"wrong":      {"bad", "invalid_credentials", false},
	} {
		t.Run(persona, func(t *testing.T) {
			t.Parallel()
			r := r.forTest(t)
			step := r.signIn(r.login(persona), want.password)
			switch {
			case want.failure == "" && step.Session == nil:
				t.Fatalf("no session: %+v", step.Failure)
			case want.failure != "" && (step.Failure == nil || step.Failure.Code != want.failure || step.Failure.Retryable != want.retryable):
				t.Fatalf("want %s, got %+v", want.failure, step.Failure)
			}
		})
	}
}

func TestSlowSignInSucceedsAndHangingOneTimesOut(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	began := time.Now()
	if step := r.signIn(r.login("slow"), "good"); step.Session == nil || time.Since(began) < 300*time.Millisecond {
		t.Fatalf("slow: %+v after %s", step.Failure, time.Since(began))
	}
	step, err := r.newDriver(200*time.Millisecond).SignIn(t.Context(), via("us"), secret.New(r.login("timeout")), secret.New("good"), driver.Session{})
	if err != nil || step.Failure == nil || step.Failure.Code != driver.FailTimeout || !step.Failure.Retryable {
		t.Fatalf("timeout: %+v, %v", step.Failure, err)
	}
}

func TestAFlakyPlatformWorksAtTheThirdTry(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	login := r.login("flaky")
	for try := range 2 {
		if step := r.signIn(login, "good"); step.Failure == nil || step.Failure.Code != driver.FailUnavailable {
			t.Fatalf("try %d: %+v", try+1, step.Failure)
		}
	}
	r.session(login)
}

func TestCodesMeanWhatTheContractSays(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for name, want := range map[string]struct {
		codes   []string
		failure string
	}{
		"an expired code":   {[]string{"111111"}, "code_expired"},
		"a code that locks": {[]string{"999999"}, "two_factor_locked"},
		"five wrong codes":  {[]string{"000000", "1", "2", "3", "4"}, "two_factor_failed"},
		"four wrong, right": {[]string{"000000", "1", "2", "3", "123456"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := r.forTest(t)
			step := r.signIn(r.login("sms"), "good")
			for i, code := range want.codes {
				if step.Challenge == nil || (i > 0 && !step.WrongCode) {
					t.Fatalf("before code %d: %+v", i, step.Failure)
				}
				var err error
				step, err = r.driver.Continue(t.Context(), via("us"), step.Next, driver.Input{Code: secret.New(code)})
				must.OK(t, err)
			}
			if want.failure == "" && step.Session == nil || want.failure != "" && (step.Failure == nil || step.Failure.Code != want.failure) {
				t.Fatalf("want %q, got %+v", want.failure, step.Failure)
			}
		})
	}
}

// wantRefusal fails the test unless the error is a refusal of this kind.
func wantRefusal(t *testing.T, err error, kind catalog.RefusalKind) {
	t.Helper()
	if refused, ok := errors.AsType[*driver.Refused](err); !ok || refused.Kind != kind {
		t.Fatalf("want the refusal %s, got %v", kind, err)
	}
}

func TestEndedSessionIsRefused(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	short, restricted, long := r.session(r.login("expires60")), r.session(r.login("restricted")), r.session(r.login("ok"))
	out := r.session(r.login("logout"))
	for _, s := range []driver.Session{short, restricted, long, out} {
		if _, err := r.call(s, "me.get", "{}"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.call(out, "lists.create", `{"name":"Last words"}`); err != nil {
		t.Fatal(err)
	}
	_, err := r.call(out, "me.get", "{}")
	wantRefusal(t, err, catalog.RefusedSession)

	r.control("POST", "clock", map[string]any{"advance_sec": 61})
	_, err = r.call(short, "me.get", "{}")
	wantRefusal(t, err, catalog.RefusedSession)
	_, err = r.call(restricted, "me.get", "{}")
	wantRefusal(t, err, catalog.RefusedRestricted)
	if _, err := r.call(long, "me.get", "{}"); err != nil {
		t.Fatalf("a long session: %v", err)
	}
}

func TestMismatchPersonaSignsInAsAnotherUserTheSecondTime(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	login := r.login("mismatch")
	first, second := r.session(login), r.session(login)
	a, _, err := r.driver.Probe(t.Context(), via("us"), first)
	must.OK(t, err)
	b, _, err := r.driver.Probe(t.Context(), via("us"), second)
	must.OK(t, err)
	if a.ID == b.ID {
		t.Fatalf("both sign-ins are %s", a.ID)
	}
}

func TestRotatedTokenReplacesTheOldOne(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	old := r.session(r.login("ok"))
	r.control("POST", "clock", map[string]any{"advance_sec": 31 * 60})
	a, err := r.call(old, "me.get", "{}")
	must.OK(t, err)
	if len(a.Changed) != 1 || a.Changed[0] != "sess" || a.Session.Cookie("sess").Equal(old.Cookie("sess")) {
		t.Fatalf("changed: %v", a.Changed)
	}
	if _, err := r.call(old, "me.get", "{}"); err != nil {
		t.Fatalf("the old token within its grace: %v", err)
	}
	r.control("POST", "clock", map[string]any{"advance_sec": 90})
	_, err = r.call(old, "me.get", "{}")
	wantRefusal(t, err, catalog.RefusedSession)
	if _, err := r.call(a.Session, "me.get", "{}"); err != nil {
		t.Fatalf("the new token: %v", err)
	}
	merged := old.Merge(a.Session, a.Changed)
	if _, err := r.call(merged, "me.get", "{}"); err != nil {
		t.Fatalf("the old session with the new token: %v", err)
	}
}

func TestQRChangesItsURLAndExpires(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	step, err := r.driver.OpenQR(t.Context(), via("us"))
	if err != nil || step.QR == nil {
		t.Fatalf("%+v, %v", step.Failure, err)
	}
	first := step.QR.URL
	r.control("POST", "clock", map[string]any{"advance_sec": 61})
	if step, err = r.driver.Continue(t.Context(), via("us"), step.Next, driver.Input{Check: true}); err != nil || step.QR == nil {
		t.Fatalf("%+v, %v", step.Failure, err)
	}
	if step.QR.URL.Equal(first) {
		t.Fatal("the URL is the same after a minute")
	}
	r.control("POST", "clock", map[string]any{"advance_sec": 600})
	if step, err = r.driver.Continue(t.Context(), via("us"), step.Next, driver.Input{Check: true}); err != nil || step.Failure == nil || step.Failure.Code != "mobile_session_expired" {
		t.Fatalf("%+v, %v", step.Failure, err)
	}
}
