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

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/gate"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// member is a connected account with somebody to write to.
type member struct {
	login, region, account, chat string
}

// written is a message that was to be sent, and what its caller was told.
type written struct {
	creator *member
	text    string
	// answered means that a 200 came; harmless, that it was said to be safe to send again and was not.
	answered, harmless bool
}

// troupe is nodes, a platform and accounts.
type troupe struct {
	t        *testing.T
	nodes    []*testnode.Node
	owner    testnode.Org
	platform *sandboxtest.Platform
	creators []*member
	proxies  map[string]*testenv.Proxy
	redis    *testenv.Process

	mu       sync.Mutex
	problems map[string]int
	messages []written
	reads    atomic.Int64
	replays  atomic.Int64
}

func newTroupe(t *testing.T, accounts int) *troupe {
	t.Helper()
	s := &troupe{t: t, problems: map[string]int{}, proxies: map[string]*testenv.Proxy{
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
	s.owner = s.nodes[0].NewOrg(t, map[string]int{
		"callsPerMinute": -1, "callsPerMonth": -1, "connectAttemptsPerHour": -1, "maxAccounts": -1,
		"accountReadPerMinute": -1, "accountWritePerMinute": -1,
	})
	s.creators = make([]*member, accounts)
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
	if t.Failed() {
		t.FailNow()
	}
	return s
}

// connect brings a creator in with a cookie: nothing is remembered that a lost session could be replaced with.
func (s *troupe) connect(n int) *member {
	c := &member{login: fmt.Sprintf("ok+call%d@sandbox.test", n), region: []string{"us", "uk"}[n%2]}
	node := s.nodes[n%len(s.nodes)]
	pasted := node.Call(s.t, http.MethodPost, "/v1/sandbox/session", s.owner.Key, map[string]any{"login": c.login}).JSON()
	r := node.Call(s.t, http.MethodPost, "/v1/connect/cookie", s.owner.Key, map[string]any{
		"cookie": pasted["cookie"], "user_agent": pasted["userAgent"], "headers": pasted["headers"], "proxy_country": c.region,
	})
	id, _ := r.JSON()["attempt_id"].(string)
	for range 60 {
		r = node.Call(s.t, http.MethodGet, "/v1/connect/login/"+id+"?wait=5", s.owner.Key, nil)
		if state, _ := r.JSON()["state"].(string); strings.HasPrefix(state, "completed_") {
			break
		}
	}
	if c.account, _ = r.JSON()["account_id"].(string); c.account == "" {
		s.t.Errorf("%s is not connected: %d %s", c.login, r.Status, r.Body)
		return c
	}
	r = node.Call(s.t, http.MethodPost, "/v1/accounts/"+c.account+"/fans/list", s.owner.Key, map[string]any{"limit": 1})
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

// send makes one request to a random node; an error means that nobody knows what came of it.
func (s *troupe) send(ctx context.Context, c *member, method, key string, args any) (testnode.Reply, error) {
	body, err := json.Marshal(args)
	if err != nil {
		return testnode.Reply{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	node := s.nodes[rand.IntN(len(s.nodes))]
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
	if err == nil && r.Status >= http.StatusBadRequest {
		s.judge(r)
	}
	return r, err
}

// known are the problems of the catalogue.
var known = func() map[string]bool {
	all := map[string]bool{}
	for _, k := range problem.All() {
		all[k.Code] = true
	}
	return all
}()

// judge makes sure that a refusal is one of the catalogue.
func (s *troupe) judge(r testnode.Reply) {
	p := r.JSON()
	code, _ := p["code"].(string)
	_, told := p["retryable"].(bool)
	if !known[code] || !told || r.Header.Get("Content-Type") != problem.ContentType {
		s.t.Errorf("no catalogued problem: %d %s", r.Status, r.Body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems[fmt.Sprintf("%d %s retryable=%v", r.Status, code, p["retryable"])]++
}

// read reads something.
func (s *troupe) read(ctx context.Context, c *member) {
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

// write sends a message once, and believes what it is told.
func (s *troupe) write(ctx context.Context, c *member) {
	m := written{creator: c, text: "plain " + strconv.FormatUint(rand.Uint64(), 36)}
	r, err := s.send(ctx, c, "messages.send", "", map[string]any{"chatId": c.chat, "text": m.text})
	if err == nil {
		m.answered = r.Status == http.StatusOK
		m.harmless = !m.answered && r.JSON()["retryable"] == true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, m)
}

// insist sends a message under a key until it is told how it ended.
func (s *troupe) insist(ctx context.Context, c *member) {
	m := written{creator: c, text: "keyed " + strconv.FormatUint(rand.Uint64(), 36)}
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

// trouble kills nodes, stops Redis and kills a proxy, for as long as the calls go on.
func (s *troupe) trouble(ctx context.Context, lasting time.Duration) {
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

// setting reads a number from the environment.
func setting(name string, usual int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return usual
}

// Nodes die, Redis stands still, a proxy goes and sessions rotate all the time while accounts are called: no write is carried out twice or
// said to be safe to repeat when it was carried out, no call leaves by a wrong region, no session is lost, and every refusal is one of
// the catalogue's.
func TestCallsSurviveTrouble(t *testing.T) {
	// Not parallel: it loads the machine, and others would be measured with it.
	s := newTroupe(t, setting("STAGEDOOR_TEST_ACCOUNTS", proof.Scale(10, 30)))
	lasting := time.Duration(setting("STAGEDOOR_TEST_SECONDS", proof.Scale(5, 12))) * time.Second
	if _, err := s.platform.Gate.Faults.Add(gate.Fault{Scope: "all", Kind: gate.Rotate, Value: 10}, 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	var work sync.WaitGroup
	work.Go(func() { s.trouble(ctx, lasting) })
	for range 24 {
		work.Go(func() {
			for ctx.Err() == nil {
				c := s.creators[rand.IntN(len(s.creators))]
				switch rand.IntN(4) {
				case 0:
					s.write(t.Context(), c)
				case 1:
					s.insist(t.Context(), c)
				default:
					s.read(t.Context(), c)
				}
			}
		})
	}
	work.Wait()
	s.verify()
}

// verify compares what callers were told with what the platform has.
func (s *troupe) verify() {
	sent := map[*member]map[string]int{}
	answered, harmless, unknown := 0, 0, 0
	for _, m := range s.messages {
		if sent[m.creator] == nil {
			sent[m.creator] = s.chat(m.creator)
		}
		n := sent[m.creator][m.text]
		switch {
		case n > 1:
			s.t.Errorf("%q was sent %d times", m.text, n)
		case m.answered && n != 1:
			s.t.Errorf("%q was said to be sent, and was not", m.text)
		case m.harmless && n != 0:
			s.t.Errorf("%q was said to be safe to repeat, and was sent", m.text)
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
	refusals, turned := 0, 0
	for _, c := range s.creators {
		for _, e := range s.platform.Gate.Entries(c.login) {
			if e.Egress != c.region && !strings.Contains(e.Path, "/control/") && e.Egress != "direct" || e.Egress == "direct" && strings.HasPrefix(e.Path, "/api/") {
				s.t.Errorf("%s of %s left by %s, not %s", e.Path, c.login, e.Egress, c.region)
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
		s.t.Error("nothing went well")
	}
	s.t.Logf("%d accounts: %d reads; %d writes answered, %d refused and safe to repeat, %d unknown; %d replays; %d sessions refused at first; problems %v",
		turned, s.reads.Load(), answered, harmless, unknown, s.replays.Load(), refusals, s.problems)
}

// chat counts the messages of a chat by their texts.
func (s *troupe) chat(c *member) map[string]int {
	texts := map[string]int{}
	cursor := ""
	for range 200 {
		args := map[string]any{"chatId": c.chat, "limit": 100}
		if cursor != "" {
			args["cursor"] = cursor
		}
		r := s.nodes[0].Call(s.t, http.MethodPost, "/v1/accounts/"+c.account+"/messages/list", s.owner.Key, args)
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

// An account that is paused, resumed or deleted, and a session that has rotated, is known to the next call on every node, while calls go
// on all the time.
func TestTheNextCallKnows(t *testing.T) {
	s := newTroupe(t, proof.Scale(3, 12))
	for i, c := range s.creators {
		s.knows(c, []string{"delete", "pause", "rotate"}[i%3])
	}
}

// knows changes an account under load, and looks at what starts after the change was confirmed.
func (s *troupe) knows(c *member, change string) {
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
	made := make(chan time.Time) // when a call began that has ended
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
	go func() { changed <- s.change(c, change) }()
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
	for _, one := range calls {
		if !one.started.After(confirmed) {
			continue
		}
		if after++; one.status != expected {
			late++
		}
	}
	if late > 0 || after == 0 {
		s.t.Errorf("%s: %d of %d calls that started afterwards were not answered with %d", change, late, after, expected)
	}
	if change == "rotate" {
		s.rotatesQuietly(c)
	}
	s.t.Logf("%s: %d calls started afterwards, %d late", change, after, late)
}

// rotatesQuietly makes sure that a node which remembers a session from before two rotations does not even try it.
func (s *troupe) rotatesQuietly(c *member) {
	began := s.platform.Gate.World.Now()
	s.change(c, "rotate")
	for _, node := range s.nodes {
		if r := node.Call(s.t, http.MethodGet, "/v1/accounts/"+c.account+"/me/get", s.owner.Key, nil); r.Status != http.StatusOK {
			s.t.Errorf("not called: %d %s", r.Status, r.Body)
		}
	}
	refused := func(e gate.Entry) bool { return e.Status == http.StatusUnauthorized && !e.At.Before(began) }
	if slices.ContainsFunc(s.platform.Gate.Entries(c.login), refused) {
		s.t.Error("an old session was sent after another one was stored")
	}
}

// change changes an account, and says what calls are answered with from then on.
func (s *troupe) change(c *member, change string) int {
	path := "/v1/accounts/" + c.account
	switch change {
	case "delete":
		if r := s.nodes[0].Call(s.t, http.MethodDelete, path, s.owner.Key, nil); r.Status != http.StatusOK {
			s.t.Errorf("not deleted: %d %s", r.Status, r.Body)
		}
		return http.StatusNotFound
	case "pause":
		if r := s.nodes[1].Call(s.t, http.MethodPost, path+"/pause", s.owner.Key, nil); r.Status != http.StatusOK {
			s.t.Errorf("not paused: %d %s", r.Status, r.Body)
		}
		return http.StatusConflict
	}
	// Twice in a row: the token before the last one is not good any more.
	for range 2 {
		if _, err := s.platform.Gate.Faults.Add(gate.Fault{Scope: c.login, Kind: gate.Rotate, Count: 1}, 0); err != nil {
			s.t.Error(err)
		}
		if r := s.nodes[2].Call(s.t, http.MethodPost, path+"/users/get", s.owner.Key, map[string]any{"userId": c.chat}); r.Status != http.StatusOK {
			s.t.Errorf("not called: %d %s", r.Status, r.Body)
		}
	}
	return http.StatusOK
}
