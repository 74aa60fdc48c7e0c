package driver_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/driver/drivertest"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
)

type regionAccount struct {
	login string
	via   driver.Via
	s     driver.Session
}

func (a regionAccount) call(t *testing.T, r *fixture) (driver.Answer, error) {
	t.Helper()
	caller := drivertest.Caller{Driver: r.driver, Catalog: r.catalog, Via: a.via, Session: a.s}
	return caller.Call(t.Context(), t, "settings.getBlockedCountries", "{}")
}

// An account's traffic leaves only through its region: accounts of two regions make many calls while proxies are killed
// and restarted, and the platform's record shows the source of each request.
func TestAnAccountLeavesThroughItsRegionOnly(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	var all []regionAccount
	for n := range 20 {
		one := regionAccount{login: r.login("ok"), via: driver.Via{Region: []string{"us", "uk"}[n%2], Account: fmt.Sprintf("acct_%d", n)}}
		step, err := r.driver.SignIn(t.Context(), one.via, secret.New(one.login), secret.New("good"), driver.Session{})
		if err != nil || step.Session == nil {
			t.Fatalf("%+v, %v", step.Failure, err)
		}
		one.s = *step.Session
		all = append(all, one)
	}
	calls := proof.Scale[int64](1_500, 10_000)
	var answered, refused atomic.Int64
	callers := func() {
		for answered.Load() < calls {
			one := all[rand.IntN(len(all))]
			_, err := one.call(t, r)
			if err == nil {
				answered.Add(1)
				continue
			}
			refused.Add(1)
			if p, ok := errors.AsType[*problem.Error](err); !ok || p.Kind.Code != problem.EgressUnavailable.Code && p.Kind.Code != problem.UpstreamUnavailable.Code {
				t.Errorf("a call through dying proxies: %v", err)
				return
			}
			// The health check does this every five seconds. It finds proxies that are back.
			r.egress.Check(t.Context())
		}
	}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(callers)
	}
	trouble := make(chan struct{})
	go func() {
		defer close(trouble)
		restartProxies(func() bool { return answered.Load() < calls*95/100 }, append(r.us, r.uk...))
	}()
	wait.Wait()
	<-trouble
	counted := r.checkRecord(all)
	t.Logf("%d calls answered, %d without egress; the platform saw %v", answered.Load(), refused.Load(), counted)
	r.checkRegionDown(t, all)
}

// checkRegionDown stops every proxy of uk: calls of its accounts are refused, and none leaves through us.
func (r *fixture) checkRegionDown(t *testing.T, all []regionAccount) {
	t.Helper()
	for _, p := range r.uk {
		p.Kill()
	}
	r.egress.Check(t.Context())
	for _, one := range all {
		_, err := one.call(t, r)
		if down := one.via.Region == "uk"; down != (err != nil) {
			t.Errorf("%s of %s while uk is down: %v", one.via.Account, one.via.Region, err)
		}
	}
	r.checkRecord(all)
}

// restartProxies kills and restarts random proxies while going returns true. Now and then all proxies of a region are
// down.
func restartProxies(going func() bool, proxies []*testenv.Proxy) {
	tick := time.NewTicker(15 * time.Millisecond)
	defer tick.Stop()
	for going() {
		<-tick.C
		one := proxies[rand.IntN(len(proxies))]
		if rand.IntN(2) == 0 {
			one.Kill()
		} else {
			one.Start()
		}
	}
	for _, p := range proxies {
		p.Start()
	}
}

// checkRecord checks the source of each request in the platform's record and counts requests by source.
func (r *fixture) checkRecord(all []regionAccount) map[string]int {
	r.t.Helper()
	region := map[string]string{}
	for _, one := range all {
		region[one.login] = one.via.Region
	}
	counted := map[string]int{}
	for _, e := range r.platform.Gate.Entries("") {
		counted[e.Egress]++
		if want, ok := region[e.Login]; ok && e.Egress != want {
			r.t.Errorf("%s of region %s came through %s: %s %s", e.Login, want, e.Egress, e.Method, e.Path)
		}
		if e.Egress == "direct" {
			r.t.Errorf("a direct connection: %s %s", e.Method, e.Path)
		}
	}
	return counted
}
