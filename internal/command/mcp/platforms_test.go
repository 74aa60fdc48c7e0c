package mcp_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/command/mcp"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// twoPlatforms is a fake of the API with the platforms sandbox and ghost. The id of an account ends with its platform,
// and a call returns its own path.
func twoPlatforms(_ context.Context, q mcp.Request) (mcp.Response, error) {
	methods := map[string][]string{"sandbox": {"me.get", "posts.create", "fans.list"}, "ghost": {"me.get", "posts.create", "members.list"}}
	body := map[string]any{"result": map[string]any{"path": q.Path, "dryRun": q.DryRun}}
	switch account, isAccount := strings.CutPrefix(q.Path, "/v1/accounts/"); {
	case q.Path == "/v1/platforms":
		body = map[string]any{"platforms": []any{map[string]any{"id": "sandbox", "name": "Sandbox"}, map[string]any{"id": "ghost", "name": "Ghost"}}}
	case q.Path == "/v1/sdk/methods":
		list := []any{}
		for _, title := range methods[q.Query.Get("platform")] {
			list = append(list, map[string]any{
				"name": strings.Replace(title, ".", "_", 1), "title": title, "description": "Does " + title + ".",
				"inputSchema": map[string]any{"type": "object", "properties": map[string]any{"accountId": map[string]any{"type": "string"}}, "required": []string{"accountId"}},
				"annotations": map[string]any{"readOnlyHint": title != "posts.create"},
			})
		}
		body = map[string]any{"tools": list}
	case isAccount && q.Method == http.MethodGet:
		_, platform, _ := strings.Cut(account, "_")
		body = map[string]any{"account": map[string]any{"id": account, "platform": platform, "state": "active"}}
	}
	text, err := json.Marshal(body)
	return mcp.Response{Status: http.StatusOK, Body: text}, err
}

func newServer(t *testing.T, o mcp.Options) *mcp.Server {
	t.Helper()
	server, err := mcp.New(t.Context(), mcp.Deps{Call: twoPlatforms, Version: "test", Log: slog.New(slog.DiscardHandler)}, o)
	must.OK(t, err)
	return server
}

// The tools are those of the platforms in use. The platform is in the name of a tool only if two of them have it.
func TestToolsOfPlatforms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options mcp.Options
		want    []string
	}{
		"both":             {mcp.Options{AllowWrites: true}, []string{"fans_list", "ghost_me_get", "ghost_posts_create", "members_list", "sandbox_me_get", "sandbox_posts_create"}},
		"read-only":        {mcp.Options{}, []string{"fans_list", "ghost_me_get", "members_list", "sandbox_me_get"}},
		"an account":       {mcp.Options{Accounts: []string{"acct_ghost"}}, []string{"me_get", "members_list"}},
		"accounts of both": {mcp.Options{Accounts: []string{"acct_ghost", "acct_sandbox"}, Tools: []string{"me.*"}}, []string{"ghost_me_get", "sandbox_me_get"}},
		"a pattern":        {mcp.Options{Tools: []string{"*.list"}}, []string{"fans_list", "members_list"}},
		"of a platform":    {mcp.Options{Tools: []string{"ghost:me.*", "sandbox:members.*"}}, []string{"ghost_me_get"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := tools(t, overPipes(t, newServer(t, c.options)))
			for _, own := range []string{"list_accounts", "get_account", "list_events", "search_methods", "preview_write", "explain_problem"} {
				delete(all, own)
			}
			if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// A tool acts only on accounts of its platform, and a method whose name several platforms have is that of the account's.
func TestToolsActOnTheirPlatform(t *testing.T) {
	t.Parallel()
	session := overPipes(t, newServer(t, mcp.Options{AllowWrites: true}))
	use(t, session, false, "ghost_posts_create", map[string]any{"accountId": "acct_ghost"})
	refused, _ := use(t, session, true, "ghost_posts_create", map[string]any{"accountId": "acct_sandbox"})
	if !strings.Contains(refused, "wrong-platform") || !strings.Contains(refused, "sandbox_posts_create") {
		t.Errorf("a tool of Ghost on another platform: %s", refused)
	}
	refused, _ = use(t, session, true, "preview_write", map[string]any{"method": "ghost_posts_create", "accountId": "acct_sandbox"})
	if !strings.Contains(refused, "wrong-platform") {
		t.Errorf("a preview of a tool of Ghost on another platform: %s", refused)
	}
	for _, platform := range []string{"sandbox", "ghost"} {
		_, got := use(t, session, false, "preview_write", map[string]any{"method": "posts.create", "accountId": "acct_" + platform})
		if note, _ := got["note"].(string); got["accepted"] != true || !strings.Contains(note, "the tool "+platform+"_posts_create.") {
			t.Errorf("a preview on %s: %v", platform, got)
		}
	}
	_, found := use(t, session, false, "search_methods", map[string]any{"query": "ghost posts create"})
	if got := found["methods"].([]any)[0].(map[string]any); found["total"] != 1.0 || got["platform"] != "ghost" || got["call"] != "tool ghost_posts_create" {
		t.Errorf("search_methods: %v", found)
	}

	both := overPipes(t, newServer(t, mcp.Options{Accounts: []string{"acct_ghost", "acct_sandbox"}}))
	_, result := use(t, both, false, "members_list", nil) // the only account of Ghost is optional
	if path := result["result"].(map[string]any)["path"]; path != "/v1/accounts/acct_ghost/members/list" {
		t.Errorf("members_list without an account called %v", path)
	}
	_, listed := use(t, both, false, "list_accounts", map[string]any{"platform": "sandbox"})
	if got := listed["accounts"].([]any); len(got) != 1 || got[0].(map[string]any)["id"] != "acct_sandbox" {
		t.Errorf("accounts of the sandbox: %v", got)
	}
}
