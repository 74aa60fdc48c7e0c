package connectpages

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// On a platform where every creator has a site, the first page asks for its address. Only if the site runs the
// platform's software does the next page ask for a password. The address is stored with the attempt, not before: it
// travels in the form, and Start checks it again.

// showForm shows the first page of a session without an attempt in progress. last is the attempt that has failed, or
// nil.
func (v *visit) showForm(last *View) {
	query := v.r.URL.Query()
	switch {
	case v.stopIfUnavailable():
	case !v.asksSite():
		v.showStart("", "", "")
	case query.Has("site"):
		v.showSite("", query.Get("site"))
	case last != nil && last.Site != "":
		v.site = last.Site // It was checked when that attempt started.
		v.showStart("", "", "")
	default:
		v.showSite("", "")
	}
}

// checkSite checks the site that the creator has named, and then shows the form to sign in there.
func (v *visit) checkSite() {
	entered := v.r.PostFormValue("site")
	if !v.asksSite() || v.session.Status.Over() || v.session.Active != "" {
		v.redirect(v.path)
		return
	}
	site, ok := v.readSite()
	switch {
	case v.stopIfUnavailable():
		return
	case !ok:
		v.showSite("site.wrong", entered)
		return
	case !v.sites.Take(string(v.session.ID)):
		v.showTooMany()
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	place, err := v.deps.Attempts.FindSite(ctx, v.actor(string(v.session.ID), "connect.start"), *v.session, site)
	if err != nil {
		v.showSiteError(err, entered)
		return
	}
	v.site = place.Site
	v.showLogin(&page{SiteTitle: shorten(place.Title)}, "")
}

// takeSite sets the site that the creator has named on the page before. It returns false if it has answered the
// request.
func (v *visit) takeSite() bool {
	if !v.asksSite() {
		return true
	}
	site, ok := v.readSite()
	if !ok {
		v.showSite("", v.r.PostFormValue("site"))
		return false
	}
	v.site = site
	return true
}

func (v *visit) showSiteError(err error, entered string) {
	wrong := siteFault(err)
	if errors.Is(err, context.DeadlineExceeded) {
		wrong = siteDown
	}
	if wrong == "" {
		v.showError(err)
		return
	}
	v.showSite(wrong, entered)
}

// Messages that depend on more than the site.
const (
	siteDown = "site.down"
	noRoute  = "failed.egress_unavailable"
)

// siteFault returns the key of the message about a site that cannot be used; empty if the error has another cause.
func siteFault(err error) string {
	p := problem.Of(err)
	is := func(codes ...string) bool {
		return slices.ContainsFunc(p.Fields, func(f problem.Field) bool { return f.Pointer == "/site" && slices.Contains(codes, f.Code) })
	}
	switch {
	case is("form", "length", "userinfo"):
		return "site.wrong"
	case is("software", "redirect"):
		return "site.other"
	case p.Kind.Code == problem.UnsafeURL.Code:
		return "site.unsafe" // The host may not exist either: the two look alike.
	case p.Kind.Upstream():
		return siteDown
	case p.Kind.Code == problem.ConnectUnavailable.Code, p.Kind.Code == problem.EgressUnavailable.Code:
		return noRoute
	}
	return ""
}

// showSite asks for the site. wrong is the key of an error message about what the creator entered.
func (v *visit) showSite(wrong, entered string) {
	v.site = ""
	p := &page{visit: v, Stage: atSite, Site: entered, Return: v.exitURL("cancelled")}
	status := http.StatusOK
	if wrong != "" {
		status = http.StatusUnprocessableEntity
		if err := p.complain(wrong, 0); err != nil {
			v.fail(err)
			return
		}
	}
	v.show(status, "site", p)
}

// readSite reads the site in the form.
func (v *visit) readSite() (site string, ok bool) {
	return cleanSite(v.r.PostFormValue("site"), v.platform.Catalog.Site.Request().Path)
}

// maxSite bounds the address of a site, in bytes. maxTitle bounds its title on the page, in characters.
const (
	maxSite  = 2048
	maxTitle = 80
)

// cleanSite turns what people enter into the URL of a site: maya.example.com, http://maya.example.com/ and the address
// of the platform's own pages there, such as https://maya.example.com/ghost/#/posts, become https://maya.example.com.
// check is the path at which the platform's software answers, such as /ghost/api/admin/site/. ok is false for a text
// that is not an address.
func cleanSite(text, check string) (site string, ok bool) {
	text = strings.TrimSpace(text)
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxSite || u.User != nil || u.Scheme != "https" && u.Scheme != "http":
		return "", false
	case u.Port() == "" && !strings.Contains(strings.Trim(u.Host, "."), "."):
		return "", false
	case u.Port() == "": // An operator may allow a site with a port and without TLS.
		u.Scheme = "https"
	}
	path := u.EscapedPath() + "/"
	if folder, _, _ := strings.Cut(strings.TrimPrefix(check, "/"), "/"); folder != "" {
		path, _, _ = strings.Cut(path, "/"+folder+"/")
	}
	return u.Scheme + "://" + strings.ToLower(u.Host) + strings.TrimRight(path, "/"), true
}

// shorten cuts off the end of a long title.
func shorten(title string) string {
	if runes := []rune(title); len(runes) > maxTitle {
		return string(runes[:maxTitle-1]) + "…"
	}
	return title
}
