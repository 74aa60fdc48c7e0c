package dashboard

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/server/openid"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

// OIDC holds the settings of an OpenID Connect identity provider.
type OIDC struct {
	// Issuer is its address; empty for none.
	Issuer   string
	ClientID string
	Secret   secret.String
	// Name is shown on the sign-in page.
	Name string
	// RequireAuthTime is that of openid.Config.
	RequireAuthTime bool
}

func newProvider(d Deps) (*openid.Provider, error) {
	c := d.Config.OIDC
	return openid.New(openid.Config{
		Issuer: c.Issuer, ClientID: c.ClientID, Secret: c.Secret, Callback: d.Config.PublicURL + "/app/callback",
		Cookie: "__Host-sd_signin", Key: d.Config.Key, Purpose: "stagedoor dashboard sign-in",
		Recent: member.Recent, RequireAuthTime: c.RequireAuthTime,
	}, d.Client, d.Now)
}

// providerName returns the name for the sign-in page; empty if there is no provider.
func (b *Dashboard) providerName() string {
	if !b.provider.Exists() {
		return ""
	}
	return cmp.Or(b.deps.Config.OIDC.Name, "single sign-on")
}

// getStart redirects the browser to the identity provider.
func (v *visit) getStart() {
	query := v.r.URL.Query()
	to := safeTo(query.Get("to"))
	if !v.provider.Exists() {
		v.notFound()
		return
	}
	if !v.posts.Take(v.source) {
		v.showTooMany()
		return
	}
	prompt := openid.Nothing
	switch {
	case query.Has("fresh"):
		prompt = openid.Again
	case query.Has("again"):
		prompt = openid.Account
	}
	ctx, cancel := v.context()
	defer cancel()
	address, err := v.provider.Begin(ctx, v.w, to, prompt)
	if err != nil {
		v.showSignInError(to, err)
		return
	}
	http.Redirect(v.w, v.r, address, http.StatusSeeOther)
}

// getCallback completes a sign-in when the identity provider sends the browser back.
func (v *visit) getCallback() {
	if !v.provider.Exists() {
		v.notFound()
		return
	}
	if !v.posts.Take(v.source) {
		v.showTooMany()
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	c, to, err := v.provider.Finish(ctx, v.w, v.r)
	to = cmp.Or(to, home)
	if err != nil {
		v.showSignInError(to, err)
		return
	}
	v.signIn(ctx, member.Claims{
		Issuer: c.Issuer, Subject: c.Subject, Email: c.Email, Name: c.Name, AuthenticatedAt: c.AuthenticatedAt,
	}, member.Welcome{}, to)
}

// showSignInError shows why a sign-in failed.
func (v *visit) showSignInError(to string, err error) {
	status, text, expected := openid.Explain(err)
	if !expected {
		v.fault = err
	}
	v.showSignIn(status, &page{To: to, Problem: text, Fresh: errors.Is(err, openid.ErrNotFresh)})
}
