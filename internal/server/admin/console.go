package admin

import (
	_ "embed"
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
	"github.com/stagedoor/stagedoor/internal/base/ratelimit"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/server/webapp"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

//go:embed pages/sign-in.html
var signInText string

// console serves the operators' pages: a sign-in form for the token, and a page that calls the admin API.
type console struct {
	*Admin
	who    *operators
	site   *webapp.Site
	mux    *http.ServeMux
	signIn *template.Template
	guard  *http.CrossOriginProtection
	// tries limits the wrong tokens in the form, to fewer than programs may send.
	tries ratelimit.Pace
}

const (
	triesPerMinute  = 5
	maxForm         = 8 << 10
	maxOperatorName = 60
)

func newConsole(a *Admin, who *operators) *console {
	c := &console{
		Admin: a, who: who, site: webapp.New(a.deps.Site), mux: http.NewServeMux(), signIn: template.Must(template.New("sign-in").Parse(signInText)),
		guard: http.NewCrossOriginProtection(),
		tries: ratelimit.New(triesPerMinute, time.Minute, a.deps.Now),
	}
	c.mux.HandleFunc("GET /ops/sign-in", c.getSignIn)
	c.mux.HandleFunc("POST /ops/sign-in", c.postSignIn)
	c.mux.HandleFunc("POST /ops/sign-out", c.postSignOut)
	c.mux.HandleFunc("GET /app/assets/{name}", c.getAsset)
	c.mux.HandleFunc("GET /ops", c.getPage)
	c.mux.HandleFunc("GET /ops/", c.getPage)
	c.mux.HandleFunc("/", c.Admin.table404)
	return c
}

// serves reports whether a path belongs to the console.
func (c *console) serves(address string) bool {
	if address == "/ops/" {
		return true
	}
	return address == path.Clean(address) && (address == "/ops" || strings.HasPrefix(address, "/ops/") || strings.HasPrefix(address, "/app/assets/"))
}

func (c *console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.mux.ServeHTTP(w, r) }

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
	if _, ok := c.signedIn(r); !ok {
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

func (c *console) signedIn(r *http.Request) (pass, bool) {
	given := r.CookiesNamed(cookieName)
	if len(given) != 1 {
		return pass{}, false
	}
	return c.who.pass.read(given[0].Value)
}

// isConsolePath reports whether an address is a page of the console, so that a sign-in cannot redirect elsewhere.
func isConsolePath(to string) bool {
	return to == "/ops" || strings.HasPrefix(to, "/ops/") && !strings.HasPrefix(to, "/ops/sign-") && !strings.ContainsAny(to, "\\\r\n") && len(to) <= 1024
}

// form is the data of the sign-in page.
type form struct {
	Nonce, To, Name, Fault string
	Node                   string
}

func (c *console) show(w http.ResponseWriter, status int, f form) {
	f.Nonce, f.Node = webapp.Nonce(), c.deps.Config.Node
	webapp.Secure(w.Header(), "style-src 'nonce-"+f.Nonce+"'; form-action 'self'; img-src 'self'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = c.signIn.Execute(w, f) // The browser may have disconnected.
}

func (c *console) getSignIn(w http.ResponseWriter, r *http.Request) {
	to := r.URL.Query().Get("to")
	if !isConsolePath(to) {
		to = "/ops"
	}
	if _, ok := c.signedIn(r); ok {
		webapp.Secure(w.Header(), "")
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	c.show(w, http.StatusOK, form{To: to})
}

func (c *console) postSignIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	f := form{To: r.PostFormValue("to"), Name: cleanName(r.PostFormValue("name"))}
	if !isConsolePath(f.To) {
		f.To = "/ops"
	}
	source := c.deps.Source(r)
	switch {
	case c.guard.Check(r) != nil:
		f.Fault = "The form was sent from another site. Sign in here."
		c.show(w, http.StatusForbidden, f)
		return
	case c.tries.Spent(source) || c.who.guessing(source):
		w.Header().Set("Retry-After", "60")
		f.Fault = "Too many wrong tokens. Wait a minute, then try again."
		c.show(w, http.StatusTooManyRequests, f)
		return
	case f.Name == "":
		f.Fault = "Enter your name. It is recorded with every change you make."
		c.show(w, http.StatusUnprocessableEntity, f)
		return
	case !c.who.isToken(strings.TrimSpace(r.PostFormValue("token"))):
		c.tries.Take(source)
		c.who.missed(source)
		c.deps.Log.LogAttrs(r.Context(), slog.LevelWarn, "wrong operator token", slog.String(logkey.IPHash, c.deps.HashIP(source)))
		f.Fault = "This is not the operator token. The token is STAGEDOOR_ADMIN_TOKEN in the settings of the service."
		c.show(w, http.StatusForbidden, f)
		return
	}
	if err := c.startSession(w, r, f.Name); err != nil {
		c.deps.Log.LogAttrs(r.Context(), slog.LevelError, "cannot sign in operator", slog.Any(logkey.Error, err))
		f.Fault = "You cannot sign in because the audit log is not available. Try again."
		c.show(w, http.StatusServiceUnavailable, f)
		return
	}
	webapp.Secure(w.Header(), "")
	http.Redirect(w, r, f.To, http.StatusSeeOther)
}

// startSession sets the cookie of a browser. The sign-in is recorded in the audit log first.
func (c *console) startSession(w http.ResponseWriter, r *http.Request, name string) error {
	value, until, err := c.who.pass.make(name)
	if err != nil {
		return err
	}
	who := operator(name)
	by := audit.By{
		Kind: who.Kind, ID: who.ID, Label: who.Label, Action: "operator.sign_in", Request: id.New[id.Request](), IPHash: c.deps.HashIP(c.deps.Source(r)),
	}
	err = c.deps.DB.Tx(r.Context(), func(tx postgres.Tx) error {
		return c.deps.Audit.Record(r.Context(), tx, audit.Operators, by, "console", audit.Changes{"until": {To: until}})
	})
	if err == nil {
		http.SetCookie(w, passCookie(value, int(passFor.Seconds())))
	}
	return err
}

func (c *console) postSignOut(w http.ResponseWriter, r *http.Request) {
	webapp.Secure(w.Header(), "")
	if c.guard.Check(r) != nil {
		http.Error(w, "Sign out from the console itself.", http.StatusForbidden)
		return
	}
	http.SetCookie(w, passCookie("", -1))
	http.Redirect(w, r, "/ops/sign-in", http.StatusSeeOther)
}

func passCookie(value string, age int) *http.Cookie {
	return &http.Cookie{Name: cookieName, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode}
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
