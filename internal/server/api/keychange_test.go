package api_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// A change of a key's limits holds for the next call on every node, whether it takes rights away or gives some. An open
// stream ends: with the problem if the key may no longer read, else so that the client reconnects with the new limits.
func TestAChangeOfAKeyHoldsOnEveryNode(t *testing.T) {
	t.Parallel()
	setup := withSandbox(t)
	nodes := testnode.Nodes(t, 2, setup)
	owner := nodes[0].NewOrg(t, unlimited)
	mine, other := connected(t, nodes[0], owner), connected(t, nodes[0], owner)
	key := nodes[0].Mint(t, owner.Key)
	change := func(body map[string]any) {
		t.Helper()
		if r := nodes[0].Call(t, http.MethodPatch, "/v1/me/keys/"+key.KeyID, owner.Key, body); r.Status != http.StatusOK {
			t.Fatalf("change: %d %s", r.Status, r.Body)
		}
	}
	chats := "/v1/accounts/" + mine + "/chats/list"
	nowhere := []string{"203.0.113.0/24"}
	for i, step := range []struct {
		change map[string]any
		path   string
		want   string // empty for a call that succeeds
	}{
		{map[string]any{"label": "same"}, chats, ""},
		{map[string]any{"methods": []string{"users.*"}}, chats, "method-not-allowed-for-key"},
		{map[string]any{"methods": []string{"chats.*"}}, chats, ""},
		{map[string]any{"accountIds": []string{other}}, chats, "account-not-allowed-for-key"},
		{map[string]any{"accountIds": []string{other, mine}}, chats, ""},
		{map[string]any{"allowedIps": nowhere}, chats, "ip-not-allowed"},
		{map[string]any{"allowedIps": []string{"127.0.0.0/8", "::1/128"}}, chats, ""},
		{map[string]any{"scopes": []string{"accounts:read", "sdk:call"}}, "/v1/me/usage", "scope-missing"},
	} {
		change(step.change)
		for n, node := range nodes {
			if r := node.Call(t, http.MethodGet, step.path, key.Key, nil); r.Code() != step.want || step.want == "" && r.Status != http.StatusOK {
				t.Errorf("step %d on node %d: %d %s, want %q", i, n, r.Status, r.Body, step.want)
			}
		}
	}
	for _, step := range []struct {
		change map[string]any
		want   string
	}{
		{map[string]any{"accountIds": []string{mine}}, "retry: 100"},
		{map[string]any{"allowedIps": nowhere}, `"code":"ip-not-allowed"`},
	} {
		lines := openStream(t, nodes[1], key.Key)
		change(step.change)
		if end := lines(); !strings.Contains(end, step.want) {
			t.Errorf("after %v the stream ended with %q, want %s", step.change, end, step.want)
		}
	}
}

// openStream opens the stream of an org, and returns a function that waits until it has ended and returns its text.
func openStream(t *testing.T, n *testnode.Node, key string) func() string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.URL+"/v1/events", nil)
	must.OK(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Accept", "text/event-stream")
	r, err := http.DefaultClient.Do(req)
	must.OK(t, err)
	t.Cleanup(func() { _ = r.Body.Close() })
	if r.StatusCode != http.StatusOK {
		t.Fatalf("open a stream: %d", r.StatusCode)
	}
	lines := bufio.NewScanner(r.Body)
	if !lines.Scan() {
		t.Fatal("the stream has no beginning")
	}
	return func() string {
		var text strings.Builder
		for lines.Scan() {
			text.WriteString(lines.Text() + "\n")
		}
		return text.String()
	}
}
