package redis_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// Only a client with a certificate of the authority is accepted, and only a server with one.
func TestConnectionsNeedCertificates(t *testing.T) {
	t.Parallel()
	authority, other := testenv.NewAuthority(t), testenv.NewAuthority(t)
	server := testenv.TLSRedis(t, authority)
	cert, key := authority.Issue("node")
	wrongCert, wrongKey := other.Issue("node")
	plain := secret.New(strings.Replace(server.URL.Reveal(), "rediss://", "redis://", 1))
	for name, c := range map[string]struct {
		config redis.Config
		// fails is part of the error; empty if the connection works.
		fails string
	}{
		"certificate":                 {redis.Config{URL: server.URL, CAFile: authority.CAFile, CertFile: cert, KeyFile: key}, ""},
		"no certificate":              {redis.Config{URL: server.URL, CAFile: authority.CAFile}, "tls: certificate required"},
		"certificate of another":      {redis.Config{URL: server.URL, CAFile: authority.CAFile, CertFile: wrongCert, KeyFile: wrongKey}, "tls: unknown certificate authority"},
		"server of another authority": {redis.Config{URL: server.URL, CAFile: other.CAFile, CertFile: cert, KeyFile: key}, "x509: certificate signed by unknown authority"},
		"authorities of the system":   {redis.Config{URL: server.URL, CertFile: cert, KeyFile: key}, "x509: certificate signed by unknown authority"},
		"clear text":                  {redis.Config{URL: plain}, "redis is not connected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := redis.Open(c.config)
			must.OK(t, err)
			t.Cleanup(client.Close)
			testenv.Await(t, "the expected result of a ping", func() bool {
				err = client.Ping(t.Context())
				return c.fails == "" && err == nil || c.fails != "" && err != nil && strings.Contains(err.Error(), c.fails)
			})
		})
	}
}

// Certificates that could not be used are refused at the start.
func TestOpenRefusesUnusableCertificates(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	cert, key := authority.Issue("node")
	for name, c := range map[string]redis.Config{
		"clear text":   {URL: secret.New("redis://:hunter2@host:1"), CAFile: authority.CAFile},
		"missing file": {URL: secret.New("rediss://:hunter2@host:1"), CAFile: authority.CAFile + "x"},
		"no authority": {URL: secret.New("rediss://:hunter2@host:1"), CAFile: key},
		"wrong key":    {URL: secret.New("rediss://:hunter2@host:1"), CertFile: cert, KeyFile: cert},
	} {
		client, err := redis.Open(c)
		if err == nil {
			client.Close()
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: a secret is in %q", name, err)
		}
	}
}

func TestClearText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"redis://a:1": {"a"}, "redis://:x@a:1?addr=b:2": {"a", "b"}, "rediss://a:1?addr=b:2": nil, "unix:///run/redis.sock": {"/run/redis.sock"},
		"redis://[::1]:1": {"::1"},
	} {
		if hosts := redis.ClearText(secret.New(text)); !slices.Equal(hosts, want) {
			t.Errorf("%s: %q", text, hosts)
		}
	}
}

var count = redis.NewScript("return tostring(redis.call('INCR', KEYS[1]))")

// open returns a client, and a function that counts under a key and returns the count.
func open(t *testing.T, url secret.String) func(key string) (string, error) {
	t.Helper()
	client, err := redis.Open(redis.Config{URL: url, Name: "test"})
	must.OK(t, err)
	t.Cleanup(client.Close)
	return func(key string) (string, error) { return client.Run(t.Context(), count, []string{key}, nil) }
}

// A replica that the Sentinels promote begins as an empty server, whether it has the last writes or not. All clients
// agree about that.
func TestPromotedReplicaBeginsEmpty(t *testing.T) {
	t.Parallel()
	servers := testenv.SentinelRedis(t)
	first, second := open(t, servers.URL), open(t, servers.URL)
	want := func(client func(string) (string, error), want string) {
		t.Helper()
		got, err := client("{org}")
		must.OK(t, err)
		if got != want {
			t.Errorf("the count is %s; want %s", got, want)
		}
	}
	want(first, "1")
	want(second, "2")
	servers.FailOver(func() { want(first, "3") })
	var got string
	testenv.Await(t, "an answer of the new primary", func() (answered bool) {
		var err error
		got, err = first("{org}")
		return err == nil
	})
	if got != "1" {
		t.Errorf("the new primary counts from %s", got)
	}
	testenv.Await(t, "an answer for the second client", func() (answered bool) {
		var err error
		got, err = second("{org}")
		return err == nil
	})
	if got != "2" {
		t.Errorf("the second client counts to %s", got)
	}
	want(first, "3")
}

// A server that loads a snapshot at its start begins as an empty server.
func TestLoadedSnapshotIsNotRead(t *testing.T) {
	t.Parallel()
	server := testenv.StoringRedis(t)
	client := open(t, server.URL)
	got, err := client("{org}")
	must.OK(t, err)
	if got != "1" {
		t.Fatalf("an empty server counts from %s", got)
	}
	testenv.SaveRedis(t, server)
	server.Kill()
	server.Start()
	testenv.Await(t, "an answer", func() bool {
		got, err = client("{org}")
		return err == nil
	})
	if got != "1" {
		t.Errorf("a server with a snapshot counts from %s", got)
	}
}

// In a cluster, each shard has a term of its own.
func TestCluster(t *testing.T) {
	t.Parallel()
	url := testenv.ClusterRedis(t)
	for i, client := range []func(string) (string, error){open(t, url), open(t, url)} {
		for org := range 50 {
			got, err := client(fmt.Sprintf("o:{%d}", org))
			must.OK(t, err)
			if want := strconv.Itoa(i + 1); got != want {
				t.Errorf("client %d counts %d to %s", i, org, got)
			}
		}
	}
}
