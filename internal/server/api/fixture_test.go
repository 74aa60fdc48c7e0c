package api_test

import (
	"net/http"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// withSandbox starts a sandbox platform for the test, with a proxy per region, and returns a setup that uses them.
func withSandbox(t testing.TB) testnode.Setup {
	t.Helper()
	_, setup := testnode.Sandbox(t, nil)
	return setup
}

func connected(t *testing.T, n *testnode.Node, o testnode.Org) string {
	t.Helper()
	login := "ok+" + o.KeyID + random(t) + "@sandbox.test"
	reply := held(t, n, o.Key, "/v1/connect/login", map[string]any{"email": login, "password": "good", "remember_credentials": true})
	account, _ := reply.JSON()["account_id"].(string)
	if account == "" || reply.JSON()["state"] != "completed_success" {
		t.Fatalf("connect %s: %d %s", login, reply.Status, reply.Body)
	}
	return account
}

// held sends a request and waits for its result.
func held(t *testing.T, n *testnode.Node, key, path string, body map[string]any) testnode.Reply {
	t.Helper()
	reply, err := testnode.Send(withHeader(t, http.MethodPost, n.URL+path, key, body, "Prefer", "wait=25"))
	must.OK(t, err)
	return reply
}
