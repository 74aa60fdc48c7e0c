package test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
)

// manner is how a receiver behaves.
type manner string

const (
	honest manner = "ok"
	flaky  manner = "flaky" // refuses from time to time
	big    manner = "big"   // accepts, with a response of 64 MiB

	hanging    manner = "hang"
	slowloris  manner = "slow" // sends a byte every half second
	redirector manner = "redirect"
	resetter   manner = "reset"
	refuser    manner = "error"
	badTLS     manner = "tls"
)

// acceptsAll reports whether such a receiver accepts every event in the end.
func (m manner) acceptsAll() bool { return m == honest || m == flaky || m == big }

const canaryMark, canaryLen = "canary-", 16

// hasForeignCanary reports whether a body contains a canary other than this one.
func hasForeignCanary(body []byte, canary string) bool {
	for {
		at := bytes.Index(body, []byte(canaryMark))
		if at < 0 {
			return false
		}
		body = body[at+len(canaryMark):]
		if len(body) < canaryLen || string(body[:canaryLen]) != canary {
			return true
		}
	}
}

// inbox is the receiver of one account.
type inbox struct {
	manner         manner
	url            string
	secret, canary string

	mu       sync.Mutex
	arrivals []arrival
	seen     map[int64]struct{}
	from     int64
	refused  time.Time
	tries    int
}

// reset starts a case: it drops the deliveries up to an event.
func (b *inbox) reset(from int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.from = from
	b.arrivals = slices.DeleteFunc(slices.Clone(b.arrivals), func(a arrival) bool { return a.seq <= from })
}

// received returns the deliveries in order of arrival.
func (b *inbox) received() []arrival {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.arrivals[:len(b.arrivals):len(b.arrivals)]
}

// distinct counts the different events of the case that arrived.
func (b *inbox) distinct() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return countAfter(b.seen, b.from)
}

// countAfter counts the sequences after an event.
func countAfter(seen map[int64]struct{}, from int64) (n int) {
	for seq := range seen {
		if seq > from {
			n++
		}
	}
	return n
}

// has reports whether an event has arrived.
func (b *inbox) has(seq int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, has := b.seen[seq]
	return has
}

// flakyPause is the least time between two refusals of a flaky receiver.
const flakyPause = 20 * time.Second

// mustRefuse counts a delivery and reports whether a flaky receiver must refuse it.
func (b *inbox) mustRefuse() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tries++; b.manner != flaky || b.tries%7 != 0 || time.Since(b.refused) < flakyPause {
		return false
	}
	b.refused = time.Now()
	return true
}

// record adds a delivery to the arrivals, unless its event is ephemeral.
func (b *inbox) record(header http.Header, body []byte) {
	e, err := parseEvent(body)
	a := arrival{
		seq: e.Meta.Seq, body: digestOf(body), account: e.Owner, foreign: err != nil || hasForeignCanary(body, b.canary), signed: b.signed(header, body, &e),
		marked: header.Get("X-Webhook-Out-Of-Order") == "1" || header.Get("X-Webhook-Replay") != "",
	}
	if e.Meta.UpstreamAt != nil && b.manner == honest {
		a.at = time.Now()
		a.late = a.at.Sub(*e.Meta.UpstreamAt)
	}
	if err == nil && a.seq == 0 && !a.foreign {
		return // ephemeral events are not checked
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, a.again = b.seen[a.seq]
	b.arrivals = append(b.arrivals, a)
	b.seen[a.seq] = struct{}{}
}

// signed reports whether both signatures and the other headers of a delivery are correct.
func (b *inbox) signed(h http.Header, body []byte, e *gotEvent) bool {
	mac := hmac.New(sha256.New, []byte(b.secret))
	mac.Write(body)
	if h.Get("X-Webhook-Signature") != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(b.secret, "whsec_"))
	if err != nil {
		return false
	}
	mac = hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", h.Get("Webhook-Id"), h.Get("Webhook-Timestamp"), body)
	if !strings.Contains(" "+h.Get("Webhook-Signature")+" ", " v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil))+" ") {
		return false
	}
	return h.Get("X-Webhook-Id") == e.ID && h.Get("Webhook-Id") == e.ID && h.Get("X-Webhook-Event") == e.Kind &&
		(e.Meta.Seq == 0 || h.Get("X-Webhook-Sequence") == strconv.FormatInt(e.Meta.Seq, 10))
}

// farm holds the receivers of all accounts.
type farm struct {
	main, far, tls *httptest.Server
	inboxes        sync.Map // by path
	next           atomic.Int64
	// trapped counts requests that followed a redirect, strays those to an unknown path.
	trapped, strays atomic.Int64
}

func newFarm(t *testing.T) *farm {
	t.Helper()
	f := &farm{}
	start := func(address string, secure bool) *httptest.Server {
		l, err := net.Listen("tcp", address)
		must.OK(t, err)
		s := httptest.NewUnstartedServer(f)
		_ = s.Listener.Close()
		s.Listener = l
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		if secure {
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(func() {
			s.CloseClientConnections()
			s.Close()
		})
		return s
	}
	f.main, f.far, f.tls = start("127.0.0.1:0", false), start("127.0.3.1:0", false), start("127.0.3.2:0", true)
	return f
}

// inbox adds a receiver. Some of the bad ones share a host with the good ones.
func (f *farm) inbox(m manner, secret, canary string) *inbox {
	n := f.next.Add(1)
	server := f.main
	switch {
	case m == badTLS:
		server = f.tls
	case m == redirector, m == resetter, !m.acceptsAll() && n%2 == 0:
		server = f.far
	}
	path := fmt.Sprintf("/%s/%d", m, n)
	b := &inbox{manner: m, url: server.URL + path, secret: secret, canary: canary, seen: map[int64]struct{}{}}
	f.inboxes.Store(path, b)
	return b
}

// ServeHTTP accepts a delivery.
func (f *farm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/trap" {
		f.trapped.Add(1)
		return
	}
	found, ok := f.inboxes.Load(r.URL.Path)
	if !ok {
		f.strays.Add(1)
		http.NotFound(w, r)
		return
	}
	b, _ := found.(*inbox)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender has closed the connection
	}
	if b.mustRefuse() {
		http.Error(w, "not now", http.StatusInternalServerError)
		return
	}
	b.record(r.Header, body)
	f.answer(b, w, r)
}

func (f *farm) answer(b *inbox, w http.ResponseWriter, r *http.Request) {
	switch b.manner {
	case honest, flaky, badTLS:
	case big:
		piece := make([]byte, 64<<10)
		for range 64 << 20 / len(piece) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	case hanging:
		<-r.Context().Done()
	case redirector:
		http.Redirect(w, r, f.main.URL+"/trap", http.StatusFound)
	case refuser:
		http.Error(w, "never", http.StatusInternalServerError)
	case slowloris, resetter:
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		if b.manner == resetter {
			_ = conn.(*net.TCPConn).SetLinger(0)
			return
		}
		for _, c := range []byte("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + strings.Repeat(".", 100)) {
			if _, err := conn.Write([]byte{c}); err != nil {
				return
			}
			<-time.After(500 * time.Millisecond)
		}
	}
}
