package app_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// Metrics and profiles need the token. Without a token, only a node whose internal listener is on loopback serves them.
// Health needs none: load balancers have no token.
func TestMetricsAndProfilesNeedAToken(t *testing.T) {
	t.Parallel()
	token := strings.Repeat("metrics-", 5)
	for name, c := range map[string]struct {
		listen, set string
		// answers are the statuses by the token that is sent.
		answers map[string]int
	}{
		"loopback":            {"127.0.0.1:0", "", map[string]int{"": http.StatusOK}},
		"loopback, token set": {"127.0.0.1:0", token, map[string]int{"": http.StatusUnauthorized, token: http.StatusOK}},
		"all addresses":       {":0", "", map[string]int{"": http.StatusForbidden, token: http.StatusForbidden}},
		"all addresses, token": {":0", token, map[string]int{
			"": http.StatusUnauthorized, token + "x": http.StatusUnauthorized, testnode.AdminToken: http.StatusUnauthorized, token: http.StatusOK,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := testnode.Nodes(t, 1, testnode.Setup{Configure: func(s *config.Config) {
				s.InternalListen, s.MetricsToken = c.listen, secret.New(c.set)
			}})[0]
			_, port, err := net.SplitHostPort(strings.TrimPrefix(node.Internal, "http://"))
			must.OK(t, err)
			for sent, status := range c.answers {
				for path, want := range map[string]int{
					"/metrics": status, "/debug/pprof/": status, "/debug/pprof/cmdline": status, "/debug/pprof/heap?debug=1": status,
					"/debug/pprof/symbol": status, "/healthz": http.StatusOK,
				} {
					r, err := testnode.Do(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+path, sent, nil)
					must.OK(t, err)
					if r.Status != want {
						t.Errorf("%s with %q: %d %s", path, sent, r.Status, r.Body)
					}
				}
			}
		})
	}
}
