// Package webapp serves the built pages of web/: documents, each answer with a nonce of its own, and assets, whose names hold their hash so
// that they are good for ever. Who may see a page is decided by whoever calls it.
package webapp

import (
	"crypto/rand"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// Site is what was built.
type Site struct{ files fs.FS }

// New makes it of the files of web.Dist.
func New(files fs.FS) *Site { return &Site{files} }

// nonceMark stands in documents where the nonce comes.
const nonceMark = "__CSP_NONCE__"

// placeholder is there in place of the documents when they were not built.
const placeholder = "placeholder.html"

// Frames says whose pages a document may show in itself.
type Frames string

// The choices.
const (
	NoFrames  Frames = "'none'"
	OwnFrames Frames = "'self'"
)

// Document writes one of the documents, with headers that let it run its own scripts and nothing else.
func (s *Site) Document(w http.ResponseWriter, r *http.Request, name string, frames Frames) {
	status := http.StatusOK
	text, err := fs.ReadFile(s.files, name)
	if err != nil {
		status = http.StatusServiceUnavailable
		if text, err = fs.ReadFile(s.files, placeholder); err != nil {
			text = []byte("The pages were not built.\n")
		}
	}
	nonce := Nonce()
	Secure(w.Header(), "script-src 'nonce-"+nonce+"' 'strict-dynamic'; style-src 'self' 'nonce-"+nonce+"'; img-src 'self' data: blob:; "+
		"connect-src 'self'; font-src 'self'; form-action 'self'; frame-src "+string(frames))
	body := strings.ReplaceAll(string(text), nonceMark, nonce)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(body)) // the browser may have gone
	}
}

// Nonce makes 128 random bits.
func Nonce() string {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // never fails
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Secure sets the headers that every page of people who have signed in has; policy is what it may do beyond nothing.
func Secure(h http.Header, policy string) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; "+policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
}

// kinds are the types of what the build makes. Nothing else is served.
var kinds = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".woff2": "font/woff2",
	".png": "image/png", ".webp": "image/webp", ".json": "application/json",
}

// encodings are what the build made beside the larger assets, the best first.
var encodings = []struct{ name, suffix string }{{"br", ".br"}, {"gzip", ".gz"}}

// Asset writes a file from assets/, compressed if the browser takes that; false if there is none of this name.
func (s *Site) Asset(w http.ResponseWriter, r *http.Request, name string) bool {
	kind := kinds[path.Ext(name)]
	if strings.ContainsAny(name, "/\\") || !fs.ValidPath(name) || kind == "" {
		return false
	}
	for _, e := range encodings {
		if strings.HasSuffix(name, e.suffix) {
			return false
		}
	}
	text, err := fs.ReadFile(s.files, "assets/"+name)
	if err != nil {
		return false
	}
	h := w.Header()
	for _, e := range encodings {
		if !accepts(r.Header.Get("Accept-Encoding"), e.name) {
			continue
		}
		if smaller, err := fs.ReadFile(s.files, "assets/"+name+e.suffix); err == nil {
			text = smaller
			h.Set("Content-Encoding", e.name)
			break
		}
	}
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // the browser may have gone
	}
	return true
}

// accepts says whether an Accept-Encoding names a coding, and does not refuse it by a weight of 0.
func accepts(header, coding string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), coding) {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
			return err != nil || q > 0
		}
	}
	return false
}

// Wants says whether a request is a browser's that opens a page, as opposed to one of a script's or an image's.
func Wants(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
}
