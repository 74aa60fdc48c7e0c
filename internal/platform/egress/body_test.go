package egress_test

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

func zip(t testing.TB, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(text)
	must.OK(t, err)
	must.OK(t, z.Close())
	return out.Bytes()
}

// Plain and compressed bodies are bounded, and each kind of violation has its own error.
func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 200<<10)
	_, err := rand.Read(noise)
	must.OK(t, err)
	answer := func(encoding string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", encoding)
			_, _ = w.Write(body)
		}
	}
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write(noise)
		}
	}
	small := zip(t, []byte("hello"))
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		limits  egress.Limits
		want    string
		err     error
	}{
		"plain":                        {answer("", []byte("hello")), egress.Limits{Bytes: 5}, "hello", nil},
		"one byte too much":            {answer("", []byte("hello!")), egress.Limits{Bytes: 5}, "", egress.ErrTooLarge},
		"too much and no length":       {endless, egress.Limits{Bytes: 1 << 20}, "", egress.ErrTooLarge},
		"the default bound":            {endless, egress.Limits{}, "", egress.ErrTooLarge},
		"no bound":                     {answer("", make([]byte, 11<<20)), egress.Limits{Bytes: egress.None}, string(make([]byte, 11<<20)), nil},
		"compressed":                   {answer("gzip", small), egress.Limits{Bytes: 5}, "hello", nil},
		"compressed noise":             {answer("GZIP", zip(t, noise)), egress.Limits{}, string(noise), nil},
		"two members":                  {answer("x-gzip", append(bytes.Clone(small), small...)), egress.Limits{}, "hellohello", nil},
		"compressed, too large":        {answer("gzip", zip(t, []byte("hello!"))), egress.Limits{Bytes: 5}, "", egress.ErrTooLarge},
		"a dense MiB":                  {answer("gzip", zip(t, make([]byte, 1<<20))), egress.Limits{}, string(make([]byte, 1<<20)), nil},
		"a bomb":                       {answer("gzip", zip(t, make([]byte, 4<<20))), egress.Limits{}, "", egress.ErrBomb},
		"a bomb without another bound": {answer("gzip", zip(t, make([]byte, 12<<20))), egress.Limits{Bytes: egress.None}, "", egress.ErrBomb},
		"empty though compressed":      {answer("gzip", nil), egress.Limits{}, "", nil},
		"half":                         {answer("gzip", small[:len(small)/2]), egress.Limits{}, "", egress.ErrBroken},
		"not gzip":                     {answer("gzip", []byte("canary-body is no gzip")), egress.Limits{}, "", egress.ErrMalformed},
		"wrong sum":                    {answer("gzip", append(bytes.Clone(small[:len(small)-8]), "12345678"...)), egress.Limits{}, "", egress.ErrMalformed},
		"another coding":               {answer("br", small), egress.Limits{}, "", egress.ErrMalformed},
		"twice compressed":             {answer("gzip, gzip", zip(t, small)), egress.Limits{}, "", egress.ErrMalformed},
		"identity":                     {answer("identity", []byte("hello")), egress.Limits{}, "hello", nil},
		"raw":                          {answer("gzip", small), egress.Limits{Raw: true}, string(small), nil},
		"raw and too large":            {answer("br", small), egress.Limits{Raw: true, Bytes: 5}, "", egress.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlainPlatform(t, c.handler)
			w := newFixture(t, p, "us="+newTestProxy(t, "http", "127.0.1.1", p).url())
			got, err := fetch(t, w.client(t, "us", "acct_1"), p.origin, c.limits)
			if !errors.Is(err, c.err) || c.err == nil && err != nil || err == nil && got != c.want {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if err != nil && (strings.Contains(err.Error(), "canary") || errors.Is(err, egress.ErrNotSent)) {
				t.Error(err)
			}
		})
	}
}

// A connection is reusable after a compressed body.
func TestConnectionsAreKeptAfterCompressedBodies(t *testing.T) {
	t.Parallel()
	body := zip(t, []byte("hello"))
	p := newPlainPlatform(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("asked for %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(body)
	})
	f := newTestProxy(t, "http", "127.0.1.1", p)
	w := newFixture(t, p, "us="+f.url())
	for range 20 {
		if text, err := w.get(t, "us", "acct_1"); err != nil || text != "hello" {
			t.Fatal(text, err)
		}
	}
	if f.tunnels.Load() != connections(20, 1) {
		t.Errorf("%d tunnels for 20 calls", f.tunnels.Load())
	}
}

// A response that is not HTTP is rejected, and the error contains no part of it.
func TestMalformedResponsesAreRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply string
		want  error
	}{
		"nothing":           {"", egress.ErrBroken},
		"half a header":     {"HTTP/1.1 200 OK\r\nSet-Cookie: canary", egress.ErrBroken},
		"no protocol":       {"canary\r\n\r\n", egress.ErrMalformed},
		"HTTP/0.9":          {"<html>canary</html>\r\n", egress.ErrMalformed},
		"a bad status":      {"HTTP/1.1 canary OK\r\n\r\n", egress.ErrMalformed},
		"a bad header":      {"HTTP/1.1 200 OK\r\ncanary\r\n\r\n", egress.ErrMalformed},
		"two lengths":       {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\ncanary", egress.ErrMalformed},
		"a huge header":     {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("canary", 20<<10) + "\r\n\r\n", egress.ErrMalformed},
		"many headers":      {"HTTP/1.1 200 OK\r\n" + strings.Repeat("Canary: canary\r\n", 8<<10) + "\r\n", egress.ErrMalformed},
		"a short body":      {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncanary", egress.ErrBroken},
		"a bad chunk":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ncanary\r\n", egress.ErrMalformed},
		"an unended chunk":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\ncanary", egress.ErrBroken},
		"endless preambles": {strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: canary\r\n\r\n", 8<<10), egress.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRawPlatform(t, func(conn net.Conn) {
				defer conn.Close()
				request := make([]byte, 4096)
				if _, err := conn.Read(request); err != nil {
					return
				}
				fmt.Fprint(conn, c.reply)
				if c.want == egress.ErrMalformed { //nolint:errorlint // the table's own value
					_, _ = io.Copy(io.Discard, conn) // so that a reset does not overtake the response
				}
			})
			w := newFixture(t, p, "us="+newTestProxy(t, "http", "127.0.1.1", p).url())
			_, err := w.get(t, "us", "acct_1")
			if !errors.Is(err, c.want) || errors.Is(err, egress.ErrNotSent) || strings.Contains(strings.ToLower(fmt.Sprintf("%+v", err)), "canary") {
				t.Error(err)
			}
		})
	}
}

// Closing a body early does not block, and ends a concurrent read.
func TestBodiesCanBeClosedEarly(t *testing.T) {
	t.Parallel()
	p := newPlainPlatform(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write(make([]byte, 32<<10))
		}
	})
	w := newFixture(t, p, "us="+newTestProxy(t, "http", "127.0.1.1", p).url())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.origin, nil)
	must.OK(t, err)
	resp, err := w.client(t, "us", "acct_1").Do(req, egress.Limits{Bytes: egress.None}) //nolint:bodyclose // twice, below
	must.OK(t, err)
	ended := make(chan error)
	go func() {
		_, err := io.Copy(io.Discard, resp.Body)
		ended <- err
	}()
	must.OK(t, resp.Body.Close())
	if err := <-ended; !errors.Is(err, egress.ErrBroken) {
		t.Error(err)
	}
	must.OK(t, resp.Body.Close())
	if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, egress.ErrBroken) {
		t.Error(err)
	}
}
