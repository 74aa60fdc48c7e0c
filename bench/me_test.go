package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

const (
	roundTime   = 2 * time.Second
	connections = 16
)

// serveBytes serves the given bytes and does nothing else, which is the minimum for net/http.
func serveBytes(address string) error {
	body, headers := []byte(os.Getenv("BENCH_BODY")), http.Header{}
	for line := range strings.Lines(os.Getenv("BENCH_HEAD")) {
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
	mux.HandleFunc("GET /mallocs", writeMallocs)
	return http.ListenAndServe(address, mux)
}

// startBytes runs this program as a server of the same bytes on the measured core.
func startBytes(b *testing.B, body []byte, header http.Header) target {
	b.Helper()
	var head bytes.Buffer
	for name, values := range header {
		if name != "Content-Length" && name != "Date" {
			fmt.Fprintf(&head, "%s: %s\n", name, values[0])
		}
	}
	address, pid := startPeer(b, "bytes", measuredCore, "BENCH_BODY="+string(body), "BENCH_HEAD="+head.String())
	return target{"bare", address, pid, "http://" + address + "/mallocs"}
}

// BenchmarkGetMe compares a warm, authenticated, rate-limited GET /v1/me with a bare handler that sends the same bytes:
// CPU time of the server process per request, and allocations. Redis is listed separately. Both servers are pinned to
// one core.
func BenchmarkGetMe(b *testing.B) {
	redis, redisURL := testenv.PrivateRedis(b)
	node := testnode.Processes(b, 1, testnode.Setup{
		Redis: redisURL, Wrap: []string{"taskset", "-c", measuredCore}, Env: []string{"GOMAXPROCS=1", "STAGEDOOR_LOG_LEVEL=warn"},
	})[0]
	owner := node.NewOrg(b, map[string]int{"callsPerMinute": 100_000_000, "callsPerMonth": 1_000_000_000})
	sample := node.Call(b, http.MethodGet, "/v1/me", owner.Key, nil)

	ours := target{"node", strings.TrimPrefix(node.URL, "http://"), node.Process.PID(), node.Internal + "/metrics"}
	bare := startBytes(b, sample.Body, sample.Header)
	for range 2 {
		getMe(b, ours, owner.Key)
		getMe(b, bare, owner.Key)
	}
	var mine, theirs figures
	for range rounds {
		inRandomOrder(
			func() { mine.measure(b, ours, redis.PID(), func() int { return getMe(b, ours, owner.Key) }) },
			func() { theirs.measure(b, bare, 0, func() int { return getMe(b, bare, "x") }) },
		)
	}
	reportRatio(b, &mine, &theirs)
}

// getMe calls GET /v1/me for a round and returns the number of responses.
func getMe(b *testing.B, at target, key string) int {
	b.Helper()
	ctx := context.WithoutCancel(b.Context())
	return press(b, connections, roundTime, func(int, int) error {
		r, err := testnode.Do(ctx, http.MethodGet, "http://"+at.address+"/v1/me", key, nil)
		if err == nil && r.Status != http.StatusOK {
			err = fmt.Errorf("%s answered %d", at.name, r.Status)
		}
		return err
	})
}
