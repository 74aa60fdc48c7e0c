package testnode

import (
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/auth"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// Sandbox starts a sandbox platform with a proxy per region, and returns a setup for nodes that use it. change may be
// nil.
func Sandbox(t testing.TB, change func(*sandbox.Config)) (*sandboxtest.Platform, Setup) {
	t.Helper()
	platform := sandboxtest.New(t, func(cfg *sandbox.Config) {
		cfg.Regions = map[string]string{"127.0.1.1": "us", "127.0.2.1": "uk"}
		client := auth.DefaultClient
		client.Redirects = []string{publicURL + registry.CallbackPath}
		cfg.Clients = []auth.Client{client}
		if change != nil {
			change(cfg)
		}
	})
	us, uk := testenv.NewProxy(t, "127.0.1.1"), testenv.NewProxy(t, "127.0.2.1")
	return platform, Setup{
		Sandbox: platform.URL, Egress: secret.New("us=" + us.URL() + " uk=" + uk.URL()),
		OAuth: secret.New("sandbox=" + auth.DefaultClient.ID + ":" + auth.DefaultClient.Secret),
	}
}

// Connect starts a sign-in that needs no input, with the body of /v1/connect/login or /v1/connect/cookie, waits for its
// end, and returns the account.
func (n *Node) Connect(t testing.TB, key, path string, body map[string]any) string {
	t.Helper()
	reply := n.Call(t, http.MethodPost, path, key, body)
	attempt, _ := reply.JSON()["attempt_id"].(string)
	for range 60 {
		if state, _ := reply.JSON()["state"].(string); attempt == "" || strings.HasPrefix(state, "completed_") {
			break
		}
		reply = n.Call(t, http.MethodGet, "/v1/connect/login/"+attempt+"?wait=5", key, nil)
	}
	account, _ := reply.JSON()["account_id"].(string)
	if account == "" {
		t.Fatalf("connect %v: %d %s", body["email"], reply.Status, reply.Body)
	}
	return account
}

// ConnectLogin connects a creator of the sandbox with a session, as if it was copied from a browser. No credentials are
// stored, so a lost session cannot be replaced.
func (n *Node) ConnectLogin(t testing.TB, key, login, region string) string {
	t.Helper()
	pasted := n.Call(t, http.MethodPost, "/v1/sandbox/session", key, map[string]any{"login": login}).JSON()
	return n.Connect(t, key, "/v1/connect/cookie", map[string]any{
		"cookie": pasted["cookie"], "user_agent": pasted["userAgent"], "headers": pasted["headers"], "proxy_country": region,
	})
}

// AddJob adds an export that no worker runs, because it is not in the queue, and returns its id.
func (n *Node) AddJob(t testing.TB, org string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), n.database.Reveal())
	must.OK(t, err)
	defer conn.Close(t.Context())
	made := string(id.New[id.Job]())
	_, err = conn.Exec(t.Context(), `INSERT INTO job (org_id, id, kind, state, params, asked_by, created_at, wake_at)
		VALUES ($1, $2, 'org_export', 'queued', '{}', '{}', now(), now() + interval '1 day')`, org, made)
	must.OK(t, err)
	return made
}
