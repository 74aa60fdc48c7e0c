package connectpages

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/server/accesslog"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// variant is the form in which a page is shown.
type variant string

const (
	full     variant = "full"
	phone    variant = "phone"
	embedded variant = "embed"
)

// visit is one request of a browser.
type visit struct {
	*Pages
	name    string
	w       *accesslog.Recorder
	r       *http.Request
	started time.Time
	source  string
	request id.Request
	nonce   string
	variant variant
	words   words
	// path is the address to which the forms of the page are sent.
	path string
	org  Org
	// platform is the platform that the page is about; its Catalog is nil if it is not known. site is the address of
	// the creator's site on it, or empty.
	platform registry.Platform
	site     string
	// session is the hosted session of the page, if there is one.
	session *link.Session
	// formTo lists the origins to which the answer to a form of the page may send the browser.
	formTo []string
	fault  error
}

// page is the data of a template.
type page struct {
	*visit
	Content template.HTML
	Title   string
	// Stage is the progress of the creator.
	Stage stage
	// Problem is the error message, Field the field that it belongs to.
	Problem template.HTML
	Field   string
	// Live is set while the page can change without a reload.
	Live *live
	// End is the result for the site that embeds the page: success, exit or error.
	End    string
	Return string

	View View
	// Code is set on the page that asks for a code.
	Code codePage
	// Site and Email are what the creator typed before. SiteTitle is the title of the site that was found.
	Site, Email, SiteTitle string
	// Remember is whether the box to store the password is ticked.
	Remember bool
	Steps    []step
	// Slow is the message about a sign-in that takes long.
	Slow template.HTML
	// Manage is the path of the creator's own page about the connection.
	Manage     string
	Connection Connection
	// Since is a day: when the account was connected, or the link was opened. Clock is the time on that day, in UTC.
	Since, Clock string
	// Browser is the kind of browser that opened the link. Again means that the creator may start again in this one, Lost
	// that this one had opened the link before.
	Browser     link.Browser
	Again, Lost bool
	// QR is the address of the QR code, or empty.
	QR string
	// Host is the address of all pages, which a creator compares with the address bar.
	Host string
}

// stage is how far the creator has come; nowhere for a page without a progress bar.
type stage int

const (
	nowhere stage = iota
	// atSite is a stage only for creators who have to name their site.
	atSite
	atStart
	atSignIn
	atEnd
)

// StepCount returns the number of steps in the progress bar.
func (p *page) StepCount() int {
	if p.asksSite() {
		return int(atEnd)
	}
	return int(atEnd - atSite)
}

// Step returns the number of this step.
func (p *page) Step() int { return int(p.Stage) - (int(atEnd) - p.StepCount()) }

type step struct {
	Text  template.HTML
	State string
}

// T returns a text in the language of the page, escaped for HTML.
func (p *page) T(key string, pairs ...string) (template.HTML, error) {
	return p.words.html(p.textKey(key), p.fillIn(pairs)...)
}

func (p *page) Lang() string { return p.words.lang }

// language is a language of the pages, with its own name for itself.
type language struct{ Tag, Name string }

// Languages returns the languages of the pages.
func (p *page) Languages() []language {
	list := make([]language, 0, len(p.Pages.words))
	for _, tag := range link.Locales() {
		list = append(list, language{tag, p.Pages.words[tag].texts["language"]})
	}
	return list
}

// Language returns the name of the page's language.
func (p *page) Language() string { return p.words.texts["language"] }

// In returns the address of this page in a language.
func (p *page) In(lang string) string {
	query := url.Values{"lang": {lang}}
	if p.r.URL.Query().Has("again") {
		query.Set("again", "1")
	}
	site := p.Site
	if p.r.Method == http.MethodPost {
		site = cmp.Or(site, p.SiteURL()) // The form is not at an address of its own.
	}
	if site != "" {
		query.Set("again", "1")
		query.Set("site", site)
	}
	return p.path + "?" + query.Encode()
}

// Action returns the address to which forms are sent: this page, in its language.
func (p *page) Action() string { return p.path + p.lang() }

// lang returns the query that keeps the chosen language for the next request.
func (v *visit) lang() string {
	if v.r.URL.Query().Get("lang") == v.words.lang {
		return "?lang=" + v.words.lang
	}
	return ""
}

// Org returns the org, for the layout.
func (p *page) Org() Org { return p.org }

func (p *page) Nonce() string { return p.nonce }

func (p *page) Version() string { return p.version }

func (p *page) Style() template.CSS { return style(p.org.Page) }

// Identity returns the address of the page that says who operates this one; empty if the org is not known.
func (p *page) Identity() string {
	if p.org.ID == "" || p.name == identityName {
		return ""
	}
	return "/connect/identity/" + string(p.org.ID) + "?lang=" + p.words.lang
}

// Embed reports whether the page is embedded in another site.
func (p *page) Embed() bool { return p.variant == embedded }

func (p *page) Phone() bool { return p.variant == phone }

// Session returns the hosted session, or nil.
func (p *page) Session() *link.Session { return p.session }

// Initial returns the first letter of the org's name.
func (p *page) Initial() string { return initial(p.org.Name) }

// AccountTitle and AccountHandle name the account that was connected: Luna Vega, and @luna. The handle is empty if the
// title is the only name.
func (p *page) AccountTitle() string { return cmp.Or(p.Connection.DisplayName, p.Connection.Name) }

func (p *page) AccountHandle() string {
	if p.Connection.Name == p.AccountTitle() {
		return ""
	}
	return p.Connection.Name
}

// AccountInitial stands for the picture of the account, which is at the platform: the pages load nothing from there.
func (p *page) AccountInitial() string { return initial(p.AccountTitle()) }

// Logo returns the address of the org's logo; empty if it has none.
func (p *page) Logo() string {
	if p.org.Page.LogoTag == "" {
		return ""
	}
	return link.LogoPath(p.org.ID, p.org.Page.LogoTag)
}

// Origins returns the sites that the page may send messages to.
func (p *page) Origins() string { return strings.Join(p.origins(), " ") }

// origins returns the sites that may frame the page: those of the session, or else those of the org.
func (v *visit) origins() []string {
	if v.session != nil && len(v.session.AllowedOrigins) > 0 {
		return v.session.AllowedOrigins
	}
	return v.org.Page.AllowedOrigins
}

// setOrg sets the org of the page, and so its language and the sites that may frame it.
func (v *visit) setOrg(o Org, locale string) {
	v.org = o
	v.r = v.r.WithContext(postgres.WithOrg(v.r.Context(), o.ID))
	v.words = v.Pages.words[chooseLang(v.r, locale)]
	v.secure(v.origins())
}

func (v *visit) show(status int, name string, p *page) {
	p.visit = v
	if p.Title == "" {
		title, err := v.text(name + ".title")
		if err != nil {
			v.fail(err)
			return
		}
		p.Title = title
	}
	var content, whole bytes.Buffer
	err := v.templates.ExecuteTemplate(&content, name+".html", p)
	if err == nil {
		p.Content = template.HTML(content.String()) // Escaped by the template above.
		err = v.templates.ExecuteTemplate(&whole, "layout.html", p)
	}
	if err != nil {
		v.fail(fmt.Errorf("render %s: %w", name, err))
		return
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(whole.Bytes())
}

// fail answers with plain text if no page can be rendered.
func (v *visit) fail(err error) {
	v.fault = errors.Join(v.fault, err)
	http.Error(v.w, "Something went wrong on our side. Try again in a minute.", http.StatusInternalServerError)
}

// redirect makes the browser load the page again with GET, so that a reload repeats nothing.
func (v *visit) redirect(path string) {
	http.Redirect(v.w, v.r, path+v.lang(), http.StatusSeeOther)
}

// showGone shows the page of a link that does not work, whatever the reason.
func (v *visit) showGone(status int) { v.show(status, "expired", &page{End: "error"}) }

// stopIfSuspended answers requests for pages of a suspended org, and reports whether it did.
func (v *visit) stopIfSuspended(o Org) bool {
	if o.Suspended {
		v.showSuspended()
	}
	return o.Suspended
}

// showSuspended shows the page of an org that may not connect accounts. It has no form.
func (v *visit) showSuspended() { v.show(http.StatusForbidden, "suspended", &page{End: "error"}) }

// showUnavailable shows the same page for an org whose platform cannot be used.
func (v *visit) showUnavailable() {
	v.show(http.StatusServiceUnavailable, "suspended", &page{End: "error"})
}

// notFound answers requests for addresses that are not a page.
func (v *visit) notFound() { v.showGone(http.StatusNotFound) }

func (v *visit) showTooMany() {
	v.w.Header().Set("Retry-After", "60")
	v.show(http.StatusTooManyRequests, "busy", &page{})
}

// showBroken shows the page of an internal failure. It contains nothing of the error.
func (v *visit) showBroken(status int, err error) {
	v.fault = err
	v.show(status, "broken", &page{})
}

// showError shows what an error means for a creator, if no part of a page can show it.
func (v *visit) showError(err error) {
	kind := problem.Of(err).Kind
	switch {
	case v.r.Context().Err() != nil:
		v.w.Status = statusClientClosed // For the log; nobody reads the response.
	case kind.Status == http.StatusNotFound:
		v.misses.Take(v.source)
		v.showGone(http.StatusNotFound)
	case kind.Code == problem.QuotaExceeded.Code:
		v.showTooMany()
	case kind.Code == problem.Internal.Code:
		v.showBroken(http.StatusServiceUnavailable, err)
	default:
		v.showBroken(kind.Status, nil)
	}
}

// statusClientClosed is nginx's status for a client that disconnected.
const statusClientClosed = 499

// stopIfGuessing refuses a source that has opened too many links that do not exist, and reports whether it did.
func (v *visit) stopIfGuessing() bool {
	if !v.misses.Spent(v.source) {
		return false
	}
	v.showTooMany()
	return true
}

// actor returns the creator as the actor of an audit entry.
func (v *visit) actor(who, action string) audit.By {
	return audit.By{Kind: audit.ActorCreator, ID: who, Action: action, Request: v.request, IPHash: v.deps.HashIP(v.source)}
}

// pageTimeout bounds the time to answer, including the platform's check of a code.
const pageTimeout = 20 * time.Second

func (v *visit) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(v.r.Context(), pageTimeout)
}
