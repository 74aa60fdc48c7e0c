package endpoint_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

type listOutput struct {
	ETag string `header:"ETag"`
	Body struct {
		Text string `json:"text"`
	}
}

type secretOutput struct {
	Body struct {
		Text string `json:"text"`
		Key  string `json:"key" sensitive:"true"`
	}
}

// newTextFixture has operations whose responses have the requested length.
func newTextFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, nil)
	type length struct {
		N int `query:"n"`
	}
	row := func(id, method, path string) endpoint.Operation {
		op := endpoint.Operation{ID: id, Method: method, Path: path, Summary: "S", Tag: "T", Status: http.StatusOK, Quota: admission.Plain}
		if method != http.MethodGet {
			op.Unaudited = "a test"
		}
		return op
	}
	text := func(n int) string { return strings.Repeat("x", n) }
	endpoint.Typed(f.Table, row("text", http.MethodGet, "/text"), func(_ context.Context, in *length) (*listOutput, error) {
		out := &listOutput{ETag: `"7"`}
		out.Body.Text = text(in.N)
		return out, nil
	})
	endpoint.Typed(f.Table, row("secret", http.MethodPost, "/secret"), func(_ context.Context, in *length) (*secretOutput, error) {
		out := &secretOutput{}
		out.Body.Text, out.Body.Key = text(in.N), "sd_x"
		return out, nil
	})
	endpoint.Typed(f.Table, row("broken", http.MethodGet, "/broken"), func(context.Context, *length) (*listOutput, error) {
		return nil, problem.InvalidRequest.New(text(5000))
	})
	bytes := row("bytes", http.MethodGet, "/bytes")
	bytes.Media = []string{"image/png"}
	endpoint.Plain(f.Table, bytes, func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "image/png")
		_, err := io.WriteString(w, text(5000))
		return err
	})
	half := row("half", http.MethodGet, "/half")
	half.Media = []string{"application/json"}
	endpoint.Plain(f.Table, half, func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"begun":`) // Below the size from which responses are compressed.
		return io.ErrUnexpectedEOF
	})
	return f
}

// JSON of 1 KB and more is compressed for callers that accept it; other media types and responses with a new secret are
// not.
func TestResponsesAreCompressedOnRequest(t *testing.T) {
	t.Parallel()
	f := newTextFixture(t)
	for _, c := range []struct {
		name, method, target, accept string
		packed                       bool
		etag                         string
	}{
		{"asked for", http.MethodGet, "/text?n=1024", "gzip", true, `W/"7"`},
		{"among others", http.MethodGet, "/text?n=1024", "br;q=1.0, gzip;q=0.8", true, `W/"7"`},
		{"not asked for", http.MethodGet, "/text?n=1024", "", false, `"7"`},
		{"refused", http.MethodGet, "/text?n=1024", "gzip;q=0", false, `"7"`},
		{"identity", http.MethodGet, "/text?n=1024", "identity", false, `"7"`},
		{"less than 1 KB", http.MethodGet, "/text?n=900", "gzip", false, `"7"`},
		{"a problem", http.MethodGet, "/broken", "gzip", true, ""},
		{"a new secret", http.MethodPost, "/secret?n=5000", "gzip", false, ""},
		{"a picture", http.MethodGet, "/bytes", "gzip", false, ""},
	} {
		plain := f.do(t, c.method, c.target, nil)
		w := f.do(t, c.method, c.target, http.Header{"Accept-Encoding": {c.accept}})
		body := w.Body.Bytes()
		if packed := w.Header().Get("Content-Encoding") == "gzip"; packed != c.packed {
			t.Errorf("%s: Content-Encoding %q", c.name, w.Header().Get("Content-Encoding"))
			continue
		}
		if c.packed {
			r, err := gzip.NewReader(bytes.NewReader(body))
			must.OK(t, err)
			body, err = io.ReadAll(r)
			must.OK(t, err)
			if w.Header().Get("Content-Length") != "" || w.Body.Len() >= len(body) {
				t.Errorf("%s: %d bytes of %d, Content-Length %q", c.name, w.Body.Len(), len(body), w.Header().Get("Content-Length"))
			}
		}
		if c.name != "a problem" && !bytes.Equal(body, plain.Body.Bytes()) { // A problem contains its request id.
			t.Errorf("%s: the body differs from that without compression", c.name)
		}
		if got := w.Header().Get("Etag"); got != c.etag {
			t.Errorf("%s: ETag %s, want %s", c.name, got, c.etag)
		}
		if c.target != "/bytes" && c.method == http.MethodGet && !strings.Contains(strings.Join(w.Header()["Vary"], ","), "Accept-Encoding") {
			t.Errorf("%s: Vary %q", c.name, w.Header()["Vary"])
		}
	}
}

// A response that fails half-way is cut off, even while the compressor still buffers what was written.
func TestABrokenResponseIsCutOffWhileBuffered(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newTextFixture(t))
	t.Cleanup(server.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/half", nil)
	must.OK(t, err)
	req.Header.Set("Authorization", "Bearer x")
	req.Header.Set("Accept-Encoding", "gzip")
	res, err := server.Client().Do(req)
	if err != nil {
		return // Cut off before the header.
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("%d %s looks complete", res.StatusCode, body)
	}
}

// A document is compressed once. Its ETag is valid in both forms.
func TestDocumentsAreConditional(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	doc, err := endpoint.NewDocument([]byte(`{"text":"` + strings.Repeat("x", 5000) + `"}`))
	must.OK(t, err)
	endpoint.Plain(f.Table, endpoint.Operation{
		ID: "document", Method: http.MethodGet, Path: "/document", Summary: "S", Tag: "T", Status: http.StatusOK, Public: true,
		Media: []string{"application/json"}, Conditional: true,
	}, func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		doc.Serve(w, r)
		return nil
	})
	for accept, want := range map[string]string{"": doc.ETag, "gzip": "W/" + doc.ETag} {
		w := f.do(t, http.MethodGet, "/document", http.Header{"Accept-Encoding": {accept}})
		tag := w.Header().Get("Etag")
		if w.Code != http.StatusOK || tag != want || (w.Header().Get("Content-Encoding") == "gzip") != (accept == "gzip") {
			t.Errorf("%q: %d, ETag %s, %q", accept, w.Code, tag, w.Header().Get("Content-Encoding"))
		}
		for _, again := range []string{"", "gzip"} {
			w = f.do(t, http.MethodGet, "/document", http.Header{"Accept-Encoding": {again}, "If-None-Match": {tag}})
			if w.Code != http.StatusNotModified || w.Body.Len() > 0 {
				t.Errorf("%q, then %q: %d with %d bytes", accept, again, w.Code, w.Body.Len())
			}
		}
	}
}
