// Package driver talks to a creator platform: it signs in step by step, checks sessions, calls methods, receives
// events, moves files and signs out.
//
// The only implementation is HTTP. A manifest (package catalog) describes the platform to it, so another platform is
// another manifest. A driver is stateless: a sign-in between two steps is a Continuation and a signed-in creator is a
// Session. Both are values that the caller encrypts and stores, so any node can continue with them. All traffic leaves
// through package egress. Start with Driver; drivertest defines what every driver must do.
package driver

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// Driver is everything that the product needs from a platform. Callers depend on the part that they use.
type Driver interface {
	SignsIn
	Authorizes
	Calls
	Listens
}

// SignsIn creates and ends sessions.
type SignsIn interface {
	// SignIn starts a sign-in with e-mail and password, OpenQR one on the creator's phone. Refusals and transport
	// failures are steps with a Failure. An error means that there is no result, for example because the context
	// ended.
	SignIn(ctx context.Context, via Via, email, password secret.String, before Session) (Step, error)
	OpenQR(ctx context.Context, via Via) (Step, error)
	Continue(ctx context.Context, via Via, from Continuation, in Input) (Step, error)
	SignOut(ctx context.Context, via Via, s Session) error
}

// Authorizes creates and refreshes sessions by OAuth. See HTTP.
type Authorizes interface {
	AuthorizeURL(state, verifier secret.String) (secret.String, error)
	Exchange(ctx context.Context, via Via, code, verifier secret.String) (Step, error)
	Refresh(ctx context.Context, via Via, s Session) (Session, error)
}

// Calls uses a session.
type Calls interface {
	// Probe asks the platform to whom the session belongs.
	Probe(ctx context.Context, via Via, s Session) (Identity, Answer, error)
	// Call calls a method. Errors are *Refused, problems, or the context's.
	Call(ctx context.Context, via Via, s Session, m *catalog.Method, args catalog.Args) (Answer, error)
}

// Listens receives the events of a creator.
type Listens interface {
	Listen(ctx context.Context, via Via, s Session) (*Socket, error)
	// Since lists the events after the one with the upstream id after. An empty id means the oldest that the platform
	// still has.
	Since(ctx context.Context, via Via, s Session, after string) (Missed, error)
	// Poll asks a platform without a socket for new events. An empty position means from now on.
	Poll(ctx context.Context, via Via, s Session, position string) (Polled, error)
}

// Via identifies the traffic of an account and the region through which it leaves.
type Via struct {
	Region string
	// Account is the account's id, or the id of the connect attempt while there is no account.
	Account string
	// Site is the root of the API of the account's site, such as https://maya.example.com/blog, or empty if all accounts
	// of the platform are on one origin. Public is the address that visitors use. It differs from Site if the API is on
	// another host; then files are at both, and the session is never sent to Public.
	Site, Public string
}

// Deps are the dependencies of the driver.
type Deps struct {
	Catalog *catalog.Catalog
	Egress  *egress.Egress
	// Origin replaces the origin in the manifest. Default: the manifest's. A platform with sites has none.
	Origin string
	// OAuth is the client that the operator has registered at the platform. Without an id, there is no sign-in by OAuth.
	OAuth OAuthClient
	// Patience is how long the platform may take for a step of a sign-in. Default: 45 s.
	Patience time.Duration
	Now      func() time.Time
}

// HTTP is the driver for platforms that use HTTP and WebSocket. It is safe for concurrent use.
type HTTP struct {
	deps    Deps
	origins egress.Origins
	// commonHeaders are the headers that the manifest sends with every call. originHeaders are the indexes of those
	// whose value is the origin of the account's site. headerNames maps the names of session headers to their canonical
	// form.
	commonHeaders []egress.Field
	originHeaders []int
	headerNames   map[string]string
	fieldLists    sync.Pool // of *fieldLists
	// oauth is nil without sign-in by OAuth.
	oauth *oauth
}

var _ Driver = (*HTTP)(nil)

// New returns a driver. It does not connect to the platform.
func New(d Deps) (*HTTP, error) {
	d.Origin = cmp.Or(d.Origin, d.Catalog.Origin)
	d.Patience = cmp.Or(d.Patience, 45*time.Second)
	h := &HTTP{deps: d, headerNames: map[string]string{}}
	if d.Catalog.Site == nil {
		var err error
		if h.origins, err = egress.ParseOrigins(d.Origin); err != nil {
			return nil, fmt.Errorf("platform %s: %w", d.Catalog.ID, err)
		}
	}
	var err error
	if h.oauth, err = newOAuth(d); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(d.Catalog.Session.Send)) {
		for _, value := range d.Catalog.Session.Send[name] {
			if value == originVariable {
				value = strings.TrimSuffix(d.Origin, "/")
				if d.Catalog.Site != nil {
					h.originHeaders = append(h.originHeaders, len(h.commonHeaders))
				}
			}
			h.commonHeaders = append(h.commonHeaders, egress.Field{Name: name, Value: value})
		}
	}
	for _, name := range slices.Concat(d.Catalog.Session.Headers.Allowed, d.Catalog.Session.Headers.Required, []string{d.Catalog.Session.Device}) {
		h.headerNames[name] = http.CanonicalHeaderKey(name)
	}
	return h, nil
}

// client returns the egress client for an account's traffic to some origins.
func (d *HTTP) client(via Via, origins egress.Origins) *egress.Client {
	isolation := egress.ByAccount
	if d.deps.Catalog.Isolation == catalog.ByProxy {
		isolation = egress.ByProxy
	}
	return d.deps.Egress.Client(egress.Identity{Region: via.Region, Account: via.Account, Isolation: isolation}, origins)
}

// reply is a response of the platform with its whole body.
type reply struct {
	status int
	header http.Header
	body   []byte
	took   time.Duration
}

func (r *reply) ok() bool { return r.status >= 200 && r.status < 300 }

// exchange sends a request with a session and returns a copy of the response. If only the body fails, it returns both
// the reply and the error, because the header may have changed the session.
func (d *HTTP) exchange(ctx context.Context, via Via, s Session, req catalog.Request, limits egress.Limits) (*reply, error) {
	began := d.deps.Now()
	got, err := d.sendRequest(ctx, via, s, &req, limits)
	defer got.Release()
	if got.Status == 0 {
		return nil, err
	}
	return &reply{status: got.Status, header: got.Header(), body: bytes.Clone(got.Body), took: d.deps.Now().Sub(began)}, err
}

// fieldLists are pooled slices for the headers and cookies of a request.
type fieldLists struct{ header, cookies []egress.Field }

// sendRequest sends a request with a session. Headers of the session replace those of the manifest, and headers of the
// call replace both. The caller must release the reply. Its status is 0 if there was no response.
func (d *HTTP) sendRequest(ctx context.Context, via Via, s Session, req *catalog.Request, limits egress.Limits) (egress.Reply, error) {
	at, err := d.locate(via)
	if err != nil {
		return egress.Reply{}, err
	}
	l, _ := d.fieldLists.Get().(*fieldLists)
	if l == nil {
		l = &fieldLists{}
	}
	l.header, l.cookies = l.header[:0], l.cookies[:0]
	if len(req.Body) > 0 {
		l.header = append(l.header, egress.Field{Name: "Content-Type", Value: "application/json"})
	}
	first := len(l.header)
	l.header = append(l.header, d.commonHeaders...)
	for _, i := range d.originHeaders {
		l.header[first+i].Value = at.origin
	}
	if err := d.addSession(l, s); err != nil {
		return egress.Reply{}, err
	}
	// Few calls have headers of their own, so the linear search does not matter.
	for name, values := range req.Header {
		l.header = slices.DeleteFunc(l.header, func(f egress.Field) bool { return strings.EqualFold(f.Name, name) })
		for _, value := range values {
			l.header = append(l.header, egress.Field{Name: name, Value: value})
		}
	}
	out := egress.Request{
		Method: req.Method, Origin: at.origin, Path: at.path + req.Path, Query: req.Query, Header: l.header, Cookies: l.cookies,
		Body: req.Body,
	}
	got, err := d.client(via, at.origins).Call(ctx, &out, limits)
	clear(l.header) // leave no secrets in the pool
	clear(l.cookies)
	d.fieldLists.Put(l)
	return got, err
}

// addSession adds the headers and cookies of a session, or the token that is made from its key.
func (d *HTTP) addSession(l *fieldLists, s Session) error {
	if s.Credentials() == catalog.ByToken {
		value, err := d.signToken(s)
		if err != nil {
			return err
		}
		omit := d.deps.Catalog.Session.JWT.Omit
		l.header = slices.DeleteFunc(l.header, func(f egress.Field) bool { return slices.Contains(omit, f.Name) })
		setField(l, d.deps.Catalog.Session.JWT.Header, value)
	}
	for i := range s.headers {
		h := &s.headers[i]
		name, known := d.headerNames[h.name]
		if !known {
			name = http.CanonicalHeaderKey(h.name)
		}
		setField(l, name, s.reveal(h.value))
	}
	if s.oauth != nil {
		setField(l, "Authorization", s.bearer())
	}
	agent := s.userAgent
	if agent == "" {
		agent = d.deps.Catalog.Session.UserAgent
	}
	setField(l, "User-Agent", agent)
	for i := range s.cookies {
		l.cookies = append(l.cookies, egress.Field{Name: s.cookies[i].name, Value: s.reveal(s.cookies[i].value)})
	}
	return nil
}

// signToken returns what a request of now carries instead of the session's key.
func (d *HTTP) signToken(s Session) (string, error) {
	jwt := d.deps.Catalog.Session.JWT
	if jwt == nil {
		return "", fmt.Errorf("%w: the manifest of %s has no keys any more", egress.ErrNotSent, d.deps.Catalog.ID)
	}
	value, err := jwt.Sign(s.token, d.deps.Now())
	if err != nil {
		return "", fmt.Errorf("%w: %w", egress.ErrNotSent, err)
	}
	return value, nil
}

// setField sets a header. It replaces one with the same name.
func setField(l *fieldLists, name, value string) {
	for i := range l.header {
		if strings.EqualFold(l.header[i].Name, name) {
			l.header[i].Value = value
			return
		}
	}
	l.header = append(l.header, egress.Field{Name: name, Value: value})
}
