package connectpages_test

import (
	"encoding/base64"
	"regexp"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/server/connectpages"
)

// steps returns the progress bar as "step of count", or an empty string.
func steps(a response) string {
	_, rest, _ := strings.Cut(a.body, `aria-label="Step `)
	text, _, _ := strings.Cut(rest, `"`)
	return text
}

func TestACreatorNamesTheSiteBeforeThePassword(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, it := s.open(link.Session{Platform: "ghost", ReturnURL: "https://app.example/cb"})
	path := s.enter(token)
	first := s.get(path)
	s.wantText(first, 200, "Northlight", "Ghost", "Where is your Ghost site?", "Northlight asks to manage your Ghost site", "You sign in on the next page",
		"See your posts, members, newsletters", "!fans", "!Password", "!phone", "Cancel")
	for _, want := range []string{`type="url" inputmode="url"`, `placeholder="https://maya.example.com"`, "novalidate", `data-at="1"`} {
		if !strings.Contains(first.body, want) {
			t.Errorf("no %s in %s", want, first.body)
		}
	}
	login := s.post(path, "do", "site", "site", " Maya.example.com/ ")
	s.wantText(login, 200, "Sign in to Ghost at maya.example.com", "Maya <b>writes</b>", "Password", "Change site", "Northlight never sees your password",
		"to read and manage your Ghost site maya.example.com until", "!on my phone")
	if !strings.Contains(login.body, `<input type="hidden" name="site" value="https://maya.example.com">`) || strings.Contains(login.body, "<b>writes") {
		t.Error(login.body)
	}
	if it.Status != link.Open || len(s.starts) != 0 {
		t.Errorf("a check has changed the session: %+v", it)
	}
	// A mistake keeps the site.
	again := s.post(path, "do", "start", "site", "https://maya.example.com", "email", "maya", "password", "x")
	s.wantText(again, 422, "Enter your email address", "Sign in to Ghost at maya.example.com")
	if !strings.Contains(again.body, `name="site" value="https://maya.example.com"`) {
		t.Error(again.body)
	}
	pending := s.post(path, "do", "start", "site", "https://maya.example.com", "email", "email@maya.example.com", "password", "good")
	s.wantText(pending, 200, "Contacting maya.example.com", "Ghost")
	if got := s.starts[0]; got.Site != "https://maya.example.com" || got.Session.Platform != "ghost" || got.Kind != link.Credentials {
		t.Errorf("%+v", got)
	}
	s.do(token, s.next)
	s.wantText(s.get(path), 200, "Ghost will send a code to")
	s.do(token, s.succeed)
	end := s.get(path)
	s.wantText(end, 200, "can now manage your account on Ghost", "maya.example.com")
	for i, page := range []response{first, login, pending, end} {
		if want := string(rune('1'+i)) + " of 4"; steps(page) != want || strings.Count(page.body, "<i></i>") != 4 {
			t.Errorf("page %d is step %s, want %s", i, steps(page), want)
		}
		if !strings.Contains(page.body, `src="/connect/platform/ghost.svg?v=`) {
			t.Errorf("page %d has no mark of the platform", i)
		}
	}
	manage := regexp.MustCompile(`/manage/mng_[\w-]+`).FindString(end.body)
	s.wantText(s.get(manage), 200, "connected to @luna on Ghost since", "See your posts, members, newsletters", "maya.example.com")
}

func TestASiteThatCannotBeUsedIsExplained(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{Platform: "ghost"})
	path := s.enter(token)
	for entered, want := range map[string]string{
		"":                     "This is not the address of a site. Enter it as your browser shows it, such as maya.example.com.",
		"maya@example.com":     "This is not the address of a site.",
		"my blog":              "This is not the address of a site.",
		"form.example.com":     "This is not the address of a site.",
		"software.example.com": "We did not find Ghost at this address.",
		"redirect.example.com": "We did not find Ghost at this address.",
		"address.example.com":  "We found no public site at this address.",
		"127.0.0.1":            "This site is not responding right now.",
		"down.example.com":     "This site is not responding right now.",
		"slow.example.com":     "This site is not responding right now.",
		"cut.example.com":      "We cannot reach Ghost right now.",
	} {
		page := s.post(path, "do", "site", "site", entered)
		s.wantText(page, 422, want, "Where is your Ghost site?", "!Password")
		if !strings.Contains(page.body, `value="`+entered+`" aria-invalid="true"`) {
			t.Errorf("%q is lost: %s", entered, page.body)
		}
		s.clock.advance(60e9) // for the limit of checks
	}
	s.wantText(s.post(path, "do", "site", "site", "broken.example.com"), 503, "That did not work", "!canary")
	s.wantText(s.post(path+"?lang=es", "do", "site", "site", "software.example.com"), 422, "No hemos encontrado Ghost", "¿Dónde está tu sitio de Ghost?")
}

func TestAStartChecksTheSiteAgain(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{Platform: "ghost"})
	path := s.enter(token)
	start := []string{"do", "start", "site", "maya.example.com", "email", "maya@example.com", "password", "canary-password"}
	for _, one := range []struct {
		refusal error
		want    []string
	}{
		{problem.ValidationFailed.New("x").At("/site", "software", "x"), []string{"We did not find Ghost", "Where is your Ghost site?"}},
		{problem.UnsafeURL.New("x").At("/site", "address", "x"), []string{"We found no public site", "Where is your Ghost site?"}},
		{problem.UpstreamTimeout.New("x"), []string{"maya.example.com is not responding right now", "Sign in to Ghost at maya.example.com"}},
		{problem.ConnectUnavailable.New("x"), []string{"We cannot reach maya.example.com right now", "Sign in to Ghost at maya.example.com"}},
	} {
		s.refuse = one.refusal
		page := s.post(path, start...)
		s.wantText(page, 422, one.want...)
		if strings.Contains(page.body, "canary") {
			t.Error(page.body)
		}
	}
	// Without a site there is no sign-in.
	s.wantText(s.post(path, "do", "start", "email", "maya@example.com", "password", "good"), 200, "Where is your Ghost site?")
	s.wantText(s.post(path, "do", "mobile", "site", "maya.example.com"), 200, "Where is your Ghost site?")
	if len(s.starts) != 0 {
		t.Errorf("%+v", s.starts)
	}
}

func TestTheSiteIsKeptForAnotherTry(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{Platform: "ghost"})
	path := s.enter(token)
	s.post(path, "do", "start", "site", "maya.example.com", "email", "bad@maya.example.com", "password", "bad")
	s.do(token, s.next)
	s.wantText(s.get(path), 200, "Ghost did not accept this email and password")
	again := s.get(path + "?again=1")
	s.wantText(again, 200, "Sign in to Ghost at maya.example.com", "Change site", "Password")
	change := regexp.MustCompile(`href="([^"]+)">Change site`).FindStringSubmatch(again.body)
	if change == nil {
		t.Fatal(again.body)
	}
	other := s.get(strings.ReplaceAll(change[1], "&amp;", "&"))
	if s.wantText(other, 200, "Where is your Ghost site?"); !strings.Contains(other.body, `value="maya.example.com"`) {
		t.Error(other.body)
	}
	// The other language keeps what was entered.
	login := s.post(path, "do", "site", "site", "maya.example.com")
	if spanish := regexp.MustCompile(`href="([^"]+)" lang="es"`).FindStringSubmatch(login.body); spanish == nil {
		t.Error(login.body)
	} else if page := s.get(strings.ReplaceAll(spanish[1], "&amp;", "&")); !strings.Contains(page.body, `value="https://maya.example.com"`) {
		t.Error(page.body)
	}
}

func TestASiteThatTheOrgHasNamedIsNotAskedFor(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{Platform: "ghost", Site: "https://maya.example.com/blog"})
	path := s.enter(token)
	page := s.get(path)
	s.wantText(page, 200, "Sign in to Ghost at maya.example.com/blog", "Password", "!Change site")
	if steps(page) != "1 of 3" || strings.Contains(page.body, `name="site"`) {
		t.Error(page.body)
	}
	s.wantText(s.post(path, "do", "site", "site", "other.example.com"), 200, "Sign in to Ghost at maya.example.com/blog")
	s.refuse = problem.ValidationFailed.New("x").At("/site", "software", "x")
	s.wantText(s.post(path, "do", "start", "email", "maya@example.com", "password", "good"), 422, "maya.example.com/blog is not responding right now")
	s.post(path, "do", "start", "site", "https://other.example.com", "email", "maya@example.com", "password", "good")
	if len(s.found) != 0 || len(s.starts) != 1 || s.starts[0].Site != "https://maya.example.com/blog" {
		t.Errorf("%v %+v", s.found, s.starts)
	}
}

func TestAReconnectStaysAtTheSite(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	account := id.New[id.Account]()
	s.accounts[account] = connectpages.Connection{Name: "@maya", Platform: "ghost", Site: "https://maya.example.com", Lost: true}
	link := s.reconnectLink(account)
	path := s.enterReconnect(link)
	s.wantText(s.get(path), 200, "Sign in to Ghost at maya.example.com", "!Change site", "!on my phone")
	s.wantText(s.post(path, "do", "start", "site", "https://other.example.com", "email", "maya@example.com", "password", "good"), 200, "Contacting maya.example.com")
	if got := s.starts[0]; got.Site != "https://maya.example.com" {
		t.Errorf("%+v", got)
	}
	// A platform that is no longer in the settings asks for nothing.
	s.accounts[account] = connectpages.Connection{Name: "@maya", Platform: "gone", Lost: true}
	s.wantText(s.get(link), 503, "Northlight cannot connect accounts right now", "!Password")
	s.wantText(s.post(link, "do", "open"), 503)
}

func TestALinkWithoutAUsableMethodAsksForNothing(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	for _, it := range []link.Session{
		{Platform: "gone"},
		{Platform: "ghost", Kinds: []string{link.MobileApp}},
		{Platform: "ghost", Kinds: []string{link.MobileApp}, Site: "https://maya.example.com"},
	} {
		token, _ := s.open(it)
		path := "/s/" + token
		for _, page := range []response{
			s.get(path), s.post(path, "do", "site", "site", "maya.example.com"), s.post(path, "do", "mobile"),
			s.post(path, "do", "start", "email", "maya@example.com", "password", "good"),
		} {
			if it.Site != "" && page.status == 200 {
				continue // A link with a site leads back from a check.
			}
			s.wantText(page, 503, "Northlight cannot connect accounts right now")
			if strings.Contains(page.body, "<form") {
				t.Errorf("%+v has a form", it)
			}
		}
	}
	if len(s.starts)+len(s.found) != 0 {
		t.Errorf("%v %v", s.starts, s.found)
	}
}

func TestOneLinkChecksAFewSitesAMinute(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{Platform: "ghost"})
	other, _ := s.open(link.Session{Platform: "ghost"})
	for range 10 {
		s.wantText(s.post(s.enter(token), "do", "site", "site", "software.example.com"), 422)
	}
	s.wantText(s.post(s.enter(token), "do", "site", "site", "maya.example.com"), 429, "Too many attempts")
	s.wantText(s.post(s.enter(other), "do", "site", "site", "maya.example.com"), 200, "Password")
	if len(s.found) != 11 {
		t.Errorf("%d checks", len(s.found))
	}
}

func TestAnAddressIsReadAsPeopleWriteIt(t *testing.T) {
	t.Parallel()
	const check = "/ghost/api/admin/site/"
	for text, want := range map[string]string{
		"maya.example.com":                              "https://maya.example.com",
		"  https://maya.example.com/ ":                  "https://maya.example.com",
		"HTTP://Maya.Example.com":                       "https://maya.example.com",
		"maya.example.com/blog/":                        "https://maya.example.com/blog",
		"https://maya.example.com/?ref=1#top":           "https://maya.example.com",
		"https://maya.example.com/ghost":                "https://maya.example.com",
		"https://maya.example.com/ghost/#/posts":        "https://maya.example.com",
		"https://maya.example.com/blog/ghost/#/posts":   "https://maya.example.com/blog",
		"maya.example.com/ghostwriting":                 "https://maya.example.com/ghostwriting",
		"maya.example.com:443":                          "https://maya.example.com:443",
		"http://127.0.0.1:2368/":                        "http://127.0.0.1:2368",
		"http://localhost:2368/ghost/":                  "http://localhost:2368",
		"":                                              "",
		"maya":                                          "",
		"localhost":                                     "",
		"maya.":                                         "",
		"my site.example.com":                           "",
		"maya@example.com":                              "",
		"https://maya:secret@example.com":               "",
		"ftp://maya.example.com":                        "",
		"javascript://maya.example.com/%0aalert(1)":     "",
		"https:///maya.example.com":                     "",
		"maya.example.com/" + strings.Repeat("x", 2048): "",
	} {
		if got, ok := connectpages.CleanSite(text, check); got != want || ok != (want != "") {
			t.Errorf("%q is %q, %v", text, got, ok)
		}
	}
}

func TestConsentNamesWhatTheCreatorAgreesTo(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	hashes := map[string]bool{}
	for _, one := range []struct{ platform, site string }{
		{"sandbox", ""}, {"ghost", "https://maya.example.com"}, {"ghost", "https://maya.example.org"},
	} {
		token, _ := s.open(link.Session{Platform: one.platform})
		s.post(s.enter(token), "do", "start", "site", one.site, "email", "maya@example.com", "password", "good")
	}
	for _, start := range s.starts {
		hashes[start.Consent.TextHash] = true
	}
	if len(s.starts) != 3 || len(hashes) != 3 {
		t.Errorf("%d starts with %d texts", len(s.starts), len(hashes))
	}
}

func TestFailuresWithoutAPhoneDoNotAdviseIt(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	for _, it := range []link.Session{{Platform: "ghost"}, {Kinds: []string{link.Credentials}}, {}} {
		token, _ := s.open(it)
		s.post(s.enter(token), "do", "start", "site", "maya.example.com", "email", "ok@example.com", "password", "good")
		for _, code := range []string{"captcha_required", "two_factor_failed", "two_factor_locked", "face_rejected"} {
			s.do(token, func(st *fakeAttempt) { st.view.State, st.view.Failure = attempt.Failed, code })
			for lang, phone := range map[string]string{"en": "on your phone", "es": "de tu teléfono"} {
				text := s.get(s.enter(token) + "?lang=" + lang).text()
				if advised, want := strings.Contains(text, phone), it.Platform == "" && it.Kinds == nil; advised != want {
					t.Errorf("%+v, %s: %s", it, code, text)
				}
			}
		}
	}
}

func TestThePlatformsMarkIsAFile(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{Platform: "ghost"})
	address := regexp.MustCompile(`/connect/platform/ghost\.svg\?v=\w+`).FindString(s.get(s.enter(token)).body)
	mark := s.get(address)
	ghost, _ := platforms(t).Get("ghost")
	if mark.status != 200 || "data:image/svg+xml;base64,"+base64.StdEncoding.EncodeToString([]byte(mark.body)) != ghost.Catalog.Logo || !strings.HasPrefix(mark.head.Get("Content-Type"), "image/svg+xml") ||
		!strings.Contains(mark.head.Get("Cache-Control"), "immutable") || !strings.Contains(mark.head.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%d %v", mark.status, mark.head)
	}
	if again := s.get(address, "If-None-Match", mark.head.Get("ETag")); again.status != 304 {
		t.Errorf("%d", again.status)
	}
	if other := s.get("/connect/platform/nothing.svg"); other.status != 404 {
		t.Errorf("%d", other.status)
	}
	// A platform without a mark has its initial, and a page without a platform has neither.
	plain, _ := s.open(link.Session{})
	if page := s.get(s.enter(plain)); !strings.Contains(page.body, `<span class="mark other" aria-hidden="true">S</span><span>Sandbox`) {
		t.Error(page.body)
	}
	if page := s.get("/s/nothing"); strings.Contains(page.body, `class="mark`) {
		t.Error(page.body)
	}
}
