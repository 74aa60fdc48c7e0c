package app_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// sink records what is written to it.
type sink struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// A key, the operator token, a rejected body and a query appear in no log line, trace, metric or list, in any encoding,
// with everything logged and traced. Requests are traced by the name of their route.
func TestNoSecretLeavesTheProcess(t *testing.T) { //nolint:paralleltest // the exporter reads the environment
	traces := &sink{}
	collecting := http.NewServeMux() // Like a real collector, it accepts traces only at this path.
	collecting.HandleFunc("POST /v1/traces", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(traces, r.Body) })
	collector := httptest.NewServer(collecting)
	defer collector.Close()
	logs := &sink{}
	secrets := []string{testnode.AdminToken, "canary-in-a-body", "canary-in-a-query", "canary-in-a-path"}
	var seen strings.Builder

	t.Run("use", func(t *testing.T) { // The node has stopped and flushed when this ends.
		node := testnode.Nodes(t, 1, testnode.Setup{Log: logs, OTLP: collector.URL})[0]
		owner := node.NewOrg(t, nil)
		minted := node.Mint(t, owner.Key, "me:read")
		secrets = append(secrets, owner.Key, minted.Key)
		for _, c := range []struct {
			method, path, key string
			body              any
		}{
			{http.MethodGet, "/v1/me", owner.Key, nil},
			{http.MethodGet, "/v1/me/keys", owner.Key, nil},
			{http.MethodGet, "/v1/me/audit?cursor=canary-in-a-query", owner.Key, nil},
			{http.MethodGet, "/v1/me/usage?key=canary-in-a-query", owner.Key, nil},
			{http.MethodGet, "/v1/canary-in-a-path", owner.Key, nil},
			{http.MethodDelete, "/v1/me/keys/canary-in-a-path", owner.Key, nil},
			{http.MethodPost, "/v1/me/keys", owner.Key, map[string]any{"label": "x", "scopes": []string{"canary-in-a-body"}}},
			{http.MethodPost, "/v1/me/keys", owner.Key, []byte(`{"label":"canary-in-a-body`)},
			{http.MethodPost, "/v1/me/keys", minted.Key, map[string]any{"label": "canary-in-a-body"}},
			{http.MethodPost, "/v1/connect/token", owner.Key, map[string]any{"token": "canary-in-a-body"}},
			{http.MethodDelete, "/v1/me/keys/" + minted.KeyID, owner.Key, nil},
			{http.MethodGet, "/v1/me", minted.Key, nil},
			{http.MethodGet, "/v1/me", minted.Key + "x", nil},
		} {
			seen.Write(node.Call(t, c.method, c.path, c.key, c.body).Body)
		}
		for _, path := range []string{"/metrics", "/admin/v1/orgs", "/admin/v1/nodes", "/readyz", "/debug/pprof/cmdline"} {
			seen.Write(node.Operate(t, http.MethodGet, path, nil).Body)
		}
	})

	for where, text := range map[string]string{"the log": logs.String(), "a trace": traces.String(), "a response": seen.String()} {
		for _, s := range secrets {
			for _, form := range []string{s, hex.EncodeToString([]byte(s)), base64.StdEncoding.EncodeToString([]byte(s))} {
				if strings.Contains(text, form) {
					t.Errorf("%.12s… is in %s", s, where)
				}
			}
		}
	}
	if !strings.Contains(logs.String(), `"operation":"getMe"`) || strings.Count(logs.String(), `"msg":"request"`) < 12 {
		t.Errorf("requests are not logged:\n%s", logs.String())
	}
	if !strings.Contains(traces.String(), "stagedoord") || !strings.Contains(traces.String(), "/v1/me/keys/{id}") {
		t.Error("requests are not traced")
	}
}
