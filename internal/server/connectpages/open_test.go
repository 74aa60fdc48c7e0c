package connectpages_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/server/connectpages"
)

const onIPhone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1"

// Mail scanners and messengers load a link before the creator does, some of them several times. It must still work.
func TestLoadingALinkDoesNotSpendIt(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, it := s.open(link.Session{ReferenceID: "user_456", Label: "Luna", Platform: "ghost", Site: "https://maya.example.com"})
	for _, agent := range []string{"WhatsApp/2.24", "Slackbot-LinkExpanding 1.0", "TelegramBot (like TwitterBot)", onIPhone} {
		bot := s.otherBrowser()
		for _, path := range []string{"/s/" + token, "/s/" + token + "/embed", "/s/" + token + "?lang=es"} {
			for _, method := range []string{http.MethodHead, http.MethodGet, http.MethodGet} {
				page := bot.call(method, path, nil, "User-Agent", agent, "Sec-Purpose", "prefetch")
				if page.status != 200 || strings.Contains(page.body, "maya") || strings.Contains(page.body, "Luna") || strings.Contains(page.body, "user_456") {
					t.Errorf("%s %s: %d %s", method, path, page.status, page.text())
				}
			}
		}
	}
	// A form of another site, and a form that this page does not have, spend it as little.
	s.call(http.MethodPost, "/s/"+token, url.Values{"do": {"open"}}, "Sec-Fetch-Site", "cross-site")
	s.wantText(s.post("/s/"+token, "do", "start", "email", "ok@sandbox.test", "password", "good"), 200, "Connect your account", "!Password")
	if it.Openings() != 0 || it.Status != link.Open || len(s.openings)+len(s.starts)+len(s.acts) != 0 {
		t.Errorf("%+v", it)
	}
	s.wantText(s.get(s.enter(token)), 200, "Sign in to Ghost at maya.example.com", "Password")
	if by := s.openings[0]; by.Kind != "creator" || by.ID != string(it.ID) || by.Action != "connect.open" || by.IPHash == "" {
		t.Errorf("%+v", by)
	}
}

func TestALinkIsExchangedForACookie(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, it := s.open(link.Session{})
	page := s.get("/s/" + token + "?lang=es")
	s.wantText(page, 200, "Northlight te pide que conectes tu cuenta", "Continuar")
	opened := s.call(http.MethodPost, "/s/"+token+"?lang=es", url.Values{"do": {"open"}})
	if want := "/s/" + string(it.ID) + "?lang=es"; opened.status != http.StatusSeeOther || opened.head.Get("Location") != want || strings.Contains(opened.body, token) {
		t.Fatalf("%d %s, want %s", opened.status, opened.head.Get("Location"), want)
	}
	form := s.get("/s/" + string(it.ID))
	if s.wantText(form, 200, "Password"); strings.Contains(form.body, token) {
		t.Error("the page contains the token of the link")
	}
	// The link leads back to the session in this browser.
	if again := s.get("/s/" + token); again.status != http.StatusSeeOther || again.head.Get("Location") != "/s/"+string(it.ID) {
		t.Errorf("%d %s", again.status, again.head.Get("Location"))
	}
	s.wantText(s.post("/s/"+token, "do", "again"), 200, "Password")
	if it.Openings() != 1 {
		t.Errorf("%d openings", it.Openings())
	}
	// A browser that keeps no cookies is asked for them, and spends nothing.
	token, it = s.open(link.Session{})
	s.jar = nil
	s.wantText(s.post("/s/"+token, "do", "open"), 422, "Allow cookies for this site", "Continue")
	if it.Openings() != 0 {
		t.Errorf("%d openings", it.Openings())
	}
}

func TestTheCookieOfOneLinkDoesNotOpenAnother(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	other := s.otherBrowser()
	a, _ := s.open(link.Session{})
	b, _ := s.open(link.Session{})
	mine, theirs := s.enter(a), other.enter(b)
	s.wantText(s.get(mine), 200, "Password")
	s.wantText(other.get(theirs), 200, "Password")
	for _, one := range []response{
		s.get(theirs), other.get(mine), s.otherBrowser().get(mine), s.get(theirs + "/embed"),
		s.get("/s/cs_00000000000000000000000000"), s.get(mine + "x"),
		s.post(theirs, "do", "start", "email", "ok@sandbox.test", "password", "good"),
	} {
		s.wantText(one, 404, "This link has expired", "!Northlight")
	}
	if len(s.starts) != 0 {
		t.Errorf("%+v", s.starts)
	}
}

// A copied link shows when and in what kind of browser it was opened, and nothing of what was done there. Its holder may
// start again; then the first browser is told, and its attempt ends.
func TestACopiedLinkStartsAgain(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.clock.advance(time.Date(2026, time.November, 15, 9, 30, 0, 0, time.UTC).Sub(s.clock.now()))
	token, it := s.open(link.Session{Platform: "ghost", ReturnURL: "https://app.example/cb", ReferenceID: "user_456"})
	landing := s.get("/s/" + token)
	path := s.call(http.MethodPost, "/s/"+token, url.Values{"do": {"open"}}, "User-Agent", onIPhone).head.Get("Location")
	s.wantText(landing, 200)
	s.post(path, "do", "start", "site", "maya.example.com", "email", "email@maya.example.com", "password", "good")
	s.do(token, s.next)
	s.wantText(s.get(path), 200, "m•••@g•••.com")

	other := s.otherBrowser()
	copied := other.get("/s/" + token)
	s.wantText(copied, 409, "This link was opened in another browser", "It was opened on November 15, 2026 at 09:30 UTC, in Safari on iPhone.",
		"Start again here", "another person has your link", "!m•••", "!maya", "!user_456", "!Check your email")
	s.wantText(other.get("/s/"+token+"?lang=es"), 409, "Se abrió el 15 de noviembre de 2026 a las 09:30 UTC, en Safari (iPhone).")
	// The button of a page that was loaded before does not take the session.
	s.wantText(other.post("/s/"+token, "do", "open"), 409, "Start again here")
	s.wantText(s.get(path), 200, "m•••@g•••.com")

	s.clock.advance(5 * time.Minute)
	form := other.post("/s/"+token, "do", "again")
	s.wantText(form, 200, "Where is your Ghost site?", "!maya")
	if act := s.acts[len(s.acts)-1]; !act.act.Cancel || act.by.ID != string(it.ID) || it.Active != "" {
		t.Errorf("the attempt of the first browser goes on: %+v", act)
	}
	for _, page := range []response{s.get(path), s.get(path + "?again=1"), s.post(path, "do", "start", "site", "maya.example.com", "email", "ok@maya.example.com", "password", "good")} {
		s.wantText(page, 409, "It was opened on November 15, 2026 at 09:35 UTC, in a browser on an unknown device.",
			"It no longer works in this browser", "!Start again here", "!Password")
	}
	if len(s.starts) != 1 {
		t.Errorf("the first browser started an attempt: %+v", s.starts)
	}
	s.wantText(other.get(path+"?again=1"), 200, "Where is your Ghost site?", "!maya")
	s.wantText(other.post(path, "do", "start", "site", "maya.example.com", "email", "ok@maya.example.com", "password", "good"), 200, "Contacting maya.example.com")
	s.do(token, s.succeed)
	s.wantText(other.get(path), 200, "You are connected")
	// After the end, the link still says where it was opened, and starts nothing.
	s.wantText(s.get("/s/"+token), 410, "at 09:35 UTC", "It cannot be used again. Ask Northlight for a new link.", "!Start again", "!connected")
	s.wantText(s.post("/s/"+token, "do", "again"), 410)
}

func TestALinkMovesAFewTimes(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	token, it := s.open(link.Session{})
	path := s.enter(token)
	for n := 2; n <= 5; n++ {
		s = s.otherBrowser()
		s.get("/s/" + token)
		s.wantText(s.post("/s/"+token, "do", "again"), 200, "Password")
		if it.Openings() != n {
			t.Errorf("%d openings, want %d", it.Openings(), n)
		}
	}
	s.wantText(s.post(path, "do", "start", "email", "sms@sandbox.test", "password", "good"), 200, "Signing you in")
	other := s.otherBrowser()
	s.wantText(other.get("/s/"+token), 410, "It cannot be used again", "!Start again")
	s.wantText(other.post("/s/"+token, "do", "again"), 410)
	unused, _ := s.open(link.Session{})
	other.get("/s/" + unused) // It has a cookie now.
	s.wantText(other.post("/s/"+token, "do", "again"), 410)
	s.wantText(s.get(path), 200, "Signing you in") // The refusal did not end the attempt.
}

// In a frame the script opens the link. A browser that keeps no cookies there gets the secret in the frame's address,
// which opens only the frame.
func TestAFrameWorksWithoutCookies(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.org.Page.AllowedOrigins = []string{"https://org.example"}
	token, it := s.open(link.Session{})
	if page := s.get("/s/" + token + "/embed"); !strings.Contains(page.body, " data-auto ") || strings.Contains(s.get("/s/"+token).body, "data-auto") {
		t.Error(page.body)
	}
	s.jar = nil
	opened := s.call(http.MethodPost, "/s/"+token+"/embed", url.Values{"do": {"open"}})
	path := opened.head.Get("Location")
	if !regexp.MustCompile(`^/s/`+string(it.ID)+`\.[\w-]{43}/embed$`).MatchString(path) || opened.head.Get("Set-Cookie") != "" {
		t.Fatalf("%s, %v", path, opened.head)
	}
	page := s.get(path)
	if s.wantText(page, 200, "Password"); !strings.Contains(page.body, `action="`+path+`"`) || !strings.Contains(page.head.Get("Content-Security-Policy"), "frame-ancestors https://org.example;") {
		t.Error(page.body)
	}
	s.wantText(s.post(path, "do", "start", "email", "sms@sandbox.test", "password", "good"), 200, "Signing you in")
	s.wantText(s.get(strings.TrimSuffix(path, "/embed")), 404)
	s.wantText(s.get("/s/"+string(it.ID)+"/embed"), 404)
	s.wantText(s.get(strings.Replace(path, ".", ".A", 1)), 404)
	s.wantText(s.get("/s/"+token+"/embed"), 409, "Start again here")
	if log := s.log.String(); strings.Contains(log, path[len(path)-20:len(path)-6]) {
		t.Error("the log contains the secret of the frame")
	}
}

func TestCookiesOfThePages(t *testing.T) {
	t.Parallel()
	w := newFakeBackend("https://connect.example", time.Now)
	token, _ := w.open(link.Session{})
	pages := newPages(t, w, "https://connect.example", &logBuffer{}, time.Now)
	get := func(path string) []string {
		rec := httptest.NewRecorder()
		pages.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return rec.Header().Values("Set-Cookie")
	}
	form := regexp.MustCompile(`^(__Host-sd_\w+)=[\w-]{43}; (Path=/; Max-Age=691200; HttpOnly; Secure; .+)$`)
	for path, want := range map[string][]string{
		"/s/" + token: {"__Host-sd_browser", "Path=/; Max-Age=691200; HttpOnly; Secure; SameSite=Lax"},
		"/s/" + token + "/embed": {
			"__Host-sd_browser", "Path=/; Max-Age=691200; HttpOnly; Secure; SameSite=Lax",
			"__Host-sd_frame", "Path=/; Max-Age=691200; HttpOnly; Secure; SameSite=None; Partitioned",
		},
		"/s/nothing": nil, "/connect/privacy": nil,
	} {
		var got []string
		for _, text := range get(path) {
			if part := form.FindStringSubmatch(text); part != nil {
				got = append(got, part[1:]...)
			} else {
				t.Errorf("%s: %s", path, text)
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestTheKindOfABrowserIsRough(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string]link.Browser{
		onIPhone: {Name: "Safari", System: "iPhone"},
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/126.0 Mobile/15E148 Safari/604.1":     {Name: "Chrome", System: "iPhone"},
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Instagram 331.0":              {Name: "Instagram", System: "iPhone"},
		"Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/127.0 Mobile/15E148 Safari/605.1.15":           {Name: "Firefox", System: "iPad"},
		"Mozilla/5.0 (Linux; Android 14; SM-S921B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/25.0 Chrome/121.0.0.0 Mobile Safari/537.36": {Name: "Samsung Internet", System: "Android"},
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Mobile Safari/537.36":                            {Name: "Chrome", System: "Android"},
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36 Edg/131.0.0.0":              {Name: "Edge", System: "Windows"},
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15":                      {Name: "Safari", System: "Mac"},
		"Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0":                                                                     {Name: "Firefox", System: "Linux"},
		"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36":                             {Name: "Chrome", System: "ChromeOS"},
		"": {}, "curl/8.5.0": {}, "<script>": {},
	} {
		if got := connectpages.BrowserKind(agent); got != want {
			t.Errorf("%s: %+v", agent, got)
		}
	}
}
