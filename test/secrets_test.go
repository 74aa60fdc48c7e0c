package test

import (
	"bytes"
	crand "crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/gate"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// secretText returns a random text that does not occur by chance.
func secretText(prefix string) string { return prefix + crand.Text()[:20] }

// secretsFixture is a run that uses every kind of secret.
type secretsFixture struct {
	t        *testing.T
	engines  *privateEngines
	platform *sandboxtest.Platform
	proxies  map[string]*testenv.Proxy
	nodes    []*testnode.Node
	owner    testnode.Org
	vault    *vault
	logs     *sink
	answers  *sink // responses, which must not repeat secrets of requests
	// operatorPages are metrics, readiness and the like.
	operatorPages *sink
	logins        map[string]bool
	// identity is what the customer and the platform call the deleted account. It is stored in the clear until then.
	identity []string
	// lastWords is what account.disconnected has of it, so that the customer knows whose account ended.
	lastWords []string
	turn      int
}

func newSecretsFixture(t *testing.T) *secretsFixture {
	t.Helper()
	s := &secretsFixture{
		t: t, engines: newPrivateEngines(t), vault: &vault{}, logs: &sink{}, answers: &sink{}, operatorPages: &sink{}, logins: map[string]bool{},
		proxies: map[string]*testenv.Proxy{"us": testenv.NewProxy(t, "127.0.1.1"), "uk": testenv.NewProxy(t, "127.0.2.1")},
	}
	s.platform = sandboxtest.New(t, func(cfg *sandbox.Config) {
		cfg.Regions = map[string]string{"127.0.1.1": "us", "127.0.2.1": "uk"}
		cfg.Slow = 2 * time.Second
	})
	var egress []string
	for _, region := range slices.Sorted(maps.Keys(s.proxies)) {
		password := secretText("proxy/ +")
		s.vault.plant(t, false, "proxy password", password, url.QueryEscape(password))
		address := strings.TrimPrefix(s.proxies[region].URL(), "http://")
		egress = append(egress, region+"=http://"+url.UserPassword("exit", password).String()+"@"+address)
	}
	s.nodes = testnode.Processes(t, 2, testnode.Setup{
		Sandbox: s.platform.URL, Egress: secret.New(strings.Join(egress, " ")), Keyset: s.engines.keyset, Log: s.logs,
		Database: s.withPassword(s.engines.postgres.URL), Redis: s.engines.redis.URL, NATS: s.withPassword(s.engines.nats.URL),
		Env: []string{"STAGEDOOR_LOG_LEVEL=debug", "OTEL_EXPORTER_OTLP_ENDPOINT=" + s.engines.collector.URL},
	})
	s.vault.plant(t, false, "admin token", testnode.AdminToken)
	s.owner = s.nodes[0].NewOrg(t, map[string]int{"callsPerMinute": -1, "callsPerMonth": -1, "connectAttemptsPerHour": -1, "maxAccounts": -1, "maxKeys": -1})
	s.vault.plant(t, true, "api key", s.owner.Key)
	return s
}

// withPassword adds a password to the URL of an engine that does not require one.
func (s *secretsFixture) withPassword(address secret.String) secret.String {
	s.t.Helper()
	u, err := url.Parse(address.Reveal())
	must.OK(s.t, err)
	u.User = url.UserPassword("stagedoor", s.newSecret("engine password", ""))
	return secret.New(u.String())
}

// issued matches secrets that responses contain on purpose: links, and keys of callers.
var issued = regexp.MustCompile(`(?:at|cst|mng)_[A-Za-z0-9_-]{43,}|sd_sandbox_[0-9A-Za-z]{40,}`)

// send makes a request to a path on one node after the other, or to a link, and records the secrets of the response.
func (s *secretsFixture) send(method, where string, body any, headers ...string) testnode.Reply {
	s.t.Helper()
	if strings.HasPrefix(where, "/") {
		s.turn++
		where = s.nodes[s.turn%len(s.nodes)].URL + where
	}
	var raw []byte
	kind := "application/json"
	switch body := body.(type) {
	case nil:
	case url.Values:
		raw, kind = []byte(body.Encode()), "application/x-www-form-urlencoded"
	case string:
		raw = []byte(body)
	default:
		raw, _ = json.Marshal(body)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, where, bytes.NewReader(raw))
	must.OK(s.t, err)
	if body != nil {
		req.Header.Set("Content-Type", kind)
	}
	if strings.Contains(where, "/v1/") {
		req.Header.Set("Authorization", "Bearer "+s.owner.Key)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	r, err := testnode.Send(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, req.URL.Path, err)
	}
	s.recordSecrets(r, !strings.Contains(where, "/v1/sandbox/session"))
	return r
}

// mustSend is send for a request whose status is known.
func (s *secretsFixture) mustSend(status int, method, where string, body any, headers ...string) testnode.Reply {
	s.t.Helper()
	r := s.send(method, where, body, headers...)
	if r.Status != status {
		s.t.Fatalf("%s %s: %d %s", method, where, r.Status, r.Body)
	}
	return r
}

// recordSecrets plants the secrets that a request created: tokens in the response, and sessions on the platform.
func (s *secretsFixture) recordSecrets(r testnode.Reply, answer bool) {
	s.t.Helper()
	if answer {
		_, _ = s.answers.Write(slices.Concat(r.Body, []byte("\n"), fmt.Append(nil, r.Header), []byte("\n")))
	}
	for _, token := range issued.FindAllString(string(r.Body)+" "+r.Header.Get("Location"), -1) {
		s.plantToken(token)
	}
	for login := range s.logins {
		for _, one := range s.platform.World.Sessions(login) {
			s.vault.plant(s.t, false, "session", one.Token, one.Device)
		}
	}
	for _, shelf := range []string{"challenge", "qr"} {
		err := s.platform.World.Kept(shelf, func(_ string, value json.RawMessage) error {
			var one struct{ Token, Device, Secret, Seed, Login string }
			if err := json.Unmarshal(value, &one); err != nil {
				return err
			}
			if one.Login != "" {
				s.logins[one.Login] = true
			}
			for _, text := range []string{one.Token, one.Device, one.Secret, one.Seed} {
				if text != "" {
					s.vault.plant(s.t, false, "sign-in under way", text)
				}
			}
			return nil
		})
		must.OK(s.t, err)
	}
}

// plantToken plants a token and its secret part, which is the end of a link.
func (s *secretsFixture) plantToken(token string) {
	s.t.Helper()
	kind := map[string]string{"at": "attempt link", "cst": "session link", "mng": "manage link", "sd": "api key"}[token[:strings.IndexByte(token, '_')]]
	s.vault.plant(s.t, true, kind, token)
	if kind == "api key" {
		s.vault.plant(s.t, true, kind, strings.TrimPrefix(token, "sd_sandbox_"))
		return
	}
	end := token[len(token)-43:]
	raw, err := base64.RawURLEncoding.DecodeString(end)
	if err != nil {
		s.t.Fatalf("%s is not a token: %v", token, err)
	}
	s.vault.plant(s.t, true, kind, end, string(raw))
}

// newSecret plants a new secret of a kind, as a whole and its random part.
func (s *secretsFixture) newSecret(kind, prefix string) string {
	s.t.Helper()
	text := secretText(prefix)
	s.vault.plant(s.t, false, kind, text, strings.TrimPrefix(text, prefix))
	return text
}

func (s *secretsFixture) password() string {
	s.t.Helper()
	return s.newSecret("password", `p"w&ä\ %/`)
}

// code plants a wrong code of the maximum length.
func (s *secretsFixture) code() string {
	s.t.Helper()
	text := crand.Text()[:16]
	s.vault.plant(s.t, false, "code", text)
	return text
}

// login plants the email address of a new creator. Responses may contain it: /me describes the creator, and forms show
// their input again.
func (s *secretsFixture) login(persona string) string {
	s.t.Helper()
	tag := strings.ToLower(crand.Text()[:18])
	login := persona + "+" + tag + "@sandbox.test"
	s.logins[login] = true
	s.vault.plant(s.t, true, "email", login, tag)
	return login
}

// poll is the path of an attempt and its last response.
type poll struct {
	path string
	now  map[string]any
}

func (p poll) text(name string) string { text, _ := p.now[name].(string); return text }

func (p poll) can(what string) bool {
	list, _ := p.now["next_actions"].([]any)
	return slices.Contains(list, any(what))
}

// start starts an attempt and waits until it needs input or has ended.
func (s *secretsFixture) start(path string, body any) poll {
	s.t.Helper()
	r := s.mustSend(http.StatusAccepted, http.MethodPost, path, body)
	return s.awaitAttempt(poll{path: "/v1/connect/login/" + r.JSON()["attempt_id"].(string)}, func(p poll) bool { return p.text("state") != "pending" })
}

func (s *secretsFixture) signIn(persona string, more map[string]any) poll {
	s.t.Helper()
	body := map[string]any{"email": s.login(persona), "password": s.password(), "label": "Luna"}
	maps.Copy(body, more)
	return s.start("/v1/connect/login", body)
}

func (s *secretsFixture) awaitAttempt(p poll, holds func(poll) bool) poll {
	s.t.Helper()
	wait := ""
	await(s.t, "the attempt continues", 40*time.Second, func() bool {
		r := s.send(http.MethodGet, p.path+wait, nil)
		wait = "?wait=1"
		if r.Status == http.StatusOK {
			p.now = r.JSON()
		}
		return r.Status == http.StatusOK && holds(p)
	})
	return p
}

func (s *secretsFixture) awaitEnd(p poll, state, failure string) poll {
	s.t.Helper()
	p = s.awaitAttempt(p, func(p poll) bool { return strings.HasPrefix(p.text("state"), "completed_") })
	code := ""
	if f, ok := p.now["failure"].(map[string]any); ok {
		code, _ = f["code"].(string)
	}
	if p.text("state") != "completed_"+state || failure != "" && code != failure {
		s.t.Fatalf("an attempt ended with %s %s", p.text("state"), code)
	}
	return p
}

// A run uses every kind of secret, and much goes wrong. Afterwards no secret is left in any engine, log, trace, metric
// or response.
func TestNoSecretIsLeftAnywhere(t *testing.T) {
	// Not parallel: its load would slow down other tests.
	began := time.Now()
	s := newSecretsFixture(t)
	for _, do := range []func(){s.useKeys, s.makeMistakes, s.answerChallenges, s.approveByPhone, s.pasteSessions, s.useAccounts, s.leaveTraces, s.useHostedPages, s.loseProxy, s.killNodes, s.readLists} {
		do()
	}
	s.engines.plantKeys(s.vault)
	for _, node := range s.nodes {
		node.Process.Signal(syscall.SIGTERM)
		<-node.Process.Exited()
	}
	ran := time.Since(began)
	s.search()
	t.Logf("the run took %s, the search %s", ran.Round(time.Millisecond), (time.Since(began) - ran).Round(time.Millisecond))
}

// useKeys creates API keys, repeats a request with its idempotency key, and uses unknown keys.
func (s *secretsFixture) useKeys() {
	for range 2 {
		s.mustSend(http.StatusCreated, http.MethodPost, "/v1/me/keys", map[string]any{"label": "minted"}, "Idempotency-Key", "mint-1")
	}
	unknown := s.newSecret("api key", "sd_sandbox_")
	s.mustSend(http.StatusUnauthorized, http.MethodGet, "/v1/me", nil, "Authorization", "Bearer "+unknown)
	s.mustSend(http.StatusUnauthorized, http.MethodGet, "/v1/me", nil, "Authorization", "Basic "+unknown)
	s.send(http.MethodGet, "/v1/me?key="+s.newSecret("query", ""), nil)
	s.send(http.MethodGet, "/v1/connect/login?link="+s.newSecret("query", ""), nil)
	s.send(http.MethodGet, "/v1/"+s.newSecret("unknown path", ""), nil)
}

// makeMistakes sends requests that are refused, with secrets in the right and in wrong places.
func (s *secretsFixture) makeMistakes() {
	const login = "/v1/connect/login"
	for _, body := range []any{
		`{"email":"a@sandbox.test","password":"` + s.newSecret("password", ""),
		`{"email":"a@sandbox.test","password":["` + s.newSecret("password", "") + `"]}`,
		map[string]any{"email": "a@sandbox.test", "passwrod": s.password()},
		map[string]any{"email": s.password(), "password": s.password()},
		map[string]any{"email": "a@sandbox.test", "password": s.password() + strings.Repeat("x", 1100)},
		map[string]any{"auth_type": "mobile_app", "password": s.password()},
		map[string]any{"email": "a@sandbox.test", "password": s.password(), "proxy_country": "mars"},
	} {
		if r := s.send(http.MethodPost, login, body); r.Status < 400 || r.Status > 499 {
			s.t.Errorf("a bad request got %d %s", r.Status, r.Body)
		}
	}
	for _, command := range []string{
		"curl 'https://elsewhere.example/?k=" + s.newSecret("curl", "") + "' -H 'cookie: sess=" + s.newSecret("cookie", "") + "'",
		"curl 'unterminated " + s.newSecret("curl", ""),
		"curl '" + s.platform.URL + "/' --upload-file " + s.newSecret("curl", ""),
		"curl '" + s.platform.URL + "/' -H 'cookie: sess=" + s.newSecret("cookie", "") + "'",
		"curl '" + s.platform.URL + "/' $(" + s.newSecret("curl", "") + ")",
	} {
		if r := s.send(http.MethodPost, "/v1/connect/curl", map[string]any{"curl": command}); r.Status < 400 || r.Status > 499 {
			s.t.Errorf("a bad command got %d %s", r.Status, r.Body)
		}
	}
	s.mustSend(http.StatusUnprocessableEntity, http.MethodPost, "/v1/connect/cookie", map[string]any{"cookie": "sess=" + s.newSecret("cookie", ""), "user_agent": "x"})
	s.awaitEnd(s.start("/v1/connect/cookie", map[string]any{
		"cookie": "auth_id=1; sess=" + s.newSecret("cookie", ""), "user_agent": "x", "headers": map[string]string{"x-device": s.newSecret("cookie", "")},
	}), "failed", "")
	for persona, failure := range map[string]string{"locked": "account_locked", "captcha": "captcha_required", "fan": "not_a_creator", "changed": "upstream_changed"} {
		s.awaitEnd(s.signIn(persona, nil), "failed", failure)
	}
}

// answerChallenges submits wrong and right codes, by the API and on the page.
func (s *secretsFixture) answerChallenges() {
	p := s.signIn("sms", map[string]any{"remember_credentials": true})
	page := p.text("verification_page_url")
	s.mustSend(http.StatusOK, http.MethodGet, page, nil)
	s.mustSend(http.StatusOK, http.MethodGet, p.text("embed_url"), nil)
	code := s.code()
	s.mustSend(http.StatusOK, http.MethodPut, p.path, map[string]any{"code": code[:8] + "-" + code[8:]})
	s.mustSend(http.StatusUnprocessableEntity, http.MethodPut, p.path, map[string]any{"code": "!" + s.code()})
	s.mustSend(http.StatusUnprocessableEntity, http.MethodPut, p.path, map[string]any{"code": s.code() + s.code()})
	s.mustSend(http.StatusUnprocessableEntity, http.MethodPut, p.path, map[string]any{"kode": s.code()})
	s.mustSend(http.StatusSeeOther, http.MethodPost, page, url.Values{"do": {"code"}, "code": {s.code()}})
	s.mustSend(http.StatusUnprocessableEntity, http.MethodPost, page, url.Values{"do": {"code"}, "code": {s.code() + "!"}})
	s.awaitAttempt(p, func(p poll) bool {
		return p.text("state") == "wrong_2fa_code_retry" && p.now["submissions_remaining"] == float64(3)
	})
	s.mustSend(http.StatusOK, http.MethodPut, p.path, map[string]any{"code": "123456"})
	p = s.awaitEnd(p, "success", "")
	s.mustSend(http.StatusConflict, http.MethodPut, p.path, map[string]any{"code": s.code()})
	s.mustSend(http.StatusOK, http.MethodGet, page, nil) // contains the creator's manage link

	p = s.signIn("sms-email-face", nil)
	for range 12 {
		switch {
		case p.can("send_email"):
			s.mustSend(http.StatusAccepted, http.MethodPost, p.path+"/send-email-to-creator", nil)
			p = s.awaitAttempt(p, func(p poll) bool { return p.can("submit_code") })
			s.mustSend(http.StatusOK, http.MethodPut, p.path, map[string]any{"code": s.code()})
			s.mustSend(http.StatusOK, http.MethodPut, p.path, map[string]any{"code": "123456"})
		case p.can("submit_code"):
			s.mustSend(http.StatusOK, http.MethodPut, p.path, map[string]any{"code": "123456"})
		case p.can("confirm_selfie"):
			s.mustSend(http.StatusSeeOther, http.MethodGet, p.text("phone_url"), nil)
			s.mustSend(http.StatusOK, http.MethodPost, strings.Replace(p.path, "connect/login", "sandbox/attempts", 1)+"/advance", map[string]any{"to": "pass_selfie"})
			s.awaitEnd(p, "success", "")
			return
		}
		p = s.awaitAttempt(p, func(p poll) bool { return p.text("state") != "pending" })
	}
	s.t.Fatalf("the chain is stuck in %s", p.text("state"))
}

// approveByPhone approves one sign-in on the phone and denies another.
func (s *secretsFixture) approveByPhone() {
	for to, end := range map[string]string{"approve": "success", "deny": "failed"} {
		p := s.start("/v1/connect/mobile", map[string]any{"proxy_country": "uk"})
		for _, accept := range []string{"image/svg+xml", "text/plain"} {
			s.mustSend(http.StatusOK, http.MethodGet, p.path+"/qr", nil, "Accept", accept)
		}
		s.send(http.MethodGet, p.text("phone_url"), nil)
		s.mustSend(http.StatusOK, http.MethodGet, p.text("embed_url"), nil)
		advance := strings.Replace(p.path, "connect/login", "sandbox/attempts", 1) + "/advance"
		s.mustSend(http.StatusOK, http.MethodPost, advance, map[string]any{"to": "scan"}, "Prefer", "wait=1")
		s.mustSend(http.StatusConflict, http.MethodPost, advance, map[string]any{"to": "pass_selfie"})
		s.mustSend(http.StatusOK, http.MethodPost, advance, map[string]any{"to": to})
		s.awaitEnd(p, end, "")
	}
}

// pasteSessions connects with cookies and with a curl command.
func (s *secretsFixture) pasteSessions() {
	open := func() map[string]any {
		s.t.Helper()
		opened := s.mustSend(http.StatusOK, http.MethodPost, "/v1/sandbox/session", map[string]any{"login": s.login("ok")}).JSON()
		_, token, _ := strings.Cut(opened["cookie"].(string), "sess=")
		token, _, _ = strings.Cut(token, ";")
		s.vault.plant(s.t, false, "cookie", token, opened["cookie"].(string), opened["headers"].(map[string]any)["x-device"].(string))
		s.vault.plant(s.t, false, "curl", opened["curl"].(string))
		return opened
	}
	one := open()
	s.awaitEnd(s.start("/v1/connect/cookie", map[string]any{"cookie": one["cookie"], "user_agent": one["userAgent"], "headers": one["headers"]}), "success", "")
	two := open()
	s.mustSend(http.StatusOK, http.MethodPost, "/v1/connect/curl", map[string]any{"curl": two["curl"], "dry_run": true})
	s.awaitEnd(s.start("/v1/connect/curl", map[string]any{"curl": two["curl"]}), "success", "")
	three := open()
	_, token, _ := strings.Cut(three["cookie"].(string), "sess=")
	list := []map[string]any{{"name": "sess", "value": strings.Split(token, ";")[0], "domain": "127.0.0.1"}, {"name": s.newSecret("cookie", ""), "value": s.password()}}
	s.send(http.MethodPost, "/v1/connect/cookie", map[string]any{"cookies": list, "user_agent": three["userAgent"], "headers": three["headers"]})
}

// useAccounts calls an account that loses its session, signs in again, and is deleted.
func (s *secretsFixture) useAccounts() {
	p := s.awaitEnd(s.signIn("ok", map[string]any{"remember_credentials": true, "metadata": map[string]string{"a": "b"}}), "success", "")
	path := "/v1/accounts/" + p.text("account_id")
	s.mustSend(http.StatusOK, http.MethodGet, path+"/me", nil)
	sandboxPath := strings.Replace(path, "/v1/", "/v1/sandbox/", 1)
	s.mustSend(http.StatusOK, http.MethodPost, sandboxPath+"/reset_login", nil)
	await(s.t, "the account signs in again automatically", 2*time.Minute, func() bool { return s.send(http.MethodGet, path+"/me", nil).Status == http.StatusOK })
	s.mustSend(http.StatusAccepted, http.MethodPost, path+"/reauthenticate", map[string]any{}, "Prefer", "wait=10")
	s.mustSend(http.StatusAccepted, http.MethodPost, sandboxPath+"/fire_event", map[string]any{"event": "message", "data": map[string]any{"text": "Hello"}})
	s.mustSend(http.StatusOK, http.MethodGet, path, nil)
	s.mustSend(http.StatusOK, http.MethodDelete, path, nil)
	s.send(http.MethodGet, path+"/me", nil)
	s.mustSend(http.StatusOK, http.MethodGet, path+"/purge-receipt", nil)
}

// useHostedPages connects a creator on the hosted pages, and revokes the access with the manage link.
func (s *secretsFixture) useHostedPages() {
	made := s.mustSend(http.StatusCreated, http.MethodPost, "/v1/connect/sessions", map[string]any{"reference_id": "user", "return_url": "https://app.example/done?a=b"}).JSON()
	link := made["session"].(map[string]any)["url"].(string)
	cookie, err := http.ParseSetCookie(s.mustSend(http.StatusOK, http.MethodGet, link, nil).Header.Get("Set-Cookie"))
	must.OK(s.t, err)
	s.vault.plant(s.t, true, "browser cookie", cookie.Value)
	browser := cookie.Name + "=" + cookie.Value
	post := func(status int, where string, form url.Values) testnode.Reply {
		s.t.Helper()
		return s.mustSend(status, http.MethodPost, where, form, "Cookie", browser)
	}
	link = post(http.StatusSeeOther, link, url.Values{"do": {"open"}}).Header.Get("Location")
	post(http.StatusUnprocessableEntity, link, url.Values{"do": {"start"}, "email": {"no address"}, "password": {s.password()}})
	post(http.StatusSeeOther, link, url.Values{"do": {"start"}, "email": {s.login("app")}, "password": {s.password()}, "remember": {"yes"}})
	page := func(has string) testnode.Reply {
		s.t.Helper()
		var r testnode.Reply
		await(s.t, "the page contains "+has, 2*time.Minute, func() bool {
			r = s.send(http.MethodGet, link, nil, "Cookie", browser)
			return bytes.Contains(r.Body, []byte(has))
		})
		return r
	}
	page(`name="code"`)
	post(http.StatusSeeOther, link, url.Values{"do": {"code"}, "code": {s.code()}})
	page(`aria-invalid`)
	post(http.StatusSeeOther, link, url.Values{"do": {"code"}, "code": {"123 456"}})
	manage := regexp.MustCompile(`/manage/mng_[A-Za-z0-9_-]+`).Find(page("/manage/mng_").Body)
	s.mustSend(http.StatusOK, http.MethodGet, string(manage), nil)
	s.mustSend(http.StatusSeeOther, http.MethodPost, string(manage), url.Values{"do": {"revoke"}})
	s.mustSend(http.StatusOK, http.MethodGet, string(manage), nil)
}

// loseProxy kills the proxy during sign-ins and calls, and makes the platform send invalid responses.
func (s *secretsFixture) loseProxy() {
	account := s.awaitEnd(s.signIn("ok", map[string]any{"proxy_country": "uk"}), "success", "").text("account_id")
	code := s.signIn("sms", map[string]any{"proxy_country": "uk"})
	selfie := s.signIn("face", map[string]any{"proxy_country": "uk"})
	phone := s.start("/v1/connect/mobile", map[string]any{"proxy_country": "uk"})
	s.proxies["uk"].Kill()
	s.send(http.MethodGet, "/v1/accounts/"+account+"/me", nil)
	s.send(http.MethodPut, code.path, map[string]any{"code": s.code()}, "Prefer", "wait=2")
	s.send(http.MethodPut, selfie.path, map[string]any{"selfie_verification_completed": true}, "Prefer", "wait=2")
	s.send(http.MethodPost, "/v1/connect/login", map[string]any{"email": s.login("ok"), "password": s.password(), "proxy_country": "uk"})
	s.readOperatorPages()
	s.proxies["uk"].Start()
	for _, p := range []poll{code, selfie, phone} {
		s.send(http.MethodDelete, p.path, nil)
	}
	// The platform responds, but with garbage.
	for value := range 2 {
		login := s.login("ok")
		s.addFault(gate.Fault{Scope: login, Kind: gate.Garbage, Value: value, Count: 1})
		s.start("/v1/connect/login", map[string]any{"email": login, "password": s.password()})
	}
}

// addFault makes the platform misbehave towards a login.
func (s *secretsFixture) addFault(f gate.Fault) {
	s.t.Helper()
	if _, err := s.platform.Gate.Faults.Add(f, time.Minute); err != nil {
		s.t.Fatal(err)
	}
}

// killNodes kills nodes while they handle secrets.
func (s *secretsFixture) killNodes() {
	login := s.login("sms")
	code := s.signIn("sms", map[string]any{"email": login})
	s.addFault(gate.Fault{Scope: login, Kind: gate.Latency, Value: 3000})
	slow := s.mustSend(http.StatusAccepted, http.MethodPost, "/v1/connect/login", map[string]any{"email": s.login("slow"), "password": s.password(), "remember_credentials": true})
	given, done := s.code(), make(chan struct{})
	go func() { // the response is lost with the node
		defer close(done)
		_, _ = testnode.Do(s.t.Context(), http.MethodPut, s.nodes[0].URL+code.path, s.owner.Key, map[string]any{"code": given})
	}()
	await(s.t, "the code is being checked", 2*time.Minute, func() bool {
		r, err := testnode.Do(s.t.Context(), http.MethodGet, s.nodes[1].URL+code.path, s.owner.Key, nil)
		return err == nil && r.JSON()["progress"] == "checking_code"
	})
	s.nodes[0].Process.Kill()
	<-done
	s.nodes[0].Restart(s.t)
	s.nodes[1].Process.Signal(syscall.SIGQUIT) // it dumps the stacks of all goroutines
	<-s.nodes[1].Process.Exited()
	s.nodes[1].Restart(s.t)
	s.awaitEnd(poll{path: "/v1/connect/login/" + slow.JSON()["attempt_id"].(string)}, "success", "")
	s.send(http.MethodDelete, code.path, nil)
}

// readLists reads everything that callers and operators can list.
func (s *secretsFixture) readLists() {
	for _, path := range []string{"/v1/connect/attempts?limit=100", "/v1/accounts", "/v1/me/audit", "/v1/me/keys", "/v1/me/usage", "/v1/me"} {
		s.mustSend(http.StatusOK, http.MethodGet, path, nil)
	}
	s.readOperatorPages()
}

// readOperatorPages reads the metrics, profiles and lists of the nodes.
func (s *secretsFixture) readOperatorPages() {
	for _, node := range s.nodes {
		for _, path := range []string{"/metrics", "/readyz", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/admin/v1/orgs", "/admin/v1/nodes"} {
			r := node.Operate(s.t, http.MethodGet, path, nil)
			_, _ = s.operatorPages.Write(append(r.Body, '\n'))
		}
	}
}
