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

// answer is something that is sent as it is, kept compressed.
type answer struct {
	kind string
	tag  string
	size int
	gzip []byte
}

func newAnswer(kind string, content []byte) *answer {
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
		panic(err) // a buffer takes everything, and the level is a constant
	}
	return &answer{kind: kind, tag: base64.RawURLEncoding.EncodeToString(sum[:12]), size: len(content), gzip: small.Bytes()}
}

// write sends it, or says that the reader has it already. Caches ask again after a few minutes unless it is good for ever.
func (a *answer) write(w http.ResponseWriter, r *http.Request, status int, cache string) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", cache)
	if !slices.Contains(h.Values("Vary"), "Accept-Encoding") {
		h.Add("Vary", "Accept-Encoding")
	}
	h.Set("ETag", `W/"`+a.tag+`"`) // weak: compressed or not, it is the same
	if status == http.StatusOK && strings.Contains(r.Header.Get("If-None-Match"), `"`+a.tag+`"`) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(a.gzip)))
		w.WriteHeader(status)
		if r.Method != http.MethodHead {
			_, _ = w.Write(a.gzip) // the reader may have gone
		}
		return
	}
	h.Set("Content-Length", strconv.Itoa(a.size))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		plain, err := gzip.NewReader(bytes.NewReader(a.gzip))
		if err != nil {
			panic(err) // we have written it ourselves
		}
		_, _ = io.Copy(w, plain) // the reader may have gone
	}
}

// cacheShort and cacheLong say for how long others may keep an answer.
const (
	cacheShort = "public, max-age=300"
	cacheLong  = "public, max-age=31536000, immutable"
)
