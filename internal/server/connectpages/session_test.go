package connectpages_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

var errInside = errors.New("canary of the database")

func TestASessionShowsItsForm(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{})
	page := s.get(s.enter(token))
	s.wantText(page, 200, "Connect your account", "Sign in to Sandbox once so Northlight can manage your account for you.", "Northlight never sees your password",
		"You can disconnect at any time", "By continuing you allow Northlight to read and manage", "What Northlight will be able to do", "Use the app on my phone instead", "Keep me connected")
	for _, want := range []string{`autocomplete="username"`, `autocomplete="current-password"`, `lang="en"`} {
		if !strings.Contains(page.body, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(page.body, `value="exit"`) {
		t.Error("the page has a cancel button without a return address")
	}
	token, _ = s.open(link.Session{Kinds: []string{link.MobileApp}, Remember: link.RememberNever})
	s.wantText(s.get(s.enter(token)), 200, "Continue with my phone", "!Password", "!Keep me connected")
	token, _ = s.open(link.Session{Kinds: []string{link.Credentials}, Remember: link.RememberAlways})
	s.wantText(s.get(s.enter(token)), 200, "Password", "!on my phone", "!Keep me connected", "Your password is stored")
}

func TestTheFormStartsAnAttemptWithConsent(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, it := s.open(link.Session{ReferenceID: "user_456"})
	page := s.post(s.enter(token), "do", "start", "email", " ok@sandbox.test ", "password", " go od ", "remember", "yes")
	s.wantText(page, 200, "Signing you in")
	if len(s.starts) != 1 {
		t.Fatalf("%d starts", len(s.starts))
	}
	got := s.starts[0]
	if got.Email.Reveal() != "ok@sandbox.test" || got.Password.Reveal() != " go od " || !*got.Remember || got.Kind != "credentials" || got.Session.ID != it.ID {
		t.Errorf("%q %q %+v", got.Email.Reveal(), got.Password.Reveal(), got)
	}
	c := got.Consent
	if c.Flow != "hosted" || c.Version == "" || c.Locale != "en" || !strings.HasPrefix(c.TextHash, "sha256:") || c.IPHash == "" || !c.At.Equal(s.clock.now()) {
		t.Errorf("%+v", c)
	}
	// Another wording is another consent.
	token, _ = s.open(link.Session{Locale: "es"})
	s.post(s.enter(token), "do", "start", "email", "ok@sandbox.test", "password", "good")
	if other := s.starts[1]; other.Consent.TextHash == c.TextHash || other.Consent.Locale != "es" || *other.Remember {
		t.Errorf("%+v", other)
	}
}

func TestAnIncompleteFormNamesTheFieldAndDropsThePassword(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{})
	path := s.enter(token)
	page := s.post(path, "do", "start", "email", "luna", "password", "canary-password")
	s.wantText(page, 422, "Enter your email address")
	if strings.Contains(page.body, "canary-password") || !strings.Contains(page.body, `value="luna" aria-invalid="true" aria-describedby="wrong"`) {
		t.Errorf("%s", page.body)
	}
	s.wantText(s.post(path, "do", "start", "email", "luna@example.com", "password", ""), 422, "Enter your password.")
	for refusal, want := range map[*problem.Error]string{
		problem.QuotaExceeded.New("x"):      "Too many attempts in the last hour",
		problem.ConnectUnavailable.New("x"): "We cannot reach Sandbox right now",
	} {
		s.refuse = refusal
		s.wantText(s.post(path, "do", "start", "email", "luna@example.com", "password", "good"), 422, want, "Connect your account")
	}
	s.refuse = problem.OrgSuspended.New("x")
	s.wantText(s.post(path, "do", "start", "email", "luna@example.com", "password", "good"), 403, "Northlight cannot connect accounts right now")
	if len(s.starts) != 0 {
		t.Errorf("%d starts", len(s.starts))
	}
}

func TestAWrongPasswordIsShownInTheForm(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	path, token := s.startChallenge("bad@sandbox.test")
	page := s.get(path)
	s.wantText(page, 200, "Connect your account", "Sandbox did not accept this email and password", "!Try again")
	if !strings.Contains(page.body, `id="password" name="password" type="password" autocomplete="current-password" maxlength="1024" required aria-invalid="true" aria-describedby="wrong" autofocus`) {
		t.Errorf("the message is not at the password: %s", page.body)
	}
	s.wantText(s.post(path, "do", "start", "email", "ok@sandbox.test", "password", "good"), 200, "Signing you in")
	s.do(token, s.succeed)
	s.wantText(s.get(path), 200, "You are connected")
	// The site that embeds the page is told, as about any other failure.
	token, _ = s.open(link.Session{AllowedOrigins: []string{"https://app.example"}})
	path = s.enter(token) + "/embed"
	s.post(path, "do", "start", "email", "bad@sandbox.test", "password", "bad")
	view := s.do(token, s.next)
	if page := s.get(path); !strings.Contains(page.body, `data-attempt="`+string(view.ID)+`" data-state="completed_failed" data-account="" data-failure="invalid_credentials"`) || !strings.Contains(page.body, `data-end="error"`) {
		t.Errorf("%s", page.body)
	}
	// On the pages of an attempt, which has no form, the message has its own page.
	s.wantText(s.get("/a/"+view.Token), 200, "We could not connect your account", "Sandbox did not accept this email and password")
}

func TestAWrongKeyIsShownInTheForm(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{Platform: "ghost", Site: "https://maya.example.com", Kinds: []string{link.Token, link.Credentials}})
	path := s.enter(token)
	key := strings.Repeat("a", 24) + ":" + strings.Repeat("b", 64)
	s.wantText(s.post(path, "do", "token", "token", key), 200, "Signing you in")
	s.do(token, func(st *fakeAttempt) { s.fail(st, "session_invalid") })
	page := s.get(path)
	s.wantText(page, 200, "Connect maya.example.com", "Ghost did not accept the sign-in or the key")
	if !strings.Contains(page.body, `aria-invalid="true" aria-describedby="wrong where" autofocus`) || strings.Contains(page.body, key) {
		t.Errorf("%s", page.body)
	}
}

func TestAFailedAttemptIsRetriedOnTheSameLink(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	path, token := s.startChallenge("locked@sandbox.test")
	page := s.get(path)
	s.wantText(page, 200, "Sandbox has locked sign-in for now", "Try again")
	if !strings.Contains(page.body, `href="`+path+`?again=1"`) {
		t.Errorf("%s", page.body)
	}
	s.wantText(s.get(path+"?again=1"), 200, "Connect your account")
	s.wantText(s.post(path, "do", "start", "email", "ok@sandbox.test", "password", "good"), 200, "Signing you in")
	// While an attempt is in progress the form is not shown, whatever the query says.
	s.wantText(s.get(path+"?again=1"), 200, "Signing you in")
	s.do(token, s.succeed)
	s.wantText(s.get(path+"?again=1"), 200, "You are connected")
	s.wantText(s.post(path, "do", "start", "email", "ok@sandbox.test", "password", "good"), 200, "You are connected")
	if len(s.starts) != 2 {
		t.Errorf("%d starts", len(s.starts))
	}
}

func TestAFormSentTwiceStartsOnce(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	path, _ := s.startSession("ok@sandbox.test")
	s.wantText(s.post(path, "do", "start", "email", "ok@sandbox.test", "password", "good"), 200, "Signing you in")
}

func TestACreatorGoesBackWithoutConnecting(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, it := s.open(link.Session{ReturnURL: "https://app.example/cb", ReferenceID: "user_456"})
	path := s.enter(token)
	s.wantText(s.get(path), 200, "Cancel")
	s.post(path, "do", "start", "email", "sms@sandbox.test", "password", "good")
	page := s.post(path, "do", "exit")
	s.wantText(page, 410, "You cancelled", "Continue to Northlight")
	if want := `href="https://app.example/cb?reference_id=user_456&amp;session_id=` + string(it.ID) + `&amp;status=cancelled"`; !strings.Contains(page.body, want) {
		t.Errorf("no %s in %s", want, page.body)
	}
	if it.Status != link.Exited || it.Active != "" || !s.acts[0].act.Cancel {
		t.Errorf("%+v", it)
	}
}

func TestSuccessLeadsBack(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, it := s.open(link.Session{ReturnURL: "https://app.example/cb", ReferenceID: "user_456"})
	s.post(s.enter(token), "do", "start", "email", "ok@sandbox.test", "password", "good")
	view := s.do(token, s.succeed)
	page := s.get(s.enter(token))
	s.wantText(page, 200, "You are connected", "Luna Vega @luna", "Continue to Northlight")
	for _, want := range []string{"status=success", "account_id=" + string(view.Account), "session_id=" + string(it.ID), "reference_id=user_456"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestLinksThatDoNotWorkLookAlike(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{ExpiresAt: s.clock.now().Add(time.Minute)})
	s.clock.advance(time.Minute)
	s.wantText(s.get("/s/"+token), 410, "This link has expired", "Ask Northlight for a new link")
	s.wantText(s.post("/s/"+token, "do", "open"), 410, "This link has expired")
	for _, path := range []string{"/s/cst_nothing", "/a/at_nothing", "/a/at_nothing/phone", "/a/at_nothing/embed", "/a/at_nothing/state", "/a/at_nothing/events", "/a/at_nothing/qr.svg", "/manage/mng_nothing", "/s/", "/a/x/y/z"} {
		s.wantText(s.get(path), 404, "This link has expired", "Ask the person who sent it", "!Northlight")
	}
}

func TestACreatorSeesAndEndsAConnection(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.clock.advance(time.Date(2026, time.November, 15, 9, 30, 0, 0, time.UTC).Sub(s.clock.now())) // for the date
	path, token := s.startChallenge("ok@sandbox.test")
	view := s.do(token, func(*fakeAttempt) {})
	_, rest, _ := strings.Cut(s.get(path).body, `<a href="/manage/`)
	link, _, found := strings.Cut(rest, `"`)
	if !found || !strings.HasPrefix(link, "mng_") {
		t.Fatal("the last page has no link to the connection")
	}
	manage := "/manage/" + link
	page := s.get(manage)
	s.wantText(page, 200, "Northlight has been connected to @luna on Sandbox since November 15, 2026", "See your profile, messages", "Your password is not stored", "Disconnect")
	s.wantText(s.get(manage+"?lang=es"), 200, "desde el 15 de noviembre de 2026")
	s.wantText(s.post(manage, "do", "nothing"), 200, "Your connection")
	s.wantText(s.post(manage, "do", "revoke"), 200, "Not connected", "Northlight has no access")
	if by := s.acts[0].by; by.Kind != "creator" || by.ID != string(view.Account) || by.Action != "account.revoke" || by.IPHash == "" || by.Request == "" {
		t.Errorf("%+v", by)
	}
	s.wantText(s.post(manage, "do", "revoke"), 200, "Not connected")
}

func TestAPageSaysWhoOperatesIt(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{})
	page := s.get("/s/" + token)
	s.wantText(page, 200, "Stagedoor operates this page for Northlight · Is it genuine?")
	_, rest, _ := strings.Cut(page.body, `<a href="/connect/identity/`)
	address, _, _ := strings.Cut(rest, `"`)
	page = s.get("/connect/identity/" + address)
	s.wantText(page, 200, "Is this page genuine?", "Address "+s.url+"/", "Operated by Stagedoor", "For Northlight", "Customer since March 3, 2026", "Sign in only with accounts made for tests", "!Is it genuine?")
	if strings.Contains(page.body, "<form") || strings.Contains(page.body, token) {
		t.Errorf("%s", page.body)
	}
	s.org.Environment = environment.Live
	s.wantText(s.get("/connect/identity/"+address), 200, "!accounts made for tests")
	s.org.Suspended = true
	s.wantText(s.get("/connect/identity/"+address), 403, "Northlight cannot connect accounts right now")
	for _, unknown := range []string{string(id.New[id.Org]()), "x", "org_%00"} {
		s.wantText(s.get("/connect/identity/"+unknown), 404, "This link has expired", "!Northlight")
	}
}

func TestAPageShowsTheLogoOfTheOrg(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{})
	address := link.LogoPath(s.org.ID, "abc")
	if page := s.get("/s/" + token); strings.Contains(page.body, "/connect/logo/") || !strings.Contains(page.body, `<span class="mark" aria-hidden="true">N</span>`) {
		t.Errorf("%s", page.body)
	}
	s.wantText(s.get(address), 404, "This link has expired")
	s.org.Page.LogoTag, s.logo = "abc", []byte("\x89PNG")
	if page := s.get("/s/" + token); !strings.Contains(page.body, `<img class="mark" src="`+address+`" alt="">Northlight`) {
		t.Errorf("%s", page.body)
	}
	got := s.get(address)
	if got.body != string(s.logo) || got.head.Get("Content-Type") != "image/png" || got.head.Get("X-Content-Type-Options") != "nosniff" || got.head.Get("Cache-Control") != "public, max-age=31536000, immutable" {
		t.Errorf("%d %v", got.status, got.head)
	}
	if old := s.get(link.LogoPath(s.org.ID, "old")); old.status != 200 || old.head.Get("Cache-Control") != "no-store" {
		t.Errorf("an old address: %d %v", old.status, old.head)
	}
	for _, unknown := range []string{"x", string(id.New[id.Org]())} {
		s.wantText(s.get("/connect/logo/"+unknown), 404, "This link has expired")
	}
}
