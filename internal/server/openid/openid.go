// Package openid signs people in at an OpenID Connect identity provider: members in the dashboard and operators in the
// console. It uses the authorization code flow with PKCE, a state and a nonce, and accepts verified email addresses only.
//
// It does not decide who may sign in, and keeps no sessions. Start reading at Begin and Finish.
package openid

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
)

// Config holds the settings of a provider.
type Config struct {
	// Issuer is the address of the provider; empty for none.
	Issuer   string
	ClientID string
	Secret   secret.String
	// Scopes are requested of the provider. Default: openid, email and profile.
	Scopes []string
	// Callback is the address to which the provider sends browsers back.
	Callback string
	// Cookie is the name of the cookie that holds a pending sign-in. Key encrypts it, and is the same on all nodes.
	// Purpose separates it from other uses of the key.
	Cookie  string
	Key     secret.String
	Purpose string
	// GroupsClaim is the claim with the groups of a person; empty for none.
	GroupsClaim string
	// Recent is how old a sign-in at the provider may be if the person was asked to sign in again. RequireAuthTime means
	// that only the claim auth_time proves it. Otherwise, a response without it does too if the person was asked to.
	Recent          time.Duration
	RequireAuthTime bool
}

// Provider is an identity provider. It is discovered on first use, so a node can start while the provider is down.
type Provider struct {
	cfg    Config
	client *http.Client
	now    func() time.Time
	cipher stateCipher

	mu    sync.Mutex
	found *oidc.Provider
}

// New returns a provider that is reached through client.
func New(c Config, client *http.Client, now func() time.Time) (*Provider, error) {
	if len(c.Scopes) == 0 {
		c.Scopes = []string{oidc.ScopeOpenID, "email", "profile"}
	}
	k, err := newStateCipher(c.Key, c.Purpose)
	return &Provider{cfg: c, client: client, now: now, cipher: k}, err
}

// Exists reports whether there is a provider.
func (p *Provider) Exists() bool { return p.cfg.Issuer != "" }

// Claims are the provider's statements about a person. The email address is verified.
type Claims struct {
	Issuer, Subject, Email, Name string
	Groups                       []string
	// AuthenticatedAt is when the person last proved to the provider who they are; zero means now.
	AuthenticatedAt time.Time
}

// Prompt says what the provider asks a person who is signed in there already.
type Prompt int

// The prompts.
const (
	// Nothing signs the person in without a question.
	Nothing Prompt = iota
	// Account lets the person choose an account.
	Account
	// Again lets the person sign in again.
	Again
)

// discover loads the provider's metadata. It is cached after the first success.
func (p *Provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil {
		return p.found, nil
	}
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.cfg.Issuer)
	if err != nil {
		return nil, fmt.Errorf("discover identity provider: %w", err)
	}
	p.found = found
	return found, nil
}

func (p *Provider) flow(found *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: p.cfg.Secret.Reveal(), Endpoint: found.Endpoint(), RedirectURL: p.cfg.Callback,
		Scopes: p.cfg.Scopes,
	}
}

// Reasons why a sign-in fails. Explain has a text for each: what a provider returns may come from anyone.
var (
	// ErrUnavailable means that the provider could not be discovered.
	ErrUnavailable = errors.New("the identity provider is not responding")
	errDeclined    = errors.New("declined at the identity provider")
	errCode        = errors.New("the identity provider rejected the code")
	errNoIDToken   = errors.New("the identity provider returned no ID token")
	errNonce       = errors.New("the ID token belongs to another sign-in")
	errAudience    = errors.New("the ID token was not issued to this client")
	errUnverified  = errors.New("the email address is not verified")
	// ErrNotFresh means that the person was not asked to sign in again.
	ErrNotFresh = errors.New("the identity provider did not ask the person to sign in again")
)

// Explain returns the status and the text of a page about a failed sign-in. expected is false if the error belongs in the
// log.
func Explain(err error) (status int, text string, expected bool) {
	switch {
	case errors.Is(err, ErrUnavailable):
		return http.StatusServiceUnavailable, "The identity provider is not responding. Try again in a minute.", false
	case errors.Is(err, ErrState):
		return http.StatusBadRequest, "This sign-in was not started in this browser, or took too long. Start again.", true
	case errors.Is(err, errDeclined):
		return http.StatusForbidden, "You did not sign in at the identity provider. Start again to sign in.", true
	case errors.Is(err, errUnverified):
		return http.StatusForbidden, "The identity provider has not verified your email address. Verify it there, then sign in again.", true
	case errors.Is(err, ErrNotFresh):
		return http.StatusForbidden, "The identity provider did not ask you to sign in again. Sign out there, then start again.", true
	}
	return http.StatusForbidden, "The identity provider's response could not be verified. Try again. If it fails again, contact the operator of this service.", false
}

// Timeout is how long a person may take at the identity provider.
const Timeout = 10 * time.Minute

// Begin starts a sign-in that leads to one of our addresses, and returns the address of the provider to which the browser
// must go. Its cookie binds the sign-in to this browser, so that no one can sign another browser in.
func (p *Provider) Begin(ctx context.Context, w http.ResponseWriter, to string, prompt Prompt) (string, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return "", errors.Join(ErrUnavailable, err)
	}
	of := pending{
		State: random(), Nonce: random(), Verifier: oauth2.GenerateVerifier(), To: to, Until: p.now().Add(Timeout), Fresh: prompt == Again,
	}
	sealed, err := p.cipher.seal(of)
	if err != nil {
		return "", err
	}
	p.setCookie(w, sealed, int(Timeout/time.Second))
	options := []oauth2.AuthCodeOption{oidc.Nonce(of.Nonce), oauth2.S256ChallengeOption(of.Verifier)}
	switch prompt {
	case Again:
		// Both say the same. Some providers know only one of them, and max_age requires auth_time in the answer.
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", "0"))
	case Account:
		options = append(options, oauth2.SetAuthURLParam("prompt", "select_account"))
	case Nothing:
	}
	return p.flow(found).AuthCodeURL(of.State, options...), nil
}

// setCookie sets the cookie of a pending sign-in. The provider's answer comes from another site, so the cookie is lax.
func (p *Provider) setCookie(w http.ResponseWriter, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: p.cfg.Cookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	})
}

// Finish completes the sign-in when the provider sends the browser back. It returns the person's claims and the address
// of Begin, which is also returned with an error, unless that is ErrState.
func (p *Provider) Finish(ctx context.Context, w http.ResponseWriter, r *http.Request) (c Claims, to string, err error) {
	given := r.CookiesNamed(p.cfg.Cookie)
	p.setCookie(w, "", -1) // It is valid for one try.
	query := r.URL.Query()
	if len(given) != 1 {
		return c, "", ErrState
	}
	of, err := p.cipher.open(given[0].Value, p.now())
	if err != nil || subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(of.State)) != 1 {
		return c, "", ErrState
	}
	if issuer := query.Get("iss"); issuer != "" && issuer != p.cfg.Issuer {
		return c, of.To, ErrState // A response of another provider (RFC 9207).
	}
	if query.Get("error") != "" || query.Get("code") == "" {
		return c, of.To, errDeclined
	}
	c, err = p.redeem(ctx, query.Get("code"), of)
	return c, of.To, err
}

// redeem exchanges a code for the person's verified claims.
func (p *Provider) redeem(ctx context.Context, code string, of pending) (Claims, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return Claims{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := p.flow(found).Exchange(ctx, code, oauth2.VerifierOption(of.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		// Its text contains the whole response, which may be anything.
		return Claims{}, fmt.Errorf("%w: status %d", errCode, refused.Response.StatusCode)
	}
	if err != nil {
		return Claims{}, fmt.Errorf("redeem code: %w", err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return Claims{}, errNoIDToken
	}
	// Verify checks issuer, audience, signature and expiry.
	proven, err := found.Verifier(&oidc.Config{ClientID: p.cfg.ClientID, Now: p.now}).Verify(ctx, raw)
	if err != nil {
		return Claims{}, fmt.Errorf("verify ID token: %w", err)
	}
	return p.readClaims(proven, of)
}

// readClaims checks the nonce, the authorised party and the email address of a verified ID token.
func (p *Provider) readClaims(proven *oidc.IDToken, of pending) (Claims, error) {
	if of.Nonce == "" || subtle.ConstantTimeCompare([]byte(proven.Nonce), []byte(of.Nonce)) != 1 {
		return Claims{}, errNonce
	}
	var claims struct {
		Email    string `json:"email"`
		Verified any    `json:"email_verified"`
		Name     string `json:"name"`
		Party    string `json:"azp"`
		// AuthTime is when the person signed in at the provider, in seconds since 1970.
		AuthTime *float64 `json:"auth_time"`
	}
	if err := proven.Claims(&claims); err != nil {
		return Claims{}, fmt.Errorf("read ID token: %w", err)
	}
	if claims.Party != p.cfg.ClientID && (claims.Party != "" || len(proven.Audience) > 1) {
		return Claims{}, errAudience
	}
	// Some providers send a string.
	if claims.Verified != true && claims.Verified != "true" {
		return Claims{}, errUnverified
	}
	at, err := p.authenticatedAt(claims.AuthTime, of.Fresh)
	if err != nil {
		return Claims{}, err
	}
	groups, err := p.groups(proven)
	return Claims{
		Issuer: proven.Issuer, Subject: proven.Subject, Email: claims.Email, Name: claims.Name, Groups: groups, AuthenticatedAt: at,
	}, err
}

// groups returns the groups of a person. Some providers send a single group as a string.
func (p *Provider) groups(proven *oidc.IDToken) ([]string, error) {
	if p.cfg.GroupsClaim == "" {
		return nil, nil
	}
	var all map[string]any
	if err := proven.Claims(&all); err != nil {
		return nil, fmt.Errorf("read groups: %w", err)
	}
	switch claim := all[p.cfg.GroupsClaim].(type) {
	case string:
		return []string{claim}, nil
	case []any:
		var groups []string
		for _, one := range claim {
			if name, ok := one.(string); ok {
				groups = append(groups, name)
			}
		}
		return groups, nil
	}
	return nil, nil
}

// authenticatedAt returns when the person proved who they are; zero means now. Without the claim, the provider may have
// signed them in from its own session, so only a sign-in that must be fresh counts as now, and 1970 stands for a time that
// is not known. A sign-in that must be fresh fails if the time is too long ago: a browser could have removed our request
// for it from the provider's address.
func (p *Provider) authenticatedAt(claim *float64, fresh bool) (time.Time, error) {
	at := time.Time{}
	switch {
	case claim != nil:
		at = time.Unix(int64(*claim), 0)
	case p.cfg.RequireAuthTime || !fresh:
		at = time.Unix(0, 0)
	}
	if fresh && !at.IsZero() && p.now().Sub(at) > p.cfg.Recent {
		return time.Time{}, ErrNotFresh
	}
	return at, nil
}

// random returns 256 random bits.
func random() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // Never fails.
	return base64.RawURLEncoding.EncodeToString(raw)
}
