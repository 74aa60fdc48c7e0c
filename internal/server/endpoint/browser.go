package endpoint

import (
	"context"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
)

// Browser authenticates callers by a cookie instead of a key, for our own pages that call the API from the same origin.
type Browser struct {
	Cookie string
	// Identify checks the value of the cookie. Its errors are problems.
	Identify func(r *http.Request, value string) (Identity, error)
	// RequireRecent returns a problem if the sign-in of a browser is too old for operations with Recent.
	RequireRecent func(ctx context.Context, browser id.BrowserSession) error
}

// checkRecent checks that the sign-in of a browser is recent, if the operation needs that.
func (t *Table) checkRecent(w http.ResponseWriter, r *http.Request, call *Call) error {
	p := call.Identity.Principal
	if !call.op.Recent || p == nil || p.Key.Kind != apikey.KindSession {
		return nil
	}
	err := t.deps.Browser.RequireRecent(r.Context(), p.Key.Session)
	if err != nil {
		t.limitRest(w)
	}
	return err
}

// byCookie authenticates the caller by the cookie. ok is false if the request has none, or has an Authorization header,
// which takes precedence.
func (t *Table) byCookie(r *http.Request) (who Identity, ok bool, err error) {
	if t.deps.Browser == nil || r.Header["Authorization"] != nil {
		return Identity{}, false, nil
	}
	given := r.CookiesNamed(t.deps.Browser.Cookie)
	if len(given) == 0 {
		return Identity{}, false, nil
	}
	if !t.origins.Strict(r) {
		return Identity{}, true, problem.CrossOriginRefused.New("The request came from a page of another site. The dashboard's cookie works only on its own pages.")
	}
	if len(given) > 1 {
		// A browser keeps one cookie of this name, so the second was injected.
		return Identity{}, true, problem.SignedOut.New("The request has more than one session cookie.")
	}
	who, err = t.deps.Browser.Identify(r, given[0].Value)
	return who, true, err
}

// maxScopeAge is the age from which the scopes of a browser are reloaded before they refuse a call.
const maxScopeAge = time.Second

// refreshBrowser reloads a browser's identity whose scopes do not suffice. Unlike those of a key they can grow, and a
// call that is refused here never reaches admission, which would notice.
func (t *Table) refreshBrowser(ctx context.Context, call *Call, who Identity) (Identity, error) {
	p := who.Principal
	if p == nil || p.Key.Kind != apikey.KindSession || who.Scopes.Has(call.op.Scope) || call.Origin.Started.Sub(p.ReadAt()) < maxScopeAge {
		return who, nil
	}
	return t.deps.Auth.Refresh(ctx, who)
}
