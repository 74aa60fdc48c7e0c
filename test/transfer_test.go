package test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
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

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// stream is a file of any size whose bytes need no memory.
type stream struct{ left int64 }

var pattern = func() (block [32 << 10]byte) {
	for i := range block {
		block[i] = byte(i * 31)
	}
	return block
}()

func (s *stream) Read(b []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(int64(len(b)), s.left)], pattern[:])
	s.left -= int64(n)
	return n, nil
}

// fileHost is a platform with a store of files before it that keeps none: downloads are made up, uploads are counted.
type fileHost struct {
	*sandboxtest.Platform
	size    int64
	taken   atomic.Int64
	sources sync.Map // of source addresses
}

func newFileHost(t *testing.T, size int64) (*fileHost, testnode.Setup) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	origin := "http://" + server.Listener.Addr().String()
	s := &fileHost{size: size}
	s.Platform = sandboxtest.New(t, func(cfg *sandbox.Config) {
		cfg.Origin, cfg.Regions = origin, map[string]string{"127.0.1.1": "us", "127.0.2.1": "uk"}
	})
	mux := http.NewServeMux()
	mux.Handle("/", s.Platform)
	mux.HandleFunc("GET /media/{id}/{quality}", s.give)
	mux.HandleFunc("PUT /upload/{id}/{part}", s.take)
	server.Config.Handler = mux
	server.Start()
	t.Cleanup(server.Close)
	us, uk := testenv.NewProxy(t, "127.0.1.1"), testenv.NewProxy(t, "127.0.2.1")
	return s, testnode.Setup{Sandbox: origin, Egress: secret.New("us=" + us.URL() + " uk=" + uk.URL())}
}

func (s *fileHost) note(r *http.Request) {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	s.sources.Store(host, true)
}

func (s *fileHost) give(w http.ResponseWriter, r *http.Request) {
	s.note(r)
	w.Header().Set("Content-Type", "video/mp4")
	w.Header().Set("Content-Length", fmt.Sprint(s.size))
	_, _ = io.Copy(w, &stream{s.size})
}

// take counts a part and forgets it.
func (s *fileHost) take(w http.ResponseWriter, r *http.Request) {
	s.note(r)
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil || n != r.ContentLength {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.taken.Add(n)
	w.Header().Set("ETag", `"`+r.PathValue("part")+`"`)
}

// resident is a process's memory.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatal("the process says nothing of its memory")
	return 0
}

// holder is a connected account with a medium.
type holder struct{ account, medium string }

func connectHolders(t *testing.T, node *testnode.Node, o testnode.Org, n int) []holder {
	t.Helper()
	all := make([]holder, n)
	for i := range all {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, node.URL+"/v1/connect/login",
			strings.NewReader(fmt.Sprintf(`{"email":"ok+transfer%d@sandbox.test","password":"good","proxy_country":"us"}`, i)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer " + o.Key}, "Content-Type": {"application/json"}, "Prefer": {"wait=25"}}
		r, err := testnode.Send(req)
		if err != nil {
			t.Fatal(err)
		}
		all[i].account, _ = r.JSON()["account_id"].(string)
		if all[i].account == "" {
			t.Fatalf("connect: %d %s", r.Status, r.Body)
		}
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

// TestTransfersTakeNoMemory moves files through a built server, many at once and in both directions, and watches its memory. Without
// STAGEDOOR_FULL it moves 60 MB at 40 at once; with it, 1 GB each way at 200 at once.
func TestTransfersTakeNoMemory(t *testing.T) {
	size, concurrent, rounds := int64(750<<10), 40, 2
	if os.Getenv("STAGEDOOR_FULL") != "" {
		size, concurrent, rounds = 5<<20, 200, 1
	}
	s, setup := newFileHost(t, size)
	node := testnode.Processes(t, 1, setup)[0]
	free := map[string]int{"accountReadPerMinute": -1, "accountWritePerMinute": -1, "connectAttemptsPerHour": -1, "maxAccounts": -1}
	for name, value := range unlimited {
		free[name] = value
	}
	owner := node.NewOrg(t, free)
	holders := connectHolders(t, node, owner, (concurrent+7)/8)
	sum := sha256.New()
	_, _ = io.Copy(sum, &stream{size})
	want := hex.EncodeToString(sum.Sum(nil))

	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 0, MaxIdleConnsPerHost: concurrent}}
	t.Cleanup(client.CloseIdleConnections)
	download := func(ctx context.Context, c holder) error { return downloadOne(ctx, client, node, owner, c, want) }
	upload := func(ctx context.Context, c holder) error { return uploadOne(ctx, client, node, owner, c, size) }
	// Connections, sessions and pools are there before anything is measured.
	together(t, holders, len(holders), 1, download)
	together(t, holders, len(holders), 1, upload)
	s.taken.Store(0)
	before := resident(t, node.Process.PID())
	peak := watch(t, node.Process.PID())
	began := time.Now()
	together(t, holders, concurrent, rounds, download)
	down := time.Since(began)
	together(t, holders, concurrent, rounds, upload)
	up := time.Since(began) - down
	most := peak()
	moved := size * int64(concurrent*rounds)
	t.Logf("%d MB each way at %d at once: %.1f s down, %.1f s up; memory %d MB before, %d MB at most", moved>>20, concurrent, down.Seconds(), up.Seconds(), before>>20, most>>20)
	// 64 KiB of buffers each, what connections take on both sides of them, and what the collector has not yet swept.
	if allowed := before + int64(concurrent)*(256<<10) + 24<<20; most > allowed {
		t.Errorf("memory grew from %d MB to %d MB, more than %d MB", before>>20, most>>20, allowed>>20)
	}
	if got := s.taken.Load(); got != moved {
		t.Errorf("the platform took %d bytes of %d", got, moved)
	}
	s.sources.Range(func(source, _ any) bool {
		if source != "127.0.1.1" {
			t.Errorf("files left through %v", source)
		}
		return true
	})
}

// together runs transfers, each of them so often, and waits for all.
func together(t *testing.T, holders []holder, concurrent, rounds int, move func(context.Context, holder) error) {
	t.Helper()
	var wait sync.WaitGroup
	for i := range concurrent {
		wait.Go(func() {
			for range rounds {
				if err := move(t.Context(), holders[i%len(holders)]); err != nil {
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

// watch takes note of the most memory that a process has until it is asked.
func watch(t *testing.T, pid int) (peak func() int64) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		var most int64
		for {
			select {
			case <-tick.C:
				most = max(most, resident(t, pid))
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

func downloadOne(ctx context.Context, client *http.Client, node *testnode.Node, o testnode.Org, c holder, want string) error {
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

// limited keeps the first part of what is written.
type limited struct{ *strings.Builder }

func (l limited) Write(b []byte) (int, error) {
	if l.Len() < 1000 {
		l.Builder.Write(b[:min(len(b), 1000)])
	}
	return len(b), nil
}

// uploadOne sends a file. The platform has every byte of it, but did not keep them, so it finds in the end that parts are missing.
func uploadOne(ctx context.Context, client *http.Client, node *testnode.Node, o testnode.Org, c holder, size int64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, node.URL+"/v1/accounts/"+c.account+"/media?fileName=film.mp4", io.NopCloser(&stream{size}))
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
