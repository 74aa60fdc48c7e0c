// Package disclosure serves what outsiders use to report a security problem: security.txt (RFC 9116), and the receiver
// of GitHub's secret scanning, which reports API keys that were published. Start reading at Before.
package disclosure

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/ratelimit"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/server/accesslog"
)

// Paths of the pages.
const (
	textPath    = "/.well-known/security.txt"
	scannerPath = "/secret-scanning/github"
)

// Config holds the settings.
type Config struct {
	// PublicURL is the address at which the service is reached, without a trailing slash.
	PublicURL string
	// Contacts are the addresses for reports, as mailto:, https: or tel: URIs, the preferred one first. Without one,
	// there is no security.txt. Policy is the address of the policy for reports; empty for none.
	Contacts []string
	Policy   string
	// ScannerKeys is the address, or the file, of the public keys of the secret scanner; empty to receive nothing.
	ScannerKeys string
}

// Deps are the dependencies.
type Deps struct {
	Config Config
	Keys   leakReporter
	// Client fetches the public keys of the secret scanner.
	Client *http.Client
	// Source returns the network that a request comes from.
	Source func(r *http.Request) string
	Log    *slog.Logger
	Now    func() time.Time
}

// Disclosure serves the pages.
type Disclosure struct {
	deps    Deps
	scanner scannerKeys
	posts   ratelimit.Pace
}

// postsPerMinute bounds the reports of one source: each costs a signature check, and a query per token.
const postsPerMinute = 120

// New returns the pages. It fetches nothing.
func New(d Deps) *Disclosure {
	return &Disclosure{
		deps: d, posts: ratelimit.New(postsPerMinute, time.Minute, d.Now),
		scanner: scannerKeys{from: d.Config.ScannerKeys, client: d.Client, now: d.Now},
	}
}

// Before returns a handler that serves the pages that are configured, and passes everything else to next.
func (s *Disclosure) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == textPath && len(s.deps.Config.Contacts) > 0 && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			s.serve(w, r, "securityText", s.getText)
		case r.URL.Path == scannerPath && s.deps.Config.ScannerKeys != "" && r.Method == http.MethodPost:
			s.serve(w, r, "secretScanning", s.postLeaks)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// serve runs a handler, answers its error with a problem, and writes the log line.
func (s *Disclosure) serve(w http.ResponseWriter, r *http.Request, page string, handle func(http.ResponseWriter, *http.Request) error) {
	request, started, rec := id.New[id.Request](), s.deps.Now(), &accesslog.Recorder{ResponseWriter: w}
	h := w.Header()
	h.Set("X-Request-Id", string(request))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	var fault error
	if err := handle(rec, r); err != nil {
		p := problem.Of(err)
		if p.Kind.Code == problem.Internal.Code && postgres.Unavailable(err) {
			p = problem.ServiceUnavailable.New("The service cannot reach its database right now.").After(2).Because(err)
		}
		if p.Kind.Status >= http.StatusInternalServerError {
			fault = err
		}
		// The document is complete even if a part of it cannot be encoded.
		document, _ := p.Document(problem.Place{ProblemsURL: s.deps.Config.PublicURL + "/problems", Instance: "urn:request:" + string(request)})
		if p.RetryAfter > 0 {
			h.Set("Retry-After", fmt.Sprint(p.RetryAfter))
		}
		h.Set("Content-Type", problem.ContentType)
		rec.WriteHeader(p.Kind.Status)
		_, _ = rec.Write(document)
	}
	accesslog.Line{Request: request, Page: page, Took: s.deps.Now().Sub(started), Fault: fault}.Write(s.deps.Log, r, rec)
}

// textLasts is how long a reader may trust security.txt. It is made when it is read, so it never expires while the
// service runs; a copy does. RFC 9116 recommends less than a year.
const textLasts = 90 * 24 * time.Hour

// getText serves security.txt.
func (s *Disclosure) getText(w http.ResponseWriter, _ *http.Request) error {
	var text strings.Builder
	for _, contact := range s.deps.Config.Contacts {
		fmt.Fprintf(&text, "Contact: %s\n", contact)
	}
	// The day is rounded, so that copies of one day are equal.
	fmt.Fprintf(&text, "Expires: %s\n", s.deps.Now().UTC().Truncate(24*time.Hour).Add(textLasts).Format(time.RFC3339))
	fmt.Fprintf(&text, "Preferred-Languages: en\nCanonical: %s%s\n", s.deps.Config.PublicURL, textPath)
	if s.deps.Config.Policy != "" {
		fmt.Fprintf(&text, "Policy: %s\n", s.deps.Config.Policy)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write([]byte(text.String())) // The reader may have disconnected.
	return nil
}
