package connectpages

import (
	"net/http"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// A creator who doubts a page follows one link to the page of an org's identity, which says at which address our pages
// are, who operates them, and for whom. Its address contains the id of the org, which is public, and no token, so that
// it can be passed on.
const (
	identityName    = "connectIdentity"
	identityPattern = "GET /connect/identity/{org}"
)

func (v *visit) getIdentity() {
	if v.stopIfGuessing() {
		return
	}
	org, err := id.Parse[id.Org](v.r.PathValue("org"))
	if err != nil {
		v.misses.Take(v.source)
		v.notFound()
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	o, err := v.deps.Orgs.Org(ctx, org)
	if err != nil {
		v.showError(err)
		return
	}
	v.setOrg(o, "")
	since, err := v.words.date(o.Since.UTC())
	if err != nil {
		v.fail(err)
		return
	}
	status := http.StatusOK
	if o.Suspended {
		status = http.StatusForbidden
	}
	v.show(status, "identity", &page{Since: since, Host: strings.TrimRight(v.deps.Config.URL, "/") + "/"})
}

// IsTest reports whether the org connects only accounts of a test platform.
func (p *page) IsTest() bool { return p.org.Environment.IsTest() }

// IsSuspended reports whether the org may not connect accounts.
func (p *page) IsSuspended() bool { return p.org.Suspended }
