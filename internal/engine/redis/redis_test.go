package redis_test

import (
	"slices"
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
