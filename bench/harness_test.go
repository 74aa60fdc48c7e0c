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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

const (
	// peerVariable is the environment variable that selects the role in which TestPeer runs this program.
	peerVariable = "BENCH_PEER"
	measuredCore = "0" // reserved for the server under test
	restCore     = "1"
	rounds       = 9
)

// TestPeer is not a test: the benchmarks run it as separate processes.
func TestPeer(t *testing.T) {
	address := os.Getenv(peerVariable + "_ADDRESS")
	switch os.Getenv(peerVariable) {
	case "bytes":
		t.Fatal(serveBytes(address))
	case "platform":
		t.Fatal(servePlatform(address, readCanned(t)))
	case "proxy":
		t.Fatal(serveReverseProxy(address, os.Getenv("BENCH_UPSTREAM")))
	case "streams":
		t.Fatal(serveStreams(address, ourStreams(t)))
	case "bare streams":
		t.Fatal(serveStreams(address, bareStreams(t)))
	case "receiver":
		t.Fatal(serveReceiver(address, sharedBoard(t)))
	case "source":
		newSource(t, sharedBoard(t)).run(t)
	case "bare delivery":
		runBareDelivery(t, sharedBoard(t))
	}
}

// peer returns a command that runs this program in another role.
func peer(role string, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^TestPeer$", "-test.timeout=0")
	cmd.Env = append(append(os.Environ(), peerVariable+"="+role), env...)
	cmd.Stderr = os.Stderr
	return cmd
}

// onCore restricts a command to one core.
func onCore(core string, cmd *exec.Cmd) *exec.Cmd {
	wrapped := exec.Command("taskset", append([]string{"-c", core}, cmd.Args...)...)
	wrapped.Env, wrapped.Stderr = append(cmd.Environ(), "GOMAXPROCS=1"), cmd.Stderr
	return wrapped
}

// start runs a program until the benchmark or this process ends, and returns its process id.
func start(b *testing.B, cmd *exec.Cmd) int {
	b.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.OK(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// startPeer runs this program as a server on one core and waits until it listens.
func startPeer(b *testing.B, role, core string, env ...string) (address string, pid int) {
	b.Helper()
	address = freeAddress(b)
	pid = start(b, onCore(core, peer(role, append(env, peerVariable+"_ADDRESS="+address)...)))
	awaitPort(b, address)
	return address, pid
}

func freeAddress(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(b, err)
	defer l.Close()
	return l.Addr().String()
}

func awaitPort(b *testing.B, address string) {
	b.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			b.Fatal(err)
		}
	}
}

// pin moves a process to the core for everything that is not measured.
func pin(b *testing.B, pid int) {
	b.Helper()
	if out, err := exec.Command("taskset", "-a", "-c", "-p", restCore, strconv.Itoa(pid)).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
}

// raiseFileLimit allows as many open files as the benchmarks need, if the machine does.
func raiseFileLimit() {
	limit := syscall.Rlimit{Cur: 1 << 18, Max: 1 << 18}
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// round returns how long one side is under load at a time: BENCH_ROUND, or the given default.
func round(b *testing.B, usual time.Duration) time.Duration {
	b.Helper()
	text := os.Getenv("BENCH_ROUND")
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	must.OK(b, err)
	return d
}

// press makes calls from several clients for some time and returns their number. A client that fails stops.
func press(b *testing.B, clients int, during time.Duration, call func(client, n int) error) int {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), during)
	defer cancel()
	var (
		wait  sync.WaitGroup
		total atomic.Int64
	)
	for client := range clients {
		wait.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := call(client, n); err != nil {
					b.Error(err)
					return
				}
				total.Add(1)
			}
		})
	}
	wait.Wait()
	return int(total.Load())
}

// inRandomOrder runs the steps of a round.
func inRandomOrder(steps ...func()) {
	rand.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, step := range steps {
		step()
	}
}

// target is a server under load.
type target struct {
	name    string
	address string
	pid     int
	stats   string // URL of its allocation counters, if it has any
}

// figures holds the costs of a call, one figure per round.
type figures struct{ cpu, redis, allocs, bytes, rate []float64 }

// measure puts a server under load and adds its costs. redis is the process id of the server's Redis, or 0.
func (f *figures) measure(b *testing.B, at target, redis int, load func() int) {
	b.Helper()
	read := func() (list [4]float64) {
		list[0] = float64(processCPU(b, at.pid).Microseconds())
		if redis != 0 {
			list[1] = float64(processCPU(b, redis).Microseconds())
		}
		if at.stats != "" {
			list[2], list[3] = metric(b, at.stats, "go_memstats_mallocs_total"), metric(b, at.stats, "go_memstats_alloc_bytes_total")
		}
		return list
	}
	before, began := read(), time.Now()
	n := float64(load())
	f.rate = append(f.rate, n/time.Since(began).Seconds())
	after := read()
	for i, list := range []*[]float64{&f.cpu, &f.redis, &f.allocs, &f.bytes} {
		*list = append(*list, (after[i]-before[i])/n)
	}
}

// reportRatio reports what a call costs on our server and on a bare one, and the ratio of the two.
func reportRatio(b *testing.B, ours, bare *figures) {
	b.Helper()
	var ratios, withRedis []float64
	for i := range ours.cpu {
		ratios = append(ratios, ours.cpu[i]/bare.cpu[i])
		withRedis = append(withRedis, (ours.cpu[i]+ours.redis[i])/bare.cpu[i])
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(ours.cpu), "us-cpu/req")
	b.ReportMetric(median(bare.cpu), "us-cpu-bare/req")
	b.ReportMetric(median(ratios), "x-bare")
	b.ReportMetric(spread(ratios), "x-bare-mad")
	b.ReportMetric(median(ours.rate), "req/s")
	b.ReportMetric(median(bare.rate), "req/s-bare")
	if median(ours.redis) > 0 {
		b.ReportMetric(median(ours.redis), "us-cpu-redis/req")
		b.ReportMetric(median(withRedis), "x-bare-with-redis")
	}
	if median(ours.allocs) > 0 {
		b.ReportMetric(median(ours.allocs), "allocs/req")
		b.ReportMetric(median(bare.allocs), "allocs-bare/req")
		b.ReportMetric(median(ours.bytes), "B/req")
		b.ReportMetric(median(bare.bytes), "B-bare/req")
	}
}

// profile writes profiles of a node under load to files that start with BENCH_PROFILE, if it is set.
func profile(b *testing.B, node *testnode.Node, name string, load func()) {
	b.Helper()
	file := os.Getenv("BENCH_PROFILE")
	if file == "" {
		return
	}
	var wait sync.WaitGroup
	for path, kind := range map[string]string{"profile?seconds=4": "cpu", "allocs?seconds=4": "allocs"} {
		wait.Go(func() {
			r, err := testnode.Do(b.Context(), http.MethodGet, node.Internal+"/debug/pprof/"+path, testnode.AdminToken, nil)
			if err == nil {
				err = os.WriteFile(file+"."+name+"."+kind, r.Body, 0o600)
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	load()
	wait.Wait()
}

// writeMallocs writes the allocation counters of this process in the format of the node's metrics.
func writeMallocs(w http.ResponseWriter, _ *http.Request) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Fprintf(w, "go_memstats_mallocs_total %d\ngo_memstats_alloc_bytes_total %d\n", m.Mallocs, m.TotalAlloc)
}

// processCPU returns the user and system CPU time of a process.
func processCPU(b *testing.B, pid int) time.Duration {
	b.Helper()
	return statTimes(b, pid, 11)
}

// statTimes returns the sum of two times in a process's stat, counted from the field after its name.
func statTimes(b *testing.B, pid, field int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must.OK(b, err)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	ticks := 0
	for _, f := range fields[field : field+2] {
		n, err := strconv.Atoi(f)
		must.OK(b, err)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

// rss returns the resident memory of a process in bytes.
func rss(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	must.OK(b, err)
	pages, err := strconv.ParseFloat(strings.Fields(string(text))[1], 64)
	must.OK(b, err)
	return pages * float64(os.Getpagesize())
}

// metric returns one value from a Prometheus endpoint.
func metric(b *testing.B, url, name string) float64 {
	b.Helper()
	r, err := testnode.Do(b.Context(), http.MethodGet, url, "", nil)
	must.OK(b, err)
	for line := range strings.Lines(string(r.Body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			must.OK(b, err)
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

// spread returns the median absolute deviation.
func spread(list []float64) float64 {
	middle := median(list)
	var far []float64
	for _, x := range list {
		far = append(far, max(x-middle, middle-x))
	}
	return median(far)
}
