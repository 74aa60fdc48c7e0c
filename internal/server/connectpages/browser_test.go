package connectpages_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// A real browser uses the pages, with the whole product and the sandbox behind them. The test needs Node 20 and
// Chromium, so it runs only if BROWSE names a folder for its screenshots; testdata/browse.mjs lists its other
// variables.
//
//	BROWSE=/tmp/shots AXE=/tmp/axe.min.js go test -v -run TestInABrowser -timeout 20m ./internal/server/connectpages/
func TestInABrowser(t *testing.T) {
	t.Parallel()
	shots := os.Getenv("BROWSE")
	if shots == "" {
		t.Skip("set BROWSE to a folder for the screenshots")
	}
	_, setup := testnode.Sandbox(t, nil)
	log := &logBuffer{}
	setup.Log = log
	node := testnode.Processes(t, 1, setup)[0]
	org := node.NewOrg(t, map[string]int{"connectAttemptsPerHour": -1, "maxAccounts": -1, "callsPerMinute": -1})
	person := exec.CommandContext(t.Context(), "node", "testdata/browse.mjs", shots)
	person.Env = append(os.Environ(), "BASE_URL="+node.URL, "API_KEY="+org.Key)
	person.Stdout, person.Stderr = os.Stdout, os.Stderr
	if err := person.Run(); err != nil {
		said := log.String()
		t.Errorf("%v; the end of the node's log:\n%s", err, said[max(0, len(said)-4000):])
	}
}

// A browser connects an account on a platform with sites, with the fake backend. It needs the same variables.
func TestInABrowserWithASite(t *testing.T) {
	t.Parallel()
	shots := os.Getenv("BROWSE")
	if shots == "" {
		t.Skip("set BROWSE to a folder for the screenshots")
	}
	s := newFixture(t)
	s.clock.at = time.Time{} // Streams need the real time.
	control := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.do(r.URL.Query().Get("token"), s.next)
	}))
	t.Cleanup(control.Close)
	var paths []string
	for range 3 {
		token, _ := s.open(link.Session{Platform: "ghost", ReturnURL: "https://app.example/cb"})
		paths = append(paths, "/s/"+token)
	}
	person := exec.CommandContext(t.Context(), "node", "testdata/site.mjs", shots)
	person.Env = append(os.Environ(), "BASE_URL="+s.url, "CONTROL="+control.URL, "PAGES="+strings.Join(paths, " "))
	person.Stdout, person.Stderr = os.Stdout, os.Stderr
	if err := person.Run(); err != nil {
		t.Error(err)
	}
}
