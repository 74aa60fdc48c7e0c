package bench

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stagedoor/stagedoor/internal/platform/sandboxapi"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
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
	id     string
	fan    string
	header http.Header
}

// sandboxd is a sandbox process on one core.
type sandboxd struct {
	target
	url      string
	control  *sandboxapi.Client
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
	pid := start(b, onCore(measuredCore, exec.Command(program, "-addr", address, "-data", filepath.Join(dir, "bench.db"))))
	awaitPort(b, address)
	s := &sandboxd{target: target{"sandbox", address, pid, ""}, url: "http://" + address}
	s.control = sandboxapi.New(s.url)
	b.Cleanup(s.control.Close)
	return s
}

// signIn creates n creators with sessions.
func (s *sandboxd) signIn(b *testing.B, n int) {
	b.Helper()
	for i := range n {
		session, err := s.control.OpenSession(b.Context(), fmt.Sprintf("ok+bench%d@sandbox.test", i))
		must.OK(b, err)
		h := http.Header{"Cookie": {session.Cookie.Reveal()}}
		for name, value := range session.Headers {
			h.Set(name, value)
		}
		_, id, _ := strings.Cut(session.Cookie.Reveal(), "auth_id=")
		id, _, _ = strings.Cut(id, ";")
		s.creators = append(s.creators, creator{id, id + "0000000001", h})
	}
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
	sample, err := s.call(s.creators[0], 1)
	must.OK(b, err)
	bare := startBytes(b, sample, nil)
	var ours, theirs figures
	for range rounds {
		ours.measure(b, s.target, 0, func() int { return s.drive(b) })
		theirs.measure(b, bare, 0, func() int { return getMe(b, bare, "x") })
	}
	reportRatio(b, &ours, &theirs)
	b.ReportMetric(1e6/median(ours.cpu), "req/s/core")
	b.ReportMetric(perCreator/1024, "KB/creator")
	b.ReportMetric(float64(made.Microseconds()), "us/creator")
	b.ReportMetric(rss(b, s.pid)/(1<<20), "MB-rss")
}

// call makes the n-th call and returns the body of the response.
func (s *sandboxd) call(who creator, n int) ([]byte, error) {
	c := sandboxCalls[n%len(sandboxCalls)]
	return s.send(who, c.method, strings.ReplaceAll(c.path, "{fan}", who.fan), c.body)
}

// send sends a request as a creator and returns the body of the response.
func (s *sandboxd) send(who creator, method, path, body string) ([]byte, error) {
	req, err := http.NewRequest(method, s.url+"/api/v2"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = who.header.Clone()
	r, err := testnode.Send(req)
	if err == nil && r.Status != http.StatusOK {
		err = fmt.Errorf("%s %s: %d %s", method, path, r.Status, r.Body)
	}
	return r.Body, err
}

// drive makes calls on several connections for a round, cycling through 300 creators.
func (s *sandboxd) drive(b *testing.B) int {
	b.Helper()
	var n atomic.Int64
	return press(b, connections, roundTime, func(int, int) error {
		i := int(n.Add(1))
		_, err := s.call(s.creators[i%300], i)
		return err
	})
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
		must.OK(b, s.control.Generate(b.Context(), who.id, eventsPerSocket, 3*lasting*time.Second))
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
	must.OK(b, err)
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
	plain := startBytes(b, slices.Repeat([]byte{'x'}, size), nil)
	var frames, bytes atomic.Int64
	for range sandboxBusy {
		listen(b, "http://"+plain.address+"/frames?every="+(time.Second/eventsPerSocket).String(), nil, &frames, &bytes)
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
