// Package webapp serves the built files of web/: documents, each response with its own nonce, and assets, which may be
// cached forever because their names contain their hash. It does not check who may see a page; its callers do.
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

// Site is the built web application.
type Site struct{ files fs.FS }

// New returns a site that serves the files of web.Dist.
func New(files fs.FS) *Site { return &Site{files} }

// nonceMark is the placeholder of the nonce in documents.
const nonceMark = "__CSP_NONCE__"

// placeholder is served instead of a document that was not built.
const placeholder = "placeholder.html"

// Frames says which pages a document may embed.
type Frames string

// Values of the frame-src directive.
const (
	NoFrames  Frames = "'none'"
	OwnFrames Frames = "'self'"
)

// Document writes a document with headers that allow only its own scripts. It answers 503 if the document was not
// built.
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
		_, _ = w.Write([]byte(body)) // The browser may have disconnected.
	}
}

// Nonce returns 128 random bits.
func Nonce() string {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // Never fails.
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Secure sets the headers of every page for signed-in users. policy is added to a Content-Security-Policy that allows
// nothing.
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

// kinds are the media types of built files by extension. No other file is served.
var kinds = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".woff2": "font/woff2",
	".png": "image/png", ".webp": "image/webp", ".json": "application/json",
}

// encodings are the precompressed forms that the build writes next to larger assets, best first.
var encodings = []struct{ name, suffix string }{{"br", ".br"}, {"gzip", ".gz"}}

// Asset writes a file from assets/, compressed if the browser accepts it. It returns false if there is no such file.
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
		_, _ = w.Write(text) // The browser may have disconnected.
	}
	return true
}

// accepts reports whether an Accept-Encoding header names a coding with a weight other than 0.
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

// IsNavigation reports whether a browser sent the request to open a page, and not a script or an image.
func IsNavigation(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
}
