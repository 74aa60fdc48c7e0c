// Package registry knows the creator platforms of this server. Everything else asks it for the platform of an account
// instead of naming one.
//
// The operator lists the platforms (sources.go). Each belongs to one environment, and the first of an environment is its
// default, so that a caller does not have to name one.
package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// Platform is a creator platform.
type Platform struct {
	// ID is the id of the catalogue, such as ghost. Accounts store it.
	ID          string
	Environment environment.Environment
	Catalog     *catalog.Catalog
	Driver      driver.Driver
	// Sites finds the site of a creator. It is used only if the catalogue has sites.
	Sites Sites
	// Files moves files. It is used only if the catalogue has files.
	Files Files
	// Guard limits password guessing. The zero value has no limits.
	Guard Guard
	// IsSandbox means that the platform is our own sandbox, whose logins are public.
	IsSandbox bool

	host string
}

// Sites finds the site of a creator. *driver.HTTP implements it.
type Sites interface {
	FindSite(ctx context.Context, via driver.Via, site string) (driver.Place, error)
}

// Files is a client for a platform's files. *driver.Files implements it.
type Files interface {
	Fetch(ctx context.Context, via driver.Via, s driver.Session, req driver.FileRequest) (*driver.File, error)
	Put(ctx context.Context, via driver.Via, s driver.Session, part driver.PartRequest) (etag string, err error)
	SendForm(ctx context.Context, via driver.Via, s driver.Session, file driver.FormRequest) (driver.Answer, error)
}

// Hosts returns the platform's hosts, as name or name:port. Only cookies of these hosts are imported. site is the root
// of the creator's site; empty for a platform without sites.
func (p Platform) Hosts(site string) []string {
	host := p.host
	if u, err := url.Parse(site); err == nil && site != "" {
		host = u.Host
	}
	if host == "" {
		return nil
	}
	return []string{host}
}

// WithHost returns the platform with another host, for tests.
func (p Platform) WithHost(host string) Platform {
	p.host = host
	return p
}

// Has reports whether the platform has a connect method: oauth, token, credentials, mobile_app, cookie or curl.
func (p Platform) Has(kind string) bool {
	switch kind {
	case "oauth":
		d, ok := p.Driver.(interface{ HasOAuth() bool })
		return ok && d.HasOAuth()
	case "credentials":
		return p.Catalog == nil || p.Catalog.SignIn.HasStep(catalog.StepCredentials)
	case "cookie", "curl":
		return p.Catalog == nil || len(p.Catalog.Session.Cookies.Kept) > 0
	case "token":
		return p.Catalog != nil && p.Catalog.Session.JWT != nil
	case "mobile_app":
		if p.Catalog == nil {
			return true
		}
		_, err := p.Catalog.SignIn.OpenQR()
		return !errors.Is(err, catalog.ErrNoStep)
	}
	return true
}

// Flows lists the platform's connect methods. What the platform recommends to programs comes first.
func (p Platform) Flows() []string {
	return slices.DeleteFunc([]string{"oauth", "token", "credentials", "mobile_app", "cookie", "curl"}, func(kind string) bool { return !p.Has(kind) })
}

// Listens reports whether the platform has events, so that its accounts need a listener.
func (p Platform) Listens() bool {
	return p.Catalog != nil && (p.Catalog.Socket != nil || p.Catalog.Poll != nil)
}

// Guard limits sign-ins with a password.
type Guard struct {
	// PerLogin limits the sign-ins of one login per hour, over all orgs together; 0 for no limit.
	PerLogin int
	// Refused limits how many sign-ins of an org may fail with a wrong password within an hour. It applies only if they
	// are at least half of the org's sign-ins. 0 for no limit.
	Refused int
}

// DefaultGuard limits password guessing through this service on a platform with real accounts.
var DefaultGuard = Guard{PerLogin: 5, Refused: 20}

// Registry holds the platforms in the order of the settings. It does not change. The zero value has none.
type Registry struct{ list []Platform }

// Of returns a registry of platforms. A platform without an id has that of its catalogue.
func Of(list ...Platform) Registry {
	for i := range list {
		if p := &list[i]; p.ID == "" && p.Catalog != nil {
			p.ID, p.Environment = p.Catalog.ID, p.Catalog.Environment
		}
	}
	return Registry{list}
}

// Deps are the dependencies of the platforms.
type Deps struct {
	Sources []Source
	// OAuth holds the OAuth clients of platforms by id. A platform without one has no sign-in by OAuth.
	OAuth  map[string]driver.OAuthClient
	Egress *egress.Egress
	Now    func() time.Time
}

// New loads the manifests and sets up the platforms. It does not connect to them. The error names the source, and the
// file and line of every fault in a manifest.
func New(d Deps) (Registry, error) {
	var list []Platform
	for _, source := range d.Sources {
		p, err := newPlatform(d, source)
		if err != nil {
			return Registry{}, fmt.Errorf("platform %s: %w", source.ID, err)
		}
		list = append(list, p)
	}
	return Of(list...), nil
}

func newPlatform(d Deps, source Source) (Platform, error) {
	c, err := source.Load()
	if err != nil {
		return Platform{}, err
	}
	p := Platform{ID: c.ID, Environment: c.Environment, Catalog: c, IsSandbox: source.isSandbox()}
	if !c.Environment.IsTest() {
		p.Guard = DefaultGuard
	}
	registered, listed := d.OAuth[c.ID]
	if listed && c.SignIn.OAuth == nil {
		return Platform{}, errors.New("an OAuth client is configured, but the manifest has no signIn.oauth")
	}
	client, err := driver.New(driver.Deps{
		Catalog: c, Egress: d.Egress, Origin: source.URL, OAuth: registered, Patience: 0, Now: d.Now,
	})
	if err != nil {
		return Platform{}, err
	}
	p.Driver = client
	if c.Site != nil {
		p.Sites = client
	} else if u, err := url.Parse(cmp.Or(source.URL, c.Origin)); err == nil {
		p.host = u.Host
	}
	if c.Files != nil {
		if p.Files, err = client.Files(); err != nil {
			return Platform{}, err
		}
	}
	return p, nil
}

// All returns the platforms in the order of the settings.
func (r Registry) All() []Platform { return r.list }

// Get returns a platform by its id.
func (r Registry) Get(id string) (Platform, bool) {
	i := slices.IndexFunc(r.list, func(p Platform) bool { return p.ID == id })
	if i < 0 {
		return Platform{}, false
	}
	return r.list[i], true
}

// Catalogs returns the catalogues in the order of the settings.
func (r Registry) Catalogs() []*catalog.Catalog {
	list := make([]*catalog.Catalog, len(r.list))
	for i, p := range r.list {
		list[i] = p.Catalog
	}
	return list
}

// In returns the platforms of an environment, its default first.
func (r Registry) In(env environment.Environment) []Platform {
	var list []Platform
	for _, p := range r.list {
		if p.Environment == env {
			list = append(list, p)
		}
	}
	return list
}

// Default returns the platform that an environment's callers get if they name none.
func (r Registry) Default(env environment.Environment) (Platform, bool) {
	if list := r.In(env); len(list) > 0 {
		return list[0], true
	}
	return Platform{}, false
}

// Choose returns the platform that a caller has named, or the default for an empty id. Errors are problems: for a name
// that the environment does not have, and for an environment without a platform.
func (r Registry) Choose(env environment.Environment, id string) (Platform, error) {
	list := r.In(env)
	if len(list) == 0 {
		return Platform{}, problem.ConnectUnavailable.Newf("There is no platform for %s organisations on this server.",
			env).Retry(false)
	}
	if id == "" {
		return list[0], nil
	}
	names := make([]string, len(list))
	for i, p := range list {
		if p.ID == id {
			return p, nil
		}
		names[i] = p.ID
	}
	return Platform{}, problem.ValidationFailed.New("The platform is unknown.").At("/platform", "enum",
		"must be one of "+strings.Join(names, ", "))
}

// Unavailable returns the problem for an account whose platform is not in the settings any more.
func Unavailable(id string) *problem.Error {
	return problem.PlatformUnavailable.Newf("The platform %s is not configured on this server.", id)
}

// Documented returns the platform that public documents describe: the one that anyone can try, or else the first.
func (r Registry) Documented() Platform {
	for _, p := range r.list {
		if p.IsSandbox {
			return p
		}
	}
	if len(r.list) > 0 {
		return r.list[0]
	}
	return Platform{}
}
