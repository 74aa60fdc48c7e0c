// Package testplatform gives tests a sandbox platform that is reached as in production: through the proxies of two
// regions, with a driver. Start with New.
package testplatform

import (
	"cmp"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// Setup changes the defaults of a platform.
type Setup struct {
	// Sandbox changes the configuration of a new sandbox. Running is a sandbox to use instead of a new one.
	Sandbox func(*sandbox.Config)
	Running *sandboxtest.Platform
	// Origin is where the driver finds the platform. Default: the sandbox itself.
	Origin string
	// Catalog is what the driver knows of the platform. Default: the sandbox's.
	Catalog *catalog.Catalog
	// Proxies is the number of proxies of each region. Default: 1.
	Proxies int
}

// Platform is a sandbox with everything that calls on it need.
type Platform struct {
	*sandboxtest.Platform
	Catalog *catalog.Catalog
	Egress  *egress.Egress
	Driver  *driver.HTTP
	// US and UK are the proxies of the regions.
	US, UK []*testenv.Proxy
}

// New starts a platform that closes when the test ends.
func New(t testing.TB, s Setup) *Platform {
	t.Helper()
	p := &Platform{Platform: s.Running, Catalog: s.Catalog}
	if p.Platform == nil {
		p.Platform = sandboxtest.New(t, func(cfg *sandbox.Config) {
			cfg.Regions = map[string]string{"127.0.1.1": "us", "127.0.2.1": "uk"}
			if s.Sandbox != nil {
				s.Sandbox(cfg)
			}
		})
	}
	var err error
	if p.Catalog == nil {
		p.Catalog, err = catalog.Sandbox()
		must.OK(t, err)
	}
	for range max(s.Proxies, 1) {
		p.US = append(p.US, testenv.NewProxy(t, "127.0.1.1"))
		p.UK = append(p.UK, testenv.NewProxy(t, "127.0.2.1"))
	}
	regions, err := egress.ParseRegions(secret.New("us=" + urls(p.US) + " uk=" + urls(p.UK)))
	must.OK(t, err)
	p.Egress = egress.New(egress.Deps{
		Config: egress.Config{Regions: regions}, Registry: nil, Starved: nil, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	t.Cleanup(p.Egress.Close)
	p.Driver, err = driver.New(driver.Deps{
		Catalog: p.Catalog, Egress: p.Egress, Origin: cmp.Or(s.Origin, p.URL), Patience: 0, OAuth: driver.OAuthClient{}, Now: time.Now,
	})
	must.OK(t, err)
	return p
}

func urls(proxies []*testenv.Proxy) string {
	var list []string
	for _, one := range proxies {
		list = append(list, one.URL())
	}
	return strings.Join(list, ",")
}

// SignIn signs a creator in who gets no challenge, and returns the session and who it belongs to.
func (p *Platform) SignIn(t testing.TB, login string) (driver.Session, driver.Identity) {
	t.Helper()
	via := driver.Via{Region: "us", Account: string(id.New[id.Attempt]())}
	step, err := p.Driver.SignIn(t.Context(), via, secret.New(login), secret.New("good"), driver.Session{})
	if err != nil || step.Session == nil {
		t.Fatalf("%s did not sign in: %+v, %v", login, step.Failure, err)
	}
	who, _, err := p.Driver.Probe(t.Context(), via, *step.Session)
	must.OK(t, err)
	return *step.Session, who
}
