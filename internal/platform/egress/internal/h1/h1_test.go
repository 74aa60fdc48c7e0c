package h1_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stagedoor/stagedoor/internal/platform/egress/internal/h1"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

var answers = []string{
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nhello",
	"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nTrail: er\r\n\r\n",
	"HTTP/1.0 200 OK\r\nConnection: keep-alive, foo\r\nContent-Length: 2\r\nKeep-Alive: timeout=5\r\n\r\nok",
	"HTTP/1.1 200 OK\n\nuntil the end",
	"HTTP/1.1 204 No Content\r\nContent-Length: 10\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	"HTTP/1.1 101 Switching\r\n\r\n", "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 200OK\r\n\r\n", "ICY 200 OK\r\n\r\n", "",
}

// read reads one response as the client does.
func read(a *h1.Answer, text, method string, slowly bool) (body []byte, err error) {
	var from io.Reader = strings.NewReader(text)
	if slowly {
		from = iotest.OneByteReader(from)
	}
	if err := a.ReadHeader(from, method); err != nil {
		return nil, err
	}
	return a.ReadBody(from, nil, 1<<20)
}

// A response that we accept is also accepted by the standard library, with the same body and the same end. It makes no
// difference in which pieces the bytes arrive. The library accepts more.
func FuzzAnswersAreReadAsTheStandardLibraryDoes(f *testing.F) {
	for _, text := range answers {
		f.Add(text, true)
		f.Add(text, false)
	}
	var again h1.Answer
	f.Fuzz(func(t *testing.T, text string, get bool) {
		method := map[bool]string{true: http.MethodGet, false: http.MethodHead}[get]
		var fresh h1.Answer
		body, err := read(&fresh, text, method, false)
		slow, failed := read(&again, text, method, true)
		if (err == nil) != (failed == nil) || !bytes.Equal(body, slow) {
			t.Fatalf("%q %v, byte by byte %q %v", body, err, slow, failed)
		}
		if err != nil {
			return
		}
		in := bufio.NewReader(strings.NewReader(text))
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		for err == nil && resp.StatusCode/100 == 1 {
			resp, err = http.ReadResponse(in, &http.Request{Method: method})
		}
		if err != nil {
			t.Fatalf("the standard library rejects it: %v", err)
		}
		defer resp.Body.Close()
		want, err := io.ReadAll(resp.Body)
		if err != nil || fresh.Status != resp.StatusCode || !bytes.Equal(body, want) {
			t.Errorf("%d %q, want %d %q %v", fresh.Status, body, resp.StatusCode, want, err)
		}
		if more := in.Buffered() > 0; !fresh.Last && (more || resp.Close) {
			t.Errorf("the connection would be reused: more bytes %v, close %v", more, resp.Close)
		}
		for name, values := range resp.Header {
			if got := fresh.Header()[name]; name != "Content-Length" && strings.Join(got, "\n") != strings.Join(values, "\n") {
				t.Errorf("%s: %q, want %q", name, got, values)
			}
		}
	})
}

// The standard library parses an encoded request back to its parts.
func FuzzRequestsAreWhatWasMeant(f *testing.F) {
	f.Add("POST", "/a%20b", "x=1", "X-A", "v", "sess", "1", []byte("body"))
	f.Add("GET", "/", "", "Accept", "a\tb", "a", `"q"`, []byte{})
	f.Add("GET", "/ HTTP/1.1\r\nX: y", "", "A\r\nB", "c\nD: e", "a;b", "c\r\n", []byte("x"))
	f.Fuzz(func(t *testing.T, method, path, query, name, value, cookie, content string, body []byte) {
		q := h1.Request{
			Method: method, Host: "platform.test", Path: path, Query: query, Body: body,
			Header: []h1.Field{{Name: name, Value: value}}, Cookies: []h1.Field{{Name: cookie, Value: content}},
		}
		text, err := h1.AppendRequest(nil, &q)
		if err != nil {
			if !errors.Is(err, h1.ErrRequest) {
				t.Error(err)
			}
			return
		}
		in := bufio.NewReader(bytes.NewReader(text))
		req, err := http.ReadRequest(in)
		if err != nil {
			return // an invalid escape in the path, which the platform rejects
		}
		got, err := io.ReadAll(req.Body)
		if err != nil || !bytes.Equal(got, body) || in.Buffered() > 0 {
			t.Errorf("%q %v, want %q; %d more", got, err, body, in.Buffered())
		}
		uri := path
		if query != "" {
			uri += "?" + query
		}
		if req.Method != method || req.RequestURI != uri || req.Host != "platform.test" || len(req.Header) > 3 {
			t.Errorf("%s %s %s %v", req.Method, req.RequestURI, req.Host, req.Header)
		}
		if !strings.EqualFold(name, "Cookie") && req.Header.Get("Cookie") != cookie+"="+strings.TrimRight(content, " \t") {
			t.Errorf("%q", req.Header.Get("Cookie"))
		}
	})
}

// A body is bounded in size and in its compression ratio, and announcing a long body allocates no memory.
func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(make([]byte, 4<<20))
	_ = z.Close()
	for name, c := range map[string]struct {
		text  string
		zip   bool
		limit int64
		want  error
	}{
		"said to be too large": {"Content-Length: 11\r\n\r\n", false, 10, h1.ErrTooLarge},
		"too many chunks":      {"Transfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n", false, 10, h1.ErrTooLarge},
		"a bomb":               {"\r\n" + zipped.String(), true, -1, h1.ErrBomb},
		"only promised":        {"Content-Length: 1000000000\r\n\r\nabc", false, -1, io.ErrUnexpectedEOF},
		"no end of chunks":     {"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", false, -1, io.ErrUnexpectedEOF},
		"a trailer's length":   {"Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("A: b\r\n", 20<<10) + "\r\n", false, -1, h1.ErrSyntax},
	} {
		var a h1.Answer
		from := strings.NewReader("HTTP/1.1 200 OK\r\n" + c.text)
		must.OK(t, a.ReadHeader(from, http.MethodGet))
		var inflater h1.Inflater
		if c.zip {
			inflater = new(gzip.Reader)
		}
		if _, err := a.ReadBody(from, inflater, c.limit); !errors.Is(err, c.want) || !a.Last {
			t.Errorf("%s: %v, the connection ends: %v", name, err, a.Last)
		}
	}
	promised := testing.Benchmark(func(b *testing.B) {
		b.Helper()
		b.ReportAllocs()
		for b.Loop() {
			var a h1.Answer
			from := strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\nabc")
			_ = a.ReadHeader(from, http.MethodGet)
			_, _ = a.ReadBody(from, nil, -1)
		}
	})
	if promised.AllocedBytesPerOp() > 16<<10 {
		t.Errorf("%d bytes allocated for an announced body", promised.AllocedBytesPerOp())
	}
}

// Encoding requests and parsing responses with reused buffers does not allocate.
func TestNothingIsAllocated(t *testing.T) { //nolint:paralleltest // it counts allocations
	var a h1.Answer
	var out []byte
	q := h1.Request{Method: "POST", Host: "platform.test", Path: "/a", Header: []h1.Field{{Name: "A", Value: "b"}}, Cookies: []h1.Field{{Name: "a", Value: "b"}}, Body: make([]byte, 100)}
	text := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: x\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024)
	from := strings.NewReader(text)
	if n := testing.AllocsPerRun(100, func() {
		from.Reset(text)
		var err error
		out, err = h1.AppendRequest(out[:0], &q)
		must.OK(t, err)
		must.OK(t, a.ReadHeader(from, "GET"))
		if body, err := a.ReadBody(from, nil, -1); err != nil || len(body) != 1024 {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
