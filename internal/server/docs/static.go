package docs

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// staticResponse is a response that never changes, kept compressed.
type staticResponse struct {
	kind string
	tag  string
	size int
	gzip []byte
}

func newStaticResponse(kind string, content []byte) *staticResponse {
	sum := sha256.Sum256(content)
	var small bytes.Buffer
	w, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // Writing to a buffer does not fail, and the level is a constant.
	}
	return &staticResponse{kind: kind, tag: base64.RawURLEncoding.EncodeToString(sum[:12]), size: len(content), gzip: small.Bytes()}
}

// write sends the response, or 304 if the reader's copy is current. Caches revalidate after a few minutes, except for
// cacheLong.
func (a *staticResponse) write(w http.ResponseWriter, r *http.Request, status int, cache string) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", cache)
	if !slices.Contains(h.Values("Vary"), "Accept-Encoding") {
		h.Add("Vary", "Accept-Encoding")
	}
	h.Set("ETag", `W/"`+a.tag+`"`) // Weak: the compressed form has the same tag.
	if status == http.StatusOK && strings.Contains(r.Header.Get("If-None-Match"), `"`+a.tag+`"`) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(a.gzip)))
		w.WriteHeader(status)
		if r.Method != http.MethodHead {
			_, _ = w.Write(a.gzip) // The reader may have disconnected.
		}
		return
	}
	h.Set("Content-Length", strconv.Itoa(a.size))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		plain, err := gzip.NewReader(bytes.NewReader(a.gzip))
		if err != nil {
			panic(err) // newStaticResponse wrote it.
		}
		_, _ = io.Copy(w, plain) // The reader may have disconnected.
	}
}

// Values of Cache-Control.
const (
	cacheShort = "public, max-age=300"
	cacheLong  = "public, max-age=31536000, immutable"
)
