// Package driver speaks to a creator platform: signs in step by step, proves a session, calls methods, listens to frames, signs out.
//
// There is one driver, HTTP, and a manifest (package catalog) tells it everything about a platform; another platform is another
// manifest. It keeps no state: a sign-in between two steps is a Continuation, a signed-in creator is a Session, and both are values
// that the caller seals and stores, so any node can go on with them. All traffic leaves through package egress.
//
// Start with Driver. What every driver must do is in upstreamtest.
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

// Driver is all that the product asks of a platform. Flows take the part they need.
type Driver interface {
	SignsIn
	Calls
	Listens
}

// SignsIn makes sessions and ends them.
type SignsIn interface {
	// SignIn starts with name and password, OpenQR with the creator's phone. What the platform answers is a Step; an error means
	// that the step was not taken, because the context ended.
	SignIn(ctx context.Context, via Via, email, password secret.String) (Step, error)
	OpenQR(ctx context.Context, via Via) (Step, error)
	Continue(ctx context.Context, via Via, from Continuation, in Input) (Step, error)
	SignOut(ctx context.Context, via Via, s Session) error
}

// Calls uses a session.
type Calls interface {
	// Probe asks the platform who the session belongs to.
	Probe(ctx context.Context, via Via, s Session) (Identity, Answer, error)
	// Call calls a method. Errors are Refused, or problems.
	Call(ctx context.Context, via Via, s Session, m *catalog.Method, args catalog.Args) (Answer, error)
}

// Listens hears what happens to a creator.
type Listens interface {
	Listen(ctx context.Context, via Via, s Session) (*Socket, error)
	// Since lists what happened behind an event, by its upstream id; empty for the oldest the platform still has.
	Since(ctx context.Context, via Via, s Session, after string) (Missed, error)
}

// Via is whose traffic it is, and where it leaves.
type Via struct {
	Region string
	// Account is an account's id, or an attempt's while there is no account.
	Account string
}

// Deps are what the driver stands on.
type Deps struct {
	Catalog *catalog.Catalog
	Egress  *egress.Egress
	// Origin is where the platform is, if not where its manifest says.
	Origin string
	// Patience is how long the platform may think about a step of a sign-in; 0 for 45 s.
	Patience time.Duration
	Now      func() time.Time
}

// HTTP is the driver for platforms that speak HTTP and WebSocket.
type HTTP struct {
	Deps
	origins egress.Origins
	// always is what the manifest sends with every call, and names are its names of a session's headers as they are written.
	always []egress.Field
	names  map[string]string
	lists  sync.Pool // of *lists
}

var _ Driver = (*HTTP)(nil)

// New makes the driver. It connects to nothing.
func New(d Deps) (*HTTP, error) {
	if d.Origin == "" {
		d.Origin = d.Catalog.Origin
	}
	d.Patience = cmp.Or(d.Patience, 45*time.Second)
	origins, err := egress.ParseOrigins(d.Origin)
	if err != nil {
		return nil, fmt.Errorf("platform %s: %w", d.Catalog.ID, err)
	}
	h := &HTTP{Deps: d, origins: origins, names: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(d.Catalog.Session.Send)) {
		for _, value := range d.Catalog.Session.Send[name] {
			h.always = append(h.always, egress.Field{Name: name, Value: value})
		}
	}
	for _, name := range slices.Concat(d.Catalog.Session.Headers.Allowed, d.Catalog.Session.Headers.Required, []string{d.Catalog.Session.Device}) {
		h.names[name] = http.CanonicalHeaderKey(name)
	}
	return h, nil
}

// client is the way out for one identity.
func (d *HTTP) client(via Via) *egress.Client {
	isolation := egress.ByAccount
	if d.Catalog.Isolation == catalog.ByProxy {
		isolation = egress.ByProxy
	}
	return d.Egress.Client(egress.Identity{Region: via.Region, Account: via.Account, Isolation: isolation}, d.origins)
}

// reply is an answer of the platform's, read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
	took   time.Duration
}

func (r *reply) ok() bool { return r.status >= 200 && r.status < 300 }

// exchange sends a request with a session and reads the answer. When only the body fails, the reply is there beside the error: its
// header may have changed the session.
func (d *HTTP) exchange(ctx context.Context, via Via, s Session, req catalog.Request, limits egress.Limits) (*reply, error) {
	began := d.Now()
	got, err := d.carry(ctx, via, s, &req, limits)
	defer got.Release()
	if got.Status == 0 {
		return nil, err
	}
	return &reply{status: got.Status, header: got.Header(), body: bytes.Clone(got.Body), took: d.Now().Sub(began)}, err
}

// lists are the lines of a header, in memory that is used again.
type lists struct{ header, cookies []egress.Field }

// carry sends a request with a session: the manifest's headers, then the session's, then the call's own. Its reply must be released.
// Its status is 0 if there is none.
func (d *HTTP) carry(ctx context.Context, via Via, s Session, req *catalog.Request, limits egress.Limits) (egress.Reply, error) {
	l, _ := d.lists.Get().(*lists)
	if l == nil {
		l = &lists{}
	}
	l.header, l.cookies = l.header[:0], l.cookies[:0]
	if len(req.Body) > 0 {
		l.header = append(l.header, egress.Field{Name: "Content-Type", Value: "application/json"})
	}
	l.header = append(l.header, d.always...)
	d.dress(l, s)
	for name, values := range req.Header {
		l.header = slices.DeleteFunc(l.header, func(f egress.Field) bool { return strings.EqualFold(f.Name, name) })
		for _, value := range values {
			l.header = append(l.header, egress.Field{Name: name, Value: value})
		}
	}
	out := egress.Request{
		Method: req.Method, Origin: d.Origin, Path: req.Path, Query: req.Query, Header: l.header, Cookies: l.cookies, Body: req.Body,
	}
	got, err := d.client(via).Call(ctx, &out, limits)
	clear(l.header) // no secret stays behind
	clear(l.cookies)
	d.lists.Put(l)
	return got, err
}

// dress adds the session to the lines of a request.
func (d *HTTP) dress(l *lists, s Session) {
	for i := range s.headers {
		h := &s.headers[i]
		name, known := d.names[h.name]
		if !known {
			name = http.CanonicalHeaderKey(h.name)
		}
		set(l, name, s.reveal(h.value))
	}
	agent := s.userAgent
	if agent == "" {
		agent = d.Catalog.Session.UserAgent
	}
	set(l, "User-Agent", agent)
	for i := range s.cookies {
		l.cookies = append(l.cookies, egress.Field{Name: s.cookies[i].name, Value: s.reveal(s.cookies[i].value)})
	}
}

// set puts a line in the place of one with the same name.
func set(l *lists, name, value string) {
	for i := range l.header {
		if strings.EqualFold(l.header[i].Name, name) {
			l.header[i].Value = value
			return
		}
	}
	l.header = append(l.header, egress.Field{Name: name, Value: value})
}
