package connectpages_test

import (
	"os"
	"os/exec"
	"testing"

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
