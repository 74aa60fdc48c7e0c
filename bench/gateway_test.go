package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// Load of the gateway benchmarks. BENCH_ROUND=1s shortens a round, for a quick run.
const (
	gatewayClients  = 64
	gatewayAccounts = 128
	gatewayKeys     = 16
	gatewayOrgs     = 4
	// connectors is how many accounts are connected at a time.
	connectors = 16
)

// gateway is our node and the standard library's reverse proxy in front of the same platform.
type gateway struct {
	node     *testnode.Node
	nodes    []*testnode.Node
	database secret.String
	redis    int
	ours     target
	bare     target
	platform string
	accounts []string
	keys     []string
	cookies  []http.Header
	fan      string
	answers  canned
}

// newGateway starts nodes and the bare proxy on one core, and everything else on the other. The first node is measured. They
// have no listeners, because the platform of the benchmark has no live sockets. env is that of the platform.
func newGateway(b *testing.B, accounts, nodes int, env ...string) *gateway {
	b.Helper()
	box := startSandbox(b)
	box.signIn(b, accounts)
	file, answers := record(b, box)
	g := &gateway{fan: box.creators[0].fan, answers: answers, database: testenv.DatabaseURL(b)}
	g.platform, _ = startPeer(b, "platform", restCore, append(env, "BENCH_CANNED="+file)...)

	redis, redisURL := testenv.PrivateRedis(b)
	g.redis = redis.PID()
	pin(b, g.redis)
	g.nodes = testnode.Processes(b, nodes, testnode.Setup{
		Database: g.database, Redis: redisURL, Sandbox: "http://" + g.platform, Egress: secret.New("us=http://" + g.platform),
		Roles: []string{"api", "worker"}, Wrap: []string{"taskset", "-c", measuredCore}, Env: nodeEnv(),
	})
	g.node = g.nodes[0]
	g.ours = target{"gateway", strings.TrimPrefix(g.node.URL, "http://"), g.node.Process.PID(), g.node.Internal + "/metrics"}
	g.bare.name = "bare"
	g.bare.address, g.bare.pid = startPeer(b, "proxy", measuredCore, "BENCH_UPSTREAM=http://"+g.platform)
	g.bare.stats = "http://" + g.bare.address + "/mallocs"
	g.connect(b, box)
	pin(b, os.Getpid())
	return g
}

// nodeEnv returns the node's environment. The bare proxy inherits ours, so GOGC applies to both.
func nodeEnv() []string {
	list := []string{"GOMAXPROCS=1"}
	if percent := os.Getenv("GOGC"); percent != "" {
		list = append(list, "GOGC="+percent)
	}
	return list
}

// connect creates orgs with keys and connects an account for every creator. Keys and accounts belong to the orgs in turn.
func (g *gateway) connect(b *testing.B, box *sandboxd) {
	b.Helper()
	const many = 100_000_000
	var owners [gatewayOrgs]testnode.Org
	for i := range owners {
		owners[i] = g.node.NewOrg(b, map[string]int{
			"callsPerMinute": many, "callsPerMonth": 1_000_000_000, "accountReadPerMinute": many, "accountWritePerMinute": many,
			"connectAttemptsPerHour": many, "maxAccounts": many,
		})
	}
	for i := range gatewayKeys {
		g.keys = append(g.keys, g.node.Mint(b, owners[i%gatewayOrgs].Key).Key)
	}
	g.accounts, g.cookies = make([]string, len(box.creators)), make([]http.Header, len(box.creators))
	var connecting errgroup.Group
	connecting.SetLimit(connectors)
	for i, who := range box.creators {
		connecting.Go(func() error {
			headers := map[string]string{}
			for name := range who.header {
				if name != "Cookie" && name != "User-Agent" {
					headers[strings.ToLower(name)] = who.header.Get(name)
				}
			}
			g.cookies[i] = who.header
			g.accounts[i] = g.node.Connect(b, owners[i%gatewayOrgs].Key, "/v1/connect/cookie", map[string]any{
				"cookie": who.header.Get("Cookie"), "user_agent": "Mozilla/5.0 (X11; Linux x86_64)", "headers": headers,
				"proxy_country": "us",
			})
			return nil
		})
	}
	must.OK(b, connecting.Wait())
}

// load is one kind of call.
type load struct {
	name string
	// ours and bare build the n-th request.
	ours, bare func(n int) []byte
	// size is the minimum size of a response.
	size int
}

func (g *gateway) loads() []load {
	get := func(limit int) (ours, bare func(n int) []byte) {
		return func(n int) []byte {
				return fmt.Appendf(nil, "GET /v1/accounts/%s/messages/list?chatId=%s&limit=%d HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer %s\r\nAccept: application/json\r\n\r\n",
					g.accounts[n%len(g.accounts)], g.fan, limit, g.keys[n%len(g.keys)])
			}, func(n int) []byte {
				return fmt.Appendf(nil, "GET /api/v2/chats/%s/messages?limit=%d HTTP/1.1\r\nHost: api.test\r\nCookie: %s\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nX-Device: 0123456789abcdef0123456789abcdef\r\nAccept: application/json\r\n\r\n",
					g.fan, limit, g.cookies[n%len(g.cookies)].Get("Cookie"))
			}
	}
	const text = `{"text":"Thank you for your message, I will look at it tonight."}`
	small, large, send := load{name: "1KB", size: len(g.answers.Small) / 2}, load{name: "64KB", size: len(g.answers.Large) / 2}, load{name: "send", size: 100}
	small.ours, small.bare = get(1)
	large.ours, large.bare = get(100)
	send.ours = func(n int) []byte {
		body := fmt.Sprintf(`{"chatId":%q,%s`, g.fan, text[1:])
		return fmt.Appendf(nil, "POST /v1/accounts/%s/messages/send HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			g.accounts[n%len(g.accounts)], g.keys[n%len(g.keys)], len(body), body)
	}
	send.bare = func(n int) []byte {
		return fmt.Appendf(nil, "POST /api/v2/chats/%s/messages HTTP/1.1\r\nHost: api.test\r\nCookie: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			g.fan, g.cookies[n%len(g.cookies)].Get("Cookie"), len(text), text)
	}
	return []load{small, large, send}
}

func gatewayRound(b *testing.B) time.Duration {
	b.Helper()
	return round(b, 4*time.Second)
}

// client is a minimal HTTP client, so that it uses little CPU time.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

func newClient(b *testing.B, address string) *client {
	b.Helper()
	conn, err := net.Dial("tcp", address)
	must.OK(b, err)
	return &client{conn, bufio.NewReaderSize(conn, 128<<10)}
}

// call makes a request and reads the response, which must be a 200 of at least size bytes.
func (c *client) call(request []byte, size int) error {
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	head, length, err := readHead(c.in)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200")) || length < size {
		status := string(head[:min(len(head), 300)])
		body := make([]byte, min(length, 500))
		_, _ = io.ReadFull(c.in, body)
		return fmt.Errorf("%s%s", status, body)
	}
	_, err = c.in.Discard(length)
	return err
}

// pressTarget makes calls on several connections for some time and returns their number. Each connection has its own
// accounts, because identical concurrent reads would share one call to the platform.
func pressTarget(b *testing.B, at target, requests [][][]byte, size int, during time.Duration) int {
	b.Helper()
	clients := make([]*client, gatewayClients)
	for i := range clients {
		clients[i] = newClient(b, at.address)
		defer clients[i].conn.Close()
	}
	return press(b, gatewayClients, during, func(client, n int) error {
		mine := requests[client]
		if err := clients[client].call(mine[n%len(mine)], size); err != nil {
			return fmt.Errorf("%s: %w", at.name, err)
		}
		return nil
	})
}

func shares(request func(n int) []byte) [][][]byte {
	out := make([][][]byte, gatewayClients)
	for n := range gatewayAccounts {
		out[n%gatewayClients] = append(out[n%gatewayClients], request(n))
	}
	return out
}

// BenchmarkGateway compares a method call, with everything that a node does for it - key, scope, arguments, quotas,
// session, egress, result, log, metering - with httputil.ReverseProxy, which does none of it, in front of the same
// platform in the same run. The main figure is the CPU time of the server process per call. Redis is listed separately.
// The egress proxy and the platform are not included: the platform answers tunnels itself.
func BenchmarkGateway(b *testing.B) {
	g := newGateway(b, gatewayAccounts, 1)
	for _, l := range g.loads() {
		b.Run(l.name, func(b *testing.B) { g.compare(b, l) })
	}
}

func (g *gateway) compare(b *testing.B, l load) {
	b.Helper()
	ours, bare := shares(l.ours), shares(l.bare)
	during := gatewayRound(b)
	pressTarget(b, g.ours, ours, l.size, during/2)
	pressTarget(b, g.bare, bare, l.size, during/2)
	if b.Failed() {
		b.FailNow()
	}
	var mine, theirs figures
	for range rounds {
		inRandomOrder(
			func() {
				mine.measure(b, g.ours, g.redis, func() int { return pressTarget(b, g.ours, ours, l.size, during) })
			},
			func() {
				theirs.measure(b, g.bare, 0, func() int { return pressTarget(b, g.bare, bare, l.size, during) })
			},
		)
	}
	reportRatio(b, &mine, &theirs)
	profile(b, g.node, l.name, func() { pressTarget(b, g.ours, ours, l.size, 5*time.Second) })
}

// BenchmarkGatewayLatency compares the latency of the gateway with that of the platform itself, at a steady 1,000 calls
// per second. Latencies are measured from the time a call was due, so that they include the wait for earlier calls.
func BenchmarkGatewayLatency(b *testing.B) {
	const perSecond = 1000
	g := newGateway(b, gatewayAccounts, 1)
	l := g.loads()[0]
	ours, bare := shares(l.ours), shares(l.bare)
	straight := target{name: "platform", address: g.platform}
	pressTarget(b, g.ours, ours, l.size, gatewayRound(b)/2)
	var mine, theirs []time.Duration
	for range rounds {
		mine = append(mine, pace(b, g.ours, ours, l.size, perSecond)...)
		theirs = append(theirs, pace(b, straight, bare, l.size, perSecond)...)
	}
	b.ReportMetric(0, "ns/op")
	for name, list := range map[string][]time.Duration{"gateway": mine, "platform": theirs} {
		slices.Sort(list)
		b.ReportMetric(float64(list[len(list)/2].Microseconds())/1000, "ms-p50-"+name)
		b.ReportMetric(float64(list[len(list)*99/100].Microseconds())/1000, "ms-p99-"+name)
	}
}

// pace makes calls at a steady rate for a round, however long the responses take, and returns their latencies.
func pace(b *testing.B, at target, requests [][][]byte, size, perSecond int) []time.Duration {
	b.Helper()
	return paceWith(b, at, gatewayClients, size, perSecond, gatewayRound(b), func(n int) []byte {
		mine := requests[n%gatewayClients]
		return mine[n/gatewayClients%len(mine)]
	})
}

// paceWith is pace with any number of clients and any order of requests.
func paceWith(b *testing.B, at target, clients, size, perSecond int, during time.Duration, request func(n int) []byte) []time.Duration {
	b.Helper()
	calls := int(during.Seconds() * float64(perSecond))
	took := make([]time.Duration, calls)
	began := time.Now()
	var wait sync.WaitGroup
	for i := range clients {
		c := newClient(b, at.address)
		wait.Go(func() {
			defer c.conn.Close()
			for n := i; n < calls; n += clients {
				due := began.Add(time.Duration(n) * time.Second / time.Duration(perSecond))
				time.Sleep(time.Until(due))
				if err := c.call(request(n), size); err != nil {
					b.Errorf("%s: %v", at.name, err)
					return
				}
				took[n] = time.Since(due)
			}
		})
	}
	wait.Wait()
	return took
}
