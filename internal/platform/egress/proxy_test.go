package egress_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// Whatever a bad proxy does, the caller gets 503, the platform gets nothing, the other region works, and the proxy's
// address does not leak.
func TestBadProxyFailsTheCallAndNothingIsSent(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, sourceOf)
	mitm := newPlatform(t, sourceOf) // valid TLS of another authority
	for name, c := range map[string]struct {
		scheme string
		talk   func(net.Conn)
		reason string
	}{
		"hangs":                  {"http", func(net.Conn) {}, "slow"},
		"resets":                 {"http", func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() }, "reset"},
		"hangs up":               {"http", func(c net.Conn) { _ = c.Close() }, "reset"},
		"wants other passwords":  {"http", reply("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"canary-user\"\r\n\r\n"), "denied"},
		"forbids":                {"http", reply("HTTP/1.1 403 Forbidden\r\nContent-Length: 1000000\r\n\r\n"), "forbidden"},
		"is busy":                {"http", reply("HTTP/1.1 429 Too Many Requests\r\n\r\n"), "rejected"},
		"forges an answer":       {"http", reply("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), "garbled"},
		"forges a tunnel":        {"http", forgedTunnel, "platform_tls"},
		"is somebody else":       {"http", detour(mitm.address), "platform_tls"},
		"speaks another tongue":  {"http", reply("SSH-2.0-OpenSSH_9.2\r\n"), "garbled"},
		"talks without end":      {"http", reply("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 64<<10)), "garbled"},
		"has no TLS":             {"https", reply("HTTP/1.1 400 Bad Request\r\n\r\n"), "untrusted"},
		"has another's TLS":      {"https", detour(mitm.address), "untrusted"},
		"SOCKS hangs":            {"socks5", func(net.Conn) {}, "slow"},
		"SOCKS hangs up":         {"socks5", func(c net.Conn) { _ = c.Close() }, "reset"},
		"SOCKS wants other keys": {"socks5", replySOCKS("\x05\x02", "\x01\x01"), "denied"},
		"SOCKS wants no keys":    {"socks5", replySOCKS("\x05\xff"), "denied"},
		"SOCKS cannot":           {"socks5", replySOCKS("\x05\x00", "\x05\x07\x00\x01\x00\x00\x00\x00\x00\x00"), "rejected"},
		"SOCKS forbids":          {"socks5", replySOCKS("\x05\x00", "\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00"), "forbidden"},
		"SOCKS is HTTP":          {"socks5", reply("HTTP/1.1 400 Bad Request\r\n\r\n"), "garbled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := c.scheme + "://" + user + ":" + password + "@" + listen(t, c.talk)
			uk := newTestProxy(t, "http", "127.0.2.1", p)
			change := []func(*egress.Config){}
			if c.reason == "slow" {
				change = append(change, shortHandshake)
			}
			w := newFixture(t, p, "us="+bad+" uk="+uk.url(), change...)
			_, err := w.get(t, "us", "acct_1")
			w.wantUnavailable(t, err)
			if !strings.Contains(err.Error(), "proxy us/0: "+c.reason) {
				t.Errorf("the error does not contain the reason %s: %v", c.reason, err)
			}
			if from, err := w.get(t, "uk", "acct_1"); err != nil || from != "127.0.2.1" {
				t.Errorf("uk: %s, %v", from, err)
			}
			want := fmt.Sprintf(`stagedoor_egress_dials_total{outcome="%s",region="us"} 1`, c.reason)
			if text := w.scrape(); !strings.Contains(text, want) {
				t.Errorf("no %s in\n%s", want, text)
			}
		})
	}
	t.Cleanup(func() {
		if mitm.hits.Load() != 0 {
			t.Error("a request was sent to the wrong platform")
		}
	})
}

// reply responds to the first message with a text.
func reply(text string) func(net.Conn) {
	return func(c net.Conn) {
		request := make([]byte, 4096)
		_, _ = c.Read(request)
		_, _ = c.Write([]byte(text))
	}
}

// A proxy that reports, in one of the usual ways, that it cannot reach the platform stays healthy.
func TestProxyThatCannotReachThePlatformStaysHealthy(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, sourceOf)
	for name, c := range map[string]struct {
		scheme string
		talk   func(net.Conn)
	}{
		"tinyproxy": {"http", reply("HTTP/1.1 500 Unable to connect\r\n\r\n")},
		"goproxy":   {"http", reply("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 5\r\n\r\nhello")},
		"squid":     {"http", reply("HTTP/1.1 503 Service Unavailable\r\n\r\n")},
		"timeout":   {"http", reply("HTTP/1.0 504 Gateway Timeout\r\n\r\n")},
		"SOCKS 1":   {"socks5", replySOCKS("\x05\x00", "\x05\x01\x00\x01\x00\x00\x00\x00\x00\x00")},
		"SOCKS 3":   {"socks5", replySOCKS("\x05\x00", "\x05\x03\x00\x01\x00\x00\x00\x00\x00\x00")},
		"SOCKS 4":   {"socks5", replySOCKS("\x05\x00", "\x05\x04\x00\x01\x00\x00\x00\x00\x00\x00")},
		"SOCKS 5":   {"socks5", replySOCKS("\x05\x00", "\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00")},
		"SOCKS 6":   {"socks5", replySOCKS("\x05\x00", "\x05\x06\x00\x01\x00\x00\x00\x00\x00\x00")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, p, "us="+c.scheme+"://"+listen(t, c.talk))
			for range 4 {
				if _, err := w.get(t, "us", "acct_1"); !errors.Is(err, problem.UpstreamUnavailable.New("")) || !errors.Is(err, egress.ErrNotSent) {
					t.Error(err)
				}
			}
			if !w.Available("us") {
				t.Errorf("%+v", w.Status())
			}
		})
	}
}

// forgedTunnel accepts the CONNECT and then responds with a web page, like a captive portal.
func forgedTunnel(c net.Conn) {
	request := make([]byte, 4096)
	_, _ = c.Read(request)
	_, _ = c.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n"))
	_, _ = c.Read(request)
	_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"))
}

// detour forwards connections to another address, with or without a CONNECT.
func detour(to string) func(net.Conn) {
	return func(c net.Conn) {
		var d net.Dialer
		far, err := d.DialContext(context.Background(), "tcp", to)
		if err != nil {
			return
		}
		first := make([]byte, 4096)
		n, _ := c.Read(first)
		if strings.HasPrefix(string(first[:n]), "CONNECT ") {
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
		} else {
			_, _ = far.Write(first[:n])
		}
		go func() { _, _ = copyAll(c, far) }()
		_, _ = copyAll(far, c)
	}
}

func copyAll(to, from net.Conn) (int64, error) {
	defer to.Close()
	return to.(*net.TCPConn).ReadFrom(from)
}

// replySOCKS responds to each message with the next reply.
func replySOCKS(replies ...string) func(net.Conn) {
	return func(c net.Conn) {
		for _, reply := range replies {
			message := make([]byte, 4096)
			if _, err := c.Read(message); err != nil {
				return
			}
			_, _ = c.Write([]byte(reply))
		}
		_, _ = c.Read(make([]byte, 1))
	}
}
