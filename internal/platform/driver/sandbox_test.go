package driver_test

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/driver/drivertest"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testplatform"
	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// fixture is a sandbox platform, two regions of proxies in front of it, and a driver.
type fixture struct {
	t        testing.TB
	platform *sandboxtest.Platform
	catalog  *catalog.Catalog
	egress   *egress.Egress
	us, uk   []*testenv.Proxy
	driver   *driver.HTTP
	logins   *atomic.Int64
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	slow := func(cfg *sandbox.Config) { cfg.Slow = 300 * time.Millisecond }
	p := testplatform.New(t, testplatform.Setup{Sandbox: slow, Proxies: 2})
	return &fixture{
		t: t, platform: p.Platform, catalog: p.Catalog, egress: p.Egress, us: p.US, uk: p.UK, driver: p.Driver,
		logins: new(atomic.Int64),
	}
}

func (r *fixture) forTest(t testing.TB) *fixture {
	t.Helper()
	inner := *r
	inner.t = t
	return &inner
}

func (r *fixture) newDriver(patience time.Duration) *driver.HTTP {
	r.t.Helper()
	d, err := driver.New(driver.Deps{Catalog: r.catalog, Egress: r.egress, Origin: r.platform.URL, Patience: patience, Now: time.Now})
	must.OK(r.t, err)
	return d
}

// login returns the login of a new creator with a persona.
func (r *fixture) login(persona string) string {
	return fmt.Sprintf("%s+%d@sandbox.test", persona, r.logins.Add(1))
}

func via(region string) driver.Via { return driver.Via{Region: region, Account: "acct_test"} }

// signIn takes the first step of a sign-in.
func (r *fixture) signIn(login, password string) driver.Step {
	r.t.Helper()
	step, err := r.driver.SignIn(r.t.Context(), via("us"), secret.New(login), secret.New(password), driver.Session{})
	must.OK(r.t, err)
	return step
}

// session signs in a login that gets no challenge.
func (r *fixture) session(login string) driver.Session {
	r.t.Helper()
	step := r.signIn(login, "good")
	if step.Session == nil {
		r.t.Fatalf("%s did not sign in: %+v", login, step.Failure)
	}
	return *step.Session
}

func (r *fixture) call(s driver.Session, name, args string) (driver.Answer, error) {
	r.t.Helper()
	return drivertest.Caller{Driver: r.driver, Catalog: r.catalog, Via: via("us"), Session: s}.Call(r.t.Context(), r.t, name, args)
}

// control sends a request to the sandbox's control API and returns the response.
func (r *fixture) control(method, path string, body any) map[string]any {
	r.t.Helper()
	return r.platform.Control(r.t, method, path, body)
}

// platformTest returns the sandbox in the form that the conformance suite needs.
func (r *fixture) platformTest() *drivertest.Platform {
	return &drivertest.Platform{
		Driver:  func(t testing.TB) driver.Driver { t.Helper(); return r.forTest(t).newDriver(0) },
		Catalog: r.catalog, Region: "us", Login: r.login,
		Right: "123456", Wrong: "000000", Password: "good", WrongPassword: "bad",
		Phone: func(t testing.TB, qr driver.QR, action string) {
			t.Helper()
			r := r.forTest(t)
			id, _, _ := strings.Cut(path.Base(qr.URL.Reveal()), ".")
			r.control("POST", "qr/"+id+"/"+action, map[string]any{})
		},
		Selfie: func(t testing.TB, page string, passed bool) {
			t.Helper()
			r.forTest(t).control("POST", "selfies/"+path.Base(page), map[string]any{"passed": passed})
		},
		Write: "lists.create", WriteArgs: `{"name":"Conformance"}`, Read: "lists.list", Event: "listUpdated",
		Shows: func(result []byte) bool { return bytes.Contains(result, []byte(`"Conformance"`)) },
	}
}

func TestTheHTTPDriverConforms(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, newFixture(t).platformTest())
}
