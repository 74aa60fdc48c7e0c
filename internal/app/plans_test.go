package app_test

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/app"
	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// A running node takes over a changed file of plans, for callers, operators and readers of the documentation. An invalid
// file changes nothing, and the metrics say so.
func TestPlansFileIsReread(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plans.json")
	write := func(callsPerMinute string) {
		t.Helper()
		text := strings.ReplaceAll(`{"plans": [{"name": "sandbox", "limits": {LIMITS}}, {"name": "gold", "limits": {LIMITS}}]}`, "LIMITS",
			`"`+strings.Join(org.LimitNames(), `": 20, "`)+`": 20`)
		text = strings.ReplaceAll(text, `"callsPerMonth": 20`, `"callsPerMonth": 2000`) // the test itself makes many calls
		must.OK(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, `"callsPerMinute": 20`, `"callsPerMinute": `+callsPerMinute)), 0o600))
	}
	write("1234567")
	node := testnode.Nodes(t, 1, testnode.Setup{Configure: func(c *config.Config) { c.PlansFile = file }})[0]
	made := node.Operate(t, http.MethodPost, "/admin/v1/orgs", map[string]any{"name": "A", "plan": "gold", "environment": "sandbox", "contactEmail": "a@b.test"})
	if made.Status != http.StatusCreated {
		t.Fatalf("%d %s", made.Status, made.Body)
	}
	key, _ := made.JSON()["key"].(map[string]any)["key"].(string)
	var last [3]bool // the caller, operators, readers
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the caller, operators and readers see the plans: %v", last)
		}
	})
	sees := func(limit float64, words string) func() bool {
		return func() bool {
			me := node.Call(t, http.MethodGet, "/v1/me", key, nil).JSON()
			limits, _ := me["limits"].(map[string]any)
			plans := node.Operate(t, http.MethodGet, "/admin/v1/plans", nil)
			page := node.Call(t, http.MethodGet, "/docs/limits.md", "", nil)
			last = [3]bool{
				limits["callsPerMinute"] == limit, strings.Contains(string(plans.Body), strings.ReplaceAll(words, ",", "")),
				strings.Contains(string(page.Body), "| "+words+" |") && strings.Contains(string(page.Body), " gold |"),
			}
			return last == [3]bool{true, true, true}
		}
	}
	if !sees(1234567, "1,234,567")() {
		t.Error("the node does not start with the plans of the file")
	}
	write("0")
	testenv.Await(t, "the refusal is counted", func() bool {
		return strings.Contains(string(node.Operate(t, http.MethodGet, "/metrics", nil).Body), `stagedoor_config_file_refused{setting="STAGEDOOR_PLANS_FILE"} 1`)
	})
	if !sees(1234567, "1,234,567")() {
		t.Error("a refused file has changed the plans")
	}
	write("7654321")
	testenv.Await(t, "the file takes effect", sees(7654321, "7,654,321"))
}

// A node does not start with an invalid file of plans, and says which limit is wrong.
func TestInvalidPlansStopTheStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plans.json")
	must.OK(t, os.WriteFile(file, []byte(`{"plans": [{"name": "sandbox", "limits": {}}]}`), 0o600))
	nowhere := "127.0.0.1:1"
	_, err := app.NewNode(t.Context(), config.Config{
		Database: secret.New("postgres://" + nowhere + "/none"), Redis: secret.New("redis://" + nowhere), NATS: secret.New("nats://" + nowhere),
		PublicURL: "http://stagedoor.test", MaxConns: 4, EgressMaxIdle: 1, Roles: []string{"api"}, Regions: []string{"us"}, PlansFile: file,
	}, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "STAGEDOOR_PLANS_FILE ("+file+"): plan sandbox: limits.accountReadPerMinute is missing") {
		t.Error(err)
	}
}
