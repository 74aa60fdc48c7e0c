package driver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// Place is where an account is.
type Place struct {
	// Platform is the platform's id.
	Platform string
	// Site is the address that the customer gave, and Root the one that the platform's API is at. They differ if the
	// site redirects. All fields but Platform are empty for a platform without sites.
	Site, Root string
	// SiteID is unique among all sites of the platform. Title is the site's title, or empty.
	SiteID, Title string
}

// location is where the requests of an account are sent: an origin, and a path before the path of every request.
type location struct {
	origin, path string
	origins      egress.Origins
}

// originVariable stands for the origin of a request in headers of the manifest.
const originVariable = "$origin"

// locate returns where an account's requests are sent.
func (d *HTTP) locate(via Via) (location, error) {
	if d.deps.Catalog.Site == nil {
		return location{origin: d.deps.Origin, origins: d.origins}, nil
	}
	origins, err := egress.SiteOrigins(via.Site)
	if err != nil {
		return location{}, fmt.Errorf("%w: %w", egress.ErrNotSent, err)
	}
	at := location{origins: origins}
	at.origin, at.path = egress.SplitSite(via.Site)
	return at, nil
}

// newHeader returns the headers of a request that does not go through sendRequest.
func (d *HTTP) newHeader(at location, s Session) (http.Header, error) {
	header := http.Header{}
	for _, f := range d.commonHeaders {
		header[f.Name] = append(header[f.Name], f.Value)
	}
	for _, i := range d.originHeaders {
		header[d.commonHeaders[i].Name] = []string{at.origin}
	}
	s.applyTo(header, d.deps.Catalog.Session.UserAgent)
	if s.Credentials() != catalog.ByToken {
		return header, nil
	}
	value, err := d.signToken(s)
	if err != nil {
		return nil, err
	}
	for _, name := range d.deps.Catalog.Session.JWT.Omit {
		header.Del(name)
	}
	header.Set(d.deps.Catalog.Session.JWT.Header, value)
	return header, nil
}

// maxRedirects bounds the redirects that FindSite follows.
const maxRedirects = 3

// FindSite checks that a site runs the platform's software. It follows redirects of the check, because a site may have
// its API on another host; every address passes egress.CheckSite. Errors are problems, or the context's.
func (d *HTTP) FindSite(ctx context.Context, via Via, site string) (Place, error) {
	spec := d.deps.Catalog.Site
	if spec == nil {
		return Place{}, fmt.Errorf("platform %s has no sites", d.deps.Catalog.ID)
	}
	root, err := d.deps.Egress.CheckSite(site)
	if err != nil {
		return Place{}, err
	}
	place := Place{Platform: d.deps.Catalog.ID, Site: root}
	for range maxRedirects + 1 {
		via.Site = root
		r, err := d.exchange(ctx, via, Session{}, spec.Request(), d.limits())
		if err != nil {
			return Place{}, d.siteProblem(ctx, err)
		}
		if r.status < 300 || r.status > 399 {
			info, err := d.readSite(r)
			if err != nil {
				return Place{}, err
			}
			place.Root, place.SiteID, place.Title = root, info.ID, info.Title
			return place, nil
		}
		if root, err = d.followSite(root, r); err != nil {
			return Place{}, err
		}
	}
	return Place{}, invalidSite("redirect", "The site redirects too often.")
}

func invalidSite(code, detail string) *problem.Error {
	return problem.ValidationFailed.New(detail).At("/site", code, detail)
}

// otherSoftware returns the problem for a site that does not run the platform's software.
func (d *HTTP) otherSoftware(cause error) *problem.Error {
	return invalidSite("software", fmt.Sprintf("No %s answers at this address.", d.deps.Catalog.Name)).Because(cause)
}

// siteProblem returns the problem for a check without a response.
func (d *HTTP) siteProblem(ctx context.Context, err error) error {
	if errors.Is(err, egress.ErrNotPublic) {
		const detail = "The host does not resolve to a public address."
		return problem.UnsafeURL.New(detail).At("/site", "address", detail).Because(err)
	}
	return d.transportProblem(ctx, d.deps.Catalog.Verify, err)
}

// followSite returns the root of the site to which a check was redirected: the address without the path of the check.
func (d *HTTP) followSite(root string, r *reply) (string, error) {
	path := d.deps.Catalog.Site.Request().Path
	from, err := url.Parse(root + path)
	if err != nil {
		return "", d.otherSoftware(err)
	}
	to, err := from.Parse(r.header.Get("Location"))
	if err != nil || r.header.Get("Location") == "" {
		return "", d.otherSoftware(errors.New("the redirect has no valid address")) // the library's error contains it
	}
	prefix, ok := strings.CutSuffix(to.EscapedPath(), path)
	if !ok {
		return "", d.otherSoftware(errors.New("the check redirects to another page"))
	}
	if to.User != nil { // it would be lost below
		return "", d.otherSoftware(errors.New("the redirect has credentials"))
	}
	return d.deps.Egress.CheckSite(to.Scheme + "://" + to.Host + prefix)
}

// readSite reads the response to a check. A site that is unavailable may run the platform's software.
func (d *HTTP) readSite(r *reply) (catalog.SiteInfo, error) {
	if refused := d.classifyReply(r); refused != nil {
		switch refused.Kind {
		case catalog.RefusedUnavailable, catalog.RefusedRateLimited, catalog.RefusedError:
			return catalog.SiteInfo{}, refused.Problem(d.deps.Catalog.Verify)
		case catalog.RefusedSession, catalog.RefusedRestricted, catalog.RefusedCreatorOnly, catalog.RefusedForbidden,
			catalog.RefusedNotFound, catalog.RefusedConflict, catalog.RefusedRejected:
		}
		return catalog.SiteInfo{}, d.otherSoftware(refused)
	}
	info, err := d.deps.Catalog.Site.Read(r.body)
	if err != nil {
		return catalog.SiteInfo{}, d.otherSoftware(err)
	}
	return info, nil
}
