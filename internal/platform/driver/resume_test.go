package driver_test

import (
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/driver/drivertest"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// next takes a step of a sign-in.
func (r *fixture) next(from driver.Step, in driver.Input) driver.Step {
	r.t.Helper()
	step, err := r.driver.Continue(r.t.Context(), via("us"), from.Next, in)
	must.OK(r.t, err)
	return step
}

func rightCode() driver.Input { return driver.Input{Code: secret.New("123456")} }

// A temporary failure does not end a sign-in that is still open on the platform.
func TestStepWithoutEffectCanBeRepeated(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		persona, kind string
		value         int
		first, then   driver.Input
	}{
		"429 on a code":         {"sms", "rate_limit", 3, rightCode(), rightCode()},
		"503 on a code":         {"sms", "error", 503, rightCode(), rightCode()},
		"500 on a selfie check": {"face", "error", 500, driver.Input{Check: true}, driver.Input{Check: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t)
			login := r.login(test.persona)
			step := r.signIn(login, "good")
			page := step.Challenge.Page.Reveal()
			r.injectFault(login, test.kind, test.value, 1)
			step = r.next(step, test.first)
			if step.Failure == nil || !step.Failure.Retryable || step.Over() {
				t.Fatalf("the failure is %+v, over: %v", step.Failure, step.Over())
			}
			if page != "" {
				r.platformTest().Selfie(t, page, true)
			}
			if step = r.next(step, test.then); step.Session == nil || !step.Over() {
				t.Fatalf("repeated: %+v", step.Failure)
			}
		})
	}
}

func TestCodeThatMayBeUsedEndsTheSignIn(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	login := r.login("sms")
	step := r.signIn(login, "good")
	r.injectFault(login, "error", 500, 1)
	if step = r.next(step, rightCode()); step.Failure == nil || !step.Over() {
		t.Fatalf("a 500 on a code: %+v, over: %v", step.Failure, step.Over())
	}
}

func TestQRSignInSurvivesPlatformErrors(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	step, err := r.driver.OpenQR(t.Context(), via("us"))
	if err != nil || step.QR == nil {
		t.Fatalf("%+v, %v", step.Failure, err)
	}
	qr := *step.QR
	r.injectFault("all", "error", 503, 1)
	step = r.next(step, driver.Input{Check: true})
	if step.Failure == nil || step.Over() {
		t.Fatalf("%+v", step.Failure)
	}
	r.platformTest().Phone(t, qr, "approve")
	if step = r.next(step, driver.Input{Check: true}); step.Session == nil {
		t.Fatalf("%+v", step.Failure)
	}
}

func TestRefusedResendOrSwitchKeepsTheChallenge(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for name, in := range map[string]driver.Input{"resend": {Resend: true}, "switch": {Switch: catalog.ChannelEmail}} {
		step := r.next(r.signIn(r.login("app"), "good"), in)
		if step.Failure == nil || step.Failure.Code != driver.FailStep || step.Over() {
			t.Fatalf("%s: %+v", name, step.Failure)
		}
		if step = r.next(step, rightCode()); step.Session == nil {
			t.Fatalf("%s, then the code: %+v", name, step.Failure)
		}
	}
}

// A token may rotate on any response, including one that cannot be read and one that opens a socket.
func TestCookieRotationIsNotLost(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*fixture, string, driver.Session) (driver.Session, []string){
		"by a socket": func(r *fixture, _ string, s driver.Session) (driver.Session, []string) {
			socket := r.listen(s)
			return socket.Session, socket.Changed
		},
		"by a body that cannot be read": func(r *fixture, login string, s driver.Session) (driver.Session, []string) {
			r.injectFault(login, "garbage", 2, 1)
			a, err := r.call(s, "me.get", "{}")
			if err == nil {
				r.t.Error("an endless response was accepted")
			}
			return a.Session, a.Changed
		},
		"by the second answer": func(r *fixture, _ string, s driver.Session) (driver.Session, []string) {
			if _, err := r.call(s, "me.get", "{}"); err != nil { // ignore its session, as if the response had been lost
				r.t.Error(err)
			}
			a, err := r.call(s, "me.get", "{}")
			if err != nil {
				r.t.Error(err)
			}
			return a.Session, a.Changed
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t)
			login := r.login("ok")
			s := r.session(login)
			r.control("POST", "clock", map[string]any{"advance_sec": 31 * 60})
			next, changed := use(r, login, s)
			if len(changed) != 1 || changed[0] != "sess" {
				t.Fatalf("changed: %v", changed)
			}
			r.control("POST", "clock", map[string]any{"advance_sec": 90})
			if _, err := r.call(next, "me.get", "{}"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestASocketEndsWithItsSession(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for persona, seconds := range map[string]int{"expires60": 61, "restricted": 6} {
		socket := r.listen(r.session(r.login(persona)))
		r.control("POST", "clock", map[string]any{"advance_sec": seconds})
		awaitClosed(t, socket)
	}
}

func TestWriteAnsweredWith5xxHasUnknownOutcome(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	login := r.login("ok")
	s := r.session(login)
	for _, status := range []int{500, 502, 504} {
		r.injectFault(login, "error", status, 1)
		_, err := r.call(s, "lists.create", `{"name":"Maybe"}`)
		wantRefusal(t, err, catalog.RefusedError)
		refused, _ := err.(*driver.Refused) //nolint:errorlint // checked above
		p := refused.Problem(drivertest.Method(t, r.catalog, "lists.create"))
		document, failed := p.Document(problem.Place{})
		if failed != nil || p.Kind.Code != problem.UpstreamError.Code || !contains(document, `"outcome":"unknown"`) || !contains(document, `"retryable":false`) {
			t.Errorf("%d: %s", status, document)
		}
	}
}

func TestSinceReportsAGapForAnUnknownID(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	s := r.session(r.login("ok"))
	if missed, err := r.driver.Since(t.Context(), via("us"), s, "12345"); err != nil || !missed.Gap {
		t.Fatalf("an unknown id: gap %v, %v", missed.Gap, err)
	}
	if missed, err := r.driver.Since(t.Context(), via("us"), s, ""); err != nil || missed.Gap {
		t.Fatalf("from the beginning: gap %v, %v", missed.Gap, err)
	}
}

func TestUnsendableCookieCountsAsMissing(t *testing.T) {
	t.Parallel()
	c, err := catalog.Sandbox()
	must.OK(t, err)
	cookies := map[string]secret.String{"auth_id": secret.New("1"), "sess": secret.New("a\nb"), "other": secret.New("x")}
	_, missing := driver.NewSession(c, cookies, map[string]secret.String{"X-Device": secret.New("d")}, "agent")
	if len(missing) != 1 || missing[0] != "sess" {
		t.Fatalf("missing: %v", missing)
	}
}
