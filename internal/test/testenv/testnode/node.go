// Package testnode gives tests nodes of the product: in the test's process or as processes, their operators and browsers, and
// scripts of requests and the answers that they must have.
package testnode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/app"
	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

var (
	buildOnce sync.Once
	buildErr  error
)

// AdminToken is the operators' token of every test node.
const AdminToken = "test-admin-token-0123456789abcdef0123456789"

const ipHashKey = "test-ip-hash-key-0123456789abcdef0123456789"

// Setup says which engines nodes share. Empty fields get the shared engines and a database of their own.
type Setup struct {
	// Egress are proxies by region, as in STAGEDOOR_EGRESS; none if empty.
	Egress secret.String
	// Sandbox is the origin of the sandbox platform.
	Sandbox string
	// Keyset is a file with the key that wraps all others; one of the test's own if empty.
	Keyset                string
	Database, Redis, NATS secret.String
	// Roles are what the nodes do, as in STAGEDOOR_ROLES; all of api, worker and listener if empty.
	Roles []string
	// EventLog is jetstream or postgres. It is postgres by default: nodes of different tests share a NATS server.
	EventLog string
	// RedisTimeout is generous by default: on a busy test machine 25 ms would make nodes decide alone now and then.
	RedisTimeout time.Duration
	DrainDelay   time.Duration
	// Log gets everything, from debug on; OTLP is where traces go.
	Log  io.Writer
	OTLP string
	// Signup is open or closed, as in STAGEDOOR_SIGNUP; closed by default. OIDC are issuer, client and secret of an identity provider, and
	// PublicURL is where it sends browsers back to.
	Signup, PublicURL string
	OIDC              [3]string
	// Wrap is put in front of the command of a process, such as taskset -c 0; Env is added to its environment.
	Wrap, Env []string
}

func (s Setup) complete(t testing.TB) Setup {
	t.Helper()
	if s.Database.Empty() {
		s.Database = testenv.DatabaseURL(t)
	}
	if s.Redis.Empty() {
		s.Redis = testenv.Redis(t)
	}
	if s.NATS.Empty() {
		s.NATS = testenv.NATS(t)
	}
	if s.Keyset == "" {
		s.Keyset = filepath.Join(t.TempDir(), "keyset.json")
	}
	if len(s.Roles) == 0 {
		s.Roles = []string{"api", "worker", "listener"}
	}
	if s.EventLog == "" {
		s.EventLog = "postgres"
	}
	if s.Sandbox == "" {
		s.Sandbox = "http://127.0.0.1:18200"
	}
	if s.RedisTimeout == 0 {
		s.RedisTimeout = 5 * time.Second
	}
	if s.PublicURL == "" {
		s.PublicURL = "http://stagedoor.test"
	}
	return s
}

// Node is a running node of the product.
type Node struct {
	// URL is where customers call, Internal the internal listener.
	URL, Internal string
	// App is the object graph of a node in this process; nil for one that is a process.
	App *app.Node
	// Process is nil for a node in this process.
	Process *testenv.Process
}

// Nodes runs n nodes on the same engines, in this process but with nothing shared between them.
func Nodes(t testing.TB, n int, s Setup) []*Node {
	t.Helper()
	s = s.complete(t)
	nodes := make([]*Node, n)
	for i := range nodes {
		nodes[i] = inProcess(t, i, s)
	}
	return nodes
}

func inProcess(t testing.TB, i int, s Setup) *Node {
	t.Helper()
	level := slog.LevelDebug
	if s.Log == nil {
		s.Log, level = newTroubles(t), slog.LevelWarn
	}
	log := slog.New(slog.NewJSONHandler(s.Log, &slog.HandlerOptions{Level: level}))
	node, err := app.NewNode(t.Context(), config.Config{
		Database: s.Database, Redis: s.Redis, NATS: s.NATS, Roles: s.Roles, EventLog: s.EventLog, Node: fmt.Sprint("node-", i+1),
		Listen: "127.0.0.1:0", InternalListen: "127.0.0.1:0", PublicURL: s.PublicURL, AdminToken: secret.New(AdminToken),
		IPHashKey: secret.New(ipHashKey), Dev: true, MaxConns: 8, RedisTimeout: s.RedisTimeout, DrainDelay: s.DrainDelay, OTLPEndpoint: s.OTLP,
		Egress: s.Egress, EgressMaxIdle: 100, KMS: "local:" + s.Keyset, SandboxURL: s.Sandbox,
		Signup: s.Signup, OIDCIssuer: s.OIDC[0], OIDCClientID: s.OIDC[1], OIDCSecret: secret.New(s.OIDC[2]), OIDCName: "Test",
	}, log)
	if err != nil {
		t.Fatal(err)
	}
	listeners, err := node.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx, listeners) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("node %d: %v", i+1, err)
		}
	})
	return &Node{URL: "http://" + listeners.Public.Addr().String(), Internal: "http://" + listeners.Internal.Addr().String(), App: node}
}

// troubles keeps the newest lines of a node's log, and shows them if the test fails.
type troubles struct {
	mu    sync.Mutex
	lines []string
}

func newTroubles(t testing.TB) *troubles {
	t.Helper()
	w := &troubles{}
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if t.Failed() && len(w.lines) > 0 {
			t.Logf("the last warnings of the node:\n%s", strings.Join(w.lines, ""))
		}
	})
	return w
}

// Write implements io.Writer for a handler that writes a line at a time.
func (w *troubles) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lines) == 100 {
		w.lines = w.lines[1:]
	}
	w.lines = append(w.lines, string(line))
	return len(line), nil
}

// Processes runs n nodes as processes of the built server.
func Processes(t testing.TB, n int, s Setup) []*Node {
	t.Helper()
	s = s.complete(t)
	binary := build(t)
	nodes := make([]*Node, n)
	for i := range nodes {
		public, internal := testenv.FreePort(t), testenv.FreePort(t)
		node := &Node{URL: "http://" + public, Internal: "http://" + internal}
		node.Process = testenv.StartProcess(t, internal, func() *exec.Cmd {
			args := append(slices.Clone(s.Wrap), binary, "serve")
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = []string{
				"PATH=" + os.Getenv("PATH"), "DATABASE_URL=" + s.Database.Reveal(), "REDIS_URL=" + s.Redis.Reveal(), "NATS_URL=" + s.NATS.Reveal(),
				"STAGEDOOR_LISTEN=" + public, "STAGEDOOR_INTERNAL_LISTEN=" + internal, "STAGEDOOR_PUBLIC_URL=" + node.URL,
				"STAGEDOOR_ADMIN_TOKEN=" + AdminToken, "STAGEDOOR_IP_HASH_KEY=" + ipHashKey, "STAGEDOOR_DEV=true",
				"STAGEDOOR_NODE=" + fmt.Sprint("node-", i+1), "STAGEDOOR_REDIS_TIMEOUT=" + s.RedisTimeout.String(),
				"STAGEDOOR_DRAIN_DELAY=" + s.DrainDelay.String(), "STAGEDOOR_DATABASE_MAX_CONNS=8", "STAGEDOOR_LOG_FORMAT=json",
				"STAGEDOOR_KMS=local:" + s.Keyset, "STAGEDOOR_SANDBOX_URL=" + s.Sandbox, "STAGEDOOR_EGRESS=" + s.Egress.Reveal(),
				"STAGEDOOR_EVENT_LOG=" + s.EventLog, "STAGEDOOR_ROLES=" + strings.Join(s.Roles, ","),
			}
			cmd.Env = append(cmd.Env, s.Env...)
			out := s.Log
			if out == nil {
				out = io.Discard
			}
			cmd.Stdout, cmd.Stderr = out, out
			return cmd
		})
		node.awaitReady(t)
		nodes[i] = node
	}
	return nodes
}

func (n *Node) awaitReady(t testing.TB) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		if r, err := Do(t.Context(), http.MethodGet, n.Internal+"/readyz", "", nil); err == nil && r.Status == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not ready", n.Internal)
		}
		select {
		case <-n.Process.Exited():
			t.Fatalf("the node at %s ended while starting", n.Internal)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Reply is an answer, read to its end.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// JSON reads the body as an object; nil if it is none.
func (r Reply) JSON() map[string]any {
	var m map[string]any
	if json.Unmarshal(r.Body, &m) != nil {
		return nil
	}
	return m
}

// Code is the problem's code, if the answer is one.
func (r Reply) Code() string {
	code, _ := r.JSON()["code"].(string)
	return code
}

// client keeps connections, like a customer's would. It asks for compressed answers only where a test does.
var client = &http.Transport{MaxIdleConnsPerHost: 256, MaxIdleConns: 1024, DisableCompression: true}

// Do makes one request. A nil body sends none.
func Do(ctx context.Context, method, url, key string, body any) (Reply, error) {
	var payload io.Reader
	if raw, ok := body.([]byte); ok {
		payload = bytes.NewReader(raw)
	} else if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return Reply{}, err
		}
		payload = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, payload)
	if err != nil {
		return Reply{}, err
	}
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return Send(req)
}

// Send makes a request that was built by hand.
func Send(req *http.Request) (Reply, error) {
	res, err := client.RoundTrip(req)
	if err != nil {
		return Reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return Reply{res.StatusCode, res.Header, text}, err
}

// Call makes one request to the public listener and fails the test if there is no answer.
func (n *Node) Call(t testing.TB, method, path, key string, body any) Reply {
	t.Helper()
	r, err := Do(t.Context(), method, n.URL+path, key, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// Operate makes one request to the admin API.
func (n *Node) Operate(t testing.TB, method, path string, body any) Reply {
	t.Helper()
	r, err := Do(t.Context(), method, n.Internal+path, AdminToken, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// Org is a fresh org and its first key.
type Org struct{ ID, Key, KeyID string }

// NewOrg makes an org through the admin API. limits overrides those of the scale plan.
func (n *Node) NewOrg(t testing.TB, limits map[string]int) Org {
	t.Helper()
	body := map[string]any{"name": "Test", "plan": "scale", "environment": "sandbox", "contactEmail": "ops@example.com"}
	if limits != nil {
		body["limits"] = limits
	}
	r := n.Operate(t, http.MethodPost, "/admin/v1/orgs", body)
	var made struct {
		Org struct{ ID string }
		Key struct{ ID, Key string }
	}
	if err := json.Unmarshal(r.Body, &made); err != nil || r.Status != http.StatusCreated {
		t.Fatalf("create org: %d %s", r.Status, r.Body)
	}
	return Org{made.Org.ID, made.Key.Key, made.Key.ID}
}

// Mint makes another key of an org.
func (n *Node) Mint(t testing.TB, key string, scopes ...string) Org {
	t.Helper()
	body := map[string]any{"label": "minted"}
	if len(scopes) > 0 {
		body["scopes"] = scopes
	}
	r := n.Call(t, http.MethodPost, "/v1/me/keys", key, body)
	if r.Status != http.StatusCreated {
		t.Fatalf("mint: %d %s", r.Status, r.Body)
	}
	made := r.JSON()
	return Org{Key: made["key"].(string), KeyID: made["id"].(string)}
}

// Restart starts a process again that has ended, and waits until it is ready.
func (n *Node) Restart(t testing.TB) {
	t.Helper()
	n.Process.Start()
	n.awaitReady(t)
}

// build compiles stagedoord once per test process.
func build(t testing.TB) string {
	t.Helper()
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	// Beside the tools, where Go's cache makes the second build a matter of a second.
	path := filepath.Join(root, ".dev", "test", "stagedoord")
	buildOnce.Do(func() {
		cmd := exec.CommandContext(context.Background(), "go", "build", "-o", path, "./cmd/stagedoord")
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			buildErr = fmt.Errorf("build stagedoord: %w\n%s", err, out)
		}
	})
	if buildErr != nil {
		t.Fatal(buildErr)
	}
	return path
}
