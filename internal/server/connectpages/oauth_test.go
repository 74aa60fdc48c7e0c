package connectpages_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// creatorBrowser is the browser of a creator, with cookies. Addresses at the nodes' public URL reach the node.
type creatorBrowser struct {
	testing.TB
	client *http.Client
}

type publicTransport struct{ host string }

func (p publicTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r
	if r.URL.Host == "stagedoor.test" {
		out = r.Clone(r.Context())
		out.URL.Host, out.Host = p.host, "stagedoor.test"
	}
	res, err := http.DefaultTransport.RoundTrip(out)
	if res != nil {
		res.Request = r // relative redirects start at the public URL
	}
	return res, err
}

func newCreatorBrowser(t testing.TB, n *testnode.Node) *creatorBrowser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must.OK(t, err)
	return &creatorBrowser{t, &http.Client{
		Jar: jar, Transport: publicTransport{strings.TrimPrefix(n.URL, "http://")},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// opened is a page in a browser.
type opened struct {
	status       int
	body, policy string
	// to is where the browser is sent next; empty for a page.
	to string
}

func (b *creatorBrowser) read(res *http.Response, err error) opened {
	b.Helper()
	must.OK(b, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must.OK(b, err)
	out := opened{status: res.StatusCode, body: string(body), policy: res.Header.Get("Content-Security-Policy")}
	if to, err := res.Location(); err == nil {
		out.to = to.String()
	}
	return out
}

func (b *creatorBrowser) open(address string) opened {
	b.Helper()
	return b.read(b.client.Get(address))
}

func (b *creatorBrowser) post(address string, form url.Values) opened {
	b.Helper()
	return b.read(b.client.PostForm(address, form))
}

// oauthFixture is two nodes with a sandbox.
type oauthFixture struct {
	*testing.T
	platform *sandboxtest.Platform
	nodes    []*testnode.Node
	org      testnode.Org
}

func newOAuthFixture(t *testing.T) *oauthFixture {
	t.Helper()
	platform, setup := testnode.Sandbox(t, nil)
	nodes := testnode.Nodes(t, 2, setup)
	return &oauthFixture{t, platform, nodes, nodes[0].NewOrg(t, map[string]int{"accountReadPerMinute": 6000, "callsPerMinute": 6000})}
}

func (f *oauthFixture) get(path string) map[string]any {
	f.Helper()
	return f.nodes[0].Call(f, http.MethodGet, path, f.org.Key, nil).JSON()
}

// start starts an attempt and returns its id and our page for it.
func (f *oauthFixture) start(more map[string]any) (attempt, page string) {
	f.Helper()
	body := map[string]any{"auth_type": "oauth"}
	for name, value := range more {
		body[name] = value
	}
	r := f.nodes[0].Call(f, http.MethodPost, "/v1/connect/login", f.org.Key, body)
	got := r.JSON()
	if r.Status != http.StatusAccepted || got["state"] != "pending" || fmt.Sprint(got["next_actions"]) != "[open_verification_page cancel]" {
		f.Fatalf("%d %s", r.Status, r.Body)
	}
	return got["attempt_id"].(string), got["verification_page_url"].(string)
}

// agree opens our page and goes to the platform, and answers there. It returns where the platform sends the browser.
func (f *oauthFixture) agree(b *creatorBrowser, page, login string) string {
	f.Helper()
	shown := b.open(page)
	if shown.status != http.StatusOK || !strings.Contains(shown.body, "Continue to Sandbox") ||
		!strings.Contains(shown.policy, "form-action 'self' "+f.platform.URL+";") {
		f.Fatalf("%d %s\n%s", shown.status, shown.policy, shown.body)
	}
	sent := b.post(page, url.Values{"do": {"authorize"}})
	if sent.status != http.StatusSeeOther || !strings.HasPrefix(sent.to, f.platform.URL+"/oauth/authorize?") {
		f.Fatalf("%d %s\n%s", sent.status, sent.to, sent.body)
	}
	form := url.Values{"answer": {"allow"}, "login": {login}}
	if login == "" {
		form = url.Values{"answer": {"deny"}}
	}
	back := b.post(sent.to, form)
	if back.status != http.StatusSeeOther {
		f.Fatalf("%d %s", back.status, back.body)
	}
	return back.to
}

// ended waits for the end of an attempt and returns it.
func (f *oauthFixture) ended(attempt string) map[string]any {
	f.Helper()
	var got map[string]any
	testenv.Await(f, "the end of "+attempt, func() bool {
		got = f.get("/v1/connect/login/" + attempt + "?wait=5")
		return strings.HasPrefix(fmt.Sprint(got["state"]), "completed_")
	})
	return got
}

// connect connects a creator and returns the account.
func (f *oauthFixture) connect(login string) string {
	f.Helper()
	b := newCreatorBrowser(f, f.nodes[1])
	attempt, page := f.start(nil)
	if back := b.open(f.agree(b, page, login)); back.status != http.StatusSeeOther || back.to != page {
		f.Fatalf("%d %s %s", back.status, back.to, back.body)
	}
	got := f.ended(attempt)
	account, _ := got["account_id"].(string)
	if account == "" {
		f.Fatalf("%v", got)
	}
	testenv.Await(f, account+" to be active", func() bool { return f.account(account)["state"] == "active" })
	return account
}

func (f *oauthFixture) account(id string) map[string]any {
	f.Helper()
	r := f.nodes[0].Call(f, http.MethodGet, "/v1/accounts/"+id, f.org.Key, nil)
	account, _ := r.JSON()["account"].(map[string]any)
	return account
}

// tokenRequests returns the statuses of the requests of a login to an endpoint of OAuth.
func (f *oauthFixture) tokenRequests(login, path string) []int {
	list := []int{}
	for _, e := range f.platform.Gate.Entries(login) {
		if e.Path == path {
			list = append(list, e.Status)
		}
	}
	return list
}

// call makes n concurrent calls on both nodes and returns their statuses.
func (f *oauthFixture) call(account string, n int) map[int]int {
	f.Helper()
	var mu sync.Mutex
	statuses := map[int]int{}
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() {
			status := http.StatusTooManyRequests
			for status == http.StatusTooManyRequests { // too many at a time; such a call is not made
				r, err := testnode.Do(f.Context(), http.MethodPost, f.nodes[i%2].URL+"/v1/accounts/"+account+"/lists/list", f.org.Key,
					map[string]any{"limit": i%20 + 1})
				if status = r.Status; err != nil {
					status = -1
				}
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	work.Wait()
	return statuses
}

// An account that was connected by OAuth works like any other. When its access token ends, however many calls on
// however many nodes notice it, the refresh token is used once, and the rotated one is used the next time.
func TestOAuthAccountRefreshesOnceForAllNodes(t *testing.T) {
	t.Parallel()
	f := newOAuthFixture(t)
	const login = "oauth+refresh@sandbox.test"
	account := f.connect(login)
	if a := f.account(account); a["credentials"] != "oauth" || a["rememberCredentials"] != false {
		t.Fatalf("%v", a)
	}
	if got := f.call(account, 4); got[http.StatusOK] != 4 {
		t.Fatalf("calls: %v", got)
	}
	if got := f.tokenRequests(login, "/oauth/token"); fmt.Sprint(got) != "[200]" {
		t.Fatalf("before the token ended: %v", got)
	}
	for round := 2; round <= 4; round++ {
		f.platform.Control(t, http.MethodPost, "oauth/expire", map[string]any{"login": login})
		if got := f.call(account, 50); got[http.StatusOK] != 50 {
			t.Fatalf("round %d: %v", round, got)
		}
		if got := f.tokenRequests(login, "/oauth/token"); len(got) != round || strings.Contains(fmt.Sprint(got), "400") {
			t.Fatalf("round %d: the token endpoint answered %v", round, got)
		}
	}
	if state := f.account(account)["state"]; state != "active" {
		t.Errorf("the account is %v", state)
	}
}

// A token that is about to end is refreshed before it is used, so the platform refuses no call.
func TestOAuthAccountRefreshesBeforeTheEnd(t *testing.T) {
	t.Parallel()
	f := newOAuthFixture(t)
	const login = "oauth+early@sandbox.test"
	// The first token is due for a refresh after 750 ms, the next one after 45 minutes. Both last an hour, however slow
	// this machine is.
	f.platform.Control(t, http.MethodPost, "oauth", map[string]any{"announced_sec": 1})
	account := f.connect(login)
	f.platform.Control(t, http.MethodPost, "oauth", map[string]any{"announced_sec": 0})
	testenv.Await(t, "a refresh", func() bool {
		if got := f.call(account, 10); got[http.StatusOK] != 10 {
			t.Fatalf("%v", got)
		}
		entries := f.platform.Gate.Entries(login)
		return len(entries) > 0 && f.account(account)["state"] == "active" && len(f.tokenRequests(login, "/oauth/token")) > 1
	})
	if got := fmt.Sprint(f.tokenRequests(login, "/oauth/token")); strings.Contains(got, "400") {
		t.Errorf("the token endpoint answered %s", got)
	}
}

// A platform that does not accept the refresh token any more means that the creator must connect the account again. A
// token endpoint that is down does not.
func TestOAuthAccountLosesARevokedAuthorisation(t *testing.T) {
	t.Parallel()
	f := newOAuthFixture(t)
	const login = "oauth+revoked@sandbox.test"
	account := f.connect(login)
	f.platform.Control(t, http.MethodPost, "oauth/expire", map[string]any{"login": login})
	f.platform.Control(t, http.MethodPost, "faults", map[string]any{"scope": login, "kind": "error", "value": 503})
	got := f.call(account, 2)
	if got[http.StatusServiceUnavailable]+got[http.StatusBadGateway] != 2 || f.account(account)["state"] == "reconnect_required" {
		t.Fatalf("while the platform is down: %v, %v", got, f.account(account)["state"])
	}
	f.platform.Control(t, http.MethodDelete, "faults", nil)
	testenv.Await(t, "the platform to be back", func() bool { return f.call(account, 1)[http.StatusOK] == 1 })
	f.platform.Control(t, http.MethodPost, "sessions/end", map[string]any{"login": login})
	testenv.Await(t, "the account to need its creator", func() bool {
		f.call(account, 3)
		return f.account(account)["state"] == "reconnect_required"
	})
	if a := f.account(account); a["stateReason"] != "logged_out" || a["userAction"] != "reconnect" {
		t.Errorf("%v", a)
	}
	if got := f.call(account, 1); got[http.StatusGone] != 1 {
		t.Errorf("%v", got)
	}
	// The same creator connects again.
	b := newCreatorBrowser(t, f.nodes[0])
	attempt, page := f.start(map[string]any{"account_id": account})
	b.open(f.agree(b, page, login))
	if got := f.ended(attempt); got["account_id"] != account {
		t.Fatalf("%v", got)
	}
	if got := f.call(account, 1); got[http.StatusOK] != 1 {
		t.Errorf("after connecting again: %v", got)
	}
}

// Disconnecting an account revokes its tokens on the platform.
func TestOAuthDisconnectRevokes(t *testing.T) {
	t.Parallel()
	f := newOAuthFixture(t)
	const login = "oauth+leaves@sandbox.test"
	account := f.connect(login)
	r := f.nodes[0].Call(t, http.MethodDelete, "/v1/accounts/"+account, f.org.Key, nil)
	if r.Status != http.StatusOK {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	if got := f.tokenRequests(login, "/oauth/revoke"); fmt.Sprint(got) != "[200]" {
		t.Errorf("the revocation was answered %v", got)
	}
	if list := f.platform.World.Sessions(login); len(list) != 0 {
		t.Errorf("the platform still has %d sessions", len(list))
	}
}

// Only the browser that we sent to the platform can finish an attempt, and only once.
func TestOAuthCallbackNeedsStateAndBrowser(t *testing.T) {
	t.Parallel()
	f := newOAuthFixture(t)
	const login = "oauth+callback@sandbox.test"
	b, other := newCreatorBrowser(t, f.nodes[0]), newCreatorBrowser(t, f.nodes[1])
	attempt, page := f.start(nil)
	back := f.agree(b, page, login)
	// A second attempt gives the other browser a cookie of its own.
	_, elsewhere := f.start(nil)
	f.agree(other, elsewhere, login)
	change := func(name, value string) string {
		u, err := url.Parse(back)
		must.OK(t, err)
		query := u.Query()
		query.Set(name, value)
		if value == "" {
			query.Del(name)
		}
		u.RawQuery = query.Encode()
		return u.String()
	}
	state := func() string { return fmt.Sprint(f.get("/v1/connect/login/" + attempt)["progress"]) }
	given, err := url.Parse(back)
	must.OK(t, err)
	wrong := []byte(given.Query().Get("state"))
	wrong[len(wrong)-2] ^= 1
	for name, c := range map[string]struct {
		browser *creatorBrowser
		address string
		status  int
		says    string
	}{
		"no cookie":      {newCreatorBrowser(t, f.nodes[0]), back, http.StatusForbidden, "Continue in the browser where you started"},
		"other cookie":   {other, back, http.StatusForbidden, "Nothing was connected"},
		"denied by them": {other, change("error", "access_denied"), http.StatusBadRequest, "expired"},
		"wrong state":    {b, change("state", string(wrong)), http.StatusNotFound, "expired"},
		"no state":       {b, change("state", ""), http.StatusNotFound, "expired"},
		"not a state":    {b, change("state", "st_x"), http.StatusNotFound, "expired"},
		"neither":        {b, change("code", ""), http.StatusBadRequest, "expired"},
		"too long":       {b, change("code", strings.Repeat("x", 5000)), http.StatusBadRequest, "expired"},
	} {
		got := c.browser.open(c.address)
		if got.status != c.status || !strings.Contains(got.body, c.says) || state() != "awaiting_consent" {
			t.Errorf("%s: %d %s, attempt %s", name, got.status, got.body, state())
		}
	}
	for range 2 { // the second time shows the attempt again
		if got := b.open(back); got.status != http.StatusSeeOther || got.to != page {
			t.Fatalf("%d %s %s", got.status, got.to, got.body)
		}
	}
	if got := f.ended(attempt); got["state"] != "completed_success" {
		t.Fatalf("%v", got)
	}
	if got := b.open(back); got.status != http.StatusSeeOther || got.to != page {
		t.Errorf("after the end: %d %s", got.status, got.to)
	}
	if got := f.tokenRequests(login, "/oauth/token"); fmt.Sprint(got) != "[200]" {
		t.Errorf("the code was exchanged: %v", got)
	}
	if shown := b.open(page); shown.status != http.StatusOK || strings.Contains(shown.body, "do\" value=\"authorize") {
		t.Errorf("%d %s", shown.status, shown.body)
	}
}

// A creator who refuses on the platform's page ends the attempt, and a cancelled attempt cannot be finished.
func TestOAuthRefusedAndCancelled(t *testing.T) {
	t.Parallel()
	f := newOAuthFixture(t)
	b := newCreatorBrowser(t, f.nodes[0])
	attempt, page := f.start(nil)
	if got := b.open(f.agree(b, page, "")); got.status != http.StatusSeeOther || got.to != page {
		t.Fatalf("%d %s", got.status, got.body)
	}
	got := f.ended(attempt)
	failure, _ := got["failure"].(map[string]any)
	if failure["code"] != "cancelled" || failure["upstream_code"] != "access_denied" {
		t.Errorf("%v", got)
	}
	const login = "oauth+late@sandbox.test"
	attempt, page = f.start(nil)
	back := f.agree(b, page, login)
	if r := f.nodes[0].Call(t, http.MethodDelete, "/v1/connect/login/"+attempt, f.org.Key, nil); r.Status != http.StatusOK {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	if got := b.open(back); got.status != http.StatusSeeOther || got.to != page {
		t.Errorf("%d %s", got.status, got.body)
	}
	if list := f.tokenRequests(login, "/oauth/token"); len(list) != 0 {
		t.Errorf("the code of a cancelled attempt was exchanged: %v", list)
	}
}

// A link session offers OAuth first, and sends the creator from its form to the platform.
func TestOAuthInALinkSession(t *testing.T) {
	t.Parallel()
	f := newOAuthFixture(t)
	r := f.nodes[0].Call(t, http.MethodPost, "/v1/connect/sessions", f.org.Key, map[string]any{})
	session, _ := r.JSON()["session"].(map[string]any)
	link, _ := session["url"].(string)
	if r.Status != http.StatusCreated || fmt.Sprint(session["kinds"]) != "[oauth credentials mobile_app]" {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	b := newCreatorBrowser(t, f.nodes[1])
	if landing := b.open(link); landing.status != http.StatusOK {
		t.Fatalf("%d %s", landing.status, landing.body)
	}
	link = b.post(link, url.Values{"do": {"open"}}).to
	if !strings.HasSuffix(link, "/s/"+fmt.Sprint(session["id"])) {
		t.Fatal(link)
	}
	shown := b.open(link)
	if !strings.Contains(shown.body, "Continue with Sandbox") || !strings.Contains(shown.policy, f.platform.URL) {
		t.Fatalf("%s\n%s", shown.policy, shown.body)
	}
	sent := b.post(link, url.Values{"do": {"oauth"}})
	if sent.status != http.StatusSeeOther || !strings.HasPrefix(sent.to, f.platform.URL+"/oauth/authorize?") {
		t.Fatalf("%d %s\n%s", sent.status, sent.to, sent.body)
	}
	back := b.open(b.post(sent.to, url.Values{"answer": {"allow"}, "login": {"oauth+link@sandbox.test"}}).to)
	if back.status != http.StatusSeeOther || back.to != link {
		t.Fatalf("%d %s", back.status, back.body)
	}
	testenv.Await(t, "the end of the session", func() bool {
		got, _ := f.get("/v1/connect/sessions/" + fmt.Sprint(session["id"]))["session"].(map[string]any)
		return got["status"] == "completed" || got["status"] == "success"
	})
	if shown := b.open(link); shown.status != http.StatusOK || !strings.Contains(shown.body, "connected") {
		t.Errorf("%d %s", shown.status, shown.body)
	}
}
