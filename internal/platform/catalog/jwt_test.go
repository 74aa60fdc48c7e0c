package catalog_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// The checks of keys and credentials reject a manifest that violates them.
func TestLoadReportsFaultsOfCredentials(t *testing.T) {
	t.Parallel()
	const up, people = "upstream.yaml", "resources/people.yaml"
	for name, c := range map[string]struct{ file, from, to, want string }{
		"form without anchors":  {up, "form: '^(?P<id>", "form: '(?P<id>", "session.jwt.form: the pattern must begin with ^"},
		"form without secret":   {up, "(?P<secret>", "(?P<password>", "must have the groups id and secret"},
		"form that is no form":  {up, "[a-z]+)-(", "[a-z]+))-(", "form"},
		"encoding":              {up, "encoding: hex", "encoding: rot13", "session.jwt.encoding"},
		"algorithm":             {up, "algorithm: HS256", "algorithm: none", "session.jwt.algorithm"},
		"lifetime":              {up, "lifetime: 90s", "lifetime: 16m", "session.jwt.lifetime must be from 10s"},
		"short lifetime":        {up, "lifetime: 90s", "lifetime: 9s", "session.jwt.lifetime must be from 10s"},
		"omitted header":        {up, "omit: [origin]", "omit: [referer]", "session.jwt.omit: referer is not in session.send"},
		"header twice":          {up, "header: x-token", "header: accept", "session.jwt.header: accept is in session.send too"},
		"where is no sentence":  {up, "where: Ask the owner.", "where: Ask the owner", "session.jwt.where"},
		"verify":                {up, "verify: people.all", "verify: people.nobody", "session.jwt.verify: there is no method people.nobody"},
		"verify refuses keys":   {people, "  all:\n", "  all:\n    credentials: [session]\n", "session.jwt.verify: people.all must accept the credentials token"},
		"verify refuses people": {people, "credentials: [session]", "credentials: [token]", "verify: people.me must accept the credentials session"},
		"credentials of none":   {people, "credentials: [session]", "credentials: [session, oauth]", "no account of the platform is signed in with oauth"},
		"unknown credentials":   {people, "methods:\n", "credentials: [cookie]\nmethods:\n", "credentials"},
		"no credentials":        {people, "methods:\n", "credentials: []\nmethods:\n", "credentials"},
		"feed of none":          {up, "      overlap: 24h\n", "      overlap: 24h\n      credentials: [oauth]\n", "no account of the platform is signed in with oauth"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := catalog.Load(edited(t, filesOf(t, "sites"), c.file, c.from, c.to))
			if _, ok := errors.AsType[catalog.Faults](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %q", err, c.want)
			}
		})
	}
}

// Methods and feeds accept all credentials unless they, or their resource, list some.
func TestCredentialsOfMethods(t *testing.T) {
	t.Parallel()
	files := edited(t, filesOf(t, "sites"), "resources/people.yaml", "methods:\n", "credentials: [session]\nmethods:\n")
	files = edited(t, files, "resources/people.yaml", "  all:\n", "  all:\n    credentials: [token, session]\n")
	c, err := catalog.Load(files)
	must.OK(t, err)
	if m := method(t, c, "people", "me"); !m.Accepts(catalog.BySession) || m.Accepts(catalog.ByToken) {
		t.Errorf("people.me: %v", m.Credentials)
	}
	if m := method(t, c, "people", "all"); !m.Accepts(catalog.ByToken) || m.Accepts(catalog.ByOAuth) {
		t.Errorf("people.all: %v", m.Credentials)
	}
	if m := method(t, sites(t), "people", "list"); !m.Accepts(catalog.ByToken) {
		t.Errorf("without a list: %v", m.Credentials)
	}
	if got := c.Describe(catalog.ByToken); got != "a Program key" {
		t.Error(got)
	}
	if got := ghost(t).Describe(catalog.ByToken); got != "an Admin API key" {
		t.Error(got)
	}
}

// A key is read as its owner pastes it. What is not one is refused, and nothing prints the secret.
func TestParseKey(t *testing.T) {
	t.Parallel()
	jwt := ghost(t).Session.JWT
	id, half := strings.Repeat("a1", 12), strings.Repeat("0f", 32)
	for _, text := range []string{id + ":" + half, "  " + id + ":" + half + "\n"} {
		key, ok := jwt.Parse(secret.New(text))
		if !ok || key.ID != id || key.Secret.Reveal() != half {
			t.Errorf("%q: %v %s", text, ok, key.ID)
		}
		if shown := fmt.Sprintf("%v %+v %#v", key, key, key); strings.Contains(shown, half) {
			t.Error("a key prints its secret")
		}
	}
	for _, text := range []string{"", id, half, id + ":" + half[1:], id + ":" + half + "00", id + ":" + strings.ToUpper(half), id + ":" + half + " " + id, strings.Repeat("b2", 13)} {
		if _, ok := jwt.Parse(secret.New(text)); ok {
			t.Errorf("%q is read as a key", text)
		}
	}
	if _, ok := sites(t).Session.JWT.Parse(secret.New("me-xyz")); ok {
		t.Error("a secret that is not hexadecimal is read as a key")
	}
}

// A token has the header and claims of RFC 7519, in this order, and the signature of the decoded secret.
func TestSign(t *testing.T) {
	t.Parallel()
	jwt := sites(t).Session.JWT
	value, err := jwt.Sign(catalog.Key{ID: "me", Secret: secret.New("00ff")}, time.Unix(1_800_000_000, 5))
	must.OK(t, err)
	if jwt.Header != "X-Token" || !slices.Equal(jwt.Omit, []string{"Origin"}) {
		t.Errorf("%s, %v", jwt.Header, jwt.Omit)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"HS256","typ":"JWT","kid":"me"}`)) + "." + encode([]byte(`{"iat":1800000000,"exp":1800000090,"aud":"/api/"}`))
	mac := hmac.New(sha256.New, []byte{0, 255})
	mac.Write([]byte(text))
	if want := "Sites " + text + "." + encode(mac.Sum(nil)); value != want {
		t.Errorf("%s\nwant %s", value, want)
	}
	if _, err := jwt.Sign(catalog.Key{ID: "me", Secret: secret.New("canary")}, time.Now()); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("a secret that is not hexadecimal: %v", err)
	}
}

// Each request is signed separately, so signing must cost little.
func BenchmarkSign(b *testing.B) {
	jwt := ghost(b).Session.JWT
	key := catalog.Key{ID: strings.Repeat("a1", 12), Secret: secret.New(strings.Repeat("0f", 32))}
	now := time.Unix(1_800_000_000, 0)
	b.ReportAllocs()
	for b.Loop() {
		_, err := jwt.Sign(key, now)
		must.OK(b, err)
	}
}

// The methods that Ghost 5.130.6 refuses to a key are those that were refused when all were tried.
func TestGhostKeyMethods(t *testing.T) {
	t.Parallel()
	c := ghost(t)
	whole := []string{"emails", "integrations", "links", "me", "recommendations", "redirects", "slugs", "snippets", "stats"}
	single := []string{"invites.list", "invites.delete", "settings.update", "staff.update", "staff.suspend", "staff.unsuspend", "staff.delete"}
	for _, m := range c.Methods() {
		refused := slices.Contains(whole, m.Resource) || slices.Contains(single, m.ID())
		if m.Accepts(catalog.ByToken) == refused || !m.Accepts(catalog.BySession) {
			t.Errorf("%s: %v", m.ID(), m.Credentials)
		}
	}
	for _, f := range c.Poll.Feeds {
		if f.Accepts(catalog.ByToken) != (f.Name != "newsletters") {
			t.Errorf("feed %s: %v", f.Name, f.Credentials)
		}
	}
}
