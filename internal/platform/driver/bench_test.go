package driver_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// recordResponse returns the sandbox's response to a request, as raw HTTP.
func recordResponse(b *testing.B, r *fixture, s driver.Session, path string) []byte {
	b.Helper()
	var stored struct {
		Cookies []struct{ Name, Value string }
		Headers map[string]string
	}
	must.OK(b, json.Unmarshal([]byte(s.Encode().Reveal()), &stored))
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, r.platform.URL+path, http.NoBody)
	must.OK(b, err)
	for _, c := range stored.Cookies {
		req.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
	}
	for name, value := range stored.Headers {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	must.OK(b, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("%d %s %v", resp.StatusCode, body, err)
	}
	return append(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body)), body...)
}

// replayServer starts a proxy that answers every request inside its tunnels itself, always with the same response.
func replayServer(b *testing.B, answer []byte) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(b, err)
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
				request := make([]byte, 16<<10)
				for {
					if _, err := conn.Read(request); err != nil {
						return
					}
					if _, err := conn.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// BenchmarkCall measures a call from its arguments to its result, including decoding the session. The CPU time includes
// that of the fake platform, which does not allocate.
func BenchmarkCall(b *testing.B) {
	r := newFixture(b)
	s := r.session(r.login("ok"))
	m, ok := r.catalog.Method("chats", "list")
	if !ok {
		b.Fatal("no such method")
	}
	args, err := m.FromObject([]byte(`{"limit":2}`), false)
	must.OK(b, err)
	req := args.Request()
	answer := recordResponse(b, r, s, req.Path+"?"+req.Query)
	regions, err := egress.ParseRegions(secret.New("us=http://" + replayServer(b, answer)))
	must.OK(b, err)
	out := egress.New(egress.Deps{Config: egress.Config{Regions: regions}, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	d, err := driver.New(driver.Deps{Catalog: r.catalog, Egress: out, Origin: r.platform.URL, Patience: 0, Now: time.Now})
	must.OK(b, err)
	text := s.Encode()
	b.ReportAllocs()
	before := processorTime(b)
	for b.Loop() {
		session, err := driver.DecodeSession(text)
		must.OK(b, err)
		if a, err := d.Call(b.Context(), via("us"), session, m, args); err != nil || len(a.Result) == 0 {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(processorTime(b)-before)/float64(time.Microsecond)/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64(len(answer)), "answer-B")
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	must.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
