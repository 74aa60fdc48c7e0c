package dashboard_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// fakeProvider is an identity provider that returns what a test wants, which a real one (dex_test.go) would not.
type fakeProvider struct {
	*httptest.Server
	key *rsa.PrivateKey
	// claims returns the claims of the ID token for a nonce, and sign signs them. issuer is what discovery returns,
	// empty for the real address.
	claims func(nonce string) map[string]any
	sign   func(l *fakeProvider, header, claims map[string]any) string
	issuer string

	// challenge and nonce are those of the last browser that was sent here; redeemed is the form with which its code
	// was redeemed.
	challenge, nonce string
	redeemed         url.Values
}

func newFakeProvider(t *testing.T) *fakeProvider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(t, err)
	l := &fakeProvider{key: key, sign: (*fakeProvider).properly}
	l.claims = func(nonce string) map[string]any { return l.honest(nonce) }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		issuer := l.URL
		if l.issuer != "" {
			issuer = l.issuer
		}
		writeJSON(w, map[string]any{
			"issuer": issuer, "authorization_endpoint": l.URL + "/auth", "token_endpoint": l.URL + "/token", "jwks_uri": l.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"}, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "n": b64(key.N.Bytes()), "e": b64(big.NewInt(int64(key.E)).Bytes()),
		}}})
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		l.redeemed = r.PostForm
		writeJSON(w, map[string]any{
			"access_token": "canary-access", "token_type": "Bearer", "expires_in": 60,
			"id_token": l.sign(l, map[string]any{"alg": "RS256", "kid": "1", "typ": "JWT"}, l.claims(l.nonce)),
		})
	})
	l.Server = httptest.NewServer(mux)
	t.Cleanup(l.Close)
	return l
}

func writeJSON(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

func b64(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// honest returns the claims of a correct provider.
func (l *fakeProvider) honest(nonce string) map[string]any {
	now := time.Now()
	return map[string]any{
		"iss": l.URL, "sub": "ada", "aud": "stagedoor", "exp": now.Add(time.Minute).Unix(), "iat": now.Unix(), "nonce": nonce,
		"email": "ada@example.test", "email_verified": true, "name": "Ada",
	}
}

// with returns correct claims with one of them replaced, or removed if value is nil.
func (l *fakeProvider) with(name string, value any) func(string) map[string]any {
	return func(nonce string) map[string]any {
		claims := l.honest(nonce)
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
		return claims
	}
}

func unsigned(header, claims map[string]any) string {
	h, _ := json.Marshal(header)
	c, _ := json.Marshal(claims)
	return b64(h) + "." + b64(c)
}

func (l *fakeProvider) properly(header, claims map[string]any) string {
	text := unsigned(header, claims)
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(rand.Reader, l.key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return text + "." + b64(sig)
}

// byOthers signs with a key that is not the provider's.
func (l *fakeProvider) byOthers(header, claims map[string]any) string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return (&fakeProvider{key: key}).properly(header, claims)
}

// byNobody returns an unsigned token.
func (l *fakeProvider) byNobody(header, claims map[string]any) string {
	header["alg"] = "none"
	return unsigned(header, claims) + "."
}

// byPublicKey uses the public key as a shared secret.
func (l *fakeProvider) byPublicKey(header, claims map[string]any) string {
	header["alg"] = "HS256"
	text := unsigned(header, claims)
	mac := hmac.New(sha256.New, l.key.N.Bytes())
	mac.Write([]byte(text))
	return text + "." + b64(mac.Sum(nil))
}

// leave starts a sign-in and returns the browser's cookie and the state that it would bring back.
func (l *fakeProvider) leave(t *testing.T, n *testnode.Node, to string) (cookie string, state string) {
	t.Helper()
	r := (&testnode.Browser{Node: n}).Page(t, "/app/sign-in/start?to="+url.QueryEscape(to))
	at, err := url.Parse(r.Header.Get("Location"))
	if err != nil || r.Status != http.StatusSeeOther {
		t.Fatalf("%d %v %s", r.Status, r.Header, r.Body)
	}
	q := at.Query()
	if q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" || q.Get("client_id") != "stagedoor" || len(q.Get("state")) < 43 || len(q.Get("nonce")) < 43 ||
		q.Get("redirect_uri") != "http://stagedoor.test/app/callback" || q.Get("scope") != "openid email profile" {
		t.Errorf("sent to %s", at)
	}
	set := r.Header.Get("Set-Cookie")
	if !strings.HasPrefix(set, "__Host-sd_signin=") || !strings.HasSuffix(set, "; Path=/; Max-Age=600; HttpOnly; Secure; SameSite=Lax") || strings.Contains(set, q.Get("state")) {
		t.Errorf("the cookie is %s", set)
	}
	l.challenge, l.nonce = q.Get("code_challenge"), q.Get("nonce")
	cookie, _, _ = strings.Cut(set, ";")
	return cookie, q.Get("state")
}

// back is the browser's request to the callback.
func back(t *testing.T, n *testnode.Node, cookie, query string) testnode.Reply {
	t.Helper()
	b := &testnode.Browser{Node: n}
	req := b.Request(t, http.MethodGet, "/app/callback?"+query, nil)
	req.Header.Set("Accept", "text/html")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	req.Header.Set("Cookie", cookie)
	return b.Send(t, req)
}

// session returns the session cookie of a response; empty if there is none.
func session(r testnode.Reply) string {
	for _, c := range (&http.Response{Header: r.Header}).Cookies() {
		if c.Name == member.Cookie {
			return c.Value
		}
	}
	return ""
}

// withProvider starts a node with an identity provider and one invited address.
func withProvider(t *testing.T, issuer string, s testnode.Setup) (*testnode.Node, testnode.Org) {
	t.Helper()
	s.OIDC = [3]string{issuer, "stagedoor", "canary-client-secret"}
	n := testnode.Nodes(t, 1, s)[0]
	org := n.NewOrg(t, nil)
	if r := n.Operate(t, http.MethodPost, "/admin/v1/orgs/"+org.ID+"/invitations", map[string]any{"email": "ada@example.test", "role": "owner"}); r.Status != http.StatusCreated {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	return n, org
}

// A correct provider signs a user in. Every false claim about the user, the client or the time is refused, and no
// session starts.
func TestIDTokensAreChecked(t *testing.T) {
	t.Parallel()
	l := newFakeProvider(t)
	n, _ := withProvider(t, l.URL, testnode.Setup{})
	past := time.Now().Add(-time.Hour).Unix()
	for name, c := range map[string]struct {
		claims func(string) map[string]any
		sign   func(*fakeProvider, map[string]any, map[string]any) string
		words  string
	}{
		"another nonce":         {claims: l.with("nonce", "x")},
		"no nonce":              {claims: l.with("nonce", nil)},
		"expired":               {claims: l.with("exp", past)},
		"another issuer":        {claims: l.with("iss", "https://evil.test")},
		"another client":        {claims: l.with("aud", "other")},
		"several clients":       {claims: l.with("aud", []string{"stagedoor", "other"})},
		"issued to another":     {claims: l.with("azp", "other")},
		"not valid yet":         {claims: l.with("nbf", time.Now().Add(time.Hour).Unix())},
		"no subject":            {claims: l.with("sub", nil)},
		"unverified":            {claims: l.with("email_verified", false), words: "has not verified"},
		"unverified, in words":  {claims: l.with("email_verified", "false"), words: "has not verified"},
		"not said":              {claims: l.with("email_verified", nil), words: "has not verified"},
		"verified as a number":  {claims: l.with("email_verified", 1), words: "has not verified"},
		"no address":            {claims: l.with("email", nil), words: "no usable email address"},
		"two addresses":         {claims: l.with("email", "ada@example.test, eve@evil.test"), words: "no usable email address"},
		"nobody who is invited": {claims: l.with("email", "eve@evil.test"), words: "has no invitation"},
		"another's signature":   {sign: (*fakeProvider).byOthers},
		"no signature":          {sign: (*fakeProvider).byNobody},
		"a shared secret":       {sign: (*fakeProvider).byPublicKey},
		"no token":              {sign: func(*fakeProvider, map[string]any, map[string]any) string { return "" }},
		"garbage":               {sign: func(*fakeProvider, map[string]any, map[string]any) string { return "a.b.c" }},
	} {
		l.claims, l.sign = l.honest, (*fakeProvider).properly
		if c.claims != nil {
			l.claims = c.claims
		}
		if c.sign != nil {
			l.sign = c.sign
		}
		cookie, state := l.leave(t, n, "/app/")
		r := back(t, n, cookie, "state="+state+"&code=canary-code")
		if r.Status != http.StatusForbidden || session(r) != "" || !strings.Contains(string(r.Body), c.words) {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
	l.claims, l.sign = l.honest, (*fakeProvider).properly
	cookie, state := l.leave(t, n, "/app/events")
	r := back(t, n, cookie, "state="+state+"&code=canary-code&iss="+url.QueryEscape(l.URL))
	if r.Status != http.StatusSeeOther || session(r) == "" || r.Header.Get("Location") != "/app/" {
		t.Fatalf("a correct response: %d %v %s", r.Status, r.Header, r.Body)
	}
	// The code was redeemed with the verifier of the challenge.
	if sum := sha256.Sum256([]byte(l.redeemed.Get("code_verifier"))); b64(sum[:]) != l.challenge || l.redeemed.Get("code") != "canary-code" {
		t.Errorf("redeemed with %v", l.redeemed)
	}
	if text := l.with("email_verified", "true"); text != nil {
		l.claims = text
		cookie, state := l.leave(t, n, "/app/")
		if r := back(t, n, cookie, "state="+state+"&code=x"); r.Status != http.StatusSeeOther {
			t.Errorf("verified as a string: %d %s", r.Status, r.Body)
		}
	}
}

// Only the browser that started a sign-in can complete it, once. No one can sign another browser in.
func TestSignInIsBoundToTheBrowser(t *testing.T) {
	t.Parallel()
	var log safeBuffer
	l := newFakeProvider(t)
	n, _ := withProvider(t, l.URL, testnode.Setup{Log: &log})
	cookie, state := l.leave(t, n, "/app/")
	other, otherState := l.leave(t, n, "/app/")
	for name, c := range map[string][2]string{
		"no cookie":            {"", "state=" + state + "&code=x"},
		"another's cookie":     {other, "state=" + state + "&code=x"},
		"another's state":      {cookie, "state=" + otherState + "&code=x"},
		"no state":             {cookie, "code=x"},
		"an empty state":       {cookie, "state=&code=x"},
		"a changed cookie":     {cookie[:len(cookie)-2] + "AA", "state=" + state + "&code=x"},
		"a cookie of garbage":  {"__Host-sd_signin=x", "state=" + state + "&code=x"},
		"two cookies":          {cookie + "; " + other, "state=" + state + "&code=x"},
		"another provider":     {cookie, "state=" + state + "&code=x&iss=https%3A%2F%2Fevil.test"},
		"not signed in there":  {cookie, "state=" + state + "&error=access_denied&error_description=%3Cscript%3E"},
		"neither code nor not": {cookie, "state=" + state},
	} {
		r := back(t, n, c[0], c[1])
		if r.Status != http.StatusBadRequest && r.Status != http.StatusForbidden || session(r) != "" || strings.Contains(string(r.Body), "script") {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
		if !strings.Contains(strings.Join(r.Header.Values("Set-Cookie"), ""), "__Host-sd_signin=; Path=/; Max-Age=0") {
			t.Errorf("%s: the browser keeps the sign-in cookie: %v", name, r.Header.Values("Set-Cookie"))
		}
	}
	if l.redeemed != nil {
		t.Errorf("a code was redeemed: %v", l.redeemed)
	}
	r := back(t, n, other, "state="+otherState+"&code=canary-code") // The last one that the provider has seen.
	if r.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	for _, secret := range []string{"canary", state, otherState, strings.TrimPrefix(cookie, "__Host-sd_signin="), session(r), l.redeemed.Get("code_verifier")} {
		if secret == "" || strings.Contains(log.String(), secret) {
			t.Errorf("%q is in the log", secret)
		}
	}
}

// A provider that is down, or that claims another issuer, signs no one in. It is asked again at the next sign-in.
func TestProviderAway(t *testing.T) {
	t.Parallel()
	l := newFakeProvider(t)
	n, _ := withProvider(t, l.URL, testnode.Setup{})
	l.issuer = "https://evil.test"
	anonymous := &testnode.Browser{Node: n}
	if r := anonymous.Page(t, "/app/sign-in/start"); r.Status != http.StatusServiceUnavailable || !strings.Contains(string(r.Body), "is not responding") {
		t.Errorf("another issuer: %d %s", r.Status, r.Body)
	}
	l.issuer = ""
	if r := anonymous.Page(t, "/app/sign-in/start"); r.Status != http.StatusSeeOther {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if r := anonymous.Page(t, "/app/sign-in"); !strings.Contains(string(r.Body), "Continue with Test") {
		t.Errorf("%s", r.Body)
	}
}
