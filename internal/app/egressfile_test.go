package app_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// A running node takes over a changed file of proxies: a region that is added can be used, a proxy can be replaced, and no
// call on an account fails meanwhile. An invalid file changes nothing, and no log line has an address.
func TestEgressFileIsReread(t *testing.T) {
	t.Parallel()
	_, setup := testnode.Sandbox(t, nil)
	first, second, added := testenv.NewProxy(t, "127.0.1.1"), testenv.NewProxy(t, "127.0.1.1"), testenv.NewProxy(t, "127.0.2.1")
	file := filepath.Join(t.TempDir(), "egress")
	write := func(text string) {
		t.Helper()
		next := file + ".next"
		must.OK(t, os.WriteFile(next, []byte(text), 0o600))
		must.OK(t, os.Rename(next, file))
	}
	write("us=" + first.URL() + "\n")
	log := &sink{}
	setup.Log, setup.Egress = log, secret.String{}
	setup.Configure = func(c *config.Config) { c.EgressFile, c.Regions = file, []string{"us"} }
	node := testnode.Nodes(t, 1, setup)[0]
	owner := node.NewOrg(t, map[string]int{"callsPerMinute": -1, "accountReadPerMinute": -1})
	account := node.ConnectLogin(t, owner.Key, "ok+1@sandbox.test", "us")

	var calls atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			r, err := testnode.Do(t.Context(), http.MethodGet, node.URL+"/v1/accounts/"+account+"/me", owner.Key, nil)
			if err != nil || r.Status != http.StatusOK {
				t.Errorf("a call during the change: %d %s %v", r.Status, r.Body, err)
			}
			calls.Add(1)
		}
	}()
	shown := func() string { return string(node.Operate(t, http.MethodGet, "/admin/v1/egress", nil).Body) }
	write("us=" + first.URL() + " de=ftp://secret-user:secret-password@10.9.8.7:1\n")
	testenv.Await(t, "the refusal is counted", func() bool {
		return strings.Contains(string(node.Operate(t, http.MethodGet, "/metrics", nil).Body), `stagedoor_config_file_refused{setting="STAGEDOOR_EGRESS_FILE"} 1`)
	})
	if r := node.Call(t, http.MethodGet, "/v1/me", owner.Key, nil); strings.Contains(string(r.Body), `"de"`) || strings.Contains(shown(), `"de"`) {
		t.Errorf("a refused file adds a region: %s", r.Body)
	}
	write("us=" + first.URL() + "," + second.URL() + " de=" + added.URL() + "\n")
	testenv.Await(t, "the region is added", func() bool {
		return strings.Contains(string(node.Call(t, http.MethodGet, "/v1/me", owner.Key, nil).Body), `"de"`)
	})
	node.ConnectLogin(t, owner.Key, "ok+2@sandbox.test", "de")
	write("us=" + second.URL() + " de=" + added.URL() + "\n")
	testenv.Await(t, "the proxy is removed", func() bool { return strings.Count(shown(), `"proxy":`) == 2 })
	before := calls.Load()
	testenv.Await(t, "calls through the other proxy", func() bool { return calls.Load() > before+3 })
	close(stop)
	<-stopped
	text := log.String()
	for _, bad := range []string{"secret-user", "secret-password", "10.9.8.7", strings.TrimPrefix(second.URL(), "http://")} {
		if strings.Contains(text, bad) {
			t.Errorf("the log contains %s", bad)
		}
	}
	if !strings.Contains(text, `"msg":"egress region changed"`) || !strings.Contains(text, "proxy 1 of region de has a scheme") {
		t.Error("the log does not say what changed")
	}
}
