// Package dashboard is the face that customers' people see: sign-in, invitations, and the site itself (package web), which calls /v1
// from the same origin by the cookie that is set here.
//
// Who somebody is, is proven by an identity provider (oidc.go) or, on a developer's machine, claimed in a form (signin.go). Who belongs
// where is package member's. Pages before sign-in are plain forms without a script; reading one changes nothing, only a POST does. Start
// reading in signin.go.
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

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/ratelimit"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/server/webapp"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

//go:embed static templates
var files embed.FS

// Config are the face's settings.
type Config struct {
	// PublicURL is where browsers reach it, without a slash at its end; ConnectURL is where the creators' pages are, which the dashboard
	// shows in a frame.
	PublicURL, ConnectURL string
	// Key seals what a browser keeps while somebody is at the identity provider. The same on all nodes.
	Key secret.String
	// OIDC is the identity provider; without an issuer there is none.
	OIDC OIDC
	// Signup lets somebody in who is not invited, with an org of their own.
	Signup bool
	// Dev offers a form in which anybody can be anybody.
	Dev bool
}

// Banner is what operators tell everybody.
type Banner struct {
	Level string `json:"level"`
	Text  string `json:"text"`
	// URL is where more is said; empty for nowhere.
	URL string `json:"url,omitempty"`
}

// Deps is what the face needs.
type Deps struct {
	Config  Config
	Members members
	Orgs    orgs
	// Site is the built site; package web has it.
	Site fs.FS
	// Client is the way to the identity provider.
	Client *http.Client
	// Banner is nil if there is nothing to tell.
	Banner func(ctx context.Context) (*Banner, error)
	// SignupsPaused says that nobody new is let in for now.
	SignupsPaused func(ctx context.Context) bool
	// Draining says that the process is about to stop.
	Draining func() bool
	// Source finds where a request comes from, and HashIP makes that unreadable but comparable.
	Source func(r *http.Request) string
	HashIP func(source string) string
	Log    *slog.Logger
	Now    func() time.Time
}

// members are the people; *member.Members has it.
type members interface {
	visitors
	invitations
}

// visitors are signed-in browsers.
type visitors interface {
	SignIn(ctx context.Context, by audit.By, c member.Claims, w member.Welcome, userAgent string) (member.Session, secret.String, error)
	SignOut(ctx context.Context, by audit.By, cookie secret.String) error
	Find(ctx context.Context, cookie secret.String) (member.Session, error)
	Places(ctx context.Context, b member.Session) ([]member.Place, error)
	Switch(ctx context.Context, cookie secret.String, wanted string) error
}

// invitations are links by which somebody comes in.
type invitations interface {
	Offered(ctx context.Context, token secret.String) (member.Invitation, error)
	Join(ctx context.Context, by audit.By, cookie, token secret.String) (id.Org, error)
	SupportOffered(ctx context.Context, token secret.String) (member.Offer, error)
	SignInSupport(ctx context.Context, by audit.By, token secret.String, userAgent string) (member.Session, secret.String, error)
}

// orgs tells who invites; *org.Orgs has it.
type orgs interface {
	Get(ctx context.Context, org id.Org) (org.Org, error)
}

// Dashboard serves the face.
type Dashboard struct {
	Deps
	mux       *http.ServeMux
	templates *template.Template
	// style is that of the pages before sign-in; its address has its version.
	style, styleVersion string
	site                *webapp.Site
	provider            *provider
	keeper              keeper
	origins             endpoint.OriginGuard
	posts               ratelimit.Pace
	misses              ratelimit.Pace
}

// What one source may do in a minute: sign in and send forms, and open links that do not exist. Tokens of 256 bits cannot be guessed;
// this keeps one source from keeping the database and the identity provider busy.
const (
	postsPerMinute  = 30
	missesPerMinute = 20
	devPerMinute    = 6000
)

// New makes the face. It asks the identity provider nothing: a node starts while that is away.
func New(d Deps) (*Dashboard, error) {
	posts, misses := postsPerMinute, missesPerMinute
	if d.Config.Dev {
		posts, misses = devPerMinute, devPerMinute // tests of a developer's sign in all the time
	}
	b := &Dashboard{
		Deps: d, mux: http.NewServeMux(), origins: endpoint.NewOriginGuard(d.Config.PublicURL), posts: ratelimit.New(posts, time.Minute, d.Now), misses: ratelimit.New(misses, time.Minute, d.Now),
		site: webapp.New(d.Site), provider: newProvider(d.Config.OIDC, d.Config.PublicURL, d.Client, d.Now),
	}
	var err error
	if b.keeper, err = newKeeper(d.Config.Key); err != nil {
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

// routes is the table of pages. A name stands for a page in the log: an address may hold a token.
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
		"GET /app/session":             {"appSession", (*visit).getSession},
		"POST /app/session/org":        {"appSessionOrg", (*visit).postOrg},
		"GET /app/page.css":            {"appStyle", (*visit).getStyle},
		"GET /app/assets/{file...}":    {"appAsset", (*visit).getAsset},
		"GET /app":                     {"appSite", (*visit).getSite},
		"GET /app/{path...}":           {"appSite", (*visit).getSite},
		"/":                            {"unmatched", (*visit).gone},
	} {
		b.mux.Handle(pattern, b.serve(page.name, page.handle))
	}
}

// Before puts the face in front of another handler of the same listener.
func (b *Dashboard) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/app" || strings.HasPrefix(r.URL.Path, "/app/") {
			b.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ServeHTTP answers.
func (b *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.mux.ServeHTTP(w, r) }
