package egress_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/metric"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
)

// sourceOf responds with the source address of the call: the proxy's, or this machine's if the call came directly.
func sourceOf(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	fmt.Fprint(w, host)
}

// Calls leave through every kind of proxy, with its credentials, and the proxy resolves the platform's name.
func TestCallsLeaveThroughTheAccountsRegion(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, sourceOf)
	plain := newPlainPlatform(t, sourceOf)
	for i, scheme := range []string{"http", "https", "socks5"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			us := newTestProxy(t, scheme, fmt.Sprintf("127.0.1.%d", i+1), p)
			uk := newTestProxy(t, scheme, fmt.Sprintf("127.0.2.%d", i+1), p)
			us.hosts["plain.test:80"] = plain.address
			w := newFixture(t, p, "us="+us.url()+" uk="+uk.url())
			for region, f := range map[string]*testProxy{"us": us, "uk": uk} {
				if from, err := w.get(t, region, "acct_1"); err != nil || from != f.source {
					t.Errorf("region %s: from %s, %v", region, from, err)
				}
			}
			// Without TLS a tunnel is used as well, so that WebSockets work.
			w.platform = plain
			if from, err := w.get(t, "us", "acct_1"); err != nil || from != us.source {
				t.Errorf("without TLS: from %s, %v", from, err)
			}
		})
	}
}

// While proxies are killed and restarted, no call leaves from the wrong region or directly, and no write is carried out
// twice.
func TestNoCallLeavesFromTheWrongRegion(t *testing.T) {
	t.Parallel()
	const workers, perRound = 16, 100
	calls := proof.Scale(1_500, 10_000)
	var wrong, twice atomic.Int64
	var seen sync.Map
	p := newPlatform(t, func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		want := map[string]string{"us": "127.0.1.", "uk": "127.0.2."}[r.Header.Get("X-Region")]
		if want == "" || !strings.HasPrefix(host, want) {
			wrong.Add(1)
		}
		if _, again := seen.LoadOrStore(r.Header.Get("X-Call"), true); again && r.Method == http.MethodPost {
			twice.Add(1)
		}
	})
	proxies := []*testProxy{
		newTestProxy(t, "http", "127.0.1.1", p), newTestProxy(t, "socks5", "127.0.1.2", p),
		newTestProxy(t, "socks5", "127.0.2.1", p), newTestProxy(t, "https", "127.0.2.2", p),
	}
	w := newFixture(t, p, "us="+proxies[0].url()+","+proxies[1].url()+" uk="+proxies[2].url()+","+proxies[3].url())

	var done, worked, refused, broken atomic.Int64
	call := func(n int) error {
		region := []string{"us", "uk"}[n%2]
		req, err := http.NewRequestWithContext(t.Context(), []string{http.MethodGet, http.MethodPost}[n/2%2], p.origin, strings.NewReader("x"))
		if err != nil {
			return err
		}
		req.Header.Set("X-Region", region)
		req.Header.Set("X-Call", fmt.Sprint(n))
		_, err = send(w.client(t, region, fmt.Sprintf("acct_%d", n%20)), req, egress.Limits{})
		switch problem, ok := errors.AsType[*problem.Error](err); {
		case err == nil:
			worked.Add(1)
		case ok && problem.Kind.Code == "egress-unavailable":
			refused.Add(1)
		case errors.Is(err, egress.ErrBroken):
			broken.Add(1)
		default:
			return err
		}
		return nil
	}
	turn := make(chan struct{}, calls/perRound)
	var group sync.WaitGroup
	var next atomic.Int64
	for range workers {
		group.Go(func() {
			for n := next.Add(1); n <= int64(calls); n = next.Add(1) {
				if err := call(int(n)); err != nil {
					t.Errorf("call %d: %v", n, err)
				}
				if done.Add(1)%perRound == 0 {
					turn <- struct{}{}
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	var victim int
	for round := range calls / perRound {
		<-turn
		switch round % 3 {
		case 0:
			victim = random.IntN(len(proxies))
			proxies[victim].kill()
		case 1: // and the other one of its region
			proxies[victim^1].kill()
		case 2:
			for _, f := range proxies {
				f.start()
			}
			for range 3 {
				w.Check(t.Context())
			}
		}
	}
	group.Wait()
	t.Logf("%d worked, %d had no egress, %d broke", worked.Load(), refused.Load(), broken.Load())
	if wrong.Load() != 0 || twice.Load() != 0 {
		t.Errorf("%d calls came from the wrong place, %d writes came twice", wrong.Load(), twice.Load())
	}
	if worked.Load() < int64(calls/2) || refused.Load() == 0 {
		t.Errorf("the test proves little: %d worked, %d had no egress", worked.Load(), refused.Load())
	}
}

// Calls of a region without healthy proxies fail immediately, without any connection. Other regions are not affected.
// The region recovers with its proxy.
func TestADeadRegionIsClosedAndComesBack(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, sourceOf)
	us, uk := newTestProxy(t, "http", "127.0.1.1", p), newTestProxy(t, "http", "127.0.2.1", p)
	w := newFixture(t, p, "us="+us.url()+" uk="+uk.url())
	if _, err := w.get(t, "us", "acct_1"); err != nil {
		t.Fatal(err)
	}
	us.kill()
	for range 5 {
		_, err := w.get(t, "us", "acct_1")
		w.wantUnavailable(t, err)
	}
	if w.Available("us") || !w.Available("uk") || w.Available("fr") {
		t.Errorf("%+v", w.Status())
	}
	if from, err := w.get(t, "uk", "acct_1"); err != nil || from != "127.0.2.1" {
		t.Errorf("uk: %s, %v", from, err)
	}
	_, err := w.get(t, "fr", "acct_1")
	w.wantUnavailable(t, err)
	if hits := p.hits.Load(); hits != 2 {
		t.Errorf("the platform saw %d calls", hits)
	}

	us.start()
	for i := range 3 {
		if w.Available("us") {
			t.Fatalf("the proxy was used again after %d checks", i)
		}
		w.Check(t.Context())
	}
	if from, err := w.get(t, "us", "acct_1"); err != nil || from != "127.0.1.1" {
		t.Errorf("back: %s, %v", from, err)
	}
	if text := w.log.String(); strings.Count(text, "egress proxy changed") != 2 || !strings.Contains(text, "region=us proxy=0 healthy=false reason=refused") {
		t.Error(text)
	}
}

// An account always uses the same proxy. If a proxy dies, only its own accounts move, and they return to it.
func TestAccountsStayWithTheirProxy(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, sourceOf)
	var list []string
	bySource := map[string]*testProxy{}
	for i := range 4 {
		f := newTestProxy(t, []string{"http", "socks5"}[i%2], fmt.Sprintf("127.0.1.%d", i+1), p)
		bySource[f.source] = f
		list = append(list, f.url())
	}
	w := newFixture(t, p, "us="+strings.Join(list, ","))
	look := func() map[string]string {
		homes := map[string]string{}
		for n := range 60 {
			account := fmt.Sprintf("acct_%d", n)
			from, err := w.get(t, "us", account)
			must.OK(t, err)
			homes[account] = from
		}
		return homes
	}
	before := look()
	used := map[string]int{}
	for _, home := range before {
		used[home]++
	}
	for source := range bySource {
		if used[source] < 5 {
			t.Errorf("the accounts are not spread: %v", used)
		}
	}
	victim := bySource["127.0.1.1"]
	victim.kill()
	for account, home := range look() {
		if moved := home != before[account]; moved != (before[account] == victim.source) || home == victim.source {
			t.Errorf("%s was at %s and is at %s", account, before[account], home)
		}
	}
	victim.start()
	for range 3 {
		w.Check(t.Context())
	}
	for account, home := range look() {
		if home != before[account] {
			t.Errorf("%s was at %s and did not return from %s", account, before[account], home)
		}
	}
	// Another node, with the proxies in another order, chooses the same proxies.
	other := newFixture(t, p, "us="+list[2]+","+list[3]+","+list[1]+","+list[0])
	w.Egress = other.Egress
	for account, home := range look() {
		if home != before[account] {
			t.Errorf("another node sends %s from %s, not %s", account, home, before[account])
		}
	}
}

func (w *fixture) scrape() string {
	out := httptest.NewRecorder()
	promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{}).ServeHTTP(out, httptest.NewRequest(http.MethodGet, "/", nil))
	return out.Body.String()
}

// A proxy whose name does not resolve, or that refuses connections, goes down.
func TestAProxyThatIsNotThereIsDown(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, sourceOf)
	gone := newTestProxy(t, "http", "127.0.1.1", p)
	gone.kill()
	for reason, address := range map[string]string{"unresolved": "http://canary-user:x@proxy.invalid:3128", "refused": gone.url()} {
		w := newFixture(t, p, "us="+address)
		for range 3 {
			_, err := w.get(t, "us", "acct_1")
			w.wantUnavailable(t, err)
		}
		if s := w.Status()[0]; s.Healthy || s.Reason != reason {
			t.Errorf("%+v", s)
		}
	}
}

// After a failed dial the call tries the next proxy of the region with the same body, up to three proxies.
func TestAFailedDialTriesTheNextProxy(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 16)
		n, _ := r.Body.Read(body)
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprintf(w, "%s %s", host, body[:n])
	})
	good := newTestProxy(t, "http", "127.0.1.1", p)
	var dead []string
	for range 3 {
		dead = append(dead, "http://"+listen(t, func(c net.Conn) { _ = c.Close() }))
	}
	post := func(w *fixture, account string) (string, error) {
		body := &onceBody{Reader: strings.NewReader("hello")}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.origin, body)
		must.OK(t, err)
		text, err := send(w.client(t, "us", account), req, egress.Limits{})
		body.wantClosed(t)
		return text, err
	}
	for n := range 8 {
		w := newFixture(t, p, "us="+dead[0]+","+dead[1]+","+good.url())
		if text, err := post(w, fmt.Sprintf("acct_%d", n)); err != nil || text != "127.0.1.1 hello" {
			t.Errorf("%s, %v", text, err)
		}
	}
	refused := 0
	for n := range 40 {
		w := newFixture(t, p, "us="+strings.Join(dead, ",")+","+good.url())
		if _, err := post(w, fmt.Sprintf("acct_%d", n)); err != nil {
			w.wantUnavailable(t, err)
			refused++
		}
	}
	if refused == 0 || refused == 40 {
		t.Errorf("%d of 40 accounts prefer the good proxy last", refused)
	}
}

// onceBody is a body that can be read once and must be closed exactly once.
type onceBody struct {
	*strings.Reader
	closed atomic.Int64
	done   chan struct{}
	once   sync.Once
}

func (b *onceBody) signal() chan struct{} {
	b.once.Do(func() { b.done = make(chan struct{}) })
	return b.done
}

func (b *onceBody) Close() error {
	if b.closed.Add(1) == 1 {
		close(b.signal())
	}
	return nil
}

func (b *onceBody) wantClosed(t testing.TB) {
	t.Helper()
	<-b.signal()
	if n := b.closed.Load(); n != 1 {
		t.Errorf("the body was closed %d times", n)
	}
}

// If a working proxy cannot reach the platform, the proxy stays healthy and the caller gets upstream/unavailable.
func TestAPlatformThatIsAwayDoesNotTakeTheRegionDown(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "socks5"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p := newPlatform(t, sourceOf)
			f := newTestProxy(t, scheme, "127.0.1.1", p)
			w := newFixture(t, p, "us="+f.url())
			p.server.Close()
			for range 5 {
				_, err := w.get(t, "us", "acct_1")
				if !errors.Is(err, problem.UpstreamUnavailable.New("")) || !errors.Is(err, egress.ErrNotSent) {
					t.Fatal(err)
				}
				w.noLeak(t, err.Error())
				w.Check(t.Context())
			}
			if !w.Available("us") {
				t.Errorf("%+v", w.Status())
			}
		})
	}
}

// With configured check addresses, a proxy must reach at least one of them to be used.
func TestChecksUseTheOperatorsAddresses(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, sourceOf)
	alive, blind := newTestProxy(t, "http", "127.0.1.1", p), newTestProxy(t, "socks5", "127.0.1.2", p)
	forger := "http://" + listen(t, forgedTunnel)
	blind.hosts = nil
	w := newFixture(t, p, "us="+alive.url()+","+blind.url()+","+forger, func(c *egress.Config) {
		var err error
		c.Check, err = egress.ParseOrigins("https://platform.test", "https://elsewhere.test")
		must.OK(t, err)
	})
	w.Check(t.Context())
	if len(w.Status()) != 3 || !w.Status()[1].Healthy {
		t.Errorf("one failure was enough: %+v", w.Status())
	}
	w.Check(t.Context())
	for i, healthy := range []bool{true, false, false} {
		if s := w.Status()[i]; s.Healthy != healthy || s.Region != "us" || s.Proxy != i || (s.Reason == "") != healthy {
			t.Errorf("%+v", s)
		}
	}
	for n := range 10 {
		if from, err := w.get(t, "us", fmt.Sprintf("acct_%d", n)); err != nil || from != "127.0.1.1" {
			t.Errorf("%s, %v", from, err)
		}
	}
	want := `stagedoor_egress_proxies_healthy{region="us"} 1`
	if text := w.scrape(); !strings.Contains(text, want) || !strings.Contains(text, `stagedoor_egress_proxies{region="us"} 3`) {
		t.Errorf("no %s in\n%s", want, text)
	}
}

// A caller that goes away during a dial does not count against the proxy.
func TestAnImpatientCallerDoesNotTakeAProxyDown(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, sourceOf)
	asked := make(chan struct{}, 10)
	address := listen(t, func(net.Conn) { asked <- struct{}{} })
	w := newFixture(t, p, "us=http://"+address)
	for range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-asked; cancel() }()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.origin, strings.NewReader("x"))
		must.OK(t, err)
		_, err = send(w.client(t, "us", "acct_1"), req, egress.Limits{})
		if !errors.Is(err, context.Canceled) || !errors.Is(err, egress.ErrNotSent) {
			t.Fatal(err)
		}
	}
	if !w.Available("us") {
		t.Errorf("%+v", w.Status())
	}
}

// Proxy variables in the environment have no effect: they do not redirect traffic, and NO_PROXY does not send it
// directly.
func TestProxyVariablesAreIgnored(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	trap := "http://" + listen(t, func(c net.Conn) { hits.Add(1); _ = c.Close() })
	for name, variables := range map[string][]string{
		"elsewhere": {"HTTP_PROXY=" + trap, "HTTPS_PROXY=" + trap, "ALL_PROXY=" + trap, "NO_PROXY="},
		"lower":     {"http_proxy=" + trap, "https_proxy=" + trap, "all_proxy=" + trap, "no_proxy="},
		"straight":  {"HTTP_PROXY=" + trap, "HTTPS_PROXY=" + trap, "ALL_PROXY=" + trap, "NO_PROXY=*"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^(TestCallsLeaveThroughTheAccountsRegion|TestGoodReceiversGetTheirWebhooks|TestTheEnvironmentIsATrap)$")
			child.Env = append(os.Environ(), append(variables, "EGRESS_TRAP="+name)...)
			out, err := child.CombinedOutput()
			if err != nil || strings.Count(string(out), "--- PASS: TestCallsLeave") != 4 || !strings.Contains(string(out), "--- PASS: TestGoodReceivers") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	t.Cleanup(func() {
		if hits.Load() != 0 {
			t.Errorf("%d connections went to the environment's proxy", hits.Load())
		}
	})
}

// The variables that the test above sets do affect a client that uses http.ProxyFromEnvironment.
func TestTheEnvironmentIsATrap(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://platform.test", nil)
		must.OK(t, err)
		proxy, err := http.ProxyFromEnvironment(req)
		must.OK(t, err)
		trapped := os.Getenv("EGRESS_TRAP") == "elsewhere" || os.Getenv("EGRESS_TRAP") == "lower"
		if os.Getenv("EGRESS_TRAP") != "" && trapped != (proxy != nil) {
			t.Errorf("the environment says %v", proxy)
		}
	}
}

// TestMain replaces the machine's resolver and checks that only proxies resolve the platform's name.
func TestMain(m *testing.M) {
	names, err := startNameserver(func(string, bool) []netip.Addr { return nil })
	if err != nil {
		log.Fatal(err)
	}
	net.DefaultResolver = names.resolver()
	code := m.Run()
	for _, name := range names.questions() {
		if name == "platform.test" || name == "plain.test" {
			log.Printf("%s was looked up by this machine", name)
			code = 1
		}
	}
	os.Exit(code)
}

// Requests to platforms are measured by region and outcome.
func TestRequestsAreMeasured(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/down" {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	us, gone := newTestProxy(t, "http", "127.0.1.1", p), newTestProxy(t, "http", "127.0.2.1", p)
	gone.kill()
	w := newFixture(t, p, "us="+us.url()+" uk="+gone.url())
	for range 2 {
		_, err := fetch(t, w.client(t, "us", "acct_1"), p.origin+"/", egress.Limits{})
		must.OK(t, err)
	}
	_, err := fetch(t, w.client(t, "us", "acct_1"), p.origin+"/down", egress.Limits{})
	must.OK(t, err)
	for _, region := range []string{"uk", "elsewhere"} {
		if _, err := fetch(t, w.client(t, region, "acct_1"), p.origin+"/", egress.Limits{}); err == nil {
			t.Errorf("a request left from %s", region)
		}
	}
	const name = "stagedoor_platform_request_seconds"
	for _, c := range []struct {
		region, outcome string
		want            float64
	}{{"us", "2xx", 2}, {"us", "5xx", 1}, {"uk", "failed", 1}, {"elsewhere", "failed", 0}} {
		if got := metric.Value(t, w.registry, name, "region", c.region, "outcome", c.outcome); got != c.want {
			t.Errorf("%s %s: %v; want %v", c.region, c.outcome, got, c.want)
		}
	}
}
