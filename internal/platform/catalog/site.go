package catalog

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/shape"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

// Site describes a platform whose creators each have a site of their own.
type Site struct {
	// Example is the address of a site, to show to people.
	Example string

	path      string
	id, title []string
}

// SiteInfo is what a site says about itself.
type SiteInfo struct {
	// ID is unique among all sites of the platform.
	ID string
	// Title is one line, or empty.
	Title string
}

// Request builds the request that checks a site. It needs no session.
func (s *Site) Request() Request { return Request{Method: http.MethodGet, Path: s.path} }

// Read parses the response to Request. Errors are ErrInvalid and ErrChanged; both mean that the site does not run the
// platform's software.
func (s *Site) Read(body []byte) (SiteInfo, error) {
	t, err := tape.Read(body, frameLimits)
	if err != nil {
		return SiteInfo{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	defer t.Release()
	info := SiteInfo{
		ID:    oneLine(textAt(t, tape.Root, s.id), maxSiteID),
		Title: oneLine(textAt(t, tape.Root, s.title), maxMessage),
	}
	if info.ID == "" {
		return SiteInfo{}, fmt.Errorf("%w: the response has no id of the site", ErrChanged)
	}
	return info, nil
}

// compileSite compiles where the accounts are: on one origin, or each on a site of its own.
func (c *compiler) compileSite() {
	u := c.doc.Upstream
	if (u.Origin == "") == (u.Site == nil) {
		c.upstreamFault("upstream: give either origin or site")
	}
	if u.Site == nil {
		return
	}
	_, path, _ := strings.Cut(u.Site.Check, " ")
	c.cat.Site = &Site{
		Example: u.Site.Example, path: c.cat.base + path,
		id: shape.SplitPath(u.Site.ID), title: shape.SplitPath(u.Site.Title),
	}
}

// maxSiteID bounds the id of a site, in characters.
const maxSiteID = 100
