package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// Nodes with one role each work with engines that require TLS and certificates, and with the permissions of
// deploy/nats-roles.conf: an account is connected, and its event passes the listener, the log, the worker and the API.
// The NATS server refuses none of their subjects.
func TestRolesWorkWithTheirOwnCredentials(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	database, redis, nats := testenv.TLSPostgres(t, authority), testenv.TLSRedis(t, authority), testenv.NewRoleNATS(t, authority, 1)
	cert, key := authority.Issue("redis-client")
	_, setup := testnode.Sandbox(t, nil)
	setup.Database, setup.Redis, setup.NATS, setup.EventLog = database.URL, redis.URL, nats.URL, "jetstream"
	setup.Keyset = t.TempDir() + "/keyset.json"
	setup.AsOwner = true // the certificate is the owner's
	nodes := map[string]*testnode.Node{}
	for _, role := range []string{"api", "worker", "listener"} {
		setup.Roles = []string{role}
		setup.Configure = func(c *config.Config) {
			c.RedisCA, c.RedisCert, c.RedisKey = authority.CAFile, cert, key
			c.NATSCA, c.NATSCert, c.NATSKey, c.NATSNKey = authority.CAFile, nats.CertFile, nats.KeyFile, nats.Seeds[role]
		}
		nodes[role] = testnode.Nodes(t, 1, setup)[0]
	}
	for role, node := range nodes {
		testenv.Await(t, "the "+role+" node is connected to all engines", func() bool {
			r := node.Operate(t, http.MethodGet, "/readyz", nil)
			return r.Status == http.StatusOK && !strings.Contains(string(r.Body), "degraded")
		})
	}
	org := nodes["api"].NewOrg(t, nil)
	account := nodes["api"].Connect(t, org.Key, "/v1/connect/login", map[string]any{"email": "ok+tls@sandbox.test", "password": "good"})
	fired := nodes["api"].Call(t, http.MethodPost, "/v1/sandbox/accounts/"+account+"/fire_event", org.Key, map[string]any{
		"event": "message", "data": map[string]any{"text": "over TLS"},
	})
	if fired.Status != http.StatusAccepted {
		t.Fatalf("%d %s", fired.Status, fired.Body)
	}
	var last testnode.Reply
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last answer: %d %s\nthe log of NATS:\n%s", last.Status, last.Body, nats.Log())
		}
	})
	testenv.Await(t, "the event is stored", func() bool {
		last = nodes["api"].LatestEvents(t, org.Key, "&accountId="+account)
		return strings.Contains(string(last.Body), "over TLS")
	})
	if log := nats.Log(); strings.Contains(log, "Violation") {
		t.Errorf("the permissions of a role lack a subject:\n%s", log)
	}
}
