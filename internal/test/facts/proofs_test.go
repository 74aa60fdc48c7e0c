package facts_test

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// quoted finds what is in backticks: the path of a package, or the name of a test in the package before it.
var quoted = regexp.MustCompile("`([^`]+)`")

// Every threat of SECURITY.md has an asset, a control, and a test in the package that is named before it.
func TestProofsOfTheThreatModelExist(t *testing.T) {
	t.Parallel()
	root := testenv.Path(t)
	text, err := os.ReadFile(filepath.Join(root, "SECURITY.md")) //nolint:gosec // a document of the repository
	must.OK(t, err)
	_, model, _ := strings.Cut(string(text), "\n## Threat model\n")
	model, _, _ = strings.Cut(model, "\n## ")
	rows, tests := 0, 0
	for line := range strings.Lines(model) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.TrimSpace(cells[0]) == "asset" {
			continue
		}
		rows++
		if len(cells) != 4 {
			t.Errorf("%d cells, want asset, threat, control and proof: %s", len(cells), line)
			continue
		}
		places, proofs := []string(nil), 0
		for _, found := range quoted.FindAllStringSubmatch(cells[3], -1) {
			if name := found[1]; !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") {
				places = expand(name)
				for _, place := range places {
					if _, err := os.Stat(filepath.Join(root, place)); err != nil {
						t.Errorf("%q: %v", cells[1], err)
					}
				}
				continue
			} else if len(places) == 0 {
				t.Errorf("%q: %s has no package before it", cells[1], name)
			}
			proofs++
			for _, place := range places {
				if !hasTest(t, filepath.Join(root, place), found[1]) {
					t.Errorf("%q: %s has no test %s", cells[1], place, found[1])
				}
			}
		}
		if tests += proofs; proofs == 0 && !strings.Contains(cells[3], "`.ci/run`") {
			t.Errorf("%q: no test is named", cells[1])
		}
	}
	if rows < 40 || tests < 60 {
		t.Errorf("only %d threats and %d tests were found", rows, tests)
	}
}

// expand returns the paths that a{b,c} stands for.
func expand(path string) (paths []string) {
	before, rest, found := strings.Cut(path, "{")
	if !found {
		return []string{path}
	}
	inside, after, _ := strings.Cut(rest, "}")
	for one := range strings.SplitSeq(inside, ",") {
		paths = append(paths, before+one+after)
	}
	return paths
}

// hasTest reports whether a test file of a package has a function, or one whose name begins so if the name ends with an
// ellipsis.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	start := "func " + strings.TrimSuffix(name, "…")
	if !strings.HasSuffix(name, "…") {
		start += "("
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	must.OK(t, err)
	for _, path := range files {
		file, err := os.Open(path) //nolint:gosec // a file of the repository
		must.OK(t, err)
		found := false
		for lines := bufio.NewScanner(file); lines.Scan() && !found; {
			found = strings.HasPrefix(lines.Text(), start)
		}
		must.OK(t, file.Close())
		if found {
			return true
		}
	}
	return false
}
