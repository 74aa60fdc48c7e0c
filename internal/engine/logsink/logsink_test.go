package logsink_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/logsink"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

func records(texts ...string) (list []logsink.Record) {
	for _, text := range texts {
		list = append(list, logsink.Record{At: time.Date(2026, 11, 19, 8, 30, 0, 120_000_000, time.UTC), JSON: []byte(text)})
	}
	return list
}

// An address that is refused is not quoted, because it may contain a secret.
func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]logsink.Target{
		"file:/var/log/a.jsonl":         {Kind: "file", Path: "/var/log/a.jsonl"},
		"file:///var/log/../log/a":      {Kind: "file", Path: "/var/log/a"},
		"syslog+tls://siem.test:6514":   {Kind: "syslog", Address: "siem.test:6514", Host: "siem.test", Encrypted: true},
		"syslog+tcp://[::1]:601":        {Kind: "syslog", Address: "[::1]:601", Host: "::1"},
		"https://siem.test/in?key=1":    {Kind: "http", URL: "https://siem.test/in?key=1", Host: "siem.test", Encrypted: true},
		"http://127.0.0.1:8088/collect": {Kind: "http", URL: "http://127.0.0.1:8088/collect", Host: "127.0.0.1"},
	} {
		if got, err := logsink.Parse(text); err != nil || got != want {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "siem.test", "file:relative", "file://host/canary", "syslog+tls://siem.test", "syslog+tls://canary@siem.test:1", "syslog+tcp://siem.test:1/canary",
		"syslog://siem.test:514", "https://user:canary@siem.test", "https:///canary", "ftp://siem.test/canary", "https://siem.test/%zzcanary",
	} {
		if _, err := logsink.Parse(text); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// serve accepts one connection and returns what handle returns for it.
func serve(t *testing.T, listener net.Listener, handle func(net.Conn) string) <-chan string {
	t.Helper()
	got := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			got <- err.Error()
			return
		}
		got <- handle(conn)
	}()
	t.Cleanup(func() { _ = listener.Close() })
	return got
}

// readAll reads until the sender has ended its side, and then closes the connection, as syslog servers do.
func readAll(conn net.Conn) string {
	text, err := io.ReadAll(conn)
	_ = conn.Close()
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func dialTo(address string, roots *x509.CertPool) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		if roots == nil {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}
		return (&tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "localhost"}}).DialContext(ctx, "tcp", address)
	}
}

// Messages have the form of RFC 5424, each after its length in bytes, over TCP and TLS.
func TestSyslogMessages(t *testing.T) {
	t.Parallel()
	const want = `103 <110>1 2026-11-19T08:30:00.120000Z node-1 stagedoor - audit - {"text":"first line: é, \"quoted\" and"}` +
		`64 <110>1 2026-11-19T08:30:00.120000Z node-1 stagedoor - audit - {}`
	authority := testenv.NewAuthority(t)
	certFile, keyFile := authority.Issue("localhost")
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	must.OK(t, err)
	pem, err := os.ReadFile(authority.CAFile)
	must.OK(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	for name, trusted := range map[string]*x509.CertPool{"tcp": nil, "tls": roots} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must.OK(t, err)
		address := listener.Addr().String()
		if trusted != nil {
			listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}})
		}
		got := serve(t, listener, readAll)
		sink := logsink.New(logsink.Deps{Target: logsink.Target{Kind: "syslog"}, Dial: dialTo(address, trusted), Host: "no de-\n1"})
		if err := sink.Write(t.Context(), records(`{"text":"first line: é, \"quoted\" and"}`, `{}`)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text := <-got
		if text != want {
			t.Errorf("%s: %s", name, text)
		}
		for rest := text; rest != ""; { // the lengths are those of the messages
			var n int
			_, err := fmt.Sscanf(rest, "%d ", &n)
			must.OK(t, err)
			_, rest, _ = strings.Cut(rest, " ")
			if !strings.HasPrefix(rest, "<110>1 ") || rest[n-1] != '}' {
				t.Fatalf("%s: a message of %d bytes: %s", name, n, rest)
			}
			rest = rest[n:]
		}
	}
}

// A batch that a syslog server has accepted but not read is not delivered.
func TestSyslogServerThatDiesLosesNothing(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	got := serve(t, listener, func(conn net.Conn) string {
		_, _ = conn.Read(make([]byte, 10))
		_ = conn.(*net.TCPConn).SetLinger(0) //nolint:forcetypeassert // the listener is TCP
		_ = conn.Close()
		return "died"
	})
	sink := logsink.New(logsink.Deps{Target: logsink.Target{Kind: "syslog"}, Dial: dialTo(listener.Addr().String(), nil)})
	if err := sink.Write(t.Context(), records(`{}`, `{}`)); err == nil {
		t.Error("the batch counts as delivered")
	}
	<-got
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sink.Write(ctx, records(`{}`)); err == nil {
		t.Error("a batch without a connection counts as delivered")
	}
}

// A batch is posted with the token in the file, which is read each time. Statuses other than 2xx fail, without what the
// receiver says, and an error does not have the address.
func TestHTTPEndpoint(t *testing.T) {
	t.Parallel()
	var (
		status = http.StatusAccepted
		bodies bytes.Buffer
		auth   []string
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(&bodies, r.Body)
		auth = append(auth, r.Header.Get("Content-Type")+" "+r.Header.Get("Authorization"))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "canary-answer")
	}))
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	sink := logsink.New(logsink.Deps{Target: logsink.Target{Kind: "http", URL: server.URL + "/?key=canary-key"}, TokenFile: token, Client: server.Client()})
	if err := sink.Write(t.Context(), records(`{}`)); err == nil {
		t.Error("a missing token is ignored")
	}
	must.OK(t, os.WriteFile(token, []byte("one\n"), 0o600))
	must.OK(t, sink.Write(t.Context(), records(`{"a":1}`, `{"a":2}`)))
	must.OK(t, os.WriteFile(token, []byte("two"), 0o600))
	for _, status = range []int{http.StatusBadRequest, http.StatusServiceUnavailable, http.StatusFound} {
		if err := sink.Write(t.Context(), records(`{"a":3}`)); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%d: %v", status, err)
		}
	}
	server.Close()
	if err := sink.Write(t.Context(), records(`{}`)); err == nil || strings.Contains(err.Error(), "canary") {
		t.Error(err)
	}
	if got := bodies.String(); !strings.HasPrefix(got, "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n") {
		t.Error(got)
	}
	if len(auth) != 4 || auth[0] != "application/x-ndjson Bearer one" || auth[1] != "application/x-ndjson Bearer two" {
		t.Error(auth)
	}
}

// A file that was rotated by renaming it is created again, and a line that was cut off stays alone.
func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	sink := logsink.New(logsink.Deps{Target: logsink.Target{Kind: "file", Path: path}})
	must.OK(t, sink.Write(t.Context(), records(`{"a":1}`)))
	must.OK(t, os.Rename(path, path+".1"))
	must.OK(t, os.WriteFile(path, []byte(`{"a":2`), 0o600))
	must.OK(t, sink.Write(t.Context(), records(`{"a":2}`, `{"a":3}`)))
	for file, want := range map[string]string{path + ".1": "{\"a\":1}\n", path: "{\"a\":2\n{\"a\":2}\n{\"a\":3}\n"} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s: %q %v", file, got, err)
		}
	}
	if err := logsink.New(logsink.Deps{Target: logsink.Target{Kind: "file", Path: filepath.Join(path, "below")}}).Write(t.Context(), records(`{}`)); err == nil {
		t.Error("a file that cannot be written counts as delivered")
	}
}
