package endpoint

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzhttp"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// compressFrom is the size in bytes from which JSON is compressed. Below it the headers cost what the body saves.
const compressFrom = 1 << 10

// newCompressor returns the wrapper that compresses JSON responses for callers that accept gzip.
func newCompressor() func(http.Handler) http.HandlerFunc {
	wrap, err := gzhttp.NewWrapper(
		gzhttp.MinSize(compressFrom), gzhttp.CompressionLevel(gzip.BestSpeed),
		gzhttp.ContentTypes([]string{"application/json", problem.ContentType}),
		// Every caller that accepts zstd accepts gzip too, and each zstd encoder keeps megabytes.
		gzhttp.EnableZstd(false),
	)
	if err != nil {
		panic(err) // the options are constants
	}
	return wrap
}

// compresses reports whether the JSON responses of an operation are compressed. Responses with a new secret are not:
// their length would depend on how much of the secret the caller's own text in the same response repeats (the BREACH
// attack). Responses that are not JSON (files, streams, pictures) are never compressed.
func (op *Operation) compresses() bool { return op.json && !op.secret }

// compressing wraps a handler so that its response is compressed if the caller accepts it. The compressor is placed
// below the recorder, so the recorder sees the bytes that the operation writes when it writes them.
func (t *Table) compressing(serve http.HandlerFunc) http.HandlerFunc {
	wrapped := t.compressor(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := From(r.Context())
		rec := call.written
		if _, ok := w.(*gzhttp.GzipResponseWriter); ok {
			below := rec.ResponseWriter
			call.uncompress = func() { rec.ResponseWriter, call.uncompress = below, nil }
			rec.ResponseWriter = w
			defer func() {
				if call.uncompress != nil {
					call.uncompress()
				}
			}()
		}
		serve(rec, r)
	}))
	return func(_ http.ResponseWriter, r *http.Request) {
		wrapped(&weakTags{ResponseWriter: From(r.Context()).written.ResponseWriter}, r)
	}
}

// passThrough removes the compressor, for a response that must reach the caller as it is written.
func (c *Call) passThrough() {
	if c.uncompress != nil {
		c.uncompress()
	}
}

// weakTags makes the ETag of a compressed response weak: it identifies the same content as that of the plain response,
// but not the same bytes.
type weakTags struct {
	http.ResponseWriter
	started bool
}

// WriteHeader weakens the ETag and sends the header.
func (w *weakTags) WriteHeader(status int) {
	h := w.Header()
	if tag := h.Get("Etag"); h.Get("Content-Encoding") != "" && strings.HasPrefix(tag, `"`) {
		h.Set("Etag", "W/"+tag)
	}
	w.started = true
	w.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body.
func (w *weakTags) Write(b []byte) (int, error) {
	if !w.started {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Flush sends what is buffered. The compressor requires this method.
func (w *weakTags) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap lets http.ResponseController reach the connection.
func (w *weakTags) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Document is a body that is made once and sent many times, plain or compressed.
type Document struct {
	// ETag changes with the body.
	ETag        string
	plain, gzip []byte
}

// NewDocument compresses a body.
func NewDocument(body []byte) (Document, error) {
	var small bytes.Buffer
	w, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(body)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return Document{}, fmt.Errorf("compress a document: %w", err)
	}
	sum := sha256.Sum256(body)
	return Document{ETag: `"` + hex.EncodeToString(sum[:16]) + `"`, plain: body, gzip: small.Bytes()}, nil
}

// Size returns the bytes that the document occupies in memory.
func (d Document) Size() int { return len(d.plain) + len(d.gzip) }

// For returns the body in the form that the caller accepts. encoding is empty for the plain form.
func (d Document) For(ctx context.Context) (body []byte, encoding string) {
	if From(ctx).uncompress != nil {
		return d.gzip, "gzip"
	}
	return d.plain, ""
}

// Serve writes the document, or 304 if the caller's copy is current.
func (d Document) Serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Etag", d.ETag)
	if Matches(r.Header.Get("If-None-Match"), d.ETag) {
		h.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body, encoding := d.For(r.Context())
	if encoding != "" {
		h.Set("Content-Encoding", encoding)
	}
	_, _ = w.Write(body) // The caller may have disconnected.
}
