package endpoint_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// A cookie authenticates requests of the server's own pages and no others. A key in the request takes precedence.
func TestCookiesAreForOwnPages(t *testing.T) {
	t.Parallel()
	var seen []string
	f := newFixture(t, nil)
	f = newFixture(t, func(d *endpoint.Deps) {
		d.Browser = &endpoint.Browser{Cookie: "__Host-s", Identify: func(_ *http.Request, value string) (endpoint.Identity, error) {
			seen = append(seen, value)
			return endpoint.Identity{Principal: f.customer.principal, Scopes: f.customer.principal.Scopes, Kind: audit.ActorMember}, nil
		}}
	})
	who := func(w http.ResponseWriter, r *http.Request) error {
		_, _ = w.Write([]byte(endpoint.From(r.Context()).Identity.Kind))
		return nil
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		op := endpoint.Operation{ID: method, Method: method, Path: "/x", Tag: "T", Summary: "X", Status: http.StatusOK, Quota: admission.Plain}
		if method == http.MethodPost {
			op.Unaudited = "a test"
		}
		endpoint.Plain(f.Table, op, who)
	}
	cookie := map[string]string{"Cookie": "__Host-s=abc"}
	for _, c := range []struct {
		method string
		header map[string]string
		want   string
	}{
		{"GET", cookie, "member"},
		{"POST", cookie, "member"}, // No browser: a browser sends the origin.
		{"POST", with(cookie, "Sec-Fetch-Site", "same-origin"), "member"},
		{"POST", with(cookie, "Origin", "https://x.test"), "member"}, // The public address, whatever host the proxy sends.
		{"POST", with(cookie, "Sec-Fetch-Site", "cross-site"), "cross-origin-refused"},
		{"POST", with(cookie, "Sec-Fetch-Site", "same-site"), "cross-origin-refused"},
		{"POST", with(cookie, "Origin", "https://evil.test"), "cross-origin-refused"},
		{"GET", with(cookie, "Sec-Fetch-Site", "cross-site"), "cross-origin-refused"},
		{"GET", with(cookie, "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"), "cross-origin-refused"},
		{"GET", with(cookie, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"), "member"},
		{"POST", with(cookie, "Sec-Fetch-Site", "cross-site", "Authorization", "Bearer x"), "key"},
		{"GET", with(cookie, "Authorization", ""), "key-missing"},
		{"GET", map[string]string{"Cookie": "__Host-s=abc; __Host-s=def"}, "signed-out"},
		{"GET", map[string]string{"Cookie": "s=abc"}, "key-missing"},
		{"GET", nil, "key-missing"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/x", nil)
		for name, value := range c.header {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		got := w.Body.String()
		var problem struct{ Code string }
		if json.Unmarshal(w.Body.Bytes(), &problem) == nil {
			got = problem.Code
		}
		if got != c.want {
			t.Errorf("%s %v: %s", c.method, c.header, got)
		}
	}
	for _, value := range seen {
		if value != "abc" {
			t.Errorf("asked about %q", value)
		}
	}
}

func with(header map[string]string, pairs ...string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, header)
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return all
}
