package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// turn is the behaviour of a scripted platform for one request.
type turn struct {
	method string
	// writes are sent one after the other; with TLS each is a separate record. Bytes beyond the response are
	// unsolicited.
	writes []string
	// held is how many of the last bytes on the wire are held back until the next request arrives, if they are in
	// writes after the one that completes the response.
	held int
	// end is the offset at which the response ends in the writes, or -1 if it ends with the connection.
	end int
	// early sends everything before the request's body is read.
	early bool
	// ends closes the connection after the writes.
	ends bool
}

// parseScript parses turns from a text. \x00 separates turns and \x01 the writes of a turn. The first byte of a turn
// encodes its other fields.
func parseScript(scriptedPlatform string) (turns []turn) {
	for i, text := range strings.Split(scriptedPlatform, "\x00") {
		if i == 4 || text == "" {
			break
		}
		how := text[0] - '0'
		turns = append(turns, turn{
			method: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodGet}[how&3],
			writes: strings.Split(text[1:], "\x01"),
			held:   []int{0, 4, 16, 64}[how>>2&3],
			early:  how&16 != 0,
			ends:   how&32 != 0,
		})
	}
	return turns
}

// reuseFixture is shared by all runs of the fuzz test.
type reuseFixture struct {
	authority *authority
	server    *tls.Config
}

// play serves one connection. The path of a request is the index of its turn.
func (f *reuseFixture) play(raw net.Conn, secure bool, turns []turn, done chan<- struct{}) {
	defer raw.Close()
	held := &holdingConn{Conn: raw}
	var conn net.Conn = held
	if secure {
		conn = tls.Server(held, f.server)
	}
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		n, err := strconv.Atoi(strings.TrimPrefix(req.URL.Path, "/"))
		if err != nil || n >= len(turns) {
			return
		}
		this := turns[n]
		if !this.early {
			_, _ = io.Copy(io.Discard, req.Body)
		}
		held.release(0)
		held.hold = true
		written, keep := 0, 0
		for _, text := range this.writes {
			before := len(held.text)
			_, _ = io.WriteString(conn, text)
			if written >= this.end {
				keep += len(held.text) - before
			}
			written += len(text)
		}
		// At least one byte must arrive before the next request: data that arrives after it looks like its response.
		if keep = max(0, min(keep-1, this.held)); this.ends {
			keep = 0
		}
		held.release(keep)
		if this.early {
			_, _ = io.Copy(io.Discard, req.Body)
		}
		if this.ends {
			_ = raw.Close()
		}
		select {
		case done <- struct{}{}: // everything is written
		default:
		}
	}
}

// socketPair returns two ends of a connection that needs no port.
func socketPair() (near, far net.Conn, err error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ends := [2]net.Conn{}
	for i, fd := range pair {
		file := os.NewFile(uintptr(fd), "pair")
		ends[i], err = net.FileConn(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, nil, err
		}
	}
	return ends[0], ends[1], nil
}

// seenAnswer is a response as a caller sees it.
type seenAnswer struct {
	status int
	body   string
	failed bool
}

// standard requests one turn with net/http on a separate connection. Its result is the right response to the request.
func (f *reuseFixture) standard(t *testing.T, turns []turn, n int) seenAnswer {
	t.Helper()
	this := turns[n]
	this.ends, this.early = true, false
	alone := make([]turn, n+1)
	alone[n] = this
	near, far, err := socketPair()
	must.OK(t, err)
	var playing sync.WaitGroup
	playing.Go(func() { f.play(far, false, alone, nil) })
	defer playing.Wait()
	transport := &http.Transport{
		DisableCompression: true, DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil },
	}
	defer near.Close()
	req, err := http.NewRequestWithContext(t.Context(), this.method, fmt.Sprintf("http://plain.test/%d", n), bodyOf(this.method))
	must.OK(t, err)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return seenAnswer{failed: true}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return seenAnswer{resp.StatusCode, string(body), err != nil}
}

// answerEnd returns the offset at which the response of a turn ends in its writes, or -1 if it ends with the
// connection.
func answerEnd(this turn, want seenAnswer) int {
	text := strings.NewReader(strings.Join(this.writes, ""))
	in := bufio.NewReader(text)
	for !want.failed {
		resp, err := http.ReadResponse(in, &http.Request{Method: this.method})
		if err != nil {
			break
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			break
		}
		if resp.StatusCode < http.StatusOK {
			continue
		}
		if this.method != http.MethodHead && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 {
			break
		}
		return int(text.Size()) - text.Len() - in.Buffered()
	}
	return -1
}

func bodyOf(method string) io.Reader {
	if method == http.MethodPost {
		return bytes.NewReader([]byte("body"))
	}
	return http.NoBody
}

// Call never returns a response that the standard transport would not return for the same request on its own
// connection: whatever a platform sends beyond a response, in whatever pieces, does not become the response of the
// next call. Two accounts alternate and share the connection.
func FuzzCallGivesTheAnswersOfTheStandardTransport(f *testing.F) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	for _, scriptedPlatform := range []string{
		"0" + ok + "\x000" + nextAnswer,
		"0" + ok + "\x01" + evilAnswer + "\x000" + nextAnswer,
		"0" + ok + evilAnswer + "\x002" + nextAnswer,
		"4" + ok + "\x01" + evilAnswer + "\x000" + nextAnswer + "\x000" + nextAnswer,
		"8" + ok + "\x01" + evilAnswer + "\x000" + nextAnswer,
		"<" + ok + "\x01" + evilAnswer + "\x002" + nextAnswer,
		"0HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n\x01" + evilAnswer + "\x000" + nextAnswer,
		"0HTTP/1.1 204 No Content\r\n\r\n\x01" + evilAnswer + "\x000" + nextAnswer,
		"0HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\nabc\x000" + nextAnswer,
		"1HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc\x000" + nextAnswer,
		"0HTTP/1.1 103 Early Hints\r\n\r\n" + ok + "\x01HTTP/1.1 100 Continue\r\n\r\n\x000" + nextAnswer,
		"R" + ok + "\x01" + evilAnswer + "\x000" + nextAnswer,
		"B" + ok + evilAnswer + "\x002" + nextAnswer,
		"0HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello\x000" + nextAnswer,
		"0HTTP/1.1 200 OK\r\n\r\nto the end\x000" + nextAnswer,
		"0HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n" + evilAnswer + "\x000" + nextAnswer,
	} {
		f.Add(scriptedPlatform, true)
		f.Add(scriptedPlatform, false)
	}
	authority := newAuthority(f)
	fixture := &reuseFixture{authority, &tls.Config{Certificates: []tls.Certificate{authority.issue(f, time.Hour, "platform.test")}}}
	regions, err := egress.ParseRegions(secret.New("us=http://proxy:1"))
	must.OK(f, err)
	f.Fuzz(func(t *testing.T, scriptedPlatform string, secure bool) {
		turns := parseScript(scriptedPlatform)
		wants := make([]seenAnswer, len(turns))
		for n := range turns {
			wants[n] = fixture.standard(t, turns, n)
			if turns[n].end = answerEnd(turns[n], wants[n]); turns[n].end < 0 {
				turns[n].ends = true // otherwise the response would never end
			}
		}
		origin := map[bool]string{true: "https://platform.test", false: "http://plain.test"}[secure]
		origins, err := egress.ParseOrigins(origin)
		must.OK(t, err)
		out := egress.New(egress.Deps{
			Config: egress.Config{Regions: regions, Roots: fixture.authority.roots}, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		})
		said := make(chan struct{}, 64)
		var playing sync.WaitGroup
		defer playing.Wait()
		defer out.Close()
		out.Reach(func(context.Context, string) (net.Conn, error) {
			near, far, err := socketPair()
			if err != nil {
				return nil, err
			}
			playing.Go(func() {
				if _, err := http.ReadRequest(bufio.NewReader(far)); err != nil {
					_ = far.Close()
					return
				}
				_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\n\r\n")
				fixture.play(far, secure, turns, said)
			})
			return near, nil
		})
		for n, want := range wants {
			client := out.Client(egress.Identity{Region: "us", Account: fmt.Sprintf("acct_%d", n%2), Isolation: egress.ByProxy}, origins)
			q := egress.Request{Method: turns[n].method, Origin: origin, Path: fmt.Sprintf("/%d", n)}
			if q.Method == http.MethodPost {
				q.Body = []byte("body")
			}
			r, err := client.Call(t.Context(), &q, egress.Limits{Header: 10 * time.Second, Idle: 10 * time.Second, Bytes: egress.None, Raw: true})
			if got := (seenAnswer{r.Status, string(r.Body), err != nil}); err == nil && got != want {
				t.Errorf("%s %d: %d %q, want %+v", q.Method, n, got.status, got.body, want)
			}
			if errors.Is(err, egress.ErrNoAnswer) || errors.Is(err, egress.ErrStalled) {
				t.Errorf("%s %d waits for more than its response, which is %+v: %v", q.Method, n, want, err)
			}
			r.Release()
			if err == nil {
				select {
				case <-said: // everything has arrived
				case <-time.After(time.Minute):
					t.Fatalf("the platform is stuck with the response to %s %d", q.Method, n)
				}
			}
			for len(said) > 0 {
				<-said
			}
		}
	})
}
