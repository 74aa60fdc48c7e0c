package facts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// The index of the documentation lists every runbook and every page for operations, and the guide for operators lists
// all of its sections.
func TestContentsListEverything(t *testing.T) {
	t.Parallel()
	read := func(path ...string) string {
		text, err := os.ReadFile(testenv.Path(t, path...))
		must.OK(t, err)
		return string(text)
	}
	index := read("docs", "README.md")
	for _, folder := range []string{"runbooks", "operations"} {
		pages, err := filepath.Glob(testenv.Path(t, "docs", folder, "*.md"))
		must.OK(t, err)
		if len(pages) < 5 {
			t.Errorf("only %d pages were found in docs/%s", len(pages), folder)
		}
		for _, page := range pages {
			if link := "(" + folder + "/" + filepath.Base(page) + ")"; !strings.Contains(index, link) {
				t.Errorf("docs/README.md does not list %s", link)
			}
		}
	}
	guide := read("docs", "operators.md")
	for line := range strings.Lines(guide) {
		if title, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok && !strings.Contains(guide, "["+title+"](#") {
			t.Errorf("the contents of docs/operators.md lack %q", title)
		}
	}
}
