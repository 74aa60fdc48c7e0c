package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// sharedBoard opens the board of the benchmark that runs this process.
func sharedBoard(t *testing.T) *board {
	t.Helper()
	return openBoard(t, os.Getenv(boardVariable))
}

// serveReceiver answers every request with 200 and records when it arrived. It never answers paths that start with
// /hang.
func serveReceiver(address string, shown *board) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			in := bufio.NewReaderSize(conn, 16<<10)
			body := make([]byte, 256<<10)
			for serveOne(conn, in, body, shown) == nil {
			}
		}()
	}
}

const tsForm = "2006-01-02T15:04:05.000Z"

var fine = []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

func serveOne(conn net.Conn, in *bufio.Reader, body []byte, shown *board) error {
	head, length, err := readHead(in)
	if err != nil {
		return err
	}
	if length > len(body) {
		return fmt.Errorf("a body of %d bytes", length)
	}
	_, rest, _ := bytes.Cut(head, []byte(" /"))
	rest, _, _ = bytes.Cut(rest, []byte(" "))
	kind, number, _ := strings.Cut(string(rest), "/") // copied before the next read reuses the memory
	seq := headNumber(head, "X-Webhook-Sequence: ")
	text := body[:length]
	if _, err := io.ReadFull(in, text); err != nil {
		return err
	}
	if kind == "hang" {
		_, err := in.ReadByte() // until the sender gives up
		return err
	}
	now := time.Now()
	if n, err := strconv.Atoi(number); err == nil && seq > 0 && kind != "unordered" {
		shown.order(n, seq)
	}
	if kind == "timed" {
		shown.healthy.Add(1)
		if _, after, ok := bytes.Cut(text, []byte(`"ts":"`)); ok {
			if at, err := time.Parse(tsForm, string(after[:len(tsForm)])); err == nil {
				shown.stored.add(now.Sub(at))
			}
		}
		if sent := headNumber(text, `"sent":`); sent > 0 {
			shown.published.add(now.Sub(time.Unix(0, sent)))
		}
	}
	shown.lastAt.Store(now.UnixNano())
	shown.received.Add(1)
	_, err = conn.Write(fine)
	return err
}

// headNumber returns the number after a name, or 0.
func headNumber(text []byte, name string) (n int64) {
	at := bytes.Index(text, []byte(name))
	if at < 0 {
		return 0
	}
	for _, c := range text[at+len(name):] {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

// order checks a sequence number against the last one of its path.
func (s *board) order(path int, seq int64) {
	last := &s.seqs[path%boardPaths]
	switch before := last.Load(); {
	case seq <= before:
		s.repeated.Add(1)
		return
	case before > 0 && seq > before+1:
		s.skipped.Add(1)
	}
	last.Store(seq)
}

// plan configures a source.
type plan struct {
	// Bare publishes one message per event. Otherwise events go through a Batcher to the event log.
	Bare bool
	// NATS is the URL of the server, Accounts a file with an org and an account per line.
	NATS, Accounts string
	// Count limits the accounts to that many, starting at First. Zero means all. More adds that many, starting at Also.
	First, Count int
	Also, More   int
	// Events is the number of events, or else During the duration. PerSecond limits the rate, and Window the number of
	// events that were not received yet.
	Events    int
	During    time.Duration
	PerSecond int
	Window    int
	// InTurn cycles through the accounts instead of choosing them at random.
	InTurn bool
}

// outcome is the result of a source.
type outcome struct {
	Published int
	CPU       time.Duration
}

type source struct {
	plan
	shown    *board
	orgs     []id.Org
	accounts []string
	texts    []string
	base     int64
	taken    atomic.Int64
	failed   atomic.Int64
	until    time.Time
	name     string
}

const payloadSize = 640 // results in an envelope of 1 KB

func newSource(t *testing.T, shown *board) *source {
	t.Helper()
	s := &source{shown: shown, name: strconv.FormatInt(time.Now().UnixNano(), 36)}
	must.OK(t, json.Unmarshal([]byte(os.Getenv(peerVariable+"_PLAN")), &s.plan))
	text, err := os.ReadFile(s.Accounts)
	must.OK(t, err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	chosen := lines
	if s.Count > 0 {
		chosen = append(append([]string{}, lines[s.First:s.First+s.Count]...), lines[s.Also:s.Also+s.More]...)
	}
	for _, line := range chosen {
		owner, account, _ := strings.Cut(line, " ")
		s.orgs, s.accounts = append(s.orgs, id.Org(owner)), append(s.accounts, account)
	}
	for range 64 { // different texts, so that they do not compress too well
		raw := make([]byte, payloadSize/2)
		for i := range raw {
			raw[i] = byte(rand.Uint32())
		}
		s.texts = append(s.texts, hex.EncodeToString(raw))
	}
	return s
}

// next waits until the next event is due. It returns false after the last one.
func (s *source) next(ctx context.Context) (n int, ok bool) {
	n = int(s.taken.Add(1)) - 1
	if s.Events > 0 && n >= s.Events || s.Events == 0 && time.Now().After(s.until) || s.failed.Load() > 0 {
		s.taken.Add(-1)
		return 0, false
	}
	if s.PerSecond > 0 {
		due := time.Unix(0, s.shown.beganAt.Load()).Add(time.Duration(n) * time.Second / time.Duration(s.PerSecond))
		for d := time.Until(due); d > 0; d = time.Until(due) {
			<-time.After(d)
		}
	}
	for s.Window > 0 && int64(n)-(s.shown.received.Load()-s.base) >= int64(s.Window) && ctx.Err() == nil {
		<-time.After(200 * time.Microsecond)
	}
	return n, true
}

func (s *source) pick(n int) int {
	if s.InTurn {
		return n % len(s.accounts)
	}
	return rand.IntN(len(s.accounts))
}

func (s *source) data(to []byte, n int) []byte {
	return fmt.Appendf(to, `{"sent":%d,"number":%d,"text":"%s"}`, time.Now().UnixNano(), n, s.texts[n%len(s.texts)])
}

func cpuOfSelf(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	must.OK(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func (s *source) run(t *testing.T) {
	t.Helper()
	publish, end := s.events(t)
	before := cpuOfSelf(t)
	s.base = s.shown.received.Load()
	s.shown.beganAt.Store(time.Now().UnixNano())
	s.until = time.Now().Add(s.During)
	publish(t.Context())
	end()
	if s.failed.Load() > 0 {
		t.Fatalf("%d events were not published", s.failed.Load())
	}
	out, err := json.Marshal(outcome{int(s.taken.Load()), cpuOfSelf(t) - before})
	must.OK(t, err)
	fmt.Printf("%s\n", out)
}

// events returns the function that publishes the events, and the one that closes the connection.
func (s *source) events(t *testing.T) (publish func(context.Context), end func()) {
	t.Helper()
	if s.Bare {
		return s.bareEvents(t), func() {}
	}
	log, err := eventlog.Open(eventlog.Config{URL: secret.New(s.NATS), Name: "bench source", Buckets: event.Buckets})
	must.OK(t, err)
	if _, err := log.State(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	batcher := eventlog.NewBatcher(log)
	done := func(err error) {
		if err != nil {
			s.failed.Add(1)
		}
	}
	publish = func(ctx context.Context) {
		var data, record []byte
		for n, ok := s.next(ctx); ok; n, ok = s.next(ctx) {
			at := s.pick(n)
			data = s.data(data[:0], n)
			r := event.Record{Org: s.orgs[at], Source: s.accounts[at], Kind: "message", UpstreamID: s.name + "-" + strconv.Itoa(n), Data: data}
			record = r.Append(record[:0])
			if err := batcher.Add(ctx, event.Bucket(r.Source), record, done); err != nil {
				s.failed.Add(1)
				return
			}
		}
	}
	return publish, func() {
		must.OK(t, batcher.Close(t.Context()))
		log.Close()
	}
}

const (
	bareStream    = "BARE"
	barePublisher = 256
)

// bareEvents returns a function that publishes each event as a message, many concurrently, and waits for each
// acknowledgement.
func (s *source) bareEvents(t *testing.T) func(context.Context) {
	t.Helper()
	js := bareJetStream(t, s.NATS)
	return func(ctx context.Context) {
		var all sync.WaitGroup
		for range barePublisher {
			all.Go(func() {
				var data, body []byte
				for n, ok := s.next(ctx); ok; n, ok = s.next(ctx) {
					at := s.pick(n)
					data = s.data(data[:0], n)
					body = event.AppendEnvelope(body[:0], &event.Envelope{
						ID: id.New[id.Event](), Kind: "message", Account: s.accounts[at], At: time.Now(), Seq: int64(n + 1), Data: data,
					})
					if _, err := js.Publish(ctx, "bare."+strconv.Itoa(at%event.Buckets), body); err != nil {
						s.failed.Add(1)
						return
					}
				}
			})
		}
		all.Wait()
	}
}

func bareJetStream(tb testing.TB, url string) jetstream.JetStream {
	tb.Helper()
	conn, err := nats.Connect(url)
	must.OK(tb, err)
	js, err := jetstream.New(conn)
	must.OK(tb, err)
	return js
}

// runBareDelivery is a minimal delivery loop: it takes a message, signs it, posts it and acknowledges it. It keeps no
// order, stores nothing and drops what it could not deliver.
func runBareDelivery(t *testing.T, shown *board) {
	t.Helper()
	js := bareJetStream(t, os.Getenv("BENCH_NATS"))
	workers, err := strconv.Atoi(os.Getenv("BENCH_WORKERS"))
	must.OK(t, err)
	consumer, err := js.CreateOrUpdateConsumer(t.Context(), bareStream, jetstream.ConsumerConfig{
		Durable: "loop", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxAckPending: 16_384,
	})
	must.OK(t, err)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}, Timeout: 10 * time.Second}
	url := os.Getenv("BENCH_URL")
	work := make(chan jetstream.Msg, 2*workers)
	for range workers {
		go func() {
			for m := range work {
				if err := bareDeliver(client, url, m.Data()); err != nil {
					t.Error(err)
					continue
				}
				if err := m.Ack(); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(2048))
	must.OK(t, err)
	for {
		m, err := messages.Next()
		must.OK(t, err)
		for shown.hold.Load() > 0 {
			<-time.After(time.Millisecond)
		}
		work <- m
	}
}

func bareDeliver(client *http.Client, url string, body []byte) error {
	mac := hmac.New(sha256.New, []byte("whsec_0123456789abcdef0123456789abcdef"))
	mac.Write(body)
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Webhook-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
