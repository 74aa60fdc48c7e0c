package admin_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// withSandbox starts a sandbox platform for the test, with two proxies for one region and one for the other.
func withSandbox(t testing.TB) testnode.Setup {
	t.Helper()
	platform := sandboxtest.New(t, func(cfg *sandbox.Config) {
		cfg.Regions = map[string]string{"127.0.1.1": "us", "127.0.1.2": "us", "127.0.2.1": "uk"}
	})
	us, more, uk := testenv.NewProxy(t, "127.0.1.1"), testenv.NewProxy(t, "127.0.1.2"), testenv.NewProxy(t, "127.0.2.1")
	return testnode.Setup{Sandbox: platform.URL, Egress: secret.New("us=" + us.URL() + "," + more.URL() + " uk=" + uk.URL())}
}

// session is a session that was copied from a browser.
type session struct {
	Cookie, Agent, Device string
}

func connect(t testing.TB, n *testnode.Node, o testnode.Org, extra map[string]any) (account string, with session) {
	t.Helper()
	got := n.Call(t, http.MethodPost, "/v1/sandbox/session", o.Key, map[string]any{"login": "ok+" + o.KeyID + "@sandbox.test"}).JSON()
	with.Cookie, _ = got["cookie"].(string)
	with.Agent, _ = got["userAgent"].(string)
	headers, _ := got["headers"].(map[string]any)
	with.Device, _ = headers["x-device"].(string)
	body := map[string]any{"cookie": with.Cookie, "user_agent": with.Agent, "headers": map[string]any{"X-Device": with.Device}, "proxy_country": "us"}
	maps.Copy(body, extra)
	account = n.Connect(t, o.Key, "/v1/connect/cookie", body)
	testenv.Await(t, "the account is active", func() bool {
		shown, _ := n.Call(t, http.MethodGet, "/v1/accounts/"+account, o.Key, nil).JSON()["account"].(map[string]any)
		return shown["state"] == "active"
	})
	return account, with
}

// receiver starts a webhook receiver that counts its requests.
func receiver(t testing.TB) (address string, had *atomic.Int64) {
	t.Helper()
	had = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { had.Add(1) }))
	t.Cleanup(server.Close)
	return server.URL, had
}

// part returns the value at a path of names and indexes in a JSON value.
func part(t testing.TB, value any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch at := step.(type) {
		case string:
			members, ok := value.(map[string]any)
			if !ok {
				t.Fatalf("no %v in %v", step, value)
			}
			value = members[at]
		case int:
			list, ok := value.([]any)
			if !ok || at >= len(list) {
				t.Fatalf("no %v in %v", step, value)
			}
			value = list[at]
		}
	}
	return value
}

func contains(text string, all ...string) bool {
	for _, one := range all {
		if !strings.Contains(text, one) {
			return false
		}
	}
	return true
}
