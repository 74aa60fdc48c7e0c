// Package testnode starts nodes of the product for tests, inside the test process (Nodes) or as separate processes
// (Processes), and calls them as customers, operators and browsers do. It also runs scripts of requests and expected
// responses (RunScripts, script.go), and validates responses against the OpenAPI document (conform.go).
package testnode

import (
	"bytes"
	"cmp"
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
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/app"
	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// The server is built once per test process.
var (
	buildOnce sync.Once
	buildErr  error
)

// AdminToken is the token of operators on every test node.
const AdminToken = "test-admin-token-0123456789abcdef0123456789"

// publicURL is the default address of the nodes in links.
const publicURL = "http://stagedoor.test"

const ipHashKey = "test-ip-hash-key-0123456789abcdef0123456789"

// Setup configures the nodes of a test. Its zero value means the shared engines, a new database and the defaults below.
type Setup struct {
	// Egress lists proxies by region, as in STAGEDOOR_EGRESS. Default: none.
	Egress secret.String
	// Sandbox is the origin of the sandbox platform. Platforms lists the platforms, as in STAGEDOOR_PLATFORMS. Default:
	// only the sandbox.
	Sandbox, Platforms string
	// OAuth lists the OAuth clients of platforms, as in STAGEDOOR_OAUTH_CLIENTS. Default: none.
	OAuth secret.String
	// Site is the address of a creator's site, which scripts know as $SITE, and at which nodes accept plain http.
	Site string
	// Keyset is the file of the local key management service. Default: a new file of the test.
	Keyset string
	// Database, Redis and NATS are the addresses of the engines that all nodes of the test use.
	Database, Redis, NATS secret.String
	// Keyring is the database of the keys. Default: Database. Only Nodes uses it, not Processes.
	Keyring secret.String
	// Roles are the roles of the nodes, as in STAGEDOOR_ROLES. Default: api, worker and listener.
	Roles []string
	// EventLog is jetstream or postgres. Default: postgres, because the nodes of different tests share a NATS server.
	EventLog string
	// RedisTimeout defaults to 5 s: with the product's 25 ms, nodes on a busy machine would sometimes decide without
	// Redis.
	RedisTimeout time.Duration
	DrainDelay   time.Duration
	// Log gets all log lines, including debug. By default, the last warnings are printed if the test fails. OTLP is the
	// address for traces; a test that sets it cannot be parallel. Only Nodes uses it, not Processes.
	Log  io.Writer
	OTLP string
	// Signup is open or closed, as in STAGEDOOR_SIGNUP. Default: closed. OIDC has issuer, client and secret of an
	// identity provider, which redirects browsers back to PublicURL. Only Nodes uses these, not Processes.
	Signup, PublicURL string
	OIDC              [3]string
	// Wrap precedes the command of a process, for example taskset -c 0. Env is added to its environment.
	Wrap, Env []string
	// Change is Node.Change of all nodes. It may be nil. Only Processes uses it, not Nodes.
	Change func(*exec.Cmd)
	// AsOwner makes the nodes connect to PostgreSQL as the owner of the tables, to whom row-level security does not apply.
	AsOwner bool
	// PgBouncer puts PgBouncer in transaction mode between the nodes and PostgreSQL. The environment variable
	// STAGEDOOR_TEST_PGBOUNCER does the same for all nodes.
	PgBouncer bool
	// Objects is where results of jobs are stored, as in STAGEDOOR_OBJECTS. Default: a folder of the test.
	Objects string
	// bouncer is the address of Database through PgBouncer; empty without.
	bouncer secret.String
	// Configure changes the settings of the nodes. It may be nil. Only Nodes uses it, not Processes.
	Configure func(*config.Config)
}

// withDefaults fills in the defaults. It may create a database.
func (s Setup) withDefaults(t testing.TB) Setup {
	t.Helper()
	if s.Database.Empty() {
		s.Database = testenv.DatabaseURL(t)
	}
	s.PgBouncer = s.PgBouncer || os.Getenv("STAGEDOOR_TEST_PGBOUNCER") != ""
	if s.PgBouncer {
		_, s.bouncer = testenv.PgBouncer(t, s.Database)
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
	if s.Objects == "" {
		s.Objects = t.TempDir()
	}
	s.EventLog = cmp.Or(s.EventLog, "postgres")
	s.Sandbox = cmp.Or(s.Sandbox, "http://127.0.0.1:18200")
	s.RedisTimeout = cmp.Or(s.RedisTimeout, 5*time.Second)
	s.PublicURL = cmp.Or(s.PublicURL, publicURL)
	return s
}

// nodeDatabase returns the address with which nodes connect to PostgreSQL.
func (s Setup) nodeDatabase() secret.String {
	url := s.Database
	if !s.bouncer.Empty() {
		url = s.bouncer
	}
	if s.AsOwner {
		return url
	}
	return testenv.AsService(url)
}

func (s Setup) sites() []string {
	if s.Site == "" {
		return nil
	}
	return []string{s.Site}
}

// Node is a running node of the product.
type Node struct {
	// URL is the address of the public listener, empty without the api role; Internal is that of the internal one.
	URL, Internal string
	// App is the node inside the test process; nil for a separate process.
	App *app.Node
	// Process is the separate process; nil for a node inside the test process.
	Process *testenv.Process
	// Site is that of the setup.
	Site string
	// Change changes the command of a separate process before each start: its program, its environment. It may be nil.
	Change func(*exec.Cmd)

	database secret.String
}

// Nodes runs n nodes inside the test process. They share only the engines. They stop when the test ends.
func Nodes(t testing.TB, n int, s Setup) []*Node {
	t.Helper()
	s = s.withDefaults(t)
	if s.OTLP != "" {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.OTLP) // the exporter reads the environment
	}
	nodes := make([]*Node, n)
	for i := range nodes {
		nodes[i] = startInProcess(t, i, s)
	}
	return nodes
}

func startInProcess(t testing.TB, i int, s Setup) *Node {
	t.Helper()
	level := slog.LevelDebug
	if s.Log == nil {
		s.Log, level = newWarningLog(t), slog.LevelWarn
	}
	log := slog.New(slog.NewJSONHandler(s.Log, &slog.HandlerOptions{Level: level}))
	settings := config.Config{
		Database: s.nodeDatabase(), Keyring: s.Keyring, PgBouncer: s.PgBouncer, Redis: s.Redis, NATS: s.NATS, Roles: s.Roles, EventLog: s.EventLog, Node: fmt.Sprint("node-", i+1),
		Listen: "127.0.0.1:0", InternalListen: "127.0.0.1:0", PublicURL: s.PublicURL, AdminToken: secret.New(AdminToken),
		IPHashKey: secret.New(ipHashKey), Dev: true, SharedKeys: true, MaxConns: 8, RedisTimeout: s.RedisTimeout, DrainDelay: s.DrainDelay, OTLPEndpoint: s.OTLP,
		Regions: []string{"us", "uk"}, Egress: s.Egress, EgressMaxIdle: 100, KMS: "local:" + s.Keyset, SandboxURL: s.Sandbox, Platforms: s.Platforms, OAuthClients: s.OAuth, Sites: s.sites(), Objects: s.Objects,
		Signup: s.Signup, OIDCIssuer: s.OIDC[0], OIDCClientID: s.OIDC[1], OIDCSecret: secret.New(s.OIDC[2]), OIDCName: "Test",
	}
	if s.Configure != nil {
		s.Configure(&settings)
	}
	node, err := app.NewNode(t.Context(), settings, log)
	must.OK(t, err)
	listeners, err := node.Listen(t.Context())
	must.OK(t, err)
	// The context of the test ends before its cleanup, but the node must run until then.
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx, listeners) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("node %d: %v", i+1, err)
		}
	})
	running := &Node{database: s.Database, Internal: "http://" + listeners.Internal.Addr().String(), App: node, Site: s.Site}
	if listeners.Public != nil {
		running.URL = "http://" + listeners.Public.Addr().String()
	}
	return running
}

// warningLog keeps the last 100 lines of a node's log, and prints them if the test fails.
type warningLog struct {
	mu    sync.Mutex
	lines []string
}

func newWarningLog(t testing.TB) *warningLog {
	t.Helper()
	w := &warningLog{}
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if t.Failed() && len(w.lines) > 0 {
			t.Logf("the last warnings of the node:\n%s", strings.Join(w.lines, ""))
		}
	})
	return w
}

// Write implements io.Writer. The log handler writes one line per call.
func (w *warningLog) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lines) == 100 {
		w.lines = w.lines[1:]
	}
	w.lines = append(w.lines, string(line))
	return len(line), nil
}

// Processes runs n nodes as separate processes of the built server, and waits until they are ready. They end with the
// test.
func Processes(t testing.TB, n int, s Setup) []*Node {
	t.Helper()
	s = s.withDefaults(t)
	binary := BuildServer(t)
	nodes := make([]*Node, n)
	for i := range nodes {
		public, internal := testenv.FreePort(t), testenv.FreePort(t)
		node := &Node{URL: "http://" + public, Internal: "http://" + internal, database: s.Database, Change: s.Change}
		node.Process = testenv.StartProcess(t, internal, func() *exec.Cmd {
			args := append(slices.Clone(s.Wrap), binary, "serve")
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = []string{
				"PATH=" + os.Getenv("PATH"), "DATABASE_URL=" + s.nodeDatabase().Reveal(), "REDIS_URL=" + s.Redis.Reveal(), "NATS_URL=" + s.NATS.Reveal(),
				"STAGEDOOR_LISTEN=" + public, "STAGEDOOR_INTERNAL_LISTEN=" + internal, "STAGEDOOR_PUBLIC_URL=" + node.URL,
				"STAGEDOOR_ADMIN_TOKEN=" + AdminToken, "STAGEDOOR_IP_HASH_KEY=" + ipHashKey, "STAGEDOOR_DEV=true", "STAGEDOOR_ALLOW_SHARED_KEYRING=true",
				"STAGEDOOR_NODE=" + fmt.Sprint("node-", i+1), "STAGEDOOR_REDIS_TIMEOUT=" + s.RedisTimeout.String(),
				"STAGEDOOR_DRAIN_DELAY=" + s.DrainDelay.String(), "STAGEDOOR_DATABASE_MAX_CONNS=8", "STAGEDOOR_LOG_FORMAT=json",
				"STAGEDOOR_KMS=local:" + s.Keyset, "STAGEDOOR_SANDBOX_URL=" + s.Sandbox, "STAGEDOOR_PLATFORMS=" + s.Platforms, "STAGEDOOR_OAUTH_CLIENTS=" + s.OAuth.Reveal(), "STAGEDOOR_EGRESS=" + s.Egress.Reveal(),
				"STAGEDOOR_EVENT_LOG=" + s.EventLog, "STAGEDOOR_OBJECTS=" + s.Objects, "STAGEDOOR_ROLES=" + strings.Join(s.Roles, ","),
			}
			cmd.Env = append(cmd.Env, "STAGEDOOR_PGBOUNCER="+strconv.FormatBool(s.PgBouncer))
			cmd.Env = append(cmd.Env, s.Env...)
			if s.Log != nil {
				cmd.Stdout, cmd.Stderr = s.Log, s.Log
			}
			if node.Change != nil {
				node.Change(cmd)
			}
			return cmd
		})
		node.AwaitReady(t)
		nodes[i] = node
	}
	return nodes
}

// AwaitReady waits until a separate process reports that it is ready.
func (n *Node) AwaitReady(t testing.TB) {
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
			t.Fatalf("the node at %s ended during its start", n.Internal)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Reply is a response with its whole body.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// JSON decodes the body; nil if it is not a JSON object.
func (r Reply) JSON() map[string]any {
	var m map[string]any
	if json.Unmarshal(r.Body, &m) != nil {
		return nil
	}
	return m
}

// Code returns the code of a problem; empty if the response is not one.
func (r Reply) Code() string {
	code, _ := r.JSON()["code"].(string)
	return code
}

// client reuses connections, like a customer's client. It requests compressed responses only if a test does.
var client = &http.Transport{MaxIdleConnsPerHost: 256, MaxIdleConns: 1024, DisableCompression: true}

// Do makes one request. A body of type []byte is sent as it is, any other as JSON, and nil sends none.
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

// Send makes a request that the caller has built. It does not follow redirects.
func Send(req *http.Request) (Reply, error) {
	res, err := client.RoundTrip(req)
	if err != nil {
		return Reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	reply := Reply{res.StatusCode, res.Header, text}
	if testenv.IsRecording() && err == nil {
		record(req, reply)
	}
	return reply, err
}

// record keeps a request and its response for the examples of the OpenAPI document.
func record(req *http.Request, reply Reply) {
	media := reply.Header.Get("Content-Type")
	if req.Header.Get("X-Dry-Run") != "" || !strings.Contains(media, "json") || !json.Valid(reply.Body) {
		return
	}
	testenv.Record(struct {
		Method string          `json:"method"`
		Path   string          `json:"path"`
		Status int             `json:"status"`
		Media  string          `json:"media"`
		Body   json.RawMessage `json:"body"`
	}{req.Method, req.URL.Path, reply.Status, media, reply.Body})
}

// Call makes one request to the public listener, and fails the test if there is no response.
func (n *Node) Call(t testing.TB, method, path, key string, body any) Reply {
	t.Helper()
	r, err := Do(t.Context(), method, n.URL+path, key, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// LatestEvents returns the latest events of an organisation as a page, and fails the test if there is no response. query
// may add parameters, such as &accountId=….
func (n *Node) LatestEvents(t testing.TB, key, query string) Reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.URL+"/v1/events?latest=50"+query, nil)
	must.OK(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Accept", "application/json")
	r, err := Send(req)
	must.OK(t, err)
	return r
}

// Operate makes one request to the admin API as an operator, and fails the test if there is no response.
func (n *Node) Operate(t testing.TB, method, path string, body any) Reply {
	t.Helper()
	r, err := Do(t.Context(), method, n.Internal+path, AdminToken, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// Org is a new organisation and its first key.
type Org struct{ ID, Key, KeyID string }

// NewOrg creates an organisation through the admin API. limits overrides limits of the plan scale.
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

// Mint creates another key of the organisation that key belongs to, with the given scopes or the default ones. The
// ID of the result is empty.
func (n *Node) Mint(t testing.TB, key string, scopes ...string) Org {
	t.Helper()
	body := map[string]any{"label": "minted"}
	if len(scopes) > 0 {
		body["scopes"] = scopes
	}
	r := n.Call(t, http.MethodPost, "/v1/me/keys", key, body)
	if r.Status != http.StatusCreated {
		t.Fatalf("create key: %d %s", r.Status, r.Body)
	}
	made := r.JSON()
	return Org{Key: made["key"].(string), KeyID: made["id"].(string)}
}

// Restart starts a separate process again that has ended, and waits until it is ready.
func (n *Node) Restart(t testing.TB) {
	t.Helper()
	n.Process.Start()
	n.AwaitReady(t)
}

// BuildServer compiles stagedoord, once per test process, and returns its path.
func BuildServer(t testing.TB) string {
	t.Helper()
	root, err := testenv.Root()
	must.OK(t, err)
	// All test processes use the same path: with Go's build cache, every build after the first takes about a second.
	path := filepath.Join(root, ".dev", "test", "stagedoord")
	buildOnce.Do(func() { buildErr = build(root, path) })
	if buildErr != nil {
		t.Fatal(buildErr)
	}
	return path
}

// build compiles stagedoord from the sources in a folder.
func build(sources, path string, flags ...string) error {
	args := append([]string{"build", "-o", path}, flags...)
	cmd := exec.CommandContext(context.Background(), "go", append(args, "./cmd/stagedoord")...)
	cmd.Dir, cmd.Env = sources, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build stagedoord: %w\n%s", err, out)
	}
	return nil
}
