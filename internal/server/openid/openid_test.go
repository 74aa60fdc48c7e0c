package openid_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/server/openid"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// fixture is a provider whose ID tokens have the claims of a test.
type fixture struct {
	*httptest.Server
	key    *ecdsa.PrivateKey
	nonce  string
	claims map[string]any
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	f := &fixture{key: key}
	provider := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "1", Algorithm: "ES256"}}, Algorithms: []string{"ES256"}}
	mux := http.NewServeMux()
	mux.Handle("/", provider)
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, _ *http.Request) {
		claims := map[string]any{
			"iss": f.URL, "aud": "console", "sub": "ada", "exp": time.Now().Add(time.Minute).Unix(), "nonce": f.nonce,
			"email": "ada@example.test", "email_verified": true, "name": "Ada",
		}
		maps.Copy(claims, f.claims)
		text, _ := json.Marshal(claims)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"access_token": "x", "token_type": "Bearer", "id_token": oidctest.SignIDToken(f.key, "1", "ES256", string(text)),
		})
	})
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	provider.SetIssuer(f.URL)
	return f
}

func (f *fixture) provider(t *testing.T, change func(*openid.Config)) *openid.Provider {
	t.Helper()
	c := openid.Config{
		Issuer: f.URL, ClientID: "console", Secret: secret.New("secret"), Callback: "https://ops.test/ops/callback", Cookie: "__Host-pending",
		Key: secret.New("a key of the installation"), Purpose: "a test",
	}
	if change != nil {
		change(&c)
	}
	p, err := openid.New(c, http.DefaultClient, time.Now)
	must.OK(t, err)
	return p
}

// begin starts a sign-in and returns the cookie of the browser and the state.
func (f *fixture) begin(t *testing.T, p *openid.Provider) (*http.Cookie, url.Values) {
	t.Helper()
	w := httptest.NewRecorder()
	address, err := p.Begin(t.Context(), w, "/ops/orgs", openid.Nothing)
	must.OK(t, err)
	at, err := url.Parse(address)
	must.OK(t, err)
	cookies := w.Result().Cookies()
	if q := at.Query(); len(cookies) != 1 || q.Get("code_challenge_method") != "S256" || q.Get("redirect_uri") != "https://ops.test/ops/callback" {
		t.Fatalf("%v %v", cookies, at)
	}
	f.nonce = at.Query().Get("nonce")
	return cookies[0], at.Query()
}

func finish(t *testing.T, p *openid.Provider, state string, cookies ...*http.Cookie) (openid.Claims, string, error) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ops/callback?"+url.Values{"state": {state}, "code": {"x"}}.Encode(), nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	claims, to, err := p.Finish(t.Context(), w, r)
	if cookies := w.Result().Cookies(); len(cookies) != 1 || cookies[0].MaxAge >= 0 {
		t.Errorf("the cookie stays: %v", cookies)
	}
	return claims, to, err
}

// The groups of a person are those of the claim that the settings name; texts that are no groups are ignored.
func TestGroupsComeFromTheClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, c := range map[string]struct {
		claim string
		value any
		want  []string
	}{
		"a list":        {"groups", []string{"sre", "support"}, []string{"sre", "support"}},
		"one group":     {"groups", "sre", []string{"sre"}},
		"other values":  {"groups", []any{"sre", 1, nil, []string{"support"}}, []string{"sre"}},
		"an object":     {"groups", map[string]any{"sre": true}, nil},
		"no claim":      {"roles", nil, nil},
		"another claim": {"roles", []string{"sre"}, []string{"sre"}},
		"not asked for": {"", []string{"sre"}, nil},
	} {
		f.claims = map[string]any{c.claim: c.value}
		if c.claim == "" {
			f.claims = map[string]any{"groups": c.value}
		}
		p := f.provider(t, func(o *openid.Config) { o.GroupsClaim = c.claim })
		cookie, q := f.begin(t, p)
		got, to, err := finish(t, p, q.Get("state"), cookie)
		if err != nil || to != "/ops/orgs" || !slices.Equal(got.Groups, c.want) || got.Email != "ada@example.test" {
			t.Errorf("%s: %+v %s %v", name, got, to, err)
		}
	}
}

// A pending sign-in is known only to the browser and the server that started it: the dashboard's cookie does not work at
// the console, although they share a key.
func TestPendingSignInsAreNotInterchangeable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mine, other := f.provider(t, nil), f.provider(t, func(c *openid.Config) { c.Purpose = "another" })
	cookie, q := f.begin(t, mine)
	for name, try := range map[string]func() error{
		"another server": func() error { _, _, err := finish(t, other, q.Get("state"), cookie); return err },
		"another state":  func() error { _, _, err := finish(t, mine, "x", cookie); return err },
		"no cookie":      func() error { _, _, err := finish(t, mine, q.Get("state")); return err },
		"two cookies":    func() error { _, _, err := finish(t, mine, q.Get("state"), cookie, cookie); return err },
	} {
		if status, _, expected := openid.Explain(try()); status != http.StatusBadRequest || !expected {
			t.Errorf("%s: %d", name, status)
		}
	}
}

// Addresses that the provider has not verified are refused.
func TestOnlyVerifiedAddressesSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, verified := range []any{false, nil, "false", "yes", 1} {
		f.claims = map[string]any{"email_verified": verified}
		p := f.provider(t, nil)
		cookie, q := f.begin(t, p)
		if _, _, err := finish(t, p, q.Get("state"), cookie); err == nil {
			t.Errorf("accepted %v", verified)
		}
	}
}
