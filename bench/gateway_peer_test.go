package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
)

// canned holds the platform's responses, recorded from the sandbox.
type canned struct {
	// Me holds the owners of the sessions, by the cookie auth_id.
	Me map[string]json.RawMessage
	// Small and Large are pages of messages, of about 1 KB and 64 KB; One is a message.
	Small, Large, One json.RawMessage
	// Frames is the page of live events that a connect reads.
	Frames json.RawMessage
}

// readCanned reads the responses that record wrote.
func readCanned(t *testing.T) (c canned) {
	t.Helper()
	text, err := os.ReadFile(os.Getenv("BENCH_CANNED"))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	must.OK(t, err)
	return c
}

// servePlatform serves the sandbox's recorded responses at minimal cost. It is also the proxy of every region: it
// accepts CONNECT and then answers the requests in the tunnel itself, after BENCH_LATENCY.
func servePlatform(address string, c canned) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	wrap := func(body []byte) []byte {
		return append(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: %s\r\nContent-Length: %d\r\n\r\n",
			time.Now().UTC().Format(http.TimeFormat), len(body)), body...)
	}
	me := map[string][]byte{}
	for id, body := range c.Me {
		me[id] = wrap(body)
	}
	latency := time.Duration(0)
	if text := os.Getenv("BENCH_LATENCY"); text != "" {
		if latency, err = time.ParseDuration(text); err != nil {
			return err
		}
	}
	small, large, one, frames := wrap(c.Small), wrap(c.Large), wrap(c.One), wrap(c.Frames)
	pick := func(head []byte) []byte {
		line, _, _ := bytes.Cut(head, []byte("\r\n"))
		switch {
		case bytes.HasPrefix(line, []byte("CONNECT ")):
			return []byte("HTTP/1.1 200 OK\r\n\r\n")
		case bytes.HasPrefix(line, []byte("POST ")):
			return one
		case bytes.Contains(line, []byte("/messages?")) && bytes.Contains(line, []byte("limit=100")):
			return large
		case bytes.Contains(line, []byte("/messages")):
			return small
		case bytes.Contains(line, []byte("/live/frames")):
			return frames
		}
		_, rest, _ := bytes.Cut(head, []byte("auth_id="))
		id, _, _ := bytes.Cut(rest, []byte(";"))
		id, _, _ = bytes.Cut(id, []byte("\r"))
		return me[string(id)]
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go answerAll(conn, latency, pick)
	}
}

// answerAll answers the requests on a connection one by one.
func answerAll(conn net.Conn, latency time.Duration, pick func(head []byte) []byte) {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 64<<10)
	for {
		head, length, err := readHead(in)
		if err != nil {
			return
		}
		answer := pick(head)
		if _, err := in.Discard(length); err != nil {
			return
		}
		if latency > 0 && !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 OK\r\n\r\n")) { // not of CONNECT
			time.Sleep(latency)
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// readHead reads the head of a request or response. The slice is valid until the next read.
func readHead(in *bufio.Reader) (head []byte, length int, err error) {
	for want := 1; ; want = in.Buffered() + 1 {
		if _, err := in.Peek(want); err != nil {
			return nil, 0, err
		}
		seen, err := in.Peek(in.Buffered())
		if err != nil {
			return nil, 0, err
		}
		end := bytes.Index(seen, []byte("\r\n\r\n"))
		if end < 0 {
			continue
		}
		head = seen[:end+4]
		if _, after, ok := bytes.Cut(head, []byte("Content-Length: ")); ok {
			for _, c := range after {
				if c < '0' || c > '9' {
					break
				}
				length = length*10 + int(c-'0')
			}
		}
		_, err = in.Discard(end + 4) // the peeked bytes stay valid until the next read
		return head, length, err
	}
}

// serveReverseProxy runs a minimal gateway: the standard library's reverse proxy, with the fastest settings.
func serveReverseProxy(address, upstream string) error {
	to, err := url.Parse(upstream)
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:  &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 1024, DisableCompression: true},
		BufferPool: &buffers{},
		ErrorLog:   log.Default(),
	}
	mux := http.NewServeMux()
	mux.Handle("/", proxy)
	mux.HandleFunc("GET /mallocs", writeMallocs)
	return http.ListenAndServe(address, mux)
}

type buffers struct{ pool sync.Pool }

func (p *buffers) Get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 32<<10)
}

func (p *buffers) Put(b []byte) { p.pool.Put(&b) }

// record records the platform's responses from the sandbox.
func record(b *testing.B, s *sandboxd) (file string, c canned) {
	b.Helper()
	get := func(who creator, path string) []byte {
		body, err := s.send(who, http.MethodGet, path, "")
		must.OK(b, err)
		return body
	}
	c.Me = map[string]json.RawMessage{}
	for _, who := range s.creators {
		c.Me[who.id] = get(who, "/me")
	}
	c.Frames = get(s.creators[0], "/live/frames?limit=500")
	page := get(s.creators[0], "/chats/"+s.creators[0].fan+"/messages")
	var members map[string]json.RawMessage
	var items []json.RawMessage
	must.OK(b, json.Unmarshal(page, &members))
	list := ""
	for name, value := range members {
		if json.Unmarshal(value, &items) == nil && len(items) > 0 {
			list = name
			break
		}
	}
	if list == "" {
		b.Fatalf("no messages in %s", page)
	}
	sized := func(bytes int) json.RawMessage {
		var some []json.RawMessage
		for n := 0; n < bytes; n += len(items[0]) + 1 {
			some = append(some, items[0])
		}
		text, err := json.Marshal(some)
		must.OK(b, err)
		members[list] = text
		text, err = json.Marshal(members)
		must.OK(b, err)
		return text
	}
	c.Small, c.Large, c.One = sized(1<<10), sized(64<<10), slices.Clone(items[0])
	file = filepath.Join(b.TempDir(), "platform.json")
	text, err := json.Marshal(c)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	must.OK(b, err)
	return file, c
}
