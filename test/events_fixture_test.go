package test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// scale is the size of a run.
type scale struct {
	// long is set by make chaos.
	long bool
	// calls means that accounts are called, too.
	calls          bool
	accounts, orgs int
	// events is the least number of actions in a case. Each but typing produces one frame or more, so that 85,000 are
	// more than 100,000 frames.
	events, perSecond  int
	lasting, catchUp   time.Duration
	streamLife, settle time.Duration
}

// readScale returns a short scale for CI and a long one for make chaos. Variables of the environment override it.
func readScale() scale {
	s := scale{accounts: 20, orgs: 3, events: 0, perSecond: 200, lasting: 3 * time.Second, catchUp: 3 * time.Minute, streamLife: 3 * time.Second, settle: 3 * time.Minute}
	if os.Getenv("STAGEDOOR_CHAOS") != "" {
		s = scale{long: true, calls: true, accounts: 200, orgs: 8, events: 85_000, perSecond: 1000, lasting: time.Minute, catchUp: 3 * time.Minute, streamLife: 15 * time.Second, settle: 3 * time.Minute}
	}
	s.accounts = setting("STAGEDOOR_CHAOS_ACCOUNTS", s.accounts)
	s.events = setting("STAGEDOOR_CHAOS_EVENTS", s.events)
	s.perSecond = setting("STAGEDOOR_CHAOS_RATE", s.perSecond)
	s.lasting = time.Duration(setting("STAGEDOOR_CHAOS_SECONDS", int(s.lasting/time.Second))) * time.Second
	return s
}

// manners are the receivers of every twenty accounts: each case has good and bad ones.
var manners = []manner{
	honest, flaky, honest, hanging, honest, big, honest, slowloris, honest, redirector,
	honest, flaky, honest, resetter, honest, refuser, honest, badTLS, honest, refuser,
}

type tenant struct {
	testnode.Org
	canary   string
	accounts []string
	reader   *reader
}

// creator is an account with its receiver and its stream.
type creator struct {
	login, region, account string
	org                    *tenant
	inbox                  *inbox
	reader                 *reader

	// from is the last event before the case, mark the last frame before it.
	from, mark int64
	ledger     []digest
}

// eventsFixture is the whole system with all its clients.
type eventsFixture struct {
	t *testing.T
	// whole is the test with all its cases.
	whole    *testing.T
	undoes   bool
	scale    scale
	catalog  *catalog.Catalog
	nodes    []*testnode.Node
	platform *sandboxtest.Platform
	nats     *testenv.Cluster
	postgres *testenv.Store
	redis    *testenv.Process
	// The addresses at which nodes reach the engines. ownerURL is that of the database for the owner of the tables.
	databaseURL, redisURL, ownerURL secret.String
	// volumes are the file systems of PostgreSQL and of each NATS server; empty if this machine cannot have any.
	volumes []*testenv.Volume
	// dresses and links are those of each node.
	dresses []dress
	links   [][]*testenv.SlowLink
	calls   *callsFixture
	// replica and address are there in the case failover: nodes reach the database at the address.
	replica *testenv.Replica
	address *testenv.Switch
	// skewed and previous are other builds of the server.
	skewed, previous string
	farm             *farm
	orgs             []*tenant
	creators         []*creator
	actions          map[string]fanaction.Func
	written          atomic.Int64
}

func newEventsFixture(t *testing.T, sc scale) *eventsFixture {
	t.Helper()
	return prepareEventsFixture(t, sc, nil)
}

// prepareEventsFixture is newEventsFixture with a function that runs before the nodes start. It may be nil.
func prepareEventsFixture(t *testing.T, sc scale, prepare func(*eventsFixture, *testnode.Setup)) *eventsFixture {
	t.Helper()
	began := time.Now()
	known, err := catalog.Sandbox()
	must.OK(t, err)
	s := &eventsFixture{t: t, whole: t, scale: sc, catalog: known, farm: newFarm(t), actions: sandbox.Happenings()}
	platform, setup := testnode.Sandbox(t, nil)
	s.platform = platform
	s.startStores()
	redis, redisURL := testenv.PrivateRedis(t)
	s.redis = redis
	// A committed transaction must survive a crash of the server, as in production.
	s.ownerURL = secret.New(s.postgres.URL.Reveal() + "&synchronous_commit=on")
	s.redisURL, s.databaseURL = redisURL, testenv.AsService(s.ownerURL)
	setup.Database = s.ownerURL
	setup.Redis, setup.RedisTimeout, setup.NATS, setup.EventLog = redisURL, 250*time.Millisecond, s.nats.URL, "jetstream"
	setup.Log, setup.Env = s.logFile(), []string{"STAGEDOOR_EVENT_REPLICAS=3"}
	if prepare != nil {
		prepare(s, &setup)
	}
	s.nodes = testnode.Processes(t, 3, setup)
	s.dresses = make([]dress, len(s.nodes))
	for i, n := range s.nodes {
		if setup.Change == nil {
			n.Change = func(cmd *exec.Cmd) { s.dresses[i].put(cmd) }
		}
	}
	for range sc.orgs {
		s.orgs = append(s.orgs, &tenant{canary: randomHex(8), Org: s.nodes[0].NewOrg(t, map[string]int{
			"callsPerMinute": -1, "callsPerMonth": -1, "connectAttemptsPerHour": -1, "maxAccounts": -1, "maxStreamsPerAccount": -1,
			"accountReadPerMinute": -1,
		})})
	}
	s.populate()
	s.connectCallers()
	s.openStreams()
	s.awaitReady()
	t.Logf("%d accounts of %d organisations on 3 nodes are ready after %s", len(s.creators), len(s.orgs), time.Since(began).Round(100*time.Millisecond))
	return s
}

// startStores starts PostgreSQL and NATS. In the long form, each has a file system of its own if possible, and PostgreSQL
// syncs its writes.
func (s *eventsFixture) startStores() {
	if !s.scale.long || testenv.CanMount() != nil {
		s.postgres = testenv.PrivatePostgres(s.t, nil)
		s.nats = testenv.NATSCluster(s.t, 3)
		return
	}
	for range 4 {
		s.volumes = append(s.volumes, testenv.NewVolume(s.t, 12<<30))
	}
	dirs := make([]string, 4)
	for i, v := range s.volumes {
		dirs[i] = filepath.Join(v.Dir, "data")
		must.OK(s.t, os.Mkdir(dirs[i], 0o700))
	}
	s.postgres = testenv.PrivatePostgresIn(s.t, nil, dirs[0], "fsync=on", "wal_keep_size=0", "max_wal_size=1GB", "checkpoint_timeout=5min")
	s.nats = testenv.NATSClusterIn(s.t, dirs[1:])
	for _, v := range s.volumes {
		v.Sync() // initdb does not
	}
}

// logFile opens the file STAGEDOOR_CHAOS_LOG for the logs of the nodes; nil if it is not set.
func (s *eventsFixture) logFile() io.Writer {
	path := os.Getenv("STAGEDOOR_CHAOS_LOG")
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must.OK(s.t, err)
	s.t.Cleanup(func() { _ = f.Close() })
	return f
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// populate connects accounts and registers their receivers.
func (s *eventsFixture) populate() {
	s.creators = make([]*creator, s.scale.accounts)
	next := atomic.Int64{}
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(s.creators); n = int(next.Add(1)) - 1 {
				s.creators[n] = s.connect(n)
			}
		})
	}
	work.Wait()
	if s.t.Failed() {
		s.t.FailNow()
	}
	for _, c := range s.creators {
		c.org.accounts = append(c.org.accounts, c.account)
	}
}

func (s *eventsFixture) connect(n int) *creator {
	c := &creator{login: fmt.Sprintf("ok+event%d@sandbox.test", n), region: []string{"us", "uk"}[n%2], org: s.orgs[n%len(s.orgs)]}
	pasted := s.call(c.org, http.MethodPost, "/v1/sandbox/session", map[string]any{"login": c.login})
	r := s.call(c.org, http.MethodPost, "/v1/connect/cookie", map[string]any{
		"cookie": pasted["cookie"], "user_agent": pasted["userAgent"], "headers": pasted["headers"], "proxy_country": c.region,
	})
	id, _ := r["attempt_id"].(string)
	for range 60 {
		r = s.call(c.org, http.MethodGet, "/v1/connect/login/"+id+"?wait=5", nil)
		if state, _ := r["state"].(string); strings.HasPrefix(state, "completed_") {
			break
		}
	}
	if c.account, _ = r["account_id"].(string); c.account == "" {
		s.t.Errorf("%s is not connected: %v", c.login, r)
		return c
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	c.inbox = s.farm.inbox(manners[n%len(manners)], "whsec_"+base64.StdEncoding.EncodeToString(key), c.org.canary)
	r = s.call(c.org, http.MethodPut, "/v1/accounts/"+c.account+"/webhook", map[string]any{"url": c.inbox.url, "signingSecret": c.inbox.secret})
	if r["webhook"] == nil {
		s.t.Errorf("%s has no webhook: %v", c.login, r)
	}
	return c
}

// call sends a request to random nodes until one responds without a server error.
func (s *eventsFixture) call(by *tenant, method, path string, body any) map[string]any {
	var (
		r   testnode.Reply
		err error
	)
	for range 300 {
		ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
		r, err = testnode.Do(ctx, method, s.nodes[mrand.IntN(len(s.nodes))].URL+path, by.Key, body)
		cancel()
		if err == nil && r.Status < http.StatusInternalServerError {
			return r.JSON()
		}
		<-time.After(100 * time.Millisecond)
	}
	s.t.Errorf("%s %s: no response from any node: %d %s %v", method, path, r.Status, r.Body, err)
	return nil
}

// openStreams opens a stream of every account and one of every organisation, and waits until all are ready.
func (s *eventsFixture) openStreams() {
	var origins []string
	for _, n := range s.nodes {
		origins = append(origins, n.URL)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(s.t.Context()))
	var work sync.WaitGroup
	s.t.Cleanup(func() {
		stop()
		work.Wait()
	})
	var all []*reader
	for _, o := range s.orgs {
		o.reader = newReader("/v1/events", o.Key, o.canary, origins, s.scale.streamLife)
		all = append(all, o.reader)
	}
	for _, c := range s.creators {
		c.reader = newReader("/v1/accounts/"+c.account+"/events", c.org.Key, c.org.canary, origins, s.scale.streamLife)
		all = append(all, c.reader)
	}
	for _, r := range all {
		work.Go(func() { r.run(ctx) })
	}
	deadline := time.After(s.scale.settle)
	for _, r := range all {
		select {
		case <-r.ready:
		case <-deadline:
			s.t.Fatalf("the stream %s is not ready: refusals %v", r.path, r.refusals)
		}
	}
}

// awaitReady waits until events of every account arrive everywhere.
func (s *eventsFixture) awaitReady() {
	deadline := time.Now().Add(s.scale.settle)
	for _, c := range s.creators {
		for s.listenerState(c) != "up" {
			if time.Now().After(deadline) {
				s.t.Fatalf("the listener of %s is %q", c.login, s.listenerState(c))
			}
			<-time.After(50 * time.Millisecond)
		}
	}
	text := "probe " + randomHex(8)
	for _, c := range s.creators {
		must.OK(s.t, s.act(c, "chat.message", text))
	}
	for _, c := range s.creators {
		for !s.findProbe(c, text) || c.inbox.manner.acceptsAll() && !c.inbox.has(c.from) {
			if time.Now().After(deadline) {
				s.t.Fatalf("no event of %s arrives", c.login)
			}
			<-time.After(50 * time.Millisecond)
		}
	}
}

func (s *eventsFixture) listenerState(c *creator) string {
	account, _ := s.call(c.org, http.MethodGet, "/v1/accounts/"+c.account, nil)["account"].(map[string]any)
	listener, _ := account["listener"].(map[string]any)
	state, _ := listener["state"].(string)
	return state
}

// findProbe reports whether the probe is in the account's log, and if so sets from and mark of the account.
func (s *eventsFixture) findProbe(c *creator, text string) bool {
	if c.mark > 0 {
		return true
	}
	list, err := s.pull(c, c.from)
	must.OK(s.t, err)
	for i := range list {
		if strings.Contains(string(list[i].Data), text) {
			c.from = list[i].Meta.Seq
			s.markFrame(c)
			return true
		}
	}
	return false
}

func (s *eventsFixture) markFrame(c *creator) {
	err := s.platform.World.Do(c.login, func(w *world.Creator) error {
		c.mark = w.LastFrame()
		return nil
	})
	must.OK(s.t, err)
}

// cursor returns the cursor after an event.
func cursor(seq int64) string { return fmt.Sprintf("%014d", seq) }

// pull reads an account's log after an event, page by page, from random nodes.
func (s *eventsFixture) pull(c *creator, after int64) ([]gotEvent, error) {
	var list []gotEvent
	for at := cursor(after); ; {
		page, next, err := s.pullPage(c, at)
		if err != nil {
			return nil, err
		}
		list = append(list, page...)
		if len(page) == 0 || next == at {
			return list, nil
		}
		at = next
	}
}

func (s *eventsFixture) pullPage(c *creator, after string) ([]gotEvent, string, error) {
	var last error
	for range 300 {
		ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
		path := "/v1/accounts/" + c.account + "/events?limit=100&after=" + url.QueryEscape(after)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.nodes[mrand.IntN(len(s.nodes))].URL+path, http.NoBody)
		if err != nil {
			cancel()
			return nil, "", err
		}
		req.Header.Set("Authorization", "Bearer "+c.org.Key)
		req.Header.Set("Accept", "application/json")
		r, err := testnode.Send(req)
		cancel()
		if err == nil && r.Status == http.StatusOK {
			return readPage(r.Body)
		}
		if last = err; err == nil {
			last = fmt.Errorf("pull: %d %s", r.Status, r.Body)
		}
		if err == nil && r.Status < http.StatusInternalServerError {
			return nil, "", last
		}
		<-time.After(100 * time.Millisecond)
	}
	return nil, "", last
}

func readPage(body []byte) ([]gotEvent, string, error) {
	var page struct {
		Events     []json.RawMessage
		NextCursor string
		Gap        bool
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, "", err
	}
	if page.Gap {
		return nil, "", errors.New("pull: the log has a gap")
	}
	list := make([]gotEvent, len(page.Events))
	for i, raw := range page.Events {
		var err error
		if list[i], err = parseEvent(raw); err != nil {
			return nil, "", err
		}
	}
	return list, page.NextCursor, nil
}

// act performs an action on the platform as a fan of a creator. Its text contains the canary of the organisation.
func (s *eventsFixture) act(c *creator, what, text string) error {
	do := s.actions[what]
	if text != "" {
		text = canaryMark + c.org.canary + " " + text
	}
	return s.platform.World.Do(c.login, func(w *world.Creator) error { return do(w, fanaction.Input{Text: text}) })
}

// readLedger lists the durable frames of an account since its mark, with the content that its events must have.
func (s *eventsFixture) readLedger(c *creator) []digest {
	var frames []json.RawMessage
	for after := c.mark; ; {
		var more bool
		err := s.platform.World.Do(c.login, func(w *world.Creator) error {
			list, rest, complete, err := w.Frames(after, 1000)
			if err == nil && !complete {
				err = fmt.Errorf("the platform no longer has all frames of %s", c.login)
			}
			frames, more = append(frames, list...), rest
			return err
		})
		must.OK(s.t, err)
		if !more {
			break
		}
		var last struct{ ID int64 }
		must.OK(s.t, json.Unmarshal(frames[len(frames)-1], &last))
		after = last.ID
	}
	var list []digest
	for _, frame := range frames {
		e, err := s.catalog.Decode(frame)
		if err != nil {
			s.t.Fatalf("cannot decode a frame of the platform: %v", err)
		}
		if e.Class == catalog.Durable {
			list = append(list, content(e.Kind, e.At.Truncate(time.Millisecond), e.Data))
		}
	}
	return list
}
