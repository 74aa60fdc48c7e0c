package connectpages_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/server/connectpages"
)

func TestACreatorConnectsWithACode(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	path, token := s.startChallenge("sms@sandbox.test")
	page := s.get(path)
	s.wantText(page, 200, "Check your phone", "number ending ··42", "Security code", "Not received? Send a new code", "Use an authenticator app", "Northlight")
	if strings.Count(page.body, `autocomplete="one-time-code"`) != 1 || !strings.Contains(page.body, `inputmode="numeric"`) || strings.Contains(page.body, `type="number"`) {
		t.Errorf("want one plain field for the code: %s", page.body)
	}
	s.wantText(s.post(path, "do", "code", "code", "000000"), 200, "Check your phone", "That code did not match. Check it and try again")
	s.wantText(s.post(path, "do", "code", "code", " 12-34 56 "), 200, "Signing you in")
	if got := s.acts[1].act.Code.Reveal(); got != "123456" {
		t.Errorf("the code became %q", got)
	}
	s.do(token, s.succeed)
	s.wantText(s.get(path), 200, "You are connected", "Northlight can now manage your account", "View or end this connection")
}

func TestAWrongCodeWarnsBeforeTheLock(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	path, _ := s.startChallenge("app@sandbox.test")
	s.wantText(s.get(path), 200, "Open your authenticator app", "Codes change every 30 seconds", "!Not received?")
	for range 2 {
		s.wantText(s.post(path, "do", "code", "code", "000000"), 200, "Check it and try again", "!lock the account")
	}
	s.wantText(s.post(path, "do", "code", "code", "000000"), 200, "may lock the account")
	s.post(path, "do", "code", "code", "000000")
	s.wantText(s.post(path, "do", "code", "code", "000000"), 200, "We could not connect your account", "The codes did not match", "Nothing was saved", "Try again")
}

func TestMalformedCodesAreNotSubmitted(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	path, _ := s.startChallenge("sms@sandbox.test")
	for code, want := range map[string]string{
		"": "Enter the code.", "  - ": "Enter the code.", "12345678901234567": "too many digits", "12#456": "must be a number", "１２３": "must be a number",
	} {
		s.wantText(s.post(path, "do", "code", "code", code), 422, want)
	}
	if len(s.acts) != 0 {
		t.Errorf("%d acts", len(s.acts))
	}
}

func TestChallengesFollowEachOther(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	path, token := s.startChallenge("sms-email-face@sandbox.test")
	s.wantText(s.post(path, "do", "code", "code", "123456"), 200, "Check your email", "will send a code to m•••@g•••.com", "Send the email", "!Security code")
	s.wantText(s.post(path, "do", "email"), 200, "Sandbox sent a message to m•••@g•••.com", "Security code")
	s.wantText(s.post(path, "do", "code", "code", "123456"), 200, "Take a quick selfie", "Northlight does not receive the photo", "I have finished the check", "Open on this device")
	s.wantText(s.post(path, "do", "selfie"), 422, "Sandbox has not confirmed it yet")
	view := s.do(token, func(*fakeAttempt) {})
	s.wantText(s.get("/a/"+view.Token+"/phone"), 200, "Take a quick selfie", "Open the check", "!Open on this device")
	s.do(token, s.succeed)
	s.wantText(s.get("/a/"+view.Token+"/phone"), 200, "You are connected", "Luna Vega @luna", "Go back to your other screen")
}

func TestResendingTooSoonIsRefused(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	path, _ := s.startChallenge("sms@sandbox.test")
	s.clock.advance(9 * time.Second)
	s.wantText(s.post(path, "do", "resend"), 422, "You can ask for a new code in 0:21.")
	s.clock.advance(21 * time.Second)
	s.wantText(s.post(path, "do", "resend"), 200, "Check your phone", "!You can ask for")
}

func TestTheChannelCanBeSwitched(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	path, _ := s.startChallenge("sms@sandbox.test")
	s.wantText(s.post(path, "do", "switch", "channel", "app"), 200, "Open your authenticator app")
}

func TestAPhoneApproves(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{})
	path := s.enter(token)
	s.wantText(s.post(path, "do", "mobile"), 200, "Scan to approve", "Waiting for your phone…", "The code refreshes automatically")
	view := s.do(token, func(*fakeAttempt) {})
	own := "/a/" + view.Token + "/phone"
	phone := s.get(own)
	s.wantText(phone, 200, "Approve on this phone", "let Northlight manage your account", "only if you started this yourself", "Open the app")
	if !strings.Contains(phone.body, `href="https://platform.example/qr/1" data-link="`) || !strings.Contains(phone.body, `" target="_blank" rel="noopener noreferrer"`) || strings.Contains(phone.body, "qr.svg") {
		t.Errorf("the link to the platform is wrong: %s", phone.body)
	}
	s.do(token, func(st *fakeAttempt) { s.set(st, func(v *connectpages.View) { v.Progress = attempt.Scanned }) })
	s.wantText(s.get(path), 200, "Code scanned. Tap Approve on your phone.")
	// A phone cannot scan its own screen: the link opens the app first, and the QR code comes second.
	for _, agent := range []string{"Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X)", "Mozilla/5.0 (Linux; Android 15; Pixel 9) Chrome/140 Mobile Safari/537.36"} {
		hand := s.get(path, "User-Agent", agent)
		s.wantText(hand, 200, "Approve on this phone", "Open the app", "Approve on another phone")
		if link, qr := strings.Index(hand.body, "https://platform.example/qr/1"), strings.Index(hand.body, "qr.svg"); link < 0 || qr < link {
			t.Errorf("%s", hand.body)
		}
	}
	s.do(token, func(st *fakeAttempt) { s.fail(st, "mobile_denied") })
	s.wantText(s.get(path), 200, "The request was declined on your phone", "Try again")
	s.wantText(s.get(own), 200, "The request was declined on your phone", "!Try again")
}

func TestAPageOpenedByAQRCodeOutlivesTheCode(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{})
	s.post(s.enter(token), "do", "mobile")
	view := s.do(token, func(st *fakeAttempt) { s.attempts["at_qr1"] = st })
	scanned := s.get("/a/at_qr1/phone?lang=es")
	if want := "/a/" + view.Token + "/phone?lang=es"; scanned.status != 303 || scanned.head.Get("Location") != want {
		t.Fatalf("%d to %s, want %s", scanned.status, scanned.head.Get("Location"), want)
	}
	s.do(token, func(*fakeAttempt) { delete(s.attempts, "at_qr1") })
	s.wantText(s.get("/a/at_qr1/phone"), 404, "This link has expired")
	s.wantText(s.get(scanned.head.Get("Location")), 200, "Aprueba en este teléfono")
}

func TestTheQRCodeContainsThePhonePage(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{})
	s.post(s.enter(token), "do", "mobile")
	view := s.do(token, func(*fakeAttempt) {})
	first := s.get("/a/" + view.Token + "/qr.svg")
	if first.status != 200 || first.head.Get("Content-Type") != "image/svg+xml" || !strings.HasPrefix(first.body, "<svg") || len(first.body) > 12<<10 {
		t.Fatalf("%d, %d bytes", first.status, len(first.body))
	}
	before := s.get(s.enter(token))
	s.do(token, func(st *fakeAttempt) { s.set(st, func(v *connectpages.View) { v.PhoneURL += "2" }) })
	if again := s.get("/a/" + view.Token + "/qr.svg"); again.body == first.body {
		t.Error("the QR code did not change")
	}
	if after := s.get(s.enter(token)); picture(after) == picture(before) || picture(after) == "" {
		t.Errorf("the address of the QR code did not change: %s", picture(after))
	}
	s.do(token, s.succeed)
	if gone := s.get("/a/" + view.Token + "/qr.svg"); gone.status != 404 {
		t.Errorf("%d after the end", gone.status)
	}
}

func picture(a response) string {
	_, rest, _ := strings.Cut(a.body, `id="qr" src="`)
	address, _, _ := strings.Cut(rest, `"`)
	return address
}

func TestAPageSaysThatSigningInTakesLong(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	path, token := s.startSession("ok@sandbox.test")
	s.wantText(s.get(path), 200, "Contacting Sandbox", "Checking your details", "Securing your session", "!Still working")
	s.clock.advance(8 * time.Second)
	s.wantText(s.get(path), 200, "Still working. This can take up to a minute.")
	s.clock.advance(52 * time.Second)
	page := s.get(path)
	s.wantText(page, 200, "This is taking longer than usual")
	if !strings.Contains(page.body, `<noscript><meta http-equiv="refresh" content="3"></noscript>`) {
		t.Error("the page does not refresh without scripts")
	}
	s.do(token, func(st *fakeAttempt) { s.set(st, func(v *connectpages.View) { v.Progress = attempt.Verifying }) })
	if page := s.get(path); strings.Count(page.body, `data-is="done"`) != 2 || !strings.Contains(page.body, `data-is="now" aria-current="step">Securing`) {
		t.Errorf("%s", page.body)
	}
}

func TestEveryFailureHasItsText(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	_, token := s.startChallenge("sms@sandbox.test")
	view := s.do(token, func(*fakeAttempt) {})
	seen := map[string]string{}
	codes := strings.Fields(`invalid_credentials account_locked account_banned terms_required captcha_required two_factor_failed two_factor_locked code_expired
		face_rejected mobile_denied mobile_session_expired session_invalid session_incomplete not_a_creator account_mismatch egress_unavailable
		upstream_unavailable upstream_timeout upstream_rate_limited upstream_changed expired cancelled superseded interrupted account_deleted account_limit org_suspended internal`)
	for _, code := range codes {
		for _, lang := range link.Locales() {
			s.do(token, func(st *fakeAttempt) { st.view.State, st.view.Failure = attempt.Failed, code })
			page := s.get("/a/" + view.Token + "?lang=" + lang)
			_, rest, _ := strings.Cut(page.body, `<p class="lead">`)
			text, _, _ := strings.Cut(rest, "</p>")
			if page.status != 200 || text == "" || strings.Contains(code, "_") && strings.Contains(page.text(), code) {
				t.Errorf("%s in %s: %d %s", code, lang, page.status, page.text())
			}
			if twin := seen[text]; twin != "" && twin != code {
				t.Errorf("%s and %s have the same text in %s", code, twin, lang)
			}
			seen[text] = code
		}
	}
	// An unknown code has a text as well.
	s.do(token, func(st *fakeAttempt) { st.view.Failure = "quite_new" })
	s.wantText(s.get("/a/"+view.Token), 200, "Something went wrong on our side", "!quite_new")
}

func TestAnAttemptOfTheAPIHasItsOwnPages(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.mu.Lock()
	st := s.begin(link.Credentials, "sms@sandbox.test")
	st.view.ReturnURL, st.view.ReferenceID = "https://app.example/cb?x=1", "user 456"
	s.next(st)
	path := "/a/" + st.view.Token
	s.mu.Unlock()
	s.wantText(s.get(path), 200, "Check your phone")
	s.wantText(s.post(path, "do", "cancel"), 200, "You cancelled this attempt.", "Continue to Northlight", "!Try again")
	page := s.get(path)
	if !strings.Contains(page.body, `href="https://app.example/cb?attempt_id=`+string(st.view.ID)+`&amp;reference_id=user&#43;456&amp;status=cancelled&amp;x=1"`) {
		t.Errorf("the return link is wrong: %s", page.body)
	}
	// Another screen may still show the code form. Submitting it shows that the attempt was cancelled.
	s.wantText(s.post(path, "do", "code", "code", "123456"), 200, "You cancelled this attempt.")
}

func TestRefusalsAreShownAsText(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	path, _ := s.startChallenge("sms@sandbox.test")
	for _, one := range []struct {
		refusal error
		status  int
		want    string
	}{
		{problem.AttemptStateConflict.New("no"), 200, "Check your phone"},
		{problem.ValidationFailed.New("no"), 422, "must be a number"},
		{problem.QuotaExceeded.New("no"), 429, "Too many attempts"},
		{problem.ServiceUnavailable.New("no"), 503, "That did not work"},
		{errInside, 503, "That did not work"},
		{problem.AttemptNotFound.New("no"), 404, "This link has expired"},
	} {
		s.mu.Lock()
		s.refuse = one.refusal
		s.mu.Unlock()
		page := s.post(path, "do", "code", "code", "123456")
		s.wantText(page, one.status, one.want)
		if strings.Contains(page.body, "canary") {
			t.Errorf("%s", page.body)
		}
	}
	if !strings.Contains(s.log.String(), errInside.Error()) {
		t.Error("the log lacks the internal error")
	}
	s.wantText(s.post(path, "do", "nonsense"), 400, "That did not work")
}
