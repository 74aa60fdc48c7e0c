package transfer_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/calls/transfer"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

const partSize = 5 << 20 // of the sandbox

// wantStored waits until the platform has processed an upload and compares its file with what was sent.
func (r *fixture) wantStored(got reply, want []byte) {
	r.t.Helper()
	if got.status != http.StatusCreated {
		r.t.Fatalf("%d %s", got.status, got.body)
	}
	upload := fmt.Sprint(got.json("id"))
	testenv.Await(r.t, "the platform has the file", func() bool {
		return r.callMethod("uploads.get", fmt.Sprintf(`{"uploadId":%q}`, upload))["state"] == "ready"
	})
	back := r.do("GET", fmt.Sprintf("/media/%v?quality=source", got.json("mediaId")), nil)
	if back.status != http.StatusOK || !bytes.Equal(back.body, want) {
		r.t.Errorf("%d, got %d bytes of %d", back.status, len(back.body), len(want))
	}
}

// A file arrives as it was sent, in parts of the platform's size, through the account's region and without the session.
func TestUploadArrives(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{region: "uk"})
	for _, size := range []int{1, 1000, partSize, 2*partSize + 7} {
		file := content(size)
		sum := sha256.Sum256(file)
		before := len(r.front.requests("/upload/"))
		r.sent.Store(0)
		got := r.do("POST", "/media?fileName=film.mp4&sha256="+hex.EncodeToString(sum[:]), reader(file), "Content-Type", "video/mp4; codecs=x")
		r.wantStored(got, file)
		parts := r.front.requests("/upload/")[before:]
		for i, p := range parts {
			want := min(partSize, size-i*partSize)
			if p.from != "127.0.2.1" || p.length != int64(want) || p.header.Get("Cookie") != "" || p.header.Get("Content-Type") != "application/octet-stream" {
				t.Errorf("part %d of %d bytes: %+v", i+1, size, p)
			}
		}
		if len(parts) != (size+partSize-1)/partSize || r.sent.Load() != int64(size) {
			t.Errorf("%d bytes were sent in %d parts, %d were counted", size, len(parts), r.sent.Load())
		}
	}
	r.awaitIdle()
}

// form builds a form with args and then the file in a field.
func form(args, field string, file []byte, header ...string) (body *bytes.Buffer, media string) {
	body = &bytes.Buffer{}
	w := multipart.NewWriter(body)
	if args != "" {
		_ = w.WriteField("args", args)
	}
	if field != "" {
		h := textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf(`form-data; name=%q; filename="from-form.mp4"`, field)}}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		part, _ := w.CreatePart(h)
		_, _ = part.Write(file)
	}
	_ = w.Close()
	return body, w.FormDataContentType()
}

// A form is accepted too. It need not have a Content-Length, because args give the size of the file.
func TestFormIsAccepted(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{})
	file := content(partSize + 100)
	body, media := form(fmt.Sprintf(`{"size":%d}`, len(file)), "file", file, "Content-Type", "video/mp4")
	r.wantStored(r.do("POST", "/media", io.MultiReader(body), "Content-Type", media), file) // in chunks
	body, media = form(fmt.Sprintf(`{"fileName":"a.mp4","size":%d,"mimeType":"video/mp4"}`, len(file)), "file", file)
	r.wantStored(r.do("POST", "/media", body, "Content-Type", media), file)
	names := fmt.Sprint(r.callMethod("vault.list", `{"query":"from-form.mp4"}`)["items"])
	if !strings.Contains(names, "id") {
		t.Errorf("the form's name was lost: %s", names)
	}
}

// The field file may come alone or before args. Values missing in args are taken from the field and from the bytes.
func TestFormAcceptsTheFileInAnyOrder(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{})
	file := content(2*partSize + 100)
	for name, build := range map[string]func() (io.Reader, string){
		"file alone":             formOf("", "file", file, "Content-Type", "video/mp4"),
		"args without a size":    formOf(`{}`, "file", file, "Content-Type", "video/mp4"),
		"file before args":       reversed(fmt.Sprintf(`{"fileName":"b.mp4","size":%d,"mimeType":"video/mp4"}`, len(file)), file),
		"file before few args":   reversed(`{"mimeType":"video/mp4"}`, file),
		"file before empty args": reversed(`{"fileName":"c.mp4","mimeType":"video/mp4"}`, file),
	} {
		body, media := build()
		t.Log(name)
		r.wantStored(r.do("POST", "/media", io.MultiReader(body), "Content-Type", media), file) // in chunks: the form has no length
		body, media = build()
		r.wantStored(r.do("POST", "/media", body, "Content-Type", media), file)
	}
	for _, want := range []string{"from-form.mp4", "b.mp4", "c.mp4"} {
		if names := fmt.Sprint(r.callMethod("vault.list", `{"query":"`+want+`"}`)["items"]); !strings.Contains(names, "id") {
			t.Errorf("no medium is named %s: %s", want, names)
		}
	}
}

// Files of unknown size share bounded disk space, which is freed when their upload has ended.
func TestFilesOfUnknownSizeShareABoundedSpool(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{config: transfer.Config{SpoolBytes: 5000}})
	for _, size := range []int{5000, 5001, 4000, 4001} {
		body, media := form("", "file", content(size), "Content-Type", "video/mp4")
		got := r.do("POST", "/media", body, "Content-Type", media)
		want := map[bool]int{true: 201, false: 503}[size <= 5000]
		if got.status != want || want == 503 && (got.code() != "service-unavailable" || got.json("retryable") != true) {
			t.Errorf("%d bytes: %d %s", size, got.status, got.body)
		}
	}
	body, media := form(`{"size":6000}`, "file", content(6000), "Content-Type", "video/mp4")
	if got := r.do("POST", "/media", body, "Content-Type", media); got.status != 201 {
		t.Errorf("a known size needs no disk space: %d %s", got.status, got.body)
	}
}

// reversed builds a form with the file before args.
func reversed(args string, file []byte) func() (io.Reader, string) {
	return func() (io.Reader, string) {
		body := &bytes.Buffer{}
		w := multipart.NewWriter(body)
		part, _ := w.CreateFormFile("file", "from-form.mp4")
		_, _ = part.Write(file)
		_ = w.WriteField("args", args)
		_ = w.Close()
		return body, w.FormDataContentType()
	}
}

// twice builds a form that has a field twice.
func twice(field string) func() (io.Reader, string) {
	return func() (io.Reader, string) {
		body := &bytes.Buffer{}
		w := multipart.NewWriter(body)
		for range 2 {
			_ = w.WriteField(field, `{}`)
		}
		_ = w.Close()
		return body, w.FormDataContentType()
	}
}

// Errors in a request are reported before any call to the platform, errors in the file itself before the upload is
// finished.
func TestInvalidUploadsAreRejected(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{})
	r.maxBytes = 1000
	valid := `{"fileName":"a.mp4","size":10,"mimeType":"video/mp4"}`
	ten := content(10)
	for name, c := range map[string]struct {
		target      string
		body        func() (io.Reader, string)
		status      int
		code, field string
		begun       bool
	}{
		"no type":         {"?fileName=x", raw(ten, ""), 415, "unsupported-media-type", "", false},
		"curl's type":     {"?fileName=x", raw(ten, "application/x-www-form-urlencoded"), 415, "unsupported-media-type", "", false},
		"no boundary":     {"", raw(ten, "multipart/form-data"), 415, "unsupported-media-type", "", false},
		"no name":         {"", raw(ten, "video/mp4"), 422, "validation-failed", "query/fileName", false},
		"empty":           {"?fileName=x", raw(nil, "video/mp4"), 422, "validation-failed", "header/Content-Length", false},
		"in chunks":       {"?fileName=x", func() (io.Reader, string) { return io.MultiReader(bytes.NewReader(ten)), "video/mp4" }, 422, "validation-failed", "header/Content-Length", false},
		"too large":       {"?fileName=x", raw(content(1001), "video/mp4"), 413, "payload-too-large", "", false},
		"no args":         {"", formOf("", "file", ten), 422, "validation-failed", "/args/mimeType", false},
		"args no JSON":    {"", formOf("{", "file", ten), 422, "validation-failed", "/args", false},
		"unknown arg":     {"", formOf(`{"size":10,"colour":1}`, "file", ten), 422, "validation-failed", "/args", false},
		"no size, large":  {"", formOf(`{"fileName":"a"}`, "file", content(1001)), 413, "payload-too-large", "", false},
		"negative size":   {"", formOf(`{"size":-1}`, "file", ten), 422, "validation-failed", "/args/size", false},
		"an empty file":   {"", formOf("", "file", nil, "Content-Type", "video/mp4"), 422, "validation-failed", "/file", false},
		"nothing":         {"", formOf("", "", nil), 400, "invalid-request", "", false},
		"file, bad args":  {"", reversed(`{"size":11}`, ten), 422, "validation-failed", "/args/size", false},
		"args no object":  {"", reversed(`[]`, ten), 422, "validation-failed", "/args", false},
		"file, much args": {"", reversed(`{"fileName":"`+strings.Repeat("x", 20<<10)+`"}`, ten), 422, "validation-failed", "/args", false},
		"two files":       {"", twice("file"), 422, "validation-failed", "/file", false},
		"two args":        {"", twice("args"), 422, "validation-failed", "/file", false},
		"a size of none":  {"", formOf(`{"size":0}`, "file", ten), 422, "validation-failed", "/args/size", false},
		"no file":         {"", formOf(valid, "", nil), 422, "validation-failed", "/file", false},
		"another field":   {"", formOf(valid, "picture", ten), 422, "validation-failed", "/file", false},
		"encoded":         {"", formOf(valid, "file", ten, "Content-Transfer-Encoding", "base64"), 422, "validation-failed", "/file", false},
		"no file type":    {"", formOf(`{"size":10}`, "file", ten), 422, "validation-failed", "/args/mimeType", false},
		"too large form":  {"", formOf(`{"size":1001,"mimeType":"a/b"}`, "file", ten), 413, "payload-too-large", "", false},
		"much args":       {"", formOf(`{"fileName":"`+strings.Repeat("x", 20<<10)+`"}`, "file", ten), 422, "validation-failed", "/args", false},
		"endless header":  {"", formOf(valid, "file", ten, "X-Long", strings.Repeat("x", 200<<10)), 400, "invalid-request", "", false},
		"no form":         {"", raw(ten, "multipart/form-data; boundary=abc"), 400, "invalid-request", "", false},
		"too short":       {"", formOf(valid, "file", content(9)), 422, "validation-failed", "/args/size", true},
		"too long":        {"", formOf(valid, "file", content(11)), 422, "validation-failed", "/args/size", true},
	} {
		before := len(r.calls())
		body, media := c.body()
		got := r.do("POST", "/media"+c.target, body, "Content-Type", media)
		if got.status != c.status || got.code() != c.code || c.field != "" && !strings.Contains(string(got.body), `"pointer":"`+c.field+`"`) {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		calls := r.calls()[before:]
		if (len(calls) > 0) != c.begun || slices.Contains(calls, "uploads.complete") || (got.json("uploadId") != nil) != c.begun {
			t.Errorf("%s: called %v and returned %s", name, calls, got.body)
		}
	}
	if got := r.do("POST", "/media?fileName=x", reader(ten), "Content-Type", "video/mp4", "Content-Encoding", "gzip"); got.status != 415 {
		t.Errorf("compressed: %d %s", got.status, got.body)
	}
	r.maxBytes = -1
	if got := r.do("POST", "/media?fileName=x.mp4", reader(content(2000)), "Content-Type", "video/mp4"); got.status != 201 {
		t.Errorf("without a limit: %d %s", got.status, got.body)
	}
}

func raw(file []byte, media string) func() (io.Reader, string) {
	return func() (io.Reader, string) { return bytes.NewReader(file), media }
}

func formOf(args, field string, file []byte, header ...string) func() (io.Reader, string) {
	return func() (io.Reader, string) {
		body, media := form(args, field, file, header...)
		return body, media
	}
}

// If the platform refuses a part before it has received all of it, the caller gets the problem immediately and need not
// send the rest.
func TestEarlyRefusalIsReturnedImmediately(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{})
	r.front.handle("/upload/", func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.CopyN(io.Discard, req.Body, 10_000)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, `{"error":{"code":2006,"message":"Too large."}}`)
	})
	// stalls returns a body that stops before its end.
	stalls := func() io.Reader {
		rest, write := io.Pipe()
		t.Cleanup(func() { _ = write.Close() })
		return io.MultiReader(bytes.NewReader(content(100_000)), rest)
	}
	got := r.do("POST", "/media?fileName=film.mp4", stalls(), "Content-Type", "video/mp4", "Content-Length", fmt.Sprint(3*partSize))
	if got.code() != problem.UpstreamRejected.Code || got.json("upstreamCode") != 2006.0 || got.json("nextPart") != 1.0 || got.json("uploadId") == nil {
		t.Errorf("%d %s", got.status, got.body)
	}
	r.awaitIdle()
	part := r.do("PUT", fmt.Sprintf("/media/uploads/%v/parts/1", got.json("uploadId")), stalls(), "Content-Length", fmt.Sprint(partSize))
	if part.code() != problem.UpstreamRejected.Code {
		t.Errorf("a part: %d %s", part.status, part.body)
	}
	r.awaitIdle()
}

// An upload that failed midway can be continued with the missing part.
func TestFailedUploadCanBeResumed(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{})
	file := content(2*partSize + 50)
	r.front.handle("/upload/", func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/2") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.front.Handler.ServeHTTP(w, req)
	})
	got := r.do("POST", "/media?fileName=film.mp4", reader(file), "Content-Type", "video/mp4")
	if got.code() != problem.UpstreamUnavailable.Code || got.json("nextPart") != 2.0 || got.json("retryable") != true {
		t.Fatalf("%d %s", got.status, got.body)
	}
	r.front.unhandle("/upload/")
	upload := fmt.Sprint(got.json("uploadId"))
	for n := 2; n <= 3; n++ {
		piece := file[(n-1)*partSize : min(n*partSize, len(file))]
		part := r.do("PUT", fmt.Sprintf("/media/uploads/%s/parts/%d", upload, n), reader(piece))
		if part.status != http.StatusOK || part.json("etag") == "" {
			t.Fatalf("part %d: %d %s", n, part.status, part.body)
		}
	}
	done := r.callMethod("uploads.complete", fmt.Sprintf(`{"uploadId":%q}`, upload))
	r.wantStored(reply{status: 201, body: fmt.Appendf(nil, `{"id":%q,"mediaId":%q}`, upload, done["mediaId"])}, file)

	for what, c := range map[string]struct {
		target string
		body   []byte
		length string
		code   string
	}{
		"of an ended upload": {upload + "/parts/1", content(10), "10", problem.UpstreamConflict.Code},
		"of no upload":       {"77/parts/1", content(10), "10", problem.UpstreamNotFound.Code},
		"of no id":           {"x/parts/1", content(10), "10", problem.UpstreamNotFound.Code},
		"beyond all parts":   {upload + "/parts/20000", content(10), "10", problem.ValidationFailed.Code},
		"without bytes":      {upload + "/parts/1", nil, "0", problem.ValidationFailed.Code},
	} {
		if got := r.do("PUT", "/media/uploads/"+c.target, reader(c.body), "Content-Length", c.length); got.code() != c.code {
			t.Errorf("a part %s: %d %s", what, got.status, got.body)
		}
	}
	if got := r.do("PUT", "/media/uploads/"+upload+"/parts/20000", reader(content(10))); !strings.Contains(string(got.body), `"pointer":"path/number"`) {
		t.Errorf("%s", got.body)
	}
	r.maxBytes = 5
	if got := r.do("PUT", "/media/uploads/"+upload+"/parts/1", reader(content(10))); got.code() != problem.PayloadTooLarge.Code {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// If finishing fails, the problem has the upload's id, and finishing can be repeated without sending parts again.
func TestFailedFinishCanBeRepeated(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{})
	r.front.handle("/api/v2/uploads/", func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/complete") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.front.Handler.ServeHTTP(w, req)
	})
	file := content(100)
	got := r.do("POST", "/media?fileName=film.mp4", reader(file), "Content-Type", "video/mp4")
	if got.code() != problem.UpstreamUnavailable.Code || got.json("nextPart") != 2.0 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	r.front.unhandle("/api/v2/uploads/")
	upload := fmt.Sprint(got.json("uploadId"))
	done := r.callMethod("uploads.complete", fmt.Sprintf(`{"uploadId":%q}`, upload))
	r.wantStored(reply{status: 201, body: fmt.Appendf(nil, `{"id":%q,"mediaId":%q}`, upload, done["mediaId"])}, file)
}

// A caller that stalls in the middle of a file gets a timeout, and one that goes away frees its place. Neither upload
// is finished.
func TestStalledBodyEndsTheUpload(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{config: transfer.Config{Patience: 200 * time.Millisecond}})
	rest, write := io.Pipe()
	t.Cleanup(func() { _ = write.Close() })
	go func() { _, _ = write.Write(content(1000)) }()
	got := r.do("POST", "/media?fileName=film.mp4", rest, "Content-Type", "video/mp4", "Content-Length", "5000")
	if got.code() != problem.RequestTimeout.Code || got.json("nextPart") != 1.0 {
		t.Errorf("%d %s", got.status, got.body)
	}
	r.awaitIdle()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.server.URL, "http://"))
	must.OK(t, err)
	before := len(r.front.requests("/upload/"))
	fmt.Fprintf(conn, "POST /media?fileName=film.mp4 HTTP/1.1\r\nHost: x\r\nContent-Type: video/mp4\r\nContent-Length: 5000\r\n\r\n%s", content(1000))
	testenv.Await(t, "the part has begun", func() bool { return len(r.front.requests("/upload/")) > before })
	must.OK(t, conn.Close())
	r.awaitIdle()
	if slices.Contains(r.calls(), "uploads.complete") {
		t.Error("an incomplete upload was finished")
	}
}

// If the platform accepts a part before it has received all of it, the upload fails.
func TestPartAcceptedTooEarlyIsAnError(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{})
	r.front.handle("/upload/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	rest, write := io.Pipe()
	t.Cleanup(func() { _ = write.Close() })
	go func() { _, _ = write.Write(content(1000)) }()
	got := r.do("POST", "/media?fileName=film.mp4", rest, "Content-Type", "video/mp4", "Content-Length", fmt.Sprint(partSize))
	if got.code() != problem.UpstreamInvalidResponse.Code {
		t.Errorf("%d %s", got.status, got.body)
	}
	r.awaitIdle()
}

// After a failed upload, later requests of the same client are not affected.
func TestFailedUploadDoesNotBreakTheNextRequest(t *testing.T) {
	t.Parallel()
	r := newFixture(t, setup{})
	r.front.handle("/upload/", func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body) // all of it, so that the caller's connection could be reused
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	for range 20 {
		if got := r.do("POST", "/media?fileName=film.mp4", reader(content(1000)), "Content-Type", "video/mp4"); got.code() != problem.UpstreamUnavailable.Code {
			t.Fatalf("%d %s", got.status, got.body)
		}
		for range 3 {
			if got := r.do("PUT", "/media/uploads/77/parts/1", reader(content(10))); got.code() != problem.UpstreamNotFound.Code {
				t.Fatalf("the next request: %d %s", got.status, got.body)
			}
		}
	}
}
