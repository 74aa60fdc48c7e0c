package admin

import (
	"context"
	_ "embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/ratelimit"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/operate/operator"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/server/openid"
	"github.com/stagedoor/stagedoor/internal/server/webapp"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

//go:embed pages/sign-in.html
var signInText string

// OIDC holds the settings of the operators' identity provider.
type OIDC struct {
	// Issuer is its address; empty for none. Operators then sign in to the console with a token.
	Issuer   string
	ClientID string
	Secret   secret.String
	Scopes   []string
	// GroupsClaim is the claim with the groups of an operator; empty for none.
	GroupsClaim string
}

// console serves the operators' pages: sign-in, and a page that calls the admin API. Operators sign in at the identity
// provider; without one, with a token and their name.
type console struct {
	*Admin
	who      *authenticator
	provider *openid.Provider
	site     *webapp.Site
	mux      *http.ServeMux
	signIn   *template.Template
	origins  endpoint.OriginGuard
	// tries limits the wrong tokens in the form, to fewer than programs may send. starts limits sign-ins at the provider.
	tries, starts ratelimit.Pace
}

// cookieName is the cookie of a browser in which an operator is signed in.
const cookieName = "__Host-sd_ops"

const (
	triesPerMinute  = 5
	startsPerMinute = 30
	maxForm         = 8 << 10
	maxOperatorName = 60
	// signInTimeout bounds the time to answer, including the identity provider.
	signInTimeout = 15 * time.Second
)

func newConsole(a *Admin, who *authenticator) (*console, error) {
	d := a.deps
	provider, err := openid.New(openid.Config{
		Issuer: d.Config.OIDC.Issuer, ClientID: d.Config.OIDC.ClientID, Secret: d.Config.OIDC.Secret, Scopes: d.Config.OIDC.Scopes,
		GroupsClaim: d.Config.OIDC.GroupsClaim, Callback: d.Config.URL + "/ops/callback",
		Cookie: "__Host-sd_ops_signin", Key: d.Config.Key, Purpose: "stagedoor console sign-in",
	}, d.Client, d.Now)
	if err != nil {
		return nil, err
	}
	c := &console{
		Admin: a, who: who, provider: provider, site: webapp.New(d.Site), mux: http.NewServeMux(),
		signIn: template.Must(template.New("sign-in").Parse(signInText)), origins: endpoint.NewOriginGuard(d.Config.URL),
		tries: ratelimit.New(triesPerMinute, time.Minute, d.Now), starts: ratelimit.New(startsPerMinute, time.Minute, d.Now),
	}
	c.mux.HandleFunc("GET /ops/sign-in", c.getSignIn)
	c.mux.HandleFunc("POST /ops/sign-in", c.postSignIn)
	c.mux.HandleFunc("GET /ops/sign-in/start", c.getStart)
	c.mux.HandleFunc("GET /ops/callback", c.getCallback)
	c.mux.HandleFunc("POST /ops/sign-out", c.postSignOut)
	c.mux.HandleFunc("GET /app/assets/{name}", c.getAsset)
	c.mux.HandleFunc("GET /ops", c.getPage)
	c.mux.HandleFunc("GET /ops/", c.getPage)
	c.mux.HandleFunc("/", c.Admin.table404)
	return c, nil
}

// serves reports whether a path belongs to the console.
func (c *console) serves(address string) bool {
	if address == "/ops/" {
		return true
	}
	return address == path.Clean(address) && (address == "/ops" || strings.HasPrefix(address, "/ops/") || strings.HasPrefix(address, "/app/assets/"))
}

// requestID is the header with the id of a request, which is also in the audit log.
const requestID = "X-Request-Id"

func (c *console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(requestID, string(id.New[id.Request]()))
	c.mux.ServeHTTP(w, r)
}

// table404 lets the table answer requests that the console does not serve.
func (a *Admin) table404(w http.ResponseWriter, r *http.Request) { a.table.ServeHTTP(w, r) }

func (c *console) getAsset(w http.ResponseWriter, r *http.Request) {
	if !c.site.Asset(w, r, r.PathValue("name")) {
		c.table.ServeHTTP(w, r)
	}
}

// getPage serves the console for every path below /ops. The page itself decides what to show.
func (c *console) getPage(w http.ResponseWriter, r *http.Request) {
	if !webapp.IsNavigation(r) {
		c.table.ServeHTTP(w, r)
		return
	}
	ok, err := c.signedIn(r)
	if err != nil {
		c.unavailable(w, r, form{To: "/ops"}, err)
		return
	}
	if !ok {
		target := "/ops/sign-in"
		if to := r.URL.RequestURI(); to != "/ops" && isConsolePath(to) {
			target += "?to=" + template.URLQueryEscaper(to)
		}
		webapp.Secure(w.Header(), "")
		http.Redirect(w, r, target, http.StatusSeeOther)
		return
	}
	c.site.Document(w, r, "ops.html", webapp.NoFrames)
}

// signedIn reports whether the browser is signed in.
func (c *console) signedIn(r *http.Request) (bool, error) {
	given := r.CookiesNamed(cookieName)
	if len(given) != 1 {
		return false, nil
	}
	_, err := c.deps.Operators.Find(r.Context(), secret.New(given[0].Value))
	if errors.Is(err, problem.SignedOut.New("")) {
		return false, nil
	}
	return err == nil, err
}

// isConsolePath reports whether an address is a page of the console, so that a sign-in cannot redirect elsewhere.
func isConsolePath(to string) bool {
	return to == "/ops" || strings.HasPrefix(to, "/ops/") && !strings.HasPrefix(to, "/ops/sign-") && !strings.HasPrefix(to, "/ops/callback") && !strings.ContainsAny(to, "\\\r\n") && len(to) <= 1024
}

// form is the data of the sign-in page.
type form struct {
	Nonce, To, Name, Fault string
	Node                   string
	// Provider means that operators sign in at the identity provider.
	Provider bool
}

func (c *console) show(w http.ResponseWriter, status int, f form) {
	f.Nonce, f.Node, f.Provider = webapp.Nonce(), c.deps.Config.Node, c.provider.Exists()
	webapp.Secure(w.Header(), "style-src 'nonce-"+f.Nonce+"'; form-action 'self'; img-src 'self'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = c.signIn.Execute(w, f) // The browser may have disconnected.
}

func (c *console) getSignIn(w http.ResponseWriter, r *http.Request) {
	f := form{To: safeTo(r.URL.Query().Get("to"))}
	ok, err := c.signedIn(r)
	switch {
	case err != nil:
		c.unavailable(w, r, f, err)
	case ok:
		webapp.Secure(w.Header(), "")
		http.Redirect(w, r, f.To, http.StatusSeeOther)
	default:
		c.show(w, http.StatusOK, f)
	}
}

// safeTo returns the address to go to after sign-in: one of the console, or its home.
func safeTo(to string) string {
	if !isConsolePath(to) {
		return "/ops"
	}
	return to
}

// unavailable shows that a sign-in is not possible right now.
func (c *console) unavailable(w http.ResponseWriter, r *http.Request, f form, err error) {
	c.deps.Log.LogAttrs(r.Context(), slog.LevelError, "cannot sign in operator", slog.Any(logkey.Error, err))
	f.Fault = "You cannot sign in because the database is not available. Try again."
	c.show(w, http.StatusServiceUnavailable, f)
}

// getStart redirects the browser to the identity provider.
func (c *console) getStart(w http.ResponseWriter, r *http.Request) {
	f := form{To: safeTo(r.URL.Query().Get("to"))}
	switch {
	case !c.provider.Exists():
		c.table.ServeHTTP(w, r)
		return
	case !c.starts.Take(c.deps.Source(r)):
		c.tooMany(w, f, "Too many sign-ins. Wait a minute, then try again.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), signInTimeout)
	defer cancel()
	address, err := c.provider.Begin(ctx, w, f.To, openid.Nothing)
	if err != nil {
		c.showFault(w, r, f, err)
		return
	}
	webapp.Secure(w.Header(), "")
	http.Redirect(w, r, address, http.StatusSeeOther)
}

func (c *console) tooMany(w http.ResponseWriter, f form, fault string) {
	w.Header().Set("Retry-After", "60")
	f.Fault = fault
	c.show(w, http.StatusTooManyRequests, f)
}

// showFault shows why a sign-in at the identity provider failed.
func (c *console) showFault(w http.ResponseWriter, r *http.Request, f form, err error) {
	status, text, expected := openid.Explain(err)
	if !expected {
		c.deps.Log.LogAttrs(r.Context(), slog.LevelError, "cannot sign in operator", slog.Any(logkey.Error, err))
	}
	f.Fault = text
	c.show(w, status, f)
}

// getCallback completes a sign-in when the identity provider sends the browser back. Only people who have a role are
// signed in.
func (c *console) getCallback(w http.ResponseWriter, r *http.Request) {
	source := c.deps.Source(r)
	switch {
	case !c.provider.Exists():
		c.table.ServeHTTP(w, r)
		return
	case !c.starts.Take(source):
		c.tooMany(w, form{To: "/ops"}, "Too many sign-ins. Wait a minute, then try again.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), signInTimeout)
	defer cancel()
	claims, to, err := c.provider.Finish(ctx, w, r)
	f := form{To: safeTo(to)}
	if err != nil {
		c.showFault(w, r, f, err)
		return
	}
	cookie, err := c.deps.Operators.SignIn(ctx, c.actor(w, r), operator.Claims{
		Issuer: claims.Issuer, Subject: claims.Subject, Email: claims.Email, Name: claims.Name, Groups: claims.Groups,
	}, r.UserAgent())
	switch {
	case errors.Is(err, operator.ErrNoRole):
		c.deps.Log.LogAttrs(ctx, slog.LevelWarn, "person without a role tried to sign in as operator", slog.String(logkey.IPHash, c.deps.HashIP(source)))
		f.Fault = "You are not an operator of this service. Ask an owner for a role, or sign in at the identity provider with another account."
		c.show(w, http.StatusForbidden, f)
	case err != nil:
		c.unavailable(w, r, f, err)
	default:
		c.startSession(w, r, cookie, f.To)
	}
}

// actor returns the request and the source of a sign-in, for the audit log.
func (c *console) actor(w http.ResponseWriter, r *http.Request) audit.By {
	return audit.By{Request: id.Request(w.Header().Get(requestID)), IPHash: c.deps.HashIP(c.deps.Source(r))}
}

// postSignIn signs in with a token, if there is no identity provider.
func (c *console) postSignIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	f := form{To: safeTo(r.PostFormValue("to")), Name: cleanName(r.PostFormValue("name"))}
	source, token := c.deps.Source(r), secret.New(strings.TrimSpace(r.PostFormValue("token")))
	switch {
	case c.provider.Exists():
		f.Fault = "Sign in at the identity provider. Tokens are for programs."
		c.show(w, http.StatusForbidden, f)
		return
	case !c.origins.Own(r):
		f.Fault = "The form was sent from another site. Sign in here."
		c.show(w, http.StatusForbidden, f)
		return
	case c.tries.Spent(source) || c.who.guessing(source):
		c.tooMany(w, f, "Too many wrong tokens. Wait a minute, then try again.")
		return
	case f.Name == "":
		f.Fault = "Enter your name. It is recorded with every change you make."
		c.show(w, http.StatusUnprocessableEntity, f)
		return
	}
	ok, err := c.deps.Operators.IsToken(r.Context(), token)
	if err != nil {
		c.unavailable(w, r, f, err)
		return
	}
	if !ok {
		c.tries.Take(source)
		c.who.missed(source)
		c.deps.Log.LogAttrs(r.Context(), slog.LevelWarn, "wrong operator token", slog.String(logkey.IPHash, c.deps.HashIP(source)))
		f.Fault = "This is not the operator token. The token is STAGEDOOR_ADMIN_TOKEN in the settings of the service."
		c.show(w, http.StatusForbidden, f)
		return
	}
	cookie, err := c.deps.Operators.SignInWithToken(r.Context(), c.actor(w, r), token, f.Name, r.UserAgent())
	if err != nil {
		c.unavailable(w, r, f, err)
		return
	}
	c.startSession(w, r, cookie, f.To)
}

// startSession sets the cookie of a browser and redirects it. The browser's earlier session ends.
func (c *console) startSession(w http.ResponseWriter, r *http.Request, cookie secret.String, to string) {
	if err := c.endSession(w, r); err != nil {
		c.unavailable(w, r, form{To: to}, err)
		return
	}
	http.SetCookie(w, sessionCookie(cookie.Reveal(), int(operator.Lifetime/time.Second)))
	webapp.Secure(w.Header(), "")
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func (c *console) postSignOut(w http.ResponseWriter, r *http.Request) {
	webapp.Secure(w.Header(), "")
	if !c.origins.Own(r) {
		http.Error(w, "Sign out from the console itself.", http.StatusForbidden)
		return
	}
	if err := c.endSession(w, r); err != nil {
		c.unavailable(w, r, form{To: "/ops"}, err)
		return
	}
	http.SetCookie(w, sessionCookie("", -1))
	http.Redirect(w, r, "/ops/sign-in", http.StatusSeeOther)
}

// endSession signs the browser of a request out, if it is signed in.
func (c *console) endSession(w http.ResponseWriter, r *http.Request) error {
	given := r.CookiesNamed(cookieName)
	if len(given) != 1 {
		return nil
	}
	return c.deps.Operators.SignOut(r.Context(), c.actor(w, r), secret.New(given[0].Value))
}

// sessionCookie returns the cookie of a browser. It is lax, because the browser comes back from the identity provider,
// which is another site; requests that change something are checked by their origin.
func sessionCookie(value string, age int) *http.Cookie {
	return &http.Cookie{Name: cookieName, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// cleanName returns a name for the audit log: one line of printable characters.
func cleanName(text string) string {
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, text)), " ")
	if utf8.RuneCountInString(text) > maxOperatorName {
		text = strings.TrimSpace(string([]rune(text)[:maxOperatorName]))
	}
	return text
}
