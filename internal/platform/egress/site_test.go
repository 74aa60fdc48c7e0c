package egress_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

const (
	mayasSite  = "https://maya.example.com/blog"
	publicAddr = "93.184.216.34"
)

// newSite starts a site with a certificate for its names.
func newSite(t testing.TB, handler http.HandlerFunc, names ...string) *platform {
	t.Helper()
	p := &platform{authority: newAuthority(t)}
	p.server = httptest.NewUnstartedServer(p.count(handler))
	p.server.TLS = &tls.Config{Certificates: []tls.Certificate{p.issue(t, time.Hour, names...)}}
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.StartTLS()
	p.address = p.server.Listener.Addr().String()
	t.Cleanup(p.server.Close)
	return p
}

// addrs parses addresses.
func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range list {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

// onDNS answers lookups of every name with the given addresses.
func onDNS(t testing.TB, list ...string) func(*egress.Config) {
	t.Helper()
	names := newNameserver(t, func(string, bool) []netip.Addr { return addrs(list...) })
	return func(c *egress.Config) { c.Resolver = names.resolver() }
}

// newSiteFixture returns an Egress that does not wait before it refuses a site.
func newSiteFixture(t testing.TB, p *platform, regions string, change ...func(*egress.Config)) *fixture {
	t.Helper()
	w := newFixture(t, p, regions, change...)
	w.ShortBlocked()
	return w
}

// visit calls a page of a site.
func (w *fixture) visit(t testing.TB, account, root string) (string, error) {
	t.Helper()
	origins, err := egress.SiteOrigins(root)
	must.OK(t, err)
	client := w.Client(egress.Identity{Region: "us", Account: account}, origins)
	return fetch(t, client, root+"/page?secret=canary-query", egress.Limits{})
}

// wantSiteDown checks that an error is the problem upstream/unavailable and that nothing was sent.
func (w *fixture) wantSiteDown(t testing.TB, err error, notPublic bool) {
	t.Helper()
	p, ok := errors.AsType[*problem.Error](err)
	if !ok || p.Kind.Code != problem.UpstreamUnavailable.Code || !errors.Is(err, egress.ErrNotSent) || errors.Is(err, egress.ErrNotPublic) != notPublic {
		t.Errorf("want upstream/unavailable, not public: %v; got %v", notPublic, err)
		return
	}
	document, failed := p.Document(problem.Place{ProblemsURL: "https://x/problems", Instance: "urn:x"})
	must.OK(t, failed)
	w.noLeak(t, fmt.Sprintf("%v %s", err, document))
}

// A site is reached through the account's proxy, at the address that this machine has checked, under its own name.
func TestSitesAreReachedAtACheckedAddress(t *testing.T) {
	t.Parallel()
	p := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprintf(w, "%s %s %s %s", host, r.TLS.ServerName, r.Host, r.URL.Path)
	}, "maya.example.com")
	for name, c := range map[string]struct {
		scheme   string
		resolved []string
		asked    []string
	}{
		"http proxy":         {"http", []string{publicAddr}, []string{publicAddr + ":443"}},
		"https proxy":        {"https", []string{publicAddr}, []string{publicAddr + ":443"}},
		"socks5 proxy":       {"socks5", []string{publicAddr}, []string{publicAddr + ":443"}},
		"IPv6":               {"http", []string{"2606:4700::1111"}, []string{"[2606:4700::1111]:443"}},
		"IPv6 over SOCKS":    {"socks5", []string{"2606:4700::1111"}, []string{"[2606:4700::1111]:443"}},
		"IPv4 before IPv6":   {"http", []string{"2606:4700::1111", publicAddr}, []string{publicAddr + ":443"}},
		"the second address": {"http", []string{"8.8.8.8", "2606:4700::1111"}, []string{"8.8.8.8:443", "[2606:4700::1111]:443"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			us := newTestProxy(t, c.scheme, "127.0.1.1", p)
			us.hosts = map[string]string{publicAddr + ":443": p.address, "[2606:4700::1111]:443": p.address}
			w := newSiteFixture(t, p, "us="+us.url(), onDNS(t, c.resolved...))
			got, err := w.visit(t, "acct_1", mayasSite)
			if want := "127.0.1.1 maya.example.com maya.example.com /blog/page"; err != nil || got != want {
				t.Errorf("%s, %v", got, err)
			}
			if asked := us.destinations(); !slices.Equal(asked, c.asked) {
				t.Errorf("tunnels to %v", asked)
			}
		})
	}
}

// A site whose host has an inner address, alone or next to a public one, or none at all, is never dialled. The refusal
// does not say which of these it was.
func TestSitesThatAreNotPublicAreNotDialled(t *testing.T) {
	t.Parallel()
	p := newSite(t, sourceOf, "maya.example.com")
	us := newTestProxy(t, "http", "127.0.1.1", p)
	us.hosts = map[string]string{"maya.example.com:443": p.address, publicAddr + ":443": p.address}
	var found atomic.Pointer[[]netip.Addr]
	names := newNameserver(t, func(string, bool) []netip.Addr { return *found.Load() })
	w := newSiteFixture(t, p, "us="+us.url(), func(c *egress.Config) {
		c.Resolver, c.Deny = names.resolver(), []netip.Prefix{netip.MustParsePrefix("52.0.0.0/8")}
	})
	cases := [][]netip.Addr{nil, {}, addrs("52.1.2.3"), addrs("52.1.2.3", publicAddr)}
	for _, text := range badAddresses {
		cases = append(cases, addrs(text), addrs(publicAddr, text))
		us.hosts[net.JoinHostPort(netip.MustParseAddr(text).Unmap().String(), "443")] = p.address
	}
	detail := ""
	for _, list := range cases {
		found.Store(&list)
		_, err := w.visit(t, "acct_1", mayasSite)
		w.wantSiteDown(t, err, true)
		if detail == "" {
			detail = problem.Of(err).Detail
		}
		if problem.Of(err).Detail != detail {
			t.Errorf("%v: %s", list, problem.Of(err).Detail)
		}
	}
	if asked := us.destinations(); len(asked) != 0 || p.hits.Load() != 0 {
		t.Errorf("tunnels to %v, %d requests", asked, p.hits.Load())
	}
	// The proxy is not to blame.
	public := addrs(publicAddr)
	found.Store(&public)
	if from, err := w.visit(t, "acct_1", mayasSite); err != nil || from != "127.0.1.1" {
		t.Errorf("%s, %v", from, err)
	}
}

// Roots that CheckSite would refuse are refused at the dial as well, without a lookup.
func TestSitesOfAnotherFormAreNotDialled(t *testing.T) {
	t.Parallel()
	p := newSite(t, sourceOf, "maya.example.com")
	us := newTestProxy(t, "http", "127.0.1.1", p)
	names := newNameserver(t, func(string, bool) []netip.Addr { return addrs(publicAddr) })
	w := newSiteFixture(t, p, "us="+us.url(), func(c *egress.Config) { c.Resolver = names.resolver() })
	for _, root := range []string{
		"http://maya.example.com", "https://maya.example.com:8443", "https://127.0.0.1", "https://169.254.169.254", "https://93.184.216.34",
		"https://localhost", "https://metadata.google.internal", "https://postgres", "http://127.0.0.1:2368",
	} {
		_, err := w.visit(t, "acct_1", root)
		w.wantSiteDown(t, err, true)
	}
	for _, root := range []string{"", "maya.example.com", "https://", "https://[::1]", "https://u:p@maya.example.com", "https://maya.example.com?x", "ftp://maya.example.com"} {
		if _, err := egress.SiteOrigins(root); err == nil {
			t.Errorf("%q has origins", root)
		}
	}
	if asked := us.destinations(); len(asked) != 0 || len(names.questions()) != 0 {
		t.Errorf("tunnels to %v, lookups of %v", asked, names.questions())
	}
}

// A name that changes to an inner address after the check, or between two dials, reaches nothing inside. The proxy
// never gets the name, so its own lookup cannot differ.
func TestSitesThatRebindReachNothing(t *testing.T) {
	t.Parallel()
	inside := newSite(t, sourceOf, "maya.example.com")
	p := newSite(t, sourceOf, "maya.example.com")
	us := newTestProxy(t, "http", "127.0.1.1", p)
	us.hosts = map[string]string{"maya.example.com:443": inside.address, "127.0.0.1:443": inside.address, publicAddr + ":443": p.address}
	var lookups atomic.Int64
	names := newNameserver(t, func(_ string, v6 bool) []netip.Addr {
		if v6 {
			return []netip.Addr{}
		}
		if lookups.Add(1)%2 == 0 {
			return addrs("127.0.0.1")
		}
		return addrs(publicAddr)
	})
	w := newSiteFixture(t, p, "us="+us.url(), func(c *egress.Config) { c.Resolver = names.resolver() })
	worked := 0
	for n := range 20 {
		if _, err := w.CheckSite(mayasSite); err != nil {
			t.Fatal(err)
		}
		_, err := w.visit(t, fmt.Sprintf("acct_%d", n), mayasSite) // each account needs a connection of its own
		if err == nil {
			worked++
			continue
		}
		w.wantSiteDown(t, err, true)
	}
	for _, address := range us.destinations() {
		if address != publicAddr+":443" {
			t.Errorf("a tunnel to %s was requested", address)
		}
	}
	if worked != 10 || inside.hits.Load() != 0 {
		t.Errorf("%d calls worked, %d requests arrived inside", worked, inside.hits.Load())
	}
}

// A server at the site's address without a certificate for the site's name gets no request.
func TestSitesNeedACertificateForTheirName(t *testing.T) {
	t.Parallel()
	p := newSite(t, sourceOf, "leo.example.com", "localhost")
	us := newTestProxy(t, "http", "127.0.1.1", p)
	us.hosts = map[string]string{publicAddr + ":443": p.address}
	w := newSiteFixture(t, p, "us="+us.url(), onDNS(t, publicAddr))
	for range 4 {
		_, err := w.visit(t, "acct_1", mayasSite)
		w.wantSiteDown(t, err, false)
	}
	if p.hits.Load() != 0 || !w.Available("us") {
		t.Errorf("%d requests, %+v", p.hits.Load(), w.Status())
	}
	if _, err := w.visit(t, "acct_1", "https://leo.example.com"); err != nil {
		t.Error(err)
	}
}

// Origins that the operator lists may be plain http and have inner addresses. All other origins of the same host may
// not.
func TestListedSitesAreExempt(t *testing.T) {
	t.Parallel()
	p := newPlainPlatform(t, sourceOf)
	us := newTestProxy(t, "http", "127.0.1.1", p)
	us.hosts = map[string]string{p.address: p.address, "ghost.local:80": p.address}
	names := newNameserver(t, func(string, bool) []netip.Addr { return addrs(publicAddr) })
	w := newSiteFixture(t, p, "us="+us.url(), func(c *egress.Config) {
		c.Resolver, c.Sites = names.resolver(), []string{"not an origin", "http://" + p.address, "http://ghost.local"}
	})
	for raw, want := range map[string]string{
		"http://" + p.address + "/":          "http://" + p.address,
		"http://" + p.address + "/blog/":     "http://" + p.address + "/blog",
		"http://Ghost.local:80":              "http://ghost.local",
		"https://" + p.address:               "",
		"http://127.0.0.1:1":                 "",
		"http://127.0.0.2":                   "",
		"http://ghost.local:81":              "",
		"http://u@ghost.local":               "",
		"http://ghost.local?x=1":             "",
		"http://maya.example.com":            "",
		"https://maya.example.com:443/blog/": mayasSite,
	} {
		root, err := w.CheckSite(raw)
		if root != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", raw, root, err)
		}
		if err != nil || root == mayasSite {
			continue
		}
		if from, err := w.visit(t, "acct_1", root); err != nil || from != "127.0.1.1" {
			t.Errorf("%s: %s, %v", root, from, err)
		}
	}
	if asked := names.questions(); len(asked) != 0 {
		t.Errorf("looked up %v", asked)
	}
	_, err := w.visit(t, "acct_1", "http://127.0.0.1:1")
	w.wantSiteDown(t, err, true)
}

// Whatever a site makes a proxy do, the proxy stays in use, and platforms and other sites are called as before.
func TestADeadSiteDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	p := newSite(t, sourceOf, "maya.example.com", "platform.test")
	for name, answer := range map[string]string{
		"unreachable": "HTTP/1.1 502 Bad Gateway\r\n\r\n", "forbidden": "HTTP/1.1 403 Forbidden\r\n\r\n", "rejected": "HTTP/1.1 429 Too Many Requests\r\n\r\n",
		"reset": "", "garbled": "SSH-2.0-OpenSSH_9.2\r\n", "forged": "HTTP/1.1 200 OK\r\n\r\n" + "HTTP/1.1 200 OK\r\n\r\n", "slow": "hang",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dead := net.JoinHostPort("8.8.8.8", "443")
			healthy := newTestProxy(t, "http", "127.0.1.1", p)
			healthy.hosts = map[string]string{publicAddr + ":443": p.address, "platform.test:443": p.address}
			// The proxy fails for the dead site only.
			address := listen(t, func(c net.Conn) {
				first := make([]byte, 4096)
				n, _ := c.Read(first)
				switch {
				case !strings.HasPrefix(string(first[:n]), "CONNECT "+dead):
					pipe(c, healthy.address, first[:n])
				case answer != "hang":
					_, _ = io.WriteString(c, answer)
					_ = c.Close()
				}
			})
			names := newNameserver(t, func(name string, _ bool) []netip.Addr {
				if name == "dead.example.com" {
					return addrs("8.8.8.8")
				}
				return addrs(publicAddr)
			})
			w := newSiteFixture(t, p, "us=http://"+user+":"+password+"@"+address, func(c *egress.Config) { c.Resolver = names.resolver() }, func(c *egress.Config) {
				if answer == "hang" {
					shortHandshake(c)
				}
			})
			platform, err := egress.ParseOrigins("https://platform.test")
			must.OK(t, err)
			for range 3 {
				_, err := w.visit(t, "acct_1", "https://dead.example.com")
				w.wantSiteDown(t, err, false)
				w.Check(t.Context())
				if !w.Available("us") {
					t.Fatalf("%+v", w.Status())
				}
				if _, err := w.visit(t, "acct_2", mayasSite); err != nil {
					t.Error(err)
				}
				client := w.Client(egress.Identity{Region: "us", Account: "acct_3"}, platform)
				if _, err := fetch(t, client, "https://platform.test/", egress.Limits{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// pipe joins a connection with one to an address, to which it first sends the bytes that were already read.
func pipe(c net.Conn, address string, first []byte) {
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = to.Close(); _ = c.Close() }()
	_, _ = to.Write(first)
	go func() { _, _ = io.Copy(to, c) }()
	_, _ = io.Copy(c, to)
}

// A proxy that is gone or rejects our credentials goes down, also if only sites are called through it. The caller learns
// that the region is at fault, not the site.
func TestSitesShowThatAProxyIsDead(t *testing.T) {
	t.Parallel()
	p := newSite(t, sourceOf, "maya.example.com")
	gone := newTestProxy(t, "http", "127.0.1.1", p)
	gone.kill()
	for name, proxy := range map[string]string{
		"gone": gone.url(), "other password": "http://" + listen(t, reply("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSiteFixture(t, p, "us="+proxy, onDNS(t, publicAddr))
			for range 2 {
				_, err := w.visit(t, "acct_1", mayasSite)
				w.wantUnavailable(t, err)
			}
			if w.Available("us") {
				t.Errorf("%+v", w.Status())
			}
		})
	}
}

// The check of a doubtful proxy does not depend on a site.
func TestSitesAreNoTargetsOfChecks(t *testing.T) {
	t.Parallel()
	p := newSite(t, sourceOf, "maya.example.com")
	us := newTestProxy(t, "http", "127.0.1.1", p)
	us.hosts = map[string]string{publicAddr + ":443": p.address}
	w := newSiteFixture(t, p, "us="+us.url(), onDNS(t, publicAddr))
	_, err := w.visit(t, "acct_1", mayasSite)
	must.OK(t, err)
	us.kill()
	_, err = w.visit(t, "acct_2", mayasSite) // now the proxy is doubtful
	w.wantUnavailable(t, err)
	us.start()
	before := len(us.destinations())
	w.Check(t.Context())
	if asked := us.destinations()[before:]; len(asked) != 0 {
		t.Errorf("the check requested tunnels to %v", asked)
	}
}

// Two accounts on one site, one account on two sites, and a site and a platform on the same host have connections of
// their own.
func TestSitesShareNoConnections(t *testing.T) {
	t.Parallel()
	p := newSite(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) }, "maya.example.com", "leo.example.com")
	us := newTestProxy(t, "http", "127.0.1.1", p)
	us.hosts = map[string]string{publicAddr + ":443": p.address, "maya.example.com:443": p.address}
	w := newSiteFixture(t, p, "us="+us.url(), onDNS(t, publicAddr))
	platform, err := egress.ParseOrigins("https://maya.example.com")
	must.OK(t, err)
	seen := map[string]string{}
	for range 2 {
		for _, who := range []string{"acct_1 https://maya.example.com", "acct_2 https://maya.example.com", "acct_1 https://leo.example.com", "acct_1 platform"} {
			account, root, _ := strings.Cut(who, " ")
			var from string
			if root == "platform" {
				from, err = fetch(t, w.Client(egress.Identity{Region: "us", Account: account}, platform), "https://maya.example.com/", egress.Limits{})
			} else {
				from, err = w.visit(t, account, root)
			}
			must.OK(t, err)
			if other, used := seen[from]; used && other != who {
				t.Errorf("%s and %s share a connection", who, other)
			}
			seen[from] = who
		}
	}
	if opened := int64(len(us.destinations())); opened != connections(8, 4) {
		t.Errorf("%d connections", opened)
	}
	// A client of one site cannot call another.
	origins, err := egress.SiteOrigins("https://maya.example.com")
	must.OK(t, err)
	_, err = fetch(t, w.Client(egress.Identity{Region: "us", Account: "acct_1"}, origins), "https://leo.example.com/", egress.Limits{})
	if !errors.Is(err, egress.ErrOrigin) {
		t.Error(err)
	}
}

// CheckSite accepts the root of a public site only, and writes it in one form.
func TestSiteRootsHaveOneForm(t *testing.T) {
	t.Parallel()
	w := newSiteFixture(t, newSite(t, sourceOf), "")
	for raw, want := range map[string]string{
		"https://maya.example.com": "https://maya.example.com", "https://maya.example.com/": "https://maya.example.com",
		"HTTPS://Maya.Example.com:443/Blog//": "https://maya.example.com/Blog", "https://maya.example.com/a/b-c_d~e.f/": "https://maya.example.com/a/b-c_d~e.f",
		"https://xn--my-site-cua.example": "https://xn--my-site-cua.example", "https://München.Example/Blog": "https://xn--mnchen-3ya.example/Blog",
	} {
		root, err := w.CheckSite(raw)
		if err != nil || root != want {
			t.Errorf("%s: %q, %v", raw, root, err)
		}
		if again, err := w.CheckSite(root); err != nil || again != root {
			t.Errorf("%s: %q, %v", root, again, err)
		}
	}
	invalid := []string{
		"https://maya.example.com?", "https://maya.example.com/?a=b", "https://maya.example.com/a//b", "https://maya.example.com//a", "https://maya.example.com/./a", "https://maya.example.com/a/..",
		"https://maya.example.com/%61", "https://maya.example.com/a%2fb", "https://maya.example.com/a%20b", "https://maya.example.com/a;b", "https://maya.example.com/@a", "https://maya.example.com/a:b",
	}
	for _, raw := range slices.Concat(invalid, badURLs) {
		if raw == "https://exämple.com/" {
			continue // a site may have such a name, a webhook may not
		}
		_, err := w.CheckSite(raw)
		p, ok := errors.AsType[*problem.Error](err)
		want := problem.UnsafeURL.Code
		if slices.Contains(invalid, raw) {
			want = problem.ValidationFailed.Code
		}
		if !ok || p.Kind.Code != want || len(p.Fields) != 1 || p.Fields[0].Pointer != "/site" {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

// Any accepted site has a root that is accepted unchanged, has an origin, and is https on a public name.
func FuzzCheckSite(f *testing.F) {
	for _, raw := range append(slices.Concat(badURLs, goodURLs), mayasSite, "https://a.example/b//", "http://127.0.0.1:2368/x") {
		f.Add(raw)
	}
	w := egress.New(egress.Deps{Config: egress.Config{Sites: []string{"http://127.0.0.1:2368"}}, Now: time.Now})
	f.Fuzz(func(t *testing.T, raw string) {
		root, err := w.CheckSite(raw)
		if err != nil {
			return
		}
		if again, err := w.CheckSite(root); err != nil || again != root {
			t.Errorf("%q: %q, %q, %v", raw, root, again, err)
		}
		if _, err := egress.SiteOrigins(root); err != nil {
			t.Errorf("%q: %v", root, err)
		}
		origin, path := egress.SplitSite(root)
		if origin+path != root || path != "" && path[0] != '/' || strings.HasSuffix(root, "/") || strings.ContainsAny(root, "?#@%\\ ") {
			t.Errorf("%q: %q, %q", root, origin, path)
		}
		host, secure := strings.CutPrefix(origin, "https://")
		if origin != "http://127.0.0.1:2368" && (!secure || !strings.Contains(host, ".") || strings.ContainsAny(host, ":/") || host != strings.ToLower(host)) {
			t.Errorf("%q", origin)
		}
	})
}
