package egress_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

const (
	nextAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext"
	evilAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
)

// surplusPlatform is a platform that responds to /first with several writes, each in a separate TLS record, which reach
// the client together. It responds to every other path with "next".
type surplusPlatform struct {
	secure bool
	writes []string
	// cut is the number of last bytes that are held back until the next request arrives.
	cut int
}

func (s surplusPlatform) start(t testing.TB) *platform {
	t.Helper()
	p := &platform{authority: newAuthority(t), origin: "http://plain.test"}
	config := &tls.Config{Certificates: []tls.Certificate{p.issue(t, time.Hour, "platform.test")}}
	if s.secure {
		p.origin = "https://platform.test"
	}
	p.address = listen(t, func(raw net.Conn) {
		defer raw.Close()
		held := &holdingConn{Conn: raw}
		var conn net.Conn = held
		if s.secure {
			conn = tls.Server(held, config)
		}
		in := bufio.NewReader(conn)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if req.URL.Path != "/first" {
				held.release(0)
				_, _ = io.WriteString(conn, nextAnswer)
				continue
			}
			held.hold = true
			for _, text := range s.writes {
				_, _ = io.WriteString(conn, text)
			}
			held.release(s.cut)
		}
	})
	return p
}

// release sends what was held back, except its last keep bytes, and stops holding.
func (h *holdingConn) release(keep int) {
	now := h.text[:len(h.text)-keep]
	h.text, h.hold = h.text[len(now):], false
	_, _ = h.Conn.Write(now)
}

// An unsolicited response never becomes the response of the next call, regardless of the layer that holds it when the
// connection is to be reused: neither for the same account nor, where accounts share connections, for another one.
func TestUnaskedAnswerIsNeverGivenToTheNextCall(t *testing.T) {
	t.Parallel()
	first := func(header, body string) string { return "HTTP/1.1 " + header + "\r\n\r\n" + body }
	cases := map[string]struct {
		method string
		surplusPlatform
	}{
		"in a record of its own":     {"GET", surplusPlatform{true, []string{first("200 OK\r\nContent-Length: 5", "hello"), evilAnswer}, 0}},
		"in the same record":         {"GET", surplusPlatform{true, []string{first("200 OK\r\nContent-Length: 5", "hello") + evilAnswer}, 0}},
		"in half a record":           {"GET", surplusPlatform{true, []string{first("200 OK\r\nContent-Length: 5", "hello"), evilAnswer}, 20}},
		"in half a record's header":  {"GET", surplusPlatform{true, []string{first("200 OK\r\nContent-Length: 5", "hello"), evilAnswer}, len(evilAnswer) + 17 + 2}},
		"after chunks":               {"GET", surplusPlatform{true, []string{first("200 OK\r\nTransfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"), evilAnswer}, 0}},
		"after trailers":             {"GET", surplusPlatform{true, []string{first("200 OK\r\nTransfer-Encoding: chunked", "5\r\nhello\r\n0\r\nA: b\r\n\r\n"), evilAnswer}, 0}},
		"after 204":                  {"GET", surplusPlatform{true, []string{first("204 No Content", ""), evilAnswer}, 0}},
		"after 304":                  {"GET", surplusPlatform{true, []string{first("304 Not Modified\r\nContent-Length: 9", ""), evilAnswer}, 0}},
		"after HEAD":                 {"HEAD", surplusPlatform{true, []string{first("200 OK\r\nContent-Length: 5", ""), evilAnswer}, 0}},
		"as the body of HEAD":        {"HEAD", surplusPlatform{true, []string{first("200 OK\r\nContent-Length: 79", ""), evilAnswer}, 0}},
		"after 103":                  {"GET", surplusPlatform{true, []string{first("103 Early Hints", ""), first("200 OK\r\nContent-Length: 5", "hello"), evilAnswer}, 0}},
		"only a preamble":            {"GET", surplusPlatform{true, []string{first("200 OK\r\nContent-Length: 5", "hello"), first("100 Continue", ""), evilAnswer}, 0}},
		"after the answer to a POST": {"POST", surplusPlatform{true, []string{first("200 OK\r\nContent-Length: 5", "hello"), evilAnswer}, 0}},
		"without TLS":                {"GET", surplusPlatform{false, []string{first("200 OK\r\nContent-Length: 5", "hello"), evilAnswer}, 0}},
		"without TLS, HEAD":          {"HEAD", surplusPlatform{false, []string{first("200 OK\r\nContent-Length: 5", ""), evilAnswer}, 0}},
		"without TLS, 204":           {"GET", surplusPlatform{false, []string{first("204 No Content", ""), evilAnswer}, 0}},
	}
	overBoth(t, func(t *testing.T, do callFunc) {
		t.Helper()
		for name, c := range cases {
			for isolation, accounts := range map[egress.Isolation][2]string{
				egress.ByAccount: {"acct_1", "acct_1"}, egress.ByProxy: {"acct_1", "acct_2"},
			} {
				for _, scheme := range []string{"http", "https"} {
					t.Run(strings.Join([]string{name, accounts[1], scheme}, ", "), func(t *testing.T) {
						t.Parallel()
						p := c.start(t)
						w := newFixture(t, p, "us="+newTestProxy(t, scheme, "127.0.1.1", p).url())
						client := func(n int) *egress.Client {
							return w.Client(egress.Identity{Region: "us", Account: accounts[n], Isolation: isolation}, p.origins(t))
						}
						r, err := do(client(0), t.Context(), &egress.Request{Method: c.method, Origin: p.origin, Path: "/first"}, egress.Limits{})
						must.OK(t, err)
						r.Release()
						for _, method := range []string{http.MethodGet, http.MethodPost} {
							r = do.want(t, client(1), egress.Request{Method: method, Origin: p.origin, Path: "/second"}, 200, "next")
							r.Release()
						}
					})
				}
			}
		}
	})
}

// A connection on which the platform sends before a request gets no request.
func TestPlatformThatSpeaksFirstIsNotAsked(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, do callFunc) {
		t.Helper()
		p := &platform{authority: newAuthority(t), origin: "https://platform.test"}
		config := &tls.Config{Certificates: []tls.Certificate{p.issue(t, time.Hour, "platform.test")}, MaxVersion: tls.VersionTLS12}
		var once sync.Once
		asked := make(chan string, 10)
		p.address = listen(t, func(raw net.Conn) {
			defer raw.Close()
			held := &holdingConn{Conn: raw}
			conn := tls.Server(held, config)
			once.Do(func() {
				// The end of the handshake and the unsolicited response arrive together.
				config := config.Clone()
				config.VerifyConnection = func(tls.ConnectionState) error { held.hold = true; return nil }
				conn = tls.Server(held, config)
				_ = conn.Handshake()
				_, _ = io.WriteString(conn, evilAnswer)
				held.release(0)
			})
			in := bufio.NewReader(conn)
			for {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				asked <- req.URL.Path
				_, _ = io.WriteString(conn, nextAnswer)
			}
		})
		proxies := newTestProxy(t, "http", "127.0.1.1", p).url() + "," + newTestProxy(t, "http", "127.0.1.1", p).url()
		w := newFixture(t, p, "us="+proxies)
		for range 2 {
			r := do.want(t, w.client(t, "us", "acct_1"), egress.Request{Method: http.MethodGet, Origin: p.origin, Path: "/"}, 200, "next")
			r.Release()
		}
		if len(asked) != 2 {
			t.Errorf("%d requests", len(asked))
		}
	})
}
