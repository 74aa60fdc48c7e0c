package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

// OIDC is an identity provider that speaks OpenID Connect.
type OIDC struct {
	// Issuer is its address; empty for none.
	Issuer   string
	ClientID string
	Secret   secret.String
	// Name is what people call it.
	Name string
}

// provider is the identity provider, once it has said where its parts are.
type provider struct {
	OIDC
	callback string
	client   *http.Client
	now      func() time.Time

	mu    sync.Mutex
	found *oidc.Provider
}

func newProvider(c OIDC, publicURL string, client *http.Client, now func() time.Time) *provider {
	return &provider{OIDC: c, callback: publicURL + "/app/callback", client: client, now: now}
}

// name is empty if there is no provider.
func (p *provider) name() string {
	if p.Issuer != "" && p.Name == "" {
		return "single sign-on"
	}
	return p.Name
}

// discover asks the provider where its parts are, until it has answered once.
func (p *provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil {
		return p.found, nil
	}
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.Issuer)
	if err != nil {
		return nil, fmt.Errorf("ask the identity provider for its parts: %w", err)
	}
	p.found = found
	return found, nil
}

func (p *provider) flow(found *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.Secret.Reveal(), Endpoint: found.Endpoint(), RedirectURL: p.callback,
		Scopes: []string{oidc.ScopeOpenID, "email", "profile"},
	}
}

// Reasons why somebody is not let in. They are shown in words of ours: what a provider says may come from anybody.
var (
	errDeclined   = errors.New("declined at the identity provider")
	errCode       = errors.New("the identity provider did not take the code")
	errNoIDToken  = errors.New("the identity provider gave no ID token")
	errNonce      = errors.New("the ID token is of another sign-in")
	errAudience   = errors.New("the ID token is for several clients, and not issued to this one")
	errUnverified = errors.New("the e-mail address is not verified")
)

// redeem turns a code into who somebody is.
func (p *provider) redeem(ctx context.Context, code string, of departure) (member.Claims, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return member.Claims{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := p.flow(found).Exchange(ctx, code, oauth2.VerifierOption(of.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		// Its text has the whole answer, which may be anything.
		return member.Claims{}, fmt.Errorf("%w: status %d", errCode, refused.Response.StatusCode)
	}
	if err != nil {
		return member.Claims{}, fmt.Errorf("redeem a code: %w", err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return member.Claims{}, errNoIDToken
	}
	// Issuer, audience, signature and expiry.
	proven, err := found.Verifier(&oidc.Config{ClientID: p.ClientID, Now: p.now}).Verify(ctx, raw)
	if err != nil {
		return member.Claims{}, fmt.Errorf("verify an ID token: %w", err)
	}
	return p.judge(proven, of)
}

// judge reads who somebody is from an ID token whose signature holds.
func (p *provider) judge(proven *oidc.IDToken, of departure) (member.Claims, error) {
	if of.Nonce == "" || subtle.ConstantTimeCompare([]byte(proven.Nonce), []byte(of.Nonce)) != 1 {
		return member.Claims{}, errNonce
	}
	var said struct {
		Email    string `json:"email"`
		Verified any    `json:"email_verified"`
		Name     string `json:"name"`
		Party    string `json:"azp"`
	}
	if err := proven.Claims(&said); err != nil {
		return member.Claims{}, fmt.Errorf("read an ID token: %w", err)
	}
	if said.Party != p.ClientID && (said.Party != "" || len(proven.Audience) > 1) {
		return member.Claims{}, errAudience
	}
	// Some providers write it as a text.
	if said.Verified != true && said.Verified != "true" {
		return member.Claims{}, errUnverified
	}
	return member.Claims{Issuer: proven.Issuer, Subject: proven.Subject, Email: said.Email, Name: said.Name}, nil
}

// random is 256 bits for one use.
func random() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	return base64.RawURLEncoding.EncodeToString(raw)
}

// signInCookie holds what a browser must bring back from the identity provider.
const signInCookie = "__Host-sd_signin"

// away is how long somebody may take there.
const away = 10 * time.Minute

// getStart sends the browser to the identity provider. What it brings back is bound to this browser by a cookie: nobody can make
// another's browser sign in.
func (v *visit) getStart() {
	to := safeTo(v.r.URL.Query().Get("to"))
	if v.Config.OIDC.Issuer == "" {
		v.gone()
		return
	}
	if !v.posts.Take(v.source) {
		v.showTooMany()
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	found, err := v.provider.discover(ctx)
	if err != nil {
		v.fault = err
		v.showSignIn(http.StatusServiceUnavailable, &page{To: to, Problem: "The identity provider does not answer. Try again in a minute."})
		return
	}
	leaving := departure{State: random(), Nonce: random(), Verifier: oauth2.GenerateVerifier(), To: to, Until: v.Now().Add(away)}
	sealed, err := v.keeper.seal(leaving)
	if err != nil {
		v.refuse(err)
		return
	}
	v.setCookie(signInCookie, secret.New(sealed), away)
	options := []oauth2.AuthCodeOption{oidc.Nonce(leaving.Nonce), oauth2.S256ChallengeOption(leaving.Verifier)}
	if v.r.URL.Query().Has("again") {
		options = append(options, oauth2.SetAuthURLParam("prompt", "select_account"))
	}
	http.Redirect(v.w, v.r, v.provider.flow(found).AuthCodeURL(leaving.State, options...), http.StatusSeeOther)
}

// getCallback is where the identity provider sends the browser back to.
func (v *visit) getCallback() {
	if v.Config.OIDC.Issuer == "" {
		v.gone()
		return
	}
	if !v.posts.Take(v.source) {
		v.showTooMany()
		return
	}
	given := v.r.CookiesNamed(signInCookie)
	v.dropCookie(signInCookie) // good for one try, whatever comes of it
	query := v.r.URL.Query()
	if len(given) != 1 {
		v.turnAway(home, errState)
		return
	}
	of, err := v.keeper.open(given[0].Value, v.Now())
	if err != nil || subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(of.State)) != 1 {
		v.turnAway(home, errState)
		return
	}
	if issuer := query.Get("iss"); issuer != "" && issuer != v.Config.OIDC.Issuer {
		v.turnAway(of.To, errState) // the answer of another provider (RFC 9207)
		return
	}
	if query.Get("error") != "" || query.Get("code") == "" {
		v.turnAway(of.To, errDeclined)
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	claims, err := v.provider.redeem(ctx, query.Get("code"), of)
	if err != nil {
		v.turnAway(of.To, err)
		return
	}
	v.welcome(ctx, claims, member.Welcome{}, of.To)
}

// turnAway says why somebody is not let in.
func (v *visit) turnAway(to string, err error) {
	status, text := http.StatusForbidden, "The identity provider's answer could not be verified. Try again; if it stays, ask whoever operates this service."
	switch {
	case errors.Is(err, errState):
		status, text = http.StatusBadRequest, "This sign-in was not started in this browser, or took too long. Start again."
	case errors.Is(err, errDeclined):
		text = "You did not sign in at the identity provider. Start again if you want to."
	case errors.Is(err, errUnverified):
		text = "The identity provider has not verified your e-mail address. Verify it there, then sign in again."
	default:
		v.fault = err
	}
	v.showSignIn(status, &page{To: to, Problem: text})
}
