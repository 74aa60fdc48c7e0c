// Package connectpages serves the pages that creators see: they connect an account, follow an attempt, and see and end
// a connection there.
//
// Pages are plain forms (templates/) that work without a script; page.js adds live updates. The token in a link is the
// only credential; that of a session is exchanged for a cookie when the creator opens the link (open.go). A GET changes
// nothing; only a POST does. The exception is OAuth (oauth.go): the platform sends the creator back with a GET, and a
// cookie recognises the browser that we sent there. The package does not decide what happens to attempts and sessions;
// accounts/connect does. Start reading in attempt.go and session.go, which turn a state into a page.
package connectpages

import (
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/ratelimit"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/server/accesslog"
)

//go:embed static templates
var files embed.FS

// Config holds the settings of the pages.
type Config struct {
	// URL is the address at which browsers reach the pages, without a trailing slash.
	URL string
}

// Deps are the dependencies of the pages.
type Deps struct {
	Config      Config
	Attempts    attempts
	Sessions    sessions
	Orgs        orgs
	Connections connections
	Links       *link.Links
	// Platforms are the platforms that creators sign in to.
	Platforms registry.Registry
	// Draining reports whether the process is about to stop.
	Draining func() bool
	// Source returns the network that a request comes from. HashIP hides it but keeps equal sources equal.
	Source func(r *http.Request) string
	HashIP func(source string) string
	Log    *slog.Logger
	Now    func() time.Time
}

// Pages serves the pages.
type Pages struct {
	deps      Deps
	mux       *http.ServeMux
	templates *template.Template
	words     map[string]words
	assets    map[string]asset
	// version is a hash of the style sheet and the script. It is part of their address, so browsers may cache them
	// forever.
	version string
	guard   *http.CrossOriginProtection
	posts   ratelimit.Pace
	misses  ratelimit.Pace
	// sites limits the sites that are checked in one session.
	sites   ratelimit.Pace
	streams atomic.Int64
}

// New loads the templates, texts and files.
func New(d Deps) (*Pages, error) {
	h := &Pages{
		deps: d, mux: http.NewServeMux(), assets: map[string]asset{}, guard: http.NewCrossOriginProtection(),
		posts: ratelimit.New(postsPerMinute, time.Minute, d.Now), misses: ratelimit.New(missesPerMinute, time.Minute, d.Now),
		sites: ratelimit.New(sitesPerMinute, time.Minute, d.Now),
	}
	var err error
	if h.words, err = loadWords(); err != nil {
		return nil, err
	}
	if h.templates, err = template.ParseFS(files, "templates/*.html"); err != nil {
		return nil, fmt.Errorf("parse pages: %w", err)
	}
	if err := errors.Join(h.loadAssets(), h.loadMarks()); err != nil {
		return nil, err
	}
	h.routes()
	return h, nil
}

// asset is a file that all pages share.
type asset struct {
	content []byte
	kind    string
	tag     string
}

func newAsset(content []byte, kind string) asset {
	sum := sha256.Sum256(content)
	return asset{content, kind + "; charset=utf-8", `"` + hex.EncodeToString(sum[:8]) + `"`}
}

func (h *Pages) loadAssets() error {
	all := sha256.New()
	for name, kind := range map[string]string{"page.css": "text/css", "page.js": "text/javascript", "connect.js": "text/javascript", "icon.svg": "image/svg+xml"} {
		content, err := files.ReadFile("static/" + name)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		h.assets[name] = newAsset(content, kind)
	}
	for _, name := range []string{"page.css", "page.js"} {
		all.Write(h.assets[name].content)
	}
	h.version = hex.EncodeToString(all.Sum(nil)[:6])
	return nil
}

// routes is the table of pages. The log contains the name of a page, because its address contains a token.
func (h *Pages) routes() {
	for pattern, page := range map[string]struct {
		name   string
		handle func(*visit)
	}{
		"GET /s/{token}":        {"connectSession", (*visit).getSession},
		"GET /s/{token}/embed":  {"connectSessionEmbed", (*visit).getSession},
		"POST /s/{token}":       {"connectSessionAct", (*visit).postSession},
		"POST /s/{token}/embed": {"connectSessionEmbedAct", (*visit).postSession},
		"GET /a/{token}":        {"connectAttempt", (*visit).getAttempt},
		"GET /a/{token}/phone":  {"connectAttemptPhone", (*visit).getAttempt},
		"GET /a/{token}/embed":  {"connectAttemptEmbed", (*visit).getAttempt},
		"POST /a/{token}":       {"connectAttemptAct", (*visit).postAttempt},
		"POST /a/{token}/phone": {"connectAttemptPhoneAct", (*visit).postAttempt},
		"POST /a/{token}/embed": {"connectAttemptEmbedAct", (*visit).postAttempt},
		"GET /a/{token}/events": {"connectAttemptEvents", (*visit).streamAttempt},
		"GET /a/{token}/state":  {"connectAttemptState", (*visit).pollAttempt},
		"GET /a/{token}/qr.svg": {"connectAttemptQR", (*visit).getQR},
		"GET /r/{token}":        {"connectReconnect", (*visit).getReconnect},
		"POST /r/{token}":       {"connectReconnectAct", (*visit).postReconnect},
		"GET /manage/{token}":   {"connectManage", (*visit).getManage},
		"POST /manage/{token}":  {"connectManageAct", (*visit).postManage},
		"GET /connect/privacy":  {"connectPrivacy", (*visit).getPrivacy},
		identityPattern:         {identityName, (*visit).getIdentity},
		callbackPattern:         {"connectOAuthCallback", (*visit).getCallback},
		"/":                     {"unmatched", (*visit).notFound},
	} {
		h.mux.Handle(pattern, h.serve(page.name, page.handle))
	}
	h.mux.Handle("GET /connect/logo/{org}", h.serve("connectLogo", (*visit).getLogo))
	h.mux.Handle("GET /connect.js", h.serve("connectScript", (*visit).getScript))
	h.mux.Handle("GET /connect/{file...}", h.serve("connectFile", (*visit).getFile))
}

// Before returns a handler that serves the pages, and passes other paths to next.
func (h *Pages) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, prefix := range []string{"/s/", "/a/", "/r/", "/manage/", "/connect/", "/connect.js"} {
			if strings.HasPrefix(r.URL.Path, prefix) {
				h.ServeHTTP(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (h *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// maxForm bounds a submitted form, in bytes.
const maxForm = 16 << 10

// Limits of one source per minute: submitted forms, and links that do not exist. Tokens of 256 bits cannot be guessed
// and attempts have their own limits; these keep one source from loading the database.
const (
	postsPerMinute  = 60
	missesPerMinute = 30
	// sitesPerMinute limits the sites that are checked for one link, so that a link is no way to scan other hosts.
	sitesPerMinute = 10
)

// serve wraps the handler of a page with its headers, the limits of a source, recovery, and the log line.
func (h *Pages) serve(name string, handle func(*visit)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{
			Pages: h, name: name, r: r, started: h.deps.Now(), source: h.deps.Source(r), request: id.New[id.Request](), nonce: newNonce(),
			w: &accesslog.Recorder{ResponseWriter: w}, variant: full,
		}
		switch {
		case strings.HasSuffix(r.Pattern, "/embed"):
			v.variant = embedded
		case strings.HasSuffix(r.Pattern, "/phone"):
			v.variant = phone
		}
		v.words = h.words[chooseLang(r, "")]
		v.path = r.URL.Path
		v.secure(nil)
		defer v.finish()
		defer v.recover()
		if v.checkPost() {
			handle(v)
		}
	})
}

// checkPost parses the form of a POST. It refuses sources over their limit and forms of other sites, and returns false
// if it has answered the request.
func (v *visit) checkPost() bool {
	if v.r.Method != http.MethodPost {
		return true
	}
	if !v.posts.Take(v.source) {
		v.showTooMany()
		return false
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if v.r.Header.Get("Sec-Fetch-Site") == "" && v.r.Header.Get("Origin") == "null" && v.hasSecretAddress() {
		// An old browser, whose Origin is null because of our no-referrer policy. It cannot prove the origin of the
		// form, but it knows the secret in the address.
		v.r.Header.Del("Origin")
	}
	if v.guard.Check(v.r) != nil {
		v.showBroken(http.StatusForbidden, nil)
		return false
	}
	if err := v.r.ParseForm(); err != nil {
		v.showBroken(http.StatusBadRequest, nil)
		return false
	}
	return true
}

// hasSecretAddress reports whether the address of the page contains a secret. It does not if the page is that of a
// session whose browser is known by its cookie.
func (v *visit) hasSecretAddress() bool {
	if !strings.HasPrefix(v.r.URL.Path, "/s/") || v.atLink() {
		return true
	}
	_, key := v.frameKey()
	return !key.Empty()
}

// newNonce returns a nonce for one response.
func newNonce() string {
	raw := make([]byte, 18)
	_, _ = rand.Read(raw) // Never fails.
	return base64.RawURLEncoding.EncodeToString(raw)
}

// secure sets the headers of a page. Only the given origins may frame it, and only its embedded variant.
func (v *visit) secure(origins []string) {
	head := v.w.Header()
	ancestors := "'none'"
	if v.variant == embedded && len(origins) > 0 {
		ancestors = strings.Join(origins, " ")
	}
	head.Set("Content-Security-Policy", "default-src 'none'; script-src 'nonce-"+v.nonce+"' 'strict-dynamic'; style-src 'self' 'nonce-"+v.nonce+
		"'; img-src 'self'; connect-src 'self'; form-action "+strings.Join(append([]string{"'self'"}, v.formTo...), " ")+"; base-uri 'none'; object-src 'none'; frame-ancestors "+ancestors+
		"; require-trusted-types-for 'script'; trusted-types 'none'")
	if v.variant == embedded {
		head.Del("X-Frame-Options")
		head.Del("Cross-Origin-Opener-Policy")
	} else {
		head.Set("X-Frame-Options", "DENY")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	if !v.hasSecretAddress() {
		head.Set("Referrer-Policy", "same-origin") // with no-referrer, forms in old browsers do not name their origin
	}
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=(), publickey-credentials-get=()")
	head.Set("X-Robots-Tag", "noindex, nofollow")
	head.Set("X-Request-Id", string(v.request))
	if strings.HasPrefix(v.deps.Config.URL, "https:") {
		head.Set("Strict-Transport-Security", "max-age=63072000; includeSubDomains; preload")
	}
	if v.deps.Draining() {
		head.Set("Connection", "close")
	}
}

// recover turns a panic into a page.
func (v *visit) recover() {
	reason := recover()
	if reason == nil {
		return
	}
	accesslog.LogPanic(v.deps.Log, v.r, v.request, reason)
	if v.w.Status == 0 {
		v.showBroken(http.StatusInternalServerError, nil)
	}
}

// finish writes the log line of the visit.
func (v *visit) finish() {
	line := accesslog.Line{Request: v.request, Page: v.name, Took: v.deps.Now().Sub(v.started), Fault: v.fault}
	if v.org.ID != "" {
		line.About = append(line.About, slog.String(logkey.OrgID, string(v.org.ID)))
	}
	line.Write(v.deps.Log, v.r, v.w)
}
