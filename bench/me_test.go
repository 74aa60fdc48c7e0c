// Package bench measures the costs of the product as ratios to a bare implementation in the same run, because absolute
// figures of a shared machine are noisy, but ratios of two measurements side by side are not.
package bench

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// bareVariable is the environment variable that turns this program into a bare server.
const bareVariable = "BENCH_BARE"

func TestMain(m *testing.M) {
	if address := os.Getenv(bareVariable); address != "" {
		bare(address)
		return
	}
	os.Exit(m.Run())
}

// bare serves the given bytes and does nothing else, which is the minimum for net/http.
func bare(address string) {
	body, headers := []byte(os.Getenv(bareVariable+"_BODY")), http.Header{}
	for line := range strings.Lines(os.Getenv(bareVariable + "_HEAD")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		headers.Add(name, value)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/me", func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range headers {
			w.Header()[name] = values
		}
		_, _ = w.Write(body)
	})
	mux.HandleFunc("GET /frames", bareFrameServer(body))
	mux.HandleFunc("GET /mallocs", func(w http.ResponseWriter, _ *http.Request) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Fprint(w, m.Mallocs)
	})
	panic(http.ListenAndServe(address, mux))
}

const (
	rounds      = 9
	roundTime   = 2 * time.Second
	connections = 16
)

// side is one of the servers compared.
type side struct {
	url     string
	key     string
	pid     int
	mallocs func() float64
	// CPU time and allocations per request, one figure per round.
	cpu, allocs []float64
	redis       []float64
}

// BenchmarkGetMe compares a warm, authenticated, rate-limited GET /v1/me with a bare handler that sends the same bytes:
// CPU time of the server process per request, and allocations. Redis is listed separately. Both servers are pinned to
// one core.
func BenchmarkGetMe(b *testing.B) {
	redis, redisURL := testenv.PrivateRedis(b)
	pinned := []string{"taskset", "-c", "0"}
	node := testnode.Processes(b, 1, testnode.Setup{Redis: redisURL, Wrap: pinned, Env: []string{"GOMAXPROCS=1", "STAGEDOOR_LOG_LEVEL=warn"}})[0]
	owner := node.NewOrg(b, map[string]int{"callsPerMinute": 100_000_000, "callsPerMonth": 1_000_000_000})
	sample := node.Call(b, http.MethodGet, "/v1/me", owner.Key, nil)

	ours := &side{url: node.URL, key: owner.Key, pid: node.Process.PID(), mallocs: func() float64 { return metric(b, node.Internal+"/metrics", "go_memstats_mallocs_total") }}
	plain := startBare(b, pinned, sample)
	for range 2 {
		drive(b, ours)
		drive(b, plain)
	}
	for range rounds {
		order := []*side{ours, plain}
		if rand.IntN(2) == 0 {
			slices.Reverse(order)
		}
		for _, s := range order {
			measure(b, s, redis.PID())
		}
	}
	ratios := make([]float64, rounds)
	for i := range ratios {
		ratios[i] = ours.cpu[i] / plain.cpu[i]
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(ours.cpu), "us-cpu/req")
	b.ReportMetric(median(plain.cpu), "us-cpu-bare/req")
	b.ReportMetric(median(ratios), "x-bare")
	b.ReportMetric(median(ours.allocs), "allocs/req")
	b.ReportMetric(median(plain.allocs), "allocs-bare/req")
	b.ReportMetric(median(ours.redis), "us-cpu-redis/req")
}

// startBare runs this program as the bare server.
func startBare(b *testing.B, wrap []string, sample testnode.Reply) *side {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	var head bytes.Buffer
	for name, values := range sample.Header {
		if name != "Content-Length" && name != "Date" {
			fmt.Fprintf(&head, "%s: %s\n", name, values[0])
		}
	}
	args := append(slices.Clone(wrap), os.Args[0])
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", bareVariable+"="+address, bareVariable+"_BODY="+string(sample.Body), bareVariable+"_HEAD="+head.String())
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s := &side{url: "http://" + address, key: "x", pid: cmd.Process.Pid}
	s.mallocs = func() float64 {
		r, err := testnode.Do(b.Context(), http.MethodGet, s.url+"/mallocs", "", nil)
		if err != nil {
			b.Fatal(err)
		}
		n, _ := strconv.ParseFloat(string(r.Body), 64)
		return n
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err := testnode.Do(b.Context(), http.MethodGet, s.url+"/v1/me", "", nil); err == nil {
			return s
		} else if time.Now().After(deadline) {
			b.Fatal(err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// drive calls a server on several connections for a round and returns the number of responses.
func drive(b *testing.B, s *side) int {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), roundTime)
	defer cancel()
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		total int
	)
	for range connections {
		wait.Go(func() {
			n := 0
			for ctx.Err() == nil {
				r, err := testnode.Do(context.WithoutCancel(ctx), http.MethodGet, s.url+"/v1/me", s.key, nil)
				if err != nil || r.Status != http.StatusOK {
					b.Errorf("%d %v", r.Status, err)
					return
				}
				n++
			}
			mu.Lock()
			defer mu.Unlock()
			total += n
		})
	}
	wait.Wait()
	return total
}

func measure(b *testing.B, s *side, redis int) {
	b.Helper()
	cpu, shared, mallocs := processCPU(b, s.pid), processCPU(b, redis), s.mallocs()
	n := float64(drive(b, s))
	s.cpu = append(s.cpu, float64((processCPU(b, s.pid)-cpu).Microseconds())/n)
	s.redis = append(s.redis, float64((processCPU(b, redis)-shared).Microseconds())/n)
	s.allocs = append(s.allocs, (s.mallocs()-mallocs)/n)
}

// processCPU returns the user and system CPU time of a process.
func processCPU(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

// metric returns one value from a Prometheus endpoint.
func metric(b *testing.B, url, name string) float64 {
	b.Helper()
	r, err := testnode.Do(b.Context(), http.MethodGet, url, "", nil)
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(r.Body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatal("no metric " + name)
	return 0
}

func median[T cmp.Ordered](list []T) T {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}
