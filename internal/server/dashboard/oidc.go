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

// OIDC holds the settings of an OpenID Connect identity provider.
type OIDC struct {
	// Issuer is its address; empty for none.
	Issuer   string
	ClientID string
	Secret   secret.String
	// Name is shown on the sign-in page.
	Name string
}

// provider is the identity provider. It is discovered on first use.
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

// name returns the name for the sign-in page; empty if there is no provider.
func (p *provider) name() string {
	if p.Issuer != "" && p.Name == "" {
		return "single sign-on"
	}
	return p.Name
}

// discover loads the provider's metadata. It is cached after the first success.
func (p *provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil {
		return p.found, nil
	}
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.Issuer)
	if err != nil {
		return nil, fmt.Errorf("discover identity provider: %w", err)
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

// Reasons why a sign-in fails. The page has its own text for each: what a provider returns may come from anyone.
var (
	errDeclined   = errors.New("declined at the identity provider")
	errCode       = errors.New("the identity provider rejected the code")
	errNoIDToken  = errors.New("the identity provider returned no ID token")
	errNonce      = errors.New("the ID token belongs to another sign-in")
	errAudience   = errors.New("the ID token was not issued to this client")
	errUnverified = errors.New("the email address is not verified")
)

// redeem exchanges a code for the user's verified claims.
func (p *provider) redeem(ctx context.Context, code string, of pendingSignIn) (member.Claims, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return member.Claims{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := p.flow(found).Exchange(ctx, code, oauth2.VerifierOption(of.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		// Its text contains the whole response, which may be anything.
		return member.Claims{}, fmt.Errorf("%w: status %d", errCode, refused.Response.StatusCode)
	}
	if err != nil {
		return member.Claims{}, fmt.Errorf("redeem code: %w", err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return member.Claims{}, errNoIDToken
	}
	// Verify checks issuer, audience, signature and expiry.
	proven, err := found.Verifier(&oidc.Config{ClientID: p.ClientID, Now: p.now}).Verify(ctx, raw)
	if err != nil {
		return member.Claims{}, fmt.Errorf("verify ID token: %w", err)
	}
	return p.readClaims(proven, of)
}

// readClaims checks the nonce, the authorised party and the email address of a verified ID token.
func (p *provider) readClaims(proven *oidc.IDToken, of pendingSignIn) (member.Claims, error) {
	if of.Nonce == "" || subtle.ConstantTimeCompare([]byte(proven.Nonce), []byte(of.Nonce)) != 1 {
		return member.Claims{}, errNonce
	}
	var claims struct {
		Email    string `json:"email"`
		Verified any    `json:"email_verified"`
		Name     string `json:"name"`
		Party    string `json:"azp"`
	}
	if err := proven.Claims(&claims); err != nil {
		return member.Claims{}, fmt.Errorf("read ID token: %w", err)
	}
	if claims.Party != p.ClientID && (claims.Party != "" || len(proven.Audience) > 1) {
		return member.Claims{}, errAudience
	}
	// Some providers send a string.
	if claims.Verified != true && claims.Verified != "true" {
		return member.Claims{}, errUnverified
	}
	return member.Claims{Issuer: proven.Issuer, Subject: proven.Subject, Email: claims.Email, Name: claims.Name}, nil
}

// random returns 256 random bits.
func random() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // Never fails.
	return base64.RawURLEncoding.EncodeToString(raw)
}

// signInCookie holds the pending sign-in while the browser is at the identity provider.
const signInCookie = "__Host-sd_signin"

// signInTimeout is how long a user may take at the identity provider.
const signInTimeout = 10 * time.Minute

// getStart redirects the browser to the identity provider. A cookie binds the sign-in to this browser, so that no one
// can sign another browser in.
func (v *visit) getStart() {
	to := safeTo(v.r.URL.Query().Get("to"))
	if v.deps.Config.OIDC.Issuer == "" {
		v.notFound()
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
		v.showSignIn(http.StatusServiceUnavailable, &page{To: to, Problem: "The identity provider is not responding. Try again in a minute."})
		return
	}
	pending := pendingSignIn{State: random(), Nonce: random(), Verifier: oauth2.GenerateVerifier(), To: to, Until: v.deps.Now().Add(signInTimeout)}
	sealed, err := v.stateCipher.seal(pending)
	if err != nil {
		v.refuse(err)
		return
	}
	v.setCookie(signInCookie, secret.New(sealed), signInTimeout)
	options := []oauth2.AuthCodeOption{oidc.Nonce(pending.Nonce), oauth2.S256ChallengeOption(pending.Verifier)}
	if v.r.URL.Query().Has("again") {
		options = append(options, oauth2.SetAuthURLParam("prompt", "select_account"))
	}
	http.Redirect(v.w, v.r, v.provider.flow(found).AuthCodeURL(pending.State, options...), http.StatusSeeOther)
}

// getCallback completes a sign-in when the identity provider sends the browser back.
func (v *visit) getCallback() {
	if v.deps.Config.OIDC.Issuer == "" {
		v.notFound()
		return
	}
	if !v.posts.Take(v.source) {
		v.showTooMany()
		return
	}
	given := v.r.CookiesNamed(signInCookie)
	v.dropCookie(signInCookie) // It is valid for one try.
	query := v.r.URL.Query()
	if len(given) != 1 {
		v.showSignInError(home, errState)
		return
	}
	of, err := v.stateCipher.open(given[0].Value, v.deps.Now())
	if err != nil || subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(of.State)) != 1 {
		v.showSignInError(home, errState)
		return
	}
	if issuer := query.Get("iss"); issuer != "" && issuer != v.deps.Config.OIDC.Issuer {
		v.showSignInError(of.To, errState) // A response of another provider (RFC 9207).
		return
	}
	if query.Get("error") != "" || query.Get("code") == "" {
		v.showSignInError(of.To, errDeclined)
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	claims, err := v.provider.redeem(ctx, query.Get("code"), of)
	if err != nil {
		v.showSignInError(of.To, err)
		return
	}
	v.signIn(ctx, claims, member.Welcome{}, of.To)
}

// showSignInError shows why a sign-in failed.
func (v *visit) showSignInError(to string, err error) {
	status, text := http.StatusForbidden, "The identity provider's response could not be verified. Try again. If it fails again, contact the operator of this service."
	switch {
	case errors.Is(err, errState):
		status, text = http.StatusBadRequest, "This sign-in was not started in this browser, or took too long. Start again."
	case errors.Is(err, errDeclined):
		text = "You did not sign in at the identity provider. Start again to sign in."
	case errors.Is(err, errUnverified):
		text = "The identity provider has not verified your email address. Verify it there, then sign in again."
	default:
		v.fault = err
	}
	v.showSignIn(status, &page{To: to, Problem: text})
}
