package test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
)

// sseFrame is one event of a stream of server-sent events.
type sseFrame struct {
	id, name string
	data     []byte
}

// readSSE calls got with each event of a stream until it ends.
func readSSE(from io.Reader, got func(sseFrame)) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 64<<10), 1<<20)
	var f sseFrame
	for lines.Scan() {
		line := lines.Bytes()
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0:
			if f.name != "" || f.data != nil {
				got(f)
			}
			f = sseFrame{}
		case string(field) == "id":
			f.id = string(value)
		case string(field) == "event":
			f.name = string(value)
		case string(field) == "data":
			if f.data != nil {
				f.data = append(f.data, '\n')
			}
			f.data = append(f.data, value...)
		}
	}
}

// reader is a client of a stream. It is cut off from time to time and resumes after its last event, on any node.
type reader struct {
	path, key, canary string
	// origins are the base URLs of the nodes.
	origins []string
	client  http.RoundTripper
	// life is the longest time that a connection lasts.
	life time.Duration
	// ready is closed when the first connection is ready.
	ready     chan struct{}
	readyOnce sync.Once

	mu          sync.Mutex
	last        string
	connections [][]sighting
	seen        map[string]map[int64]struct{}
	from        map[string]int64
	gaps        int
	refusals    map[int]int
	ends        map[string]int
}

func newReader(path, key, canary string, origins []string, life time.Duration) *reader {
	return &reader{
		path: path, key: key, canary: canary, origins: origins, life: life, ready: make(chan struct{}),
		client: &http.Transport{
			DisableKeepAlives: true, ResponseHeaderTimeout: 5 * time.Second,
			DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
		},
		seen: map[string]map[int64]struct{}{}, refusals: map[int]int{}, ends: map[string]int{},
	}
}

// run reads the stream until the context ends.
func (r *reader) run(ctx context.Context) {
	for ctx.Err() == nil {
		life := r.life/4 + rand.N(r.life*3/4)
		living, cancel := context.WithTimeout(ctx, life)
		r.watch(living)
		cancel()
		select {
		case <-ctx.Done():
		case <-time.After(20*time.Millisecond + rand.N(100*time.Millisecond)):
		}
	}
}

// watch opens the stream and reads it until it ends.
func (r *reader) watch(ctx context.Context) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.origins[rand.IntN(len(r.origins))]+r.path, http.NoBody)
	if err != nil {
		return
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.Header.Set("Accept", "text/event-stream")
	r.mu.Lock()
	if r.last != "" {
		req.Header.Set("Last-Event-ID", r.last)
	}
	r.mu.Unlock()
	res, err := r.client.RoundTrip(req)
	if err != nil {
		return
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		r.mu.Lock()
		r.refusals[res.StatusCode]++
		r.mu.Unlock()
		return
	}
	r.mu.Lock()
	r.connections = append(r.connections, nil)
	r.mu.Unlock()
	readSSE(res.Body, r.handle)
}

// handle records an event of the stream.
func (r *reader) handle(f sseFrame) {
	switch f.name {
	case "ready":
		r.mu.Lock()
		if r.last == "" {
			r.last = cursorOf(f.data)
		}
		if bytes.Contains(f.data, []byte(`"gap":true`)) {
			r.gaps++
		}
		r.mu.Unlock()
		r.readyOnce.Do(func() { close(r.ready) })
		return
	case "heartbeat":
		return
	case "problem":
		r.mu.Lock()
		r.ends[codeOf(f.data)]++
		r.mu.Unlock()
		return
	}
	if f.id == "" {
		return // ephemeral
	}
	e, err := parseEvent(f.data)
	s := sighting{seq: e.Meta.Seq, body: digestOf(f.data), account: e.Owner, foreign: err != nil || hasForeignCanary(f.data, r.canary)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = f.id
	i := len(r.connections) - 1
	r.connections[i] = append(r.connections[i], s)
	if r.seen[s.account] == nil {
		r.seen[s.account] = map[int64]struct{}{}
	}
	r.seen[s.account][s.seq] = struct{}{}
}

// reset starts a case: it drops the sightings up to an event per account. The open connection stays.
func (r *reader) reset(from map[string]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.from, r.gaps = from, 0
	var left [][]sighting
	for i, c := range r.connections {
		c = slices.DeleteFunc(slices.Clone(c), func(s sighting) bool { return s.seq <= from[s.account] })
		if len(c) > 0 || i == len(r.connections)-1 {
			left = append(left, c)
		}
	}
	r.connections = left
}

// distinct counts the different events of an account in this case.
func (r *reader) distinct(account string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return countAfter(r.seen[account], r.from[account])
}

// snapshot returns the connections with their events.
func (r *reader) snapshot() [][]sighting {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([][]sighting, len(r.connections))
	for i, c := range r.connections {
		list[i] = c[:len(c):len(c)]
	}
	return list
}

func codeOf(problem []byte) string {
	_, rest, _ := bytes.Cut(problem, []byte(`"code":"`))
	code, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(code)
}

func cursorOf(ready []byte) string {
	_, rest, _ := bytes.Cut(ready, []byte(`"cursor":"`))
	cursor, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(cursor)
}

// byAccount groups the sightings on an organisation's stream by account. Those of accounts that are not the
// organisation's are assigned to the first account, whose check then reports them as foreign.
func byAccount(connections [][]sighting, accounts []string) map[string]watcher {
	known := map[string]bool{}
	for _, a := range accounts {
		known[a] = true
	}
	sorted := map[string]watcher{}
	for _, connection := range connections {
		here := map[string][]sighting{}
		for _, s := range connection {
			switch {
			case known[s.account]:
				here[s.account] = append(here[s.account], s)
			case s.account != "" || s.foreign:
				here[accounts[0]] = append(here[accounts[0]], s)
			}
		}
		for account, list := range here {
			w := sorted[account]
			w.connections, w.ofOrg = append(w.connections, list), true
			sorted[account] = w
		}
	}
	for account := range known {
		if _, ok := sorted[account]; !ok {
			sorted[account] = watcher{ofOrg: true}
		}
	}
	return sorted
}

// A reader that is cut off again and again gets every event, because it resumes after its last one.
func TestReaderResumesWhereItWasCutOff(t *testing.T) {
	const events = 60
	sent := atomic.Int64{}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
		out := func(text string) {
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
		}
		out("retry: 3000\n\nevent: ready\ndata: {\"cursor\":\"00000000000000\",\"gap\":false}\n\n")
		for n := from + 1; n <= min(from+7, events); n++ {
			out("id: " + cursor(int64(n)) + "\nevent: message\ndata: {\"id\":\"evt\",\"accountId\":\"acct_1\",\"meta\":{\"seq\":" + strconv.Itoa(n) + "}}\n\n")
			sent.Add(1)
		}
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	r := newReader("/v1/events", "key", "", []string{"http://" + l.Addr().String()}, time.Second)
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { r.run(ctx) })
	await(t, "all events", 2*time.Minute, func() bool { return sent.Load() >= events })
	await(t, "all events read", 2*time.Minute, func() bool { return r.distinct("acct_1") >= events })
	stop()
	work.Wait()
	if n := r.distinct("acct_1"); n != events || len(r.snapshot()) < events/7 {
		t.Errorf("%d of %d events on %d connections", n, events, len(r.snapshot()))
	}
}
