package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// Load of the sandbox benchmarks.
const (
	sandboxCreators = 10_000
	sandboxSockets  = 4_000
	sandboxBusy     = 1_000 // sockets with events
	eventsPerSocket = 5     // per second
)

// creator is a signed-in creator of the sandbox.
type creator struct {
	login  string
	fan    string
	header http.Header
}

// sandboxd is a sandbox process on one core.
type sandboxd struct {
	url      string
	pid      int
	creators []creator
}

// startSandbox builds sandboxd and runs it on one core.
func startSandbox(b *testing.B) *sandboxd {
	b.Helper()
	dir := b.TempDir()
	program := filepath.Join(dir, "sandboxd")
	build := exec.Command("go", "build", "-o", program, "../cmd/sandboxd")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	address := freeAddress(b)
	cmd := exec.Command("taskset", "-c", "0", program, "-addr", address, "-data", filepath.Join(dir, "bench.db"))
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s := &sandboxd{url: "http://" + address, pid: cmd.Process.Pid}
	awaitAnswer(b, s.url+"/control/clock")
	return s
}

func freeAddress(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func awaitAnswer(b *testing.B, url string) {
	b.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		resp, err := http.Get(url)
		if err == nil {
			_ = resp.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			b.Fatal(err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// control calls the sandbox's control API.
func (s *sandboxd) control(b *testing.B, path string, body any) []byte {
	b.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := pooled.Post(s.url+"/control/"+path, "application/json", bytes.NewReader(text))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("%s: %d %s %v", path, resp.StatusCode, answer, err)
	}
	return answer
}

var pooled = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// signIn creates n creators with sessions.
func (s *sandboxd) signIn(b *testing.B, n int) {
	b.Helper()
	for i := range n {
		login := fmt.Sprintf("ok+bench%d@sandbox.test", i)
		var session struct {
			Cookie  string            `json:"cookie"`
			User    string            `json:"user_id"`
			Headers map[string]string `json:"headers"`
		}
		if err := json.Unmarshal(s.control(b, "sessions", map[string]string{"login": login}), &session); err != nil {
			b.Fatal(err)
		}
		h := http.Header{"Cookie": {session.Cookie}}
		for name, value := range session.Headers {
			h.Set(name, value)
		}
		s.creators = append(s.creators, creator{login, session.User + "0000000001", h})
	}
}

// rss returns the resident memory of a process in bytes.
func rss(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(text))[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * float64(os.Getpagesize())
}

// sandboxCalls is a typical mix of calls: mostly reads of chats, and some writes. {fan} is the creator's first fan.
var sandboxCalls = []struct{ method, path, body string }{
	{"GET", "/me", ""}, {"GET", "/chats", ""}, {"GET", "/chats/{fan}/messages", ""}, {"GET", "/users/{fan}", ""},
	{"GET", "/chats/{fan}", ""}, {"GET", "/posts?limit=10", ""}, {"GET", "/chats/{fan}/messages?limit=50", ""},
	{"POST", "/chats/{fan}/messages", `{"text":"Thank you!"}`}, {"GET", "/chats/unread", ""}, {"GET", "/notifications", ""},
}

// BenchmarkSandboxRequests measures the CPU time of a request to the sandbox on one core, compared with a bare net/http
// handler that sends as many bytes, and the memory of 10,000 creators.
func BenchmarkSandboxRequests(b *testing.B) {
	s := startSandbox(b)
	before := rss(b, s.pid)
	began := time.Now()
	s.signIn(b, sandboxCreators)
	perCreator := (rss(b, s.pid) - before) / sandboxCreators
	made := time.Since(began) / sandboxCreators
	sample := s.call(b, s.creators[0], 1)
	plain := startBareBytes(b, sample)
	var ours, theirs, ratios, rates []float64
	for range rounds {
		n, cpu, rate := s.drive(b)
		ours = append(ours, float64(cpu.Microseconds())/float64(n))
		rates = append(rates, rate)
		n, cpu = plain.drive(b)
		theirs = append(theirs, float64(cpu.Microseconds())/float64(n))
		ratios = append(ratios, ours[len(ours)-1]/theirs[len(theirs)-1])
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(rates), "req/s")
	b.ReportMetric(1e6/median(ours), "req/s/core")
	b.ReportMetric(median(ours), "us-cpu/req")
	b.ReportMetric(median(theirs), "us-cpu-bare/req")
	b.ReportMetric(median(ratios), "x-bare")
	b.ReportMetric(perCreator/1024, "KB/creator")
	b.ReportMetric(float64(made.Microseconds()), "us/creator")
	b.ReportMetric(rss(b, s.pid)/(1<<20), "MB-rss")
}

// call makes the n-th call and returns the body of the response.
func (s *sandboxd) call(b *testing.B, who creator, n int) []byte {
	b.Helper()
	c := sandboxCalls[n%len(sandboxCalls)]
	req, err := http.NewRequestWithContext(b.Context(), c.method, s.url+"/api/v2"+strings.ReplaceAll(c.path, "{fan}", who.fan), strings.NewReader(c.body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header = who.header.Clone()
	resp, err := pooled.Do(req)
	if err != nil {
		b.Error(err)
		return nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Errorf("%s %s: %d %s %v", c.method, c.path, resp.StatusCode, body, err)
	}
	return body
}

// drive makes calls on several connections for a round, cycling through 300 creators. It returns the number of calls,
// the CPU time and the rate.
func (s *sandboxd) drive(b *testing.B) (int, time.Duration, float64) {
	b.Helper()
	cpu, began := processCPU(b, s.pid), time.Now()
	var n atomic.Int64
	ctx, cancel := context.WithTimeout(b.Context(), roundTime)
	defer cancel()
	var wait sync.WaitGroup
	for range connections {
		wait.Go(func() {
			for ctx.Err() == nil {
				i := int(n.Add(1))
				s.call(b, s.creators[i%300], i)
			}
		})
	}
	wait.Wait()
	return int(n.Load()), processCPU(b, s.pid) - cpu, float64(n.Load()) / time.Since(began).Seconds()
}

// bareServer is this program running as a bare server on the same core.
type bareServer struct {
	url string
	pid int
}

func startBareBytes(b *testing.B, body []byte) *bareServer {
	b.Helper()
	address := freeAddress(b)
	cmd := exec.Command("taskset", "-c", "0", os.Args[0])
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", bareVariable+"="+address, bareVariable+"_BODY="+string(body))
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	awaitAnswer(b, "http://"+address+"/v1/me")
	return &bareServer{"http://" + address, cmd.Process.Pid}
}

func (p *bareServer) drive(b *testing.B) (int, time.Duration) {
	b.Helper()
	cpu := processCPU(b, p.pid)
	var n atomic.Int64
	ctx, cancel := context.WithTimeout(b.Context(), roundTime)
	defer cancel()
	var wait sync.WaitGroup
	for range connections {
		wait.Go(func() {
			for ctx.Err() == nil {
				resp, err := pooled.Get(p.url + "/v1/me")
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				n.Add(1)
			}
		})
	}
	wait.Wait()
	return int(n.Load()), processCPU(b, p.pid) - cpu
}

// BenchmarkSandboxEvents measures the CPU time of an event in the sandbox on one core, from the happening to the
// socket, compared with a bare WebSocket that sends as many bytes, and the memory of a socket.
func BenchmarkSandboxEvents(b *testing.B) {
	s := startSandbox(b)
	s.signIn(b, sandboxSockets)
	before := rss(b, s.pid)
	var frames, size atomic.Int64
	for _, who := range s.creators {
		listen(b, s.url+"/api/v2/live", who.header, &frames, &size)
	}
	perSocket := (rss(b, s.pid) - before) / sandboxSockets
	const lasting = 15
	for _, who := range s.creators[:sandboxBusy] {
		s.control(b, "generate", map[string]any{"login": who.login, "events_per_sec": eventsPerSocket, "for_sec": 3 * lasting})
	}
	// In the first seconds the sandbox loads every creator's chats and fans.
	<-time.After(lasting * time.Second)
	var cpus, rates []float64
	for range 5 {
		cpu, n, began := processCPU(b, s.pid), frames.Load(), time.Now()
		<-time.After(roundTime)
		spent, got, took := processCPU(b, s.pid)-cpu, frames.Load()-n, time.Since(began)
		cpus = append(cpus, float64(spent.Microseconds())/float64(got))
		rates = append(rates, float64(got)/took.Seconds())
	}
	bytes := int(size.Load() / max(frames.Load(), 1))
	bare := bareFrames(b, bytes)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(rates), "events/s")
	b.ReportMetric(1e6/median(cpus), "events/s/core")
	b.ReportMetric(median(cpus), "us-cpu/event")
	b.ReportMetric(bare, "us-cpu-bare/event")
	b.ReportMetric(median(cpus)/bare, "x-bare")
	b.ReportMetric(float64(bytes), "B/event")
	b.ReportMetric(perSocket/1024, "KB/socket")
	b.ReportMetric(rss(b, s.pid)/(1<<20), "MB-rss")
}

// listen opens a socket and counts the frames it receives.
func listen(b *testing.B, url string, header http.Header, frames, size *atomic.Int64) {
	b.Helper()
	options := &websocket.DialOptions{HTTPHeader: header, CompressionMode: websocket.CompressionDisabled}
	conn, _, err := websocket.Dial(b.Context(), "ws"+strings.TrimPrefix(url, "http"), options) //nolint:bodyclose // the library closes it
	if err != nil {
		b.Fatal(err)
	}
	conn.SetReadLimit(1 << 20)
	go func() {
		defer func() { _ = conn.CloseNow() }()
		for {
			_, frame, err := conn.Read(b.Context())
			if err != nil {
				return
			}
			frames.Add(1)
			size.Add(int64(len(frame)))
		}
	}()
}

// bareFrames returns the CPU time per frame of a server that only sends frames of this size, at the same rate, to as
// many sockets.
func bareFrames(b *testing.B, size int) float64 {
	b.Helper()
	plain := startBareBytes(b, slices.Repeat([]byte{'x'}, size))
	var frames, bytes atomic.Int64
	for range sandboxBusy {
		listen(b, plain.url+"/frames?every="+(time.Second/eventsPerSocket).String(), nil, &frames, &bytes)
	}
	<-time.After(time.Second)
	cpu, n := processCPU(b, plain.pid), frames.Load()
	<-time.After(4 * time.Second)
	return float64((processCPU(b, plain.pid) - cpu).Microseconds()) / float64(max(frames.Load()-n, 1))
}

// bareFrameServer returns a handler that sends the body to a socket at a fixed interval.
func bareFrameServer(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		every, err := time.ParseDuration(r.URL.Query().Get("every"))
		if err != nil {
			http.Error(w, "every", http.StatusBadRequest)
			return
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		ctx := conn.CloseRead(r.Context())
		tick := time.NewTicker(every)
		defer tick.Stop()
		for range tick.C {
			if conn.Write(ctx, websocket.MessageText, body) != nil {
				return
			}
		}
	}
}
