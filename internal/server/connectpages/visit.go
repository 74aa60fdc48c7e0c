package connectpages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/server/accesslog"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// variant is how a page is shown.
type variant string

const (
	full     variant = "full"
	phone    variant = "phone"
	embedded variant = "embed"
)

// visit is one request of a browser's.
type visit struct {
	*Hosted
	name    string
	w       *accesslog.Recorder
	r       *http.Request
	began   time.Time
	source  string
	request id.Request
	nonce   string
	variant variant
	words   words
	// path is where this page's forms go.
	path string
	org  Org
	// session is the hosted session of the page, if it has one.
	session *link.Session
	fault   error
}

// page is what templates see.
type page struct {
	*visit
	Content template.HTML
	Title   string
	// Bar is how far the creator is, from 1 to 3; 0 shows no bar.
	Bar int
	// Problem is what went wrong, in words; Field is the field that it belongs to.
	Problem template.HTML
	Field   string
	// Live is set while the page can change by itself.
	Live *live
	// End is how it ended, for the site that frames the page: success, exit or error.
	End    string
	Return string

	View View
	// Code is the page of a code.
	Code codePage
	// Email is what was typed before.
	Email string
	// Remember is whether the box to keep the password is ticked.
	Remember bool
	// Steps are those of signing in; Step is the one under way.
	Steps []step
	// Slow is the word on how long it takes.
	Slow template.HTML
	// Manage is the path of the creator's own page about the connection.
	Manage     string
	Connection Connection
	Since      string
	// QR is the address of the picture, or empty.
	QR string
}

type step struct {
	Text  template.HTML
	State string
}

// T is a text of the page's language, ready for the page.
func (p *page) T(key string, pairs ...string) (template.HTML, error) {
	return p.words.html(key, append(pairs, "org", p.org.Name)...)
}

// Lang is the page's language, Other the one that can be chosen instead.
func (p *page) Lang() string { return p.words.lang }

// Other is the language that can be chosen instead.
func (p *page) Other() string {
	if p.words.lang == "en" {
		return "es"
	}
	return "en"
}

// Switch is the address of this page in the other language.
func (p *page) Switch() string {
	query := url.Values{"lang": {p.Other()}}
	if p.r.URL.Query().Has("again") {
		query.Set("again", "1")
	}
	return p.path + "?" + query.Encode()
}

// Action is where forms go: this page, in its language.
func (p *page) Action() string { return p.path + p.lang() }

// lang keeps the language that was asked for over the next request.
func (v *visit) lang() string {
	if v.r.URL.Query().Get("lang") == v.words.lang {
		return "?lang=" + v.words.lang
	}
	return ""
}

// Org, Nonce, Version, Style, Embed and Phone are for the layout.
func (p *page) Org() Org { return p.org }

// Nonce is this answer's.
func (p *page) Nonce() string { return p.nonce }

// Version is that of the files.
func (p *page) Version() string { return p.version }

// Style is the org's.
func (p *page) Style() template.CSS { return style(p.org.Page) }

// Embed says whether the page is within another site's.
func (p *page) Embed() bool { return p.variant == embedded }

// Phone says whether the page is the one for phones.
func (p *page) Phone() bool { return p.variant == phone }

// Session is the hosted session's, or nil.
func (p *page) Session() *link.Session { return p.session }

// Initial is the first letter of the org's name.
func (p *page) Initial() string {
	first, _ := utf8.DecodeRuneInString(strings.TrimSpace(p.org.Name))
	return string(unicode.ToUpper(first))
}

// Origins are the sites that the page may speak to.
func (p *page) Origins() string { return strings.Join(p.origins(), " ") }

// origins are those that may frame the page: the session's own, else the org's.
func (v *visit) origins() []string {
	if v.session != nil && len(v.session.AllowedOrigins) > 0 {
		return v.session.AllowedOrigins
	}
	return v.org.Page.AllowedOrigins
}

// known sets whose page it is, and so its language and who may frame it.
func (v *visit) known(o Org, locale string) {
	v.org = o
	v.words = v.Hosted.words[choose(v.r, locale)]
	v.secure(v.origins())
}

// show writes a page.
func (v *visit) show(status int, name string, p *page) {
	p.visit = v
	if p.Title == "" {
		title, err := v.words.plain(name+".title", "org", v.org.Name)
		if err != nil {
			v.fail(err)
			return
		}
		p.Title = title
	}
	var content, whole bytes.Buffer
	err := v.templates.ExecuteTemplate(&content, name+".html", p)
	if err == nil {
		p.Content = template.HTML(content.String()) // made by the line above
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

// fail is the answer when not even a page can be made.
func (v *visit) fail(err error) {
	v.fault = errors.Join(v.fault, err)
	http.Error(v.w, "Something went wrong on our side. Try again in a minute.", http.StatusInternalServerError)
}

// again sends the browser to read its page anew, so that a reload repeats nothing.
func (v *visit) again(path string) {
	http.Redirect(v.w, v.r, path+v.lang(), http.StatusSeeOther)
}

// showGone is the page of a link that does not work, whatever the reason.
func (v *visit) showGone(status int) { v.show(status, "expired", &page{End: "error"}) }

// suspended answers for a page of an org that is suspended, and reports whether it did.
func (v *visit) suspended(o Org) bool {
	if o.Suspended {
		v.showSuspended()
	}
	return o.Suspended
}

// showSuspended is the page of an org that may not connect accounts now. It asks for nothing.
func (v *visit) showSuspended() { v.show(http.StatusForbidden, "suspended", &page{End: "error"}) }

// gone answers for addresses that no page has.
func (v *visit) gone() { v.showGone(http.StatusNotFound) }

func (v *visit) showTooMany() {
	v.w.Header().Set("Retry-After", "60")
	v.show(http.StatusTooManyRequests, "busy", &page{})
}

// showBroken is the page of a failure of ours. Nothing of the error is on it.
func (v *visit) showBroken(status int, err error) {
	v.fault = err
	v.show(status, "broken", &page{})
}

// trouble shows what an error means for a creator. It is for errors that no part of a page can show.
func (v *visit) trouble(err error) {
	kind := problem.Of(err).Kind
	switch {
	case v.r.Context().Err() != nil:
		v.w.Status = statusGone // nobody is there to read it
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

// statusGone is nginx's way of saying in a log that the browser went away.
const statusGone = 499

// guessing refuses a source that has opened too many links that do not exist.
func (v *visit) guessing() bool {
	if !v.misses.Spent(v.source) {
		return false
	}
	v.showTooMany()
	return true
}

// by is the creator, doing something.
func (v *visit) by(who, action string) audit.By {
	return audit.By{Kind: audit.ActorCreator, ID: who, Action: action, Request: v.request, IPHash: v.HashIP(v.source)}
}

// patience bounds what a page may take to answer, a code's verdict included.
const patience = 20 * time.Second

func (v *visit) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(v.r.Context(), patience)
}
