package admission_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// While Redis answers late, it still decides: limits are exact, and no call is decided alone. After several late
// answers in a row nodes decide alone, so that calls no longer wait.
func TestLateAnswersKeepLimitsExact(t *testing.T) {
	t.Parallel()
	time0 := testenv.NewClock(time.Now().UTC().Add(time.Hour)) // stands still, so nothing drains
	_, url := testenv.PrivateRedis(t)
	link := testenv.NewSlowLink(t, strings.TrimSuffix(strings.TrimPrefix(url.Reveal(), "redis://"), "/0"))
	const (
		timeout  = 300 * time.Millisecond
		delay    = time.Second // always late
		patience = time.Minute // never too late
		perNode  = 3           // fewer late answers than open a breaker
	)
	n := newPatientNodes(t, secret.New("redis://"+link.Address+"/0"), time0.Now, true, timeout, patience)
	owner := n.newOrg(t)
	limits := org.Limits{CallsPerMinute: 12, CallsPerMonth: 1000}
	// burst makes calls on every node concurrently.
	burst := func(calls int) (admitted, alone int) {
		var (
			mu   sync.Mutex
			wait sync.WaitGroup
		)
		for _, l := range n.limiters {
			for range calls {
				wait.Go(func() {
					d, err := l.Admit(t.Context(), admission.Call{Org: owner, Quota: admission.Plain, Epoch: 1, Limits: &limits})
					if err != nil || d.Stale {
						t.Errorf("%+v %v", d, err)
					}
					mu.Lock()
					defer mu.Unlock()
					if d.Denied == nil {
						admitted++
					}
					if d.Degraded {
						alone++
					}
				})
			}
		}
		wait.Wait()
		return admitted, alone
	}
	before, _ := burst(1) // connects and creates the counters; nodes may do that concurrently
	more, _ := burst(1)   // all nodes adopt the newest counters
	before += more
	link.SetDelay(delay)
	if admitted, alone := burst(perNode); before+admitted != limits.CallsPerMinute || alone > 0 {
		t.Errorf("a limit of %d admitted %d and then %d; %d calls were decided alone", limits.CallsPerMinute, before, admitted, alone)
	}
	for alone := 0; alone == 0; {
		time0.Advance(time.Minute) // a node with a held denial does not ask Redis
		_, alone = burst(3 * perNode)
	}
}
