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
	s := newSite(t)
	path, token := s.on("sms@sandbox.test")
	page := s.get(path)
	s.says(page, 200, "Check your phone", "number ending ··42", "Security code", "Not received? Send a new code", "Use an authenticator app", "Northlight")
	if strings.Count(page.body, `autocomplete="one-time-code"`) != 1 || !strings.Contains(page.body, `inputmode="numeric"`) || strings.Contains(page.body, `type="number"`) {
		t.Errorf("one plain field for the code: %s", page.body)
	}
	s.says(s.post(path, "do", "code", "code", "000000"), 200, "Check your phone", "That code did not match. Check it and try again")
	s.says(s.post(path, "do", "code", "code", " 12-34 56 "), 200, "Signing you in")
	if got := s.acts[1].act.Code.Reveal(); got != "123456" {
		t.Errorf("the code became %q", got)
	}
	s.do(token, s.succeed)
	s.says(s.get(path), 200, "You are connected", "Northlight can now manage your account", "View or end this connection")
}

func TestAWrongCodeIsToldWhatMayFollow(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path, _ := s.on("app@sandbox.test")
	s.says(s.get(path), 200, "Open your authenticator app", "Codes change every 30 seconds", "!Not received?")
	for range 2 {
		s.says(s.post(path, "do", "code", "code", "000000"), 200, "Check it and try again", "!lock the account")
	}
	s.says(s.post(path, "do", "code", "code", "000000"), 200, "may lock the account")
	s.post(path, "do", "code", "code", "000000")
	s.says(s.post(path, "do", "code", "code", "000000"), 200, "We could not connect your account", "The codes did not match", "Nothing was saved", "Try again")
}

func TestACodeThatCannotBeOneIsNotSubmitted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path, _ := s.on("sms@sandbox.test")
	for code, want := range map[string]string{
		"": "Enter the code.", "  - ": "Enter the code.", "12345678901234567": "too many digits", "12#456": "must be a number", "１２３": "must be a number",
	} {
		s.says(s.post(path, "do", "code", "code", code), 422, want)
	}
	if len(s.acts) != 0 {
		t.Errorf("%d acts", len(s.acts))
	}
}

func TestChallengesFollowEachOther(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path, token := s.on("sms-email-face@sandbox.test")
	s.says(s.post(path, "do", "code", "code", "123456"), 200, "Check your email", "will send a code to m•••@g•••.com", "Send the email", "!Security code")
	s.says(s.post(path, "do", "email"), 200, "The platform sent a message to m•••@g•••.com", "Security code")
	s.says(s.post(path, "do", "code", "code", "123456"), 200, "Take a quick selfie", "Northlight does not receive the photo", "I have finished the check", "Open on this device")
	s.says(s.post(path, "do", "selfie"), 422, "The platform has not confirmed it yet")
	view := s.do(token, func(*story) {})
	s.says(s.get("/a/"+view.Token+"/phone"), 200, "Take a quick selfie", "Open the check", "!Open on this device")
	s.do(token, s.succeed)
	s.says(s.get("/a/"+view.Token+"/phone"), 200, "You are connected", "Go back to your other screen")
}

func TestAnotherMessageCannotBeHadTooSoon(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path, _ := s.on("sms@sandbox.test")
	s.clock.wait(9 * time.Second)
	s.says(s.post(path, "do", "resend"), 422, "You can ask for a new code in 0:21.")
	s.clock.wait(21 * time.Second)
	s.says(s.post(path, "do", "resend"), 200, "Check your phone", "!You can ask for")
}

func TestAnotherWayCanBeChosen(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path, _ := s.on("sms@sandbox.test")
	s.says(s.post(path, "do", "switch", "channel", "app"), 200, "Open your authenticator app")
}

func TestAPhoneApproves(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	token, _ := s.open(link.Session{})
	path := "/s/" + token
	s.says(s.post(path, "do", "mobile"), 200, "Scan to approve", "Waiting for your phone…", "The code refreshes automatically")
	view := s.do(token, func(*story) {})
	own := "/a/" + view.Token + "/phone"
	phone := s.get(own)
	s.says(phone, 200, "Approve on this phone", "let Northlight manage your account", "only if you started this yourself", "Open the app")
	if !strings.Contains(phone.body, `href="https://platform.example/qr/1" data-link="`) || !strings.Contains(phone.body, `" target="_blank" rel="noopener noreferrer"`) || strings.Contains(phone.body, "qr.svg") {
		t.Errorf("the way to the platform: %s", phone.body)
	}
	s.do(token, func(st *story) { s.set(st, func(v *connectpages.View) { v.Progress = attempt.Scanned }) })
	s.says(s.get(path), 200, "Code scanned. Tap Approve on your phone.")
	s.do(token, func(st *story) { s.fail(st, "mobile_denied") })
	s.says(s.get(path), 200, "The request was declined on your phone", "Try again")
	s.says(s.get(own), 200, "The request was declined on your phone", "!Try again")
}

func TestAPageThatAQROpenedOutlivesTheQR(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	token, _ := s.open(link.Session{})
	s.post("/s/"+token, "do", "mobile")
	view := s.do(token, func(st *story) { s.attempts["at_qr1"] = st })
	scanned := s.get("/a/at_qr1/phone?lang=es")
	if want := "/a/" + view.Token + "/phone?lang=es"; scanned.status != 303 || scanned.head.Get("Location") != want {
		t.Fatalf("%d to %s, want %s", scanned.status, scanned.head.Get("Location"), want)
	}
	s.do(token, func(*story) { delete(s.attempts, "at_qr1") })
	s.says(s.get("/a/at_qr1/phone"), 404, "This link has expired")
	s.says(s.get(scanned.head.Get("Location")), 200, "Aprueba en este teléfono")
}

func TestTheQRShowsThePhonesPageAndChangesWithIt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	token, _ := s.open(link.Session{})
	s.post("/s/"+token, "do", "mobile")
	view := s.do(token, func(*story) {})
	first := s.get("/a/" + view.Token + "/qr.svg")
	if first.status != 200 || first.head.Get("Content-Type") != "image/svg+xml" || !strings.HasPrefix(first.body, "<svg") || len(first.body) > 12<<10 {
		t.Fatalf("%d, %d bytes", first.status, len(first.body))
	}
	before := s.get("/s/" + token)
	s.do(token, func(st *story) { s.set(st, func(v *connectpages.View) { v.PhoneURL += "2" }) })
	if again := s.get("/a/" + view.Token + "/qr.svg"); again.body == first.body {
		t.Error("the picture stayed the same")
	}
	if after := s.get("/s/" + token); picture(after) == picture(before) || picture(after) == "" {
		t.Errorf("the address of the picture: %s", picture(after))
	}
	s.do(token, s.succeed)
	if gone := s.get("/a/" + view.Token + "/qr.svg"); gone.status != 404 {
		t.Errorf("%d after the end", gone.status)
	}
}

func picture(a answer) string {
	_, rest, _ := strings.Cut(a.body, `id="qr" src="`)
	address, _, _ := strings.Cut(rest, `"`)
	return address
}

func TestSigningInTellsHowLongItTakes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path, token := s.started("ok@sandbox.test")
	s.says(s.get(path), 200, "Contacting the platform", "Checking your details", "Securing your session", "!Still working")
	s.clock.wait(8 * time.Second)
	s.says(s.get(path), 200, "Still working. This can take up to a minute.")
	s.clock.wait(52 * time.Second)
	page := s.get(path)
	s.says(page, 200, "This is taking longer than usual")
	if !strings.Contains(page.body, `<noscript><meta http-equiv="refresh" content="3"></noscript>`) {
		t.Error("a browser without scripts does not look again")
	}
	s.do(token, func(st *story) { s.set(st, func(v *connectpages.View) { v.Progress = attempt.Verifying }) })
	if page := s.get(path); strings.Count(page.body, `data-is="done"`) != 2 || !strings.Contains(page.body, `data-is="now" aria-current="step">Securing`) {
		t.Errorf("%s", page.body)
	}
}

func TestEveryFailureHasItsWords(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, token := s.on("sms@sandbox.test")
	view := s.do(token, func(*story) {})
	seen := map[string]string{}
	codes := strings.Fields(`invalid_credentials account_locked account_banned terms_required captcha_required two_factor_failed two_factor_locked code_expired
		face_rejected mobile_denied mobile_session_expired session_invalid session_incomplete not_a_creator account_mismatch egress_unavailable
		upstream_unavailable upstream_timeout upstream_changed expired cancelled superseded interrupted account_deleted account_limit org_suspended internal`)
	for _, code := range codes {
		for _, lang := range link.Locales() {
			s.do(token, func(st *story) { st.view.State, st.view.Failure = attempt.Failed, code })
			page := s.get("/a/" + view.Token + "?lang=" + lang)
			_, rest, _ := strings.Cut(page.body, `<p class="lead">`)
			text, _, _ := strings.Cut(rest, "</p>")
			if page.status != 200 || text == "" || strings.Contains(code, "_") && strings.Contains(page.text(), code) {
				t.Errorf("%s in %s: %d %s", code, lang, page.status, page.text())
			}
			if twin := seen[text]; twin != "" && twin != code {
				t.Errorf("%s and %s read alike in %s", code, twin, lang)
			}
			seen[text] = code
		}
	}
	// A code that is new to the page is still told in words.
	s.do(token, func(st *story) { st.view.Failure = "quite_new" })
	s.says(s.get("/a/"+view.Token), 200, "Something went wrong on our side", "!quite_new")
}

func TestAnAttemptOfTheAPIHasPagesOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.mu.Lock()
	st := s.begin(link.Credentials, "sms@sandbox.test")
	st.view.ReturnURL, st.view.ReferenceID = "https://app.example/cb?x=1", "user 456"
	s.next(st)
	path := "/a/" + st.view.Token
	s.mu.Unlock()
	s.says(s.get(path), 200, "Check your phone")
	s.says(s.post(path, "do", "cancel"), 200, "You cancelled this attempt.", "Continue to Northlight", "!Try again")
	page := s.get(path)
	if !strings.Contains(page.body, `href="https://app.example/cb?attempt_id=`+string(st.view.ID)+`&amp;reference_id=user&#43;456&amp;status=cancelled&amp;x=1"`) {
		t.Errorf("the way back: %s", page.body)
	}
	// On another screen the same is still on display: what is pressed there is too late, and says so.
	s.says(s.post(path, "do", "code", "code", "123456"), 200, "You cancelled this attempt.")
}

func TestWhatTheDomainRefusesIsToldInWords(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path, _ := s.on("sms@sandbox.test")
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
		s.says(page, one.status, one.want)
		if strings.Contains(page.body, "canary") {
			t.Errorf("%s", page.body)
		}
	}
	if !strings.Contains(s.log.String(), errInside.Error()) {
		t.Error("a failure of ours is not in the log")
	}
	s.says(s.post(path, "do", "nonsense"), 400, "That did not work")
}
