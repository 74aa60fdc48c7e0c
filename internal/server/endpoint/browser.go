package endpoint

import (
	"context"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
)

// Browser finds out who calls by a cookie in place of a key: for pages of ours that call the face from the same origin.
type Browser struct {
	// Cookie is its name.
	Cookie string
	// Identify judges its value. Its errors are problems.
	Identify func(r *http.Request, value string) (Identity, error)
}

// byCookie finds out who calls by the cookie; ok is false if there is none to look at. A request with a key is the key's.
func (t *Table) byCookie(r *http.Request) (who Identity, ok bool, err error) {
	if t.Browser == nil || r.Header["Authorization"] != nil {
		return Identity{}, false, nil
	}
	given := r.CookiesNamed(t.Browser.Cookie)
	if len(given) == 0 {
		return Identity{}, false, nil
	}
	if !t.origins.Strict(r) {
		return Identity{}, true, problem.CrossOriginRefused.New("The request was made by a page of another site. The cookie of the dashboard is good for its own pages only.")
	}
	if len(given) > 1 {
		// The browser keeps one; a second was put there by somebody else.
		return Identity{}, true, problem.SignedOut.New("The request has more than one session.")
	}
	who, err = t.Browser.Identify(r, given[0].Value)
	return who, true, err
}

// grownAfter is how old the scopes of a browser may be that are refused by them.
const grownAfter = time.Second

// grown reads a browser again whose scopes do not suffice: unlike a key's they can grow, and what is refused here does not get to the
// admission that would notice.
func (t *Table) grown(ctx context.Context, call *Call, who Identity) (Identity, error) {
	p := who.Principal
	if p == nil || p.Key.Kind != apikey.KindSession || who.Scopes.Has(call.op.Scope) || call.started.Sub(p.ReadAt()) < grownAfter {
		return who, nil
	}
	return t.Auth.Refresh(ctx, who)
}
