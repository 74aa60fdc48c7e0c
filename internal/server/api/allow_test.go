package api_test

import (
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

func mintWith(t *testing.T, n *testnode.Node, key string, limits map[string]any) string {
	t.Helper()
	body := map[string]any{"label": "limited"}
	maps.Copy(body, limits)
	r := n.Call(t, http.MethodPost, "/v1/me/keys", key, body)
	minted, _ := r.JSON()["key"].(string)
	if minted == "" {
		t.Fatalf("mint: %d %s", r.Status, r.Body)
	}
	return minted
}

var (
	parameter  = regexp.MustCompile(`\{[^}]+\}`)
	nextCursor = regexp.MustCompile(`"nextCursor":"[^"]*"`)
)

// A key that is limited to one account cannot reach another one: every operation refuses it, and no list shows it.
func TestNoWayAroundTheAccountsOfAKey(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, withSandbox(t))[0]
	owner := node.NewOrg(t, unlimited)
	mine, other := connected(t, node, owner), connected(t, node, owner)
	attempt, _ := held(t, node, owner.Key, "/v1/connect/mobile", map[string]any{"account_id": other}).JSON()["attempt_id"].(string)
	session, _ := node.Call(t, http.MethodPost, "/v1/connect/sessions", owner.Key, map[string]any{"account_id": other}).JSON()["session"].(map[string]any)
	link, _ := session["id"].(string)
	if attempt == "" || link == "" {
		t.Fatal("no attempt or no link")
	}
	key := mintWith(t, node, owner.Key, map[string]any{"accountIds": []string{mine}})
	event, delivery := happenedTo(t, node, owner.Key, other), triedOn(t, node, owner.Key, other)
	foreign := map[string]string{"login": attempt, "attempts": attempt, "sessions": link, "events": event, "deliveries": delivery}
	cases := 0
	for _, op := range node.App.API().Operations() {
		path := op.Path
		switch named := len(endpoint.Parameters(path)) > 0; {
		case op.Public:
			continue
		case op.Account != "":
			for _, account := range []string{other, string(id.New[id.Account]())} {
				cases++
				path := parameter.ReplaceAllString(strings.Replace(op.Path, "{"+op.Account+"}", account, 1), "x")
				if r := ask(t, node, op, path, key); r.Status != http.StatusForbidden || r.Code() != "account-not-allowed-for-key" {
					t.Errorf("%s of another account: %d %s", op.ID, r.Status, r.Body)
				}
			}
		case named && strings.Contains(path, "/accounts/{"):
			t.Errorf("%s has an account in its path but does not declare it", op.ID)
		case named && foreign[segment(path)] != "":
			cases++
			if r := ask(t, node, op, parameter.ReplaceAllString(path, foreign[segment(path)]), key); r.Status != http.StatusNotFound {
				t.Errorf("%s of another account: %d %s", op.ID, r.Status, r.Body)
			}
		case !named && op.Method == http.MethodGet:
			cases++
			r := ask(t, node, op, path, key)
			// The cursor of the org's stream contains the id of the last event that was skipped. It reveals nothing else.
			shown := nextCursor.ReplaceAllString(string(r.Body), "")
			for _, what := range []string{other, attempt, link, event, delivery} {
				if strings.Contains(shown, what) {
					t.Errorf("%s shows %s of another account", op.ID, what)
				}
			}
		}
	}
	if r := node.Call(t, http.MethodGet, "/v1/accounts/"+mine, key, nil); r.Status != http.StatusOK {
		t.Errorf("its own account: %d %s", r.Status, r.Body)
	}
	t.Logf("%d cases", cases)
}

// The catalogue shows a key only what it may call, in every format, and its ETag changes only with that.
func TestTheCatalogueIsTheKeysOwn(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, withSandbox(t))[0]
	owner := node.NewOrg(t, unlimited)
	limited := mintWith(t, node, owner.Key, map[string]any{"methods": []string{"chats.*", "payouts.*", "!chats.get", "!sensitive"}})
	same := mintWith(t, node, limited, map[string]any{"methods": []string{"!chats.get", "!users.*"}})
	for _, format := range []string{"compact", "full", "openapi", "mcp"} {
		path := "/v1/sdk/methods?format=" + format
		whole, part, again := node.Call(t, http.MethodGet, path, owner.Key, nil), node.Call(t, http.MethodGet, path, limited, nil), node.Call(t, http.MethodGet, path, same, nil)
		if part.Status != http.StatusOK || len(part.Body) >= len(whole.Body) || part.Header.Get("ETag") == whole.Header.Get("ETag") {
			t.Errorf("%s: %d bytes of %d, %s", format, len(part.Body), len(whole.Body), part.Header.Get("ETag"))
		}
		if again.Header.Get("ETag") != part.Header.Get("ETag") {
			t.Errorf("%s: keys with the same rights get the tags %s and %s", format, again.Header.Get("ETag"), part.Header.Get("ETag"))
		}
		held, err := testnode.Send(withHeader(t, http.MethodGet, node.URL+path, limited, nil, "If-None-Match", part.Header.Get("ETag")))
		if err != nil || held.Status != http.StatusNotModified {
			t.Errorf("%s: %d %v", format, held.Status, err)
		}
	}
	list, _ := node.Call(t, http.MethodGet, "/v1/sdk/methods", limited, nil).JSON()["methods"].([]any)
	for _, one := range list {
		m, _ := one.(map[string]any)
		if resource := m["resource"]; resource != "chats" && resource != "payouts" || m["method"] == "get" && resource == "chats" || m["sensitive"] == true {
			t.Errorf("the catalogue shows %v.%v", m["resource"], m["method"])
		}
	}
	if len(list) < 2 {
		t.Errorf("the catalogue shows %d methods", len(list))
	}
}

// The month's usage has the outcomes of connect attempts and the states of accounts.
func TestUsageCountsAttemptsAndAccounts(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, withSandbox(t))[0]
	owner := node.NewOrg(t, map[string]int{"maxAccounts": 3})
	account := connected(t, node, owner)
	held(t, node, owner.Key, "/v1/connect/login", map[string]any{"email": "ok+" + random(t) + "@sandbox.test", "password": "bad"})
	node.Call(t, http.MethodPost, "/v1/accounts/"+account+"/pause", owner.Key, nil)
	want := []string{`"accounts":{"connected":1,"limit":3,"byState":{"paused":1}}`, `"connect":{"started":2,"succeeded":1,"failed":1}`}
	testenv.Await(t, "the usage shows both", func() bool {
		r := node.Call(t, http.MethodGet, "/v1/me/usage", owner.Key, nil)
		return strings.Contains(string(r.Body), want[0]) && strings.Contains(string(r.Body), want[1])
	})
}
