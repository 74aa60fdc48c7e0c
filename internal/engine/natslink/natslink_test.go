package natslink_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/natslink"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// dial connects once, without retries.
func dial(t *testing.T, servers secret.String, a natslink.Access) (*nats.Conn, error) {
	t.Helper()
	conn, err := natslink.Connect(servers, "test", a, nil, nats.RetryOnFailedConnect(false))
	if err == nil {
		t.Cleanup(conn.Close)
	}
	return conn, err
}

// Only a client with a certificate of the authority and a known NKey is accepted, and only a server with a certificate
// of the authority.
func TestConnectionsNeedCertificateAndKey(t *testing.T) {
	t.Parallel()
	authority, other := testenv.NewAuthority(t), testenv.NewAuthority(t)
	server := testenv.NewRoleNATS(t, authority, 1)
	wrongCert, wrongKey := other.Issue("node")
	pair, err := nkeys.CreateUser()
	must.OK(t, err)
	seed, err := pair.Seed()
	must.OK(t, err)
	unknown := filepath.Join(t.TempDir(), "unknown.nk")
	must.OK(t, os.WriteFile(unknown, seed, 0o600))
	good := natslink.Access{CAFile: authority.CAFile, CertFile: server.CertFile, KeyFile: server.KeyFile, NKeyFile: server.Seeds["api"]}
	for name, c := range map[string]struct {
		change func(*natslink.Access)
		ok     bool
	}{
		"certificate and key":            {func(*natslink.Access) {}, true},
		"no certificate":                 {func(a *natslink.Access) { a.CertFile, a.KeyFile = "", "" }, false},
		"certificate of another":         {func(a *natslink.Access) { a.CertFile, a.KeyFile = wrongCert, wrongKey }, false},
		"server of another authority":    {func(a *natslink.Access) { a.CAFile = other.CAFile }, false},
		"authorities of the system":      {func(a *natslink.Access) { a.CAFile = "" }, false},
		"certificate without a key":      {func(a *natslink.Access) { a.NKeyFile = "" }, false},
		"key that the server knows not":  {func(a *natslink.Access) { a.NKeyFile = unknown }, false},
		"no credentials":                 {func(a *natslink.Access) { *a = natslink.Access{} }, false},
		"missing file":                   {func(a *natslink.Access) { a.NKeyFile = unknown + "x" }, false},
		"two kinds of credentials":       {func(a *natslink.Access) { a.CredentialsFile = unknown }, false},
		"credentials file without a JWT": {func(a *natslink.Access) { a.NKeyFile, a.CredentialsFile = "", unknown }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			access := good
			c.change(&access)
			if _, err := dial(t, server.URL, access); (err == nil) != c.ok {
				t.Errorf("connect: %v", err)
			}
		})
	}
}

// What cannot be used is refused at the start, with the name of the setting and without the password in the URL.
func TestConnectNamesTheSettingThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	cert, key := authority.Issue("node")
	good := "nats://user:hunter2@127.0.0.1:1"
	for name, c := range map[string]struct {
		servers string
		access  natslink.Access
		setting string
	}{
		"port":                 {"nats://user:hunter2@host:port", natslink.Access{}, "NATS_URL"},
		"unescaped password":   {"nats://user:hunter2/x@host:4222", natslink.Access{}, "NATS_URL"},
		"bad escape":           {"nats://user:hunter2%zz@host:4222", natslink.Access{}, "NATS_URL"},
		"second server":        {good + ",nats://user:hunter2@host:port", natslink.Access{}, "NATS_URL"},
		"missing authority":    {good, natslink.Access{CAFile: authority.CAFile + "x"}, "STAGEDOOR_NATS_CA_FILE"},
		"no authority":         {good, natslink.Access{CAFile: key}, "STAGEDOOR_NATS_CA_FILE"},
		"missing certificate":  {good, natslink.Access{CertFile: cert + "x", KeyFile: key}, "STAGEDOOR_NATS_CERT_FILE"},
		"certificate as a key": {good, natslink.Access{CertFile: cert, KeyFile: cert}, "STAGEDOOR_NATS_KEY_FILE"},
		"missing seed":         {good, natslink.Access{NKeyFile: key + "x"}, "STAGEDOOR_NATS_NKEY_FILE"},
		"two kinds of secrets": {good, natslink.Access{NKeyFile: key, CredentialsFile: key}, "STAGEDOOR_NATS_NKEY_FILE"},
	} {
		conn, err := natslink.Connect(secret.New(c.servers), "test", c.access, nil)
		switch {
		case err == nil:
			conn.Close()
			t.Errorf("%s: accepted", name)
		case !strings.Contains(err.Error(), c.setting) || c.setting != "NATS_URL" && strings.Contains(err.Error(), "NATS_URL"):
			t.Errorf("%s: the error does not name only %s: %v", name, c.setting, err)
		case strings.Contains(fmt.Sprintf("%+v", err), "hunter2"):
			t.Errorf("%s: a secret is in %q", name, err)
		}
	}
}

// Each role may use the subjects that it needs, and no other: the api role cannot read the event log, and a listener
// cannot read what other listeners wrote or what workers get as answers.
func TestRolesHaveOnlyTheirSubjects(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	server := testenv.NewRoleNATS(t, authority, 1)
	roles := []string{"api", "worker", "listener"}
	for _, c := range []struct {
		verb, subject string
		allowed       []string
	}{
		{"publish", "inv.org.org_1", roles},
		{"publish", "inv.shred.org_1", roles},
		{"publish", "connect.attempt.att_1", roles},
		{"publish", "ctl.control", roles},
		{"publish", "ctl.webhook.acct_1", roles},
		{"publish", "ctl.lease.ingest", []string{"worker"}},
		{"publish", "ctl.lease.listen", []string{"listener"}},
		{"publish", "live.org_1.acct_1", []string{"worker", "listener"}},
		{"publish", "eph.1.acct_1", []string{"listener"}},
		{"publish", "evt.1", []string{"listener"}},
		{"publish", "evt.tick.0", []string{"worker", "listener"}},
		{"publish", "$JS.API.STREAM.INFO.EVT_00", []string{"worker", "listener"}},
		{"publish", "$JS.API.STREAM.PURGE.EVT_00", []string{"worker"}},
		// A stream can pass its messages on (republish), so a role that changes its settings can read it.
		{"publish", "$JS.API.STREAM.CREATE.EVT_00", []string{"worker"}},
		{"publish", "$JS.API.STREAM.UPDATE.EVT_00", []string{"worker"}},
		{"publish", "$JS.API.STREAM.DELETE.EVT_00", nil},
		{"publish", "$JS.API.STREAM.MSG.GET.EVT_00", nil},
		{"publish", "$JS.API.DIRECT.GET.EVT_00", nil},
		{"publish", "$JS.API.STREAM.CREATE.OTHER", nil},
		{"publish", "$JS.API.STREAM.LIST", nil},
		{"publish", "$JS.API.CONSUMER.CREATE.EVT_00.x", []string{"worker"}},
		{"publish", "$JS.API.CONSUMER.MSG.NEXT.EVT_00.x", []string{"worker"}},
		{"publish", "_INBOX.worker.x", nil},
		{"publish", "elsewhere", nil},
		{"subscribe", "inv.session.*", roles},
		{"subscribe", "connect.attempt.*", roles},
		{"subscribe", "ctl.control", roles},
		{"subscribe", "ctl.webhook.*", []string{"worker"}},
		{"subscribe", "live.org_1.acct_1", []string{"api"}},
		{"subscribe", "eph.1.*", []string{"worker"}},
		{"subscribe", "evt.1", nil},
		{"subscribe", "_INBOX.worker.x.*", []string{"worker"}},
		{"subscribe", "_INBOX.listener.x.*", []string{"listener"}},
		{"subscribe", "_INBOX.>", nil},
		{"subscribe", "$JS.>", nil},
		{"subscribe", ">", nil},
	} {
		for _, role := range roles {
			t.Run(role+" "+c.verb+" "+c.subject, func(t *testing.T) {
				t.Parallel()
				conn, err := dial(t, server.URL, natslink.Access{
					CAFile: authority.CAFile, CertFile: server.CertFile, KeyFile: server.KeyFile, NKeyFile: server.Seeds[role],
				})
				must.OK(t, err)
				if c.verb == "publish" {
					must.OK(t, conn.Publish(c.subject, nil))
				} else {
					_, err := conn.SubscribeSync(c.subject)
					must.OK(t, err)
				}
				must.OK(t, conn.Flush()) // a refusal arrives before the answer
				if refused := conn.LastError(); (refused == nil) != slices.Contains(c.allowed, role) {
					t.Errorf("refused: %v", refused)
				}
			})
		}
	}
}

// The settings of the node decide whether a connection is encrypted.
func TestClearText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"nats://a:4222,nats://b:4222": {"a", "b"}, "a:4222": {"a"}, "tls://a:4222": nil, "nats://a, tls://b": nil, "wss://a": nil, "ws://a": {"a"},
	} {
		if hosts := natslink.ClearText(secret.New(text), natslink.Access{}); !slices.Equal(hosts, want) {
			t.Errorf("%s: %q", text, hosts)
		}
		if hosts := natslink.ClearText(secret.New(text), natslink.Access{CAFile: "ca.pem"}); len(hosts) > 0 {
			t.Errorf("%s with an authority: %q", text, hosts)
		}
	}
}
