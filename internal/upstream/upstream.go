// Package upstream speaks to a creator platform: signs in step by step, proves a session, calls methods, listens to frames, signs out.
//
// There is one driver, HTTP, and a manifest (package catalog) tells it everything about a platform; another platform is another
// manifest. It keeps no state: a sign-in between two steps is a Continuation, a signed-in creator is a Session, and both are values
// that the caller seals and stores, so any node can go on with them. All traffic leaves through package egress.
//
// Start with Driver. What every driver must do is in upstreamtest.
package upstream

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/catalog"
	"github.com/stagedoor/stagedoor/internal/egress"
	"github.com/stagedoor/stagedoor/internal/secret"
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
	return &HTTP{Deps: d, origins: origins}, nil
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
	out, err := d.request(ctx, s, req)
	if err != nil {
		return nil, err
	}
	began := d.Now()
	resp, err := d.client(via).Do(out, limits) //nolint:bodyclose // Read closes it
	if err != nil {
		return nil, err
	}
	body, err := egress.Read(resp)
	return &reply{status: resp.StatusCode, header: resp.Header, body: body, took: d.Now().Sub(began)}, err
}

// request makes the HTTP request: the manifest's headers, then the session's, then the call's own.
func (d *HTTP) request(ctx context.Context, s Session, req catalog.Request) (*http.Request, error) {
	url := d.Origin + req.Path
	if req.Query != "" {
		url += "?" + req.Query
	}
	out, err := http.NewRequestWithContext(ctx, req.Method, url, bytes.NewReader(req.Body))
	if err != nil {
		// The error of the standard library repeats the address, and with it arguments.
		return nil, fmt.Errorf("%w: the request has no valid address", egress.ErrNotSent)
	}
	if len(req.Body) == 0 {
		out.Body, out.GetBody, out.ContentLength = http.NoBody, nil, 0
	} else {
		out.Header.Set("Content-Type", "application/json")
	}
	for name, values := range d.Catalog.Session.Send {
		out.Header[name] = values
	}
	s.dress(out.Header, d.Catalog.Session.UserAgent)
	for name, values := range req.Header {
		out.Header[name] = values
	}
	return out, nil
}
