package dev_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/command/cli/dev"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

func TestFindClone(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	deep := filepath.Join(root, "internal", "x")
	for _, dir := range []string{deep, filepath.Join(root, "scripts")} {
		must.OK(t, os.MkdirAll(dir, 0o700))
	}
	for path, text := range map[string]string{"go.mod": "module github.com/stagedoor/stagedoor\n", "scripts/up": ""} {
		if got := dev.FindClone(deep); got != "" {
			t.Errorf("%q counts as a clone without %s", got, path)
		}
		must.OK(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o600))
	}
	if got := dev.FindClone(deep); got != root {
		t.Errorf("got %q, want %q", got, root)
	}
}

func TestReadEnv(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(path, []byte("# Written by make up\nexport STAGEDOOR_URL='http://127.0.0.1:1'\nexport EMPTY=''\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env, err := dev.ReadEnv(path)
	if err != nil || env["STAGEDOOR_URL"] != "http://127.0.0.1:1" || len(env) != 2 {
		t.Errorf("%v, %v", env, err)
	}
}

// TestTakenPortIsReplacedUnlessRequested also checks that no two names get the same port.
func TestTakenPortIsReplacedUnlessRequested(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	wanted := map[string]int{"public": port, "internal": port, "nats": port}
	got, err := dev.ChoosePorts(t.TempDir(), wanted, 0)
	if err != nil || got["public"] == port || got["public"] == got["nats"] || got["internal"] == got["nats"] {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := dev.ChoosePorts(t.TempDir(), wanted, port); err == nil || !strings.Contains(err.Error(), "is taken") {
		t.Errorf("with a requested port that is taken: %v", err)
	}
}

// TestDataDirectoryStaysLocked runs the garbage collector, because it would close an unreferenced os.File and so
// release the lock.
func TestDataDirectoryStaysLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := dev.ChoosePorts(dir, nil, 0); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		runtime.GC()
		if _, err := dev.ChoosePorts(dir, nil, 0); err == nil || !strings.Contains(err.Error(), "another stagedoor dev") {
			t.Fatalf("the second run: %v", err)
		}
	}
}

// TestProxyReachesOnlyThePlatform also checks that the proxy connects from the region's address
// and requires its password.
func TestProxyReachesOnlyThePlatform(t *testing.T) {
	t.Parallel()
	platform := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		_, _ = io.WriteString(w, host)
	}))
	defer platform.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	address := free.Addr().String()
	must.OK(t, free.Close())
	closer, err := dev.ServeProxy(t.Context(), address, "127.0.1.1", strings.TrimPrefix(platform.URL, "http://"), "secret")
	must.OK(t, err)
	defer closer.Close()
	connect := func(target, password string) (int, string) {
		conn, err := net.Dial("tcp", address)
		must.OK(t, err)
		defer conn.Close()
		// Write CONNECT by hand: http.Transport would use it for https URLs only, and the server uses it always.
		req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Host: target}, Host: target, Header: http.Header{}}
		auth := http.Request{Header: http.Header{}}
		auth.SetBasicAuth("stagedoor", password)
		req.Header.Set("Proxy-Authorization", auth.Header.Get("Authorization"))
		return tunnel(t, conn, req, target)
	}
	target := strings.TrimPrefix(platform.URL, "http://")
	if status, from := connect(target, "secret"); status != http.StatusOK || from != "127.0.1.1" {
		t.Errorf("to the platform: %d from %q", status, from)
	}
	if status, _ := connect(target, "wrong"); status != http.StatusProxyAuthRequired {
		t.Errorf("with a wrong password: %d", status)
	}
	if status, _ := connect(strings.TrimPrefix(other.URL, "http://"), "secret"); status != http.StatusForbidden {
		t.Errorf("to another host: %d", status)
	}
}

// tunnel opens a tunnel and sends a request through it. It returns the proxy's status and the target's response body.
func tunnel(t *testing.T, conn net.Conn, req *http.Request, target string) (int, string) {
	t.Helper()
	must.OK(t, req.Write(conn))
	from := bufio.NewReader(conn)
	res, err := http.ReadResponse(from, req)
	must.OK(t, err)
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return res.StatusCode, ""
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+target+"\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(from, nil)
	must.OK(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must.OK(t, err)
	return res.StatusCode, string(text)
}
