package egress_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// reload replaces the regions, as a changed file does.
func (w *fixture) reload(t testing.TB, regions string) {
	t.Helper()
	list, err := egress.ParseRegions(secret.New(regions))
	must.OK(t, err)
	w.Reload(list)
}

// No call fails while proxies and regions are added, moved, and removed. Accounts move away from a removed proxy, and come
// back with it. The log says how many proxies changed, and never which.
func TestReloadFailsNoCall(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, sourceOf)
	a, b, c := newTestProxy(t, "http", "127.0.1.1", p), newTestProxy(t, "socks5", "127.0.1.2", p), newTestProxy(t, "http", "127.0.2.1", p)
	w := newFixture(t, p, "us="+a.url()+","+b.url()+" uk="+c.url())
	w.reload(t, "us="+a.url())
	var (
		calls, failed atomic.Int64
		stop          = make(chan struct{})
		callers       sync.WaitGroup
	)
	for n := range 4 {
		callers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				var err error
				account := fmt.Sprintf("acct_%d", (n*7+i)%20)
				if n%2 == 0 {
					_, err = w.get(t, "us", account)
				} else { // the standard transport, with a connection for each call
					_, err = w.stream(t, account)
				}
				if err != nil {
					failed.Add(1)
					t.Errorf("a call during the reloads: %v", err)
				}
				calls.Add(1)
			}
		})
	}
	more := func() {
		t.Helper()
		last := calls.Load()
		testenv.Await(t, "more calls", func() bool { return calls.Load() >= last+20 })
	}
	homes := func(region string) map[string]string {
		t.Helper()
		found := map[string]string{}
		for n := range 20 {
			account := fmt.Sprintf("acct_%d", n)
			from, err := w.get(t, region, account)
			must.OK(t, err)
			found[account] = from
		}
		return found
	}
	for round := range 3 {
		more()
		w.reload(t, "us="+a.url()+","+b.url())
		more()
		both := homes("us")
		w.reload(t, "us="+b.url())
		for account, home := range homes("us") {
			if home != b.source {
				t.Errorf("round %d: %s uses the proxy that was removed", round, account)
			}
		}
		more()
		w.reload(t, "us="+b.url()+","+a.url()+" uk="+c.url())
		for account, home := range homes("us") {
			if home != both[account] {
				t.Errorf("round %d: %s did not come back", round, account)
			}
		}
		if from := homes("uk")["acct_0"]; from != c.source || len(w.Regions()) != 2 || !w.Available("uk") {
			t.Errorf("round %d: the new region: %s %v", round, from, w.Regions())
		}
		w.reload(t, "us="+a.url())
		if _, err := w.get(t, "uk", "acct_0"); err == nil || w.Available("uk") || len(w.Status()) != 1 {
			t.Errorf("round %d: the region that was removed: %v %+v", round, err, w.Status())
		}
	}
	close(stop)
	callers.Wait()
	if failed.Load() != 0 {
		t.Errorf("%d of %d calls failed", failed.Load(), calls.Load())
	}
	text := w.log.String()
	for _, want := range []string{"region=us added=1 removed=0 passwords_changed=0 proxies=2", "region=us added=0 removed=1", "region=uk added=1", "region=uk added=0 removed=1 passwords_changed=0 proxies=0"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %q:\n%s", want, text)
		}
	}
}

// stream makes a call over the standard transport.
func (w *fixture) stream(t testing.TB, account string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.platform.origin+"/", nil)
	must.OK(t, err)
	resp, err := w.client(t, "us", account).Do(req, egress.Limits{}) //nolint:bodyclose // egress.Read closes it
	if err != nil {
		return "", err
	}
	text, err := egress.Read(resp)
	return string(text), err
}

// A new password takes effect without cutting connections, also when the proxy no longer accepts the old one, and the
// proxy counts as healthy again.
func TestReloadChangesAPassword(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}, 1), make(chan struct{})
	p := newPlatform(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/long" {
			sourceOf(w, r)
			return
		}
		_, _ = io.WriteString(w, "begun")
		http.NewResponseController(w).Flush() //nolint:errcheck // the test sees it
		begun <- struct{}{}
		<-end
		_, _ = io.WriteString(w, ", ended")
	})
	a := newTestProxy(t, "http", "127.0.1.1", p)
	w := newFixture(t, p, "us="+a.url())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.origin+"/long", nil)
	must.OK(t, err)
	resp, err := w.client(t, "us", "acct_1").Do(req, egress.Limits{Total: egress.None, Idle: egress.None}) //nolint:bodyclose // Read closes it
	must.OK(t, err)
	<-begun
	a.setPassword("canary-password-2")
	for n := range 2 { // accounts without a connection
		if _, err := w.get(t, "us", fmt.Sprintf("acct_old_%d", n)); err == nil {
			t.Fatal("the proxy accepts the old password")
		}
	}
	if w.Available("us") {
		t.Error("the proxy is not down")
	}
	w.reload(t, "us="+a.url())
	if s := w.Status(); len(s) != 1 || !s[0].Healthy || s[0].Open < 1 {
		t.Errorf("%+v", s)
	}
	for n := range 5 {
		_, err := w.get(t, "us", fmt.Sprintf("acct_new_%d", n))
		must.OK(t, err)
	}
	close(end)
	if text, err := egress.Read(resp); err != nil || string(text) != "begun, ended" {
		t.Errorf("the connection was cut: %q %v", text, err)
	}
	if text := w.log.String(); !strings.Contains(text, "passwords_changed=1") || strings.Contains(text, "canary-password") {
		t.Error(text)
	}
}

// Operators' switches apply to proxies and regions that are added later.
func TestReloadObeysSwitches(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, sourceOf)
	a, b, c := newTestProxy(t, "http", "127.0.1.1", p), newTestProxy(t, "http", "127.0.1.2", p), newTestProxy(t, "http", "127.0.2.1", p)
	all := "us=" + a.url() + "," + b.url() + " uk=" + c.url()
	w := newFixture(t, p, all)
	drained := map[string]bool{"us/" + w.Status()[2].Fingerprint: true}
	w.reload(t, "us="+a.url())
	w.Steer(drained, map[string]bool{"uk": true})
	w.reload(t, all)
	for n := range 10 {
		from, err := w.get(t, "us", fmt.Sprintf("acct_%d", n))
		if err != nil || from != a.source {
			t.Errorf("%s %v", from, err)
		}
	}
	if s := w.Status(); w.Available("uk") || s[1].Drained || !s[2].Drained {
		t.Errorf("%+v", s)
	}
	w.Steer(nil, nil)
	if !w.Available("uk") || w.Status()[2].Drained {
		t.Errorf("%+v", w.Status())
	}
}
