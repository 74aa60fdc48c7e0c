package connectpages_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

func TestEveryPageHasSecurityHeaders(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	path, token := s.startChallenge("sms@sandbox.test")
	view := s.do(token, func(*fakeAttempt) {})
	nonces := map[string]bool{}
	for _, one := range []string{path, "/a/" + view.Token, "/a/" + view.Token + "/phone", "/a/nothing", "/connect/privacy", s.enter(token) + "?lang=es", "/s/" + token} {
		page := s.get(one)
		policy := page.head.Get("Content-Security-Policy")
		nonce := regexp.MustCompile(`'nonce-([\w-]{24})'`).FindStringSubmatch(policy)
		if nonce == nil || nonces[nonce[1]] {
			t.Fatalf("%s: no fresh nonce in %s", one, policy)
		}
		nonces[nonce[1]] = true
		want := "default-src 'none'; script-src 'nonce-N' 'strict-dynamic'; style-src 'self' 'nonce-N'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
			"base-uri 'none'; object-src 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
		if got := strings.ReplaceAll(policy, nonce[1], "N"); got != want {
			t.Errorf("%s: %s", one, got)
		}
		referrer := "no-referrer"
		if strings.HasPrefix(one, path) { // no secret in the address
			referrer = "same-origin"
		}
		for name, want := range map[string]string{
			"X-Frame-Options": "DENY", "Referrer-Policy": referrer, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Content-Type": "text/html; charset=utf-8",
		} {
			if got := page.head.Get(name); got != want {
				t.Errorf("%s: %s is %q", one, name, got)
			}
		}
		if page.head.Get("Set-Cookie") != "" || !strings.Contains(page.head.Get("Permissions-Policy"), "camera=()") || page.head.Get("X-Request-Id") == "" {
			t.Errorf("%s: %v", one, page.head)
		}
		// The page has nothing that the policy refuses: styles and scripts without the nonce, handlers, foreign files.
		for _, bad := range []string{` style="`, "onclick", "onsubmit", "<script>", "<style>", `src="http`, `"//`} {
			if strings.Contains(page.body, bad) {
				t.Errorf("%s contains %s", one, bad)
			}
		}
	}
}

func TestOnlyTheSessionsOriginsMayFrameAndOnlyTheEmbeddedPage(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.org.Page.AllowedOrigins = []string{"https://org.example"}
	token, _ := s.open(link.Session{AllowedOrigins: []string{"https://app.example", "https://two.example:8443"}})
	embed := s.get(s.enter(token) + "/embed")
	if policy := embed.head.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors https://app.example https://two.example:8443;") {
		t.Error(policy)
	}
	if embed.head.Get("X-Frame-Options") != "" || embed.head.Get("Cross-Origin-Opener-Policy") != "" || !strings.Contains(embed.body, `data-origins="https://app.example https://two.example:8443"`) {
		t.Errorf("%v", embed.head)
	}
	if plain := s.get(s.enter(token)); !strings.Contains(plain.head.Get("Content-Security-Policy"), "frame-ancestors 'none'") || strings.Contains(plain.body, "data-origins") {
		t.Error("the full page can be framed")
	}
	for path, want := range map[string]string{"/s/nothing/embed": "'none'", "/a/nothing/embed": "'none'"} {
		if policy := s.get(path).head.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors "+want) {
			t.Errorf("%s: %s", path, policy)
		}
	}
	// A session without origins has those of its org.
	token, _ = s.open(link.Session{})
	if policy := s.get(s.enter(token) + "/embed").head.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors https://org.example;") {
		t.Error(policy)
	}
	s.org.Page.AllowedOrigins = nil
	if policy := s.get(s.enter(token) + "/embed").head.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Error(policy)
	}
}

func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{})
	form := url.Values{"do": {"mobile"}}
	for _, one := range []struct {
		head   []string
		status int
	}{
		{[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{[]string{"Sec-Fetch-Site", "same-site"}, 403},
		{[]string{"Sec-Fetch-Site", "", "Origin", "https://evil.example"}, 403},
		{[]string{"Sec-Fetch-Site", "cross-site", "Origin", "null"}, 403},
		// A page without an origin, such as a sandboxed frame. Our own page names its origin.
		{[]string{"Sec-Fetch-Site", "", "Origin", "null"}, 403},
		{[]string{"Sec-Fetch-Site", "", "Origin", s.url}, 303},
		{[]string{"Sec-Fetch-Site", "same-origin", "Origin", "null"}, 303},
	} {
		if got := s.call(http.MethodPost, s.enter(token), form, one.head...); got.status != one.status {
			t.Errorf("%v: %d", one.head, got.status)
		}
	}
	if len(s.starts) != 1 {
		t.Errorf("%d starts", len(s.starts))
	}
	// Our own page in an old browser, where no-referrer makes the origin null. Its address contains a secret.
	s.jar = nil
	link, _ := s.open(link.Session{})
	oldBrowser := []string{"Sec-Fetch-Site", "", "Origin", "null"}
	opened := s.call(http.MethodPost, "/s/"+link+"/embed", url.Values{"do": {"open"}}, oldBrowser...)
	if frame := opened.head.Get("Location"); opened.status != http.StatusSeeOther || s.get(frame).head.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("opening in a frame: %d %s", opened.status, frame)
	} else if got := s.call(http.MethodPost, frame, form, oldBrowser...); got.status != http.StatusSeeOther {
		t.Errorf("a frame without cookies: %d", got.status)
	}
}

func TestASourceOverItsLimitHasToWait(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{})
	from := []string{"X-Test-Source", "203.0.113.7"}
	for range 30 {
		s.get("/s/cst_wrong", from...)
	}
	s.wantText(s.get("/s/cst_wrong", from...), 429, "Too many attempts")
	s.wantText(s.get(s.enter(token), from...), 429, "Too many attempts")
	s.wantText(s.get(s.enter(token), "X-Test-Source", "203.0.113.8"), 200)
	s.clock.advance(2 * time.Second)
	s.wantText(s.get(s.enter(token), from...), 200)

	form := url.Values{"do": {"nonsense"}}
	for range 60 {
		s.call(http.MethodPost, s.enter(token), form, "X-Test-Source", "203.0.113.9")
	}
	got := s.call(http.MethodPost, s.enter(token), form, "X-Test-Source", "203.0.113.9")
	if s.wantText(got, 429, "Too many attempts"); got.head.Get("Retry-After") != "60" {
		t.Errorf("%v", got.head)
	}
	s.wantText(s.get(s.enter(token), "X-Test-Source", "203.0.113.9"), 200)
}

func TestNoTokenNorSecretIsLogged(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{})
	path := s.enter(token)
	s.post(path, "do", "start", "email", "sms+canary@sandbox.test", "password", "canary-password")
	view := s.do(token, s.next)
	s.post(path, "do", "code", "code", "000000")
	s.get("/a/" + view.Token + "/phone?lang=es")
	s.get("/a/" + view.Token + "/state")
	s.get("/a/" + view.Token + "canary")
	s.do(token, s.succeed)
	manage := regexp.MustCompile(`/manage/mng_[\w-]+`).FindString(s.get(path).body)
	s.get(manage)
	log := s.log.String()
	for _, one := range []string{token[4:], view.Token[3:], manage[12:], "canary", "000000", "password", "/s/", "/a/"} {
		if strings.Contains(log, one) {
			t.Errorf("the log contains %q", one)
		}
	}
	if n := strings.Count(log, `"msg":"request"`); n != 11 {
		t.Errorf("%d lines for 11 requests:\n%s", n, log)
	}
	if !strings.Contains(log, `"operation":"connectSessionAct"`) || !strings.Contains(log, `"org_id":"`+string(s.org.ID)) {
		t.Error(log)
	}
}

func TestAPanicIsAPage(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, _ := s.open(link.Session{})
	s.fakeBackend.sessions[token].Org = "" // Now its org is unknown.
	s.wantText(s.get("/s/"+token), 404, "This link has expired")
	s.fakeBackend.attempts["at_broken"] = nil
	s.wantText(s.get("/a/at_broken"), 500, "That did not work")
	if log := s.log.String(); !strings.Contains(log, `"msg":"panic"`) || strings.Contains(log, "at_broken") {
		t.Error(log)
	}
}

func TestAPageIsSmall(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	css, js := s.get("/connect/page.css"), s.get("/connect/page.js")
	for _, email := range []string{"ok@sandbox.test", "sms@sandbox.test", "face@sandbox.test", "locked@sandbox.test"} {
		path, token := s.startSession(email)
		sizes := []int{len(s.get(s.enter(token)).body)}
		s.do(token, s.next)
		sizes = append(sizes, len(s.get(path+"?lang=es").body))
		for _, size := range sizes {
			if total := size + len(css.body) + len(js.body); total > 20_000 {
				t.Errorf("%s: %d bytes", email, total)
			}
		}
	}
	token, _ := s.open(link.Session{ReturnURL: "https://app.example/cb"})
	start := len(s.get(s.enter(token)+"?lang=es").body) + len(css.body) + len(js.body)
	s.post(s.enter(token), "do", "mobile")
	scan := s.get(s.enter(token))
	whole := len(scan.body) + len(css.body) + len(js.body) + len(s.get(picture(scan)).body)
	if start > 20_000 || whole > 20_000 {
		t.Errorf("the form has %d bytes, the QR page %d", start, whole)
	}
	t.Logf("form %d, QR page with its picture %d, css %d, js %d bytes, nothing compressed", start, whole, len(css.body), len(js.body))
}

func TestTheScriptForOtherSitesIsSmallAndMayBeLoadedByThem(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	got := s.get("/connect.js")
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(got.body)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	if got.status != 200 || got.head.Get("Cross-Origin-Resource-Policy") != "cross-origin" || packed.Len() > 2048 {
		t.Errorf("%d, %d bytes, %v", got.status, packed.Len(), got.head)
	}
	if again := s.get("/connect.js", "If-None-Match", got.head.Get("ETag")); again.status != 304 || again.body != "" {
		t.Errorf("%d", again.status)
	}
	for _, file := range []string{"/connect/page.css", "/connect/page.js", "/connect/icon.svg"} {
		if a := s.get(file); a.status != 200 || !strings.Contains(a.head.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", file, a.status, a.head)
		}
	}
	for _, file := range []string{"/connect/connect.js", "/connect/nothing", "/connect/../hosted.go", "/connect.js/x"} {
		if a := s.get(file); a.status == 200 {
			t.Errorf("%s is served", file)
		}
	}
}

func TestPagesAreServedBeforeOtherHandlers(t *testing.T) {
	t.Parallel()
	w := newFakeBackend("http://127.0.0.1", time.Now)
	behind := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	handler := newPages(t, w, "https://connect.example", &logBuffer{}, time.Now).Before(behind)
	for path, want := range map[string]int{
		"/v1/me": 418, "/": 418, "/accounts": 418, "/connect": 418, "/sandbox": 418, "/s/x": 404, "/a/x": 404, "/manage/x": 404, "/connect.js": 200, "/connect/page.css": 200,
	} {
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if rec.Code != want {
			t.Errorf("%s: %d", path, rec.Code)
		}
		if want != 418 && rec.Header().Get("Strict-Transport-Security") == "" {
			t.Errorf("%s: no HSTS", path)
		}
	}
}

func TestTheNameOfAnOrgIsEscaped(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.org.Name = `<b>"N"</b>**x**{mask}`
	s.org.Page.HelpURL = "https://help.example/?a=1&b=2"
	path, _ := s.startChallenge("sms@sandbox.test")
	page := s.get(path)
	s.wantText(page, 200, `<b>"N"</b>**x**{mask}`)
	if strings.Contains(page.body, "<b>\"N") || strings.Contains(page.body, "<b>x</b>") {
		t.Errorf("%s", page.body)
	}
}

// The scripts must not use what the policy refuses.
func TestTheScriptWritesNoMarkup(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"static/page.js", "static/connect.js"} {
		text, err := os.ReadFile(file)
		must.OK(t, err)
		for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "setAttribute('style'", "'*'", "localStorage", "document.cookie"} {
			if strings.Contains(string(text), bad) {
				t.Errorf("%s uses %s", file, bad)
			}
		}
	}
}
