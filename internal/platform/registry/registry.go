// Package registry knows which creator platform the accounts of an environment are on. Everything else asks it for a
// platform instead of naming one.
package registry

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// Platform is a creator platform.
type Platform struct {
	Name    string
	Catalog *catalog.Catalog
	Driver  driver.Driver
	// Files moves files. It is used only if the catalogue has files.
	Files Files
	// Hosts are the platform's hosts, as name or name:port. Only cookies of these hosts are imported.
	Hosts []string
	// Guard limits password guessing. The zero value has no limits.
	Guard Guard
	// IsSandbox means that the platform is our own sandbox, whose logins are public.
	IsSandbox bool
}

// Files is a client for a platform's files. *driver.Files implements it.
type Files interface {
	Fetch(ctx context.Context, via driver.Via, s driver.Session, req driver.FileRequest) (*driver.File, error)
	Put(ctx context.Context, via driver.Via, s driver.Session, part driver.PartRequest) (etag string, err error)
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

// Registry holds the platform of each environment. An environment may have none.
type Registry map[environment.Environment]Platform

// Deps are the dependencies of the platforms.
type Deps struct {
	SandboxURL string
	Egress     *egress.Egress
	Now        func() time.Time
}

// New sets up the platforms. It does not connect to them.
func New(d Deps) (Registry, error) {
	c, err := catalog.Sandbox()
	if err != nil {
		return nil, err
	}
	p := Platform{Name: c.ID, Catalog: c, IsSandbox: true}
	client, err := driver.New(driver.Deps{Catalog: c, Egress: d.Egress, Origin: d.SandboxURL, Patience: 0, Now: d.Now})
	if err != nil {
		return nil, fmt.Errorf("STAGEDOOR_SANDBOX_URL: %w", err)
	}
	p.Driver = client
	if p.Files, err = client.Files(); err != nil {
		return nil, err
	}
	if u, err := url.Parse(d.SandboxURL); err == nil {
		p.Hosts = []string{u.Host}
	}
	return Registry{environment.Sandbox: p}, nil
}

func (r Registry) For(env environment.Environment) (Platform, bool) {
	p, ok := r[env]
	return p, ok
}

// Sandbox returns the platform that anyone can try, which public documents describe.
func (r Registry) Sandbox() Platform {
	for _, p := range r {
		if p.IsSandbox {
			return p
		}
	}
	return Platform{}
}

// Catalogs returns the methods and events of each environment.
func (r Registry) Catalogs() map[environment.Environment]*catalog.Catalog {
	all := map[environment.Environment]*catalog.Catalog{}
	for env, p := range r {
		all[env] = p.Catalog
	}
	return all
}
