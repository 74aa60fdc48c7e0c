package testnode

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// ClockVariable is the variable of the environment with the seconds by which the clock of a program of BuildSkewed is
// ahead.
const ClockVariable = "TEST_CLOCK_AHEAD"

// skewed is added to package time of the standard library. The monotonic clock stays right, as on a machine whose clock
// is wrong.
const skewed = `package time

import "syscall"

var testAhead = func() (seconds int64) {
	text, _ := syscall.Getenv("` + ClockVariable + `")
	sign := int64(1)
	for _, c := range []byte(text) {
		if c == '-' {
			sign = -1
		} else {
			seconds = 10*seconds + int64(c-'0')
		}
	}
	return sign * seconds
}()
`

// BuildSkewed compiles stagedoord with a standard library whose time.Now is wrong by ClockVariable, and returns its
// path. No other program reads that variable.
func BuildSkewed(t testing.TB) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	must.OK(t, err)
	library := filepath.Join(strings.TrimSpace(string(out)), "src", "time")
	source, err := os.ReadFile(filepath.Join(library, "time.go"))
	must.OK(t, err)
	const reading = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(source), reading) != 1 {
		t.Fatal("time.Now of this version of Go differs from the one that the test changes")
	}
	dir := t.TempDir()
	replace := map[string]string{}
	for name, text := range map[string]string{
		"time.go":      strings.Replace(string(source), reading, reading+"\tsec += testAhead\n", 1),
		"testahead.go": skewed,
	} {
		replace[filepath.Join(library, name)] = filepath.Join(dir, name)
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	must.OK(t, err)
	file := filepath.Join(dir, "overlay.json")
	must.OK(t, os.WriteFile(file, overlay, 0o600))
	path := testenv.Path(t, ".dev", "test", "stagedoord-skewed")
	must.OK(t, build(testenv.Path(t), path, "-overlay", file))
	return path
}

// BuildRevision compiles stagedoord as it was at a revision of the repository, and returns its path.
func BuildRevision(t testing.TB, revision string) string {
	t.Helper()
	sources := filepath.Join(t.TempDir(), "sources")
	git := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = testenv.Path(t)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	git("worktree", "prune")
	git("worktree", "add", "--detach", sources, revision)
	defer git("worktree", "remove", "--force", sources)
	path := testenv.Path(t, ".dev", "test", "stagedoord-previous")
	must.OK(t, build(sources, path))
	return path
}
