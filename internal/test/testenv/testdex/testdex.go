// Package testdex runs Dex, a real OpenID Connect provider, for tests. A missing Dex fails the test. Start with New.
package testdex

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// Dex is a real identity provider in its own process. Its issuer is its address.
type Dex struct{ Issuer string }

// userPassword is that of all users at the provider; passwordHash is its bcrypt hash.
const (
	userPassword = "password"
	passwordHash = "$2a$10$2b2cU8CPhOTaGrs1HRQuAueS7JTT5ZHsHSzYiFPm1leZck7Mc8T4W"
)

// The client that is registered at the provider, with a redirect URI of the test.
const (
	Client = "stagedoor"
	Secret = "canary-client-secret"
)

// New builds Dex if needed and starts it. expiry is the lifetime of its access and ID tokens. redirect is the address to
// which it sends browsers back, whose host must be stagedoor.test.
func New(t testing.TB, expiry, redirect string) *Dex {
	t.Helper()
	if out, err := exec.Command(testenv.Path(t, "scripts", "tool"), "dex").CombinedOutput(); err != nil {
		t.Fatalf("scripts/tool dex: %v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	address := l.Addr().String()
	must.OK(t, l.Close())
	d := &Dex{Issuer: "http://" + address + "/dex"}
	var people strings.Builder
	for i, who := range []struct {
		email    string
		verified bool
	}{{"ada@example.test", true}, {"Bob@Example.test", true}, {"unverified@example.test", false}} {
		fmt.Fprintf(&people, "- {email: %q, hash: %q, username: %q, userID: \"00000000-0000-0000-0000-00000000000%d\", emailVerified: %v}\n", who.email, passwordHash, "Person "+fmt.Sprint(i), i, who.verified)
	}
	// Dex's storage in memory hangs when a token is refreshed.
	at, err := url.Parse(testenv.EmptyDatabase(t).Reveal())
	must.OK(t, err)
	config := filepath.Join(t.TempDir(), "dex.yaml")
	text := fmt.Sprintf(`issuer: %s
storage: {type: postgres, config: {host: %s, port: %s, database: %s, user: %s, password: %q, ssl: {mode: disable}}}
web: {http: %q}
logger: {level: error}
oauth2: {skipApprovalScreen: true, responseTypes: [code], alwaysShowLoginScreen: false}
expiry: {idTokens: %q, refreshTokens: {reuseInterval: 0s, disableRotation: false}}
enablePasswordDB: true
staticClients:
- {id: %s, secret: %s, name: Stagedoor, redirectURIs: [%q]}
- {id: other, secret: other-secret, name: Other, redirectURIs: [%q]}
staticPasswords:
%s`, d.Issuer, at.Hostname(), at.Port(), strings.TrimPrefix(at.Path, "/"), at.User.Username(), password(at), address, expiry, Client, Secret, redirect, redirect, people.String())
	must.OK(t, os.WriteFile(config, []byte(text), 0o600))
	cmd := exec.Command(testenv.Path(t, ".dev", "bin", "dex"), "serve", config)
	var out output
	cmd.Stdout, cmd.Stderr = &out, &out
	must.OK(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for deadline := time.Now().Add(time.Minute); ; {
		res, err := new(http.Client).Get(d.Issuer + "/.well-known/openid-configuration")
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return d
			}
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("dex ended: %v\n%s", err, &out)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("dex is not responding\n%s", &out)
		}
	}
}

var formAction = regexp.MustCompile(`<form[^>]*action="([^"]+)"`)

// Approve acts as a user at the provider: it opens the address, enters the password, and returns the query with which
// the browser is sent back. Each call uses a new browser.
func (d *Dex) Approve(t testing.TB, address, email string) string {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must.OK(t, err)
	var backTo *url.URL
	client := &http.Client{Jar: jar, CheckRedirect: func(req *http.Request, _ []*http.Request) error {
		if req.URL.Host == "stagedoor.test" {
			backTo = req.URL
			return http.ErrUseLastResponse
		}
		return nil
	}}
	res, err := client.Get(address)
	must.OK(t, err)
	page, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	must.OK(t, err)
	if backTo == nil {
		at := res.Request.URL
		if m := formAction.FindSubmatch(page); m != nil {
			at, err = at.Parse(strings.ReplaceAll(string(m[1]), "&amp;", "&"))
			must.OK(t, err)
		}
		res, err = client.PostForm(at.String(), url.Values{"login": {email}, "password": {userPassword}})
		must.OK(t, err)
		page, _ = io.ReadAll(res.Body)
		_ = res.Body.Close()
	}
	if backTo == nil {
		t.Fatalf("the browser is still at %s: %d %s", res.Request.URL, res.StatusCode, page)
	}
	return backTo.RawQuery
}

// output keeps what the process prints, for a failed test.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// password returns the password in the address of a database.
func password(at *url.URL) string {
	text, _ := at.User.Password()
	return text
}
