package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
	"github.com/stagedoor/stagedoor/internal/command/cli/profile"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// TestExitCodes covers every problem in the catalogue, so that a new one cannot get an exit code by accident.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, k := range problem.All() {
		want := core.ExitRejected
		switch {
		case k.Status == 410:
			want = core.ExitReconnect
		case k.Status == 429:
			want = core.ExitLimited
		case k.Upstream() && k.Status >= 500, k.Code == "egress-unavailable", k.Code == "connect-unavailable":
			want = core.ExitUpstream
		case k.Status == 401, k.Status == 403:
			want = core.ExitKey
		case k.Status == 404:
			want = core.ExitNotFound
		case k.Status >= 500:
			want = core.ExitOther
		}
		err := fmt.Errorf("call: %w", &stagedoor.Problem{Status: k.Status, Code: stagedoor.ProblemCode(k.Code)})
		if got := core.ExitCode(err); got != want {
			t.Errorf("%d %s: want %d, got %d", k.Status, k.Code, want, got)
		}
	}
	for want, err := range map[int]error{
		core.ExitOK: nil, core.ExitOther: errors.New("x"), core.ExitUsage: core.Usage("x"), core.ExitInterrupted: fmt.Errorf("x: %w", context.Canceled),
	} {
		if got := core.ExitCode(err); got != want {
			t.Errorf("%v: want %d, got %d", err, want, got)
		}
	}
}

// TestIdentity checks that --profile wins over the environment, and that a profile's key is never sent to
// the server in STAGEDOOR_URL.
func TestIdentity(t *testing.T) {
	t.Parallel()
	env := map[string]string{"HOME": t.TempDir(), "STAGEDOOR_KEYCHAIN": "off", "STAGEDOOR_URL": "http://env.test/"}
	app := &core.App{Env: env, Out: &output.Printer{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}, Now: time.Now}
	if _, err := app.Identity(); core.ExitCode(err) != core.ExitKey {
		t.Fatalf("without a key: %v", err)
	}
	store, err := app.Store()
	must.OK(t, err)
	if _, err := store.Save(savedProfile("work", "http://profile.test")); err != nil {
		t.Fatal(err)
	}
	if p, err := app.Identity(); err != nil || p.BaseURL != "http://profile.test" || p.Key.Reveal() != "sd_sandbox_work" {
		t.Fatalf("with a profile: %v %v", p.BaseURL, err)
	}
	env["STAGEDOOR_API_KEY"] = "sd_sandbox_env"
	if p, err := app.Identity(); err != nil || p.BaseURL != "http://env.test" || p.Key.Reveal() != "sd_sandbox_env" {
		t.Fatalf("with STAGEDOOR_API_KEY: %v %v", p.BaseURL, err)
	}
	app.ProfileName = "work"
	if p, err := app.Identity(); err != nil || p.Key.Reveal() != "sd_sandbox_work" {
		t.Fatalf("with --profile: %v", err)
	}
	app.ProfileName = "wrk"
	if _, err := app.Identity(); core.ExitCode(err) != core.ExitUsage {
		t.Fatalf("with an unknown profile: %v", err)
	}
	app.ProfileName, app.BaseURL = "work", "ftp://x"
	if _, err := app.Identity(); core.ExitCode(err) != core.ExitUsage {
		t.Fatalf("with an invalid server URL: %v", err)
	}
}

func savedProfile(name, base string) profile.Profile {
	return profile.Profile{Name: name, BaseURL: base, Key: secret.New("sd_sandbox_" + name)}
}

// Requests of one command reuse their connection.
func TestRequestsShareAConnection(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	app := &core.App{
		Env: map[string]string{"STAGEDOOR_URL": server.URL, "STAGEDOOR_API_KEY": "sd_sandbox_x"},
		Out: &output.Printer{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}, Now: time.Now,
	}
	for range 3 {
		_, err := app.API().Me.Get(t.Context())
		must.OK(t, err)
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("three requests opened %d connections", n)
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{"Maya": "Maya", "Maya main": "'Maya main'", "it's": `'it'\''s'`, "": "''", "a$b": "'a$b'"} {
		if got := core.Quote(word); got != want {
			t.Errorf("%q: want %s, got %s", word, want, got)
		}
	}
}

func TestSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	app := &core.App{Now: func() time.Time { return now }}
	for text, want := range map[string]string{"15m": "2026-11-16T11:45:00Z", "2d": "2026-11-14T12:00:00Z", "2026-01-01T00:00:00Z": "2026-01-01T00:00:00Z"} {
		got, err := app.Since(text)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%s: want %s, got %v %v", text, want, got, err)
		}
	}
	if _, err := app.Since("tomorrow"); err == nil || !strings.Contains(err.Error(), "tomorrow") {
		t.Errorf("got %v", err)
	}
}

// --profile wins over STAGEDOOR_OPS_TOKEN_FILE, which wins over the last login. A profile's token goes only to the listener
// that it was saved with, and no command for customers uses it.
func TestOperatorIdentity(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := map[string]string{"HOME": home, "STAGEDOOR_KEYCHAIN": "off", "STAGEDOOR_OPS_URL": "http://env.test/"}
	act := func(profileName, baseURL string) (string, int) {
		app := &core.App{Env: env, Out: &output.Printer{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}, Now: time.Now, ProfileName: profileName, BaseURL: baseURL}
		if err := app.ActAsOperator(); err != nil {
			return "", core.ExitCode(err)
		}
		p, err := app.Identity()
		must.OK(t, err)
		return p.BaseURL + " " + p.Key.Reveal(), core.ExitOK
	}
	if _, code := act("", ""); code != core.ExitKey {
		t.Errorf("without a token: exit code %d", code)
	}
	app := &core.App{Env: env, Out: &output.Printer{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}, Now: time.Now}
	store, err := app.Operators()
	must.OK(t, err)
	_, err = store.Save(savedProfile("staging", "http://staging.test"))
	must.OK(t, err)
	if _, err := app.Identity(); core.ExitCode(err) != core.ExitKey {
		t.Errorf("a command for customers has the identity of an operator: %v", err)
	}
	file := filepath.Join(home, "tokens")
	must.OK(t, os.WriteFile(file, []byte("\n# the new one first\n  first  \nsecond\n"), 0o600))
	for _, c := range []struct{ tokens, profile, base, want string }{
		{"", "", "", "http://staging.test sd_sandbox_staging"},
		{file, "", "", "http://env.test first"},
		{file, "", "http://flag.test", "http://flag.test first"},
		{file, "staging", "", "http://staging.test sd_sandbox_staging"},
	} {
		env["STAGEDOOR_OPS_TOKEN_FILE"] = c.tokens
		if got, _ := act(c.profile, c.base); got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
	if _, code := act("production", ""); code != core.ExitUsage {
		t.Errorf("with an unknown profile: exit code %d", code)
	}
	must.OK(t, os.WriteFile(file, []byte("# none\n"), 0o600))
	if _, code := act("", ""); code != core.ExitKey {
		t.Errorf("with a file without tokens: exit code %d", code)
	}
}
