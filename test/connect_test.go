package test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// personas are all personas that sign in with a password, and the one that uses a phone.
var personas = []string{
	"ok", "sms", "app", "email", "face", "sms-email", "app-face", "sms-email-face", "locked", "banned", "terms", "captcha", "fan", "slow", "flaky",
	"down", "changed", "mobile",
}

// signIn is one attempt and its result.
type signIn struct {
	login, id, state, failure, account string
	codes                              int // codes that the API accepted, or may have accepted
	took                               time.Duration
}

// connectFixture runs attempts while nodes are killed.
type connectFixture struct {
	t        *testing.T
	nodes    []*testnode.Node
	owner    testnode.Org
	platform *sandboxtest.Platform
	restarts atomic.Int64
}

// try sends a request to a random node once. ok is false if the result is unknown.
func (c *connectFixture) try(method, path string, body any) (r testnode.Reply, ok bool) {
	r, err := testnode.Do(c.t.Context(), method, c.nodes[rand.IntN(len(c.nodes))].URL+path, c.owner.Key, body)
	return r, err == nil && r.Status < http.StatusInternalServerError
}

// call sends a request until a node responds.
func (c *connectFixture) call(method, path string, body any) testnode.Reply {
	for range 400 {
		if r, ok := c.try(method, path, body); ok {
			return r
		}
		<-time.After(50 * time.Millisecond)
	}
	c.t.Errorf("%s %s: no response from any node", method, path)
	return testnode.Reply{}
}

// connectOne signs in by following next_actions, as a client should.
func (c *connectFixture) connectOne(n int) signIn {
	persona := personas[n%len(personas)]
	s := signIn{login: fmt.Sprintf("%s+chaos%d@sandbox.test", persona, n)}
	began := time.Now()
	body := map[string]any{"email": s.login, "password": "good", "proxy_country": []string{"us", "uk"}[n%2]}
	if persona == "mobile" {
		body = map[string]any{"auth_type": "mobile_app"}
	}
	r := c.call(http.MethodPost, "/v1/connect/login", body)
	s.id, _ = r.JSON()["attempt_id"].(string)
	if r.Code() == "attempt-in-progress" { // an earlier request had succeeded
		s.id, _ = r.JSON()["attemptId"].(string)
	}
	if s.id == "" {
		c.t.Errorf("start of %s: %d %s", s.login, r.Status, r.Body)
		return s
	}
	path := "/v1/connect/login/" + s.id
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); {
		r := c.call(http.MethodGet, path+"?wait=2", nil)
		a := r.JSON()
		s.state, _ = a["state"].(string)
		if strings.HasPrefix(s.state, "completed_") {
			s.account, _ = a["account_id"].(string)
			if f, ok := a["failure"].(map[string]any); ok {
				s.failure, _ = f["code"].(string)
			}
			s.took = time.Since(began)
			return s
		}
		c.answerNext(&s, path, a)
	}
	c.t.Errorf("%s is stuck in %s", s.login, s.state)
	return s
}

func (c *connectFixture) answerNext(s *signIn, path string, a map[string]any) {
	list, _ := a["next_actions"].([]any)
	can := func(what string) bool { return slices.Contains(list, any(what)) }
	switch {
	case can("send_email"):
		_, _ = c.try(http.MethodPost, path+"/send-email-to-creator", nil)
	case can("submit_code"):
		// A code counts if it may have been accepted.
		if r, ok := c.try(http.MethodPut, path, map[string]any{"code": "123456"}); !ok || r.Status == http.StatusOK {
			s.codes++
		}
	case can("confirm_selfie"):
		_, _ = c.try(http.MethodPost, "/v1/sandbox/attempts/"+s.id+"/advance", map[string]any{"to": "pass_selfie"})
	case can("open_phone_url"):
		_, _ = c.try(http.MethodPost, "/v1/sandbox/attempts/"+s.id+"/advance", map[string]any{"to": "approve"})
	}
}

// killRepeatedly kills a random node at an interval and restarts it. times limits it, so that a slow machine has time
// to finish.
func (c *connectFixture) killRepeatedly(every time.Duration, times int, stop <-chan struct{}) {
	for range times {
		select {
		case <-stop:
			return
		case <-time.After(every):
		}
		p := c.nodes[rand.IntN(len(c.nodes))].Process
		p.Kill()
		p.Start()
		c.restarts.Add(1)
	}
}

// Nodes are killed again and again while all personas sign in. Every attempt ends in time, no creator has two accounts,
// and the platform gets no code twice.
func TestAttemptsSurviveTheDeathOfNodes(t *testing.T) {
	// Not parallel: its load would slow down other tests.
	many := setting("STAGEDOOR_TEST_ATTEMPTS", proof.Scale(12, 36))
	platform, setup := testnode.Sandbox(t, func(cfg *sandbox.Config) { cfg.Slow = 3 * time.Second })
	nodes := testnode.Processes(t, 3, setup)
	c := &connectFixture{t: t, nodes: nodes, platform: platform, owner: nodes[0].NewOrg(t, map[string]int{
		"callsPerMinute": -1, "callsPerMonth": -1, "connectAttemptsPerHour": -1, "maxAccounts": -1,
	})}
	stop := make(chan struct{})
	var killer, work sync.WaitGroup
	killer.Go(func() { c.killRepeatedly(time.Second, proof.Scale(4, 1000), stop) })
	results := make([]signIn, many)
	next := atomic.Int64{}
	for range 20 {
		work.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= many {
					return
				}
				results[n] = c.connectOne(n)
			}
		})
	}
	work.Wait()
	close(stop)
	killer.Wait()
	c.verify(results)
}

func (c *connectFixture) verify(results []signIn) {
	ends, longest := map[string]int{}, time.Duration(0)
	for _, s := range results {
		ends[strings.TrimPrefix(s.state, "completed_")+" "+s.failure]++
		longest = max(longest, s.took)
		codes := c.countCodes(s.login)
		if codes > s.codes {
			c.t.Errorf("%s: the platform got %d codes, but only %d were submitted", s.login, codes, s.codes)
		}
	}
	r := c.call(http.MethodGet, "/v1/accounts", nil)
	owners := map[string]int{}
	list, _ := r.JSON()["accounts"].([]any)
	for _, one := range list {
		owners[one.(map[string]any)["ofUserId"].(string)]++
	}
	for owner, n := range owners {
		if n > 1 {
			c.t.Errorf("creator %s has %d accounts", owner, n)
		}
	}
	if len(list) != ends["success "] {
		c.t.Errorf("%d accounts after %d successful attempts", len(list), ends["success "])
	}
	c.t.Logf("%d attempts, %d nodes killed, ends %v, the longest took %s, %d accounts", len(results), c.restarts.Load(), ends, longest.Round(time.Millisecond), len(list))
}

// countCodes returns how many codes the platform got for a login.
func (c *connectFixture) countCodes(login string) int {
	n := 0
	for _, one := range c.platform.Gate.Entries(login) {
		if one.Method == http.MethodPost && strings.HasSuffix(one.Path, "/answer") {
			n++
		}
	}
	return n
}
