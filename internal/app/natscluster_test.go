package app_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// Nodes with one role each use a cluster of three NATS servers with TLS and keys, in which each event is stored three
// times. Without one server, events arrive as before. Without two, calls work and events wait, and when one is back they
// arrive, each once and in order.
func TestLossOfNATSServers(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	nats := testenv.NewRoleNATS(t, authority, 3)
	_, setup := testnode.Sandbox(t, nil)
	setup.NATS, setup.EventLog, setup.Keyset = nats.URL, "jetstream", t.TempDir()+"/keyset.json"
	setup.Database = testenv.PrivatePostgres(t, nil).URL
	nodes := map[string]*testnode.Node{}
	for _, role := range []string{"worker", "listener", "api"} {
		setup.Roles = []string{role}
		setup.Configure = func(c *config.Config) {
			c.EventLogReplicas = 3
			c.NATSCA, c.NATSCert, c.NATSKey, c.NATSNKey = authority.CAFile, nats.CertFile, nats.KeyFile, nats.Seeds[role]
		}
		nodes[role] = testnode.Nodes(t, 1, setup)[0]
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of NATS:\n%s", nats.Log())
		}
	})
	degraded := func(role string) bool {
		return strings.Contains(string(nodes[role].Operate(t, http.MethodGet, "/readyz", nil).Body), "degraded")
	}
	awaitWell := func() {
		t.Helper()
		for role := range nodes {
			testenv.Await(t, "the "+role+" node is connected to all engines", func() bool { return !degraded(role) })
		}
	}
	awaitWell()
	api := nodes["api"]
	org := api.NewOrg(t, nil)
	account := api.ConnectLogin(t, org.Key, "ok+cluster@sandbox.test", "us")
	sent := 0
	send := func() {
		t.Helper()
		for range 5 {
			sent++
			r := api.Call(t, http.MethodPost, "/v1/sandbox/accounts/"+account+"/fire_event", org.Key, map[string]any{
				"event": "message", "data": map[string]any{"text": fmt.Sprintf("number %03d", sent)},
			})
			if r.Status != http.StatusAccepted {
				t.Fatalf("%d %s", r.Status, r.Body)
			}
		}
	}
	number := regexp.MustCompile(`number [0-9]{3}`)
	stored := func() (texts []string) { // the order is that of the log
		list, _ := api.LatestEvents(t, org.Key, "&accountId="+account).JSON()["events"].([]any)
		for _, one := range list {
			if text := number.FindString(fmt.Sprint(one)); text != "" {
				texts = append(texts, text)
			}
		}
		if len(texts) > 1 && texts[0] > texts[len(texts)-1] { // the newest is first
			slices.Reverse(texts)
		}
		return texts
	}
	awaitAll := func(when string) {
		t.Helper()
		began := time.Now()
		testenv.Await(t, when+", all events are stored", func() bool { return len(stored()) >= sent })
		for i, text := range stored() {
			if text != fmt.Sprintf("number %03d", i+1) {
				t.Fatalf("%s: event %d is %s", when, i+1, text)
			}
		}
		t.Logf("%s: %d events stored after %s", when, sent, time.Since(began).Round(time.Millisecond))
	}
	send()
	awaitAll("with three servers")

	nats.Servers[0].Kill()
	send()
	awaitAll("without one server")

	nats.Servers[1].Kill()
	began := time.Now()
	testenv.Await(t, "the listener reports that the log accepts no writes", func() bool { return degraded("listener") })
	t.Logf("without two servers: reported after %s", time.Since(began).Round(time.Millisecond))
	before := sent
	send() // calls work
	for role, n := range nodes {
		if r := n.Operate(t, http.MethodGet, "/readyz", nil); r.Status != http.StatusOK {
			t.Errorf("the %s node is not ready: %d %s", role, r.Status, r.Body)
		}
	}
	if n := len(stored()); n != before {
		t.Errorf("%d events are stored without a majority, want %d", n, before)
	}

	nats.Servers[1].Start()
	awaitAll("with two servers again")
	nats.Servers[0].Start()
	send()
	awaitAll("with three servers again")
	awaitWell()
	if log := nats.Log(); strings.Contains(log, "Violation") {
		t.Errorf("the permissions of a role lack a subject:\n%s", log)
	}
}
