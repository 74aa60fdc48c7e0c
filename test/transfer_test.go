package test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// fileBody is the content of a file of any size, generated while it is read.
type fileBody struct{ left int64 }

var pattern = func() (block [32 << 10]byte) {
	for i := range block {
		block[i] = byte(i * 31)
	}
	return block
}()

func (s *fileBody) Read(b []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(int64(len(b)), s.left)], pattern[:])
	s.left -= int64(n)
	return n, nil
}

// fileHost is a platform behind a file store that stores nothing: it generates downloads and counts uploads.
type fileHost struct {
	*sandboxtest.Platform
	size    int64
	taken   atomic.Int64
	sources sync.Map // source addresses of requests
}

func newFileHost(t *testing.T, size int64) (*fileHost, testnode.Setup) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	origin := "http://" + server.Listener.Addr().String()
	s := &fileHost{size: size}
	platform, setup := testnode.Sandbox(t, func(cfg *sandbox.Config) { cfg.Origin = origin })
	s.Platform, setup.Sandbox = platform, origin
	mux := http.NewServeMux()
	mux.Handle("/", s.Platform)
	mux.HandleFunc("GET /media/{id}/{quality}", s.serveFile)
	mux.HandleFunc("PUT /upload/{id}/{part}", s.acceptPart)
	server.Config.Handler = mux
	server.Start()
	t.Cleanup(server.Close)
	return s, setup
}

func (s *fileHost) recordSource(r *http.Request) {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	s.sources.Store(host, true)
}

func (s *fileHost) serveFile(w http.ResponseWriter, r *http.Request) {
	s.recordSource(r)
	w.Header().Set("Content-Type", "video/mp4")
	w.Header().Set("Content-Length", fmt.Sprint(s.size))
	_, _ = io.Copy(w, &fileBody{s.size})
}

// acceptPart counts the bytes of a part and drops them.
func (s *fileHost) acceptPart(w http.ResponseWriter, r *http.Request) {
	s.recordSource(r)
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil || n != r.ContentLength {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.taken.Add(n)
	w.Header().Set("ETag", `"`+r.PathValue("part")+`"`)
}

// residentMemory returns the resident memory of a process in bytes.
func residentMemory(t *testing.T, pid int) int64 {
	t.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	must.OK(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			must.OK(t, err)
			return kb << 10
		}
	}
	t.Fatal("the status of the process has no VmRSS")
	return 0
}

type mediaAccount struct{ account, medium string }

func connectMediaAccounts(t *testing.T, node *testnode.Node, o testnode.Org, n int) []mediaAccount {
	t.Helper()
	all := make([]mediaAccount, n)
	for i := range all {
		all[i].account = node.Connect(t, o.Key, "/v1/connect/login", map[string]any{
			"email": fmt.Sprintf("ok+transfer%d@sandbox.test", i), "password": "good", "proxy_country": "us",
		})
		list := node.Call(t, http.MethodGet, "/v1/accounts/"+all[i].account+"/vault/list?limit=1", o.Key, nil)
		page, _ := list.JSON()["result"].(map[string]any)
		items, _ := page["items"].([]any)
		if len(items) != 1 {
			t.Fatalf("vault.list: %d %s", list.Status, list.Body)
		}
		all[i].medium, _ = items[0].(map[string]any)["id"].(string)
	}
	return all
}

// TestTransfersTakeNoMemory transfers many files concurrently through a built server, in both directions, and watches
// its memory. It transfers 60 MB each way, 40 files concurrently; with STAGEDOOR_FULL, 1 GB each way, 200 concurrently.
func TestTransfersTakeNoMemory(t *testing.T) {
	size, concurrent, rounds := int64(750<<10), 40, 2
	if os.Getenv("STAGEDOOR_FULL") != "" {
		size, concurrent, rounds = 5<<20, 200, 1
	}
	s, setup := newFileHost(t, size)
	node := testnode.Processes(t, 1, setup)[0]
	free := map[string]int{"accountReadPerMinute": -1, "accountWritePerMinute": -1, "connectAttemptsPerHour": -1, "maxAccounts": -1}
	maps.Copy(free, unlimited)
	owner := node.NewOrg(t, free)
	accounts := connectMediaAccounts(t, node, owner, (concurrent+7)/8)
	sum := sha256.New()
	_, _ = io.Copy(sum, &fileBody{size})
	want := hex.EncodeToString(sum.Sum(nil))

	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 0, MaxIdleConnsPerHost: concurrent}}
	t.Cleanup(client.CloseIdleConnections)
	download := func(ctx context.Context, c mediaAccount) error { return downloadOne(ctx, client, node, owner, c, want) }
	upload := func(ctx context.Context, c mediaAccount) error { return uploadOne(ctx, client, node, owner, c, size) }
	// Open connections, sessions and pools before measuring.
	runTransfers(t, accounts, len(accounts), 1, download)
	runTransfers(t, accounts, len(accounts), 1, upload)
	s.taken.Store(0)
	before := residentMemory(t, node.Process.PID())
	peak := watchMemory(t, node.Process.PID())
	began := time.Now()
	runTransfers(t, accounts, concurrent, rounds, download)
	down := time.Since(began)
	runTransfers(t, accounts, concurrent, rounds, upload)
	up := time.Since(began) - down
	most := peak()
	moved := size * int64(concurrent*rounds)
	t.Logf("%d MB each way, %d concurrently: %.1f s down, %.1f s up; memory %d MB before, %d MB at most", moved>>20, concurrent, down.Seconds(), up.Seconds(), before>>20, most>>20)
	// 64 KiB of buffers per transfer, its two connections, and what the garbage collector has not swept yet.
	if allowed := before + int64(concurrent)*(256<<10) + 24<<20; most > allowed {
		t.Errorf("memory grew from %d MB to %d MB, more than %d MB", before>>20, most>>20, allowed>>20)
	}
	if got := s.taken.Load(); got != moved {
		t.Errorf("the platform got %d bytes, want %d", got, moved)
	}
	s.sources.Range(func(source, _ any) bool {
		if source != "127.0.1.1" {
			t.Errorf("files left through %v", source)
		}
		return true
	})
}

// runTransfers runs a number of concurrent transfers, each several times, and waits for all.
func runTransfers(t *testing.T, accounts []mediaAccount, concurrent, rounds int, move func(context.Context, mediaAccount) error) {
	t.Helper()
	var wait sync.WaitGroup
	for i := range concurrent {
		wait.Go(func() {
			for range rounds {
				if err := move(t.Context(), accounts[i%len(accounts)]); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// watchMemory samples the memory of a process. The returned function stops it and returns the maximum.
func watchMemory(t *testing.T, pid int) (peak func() int64) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		var most int64
		for {
			select {
			case <-tick.C:
				most = max(most, residentMemory(t, pid))
			case <-stop:
				done <- most
				return
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-done
	}
}

func downloadOne(ctx context.Context, client *http.Client, node *testnode.Node, o testnode.Org, c mediaAccount, want string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, node.URL+"/v1/accounts/"+c.account+"/media/"+c.medium, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+o.Key)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	sum := sha256.New()
	head := &strings.Builder{}
	_, err = io.Copy(sum, io.TeeReader(resp.Body, limited{head}))
	if resp.StatusCode != http.StatusOK || err != nil || hex.EncodeToString(sum.Sum(nil)) != want {
		return fmt.Errorf("download: %d %w %.300s", resp.StatusCode, err, head)
	}
	return nil
}

// limited keeps the beginning of what is written.
type limited struct{ *strings.Builder }

func (l limited) Write(b []byte) (int, error) {
	if l.Len() < 1000 {
		l.Builder.Write(b[:min(len(b), 1000)])
	}
	return len(b), nil
}

// uploadOne uploads a file. The file store drops every byte, so the platform reports a conflict at the end: parts are
// missing.
func uploadOne(ctx context.Context, client *http.Client, node *testnode.Node, o testnode.Org, c mediaAccount, size int64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, node.URL+"/v1/accounts/"+c.account+"/media?fileName=film.mp4", io.NopCloser(&fileBody{size}))
	if err != nil {
		return err
	}
	req.ContentLength = size
	req.Header.Set("Authorization", "Bearer "+o.Key)
	req.Header.Set("Content-Type", "video/mp4")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusConflict || !strings.Contains(string(text), "upstream/conflict") {
		return fmt.Errorf("upload: %d %w %s", resp.StatusCode, err, text)
	}
	return nil
}
