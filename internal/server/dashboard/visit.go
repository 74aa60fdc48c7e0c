package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/server/accesslog"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

// visit is one request of a browser.
type visit struct {
	*Dashboard
	name    string
	w       *accesslog.Recorder
	r       *http.Request
	started time.Time
	source  string
	request id.Request
	// person is the signed-in user, for the log.
	person id.Person
	fault  error
}

// page is the data of a template.
type page struct {
	*visit
	Content template.HTML
	Title   string
	// Problem is the error message, Note any other message.
	Problem, Note string
	// To is the address to go to after sign-in.
	To string
	// Provider is the name of the identity provider; empty if there is none. Dev shows the development form.
	Provider string
	Dev      bool
	// Email and Name prefill that form.
	Email, Name string
	// Again asks the identity provider to let the user choose an account.
	Again bool
	// Fresh asks it to let the user sign in again.
	Fresh bool

	Org        string
	Invitation member.Invitation
	Offer      member.Offer
	// Who is the email address of the signed-in user, or empty. In broken.html it is the address of a link.
	Who string
	// Code is the code of a tool, Tool the tool that waits for a decision, Done what became of it. Places are the orgs in
	// which it can act, Current the one to offer first.
	Code, Done, Current string
	Tool                *member.DeviceRequest
	Places              []member.Place
}

// Version is part of the address of the style sheet, so browsers may cache it forever.
func (p *page) Version() string { return p.styleVersion }

// maxForm bounds a submitted form, in bytes.
const maxForm = 16 << 10

// serve wraps the handler of a page with its headers, the limits of a source, recovery, and the log line.
func (b *Dashboard) serve(name string, handle func(*visit)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{Dashboard: b, name: name, r: r, started: b.deps.Now(), source: b.deps.Source(r), request: id.New[id.Request](), w: &accesslog.Recorder{ResponseWriter: w}}
		v.secure()
		defer v.finish()
		defer v.recover()
		if v.checkPost() {
			handle(v)
		}
	})
}

// checkPost refuses sources over their limit and requests from other sites. It returns false if it has answered.
func (v *visit) checkPost() bool {
	if v.r.Method == http.MethodGet || v.r.Method == http.MethodHead {
		return true
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if !v.origins.Own(v.r) {
		v.refuse(problem.CrossOriginRefused.New("The request came from a page of another site."))
		return false
	}
	pace := v.posts
	if strings.HasPrefix(v.r.URL.Path, "/v1/") {
		pace = v.polls
	}
	if !pace.Take(v.source) {
		v.showTooMany()
		return false
	}
	return true
}

// secure sets the headers of a page. The web application replaces the policy.
func (v *visit) secure() {
	head := v.w.Header()
	head.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	// The address of a page may contain a token.
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()")
	head.Set("X-Robots-Tag", "noindex, nofollow")
	head.Set("X-Request-Id", string(v.request))
	if v.https() {
		head.Set("Strict-Transport-Security", "max-age=63072000; includeSubDomains; preload")
	}
	if v.deps.Draining() {
		head.Set("Connection", "close")
	}
}

func (v *visit) https() bool { return strings.HasPrefix(v.deps.Config.PublicURL, "https:") }

// setCookie sets a cookie that scripts cannot read and other sites cannot send with a change.
func (v *visit) setCookie(name string, value secret.String, lasts time.Duration) {
	http.SetCookie(v.w, &http.Cookie{
		Name: name, Value: value.Reveal(), Path: "/", MaxAge: int(lasts / time.Second), HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	})
}

func (v *visit) dropCookie(name string) {
	http.SetCookie(v.w, &http.Cookie{Name: name, Path: "/", MaxAge: -1, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode})
}

// cookie returns the session cookie; empty if there is none or more than one.
func (v *visit) cookie() secret.String {
	if given := v.r.CookiesNamed(member.Cookie); len(given) == 1 {
		return secret.New(given[0].Value)
	}
	return secret.String{}
}

// pageTimeout bounds the time to answer, including the identity provider.
const pageTimeout = 15 * time.Second

func (v *visit) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(v.r.Context(), pageTimeout)
}

// actor returns the actor of an audit entry; package member fills in the person.
func (v *visit) actor() audit.By {
	return audit.By{Kind: audit.ActorMember, Request: v.request, IPHash: v.deps.HashIP(v.source)}
}

// signedIn returns the session of the browser. ok is false without an error if the browser is not signed in.
func (v *visit) signedIn(ctx context.Context) (b member.Session, ok bool, err error) {
	cookie := v.cookie()
	if cookie.Empty() {
		return b, false, nil
	}
	b, err = v.deps.Members.Find(ctx, cookie)
	if errors.Is(err, problem.SignedOut.New("")) {
		return b, false, nil
	}
	v.person = b.Person.ID
	return b, err == nil, err
}

func (v *visit) show(status int, name, title string, p *page) {
	p.visit, p.Title = v, title
	var content, whole bytes.Buffer
	err := v.templates.ExecuteTemplate(&content, name+".html", p)
	if err == nil {
		p.Content = template.HTML(content.String()) // Escaped by the template above.
		err = v.templates.ExecuteTemplate(&whole, "layout.html", p)
	}
	if err != nil {
		v.fault = errors.Join(v.fault, fmt.Errorf("render %s: %w", name, err))
		http.Error(v.w, "Something went wrong on our side. Try again in a minute.", http.StatusInternalServerError)
		return
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(whole.Bytes()) // The browser may have disconnected.
}

// html reports whether the browser wants a page and not JSON.
func (v *visit) html() bool { return strings.Contains(v.r.Header.Get("Accept"), "text/html") }

// refuse answers with a problem, as a page or as JSON.
func (v *visit) refuse(err error) {
	if v.r.Context().Err() != nil {
		v.w.Status = statusClientClosed // For the log; nobody reads the response.
		return
	}
	p := problem.Of(err)
	if p.Kind.Code == problem.Internal.Code && postgres.Unavailable(err) {
		p = problem.ServiceUnavailable.New("The service cannot reach its database right now.").After(2).Because(err)
	}
	if p.Kind.Status >= http.StatusInternalServerError {
		v.fault = err
	}
	if p.RetryAfter > 0 {
		v.w.Header().Set("Retry-After", fmt.Sprint(p.RetryAfter))
	}
	if v.html() {
		v.showBroken(p.Kind)
		return
	}
	document, err := p.Document(problem.Place{ProblemsURL: v.deps.Config.PublicURL + "/problems", Instance: "urn:request:" + string(v.request)})
	if err != nil {
		v.fault = errors.Join(v.fault, err)
	}
	v.w.Header().Set("Content-Type", problem.ContentType)
	v.w.WriteHeader(p.Kind.Status)
	_, _ = v.w.Write(document)
}

func (v *visit) showBroken(k problem.Kind) {
	text := "Something went wrong on our side. Try again in a minute."
	switch {
	case k.Code == problem.CrossOriginRefused.Code:
		text = "This request came from a page of another site, so nothing was done. Open the dashboard and try again."
	case k.Status < http.StatusInternalServerError:
		text = "This is not possible. " + k.Fix
	}
	v.show(k.Status, "broken", k.Title, &page{Note: text})
}

// statusClientClosed is nginx's status for a client that disconnected.
const statusClientClosed = 499

// notFound answers requests for addresses that are not a page.
func (v *visit) notFound() {
	if v.html() {
		v.show(http.StatusNotFound, "broken", "Page not found", &page{Note: "This page does not exist."})
		return
	}
	v.refuse(problem.RouteNotFound.New("Nothing is served at this path."))
}

func (v *visit) showTooMany() {
	v.w.Header().Set("Retry-After", "60")
	if v.html() {
		v.show(http.StatusTooManyRequests, "broken", "Too many requests", &page{Note: "Your network sent too many requests. Wait a minute, then try again."})
		return
	}
	v.refuse(problem.QuotaExceeded.New("Too many requests from this network.").After(60).With("reason", "auth_failures"))
}

// recover turns a panic into a page.
func (v *visit) recover() {
	reason := recover()
	if reason == nil {
		return
	}
	accesslog.LogPanic(v.deps.Log, v.r, v.request, reason)
	if v.w.Status == 0 {
		v.refuse(errPanic)
	}
}

var errPanic = errors.New("panic")

// finish writes the log line of the visit.
func (v *visit) finish() {
	line := accesslog.Line{Request: v.request, Page: v.name, Took: v.deps.Now().Sub(v.started), Fault: v.fault}
	if v.person != "" {
		line.About = append(line.About, slog.String(logkey.PersonID, string(v.person)))
	}
	line.Write(v.deps.Log, v.r, v.w)
}
