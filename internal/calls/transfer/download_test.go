package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/calls/transfer"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// A download returns the platform's file, whole or the requested range, through the account's region and without the
// session.
func TestDownloadReturnsTheFile(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{region: "uk"})
	medium := r.mediumID()
	want := r.fetchDirectly(medium, "full")
	n := len(want)
	whole := r.do("GET", "/media/"+medium, nil)
	tag := whole.header.Get("Etag")
	if whole.status != http.StatusOK || !bytes.Equal(whole.body, want) || tag == "" {
		t.Fatalf("%d, %d bytes of %d, tag %q", whole.status, len(whole.body), n, tag)
	}
	for name, value := range map[string]string{
		"Content-Type": "image/jpeg", "Content-Length": fmt.Sprint(n), "Accept-Ranges": "bytes", "Content-Disposition": "attachment",
	} {
		if got := whole.header.Get(name); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	for name, c := range map[string]struct {
		header []string
		status int
		body   []byte
		ranged string
	}{
		"first bytes":           {[]string{"Range", "bytes=0-9"}, 206, want[:10], fmt.Sprintf("bytes 0-9/%d", n)},
		"from a byte":           {[]string{"Range", "bytes=100-"}, 206, want[100:], fmt.Sprintf("bytes 100-%d/%d", n-1, n)},
		"last bytes":            {[]string{"Range", "bytes=-7"}, 206, want[n-7:], fmt.Sprintf("bytes %d-%d/%d", n-7, n-1, n)},
		"beyond its end":        {[]string{"Range", fmt.Sprintf("bytes=%d-", n)}, 416, nil, fmt.Sprintf("bytes */%d", n)},
		"if it is still that":   {[]string{"Range", "bytes=1-2", "If-Range", tag}, 206, want[1:3], fmt.Sprintf("bytes 1-2/%d", n)},
		"if it is another":      {[]string{"Range", "bytes=1-2", "If-Range", `"other"`}, 200, want, ""},
		"the same as before":    {[]string{"If-None-Match", tag}, 304, []byte{}, ""},
		"another than before":   {[]string{"If-None-Match", `"other"`}, 200, want, ""},
		"a range of other unit": {[]string{"Range", "lines=1-2"}, 416, nil, ""},
	} {
		got := r.do("GET", "/media/"+medium, nil, c.header...)
		if got.status != c.status || c.body != nil && !bytes.Equal(got.body, c.body) || got.header.Get("Content-Range") != c.ranged || got.cut != nil {
			t.Errorf("%s: %d, %d bytes, %q, %v", name, got.status, len(got.body), got.header.Get("Content-Range"), got.cut)
		}
	}
	two := r.do("GET", "/media/"+medium, nil, "Range", "bytes=0-1,4-5")
	if two.status != 206 || !strings.HasPrefix(two.header.Get("Content-Type"), "multipart/byteranges; boundary=") || !bytes.Contains(two.body, want[4:6]) {
		t.Errorf("two ranges: %d %s", two.status, two.header.Get("Content-Type"))
	}
	head := r.do("HEAD", "/media/"+medium, nil)
	if head.status != 200 || len(head.body) != 0 || head.header.Get("Content-Length") != fmt.Sprint(n) {
		t.Errorf("HEAD: %d %v", head.status, head.header)
	}
	if small := r.do("GET", "/media/"+medium+"?quality=thumb", nil); !bytes.Equal(small.body, r.fetchDirectly(medium, "thumb")) || len(small.body) >= n {
		t.Errorf("a thumb of %d bytes", len(small.body))
	}
	through := 0
	for _, s := range r.front.requests("/media/") {
		switch s.from {
		case "127.0.2.1":
			through++
			if s.header.Get("Cookie") != "" || s.header.Get("X-Device") != "" || !strings.Contains(s.header.Get("User-Agent"), "Mozilla") {
				t.Errorf("a file was requested with %v", s.header)
			}
		case "127.0.1.1":
			t.Error("a file came through another region")
		}
	}
	if through != 13 {
		t.Errorf("%d requests came through the region", through)
	}
	r.awaitIdle()
	if got := r.received.Load(); got < int64(3*n) {
		t.Errorf("%d bytes were counted", got)
	}
}

// The session is sent with file requests only if the manifest says so.
func TestSessionIsSentWithFilesIfTheManifestSaysSo(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{cookies: true})
	if got := r.do("GET", "/media/"+r.mediumID(), nil); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	for _, s := range r.front.requests("/media/") {
		if !strings.Contains(s.header.Get("Cookie"), "sess=") || s.header.Get("X-Device") == "" {
			t.Error("a file was requested without the session")
		}
	}
}

// A URL that the platform returned is fetched. Any other URL is rejected, and nothing is sent.
func TestOnlyURLsOfFilesAreFetched(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{})
	avatar := fmt.Sprint(r.callMethod("me.get", "{}")["avatarUrl"])
	got := r.do("GET", "/media?url="+url.QueryEscape(avatar), nil, "Range", "bytes=0-3")
	if got.status != 206 || string(got.body[:2]) != "\xff\xd8" {
		t.Errorf("%d %q", got.status, got.body)
	}
	before := len(r.front.requests("/"))
	host := strings.TrimPrefix(r.origin, "http://")
	for _, address := range []string{
		"", "x", "/media/1/full", "https://example.com/media/1/full", "https://" + host + "/media/1/full", "http://" + host + "1/media/1/full",
		"http://127.0.0.1/media/1/full", r.origin, r.origin + "/", r.origin + "/control/requests", r.origin + "/api/v2/me", r.origin + "/media", r.origin + "/mediax/1",
		r.origin + "/media/../control/requests", r.origin + "/media/%2e%2e/control/requests", r.origin + "/media/..%2fcontrol/requests",
		r.origin + "/media//../control/requests", r.origin + "/media/./1", r.origin + "//media/1/full", r.origin + `/media/..\control`, r.origin + "/media/%5c..%5ccontrol",
		"http://user@" + host + "/media/1/full", "http://" + host + "@evil.example/media/1", r.origin + "/media/1/full#x", r.origin + "/media/1 /full",
		"file:///media/1", "//" + host + "/media/1/full", "HTTP://" + host + ":1/media/1", "javascript:/media/1", r.origin + "/media/" + strings.Repeat("x", 9000),
	} {
		got := r.do("GET", "/media?url="+url.QueryEscape(address), nil)
		if got.status != http.StatusUnprocessableEntity || got.code() != problem.UnsafeURL.Code {
			t.Errorf("%.100s: %d %s", address, got.status, got.body)
		}
	}
	if after := len(r.front.requests("/")); after != before {
		t.Errorf("%d requests were sent for rejected URLs", after-before)
	}
}

// An error response instead of a file becomes a problem. A 401 of a file host says nothing about the session.
func TestRefusedFilesBecomeProblems(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{})
	medium := r.mediumID()
	for status, want := range map[int]problem.Kind{
		401: problem.UpstreamForbidden, 403: problem.UpstreamForbidden, 404: problem.UpstreamNotFound, 410: problem.UpstreamNotFound, 429: problem.UpstreamRateLimited,
		500: problem.UpstreamError, 503: problem.UpstreamUnavailable, 302: problem.UpstreamInvalidResponse, 204: problem.UpstreamInvalidResponse,
	} {
		r.front.handle("/media/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://169.254.169.254/")
			w.WriteHeader(status)
			if status != 204 {
				_, _ = io.WriteString(w, `{"error":{"code":77,"message":"No."}}`)
			}
		})
		got := r.do("GET", "/media/"+medium, nil)
		if got.status != want.Status || got.code() != want.Code {
			t.Errorf("%d: %d %s", status, got.status, got.body)
		}
		if status > 400 && got.json("upstreamCode") != 77.0 {
			t.Errorf("%d lacks the platform's code: %s", status, got.body)
		}
	}
	r.front.unhandle("/media/")
	for target, want := range map[string]string{
		"/media/999999999999": problem.UpstreamNotFound.Code, "/media/abc": problem.UpstreamNotFound.Code, "/media/" + medium + "?quality=best": problem.ValidationFailed.Code,
	} {
		if got := r.do("GET", target, nil); got.code() != want {
			t.Errorf("%s: %d %s", target, got.status, got.body)
		}
	}
	if got := r.do("GET", "/media/abc", nil); !strings.Contains(string(got.body), `"pointer":"path/mediaId"`) {
		t.Errorf("%s", got.body)
	}
	r.ready = problem.AccountPaused.New("paused")
	if got := r.do("GET", "/media/"+medium, nil); got.code() != problem.AccountPaused.Code {
		t.Errorf("a paused account: %d %s", got.status, got.body)
	}
	r.awaitIdle()
}

// endless serves an endless file. It closes ended when the request is cancelled.
func endless(started, ended chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "video/mp4")
		block := content(64 << 10)
		close(started)
		for req.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				break
			}
		}
		close(ended)
	}
}

// If the caller goes away, the request to the platform is cancelled.
func TestDownloadEndsWhenTheCallerGoesAway(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{})
	started, ended := make(chan struct{}), make(chan struct{})
	r.front.handle("/media/", endless(started, ended))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.URL+"/media/"+r.mediumID(), nil)
	must.OK(t, err)
	resp, err := r.server.Client().Do(req)
	must.OK(t, err)
	defer resp.Body.Close()
	if _, err := io.CopyN(io.Discard, resp.Body, 1<<20); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-ended
	r.awaitIdle()
}

// A caller that does not read is cut off after Patience, which frees its place and the platform.
func TestCallerThatStopsReadingIsCutOff(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{config: transfer.Config{Patience: 200 * time.Millisecond}})
	started, ended := make(chan struct{}), make(chan struct{})
	r.front.handle("/media/", endless(started, ended))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.server.URL+"/media/"+r.mediumID(), nil)
	must.OK(t, err)
	resp, err := r.server.Client().Do(req)
	must.OK(t, err)
	defer resp.Body.Close()
	<-started
	<-ended
	r.awaitIdle()
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("a truncated file looks complete")
	}
}

// A file that the platform truncates does not look complete to the caller.
func TestTruncatedFileIsNotPassedOnAsComplete(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{})
	medium := r.mediumID()
	for name, length := range map[string]string{"of known length": "100000", "in chunks": ""} {
		r.front.handle("/media/", func(w http.ResponseWriter, _ *http.Request) {
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			_, _ = w.Write(content(40 << 10))
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
			panic(http.ErrAbortHandler)
		})
		got := r.do("GET", "/media/"+medium, nil)
		if got.status != 200 || got.cut == nil {
			t.Errorf("%s: %d, %d bytes, %v", name, got.status, len(got.body), got.cut)
		}
	}
	r.awaitIdle()
}

// A transfer may take longer than the server's timeouts, in both directions, as long as it progresses.
func TestTransferOutlivesTheServersTimeouts(t *testing.T) {
	t.Parallel()
	const limit, pieces = 1500 * time.Millisecond, 8
	r := newFixture(t, setup{timeout: limit})
	piece := content(20 << 10)
	r.front.handle("/media/", func(w http.ResponseWriter, req *http.Request) {
		tick := time.NewTicker(limit / 3)
		defer tick.Stop()
		for range pieces {
			_, _ = w.Write(piece)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-tick.C:
			case <-req.Context().Done():
				return
			}
		}
	})
	if got := r.do("GET", "/media/"+r.mediumID(), nil); got.status != 200 || len(got.body) != pieces*len(piece) || got.cut != nil {
		t.Errorf("down: %d, %d bytes, %v", got.status, len(got.body), got.cut)
	}
	r.front.handle("/api/v2/vault/", func(w http.ResponseWriter, req *http.Request) {
		select {
		case <-time.After(2 * limit):
			w.WriteHeader(http.StatusServiceUnavailable)
		case <-req.Context().Done():
		}
	})
	if got := r.do("GET", "/media/1", nil); got.code() != problem.UpstreamUnavailable.Code {
		t.Errorf("refused after a while: %d %s", got.status, got.body)
	}
	slow, write := io.Pipe()
	go func() {
		tick := time.NewTicker(limit / 3)
		defer tick.Stop()
		for range pieces {
			_, _ = write.Write(piece)
			<-tick.C
		}
		_ = write.Close()
	}()
	got := r.do("POST", "/media?fileName=film.mp4", slow, "Content-Type", "video/mp4", "Content-Length", fmt.Sprint(pieces*len(piece)))
	if got.status != http.StatusCreated {
		t.Errorf("up: %d %s", got.status, got.body)
	}
}

// The concurrent transfers of an account and of the node are bounded, and a refused transfer makes no call.
func TestConcurrentTransfersAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config transfer.Config
		status int
		code   string
		reason any
	}{
		"account": {transfer.Config{PerAccount: 2}, 429, problem.QuotaExceeded.Code, "account_transfers"},
		"node":    {transfer.Config{PerNode: 2}, 503, problem.ServiceUnavailable.Code, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, setup{config: c.config})
			medium := r.mediumID()
			hold, arrived := make(chan struct{}), make(chan struct{}, 4)
			r.front.handle("/media/", func(w http.ResponseWriter, _ *http.Request) {
				arrived <- struct{}{}
				<-hold
				_, _ = io.WriteString(w, "done")
			})
			answers := make(chan reply, 2)
			for range 2 {
				go func() { answers <- r.do("GET", "/media/"+medium, nil) }()
				<-arrived
			}
			calls := len(r.calls())
			third := r.do("GET", "/media/"+medium, nil)
			if third.status != c.status || third.code() != c.code || third.json("reason") != c.reason || third.json("retryable") != true {
				t.Errorf("%d %s", third.status, third.body)
			}
			if len(r.calls()) != calls {
				t.Error("a refused transfer made a call")
			}
			close(hold)
			for range 2 {
				if got := <-answers; got.status != 200 || string(got.body) != "done" {
					t.Errorf("%d %s", got.status, got.body)
				}
			}
			r.awaitIdle()
			if got := r.do("GET", "/media/"+medium, nil); got.status != 200 {
				t.Errorf("a place was not freed: %d %s", got.status, got.body)
			}
		})
	}
}

// A key must be allowed to call the methods that a transfer uses.
func TestKeyMustBeAllowedToCallTheMethods(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{})
	avatar := fmt.Sprint(r.callMethod("me.get", "{}")["avatarUrl"])
	medium := r.mediumID()
	before := len(r.front.requests("/"))
	for _, c := range []struct{ denied, method, target string }{
		{"vault.getDownloadUrl", "GET", "/media/" + medium},
		{"vault.getDownloadUrl", "GET", "/media?url=" + url.QueryEscape(avatar)},
		{"uploads.init", "POST", "/media?fileName=x"},
		{"uploads.getPartUrl", "POST", "/media?fileName=x"},
		{"uploads.complete", "POST", "/media?fileName=x"},
		{"uploads.getPartUrl", "PUT", "/media/uploads/1/parts/1"},
	} {
		r.may = func(m *catalog.Method) bool { return m.ID() != c.denied }
		got := r.do(c.method, c.target, strings.NewReader("x"), "Content-Type", "image/png")
		if got.status != http.StatusForbidden || got.code() != problem.MethodNotAllowedForKey.Code || got.json("method") != c.denied {
			t.Errorf("%s %s without %s: %d %s", c.method, c.target, c.denied, got.status, got.body)
		}
	}
	if after := len(r.front.requests("/")); after != before {
		t.Errorf("%d requests were sent", after-before)
	}
}

// Failures of the connection, of egress and of the configuration become problems.
func TestTransportFailuresAreProblems(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{})
	medium := r.mediumID()
	r.front.handle("/media/", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if got := r.do("GET", "/media/"+medium, nil); got.code() != problem.UpstreamUnavailable.Code || got.json("retryable") != true {
		t.Errorf("a broken connection: %d %s", got.status, got.body)
	}
	r.account.Region = "fr"
	if err := r.Fetch(&recorder{ResponseWriter: nowhere{}}, request(t, "/"), transfer.Caller{Account: r.account.ID, May: r.may}, r.origin+"/media/1/full"); !errors.Is(err, problem.EgressUnavailable.New("")) {
		t.Errorf("a region without egress: %v", err)
	}
	r.account.Place.Platform = "other"
	if err := r.Fetch(&recorder{ResponseWriter: nowhere{}}, request(t, "/"), transfer.Caller{Account: r.account.ID, May: r.may}, r.origin+"/media/1/full"); !errors.Is(err, problem.UpstreamNotFound.New("")) {
		t.Errorf("a platform without files: %v", err)
	}
}

type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}

func request(t *testing.T, target string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	must.OK(t, err)
	return req
}
