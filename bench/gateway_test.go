package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// Load of the gateway benchmarks. BENCH_ROUND=1s shortens a round, for a quick run.
const (
	gatewayClients  = 64
	gatewayAccounts = 128
	gatewayKeys     = 16
	gatewayRounds   = 9
	gatewayCore     = "0" // reserved for the server under test
	restCore        = "1"
)

// gateway is our node and the standard library's reverse proxy in front of the same platform.
type gateway struct {
	node     *testnode.Node
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

// target is a server under load.
type target struct {
	name    string
	address string
	pid     int
	stats   string // URL of its allocation counters
}

// newGateway starts the node and the bare proxy on one core, and everything else on the other.
func newGateway(b *testing.B) *gateway {
	b.Helper()
	box := startSandbox(b)
	box.signIn(b, gatewayAccounts)
	file, answers := record(b, box)
	g := &gateway{fan: box.creators[0].fan, answers: answers}
	g.platform, _ = startPeer(b, "platform", restCore, file)

	redis, redisURL := testenv.PrivateRedis(b)
	g.redis = redis.PID()
	pin(b, g.redis)
	g.node = testnode.Processes(b, 1, testnode.Setup{
		Redis: redisURL, Sandbox: "http://" + g.platform, Egress: secret.New("us=http://" + g.platform),
		Wrap: []string{"taskset", "-c", gatewayCore}, Env: nodeEnv(),
	})[0]
	g.ours = target{"gateway", strings.TrimPrefix(g.node.URL, "http://"), g.node.Process.PID(), g.node.Internal + "/metrics"}
	g.bare.name = "bare"
	g.bare.address, g.bare.pid = startPeer(b, "proxy", gatewayCore, "http://"+g.platform)
	g.bare.stats = "http://" + g.bare.address + "/mallocs"
	g.connect(b, box)
	pin(b, os.Getpid())
	return g
}

// nodeEnv returns the node's environment. The bare proxy inherits ours, so GOGC applies to both.
func nodeEnv() []string {
	list := []string{"GOMAXPROCS=1", "STAGEDOOR_LOG_LEVEL=warn"}
	if percent := os.Getenv("GOGC"); percent != "" {
		list = append(list, "GOGC="+percent)
	}
	return list
}

// pin moves a process to the core for everything that is not measured.
func pin(b *testing.B, pid int) {
	b.Helper()
	if out, err := exec.Command("taskset", "-a", "-c", "-p", restCore, strconv.Itoa(pid)).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
}

// connect creates an org with keys and connects an account for every creator.
func (g *gateway) connect(b *testing.B, box *sandboxd) {
	b.Helper()
	const many = 100_000_000
	owner := g.node.NewOrg(b, map[string]int{
		"callsPerMinute": many, "callsPerMonth": 1_000_000_000, "accountReadPerMinute": many, "accountWritePerMinute": many,
		"connectAttemptsPerHour": many, "maxAccounts": 1000,
	})
	for range gatewayKeys {
		g.keys = append(g.keys, g.node.Mint(b, owner.Key).Key)
	}
	for _, who := range box.creators {
		headers := map[string]string{}
		for name := range who.header {
			if name != "Cookie" && name != "User-Agent" {
				headers[strings.ToLower(name)] = who.header.Get(name)
			}
		}
		text, err := json.Marshal(map[string]any{"cookie": who.header.Get("Cookie"), "user_agent": "Mozilla/5.0 (X11; Linux x86_64)", "headers": headers, "proxy_country": "us"})
		if err != nil {
			b.Fatal(err)
		}
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, g.node.URL+"/v1/connect/cookie", bytes.NewReader(text))
		if err != nil {
			b.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer " + owner.Key}, "Content-Type": {"application/json"}, "Prefer": {"wait=20"}}
		r, err := testnode.Send(req)
		if err != nil {
			b.Fatal(err)
		}
		account := accountOf(r)
		if account == "" {
			b.Fatalf("connect: %d %s", r.Status, r.Body)
		}
		g.accounts = append(g.accounts, account)
		g.cookies = append(g.cookies, who.header)
	}
}

// accountOf returns the account of a successful attempt, or "".
func accountOf(r testnode.Reply) string {
	for _, name := range []string{"account_id", "accountId"} {
		if id, ok := r.JSON()[name].(string); ok && id != "" {
			return id
		}
	}
	account, _ := r.JSON()["account"].(map[string]any)
	id, _ := account["id"].(string)
	return id
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

// round returns how long one side is under load at a time.
func round(b *testing.B) time.Duration {
	b.Helper()
	text := os.Getenv("BENCH_ROUND")
	if text == "" {
		return 4 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// client is a minimal HTTP client, so that it uses little CPU time.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

func newClient(b *testing.B, address string) *client {
	b.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
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

// press makes calls on several connections for some time and returns their number. Each connection has its own
// accounts, because identical concurrent reads would share one call to the platform.
func press(b *testing.B, at target, requests [][][]byte, size int, during time.Duration) int {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), during)
	defer cancel()
	var wait sync.WaitGroup
	counts := make([]int, gatewayClients)
	for i := range gatewayClients {
		c := newClient(b, at.address)
		wait.Go(func() {
			defer c.conn.Close()
			mine := requests[i]
			for n := 0; ctx.Err() == nil; n++ {
				if err := c.call(mine[n%len(mine)], size); err != nil {
					b.Errorf("%s: %v", at.name, err)
					return
				}
				counts[i]++
			}
		})
	}
	wait.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}

// shares builds the requests of each connection.
func shares(request func(n int) []byte) [][][]byte {
	out := make([][][]byte, gatewayClients)
	for n := range gatewayAccounts {
		out[n%gatewayClients] = append(out[n%gatewayClients], request(n))
	}
	return out
}

// figures holds the costs of one side, one figure per round.
type figures struct{ cpu, redis, allocs, bytes, rate []float64 }

func (g *gateway) measure(b *testing.B, at target, requests [][][]byte, size int, f *figures) {
	b.Helper()
	during := round(b)
	cpu, shared := processCPU(b, at.pid), processCPU(b, g.redis)
	mallocs, bytes := metric(b, at.stats, "go_memstats_mallocs_total"), metric(b, at.stats, "go_memstats_alloc_bytes_total")
	began := time.Now()
	n := float64(press(b, at, requests, size, during))
	f.rate = append(f.rate, n/time.Since(began).Seconds())
	f.cpu = append(f.cpu, float64((processCPU(b, at.pid)-cpu).Microseconds())/n)
	f.redis = append(f.redis, float64((processCPU(b, g.redis)-shared).Microseconds())/n)
	f.allocs = append(f.allocs, (metric(b, at.stats, "go_memstats_mallocs_total")-mallocs)/n)
	f.bytes = append(f.bytes, (metric(b, at.stats, "go_memstats_alloc_bytes_total")-bytes)/n)
}

// spread returns the median absolute deviation.
func spread(list []float64) float64 {
	middle := median(list)
	var far []float64
	for _, x := range list {
		far = append(far, max(x-middle, middle-x))
	}
	return median(far)
}

// BenchmarkGateway compares a method call, with everything that a node does for it - key, scope, arguments, quotas,
// session, egress, result, log, metering - with httputil.ReverseProxy, which does none of it, in front of the same
// platform in the same run. The main figure is the CPU time of the server process per call. Redis is listed separately.
// The egress proxy and the platform are not included: the platform answers tunnels itself.
func BenchmarkGateway(b *testing.B) {
	g := newGateway(b)
	for _, l := range g.loads() {
		b.Run(l.name, func(b *testing.B) { g.compare(b, l) })
	}
}

func (g *gateway) compare(b *testing.B, l load) {
	b.Helper()
	ours, bare := shares(l.ours), shares(l.bare)
	warm := round(b) / 2
	press(b, g.ours, ours, l.size, warm)
	press(b, g.bare, bare, l.size, warm)
	if b.Failed() {
		b.FailNow()
	}
	var mine, theirs figures
	for range gatewayRounds {
		steps := []func(){
			func() { g.measure(b, g.ours, ours, l.size, &mine) },
			func() { g.measure(b, g.bare, bare, l.size, &theirs) },
		}
		rand.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		for _, step := range steps {
			step()
		}
	}
	var ratios, withRedis []float64
	for i := range mine.cpu {
		ratios = append(ratios, mine.cpu[i]/theirs.cpu[i])
		withRedis = append(withRedis, (mine.cpu[i]+mine.redis[i])/theirs.cpu[i])
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(mine.cpu), "us-cpu/req")
	b.ReportMetric(median(theirs.cpu), "us-cpu-bare/req")
	b.ReportMetric(median(mine.redis), "us-cpu-redis/req")
	b.ReportMetric(median(ratios), "x-bare")
	b.ReportMetric(spread(ratios), "x-bare-mad")
	b.ReportMetric(median(withRedis), "x-bare-with-redis")
	b.ReportMetric(median(mine.allocs), "allocs/req")
	b.ReportMetric(median(theirs.allocs), "allocs-bare/req")
	b.ReportMetric(median(mine.bytes), "B/req")
	b.ReportMetric(median(theirs.bytes), "B-bare/req")
	b.ReportMetric(median(mine.rate), "req/s")
	b.ReportMetric(median(theirs.rate), "req/s-bare")
	if file := os.Getenv("BENCH_PROFILE"); file != "" {
		g.profile(b, ours, l, file)
	}
}

// profile writes a profile of the node under load.
func (g *gateway) profile(b *testing.B, requests [][][]byte, l load, file string) {
	b.Helper()
	var wait sync.WaitGroup
	for path, name := range map[string]string{"profile?seconds=4": "cpu", "allocs?seconds=4": "allocs"} {
		wait.Go(func() {
			r, err := testnode.Do(b.Context(), http.MethodGet, g.node.Internal+"/debug/pprof/"+path, testnode.AdminToken, nil)
			if err == nil {
				err = os.WriteFile(file+"."+l.name+"."+name, r.Body, 0o600)
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	press(b, g.ours, requests, l.size, 5*time.Second)
	wait.Wait()
}

// BenchmarkGatewayLatency compares the latency of the gateway with that of the platform itself, at a steady 1,000 calls
// per second. Latencies are measured from the time a call was due, so that they include the wait for earlier calls.
func BenchmarkGatewayLatency(b *testing.B) {
	const perSecond = 1000
	g := newGateway(b)
	l := g.loads()[0]
	ours, bare := shares(l.ours), shares(l.bare)
	straight := target{name: "platform", address: g.platform}
	press(b, g.ours, ours, l.size, round(b)/2)
	var mine, theirs []time.Duration
	for range gatewayRounds {
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
	calls := int(round(b).Seconds() * float64(perSecond))
	took := make([]time.Duration, calls)
	began := time.Now()
	var wait sync.WaitGroup
	for i := range gatewayClients {
		c := newClient(b, at.address)
		wait.Go(func() {
			defer c.conn.Close()
			for n := i; n < calls; n += gatewayClients {
				due := began.Add(time.Duration(n) * time.Second / time.Duration(perSecond))
				time.Sleep(time.Until(due))
				mine := requests[i]
				if err := c.call(mine[n/gatewayClients%len(mine)], size); err != nil {
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
