// Package dashboard serves the customers' dashboard: sign-in, invitations, and the web application (package web), which
// calls /v1 from the same origin with the cookie that is set here.
//
// An identity provider proves who a user is (oidc.go, package openid); on a developer's machine a form accepts any address (signin.go).
// tenant/member decides who belongs to which org. The pages before sign-in are plain forms without a script. A GET
// changes nothing; only a POST does. Start reading in signin.go.
package dashboard

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/ratelimit"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/server/openid"
	"github.com/stagedoor/stagedoor/internal/server/webapp"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

//go:embed static templates
var files embed.FS

// Config holds the settings of the dashboard.
type Config struct {
	// PublicURL is the address at which browsers reach the dashboard, without a trailing slash. ConnectURL is that of
	// the creators' pages, which the dashboard shows in a frame.
	PublicURL, ConnectURL string
	// Key encrypts the cookie that a browser keeps during a sign-in at the identity provider. It is the same on all
	// nodes.
	Key secret.String
	// OIDC is the identity provider; there is none if the issuer is empty.
	OIDC OIDC
	// Signup lets users sign in without an invitation, with a new org of their own.
	Signup bool
	// Dev offers a form that signs in as any address without a password.
	Dev bool
}

// Banner is a message of the operators to all customers.
type Banner struct {
	Level string `json:"level"`
	Text  string `json:"text"`
	// URL is the address of more information; empty for none.
	URL string `json:"url,omitempty"`
}

// Deps are the dependencies of the dashboard.
type Deps struct {
	Config  Config
	Members *member.Members
	Orgs    *org.Orgs
	// Site is the built web application, from package web.
	Site fs.FS
	// Client is used for requests to the identity provider.
	Client *http.Client
	// Banner returns nil if there is no banner.
	Banner func(ctx context.Context) (*Banner, error)
	// SignupsPaused reports whether operators have switched off sign-ups.
	SignupsPaused func(ctx context.Context) bool
	// Draining reports whether the process is about to stop.
	Draining func() bool
	// Source returns the network that a request comes from. HashIP hides it but keeps equal sources equal.
	Source func(r *http.Request) string
	HashIP func(source string) string
	Log    *slog.Logger
	Now    func() time.Time
}

// Dashboard serves the pages.
type Dashboard struct {
	deps      Deps
	mux       *http.ServeMux
	templates *template.Template
	// style is the style sheet of the pages before sign-in. Its version is part of its address.
	style, styleVersion string
	site                *webapp.Site
	provider            *openid.Provider
	origins             endpoint.OriginGuard
	posts               ratelimit.Pace
	misses              ratelimit.Pace
	// polls limits the requests of tools that sign in.
	polls ratelimit.Pace
}

// Limits of one source per minute: sign-ins and forms, and links that do not exist. Tokens of 256 bits cannot be
// guessed; these keep one source from loading the database and the identity provider.
const (
	postsPerMinute  = 30
	missesPerMinute = 20
	// A tool polls every 5 seconds; many of them can share an address.
	pollsPerMinute = 240
	devPerMinute   = 6000
)

// New loads the pages. It does not contact the identity provider, so a node can start while that is down.
func New(d Deps) (*Dashboard, error) {
	posts, misses := postsPerMinute, missesPerMinute
	if d.Config.Dev {
		posts, misses = devPerMinute, devPerMinute // Tests on a developer's machine sign in all the time.
	}
	b := &Dashboard{
		deps: d, mux: http.NewServeMux(), origins: endpoint.NewOriginGuard(d.Config.PublicURL), posts: ratelimit.New(posts, time.Minute, d.Now), misses: ratelimit.New(misses, time.Minute, d.Now), polls: ratelimit.New(pollsPerMinute, time.Minute, d.Now),
		site: webapp.New(d.Site),
	}
	var err error
	if b.provider, err = newProvider(d); err != nil {
		return nil, err
	}
	if b.templates, err = template.ParseFS(files, "templates/*.html"); err != nil {
		return nil, fmt.Errorf("parse pages: %w", err)
	}
	content, err := files.ReadFile("static/page.css")
	if err != nil {
		return nil, fmt.Errorf("read page.css: %w", err)
	}
	sum := sha256.Sum256(content)
	b.style, b.styleVersion = string(content), hex.EncodeToString(sum[:6])
	b.routes()
	return b, nil
}

// routes is the table of pages. The log contains the name of a page, because its address may contain a token.
func (b *Dashboard) routes() {
	for pattern, page := range map[string]struct {
		name   string
		handle func(*visit)
	}{
		"GET /app/sign-in":             {"appSignIn", (*visit).getSignIn},
		"POST /app/sign-in":            {"appSignInAct", (*visit).postSignIn},
		"GET /app/sign-in/start":       {"appSignInStart", (*visit).getStart},
		"GET /app/callback":            {"appCallback", (*visit).getCallback},
		"POST /app/sign-out":           {"appSignOut", (*visit).postSignOut},
		"GET /app/invitation/{token}":  {"appInvitation", (*visit).getInvitation},
		"POST /app/invitation/{token}": {"appInvitationAct", (*visit).postInvitation},
		"GET /app/support/{token}":     {"appSupport", (*visit).getSupport},
		"POST /app/support/{token}":    {"appSupportAct", (*visit).postSupport},
		"GET /app/device":              {"appDevice", (*visit).getDevice},
		"POST /app/device":             {"appDeviceAct", (*visit).postDevice},
		"POST " + deviceCodePath:       {"deviceCode", (*visit).postDeviceCode},
		"POST " + deviceTokenPath:      {"deviceToken", (*visit).postDeviceToken},
		"GET /app/session":             {"appSession", (*visit).getSession},
		"POST /app/session/org":        {"appSessionOrg", (*visit).postOrg},
		"GET /app/page.css":            {"appStyle", (*visit).getStyle},
		"GET /app/assets/{file...}":    {"appAsset", (*visit).getAsset},
		"GET /app":                     {"appSite", (*visit).getRoot},
		"GET /app/{path...}":           {"appSite", (*visit).getSite},
		"/":                            {"unmatched", (*visit).notFound},
	} {
		b.mux.Handle(pattern, b.serve(page.name, page.handle))
	}
}

// Before returns a handler that serves the dashboard, and passes other paths to next.
func (b *Dashboard) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.Path; p == "/app" || strings.HasPrefix(p, "/app/") || p == deviceCodePath || p == deviceTokenPath {
			b.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (b *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.mux.ServeHTTP(w, r) }
