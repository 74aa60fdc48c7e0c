package egress_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// A drained proxy gets no new traffic, regardless of its position in the settings. Its accounts use other proxies and
// return afterwards.
func TestADrainedProxyGetsNothingNew(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, sourceOf)
	a, b := newTestProxy(t, "http", "127.0.1.1", p), newTestProxy(t, "socks5", "127.0.1.2", p)
	w := newFixture(t, p, "us="+a.url()+","+b.url())
	look := func() map[string]string {
		homes := map[string]string{}
		for n := range 20 {
			account := fmt.Sprintf("acct_%d", n)
			from, err := w.get(t, "us", account)
			must.OK(t, err)
			homes[account] = from
		}
		return homes
	}
	before := look()
	status := w.Status()
	name := "us/" + status[0].Fingerprint
	if len(status) != 2 || status[0].Fingerprint == status[1].Fingerprint || status[0].Drained {
		t.Fatalf("%+v", status)
	}
	w.noLeak(t, fmt.Sprint(status))
	w.Steer(map[string]bool{name: true}, nil)
	if !w.Status()[0].Drained || w.Status()[1].Drained || !w.Available("us") {
		t.Errorf("%+v", w.Status())
	}
	for account, home := range look() {
		if home != b.source {
			t.Errorf("%s went through the drained proxy", account)
		}
	}
	// A node with another order of its settings drains the same proxy.
	other := newFixture(t, p, "us="+b.url()+","+a.url())
	other.Steer(map[string]bool{name: true}, nil)
	if s := other.Status(); s[0].Drained || !s[1].Drained {
		t.Errorf("another order: %+v", s)
	}
	w.Steer(nil, nil)
	for account, home := range look() {
		if home != before[account] {
			t.Errorf("%s did not come back to %s", account, before[account])
		}
	}
}

// Draining the only proxy of a region closes the region, and so does switching it off. Undoing either opens it again.
func TestARegionThatIsSwitchedOffIsClosedAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, sourceOf)
	us, uk := newTestProxy(t, "http", "127.0.1.1", p), newTestProxy(t, "http", "127.0.2.1", p)
	w := newFixture(t, p, "us="+us.url()+" uk="+uk.url())
	if _, err := w.get(t, "us", "acct_1"); err != nil {
		t.Fatal(err)
	}
	for what, steer := range map[string]func(){
		"drained": func() { w.Steer(map[string]bool{"us/" + w.Status()[1].Fingerprint: true}, nil) },
		"off":     func() { w.Steer(nil, map[string]bool{"us": true}) },
	} {
		steer()
		_, err := w.get(t, "us", "acct_1")
		w.wantUnavailable(t, err)
		if off := strings.Contains(err.Error(), "switched off"); off != (what == "off") {
			t.Errorf("%s: %v", what, err)
		}
		if w.Available("us") {
			t.Errorf("%s, but available", what)
		}
		if _, err := w.get(t, "uk", "acct_1"); err != nil {
			t.Errorf("%s: the other region: %v", what, err)
		}
		w.Steer(nil, nil)
		if _, err := w.get(t, "us", "acct_1"); err != nil {
			t.Errorf("after undoing %s: %v", what, err)
		}
	}
}

// Connections through a drained proxy stay open for a while and are then closed, so that a listener reconnects through
// another proxy.
func TestConnectionsThroughADrainedProxyAreClosedLater(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 2)
	p := newPlatform(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun")
		http.NewResponseController(w).Flush() //nolint:errcheck // the test sees it
		begun <- struct{}{}
		<-r.Context().Done()
	})
	f := newTestProxy(t, "http", "127.0.1.1", p)
	list, err := egress.ParseRegions(secret.New("us=" + f.url()))
	must.OK(t, err)
	var later atomic.Int64
	w := &fixture{platform: p, log: &logBuffer{}}
	w.Egress = egress.New(egress.Deps{Config: egress.Config{Regions: list, Roots: p.roots}, Log: slog.New(slog.NewTextHandler(w.log, nil)), Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
	t.Cleanup(w.Close)
	// open starts to read an endless response and sends the error with which it ends.
	open := func() <-chan error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.origin, nil)
		must.OK(t, err)
		resp, err := w.client(t, "us", "acct_1").Do(req, egress.Limits{Total: egress.None, Idle: egress.None}) //nolint:bodyclose // the goroutine below closes it
		must.OK(t, err)
		<-begun
		done := make(chan error, 1)
		go func() {
			_, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			done <- err
		}()
		return done
	}
	over := open()
	if s := w.Status()[0]; s.Open != 1 {
		t.Errorf("%+v", s)
	}
	w.Steer(map[string]bool{"us/" + w.Status()[0].Fingerprint: true}, nil)
	w.CloseDrained()
	select {
	case err := <-over:
		t.Fatalf("closed immediately: %v", err)
	default:
	}
	later.Store(int64(3 * time.Minute))
	w.CloseDrained()
	if err := <-over; err == nil {
		t.Error("the body ended without an error")
	}
	if s := w.Status()[0]; s.Open != 0 {
		t.Errorf("%+v", s)
	}
	// Switching a region off closes its connections immediately.
	w.Steer(nil, nil)
	over = open()
	w.Steer(nil, map[string]bool{"us": true})
	if err := <-over; err == nil {
		t.Error("the body ended without an error")
	}
}
