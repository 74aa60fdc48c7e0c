package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// scriptedPlatform starts a platform that responds to each path with a fixed text, and to other paths with "next".
func scriptedPlatform(t *testing.T, answers map[string]string) *platform {
	t.Helper()
	return newRawPlatform(t, func(conn net.Conn) {
		defer conn.Close()
		in := bufio.NewReader(conn)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			text, ok := answers[req.URL.Path]
			if !ok {
				text = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext"
			}
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
		}
	})
}

// Each form of a response ends where it should: the next call on the connection gets its own response.
func TestEveryFormOfAnswerEndsWhereItShould(t *testing.T) {
	t.Parallel()
	zipped := string(zip(t, []byte("hello")))
	chunk := func(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }
	huge := strings.Repeat("X-Long: "+strings.Repeat("x", 1000)+"\r\n", 60)
	cases := map[string]struct {
		method, reply string
		status        int
		body          string
	}{
		"plain":               {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"},
		"no reason":           {"GET", "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"},
		"bare line feeds":     {"GET", "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", 200, "hello"},
		"equal lengths":       {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\nhello", 200, "hello"},
		"empty":               {"POST", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, ""},
		"204":                 {"POST", "HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
		"304 with a length":   {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n", 304, ""},
		"HEAD":                {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", 200, ""},
		"HEAD in chunks":      {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, ""},
		"HEAD, compressed":    {"HEAD", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\n", 200, ""},
		"100 first":           {"POST", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"},
		"103 and 102 first":   {"GET", "HTTP/1.1 103 Early Hints\r\nLink: x\r\nContent-Length: 3\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"},
		"a long header":       {"GET", "HTTP/1.1 200 OK\r\n" + huge + "Content-Length: 5\r\n\r\nhello", 200, "hello"},
		"chunks":              {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("hel") + chunk("lo") + "0\r\n\r\n", 200, "hello"},
		"chunks with more":    {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n", 200, "hello"},
		"chunks and trailers": {"GET", "HTTP/1.1 200 OK\r\nTrailer: X\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("hello") + "0\r\nX: y\r\nZ: \r\n\r\n", 200, "hello"},
		"gzip":                {"GET", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: " + strconv.Itoa(len(zipped)) + "\r\n\r\n" + zipped, 200, "hello"},
		"gzip, chunks, trailers": {"GET", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n" +
			chunk(zipped[:7]) + chunk(zipped[7:]) + "0\r\nX: y\r\n\r\n", 200, "hello"},
		"gzip of nothing":   {"GET", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, ""},
		"old but keeps":     {"GET", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"},
		"an error":          {"POST", "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 5\r\n\r\nhello", 503, "hello"},
		"an unusual number": {"GET", "HTTP/1.1 999 Go Away\r\nContent-Length: 5\r\n\r\nhello", 999, "hello"},
	}
	overBoth(t, func(t *testing.T, do callFunc) {
		t.Helper()
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := scriptedPlatform(t, map[string]string{"/first": c.reply})
				f := newTestProxy(t, "socks5", "127.0.1.1", p)
				w := newFixture(t, p, "us="+f.url())
				client := w.client(t, "us", "acct_1")
				r := do.want(t, client, egress.Request{Method: c.method, Origin: p.origin, Path: "/first"}, c.status, c.body)
				r.Release()
				r = do.want(t, client, egress.Request{Method: http.MethodGet, Origin: p.origin, Path: "/second"}, 200, "next")
				r.Release()
				if connSet := f.tunnels.Load() == 1; connSet == strings.Contains(t.Name(), "/transport/") {
					t.Errorf("%d tunnels", f.tunnels.Load())
				}
			})
		}
	})
}

// A connection is not reused if the platform says so, or if the end of the response is ambiguous.
func TestDoubtfulConnectionsAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"close":             "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
		"close, in a list":  "HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 5\r\n\r\nhello",
		"old":               "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"more than it said": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
		"more than chunks":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
		"more than nothing": "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
	}
	overBoth(t, func(t *testing.T, do callFunc) {
		t.Helper()
		for name, reply := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := scriptedPlatform(t, map[string]string{"/first": reply})
				f := newTestProxy(t, "socks5", "127.0.1.1", p)
				w := newFixture(t, p, "us="+f.url())
				client := w.client(t, "us", "acct_1")
				r, err := do(client, t.Context(), &egress.Request{Method: http.MethodGet, Origin: p.origin, Path: "/first"}, egress.Limits{})
				must.OK(t, err)
				r.Release()
				r = do.want(t, client, egress.Request{Method: http.MethodPost, Origin: p.origin, Path: "/second"}, 200, "next")
				r.Release()
				if f.tunnels.Load() != 2 {
					t.Errorf("%d tunnels", f.tunnels.Load())
				}
			})
		}
	})
}
