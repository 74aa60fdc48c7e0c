package testenv

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Cluster is a cluster of NATS servers with JetStream for one test.
type Cluster struct {
	// Nodes can be killed and started again separately. Their names are n0, n1 and so on.
	Nodes []*Store
	// URL lists all servers.
	URL secret.String

	t        testing.TB
	monitors []string // addresses of the HTTP monitoring
}

// NATSCluster starts a cluster of n servers that sync to disk before they acknowledge, and waits until it is ready.
func NATSCluster(t testing.TB, n int) *Cluster {
	t.Helper()
	dirs := make([]string, n)
	for i := range dirs {
		dirs[i] = t.TempDir()
	}
	return NATSClusterIn(t, dirs)
}

// NATSClusterIn starts a cluster with a server in each folder. Clients use only the addresses that they are given, so
// that a test can place links in front of the servers.
func NATSClusterIn(t testing.TB, dirs []string) *Cluster {
	t.Helper()
	requireEngines(t)
	n := len(dirs)
	binary := Path(t, ".dev", "bin", "nats-server")
	clients, routes := make([]string, n), make([]string, n)
	c := &Cluster{t: t}
	for i := range n {
		clients[i], routes[i] = FreePort(t), FreePort(t)
		c.monitors = append(c.monitors, FreePort(t))
	}
	var urls []string
	for i, dir := range dirs {
		config := filepath.Join(dir, "nats.conf")
		text := fmt.Sprintf(`server_name: n%d
listen: %q
http: %q
jetstream { store_dir: %q, sync_interval: always, max_file_store: 2GB, max_memory_store: 64MB }
cluster { name: test, no_advertise: true, listen: %q, routes: ["nats://%s"] }
`, i, clients[i], c.monitors[i], dir, routes[i], strings.Join(routes, `", "nats://`))
		must.OK(t, os.WriteFile(config, []byte(text), 0o600))
		p := StartProcess(t, clients[i], func() *exec.Cmd { return exec.Command(binary, "-c", config) })
		url := "nats://" + clients[i]
		urls = append(urls, url)
		c.Nodes = append(c.Nodes, &Store{p, secret.New(url), dir})
	}
	c.URL = secret.New(strings.Join(urls, ","))
	for i := range n {
		c.Ready(i)
	}
	return c
}

// Ready waits until a server is healthy and in sync with the others.
func (c *Cluster) Ready(node int) {
	c.t.Helper()
	over, client := time.After(60*time.Second), &http.Client{Timeout: time.Second}
	var reason []byte
	for {
		resp, err := client.Get("http://" + c.monitors[node] + "/healthz")
		if err == nil {
			reason, _ = io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-over:
			c.t.Fatalf("server n%d of the cluster is not ready: %v %s\n%s", node, err, reason, c.Nodes[node].output)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Node returns a server and its index by its name.
func (c *Cluster) Node(name string) (*Store, int) {
	c.t.Helper()
	for i := range c.Nodes {
		if name == fmt.Sprintf("n%d", i) {
			return c.Nodes[i], i
		}
	}
	c.t.Fatalf("there is no server %q", name)
	return nil, 0
}
