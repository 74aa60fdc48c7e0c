package app_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stagedoor/stagedoor/internal/app"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// protectHere makes the test program, started again, protect itself and print the result.
const protectHere = "STAGEDOOR_TEST_PROTECT"

// The memory of a protected process cannot be dumped.
func TestProtect(t *testing.T) {
	t.Parallel()
	if os.Getenv(protectHere) != "" {
		must.OK(t, app.Protect())
		var core unix.Rlimit
		must.OK(t, unix.Getrlimit(unix.RLIMIT_CORE, &core))
		dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		must.OK(t, err)
		fmt.Printf("core %d %d, dumpable %d\n", core.Cur, core.Max, dumpable)
		return
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProtect$")
	again.Env = append(os.Environ(), protectHere+"=1")
	out, err := again.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "core 0 0, dumpable 0\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The server protects itself at its start. Operators can still see how much memory it uses.
func TestServerIsProtected(t *testing.T) {
	t.Parallel()
	node := testnode.Processes(t, 1, testnode.Setup{})[0]
	proc := fmt.Sprintf("/proc/%d/", node.Process.PID())
	limits, err := os.ReadFile(proc + "limits")
	must.OK(t, err)
	for line := range strings.Lines(string(limits)) {
		if rest, found := strings.CutPrefix(line, "Max core file size"); found && strings.Join(strings.Fields(rest), " ") != "0 0 bytes" {
			t.Error(line)
		}
	}
	status, err := os.ReadFile(proc + "status")
	must.OK(t, err)
	if !strings.Contains(string(limits), "Max core file size") || !strings.Contains(string(status), "VmRSS:") {
		t.Errorf("%s%s", limits, status)
	}
}
