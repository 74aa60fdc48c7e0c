package egress_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

const (
	idleVariable = "EGRESS_IDLE" // the mode; it turns TestIdleChild into the measured process
	idleAddress  = "EGRESS_IDLE_ADDRESS"
	idleRoot     = "EGRESS_IDLE_ROOT" // of a platform with TLS
	idleNumber   = "EGRESS_IDLE_NUMBER"
)

// cannedTunnel starts a proxy that is also the platform behind it, with TLS if it is given a certificate.
func cannedTunnel(t testing.TB, secure *tls.Config) string {
	t.Helper()
	return listen(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			answer := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024)
			if req.Method == http.MethodConnect {
				answer = "HTTP/1.1 200 OK\r\n\r\n"
			}
			if _, err := io.WriteString(conn, answer); err != nil {
				return
			}
			if req.Method == http.MethodConnect && secure != nil {
				conn = tls.Server(conn, secure)
				in = bufio.NewReader(conn)
			}
		}
	})
}

// TestIdleChild opens connections for many accounts, leaves them idle, and prints the cost of one.
func TestIdleChild(t *testing.T) { //nolint:paralleltest // it measures its process
	way := os.Getenv(idleVariable)
	if way == "" {
		return
	}
	do := callFunc((*egress.Client).Call)
	if way == "transport" {
		do = (*egress.Client).CallStreaming
	}
	regions, err := egress.ParseRegions(secret.New("us=http://" + os.Getenv(idleAddress)))
	must.OK(t, err)
	origin, roots := "http://plain.test", x509.NewCertPool()
	if roots.AppendCertsFromPEM([]byte(os.Getenv(idleRoot))) {
		origin = "https://platform.test"
	}
	origins, err := egress.ParseOrigins(origin)
	must.OK(t, err)
	out := egress.New(egress.Deps{Config: egress.Config{Regions: regions, Roots: roots}, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	call := func(n int) {
		client := out.Client(egress.Identity{Region: "us", Account: fmt.Sprintf("acct_%d", n)}, origins)
		r, err := do(client, t.Context(), &egress.Request{Method: http.MethodGet, Origin: origin, Path: "/"}, egress.Limits{})
		must.OK(t, err)
		r.Release()
	}
	number, err := strconv.Atoi(os.Getenv(idleNumber))
	must.OK(t, err)
	call(0)
	debug.FreeOSMemory()
	goroutines, memory := runtime.NumGoroutine(), residentBytes(t)
	for n := range number {
		call(n + 1)
	}
	debug.FreeOSMemory()
	fmt.Printf("idle %.3f %.1f\n", float64(runtime.NumGoroutine()-goroutines)/float64(number), (residentBytes(t)-memory)/float64(number)/1024)
}

func residentBytes(t testing.TB) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	must.OK(t, err)
	var size, resident float64
	_, err = fmt.Sscan(string(text), &size, &resident)
	must.OK(t, err)
	return resident * float64(os.Getpagesize())
}

// idleCost returns the goroutines and the KB per idle connection.
func idleCost(t testing.TB, way string, number int, secure bool) (goroutines, kilobytes float64) {
	t.Helper()
	var config *tls.Config
	root := ""
	if secure {
		a := newAuthority(t)
		config = &tls.Config{Certificates: []tls.Certificate{a.issue(t, time.Hour, "platform.test")}}
		root = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestIdleChild$", "-test.count=1")
	child.Env = append(os.Environ(), idleVariable+"="+way, idleAddress+"="+cannedTunnel(t, config), idleRoot+"="+root, idleNumber+"="+strconv.Itoa(number))
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, figures, _ := strings.Cut(string(out), "idle ")
	_, err = fmt.Sscan(figures, &goroutines, &kilobytes)
	must.OK(t, err)
	return goroutines, kilobytes
}

// An idle connection of Call has no goroutine, and Do leaves no goroutines behind.
func TestIdleConnectionsHaveNoGoroutines(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"owned", "transport"} {
		if goroutines, _ := idleCost(t, way, 50, false); goroutines > 0.05 {
			t.Errorf("%s: %.3f goroutines for each idle connection", way, goroutines)
		}
	}
}

// BenchmarkIdle measures the cost of an idle connection in both modes.
func BenchmarkIdle(b *testing.B) {
	for _, way := range []string{"owned", "transport"} {
		for _, secure := range []bool{false, true} {
			b.Run(way+map[bool]string{true: " TLS"}[secure], func(b *testing.B) {
				goroutines, kilobytes := idleCost(b, way, 1000, secure)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(goroutines, "goroutines/conn")
				b.ReportMetric(kilobytes, "KB/conn")
			})
		}
	}
}
