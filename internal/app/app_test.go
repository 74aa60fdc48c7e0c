package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/app"
	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
	"github.com/stagedoor/stagedoor/version"
)

// run runs one command line.
func run(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = app.Main(t.Context(), args, environ, &out, &errs)
	return code, out.String(), errs.String()
}

// A server with an invalid configuration does not start, and lists everything that is missing.
func TestServeSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	code, _, stderr := run(t, []string{"STAGEDOOR_LISTN=:1"}, "serve")
	if code == 0 || !strings.Contains(stderr, "DATABASE_URL is not set") || !strings.Contains(stderr, "did you mean STAGEDOOR_LISTEN?") {
		t.Errorf("%d\n%s", code, stderr)
	}
	if code, _, stderr := run(t, nil, "serve", "--roles", "cook"); code == 0 || !strings.Contains(stderr, `"cook"`) {
		t.Errorf("%d\n%s", code, stderr)
	}
}

// The list of settings is complete and shows no secret, even if some settings are invalid.
func TestConfigListsAndMasks(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := run(t, []string{"DATABASE_URL=postgres://u:hunter2@h/x", "STAGEDOOR_LOG_LEVEL=loud"}, "config")
	if code == 0 || !strings.Contains(stderr, "STAGEDOOR_LOG_LEVEL") {
		t.Errorf("%d\n%s", code, stderr)
	}
	if strings.Contains(stdout+stderr, "hunter2") || !strings.Contains(stdout, "DATABASE_URL") || !strings.Contains(stdout, "(set)") || !strings.Contains(stdout, "STAGEDOOR_REDIS_TIMEOUT") {
		t.Error(stdout)
	}
}

// An empty database is migrated, and a migrated one is not changed.
func TestMigrate(t *testing.T) {
	t.Parallel()
	environ := []string{"DATABASE_URL=" + testenv.EmptyDatabase(t).Reveal()}
	if code, stdout, stderr := run(t, environ, "migrate"); code != 0 || !strings.Contains(stdout, "applied 0001_org.sql") || !strings.Contains(stdout, "applied river") {
		t.Errorf("%d\n%s%s", code, stdout, stderr)
	}
	if code, stdout, _ := run(t, environ, "migrate"); code != 0 || !strings.Contains(stdout, "up to date") {
		t.Errorf("%d\n%s", code, stdout)
	}
	if code, _, stderr := run(t, nil, "migrate"); code == 0 || !strings.Contains(stderr, "DATABASE_URL") {
		t.Errorf("%d\n%s", code, stderr)
	}
}

// The commands do what the admin API does, and print its problems.
func TestAdminCommands(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, testnode.Setup{})[0]
	environ := []string{"STAGEDOOR_INTERNAL_URL=" + node.Internal, "STAGEDOOR_ADMIN_TOKEN=" + testnode.AdminToken}
	code, key, stderr := run(t, environ, "admin", "org", "create", "--name", "Acme", "--plan", "starter", "--environment", "sandbox",
		"--email", "ops@acme.test", "--limit", "callsPerMinute=50", "--print-key")
	if code != 0 || !strings.HasPrefix(key, "sd_sandbox_") {
		t.Fatalf("%d %s %s", code, key, stderr)
	}
	me := node.Call(t, http.MethodGet, "/v1/me", strings.TrimSpace(key), nil).JSON()
	if me["limits"].(map[string]any)["callsPerMinute"] != float64(50) {
		t.Errorf("%v", me)
	}
	id := me["org"].(map[string]any)["id"].(string)
	for _, args := range [][]string{
		{"admin", "org", "list", "--limit", "1"}, {"admin", "org", "show", id}, {"admin", "org", "update", id, "--plan", "growth"},
		{"admin", "org", "update", id, "--suspend", "--reason", "unpaid"}, {"admin", "org", "update", id, "--resume"},
		{"admin", "key", "issue", id, "--scope", "me:read"}, {"admin", "nodes"}, {"admin", "plans"},
	} {
		code, stdout, stderr := run(t, environ, args...)
		if code != 0 || !json.Valid([]byte(stdout)) {
			t.Errorf("%v: %d %s %s", args, code, stdout, stderr)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"admin org show org_nothing", "org-not-found"},
		{"admin org create --name X --email nobody --plan gold", "/plan"},
		{"admin org create --name X --email a@b.test --limit callsPerMinute", "name=number"},
		{"admin org create --email a@b.test", "name"},
	} {
		if code, _, stderr := run(t, environ, strings.Fields(c.args)...); code == 0 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: %d %s", c.args, code, stderr)
		}
	}
	if code, _, stderr := run(t, environ[:1], "admin", "nodes"); code == 0 || !strings.Contains(stderr, "STAGEDOOR_ADMIN_TOKEN") {
		t.Errorf("%d %s", code, stderr)
	}
	// The first token of a file is sent, as during a rotation.
	file := filepath.Join(t.TempDir(), "tokens")
	must.OK(t, os.WriteFile(file, []byte("# new\n"+testnode.AdminToken+"\n"+strings.Repeat("old-", 10)+"\n"), 0o600))
	if code, _, stderr := run(t, []string{environ[0], "STAGEDOOR_ADMIN_TOKEN_FILE=" + file}, "admin", "nodes"); code != 0 {
		t.Errorf("%d %s", code, stderr)
	}
}

// Readiness names each dependency. A node without Redis or NATS is ready but degraded; one without its database, or
// with an old schema, is not ready.
func TestReadyz(t *testing.T) {
	t.Parallel()
	nowhere := secret.New("redis://127.0.0.1:1")
	for name, c := range map[string]struct {
		setup  testnode.Setup
		status int
		states map[string]string
	}{
		"whole":       {testnode.Setup{}, http.StatusOK, map[string]string{"postgres": "up", "redis": "up", "nats": "up", "schema": "up"}},
		"no redis":    {testnode.Setup{Redis: nowhere, NATS: secret.New("nats://127.0.0.1:1")}, http.StatusOK, map[string]string{"postgres": "up", "redis": "degraded", "nats": "degraded", "schema": "up"}},
		"no database": {testnode.Setup{Database: secret.New("postgres://127.0.0.1:1/x")}, http.StatusServiceUnavailable, map[string]string{"postgres": "down", "schema": "down", "redis": "up"}},
		"no egress":   {testnode.Setup{Egress: secret.New("us=http://127.0.0.1:1 uk=" + testenv.NewProxy(t, "127.0.2.1").URL())}, http.StatusOK, map[string]string{"postgres": "up", "egress_us": "degraded", "egress_uk": "up"}},
		"old schema":  {testnode.Setup{Database: testenv.EmptyDatabase(t)}, http.StatusServiceUnavailable, map[string]string{"postgres": "up", "schema": "down"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := testnode.Nodes(t, 1, c.setup)[0]
			var r testnode.Reply
			// NATS connects in the background, and a proxy is down when two checks, five seconds apart, have failed.
			for deadline := time.Now().Add(2 * time.Minute); ; {
				r = node.Operate(t, http.MethodGet, "/readyz", nil)
				if wrong := difference(r, c.states); wrong == "" && r.Status == c.status {
					break
				} else if time.Now().After(deadline) {
					t.Fatalf("%d %s: %s", r.Status, r.Body, wrong)
				}
				<-time.After(20 * time.Millisecond)
			}
			if h := node.Operate(t, http.MethodGet, "/healthz", nil); h.Status != http.StatusOK {
				t.Errorf("not healthy: %d", h.Status)
			}
		})
	}
}

// When the database fails over, the nodes stay in the load balancer: calls with a cached key go on, and the others get our
// problem. A node that alone does not reach the database leaves.
func TestNodesStayIfNoneReachesTheDatabase(t *testing.T) {
	t.Parallel()
	server := testenv.PrivatePostgres(t, io.Discard)
	links := []*testenv.Switch{testenv.NewSwitch(t, server), testenv.NewSwitch(t, server)}
	started := 0
	nodes := testnode.Nodes(t, len(links), testnode.Setup{Database: server.URL, Configure: func(c *config.Config) {
		c.Database = testenv.AsService(links[started].URL)
		started++
	}})
	await := func(node *testnode.Node, status int, states map[string]string) {
		t.Helper()
		testenv.Await(t, fmt.Sprint(status, " and ", states), func() bool {
			r := node.Operate(t, http.MethodGet, "/readyz", nil)
			return r.Status == status && difference(r, states) == ""
		})
	}
	for _, node := range nodes {
		await(node, http.StatusOK, map[string]string{"postgres": "up", "nats": "up", "schema": "up"})
	}
	known := nodes[0].NewOrg(t, nil)
	cold := nodes[0].Mint(t, known.Key)
	if r := nodes[0].Call(t, http.MethodGet, "/v1/me", known.Key, nil); r.Status != http.StatusOK {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	links[0].Cut()
	await(nodes[0], http.StatusServiceUnavailable, map[string]string{"postgres": "down"})
	await(nodes[1], http.StatusOK, map[string]string{"postgres": "up"})
	links[1].Cut()
	for _, node := range nodes {
		await(node, http.StatusOK, map[string]string{"postgres": "degraded"})
	}
	for key, want := range map[string]int{known.Key: http.StatusOK, cold.Key: http.StatusServiceUnavailable} {
		if r := nodes[0].Call(t, http.MethodGet, "/v1/me", key, nil); r.Status != want || want != http.StatusOK && r.Code() != "service-unavailable" {
			t.Errorf("%d %s", r.Status, r.Body)
		}
	}
	for i, node := range nodes {
		links[i].To(server)
		await(node, http.StatusOK, map[string]string{"postgres": "up"})
	}
}

func difference(r testnode.Reply, states map[string]string) string {
	checks, _ := r.JSON()["checks"].(map[string]any)
	for name, want := range states {
		if got, _ := checks[name].(map[string]any)["state"].(string); got != want {
			return name + " is " + got + ", want " + want
		}
	}
	return ""
}

// The internal listener has what operators need, and answers unknown paths with a problem.
func TestInternalListener(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, testnode.Setup{})[0]
	for path, want := range map[string]string{
		"/metrics": "stagedoor_admission_degraded", "/debug/pprof/": "goroutine", "/debug/pprof/cmdline": "app.test", "/nothing": "route-not-found",
	} {
		if r := node.Operate(t, http.MethodGet, path, nil); !strings.Contains(string(r.Body), want) {
			t.Errorf("%s: %d %.200s", path, r.Status, r.Body)
		}
	}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/healthz", "/admin/v1/orgs"} {
		if r := node.Call(t, http.MethodGet, path, testnode.AdminToken, nil); r.Status != http.StatusNotFound || r.Code() != "route-not-found" {
			t.Errorf("%s in public: %d %s", path, r.Status, r.Body)
		}
	}
}

// A node reports the same version everywhere.
func TestNodeReportsItsVersion(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, testnode.Setup{})[0]
	var nodes []any
	for deadline := time.Now().Add(2 * time.Minute); len(nodes) == 0; <-time.After(20 * time.Millisecond) { // until it registers
		nodes, _ = node.Operate(t, http.MethodGet, "/admin/v1/nodes", nil).JSON()["nodes"].([]any)
		if len(nodes) == 0 && time.Now().After(deadline) {
			t.Fatal("the node has not registered")
		}
	}
	for where, got := range map[string]any{
		"/healthz":        node.Operate(t, http.MethodGet, "/healthz", nil).JSON()["version"],
		"/admin/v1/me":    node.Operate(t, http.MethodGet, "/admin/v1/me", nil).JSON()["version"],
		"/admin/v1/nodes": nodes[0].(map[string]any)["version"],
	} {
		if got != version.String() {
			t.Errorf("%s says %v; want %s", where, got, version.String())
		}
	}
	want := fmt.Sprintf("stagedoor_build_info{commit=%q,go_version=%q,version=%q} 1", version.Get().Commit, runtime.Version(), version.String())
	if r := node.Operate(t, http.MethodGet, "/metrics", nil); !strings.Contains(string(r.Body), want) {
		t.Errorf("/metrics lacks %s", want)
	}
	if code, stdout, _ := run(t, nil, "version"); code != 0 || stdout != "stagedoord version "+version.Get().String()+"\n" {
		t.Errorf("stagedoord version: %d %s", code, stdout)
	}
}

// health fails while the node is not ready; with --wait it asks until it is.
func TestHealthWaitsUntilTheNodeIsReady(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte("checks"))
	}))
	t.Cleanup(node.Close)
	environ := []string{"STAGEDOOR_INTERNAL_LISTEN=" + node.Listener.Addr().String()}
	if code, stdout, stderr := run(t, environ, "health"); code != 1 || stdout != "checks\n" || !strings.Contains(stderr, "not ready: status 503") {
		t.Errorf("%d\n%s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := run(t, environ, "health", "--wait", "10m"); code != 0 || stdout != "checks\n" || asked.Load() != 3 {
		t.Errorf("%d, asked %d times\n%s%s", code, asked.Load(), stdout, stderr)
	}
}
