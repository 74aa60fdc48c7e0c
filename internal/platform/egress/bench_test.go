package egress_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// cannedPlatform responds to every request with the same KiB without allocating, so that a benchmark measures the
// client.
func cannedPlatform(b testing.TB, secure bool) *platform {
	b.Helper()
	p := &platform{authority: newAuthority(b), origin: "http://plain.test"}
	if secure {
		p.origin = "https://platform.test"
	}
	config := &tls.Config{Certificates: []tls.Certificate{p.issue(b, time.Hour, "platform.test")}}
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024))
	p.address = listen(b, func(raw net.Conn) {
		conn := raw
		if secure {
			conn = tls.Server(raw, config)
		}
		request := make([]byte, 16<<10)
		for {
			if _, err := conn.Read(request); err != nil {
				return
			}
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	})
	return p
}

// BenchmarkRoundTrip compares a call through this package with one through the standard transport and the same proxy.
// The CPU time includes the proxy and the platform, which are the same for both.
func BenchmarkRoundTrip(b *testing.B) {
	for _, secure := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "TLS"}[secure], func(b *testing.B) { benchmarkRoundTrip(b, secure) })
	}
}

func benchmarkRoundTrip(b *testing.B, secure bool) {
	b.Helper()
	p := cannedPlatform(b, secure)
	f := newTestProxy(b, "http", "127.0.1.1", p)
	w := newFixture(b, p, "us="+f.url())
	via, err := url.Parse(f.url())
	must.OK(b, err)
	bare := &http.Transport{
		Proxy: http.ProxyURL(via), TLSClientConfig: &tls.Config{RootCAs: p.roots, MinVersion: tls.VersionTLS12},
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}, MaxIdleConnsPerHost: 64, DisableCompression: true,
	}
	b.Cleanup(bare.CloseIdleConnections)
	origins := p.origins(b)
	client := func() *egress.Client { return w.Client(egress.Identity{Region: "us", Account: "acct_1"}, origins) }
	standard := func(do func(*http.Request) (*http.Response, error)) func(*testing.B) {
		return func(b *testing.B) {
			b.Helper()
			req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, p.origin+"/api/v2/me", nil)
			must.OK(b, err)
			req.Header = http.Header{"Accept-Encoding": {"gzip"}, "Cookie": {"a=1"}, "User-Agent": {"browser"}}
			resp, err := do(req)
			must.OK(b, err)
			if n, err := io.Copy(io.Discard, resp.Body); n != 1024 || err != nil {
				b.Fatal(n, err)
			}
			must.OK(b, resp.Body.Close())
		}
	}
	header, cookies := []egress.Field{{Name: "User-Agent", Value: "browser"}}, []egress.Field{{Name: "a", Value: "1"}}
	usesCall := func(b *testing.B) {
		b.Helper()
		q := egress.Request{Method: http.MethodGet, Origin: p.origin, Path: "/api/v2/me", Header: header, Cookies: cookies}
		r, err := client().Call(b.Context(), &q, egress.Limits{})
		if err != nil || len(r.Body) != 1024 {
			b.Fatal(err)
		}
		r.Release()
	}
	for _, c := range []struct {
		name string
		call func(*testing.B)
	}{
		{"bare", standard(bare.RoundTrip)}, // over TLS only: without TLS the standard transport does not use a tunnel
		{"Do", standard(func(req *http.Request) (*http.Response, error) { return client().Do(req, egress.Limits{}) })},
		{"Call", usesCall},
	} {
		if c.name == "bare" && !secure {
			continue
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			c.call(b)
			before := processorTime(b)
			for b.Loop() {
				c.call(b)
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(time.Microsecond)/float64(b.N), "cpu-us/op")
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	must.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkDial measures a new connection with CONNECT and TLS.
func BenchmarkDial(b *testing.B) {
	p := newPlatform(b, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	for _, scheme := range []string{"http", "socks5"} {
		w := newFixture(b, p, "us="+newTestProxy(b, scheme, "127.0.1.1", p).url())
		b.Run(scheme, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				_, err := w.get(b, "us", fmt.Sprintf("acct_%d", n%10))
				must.OK(b, err)
			}
		})
	}
}
