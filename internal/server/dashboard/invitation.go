package dashboard

import (
	"context"
	"errors"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

// stopIfGuessing refuses a source that has opened too many links that do not exist, and reports whether it did.
func (v *visit) stopIfGuessing() bool {
	if !v.misses.Spent(v.source) {
		return false
	}
	v.showTooMany()
	return true
}

// showLinkError shows the page of a link that does not work, or any other error.
func (v *visit) showLinkError(err error) {
	if !errors.Is(err, problem.InvitationGone.New("")) {
		v.refuse(err)
		return
	}
	v.misses.Take(v.source)
	v.show(http.StatusNotFound, "broken", "This link does not work", &page{
		Note: "The link was already used, has expired or was withdrawn. Ask the sender for a new link. If you have joined before, sign in.", Who: "/app/sign-in",
	})
}

// getInvitation shows an invitation. Opening it does not use it up, so mail scanners do no harm.
func (v *visit) getInvitation() {
	if v.stopIfGuessing() {
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	v.showInvitation(ctx, http.StatusOK, "")
}

func (v *visit) showInvitation(ctx context.Context, status int, wrong string) {
	offered, err := v.deps.Members.Offered(ctx, secret.New(v.r.PathValue("token")))
	if err != nil {
		v.showLinkError(err)
		return
	}
	o, err := v.deps.Orgs.Get(ctx, offered.Org)
	if err != nil {
		v.refuse(err)
		return
	}
	b, ok, err := v.signedIn(ctx)
	if err != nil {
		v.refuse(err)
		return
	}
	p := &page{Org: o.Name, Invitation: offered, Problem: wrong, To: signInAt(v.r.URL.Path)}
	if ok && b.Person.ID != "" {
		p.Who = b.Person.Email
		if p.Who != offered.Email {
			p.To = signInAt(v.r.URL.Path) + "&again=1"
		}
	}
	v.show(status, "invitation", "Join "+o.Name, p)
}

// postInvitation accepts an invitation if the signed-in user has the invited address.
func (v *visit) postInvitation() {
	if v.stopIfGuessing() {
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	_, err := v.deps.Members.Join(ctx, v.actor(), v.cookie(), secret.New(v.r.PathValue("token")))
	switch {
	case errors.Is(err, member.ErrOtherEmail):
		v.showInvitation(ctx, http.StatusForbidden, "You are signed in with another address. Sign in with the invited one.")
	case errors.Is(err, problem.SignedOut.New("")):
		http.Redirect(v.w, v.r, signInAt(v.r.URL.Path), http.StatusSeeOther)
	case err != nil:
		v.showLinkError(err)
	default:
		http.Redirect(v.w, v.r, home, http.StatusSeeOther)
	}
}

// getSupport shows an operator which org is about to be opened.
func (v *visit) getSupport() {
	if v.stopIfGuessing() {
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	offered, err := v.deps.Members.SupportOffered(ctx, secret.New(v.r.PathValue("token")))
	if err != nil {
		v.showLinkError(err)
		return
	}
	v.show(http.StatusOK, "support", "Support access", &page{Org: offered.Org.Name, Offer: offered})
}

// postSupport signs an operator's browser in, read-only, to one org for a limited time.
func (v *visit) postSupport() {
	if v.stopIfGuessing() {
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	if old := v.cookie(); !old.Empty() {
		if err := v.deps.Members.SignOut(ctx, v.actor(), old); err != nil {
			v.refuse(err)
			return
		}
	}
	b, cookie, err := v.deps.Members.SignInSupport(ctx, v.actor(), secret.New(v.r.PathValue("token")), v.r.UserAgent())
	if err != nil {
		v.showLinkError(err)
		return
	}
	v.startSession(b, cookie, home)
}
