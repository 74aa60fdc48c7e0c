package api_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// Every kind of event that the platform emits arrives on the stream as the document describes it, stored or not.
func TestEveryEventOfThePlatformMatchesTheDocument(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, withSandbox(t))[0]
	owner := node.NewOrg(t, unlimited)
	account := connected(t, node, owner)
	missing := map[string]bool{}
	for _, kind := range sandboxCatalog(t).Events() {
		missing[kind.Kind] = true
	}
	delete(missing, "unknown") // what the platform sends and the manifest does not name; package driver tests it
	req := withHeader(t, http.MethodGet, node.URL+"/v1/accounts/"+account+"/events", owner.Key, nil, "Accept", "text/event-stream")
	res, err := http.DefaultTransport.RoundTrip(req)
	must.OK(t, err)
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text, isData := strings.CutPrefix(lines.Text(), "data: ")
		var e struct{ Event, ID string }
		if !isData || json.Unmarshal([]byte(text), &e) != nil {
			continue
		}
		if e.Event == "" { // The stream is open.
			for kind := range missing {
				r := node.Call(t, http.MethodPost, "/v1/sandbox/accounts/"+account+"/fire_event", owner.Key, map[string]any{"event": kind})
				if r.Status != http.StatusAccepted {
					t.Fatalf("fire %s: %d %s", kind, r.Status, r.Body)
				}
			}
			continue
		}
		testenv.CheckEvent(t, []byte(text))
		if delete(missing, e.Event); len(missing) == 0 {
			return
		}
	}
	t.Errorf("the stream ended (%v) without %v", lines.Err(), missing)
}

// Records the result of every method's example, for the examples of the document. Package driver tests the methods.
func TestRecordMethods(t *testing.T) {
	t.Parallel()
	if !testenv.IsRecording() {
		t.Skip("only scripts/record-examples needs it")
	}
	node := testnode.Nodes(t, 1, withSandbox(t))[0]
	owner := node.NewOrg(t, unlimited)
	reader := connectedAs(t, node, owner, "ok@sandbox.test")
	for i, m := range sandboxCatalog(t).Methods() {
		account := reader
		if m.Access == catalog.Write {
			account = connectedAs(t, node, owner, "ok+"+strconv.Itoa(i)+"@sandbox.test")
		}
		creator := node.Call(t, http.MethodGet, "/v1/accounts/"+account, owner.Key, nil).JSON()["account"].(map[string]any)["ofUserId"].(string)
		args := strings.ReplaceAll(string(m.Example), "343826782", creator)
		r := node.Call(t, http.MethodPost, "/v1/accounts/"+account+"/"+m.Resource+"/"+m.Name, owner.Key, json.RawMessage(args))
		if r.Status != http.StatusOK {
			t.Errorf("%s: %d %s", m.ID(), r.Status, r.Body)
		}
		testenv.Record(map[string]any{"sdk": m.ID(), "creator": creator, "body": json.RawMessage(r.Body)})
	}
}

func connectedAs(t *testing.T, node *testnode.Node, owner testnode.Org, login string) string {
	t.Helper()
	reply := held(t, node, owner.Key, "/v1/connect/login", map[string]any{"email": login, "password": "good"})
	account, _ := reply.JSON()["account_id"].(string)
	if account == "" {
		t.Fatalf("connect %s: %d %s", login, reply.Status, reply.Body)
	}
	return account
}
