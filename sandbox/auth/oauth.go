package auth

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/gate"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// The platform is also an OAuth 2.0 authorization server. It is strict: PKCE with S256 is required, codes and refresh
// tokens work once, and using one twice ends everything that was issued for it.
const (
	codeShelf    = "oauth.code"
	accessShelf  = "oauth.access"
	refreshShelf = "oauth.refresh"
	grantShelf   = "oauth.grant"

	codeLife = time.Minute
	// AccessLife is the default lifetime of access tokens.
	AccessLife = time.Hour
	// CallbackPath is the path of redirect URIs that a client without registered ones may use on loopback hosts.
	CallbackPath = "/connect/oauth/callback"
)

// scopes are what a client may ask for. They change nothing: every token may call everything.
var scopes = []string{"read", "write", "offline"}

// Client is an OAuth client of the platform.
type Client struct {
	ID, Secret string
	// Redirects are the allowed redirect URIs. Without any, those of loopback hosts with CallbackPath are allowed.
	Redirects []string
}

// DefaultClient is registered if the configuration lists none.
var DefaultClient = Client{ID: "stagedoor", Secret: "sandbox-client-secret"}

func (c Client) allows(redirect string) bool {
	if len(c.Redirects) > 0 {
		return slices.Contains(c.Redirects, redirect)
	}
	u, err := url.Parse(redirect)
	return err == nil && u.Scheme == "http" && u.Path == CallbackPath && u.RawQuery == "" && u.Fragment == "" && u.User == nil &&
		slices.Contains([]string{"127.0.0.1", "localhost", "::1"}, u.Hostname())
}

// grant is what a creator allowed a client. It lasts as long as its session.
type grant struct {
	ID      string `json:"id"`
	Client  string `json:"client"`
	Login   string `json:"login"`
	Session int64  `json:"session"`
	Scope   string `json:"scope"`
}

type authCode struct {
	Client    string    `json:"client"`
	Redirect  string    `json:"redirect"`
	Challenge string    `json:"challenge"`
	Scope     string    `json:"scope"`
	Login     string    `json:"login"`
	At        time.Time `json:"at"`
	// Grant is set once the code is used.
	Grant string `json:"grant,omitempty"`
}

type refreshToken struct {
	Grant string `json:"grant"`
	Used  bool   `json:"used"`
}

type accessToken struct {
	Grant     string    `json:"grant"`
	Login     string    `json:"login"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// OAuthError is an error response of RFC 6749.
type OAuthError struct {
	Status int
	Code   string
	// Text explains the error to developers.
	Text string
}

func (e *OAuthError) Error() string { return e.Code + ": " + e.Text }

func oauthError(code, text string) error {
	return &OAuthError{http.StatusBadRequest, code, text}
}

// Authorize is a checked request for the authorize page.
type Authorize struct {
	Client, Redirect, State, Scope string

	challenge string
}

// ErrClient means that a request for the authorize page names no known client or redirect URI, so that the browser must
// not be sent there.
var ErrClient = errors.New("the client or its redirect URI is unknown")

// CheckAuthorize checks the query of the authorize page. With an *OAuthError, the browser is sent back with the error.
func (a *Auth) CheckAuthorize(query url.Values) (Authorize, error) {
	client, known := a.client(query.Get("client_id"))
	in := Authorize{
		Client: client.ID, Redirect: query.Get("redirect_uri"), State: query.Get("state"), Scope: query.Get("scope"),
		challenge: query.Get("code_challenge"),
	}
	if !known || len(query["client_id"]) != 1 || len(query["redirect_uri"]) != 1 || !client.allows(in.Redirect) {
		return Authorize{}, ErrClient
	}
	for name, values := range query {
		if len(values) > 1 {
			return in, oauthError("invalid_request", "The parameter "+name+" is repeated.")
		}
	}
	sum, err := base64.RawURLEncoding.DecodeString(in.challenge)
	switch {
	case query.Get("response_type") != "code":
		return in, oauthError("unsupported_response_type", "The response type must be code.")
	case in.State == "":
		return in, oauthError("invalid_request", "The state is missing.")
	case query.Get("code_challenge_method") != "S256" || err != nil || len(sum) != sha256.Size:
		return in, oauthError("invalid_request", "PKCE with S256 is required.")
	}
	for scope := range strings.FieldsSeq(in.Scope) {
		if !slices.Contains(scopes, scope) {
			return in, oauthError("invalid_scope", "The scope "+scope+" is unknown.")
		}
	}
	return in, nil
}

// Back returns the address to which the browser is sent, with the parameters of the answer.
func (a *Auth) Back(in Authorize, answer url.Values) string {
	answer.Set("state", in.State)
	answer.Set("iss", a.Origin())
	return in.Redirect + "?" + answer.Encode()
}

// Allow records that a creator allows the client, and returns the address to which the browser is sent. The error is a
// refusal if the creator cannot sign in.
func (a *Auth) Allow(in Authorize, login string) (string, error) {
	persona, err := world.Persona(login)
	if err != nil {
		return "", errCredentials
	}
	if refusal, ok := closed[persona]; ok {
		return "", refusal
	}
	code := rand.Text() + rand.Text()
	err = a.World.Keep(codeShelf, hashOf(code), &authCode{
		Client: in.Client, Redirect: in.Redirect, Challenge: in.challenge, Scope: in.Scope, Login: login, At: a.World.Now(),
	})
	return a.Back(in, url.Values{"code": {code}}), err
}

func (a *Auth) client(id string) (Client, bool) {
	for _, c := range a.Clients {
		if c.ID == id {
			return c, true
		}
	}
	return Client{}, false
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// SetAccessLife sets the lifetime of access tokens that are issued from now on, and the lifetime that responses announce.
// Zero means the default, and the real one.
func (a *Auth) SetAccessLife(d, announced time.Duration) {
	a.accessLife.Store(int64(d))
	a.announced.Store(int64(announced))
}

// EndAccess ends the access tokens of a login and returns how many. Its refresh tokens stay good.
func (a *Auth) EndAccess(login string) (int, error) {
	a.steps.Lock()
	defer a.steps.Unlock()
	ended := map[string]accessToken{}
	err := a.World.Kept(accessShelf, func(name string, value json.RawMessage) error {
		var one accessToken
		if err := json.Unmarshal(value, &one); err != nil {
			return fmt.Errorf("read access token: %w", err)
		}
		if one.Login == login && one.ExpiresAt.After(a.World.Now()) {
			ended[name] = one
		}
		return nil
	})
	for name, one := range ended {
		one.ExpiresAt = a.World.Now()
		err = errors.Join(err, a.World.Keep(accessShelf, name, &one))
	}
	return len(ended), err
}

// Bearer returns the session that an access token stands for. With an error, the session has only the login, if that is
// known.
func (a *Auth) Bearer(token string) (world.Session, error) {
	var access accessToken
	ok, err := a.World.Recall(accessShelf, hashOf(token), &access)
	if err != nil {
		return world.Session{}, err
	}
	if !ok || !a.World.Now().Before(access.ExpiresAt) {
		return world.Session{Login: access.Login}, gate.ErrExpired
	}
	_, s, err := a.findGrant(access.Grant)
	if errors.Is(err, errGrant) {
		return world.Session{Login: access.Login}, gate.ErrExpired
	}
	return s, err
}

var errGrant = oauthError("invalid_grant", "The code or token is unknown, used, expired or revoked.")

// findGrant returns a grant and its session. It fails with errGrant if the session has ended.
func (a *Auth) findGrant(id string) (grant, world.Session, error) {
	var g grant
	ok, err := a.World.Recall(grantShelf, id, &g)
	if err != nil {
		return g, world.Session{}, err
	}
	if ok {
		for _, s := range a.World.Sessions(g.Login) {
			if s.ID == g.Session && a.World.Now().Before(s.ExpiresAt) {
				return g, s, nil
			}
		}
	}
	return g, world.Session{}, errGrant
}

// endGrant ends everything that was issued for a grant.
func (a *Auth) endGrant(id string) error {
	g, s, err := a.findGrant(id)
	if err != nil {
		if errors.Is(err, errGrant) {
			return nil
		}
		return err
	}
	_, err = a.World.EndSessions(g.Login, func(one world.Session) bool { return one.ID == s.ID })
	return errors.Join(err, a.World.Discard(grantShelf, g.ID))
}

// maxForm bounds a request to the token endpoint, in bytes.
const maxForm = 64 << 10

// serveOAuth serves an endpoint that only clients use. It logs the request with the login of the grant.
func (a *Auth) serveOAuth(handle func(q *request, client Client, form url.Values) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := &request{w: w, Call: &wire.Call{World: a.World, Request: r}}
		defer func() { a.Gate.Record(r, q.login, q.status) }()
		w.Header().Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		form, client, err := a.readForm(r)
		var answer any
		if err == nil {
			answer, err = handle(q, client, form)
		}
		if errors.Is(err, errAnswered) {
			return
		}
		if refused, ok := errors.AsType[*OAuthError](err); ok {
			if refused.Status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Basic realm="sandbox"`)
			}
			q.status = refused.Status
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(refused.Status)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": refused.Code, "error_description": refused.Text})
			return
		}
		q.status = a.Gate.Write(w, answer, err)
	}
}

// readForm reads the form of a client and checks who the client is.
func (a *Auth) readForm(r *http.Request) (url.Values, Client, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, Client{}, oauthError("invalid_request", "The body must be a form.")
	}
	if err := r.ParseForm(); err != nil {
		return nil, Client{}, oauthError("invalid_request", "The form cannot be read.")
	}
	form := r.PostForm
	for name, values := range form {
		if len(values) > 1 {
			return nil, Client{}, oauthError("invalid_request", "The parameter "+name+" is repeated.")
		}
	}
	id, password, basic := r.BasicAuth()
	if basic {
		if form.Has("client_secret") {
			return nil, Client{}, oauthError("invalid_request", "The client authenticates twice.")
		}
		id, _ = url.QueryUnescape(id)
		password, _ = url.QueryUnescape(password)
	} else {
		id, password = form.Get("client_id"), form.Get("client_secret")
	}
	client, known := a.client(id)
	if !known || subtle.ConstantTimeCompare([]byte(password), []byte(client.Secret)) != 1 {
		return nil, Client{}, &OAuthError{http.StatusUnauthorized, "invalid_client", "The client is unknown, or its secret is wrong."}
	}
	return form, client, nil
}

// issue issues tokens for a code or a refresh token. It applies the faults of the login first, which may take long.
func (a *Auth) issue(q *request, client Client, form url.Values) (any, error) {
	var code authCode
	var refresh refreshToken
	_, err := a.World.Recall(codeShelf, hashOf(form.Get("code")), &code)
	_, failed := a.World.Recall(refreshShelf, hashOf(form.Get("refresh_token")), &refresh)
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	login := code.Login
	if g, _, err := a.findGrant(refresh.Grant); err == nil {
		login = g.Login
	}
	if err := a.known(q, login); err != nil {
		return nil, err
	}
	a.steps.Lock()
	defer a.steps.Unlock()
	switch form.Get("grant_type") {
	case "authorization_code":
		return a.issueForCode(q, client, form)
	case "refresh_token":
		return a.issueForRefresh(client, form)
	}
	return nil, oauthError("unsupported_grant_type", "The grant type must be authorization_code or refresh_token.")
}

func (a *Auth) issueForCode(q *request, client Client, form url.Values) (any, error) {
	name := hashOf(form.Get("code"))
	var code authCode
	ok, err := a.World.Recall(codeShelf, name, &code)
	if err != nil {
		return nil, err
	}
	if !ok || code.Client != client.ID {
		return nil, errGrant
	}
	if code.Grant != "" { // the code may have been stolen
		return nil, errors.Join(a.endGrant(code.Grant), errGrant)
	}
	verifier := form.Get("code_verifier")
	sum := sha256.Sum256([]byte(verifier))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	if a.World.Now().Sub(code.At) > codeLife || code.Redirect != form.Get("redirect_uri") || len(verifier) < 43 || len(verifier) > 128 ||
		subtle.ConstantTimeCompare([]byte(challenge), []byte(code.Challenge)) != 1 {
		return nil, errGrant
	}
	if err := a.sweep(); err != nil {
		return nil, err
	}
	g := grant{ID: rand.Text(), Client: client.ID, Login: code.Login, Scope: code.Scope}
	s, _, err := a.Open(code.Login, world.Session{Device: "oauth-" + g.ID, Agent: client.ID, Egress: a.Gate.Egress(q.Request)})
	if err != nil {
		return nil, err
	}
	g.Session, g.Login, code.Grant = s.ID, s.Login, g.ID
	if err := errors.Join(a.World.Keep(grantShelf, g.ID, &g), a.World.Keep(codeShelf, name, &code)); err != nil {
		return nil, err
	}
	return a.issueTokens(g)
}

func (a *Auth) issueForRefresh(client Client, form url.Values) (any, error) {
	name := hashOf(form.Get("refresh_token"))
	var old refreshToken
	ok, err := a.World.Recall(refreshShelf, name, &old)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errGrant
	}
	g, _, err := a.findGrant(old.Grant)
	switch {
	case err != nil:
		return nil, err
	case g.Client != client.ID:
		return nil, errGrant
	case old.Used: // two parties have the token, and one of them must not
		return nil, errors.Join(a.endGrant(g.ID), errGrant)
	}
	old.Used = true
	if err := a.World.Keep(refreshShelf, name, &old); err != nil {
		return nil, err
	}
	return a.issueTokens(g)
}

func (a *Auth) issueTokens(g grant) (any, error) {
	life := AccessLife
	if set := time.Duration(a.accessLife.Load()); set > 0 {
		life = set
	}
	announced := cmp.Or(time.Duration(a.announced.Load()), life)
	access, refresh := rand.Text()+rand.Text(), rand.Text()+rand.Text()
	err := errors.Join(
		a.World.Keep(accessShelf, hashOf(access), &accessToken{Grant: g.ID, Login: g.Login, ExpiresAt: a.World.Now().Add(life)}),
		a.World.Keep(refreshShelf, hashOf(refresh), &refreshToken{Grant: g.ID}),
	)
	return map[string]any{
		"access_token": access, "token_type": "Bearer", "expires_in": int(announced / time.Second), "refresh_token": refresh, "scope": g.Scope,
	}, err
}

// revoke ends a grant by its refresh token, or a single access token (RFC 7009). An unknown token is not an error.
func (a *Auth) revoke(q *request, client Client, form url.Values) (any, error) {
	a.steps.Lock()
	defer a.steps.Unlock()
	name := hashOf(form.Get("token"))
	var refresh refreshToken
	ok, err := a.World.Recall(refreshShelf, name, &refresh)
	if err != nil {
		return nil, err
	}
	if ok {
		g, _, err := a.findGrant(refresh.Grant)
		q.login = g.Login
		if err != nil || g.Client != client.ID {
			return map[string]any{}, nil // the grant has ended already
		}
		return map[string]any{}, a.endGrant(g.ID)
	}
	return map[string]any{}, a.World.Discard(accessShelf, name)
}

// OAuthStatus describes the authorization server for the control API.
type OAuthStatus struct {
	Clients   []string `json:"clients"`
	AccessSec int      `json:"access_sec"`
	Grants    int      `json:"grants"`
}

// OAuthStatus returns the clients, the lifetime of access tokens, and the number of grants.
func (a *Auth) OAuthStatus() (OAuthStatus, error) {
	out := OAuthStatus{Clients: []string{}, AccessSec: int(AccessLife / time.Second)}
	if set := time.Duration(a.accessLife.Load()); set > 0 {
		out.AccessSec = int(set / time.Second)
	}
	for _, c := range a.Clients {
		out.Clients = append(out.Clients, c.ID)
	}
	err := kept(a.World, grantShelf, func(*grant) { out.Grants++ })
	return out, err
}

// ParseClient parses a client of the form id:secret,redirect,redirect.
func ParseClient(text string) (Client, error) {
	pair, rest, listed := strings.Cut(text, ",")
	id, password, ok := strings.Cut(pair, ":")
	if !ok || id == "" || password == "" {
		return Client{}, fmt.Errorf("%q is not a client: write it as id:secret, and its redirect URIs after commas", text)
	}
	c := Client{ID: id, Secret: password}
	if listed {
		c.Redirects = strings.Split(rest, ",")
	}
	return c, nil
}
