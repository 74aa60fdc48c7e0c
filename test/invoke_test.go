package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/gate"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// connected is a connected account with a fan to write to.
type connected struct {
	login, region, account, chat string
}

// sentMessage is a message and the response to its caller.
type sentMessage struct {
	creator *connected
	text    string
	// answered means that the response was 200, harmless that it was an error with retryable true.
	answered, harmless bool
}

// callsFixture holds nodes, a platform and connected accounts.
type callsFixture struct {
	t        *testing.T
	nodes    []*testnode.Node
	owner    testnode.Org
	platform *sandboxtest.Platform
	creators []*connected
	proxies  map[string]*testenv.Proxy
	redis    *testenv.Process
	// pick returns the node of the next call. Default: any.
	pick func() *testnode.Node

	mu       sync.Mutex
	problems map[string]int
	messages []sentMessage
	reads    atomic.Int64
	replays  atomic.Int64
	// sent counts all requests, succeeded those with the status 200.
	sent, succeeded atomic.Int64
}

func newCallsFixture(t *testing.T, accounts int) *callsFixture {
	t.Helper()
	s := &callsFixture{t: t, problems: map[string]int{}, proxies: map[string]*testenv.Proxy{
		"us": testenv.NewProxy(t, "127.0.1.1"), "uk": testenv.NewProxy(t, "127.0.2.1"),
	}}
	s.platform = sandboxtest.New(t, func(cfg *sandbox.Config) {
		cfg.Regions = map[string]string{"127.0.1.1": "us", "127.0.2.1": "uk"}
	})
	redis, redisURL := testenv.PrivateRedis(t)
	s.redis = redis
	s.nodes = testnode.Processes(t, 3, testnode.Setup{
		Sandbox: s.platform.URL, Redis: redisURL, RedisTimeout: 250 * time.Millisecond,
		Egress: secret.New("us=" + s.proxies["us"].URL() + " uk=" + s.proxies["uk"].URL()),
	})
	s.connectAll(accounts)
	return s
}

// connectAll creates an organisation without limits, and connects accounts.
func (s *callsFixture) connectAll(accounts int) {
	s.owner = s.nodes[0].NewOrg(s.t, map[string]int{
		"callsPerMinute": -1, "callsPerMonth": -1, "connectAttemptsPerHour": -1, "maxAccounts": -1,
		"accountReadPerMinute": -1, "accountWritePerMinute": -1,
	})
	s.creators = make([]*connected, accounts)
	next := atomic.Int64{}
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for n := int(next.Add(1)) - 1; n < accounts; n = int(next.Add(1)) - 1 {
				s.creators[n] = s.connect(n)
			}
		})
	}
	work.Wait()
	if s.t.Failed() {
		s.t.FailNow()
	}
}

// connect connects a creator with a cookie. No credentials are stored, so a lost session cannot be replaced.
func (s *callsFixture) connect(n int) *connected {
	c := &connected{login: fmt.Sprintf("ok+call%d@sandbox.test", n), region: []string{"us", "uk"}[n%2]}
	node := s.nodes[n%len(s.nodes)]
	c.account = node.ConnectLogin(s.t, s.owner.Key, c.login, c.region)
	r := node.Call(s.t, http.MethodPost, "/v1/accounts/"+c.account+"/fans/list", s.owner.Key, map[string]any{"limit": 1})
	var page struct {
		Result struct {
			Items []struct{ User struct{ ID string } }
		}
	}
	if err := json.Unmarshal(r.Body, &page); err != nil || len(page.Result.Items) == 0 {
		s.t.Errorf("%s has no fans: %d %s", c.login, r.Status, r.Body)
		return c
	}
	c.chat = page.Result.Items[0].User.ID
	return c
}

// send makes one request to a random node. After an error the result is unknown.
func (s *callsFixture) send(ctx context.Context, c *connected, method, key string, args any) (testnode.Reply, error) {
	body, err := json.Marshal(args)
	if err != nil {
		return testnode.Reply{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	s.sent.Add(1)
	node := s.nodes[rand.IntN(len(s.nodes))]
	if s.pick != nil {
		node = s.pick()
	}
	path := node.URL + "/v1/accounts/" + c.account + "/" + strings.ReplaceAll(method, ".", "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return testnode.Reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+s.owner.Key)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	r, err := testnode.Send(req)
	if err == nil && r.Status == http.StatusOK {
		s.succeeded.Add(1)
	}
	if err == nil && r.Status >= http.StatusBadRequest {
		s.checkProblem(r)
	}
	return r, err
}

// reset forgets all calls.
func (s *callsFixture) reset() {
	s.messages, s.problems = nil, map[string]int{}
	for _, n := range []*atomic.Int64{&s.reads, &s.replays, &s.sent, &s.succeeded} {
		n.Store(0)
	}
}

// knownProblems are the codes of the problem catalogue.
var knownProblems = func() map[string]bool {
	all := map[string]bool{}
	for _, k := range problem.All() {
		all[k.Code] = true
	}
	return all
}()

// checkProblem checks that an error response is a problem of the catalogue.
func (s *callsFixture) checkProblem(r testnode.Reply) {
	p := r.JSON()
	code, _ := p["code"].(string)
	_, hasRetryable := p["retryable"].(bool)
	if !knownProblems[code] || !hasRetryable || r.Header.Get("Content-Type") != problem.ContentType {
		s.t.Errorf("not a problem of the catalogue: %d %s", r.Status, r.Body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems[fmt.Sprintf("%d %s retryable=%v", r.Status, code, p["retryable"])]++
}

// read makes a random read.
func (s *callsFixture) read(ctx context.Context, c *connected) {
	method, args := "me.get", map[string]any{}
	switch rand.IntN(3) {
	case 0:
		method, args = "fans.list", map[string]any{"limit": 5}
	case 1:
		method, args = "users.get", map[string]any{"userId": c.chat}
	}
	if r, err := s.send(ctx, c, method, "", args); err == nil && r.Status == http.StatusOK {
		s.reads.Add(1)
	}
}

// write sends a message once and records the response.
func (s *callsFixture) write(ctx context.Context, c *connected) {
	m := sentMessage{creator: c, text: "plain " + strconv.FormatUint(rand.Uint64(), 36)}
	r, err := s.send(ctx, c, "messages.send", "", map[string]any{"chatId": c.chat, "text": m.text})
	if err == nil {
		m.answered = r.Status == http.StatusOK
		m.harmless = !m.answered && r.JSON()["retryable"] == true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, m)
}

// writeWithKey sends a message with an idempotency key until the response is final.
func (s *callsFixture) writeWithKey(ctx context.Context, c *connected) {
	m := sentMessage{creator: c, text: "keyed " + strconv.FormatUint(rand.Uint64(), 36)}
	key := strconv.FormatUint(rand.Uint64(), 36) + strconv.FormatUint(rand.Uint64(), 36)
	for range 200 {
		r, err := s.send(ctx, c, "messages.send", key, map[string]any{"chatId": c.chat, "text": m.text})
		if r.Header.Get("Idempotency-Replayed") == "true" {
			s.replays.Add(1)
		}
		if err == nil && (r.Status == http.StatusOK || r.JSON()["retryable"] != true) {
			m.answered = r.Status == http.StatusOK
			break
		}
		<-time.After(200 * time.Millisecond)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, m)
}

// injectFaults kills nodes, stops Redis and kills a proxy until the context ends.
func (s *callsFixture) injectFaults(ctx context.Context, lasting time.Duration) {
	var all sync.WaitGroup
	defer all.Wait()
	after := func(d time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	all.Go(func() {
		for after(lasting / 6) {
			p := s.nodes[rand.IntN(len(s.nodes))].Process
			p.Kill()
			p.Start()
		}
	})
	all.Go(func() {
		if after(lasting / 5) {
			s.redis.Signal(syscall.SIGSTOP)
			<-time.After(5 * time.Second)
			s.redis.Signal(syscall.SIGCONT)
		}
	})
	all.Go(func() {
		if after(lasting / 2) {
			s.proxies["us"].Kill()
			<-time.After(lasting / 6)
			s.proxies["us"].Start()
		}
	})
}

// setting reads a number from the environment; fallback is its default.
func setting(name string, fallback int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return fallback
}

// Nodes die, Redis hangs, a proxy dies and sessions rotate while accounts are called. No write is carried out twice, or
// reported as retryable after it was carried out. No call leaves through a wrong region, no session is lost, and every
// error is a problem of the catalogue.
func TestCallsSurviveTrouble(t *testing.T) {
	// Not parallel: its load would slow down other tests.
	s := newCallsFixture(t, setting("STAGEDOOR_TEST_ACCOUNTS", proof.Scale(10, 30)))
	lasting := time.Duration(setting("STAGEDOOR_TEST_SECONDS", proof.Scale(5, 12))) * time.Second
	if _, err := s.platform.Gate.Faults.Add(gate.Fault{Scope: "all", Kind: gate.Rotate, Value: 10}, 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	var work sync.WaitGroup
	work.Go(func() { s.injectFaults(ctx, lasting) })
	for range 24 {
		work.Go(func() {
			for ctx.Err() == nil {
				s.callOnce()
			}
		})
	}
	work.Wait()
	s.verify()
}

// callOnce makes a random call on a random account.
func (s *callsFixture) callOnce() {
	c := s.creators[rand.IntN(len(s.creators))]
	switch rand.IntN(4) {
	case 0:
		s.write(s.t.Context(), c)
	case 1:
		s.writeWithKey(s.t.Context(), c)
	default:
		s.read(s.t.Context(), c)
	}
}

// verifyMessages compares the responses to callers with the messages that the platform has.
func (s *callsFixture) verifyMessages() (answered, harmless, unknown int) {
	sent := map[*connected]map[string]int{}
	for _, m := range s.messages {
		if sent[m.creator] == nil {
			sent[m.creator] = s.countMessages(m.creator)
		}
		n := sent[m.creator][m.text]
		switch {
		case n > 1:
			s.t.Errorf("%q was sent %d times", m.text, n)
		case m.answered && n != 1:
			s.t.Errorf("%q was answered with 200, but was not sent", m.text)
		case m.harmless && n != 0:
			s.t.Errorf("%q was answered with a retryable error, but was sent", m.text)
		}
		switch {
		case m.answered:
			answered++
		case m.harmless:
			harmless++
		default:
			unknown++
		}
	}
	return answered, harmless, unknown
}

// verify compares the responses to callers with what the platform has.
func (s *callsFixture) verify() {
	answered, harmless, unknown := s.verifyMessages()
	refusals, turned := 0, 0
	for _, c := range s.creators {
		for _, e := range s.platform.Gate.Entries(c.login) {
			if e.Egress != c.region && !strings.Contains(e.Path, "/control/") && e.Egress != "direct" || e.Egress == "direct" && strings.HasPrefix(e.Path, "/api/") {
				s.t.Errorf("%s of %s left through %s, want %s", e.Path, c.login, e.Egress, c.region)
			}
			if e.Status == http.StatusUnauthorized {
				refusals++
			}
		}
		for _, node := range s.nodes {
			if r := node.Call(s.t, http.MethodPost, "/v1/accounts/"+c.account+"/me/get", s.owner.Key, nil); r.Status != http.StatusOK {
				s.t.Errorf("%s has lost its session: %d %s", c.login, r.Status, r.Body)
			}
		}
		turned++
	}
	if answered == 0 || s.reads.Load() == 0 {
		s.t.Error("no read or no write succeeded")
	}
	s.t.Logf("%d accounts: %d reads; %d writes succeeded, %d failed and are retryable, %d are unknown; %d replays; %d sessions refused at first; problems %v",
		turned, s.reads.Load(), answered, harmless, unknown, s.replays.Load(), refusals, s.problems)
}

// countMessages counts the messages of a chat by text.
func (s *callsFixture) countMessages(c *connected) map[string]int {
	texts := map[string]int{}
	cursor := ""
	for range 200 {
		args := map[string]any{"chatId": c.chat, "limit": 100}
		if cursor != "" {
			args["cursor"] = cursor
		}
		list := func() testnode.Reply {
			return s.nodes[0].Call(s.t, http.MethodPost, "/v1/accounts/"+c.account+"/messages/list", s.owner.Key, args)
		}
		r := list()
		for r.Status == http.StatusServiceUnavailable && clock.Pause(s.t.Context(), time.Second) {
			r = list() // Calls are paused for some seconds after most of them failed.
		}
		var page struct {
			Result struct {
				Items      []struct{ Text string }
				NextCursor string
			}
		}
		if err := json.Unmarshal(r.Body, &page); err != nil || r.Status != http.StatusOK {
			s.t.Fatalf("messages of %s: %d %s", c.login, r.Status, r.Body)
		}
		for _, m := range page.Result.Items {
			texts[m.Text]++
		}
		if cursor = page.Result.NextCursor; cursor == "" {
			break
		}
	}
	return texts
}

// After an account is paused or deleted, or its session rotated, the next call on every node knows, even under load.
func TestNextCallSeesAccountChange(t *testing.T) {
	s := newCallsFixture(t, proof.Scale(3, 12))
	for i, c := range s.creators {
		s.changeUnderLoad(c, []string{"delete", "pause", "rotate"}[i%3])
	}
}

// changeUnderLoad changes an account under load and checks the calls that start after the change was confirmed.
func (s *callsFixture) changeUnderLoad(c *connected, change string) {
	ctx, stop := context.WithCancel(s.t.Context())
	defer stop()
	type seen struct {
		started time.Time
		status  int
	}
	var (
		mu    sync.Mutex
		calls []seen
		work  sync.WaitGroup
	)
	made := make(chan time.Time) // the start of each call that has ended
	for i := range 6 {
		work.Go(func() {
			node := s.nodes[i%len(s.nodes)]
			for ctx.Err() == nil {
				started := time.Now()
				r, err := testnode.Do(s.t.Context(), http.MethodGet, node.URL+"/v1/accounts/"+c.account+"/me/get", s.owner.Key, nil)
				if err != nil {
					s.t.Error(err)
					return
				}
				mu.Lock()
				calls = append(calls, seen{started, r.Status})
				mu.Unlock()
				select {
				case made <- started:
				case <-ctx.Done():
				}
			}
		})
	}
	for range 60 {
		<-made
	}
	changed := make(chan int)
	go func() { changed <- s.changeAccount(c, change) }()
	expected := 0
	for expected == 0 {
		select {
		case <-made:
		case expected = <-changed:
		}
	}
	confirmed := time.Now()
	for n := 0; n < 60; {
		if started := <-made; started.After(confirmed) {
			n++
		}
	}
	stop()
	work.Wait()
	late, after := 0, 0
	var statuses []int
	for _, one := range calls {
		if !one.started.After(confirmed) {
			continue
		}
		if after++; one.status != expected {
			late++
			statuses = append(statuses, one.status)
		}
	}
	if late > 0 || after == 0 {
		s.t.Errorf("%s: %d of %d calls that started afterwards did not return %d but %v", change, late, after, expected, statuses)
	}
	if change == "rotate" {
		s.checkOldSessionUnused(c)
	}
	s.t.Logf("%s: %d calls started afterwards, %d late", change, after, late)
}

// checkOldSessionUnused checks that a node with a cached session from before two rotations does not even try it.
func (s *callsFixture) checkOldSessionUnused(c *connected) {
	began := s.platform.Gate.PlatformNow()
	s.changeAccount(c, "rotate")
	for _, node := range s.nodes {
		if r := node.Call(s.t, http.MethodGet, "/v1/accounts/"+c.account+"/me/get", s.owner.Key, nil); r.Status != http.StatusOK {
			s.t.Errorf("a call failed: %d %s", r.Status, r.Body)
		}
	}
	refused := func(e gate.Entry) bool { return e.Status == http.StatusUnauthorized && !e.At.Before(began) }
	if slices.ContainsFunc(s.platform.Gate.Entries(c.login), refused) {
		s.t.Error("an old session was used after a new one was stored")
	}
}

// changeAccount changes an account and returns the status of later calls.
func (s *callsFixture) changeAccount(c *connected, change string) int {
	path := "/v1/accounts/" + c.account
	switch change {
	case "delete":
		if r := s.nodes[0].Call(s.t, http.MethodDelete, path, s.owner.Key, nil); r.Status != http.StatusOK {
			s.t.Errorf("cannot delete the account: %d %s", r.Status, r.Body)
		}
		return http.StatusNotFound
	case "pause":
		if r := s.nodes[1].Call(s.t, http.MethodPost, path+"/pause", s.owner.Key, nil); r.Status != http.StatusOK {
			s.t.Errorf("cannot pause the account: %d %s", r.Status, r.Body)
		}
		return http.StatusConflict
	}
	// Twice in a row: the token before the last one is no longer valid.
	for range 2 {
		if _, err := s.platform.Gate.Faults.Add(gate.Fault{Scope: c.login, Kind: gate.Rotate, Count: 1}, 0); err != nil {
			s.t.Error(err)
		}
		if r := s.nodes[2].Call(s.t, http.MethodPost, path+"/users/get", s.owner.Key, map[string]any{"userId": c.chat}); r.Status != http.StatusOK {
			s.t.Errorf("a call failed: %d %s", r.Status, r.Body)
		}
	}
	return http.StatusOK
}
