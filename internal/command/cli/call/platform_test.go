package call_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/call"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// service is a fake of the API. The id of an account ends with its platform.
type service struct {
	*httptest.Server
	// platforms are those of the organisation. canRead means that the key may read accounts.
	platforms []string
	canRead   bool

	mu sync.Mutex
	// requests are all requests, as method and path. body is that of the last call.
	requests []string
	body     map[string]any
}

func newService(t *testing.T, canRead bool, platforms ...string) *service {
	t.Helper()
	s := &service{platforms: platforms, canRead: canRead}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/platforms", func(w http.ResponseWriter, _ *http.Request) {
		list := []map[string]any{}
		for _, id := range s.platforms {
			list = append(list, map[string]any{"id": id, "name": id})
		}
		answer(w, http.StatusOK, map[string]any{"platforms": list})
	})
	mux.HandleFunc("GET /v1/accounts/{id}", func(w http.ResponseWriter, r *http.Request) {
		if !s.canRead {
			answer(w, http.StatusForbidden, map[string]any{"code": "scope-missing", "status": 403, "missingScope": "accounts:read"})
			return
		}
		_, platform, _ := strings.Cut(r.PathValue("id"), "_")
		answer(w, http.StatusOK, map[string]any{"account": map[string]any{"id": r.PathValue("id"), "platform": platform}})
	})
	mux.HandleFunc("GET /v1/sdk/methods", func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(s.platforms, r.URL.Query().Get("platform")) {
			answer(w, http.StatusBadRequest, map[string]any{"code": "invalid-request", "status": 400, "errors": []any{
				map[string]any{"pointer": "query/platform", "detail": "must be one of " + strings.Join(s.platforms, ", ")},
			}})
			return
		}
		if resource := r.URL.Query().Get("resource"); resource != "" && resource != "patrons" {
			answer(w, http.StatusBadRequest, map[string]any{"code": "invalid-request", "status": 400})
			return
		}
		args := map[string]any{"type": "object", "properties": map[string]any{"limit": map[string]any{"type": "integer"}}}
		answer(w, http.StatusOK, map[string]any{"methods": []any{map[string]any{
			"resource": "patrons", "method": "list", "access": "read", "positional": []string{"limit"}, "args": args, "description": "List patrons.",
		}}})
	})
	mux.HandleFunc("POST /v1/accounts/{id}/{resource}/{method}", func(w http.ResponseWriter, r *http.Request) {
		s.body = map[string]any{}
		if json.NewDecoder(r.Body).Decode(&s.body) != nil {
			http.Error(w, "the body is not JSON", http.StatusInternalServerError)
			return
		}
		answer(w, http.StatusOK, map[string]any{"result": nil})
	})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// run runs a command with a key of an environment and returns its output.
func (s *service) run(t *testing.T, environment string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, messages bytes.Buffer
	app := &core.App{
		Env: map[string]string{"STAGEDOOR_URL": s.URL, "STAGEDOOR_API_KEY": "sd_" + environment + "_0123456789"},
		Out: &output.Printer{Stdout: &out, Stderr: &messages}, Now: time.Now,
	}
	root := &cobra.Command{Use: "stagedoor", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(call.Commands(app)...)
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(io.Discard)
	err = root.ExecuteContext(t.Context())
	return out.String(), messages.String(), err
}

// The catalogue of the account's platform decides the types of arguments: limit is a number where the platform says so.
// It is a text if the platform is not known.
func TestArgumentsAreThoseOfTheAccountsPlatform(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		platforms []string
		canRead   bool
		account   string
		method    string
		want      any
	}{
		"built in":                     {[]string{"sandbox", "ghost"}, true, "acct_ghost", "members.list", 7.0},
		"another built-in one":         {[]string{"sandbox", "ghost"}, true, "acct_sandbox", "fans.list", 7.0},
		"a method of another platform": {[]string{"sandbox", "ghost"}, true, "acct_sandbox", "members.list", "7"},
		"not built in":                 {[]string{"club"}, true, "acct_club", "patrons.list", 7.0},
		"a method without a catalogue": {[]string{"club"}, true, "acct_club", "patrons.find", "7"},
		"unreadable, one platform":     {[]string{"ghost"}, false, "acct_ghost", "members.list", 7.0},
		"unreadable, two platforms":    {[]string{"ghost", "club"}, false, "acct_ghost", "members.list", "7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, c.canRead, c.platforms...)
			_, _, err := s.run(t, "live", "call", c.method, "-a", c.account, "limit=7")
			must.OK(t, err)
			if got := s.body["limit"]; got != c.want {
				t.Errorf("limit is sent as %T %v", got, got)
			}
		})
	}
	s := newService(t, true, "sandbox", "ghost")
	if _, _, err := s.run(t, "live", "call", "members.list", "-a", "acct_ghost", "limt=7"); core.ExitCode(err) != core.ExitUsage {
		t.Errorf("a mistyped argument: %v", err)
	}
}

// A developer can read the methods of a built-in platform before the organisation has it. Other unknown platforms are
// the server's error.
func TestMethodsOfAPlatformThatTheOrganisationLacks(t *testing.T) {
	t.Parallel()
	s := newService(t, true, "sandbox")
	stdout, stderr, err := s.run(t, "sandbox", "methods", "--platform", "ghost", "--access", "write", "member")
	must.OK(t, err)
	if !strings.Contains(stdout, "members.create\twrite\t") || strings.Contains(stdout, "members.list") || strings.Contains(stdout, "tags.create") {
		t.Errorf("the methods of Ghost that write and concern members:\n%s", stdout)
	}
	if !strings.Contains(stderr, "does not have the platform ghost") {
		t.Errorf("the messages do not say that the organisation cannot use them: %q", stderr)
	}
	if stdout, _, err = s.run(t, "sandbox", "methods", "show", "members.get", "--platform", "ghost"); err != nil || !strings.Contains(stdout, "memberId") {
		t.Errorf("one method of Ghost: %v\n%s", err, stdout)
	}
	if _, _, err = s.run(t, "sandbox", "methods", "--platform", "club"); core.ExitCode(err) != core.ExitRejected {
		t.Errorf("a platform that is not built in: %v", err)
	}
}

// Completion uses the built-in catalogues. It makes a request only for an account, or for a platform that is not built
// in.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		environment string
		args        []string
		want, not   string
		requests    int
	}{
		"a live key":           {"live", []string{"call", "mem"}, "members.list", "messages.send", 0},
		"a sandbox key":        {"sandbox", []string{"call", "me"}, "messages.send", "members.list", 0},
		"arguments":            {"live", []string{"call", "members.get", "m"}, "memberId=", "limit=", 0},
		"a platform":           {"sandbox", []string{"methods", "show", "--platform", "ghost", "me"}, "members.get", "messages.send", 0},
		"another platform":     {"sandbox", []string{"methods", "show", "--platform", "club", ""}, "patrons.list", "messages.send", 1},
		"an account":           {"sandbox", []string{"call", "-a", "acct_ghost", "me"}, "members.list", "messages.send", 1},
		"arguments by account": {"sandbox", []string{"call", "-a", "acct_ghost", "members.get", "m"}, "memberId=", "limit=", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, true, "sandbox", "club")
			stdout, _, err := s.run(t, c.environment, append([]string{cobra.ShellCompRequestCmd}, c.args...)...)
			must.OK(t, err)
			if !strings.Contains(stdout, c.want) || strings.Contains(stdout, c.not) || len(s.requests) != c.requests {
				t.Errorf("%d requests, and:\n%s", len(s.requests), stdout)
			}
		})
	}
}
