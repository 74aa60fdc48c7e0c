package postgres_test

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// Only a client with a certificate of the authority for its user is accepted, and only a server with one. All of it is
// in the URL.
func TestConnectionsNeedCertificates(t *testing.T) {
	t.Parallel()
	authority, other := testenv.NewAuthority(t), testenv.NewAuthority(t)
	server := testenv.TLSPostgres(t, authority)
	wrongCert, wrongKey := other.Issue("stagedoor")
	guestCert, guestKey := authority.Issue("guest")
	for name, c := range map[string]struct {
		change func(url.Values)
		// fails is part of the error; empty if the connection works.
		fails string
	}{
		"certificate":                 {func(url.Values) {}, ""},
		"no certificate":              {func(v url.Values) { v.Del("sslcert"); v.Del("sslkey") }, "certificate"},
		"certificate of another":      {func(v url.Values) { v.Set("sslcert", wrongCert); v.Set("sslkey", wrongKey) }, "unknown certificate authority"},
		"certificate of a guest":      {func(v url.Values) { v.Set("sslcert", guestCert); v.Set("sslkey", guestKey) }, "certificate authentication failed"},
		"server of another authority": {func(v url.Values) { v.Set("sslrootcert", other.CAFile) }, "signed by unknown authority"},
		"clear text":                  {func(v url.Values) { clear(v); v.Set("sslmode", "disable") }, "no encryption"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, err := url.Parse(server.URL.Reveal())
			must.OK(t, err)
			query := u.Query()
			c.change(query)
			u.RawQuery = query.Encode()
			db, err := postgres.Open(t.Context(), postgres.Config{URL: secret.New(u.String()), MaxConns: 1, Name: "test"})
			must.OK(t, err)
			defer db.Close()
			err = db.Ping(t.Context())
			// The server may close the connection before the client has read why.
			for tries := 0; tries < 50 && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)); tries++ {
				err = db.Ping(t.Context())
			}
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("ping: %v", err)
			}
		})
	}
}

// The error names the file, and no password.
func TestOpenNamesAMissingCertificate(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), postgres.Config{URL: secret.New("postgres://u:hunter2@h/x?sslmode=verify-full&sslrootcert=/nowhere/ca.pem"), MaxConns: 1})
	if err == nil || !strings.Contains(err.Error(), "/nowhere/ca.pem") || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}

func TestClearText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"postgres://a/x?sslmode=disable": {"a"}, "postgres://a/x?sslmode=prefer": {"a"}, "postgres://a/x?sslmode=allow": {"a"},
		"postgres://a,b/x?sslmode=disable": {"a", "b"}, "postgres://a/x?sslmode=require": nil, "postgres://a/x?sslmode=verify-full": nil,
		"postgres:///x?host=/run/postgresql": {"/run/postgresql"},
	} {
		if hosts := postgres.ClearText(secret.New(text)); !slices.Equal(hosts, want) {
			t.Errorf("%s: %q", text, hosts)
		}
	}
}
