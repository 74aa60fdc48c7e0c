package dashboard

import (
	"context"
	"errors"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

// guessing refuses a source that has opened too many links that do not exist.
func (v *visit) guessing() bool {
	if !v.misses.Spent(v.source) {
		return false
	}
	v.showTooMany()
	return true
}

// missing answers for a link that does not work; other errors are shown as they are.
func (v *visit) missing(err error) {
	if !errors.Is(err, problem.InvitationGone.New("")) {
		v.refuse(err)
		return
	}
	v.misses.Take(v.source)
	v.show(http.StatusNotFound, "broken", "This link does not work", &page{
		Note: "It was used already, has expired, or was withdrawn. Ask whoever sent it for a new one. If you have joined before, sign in.", Who: "/app/sign-in",
	})
}

// getInvitation shows who invites. It uses nothing up, so mail scanners do no harm.
func (v *visit) getInvitation() {
	if v.guessing() {
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	v.showInvitation(ctx, http.StatusOK, "")
}

func (v *visit) showInvitation(ctx context.Context, status int, wrong string) {
	offered, err := v.Members.Offered(ctx, secret.New(v.r.PathValue("token")))
	if err != nil {
		v.missing(err)
		return
	}
	o, err := v.Orgs.Get(ctx, offered.Org)
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

// postInvitation takes it up, for whoever is signed in with the invited address.
func (v *visit) postInvitation() {
	if v.guessing() {
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	_, err := v.Members.Join(ctx, v.by(), v.cookie(), secret.New(v.r.PathValue("token")))
	switch {
	case errors.Is(err, member.ErrOtherEmail):
		v.showInvitation(ctx, http.StatusForbidden, "You are signed in with another address than the invited one.")
	case errors.Is(err, problem.SignedOut.New("")):
		http.Redirect(v.w, v.r, signInAt(v.r.URL.Path), http.StatusSeeOther)
	case err != nil:
		v.missing(err)
	default:
		http.Redirect(v.w, v.r, home, http.StatusSeeOther)
	}
}

// getSupport shows an operator what is about to be opened.
func (v *visit) getSupport() {
	if v.guessing() {
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	offered, err := v.Members.SupportOffered(ctx, secret.New(v.r.PathValue("token")))
	if err != nil {
		v.missing(err)
		return
	}
	v.show(http.StatusOK, "support", "Support access", &page{Org: offered.Org.Name, Offer: offered})
}

// postSupport signs an operator's browser in, to read one org for a while.
func (v *visit) postSupport() {
	if v.guessing() {
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	if old := v.cookie(); !old.Empty() {
		if err := v.Members.SignOut(ctx, v.by(), old); err != nil {
			v.refuse(err)
			return
		}
	}
	b, cookie, err := v.Members.SignInSupport(ctx, v.by(), secret.New(v.r.PathValue("token")), v.r.UserAgent())
	if err != nil {
		v.missing(err)
		return
	}
	v.enter(b, cookie, home)
}
